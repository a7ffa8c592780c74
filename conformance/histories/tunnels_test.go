package histories

import (
	"context"
	"runtime"
	"testing"
)

// TestTunnelHistoriesAreLinearizable races tunnels with the listeners and the guests that they lead to.
func TestTunnelHistoriesAreLinearizable(t *testing.T) {
	r, err := Run(context.Background(), Config{
		Scope: ByTunnel, Histories: count(t, 250), Seed: 1, Workers: runtime.GOMAXPROCS(0), PerDaemon: 25,
		Start: startBinary, FailDir: "../failures",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Write(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 {
		t.Errorf("%d histories were not decided", r.Undecided)
	}
	if r.Operations < 40*r.Histories || r.Overlapping < 3*r.Histories {
		t.Errorf("%d operations, %d overlapping: a history has at least 40, of which 3 overlap", r.Operations, r.Overlapping)
	}
	for _, id := range []string{"TUNNEL-3", "TUNNEL-5", "TUNNEL-7", "TUNNEL-11", "TUNNEL-17", "AGENTD-19", "AGENTD-20"} {
		if r.Requirements[id] == 0 {
			t.Errorf("no operation showed %s", id)
		}
	}
}

// on is an operation on tunnel t1; its Verified makes the tunnel a verified one.
func on(k Kind, a Answer) Operation {
	return Operation{Kind: k, Tunnel: "t1", Verified: true, Answer: &a}
}

func opened(serial, generation int) Operation {
	return on(Open, Answer{Status: 101, Serial: serial, Generation: generation, Bytes: guestGreeting(serial)})
}

func sent(text string) Operation {
	o := on(Send, Answer{})
	o.Text = text
	return o
}

func unsent(text string) Operation {
	o := sent(text)
	o.Answer.End = "ended"
	return o
}

func received(bytes, end string) Operation { return on(Receive, Answer{Bytes: bytes, End: end}) }

func hangup() Operation { return on(Hangup, Answer{}) }

func cutoff() Operation { return on(Cutoff, Answer{}) }

func guestEnd(echoed int) Operation { return on(GuestEnd, Answer{Changed: true, Count: echoed}) }

func guestSaw(bytes, end string) Operation { return on(GuestSaw, Answer{Bytes: bytes, End: end}) }

// fickle makes an operation one on the port whose listener comes and goes.
func fickle(o Operation) Operation {
	o.Port = ficklePort
	return o
}

func listen(generation int, changed bool) Operation {
	return fickle(Operation{Kind: Listen, Answer: &Answer{Generation: generation, Changed: changed}})
}

func unlisten(changed bool) Operation {
	return fickle(Operation{Kind: Unlisten, Answer: &Answer{Changed: changed}})
}

func closed(code int) Operation { return fickle(on(Open, Answer{Status: code})) }

// plain makes every operation one on a plain tunnel.
func plain(ops []Operation) []Operation {
	for i := range ops {
		ops[i].Verified = false
	}
	return ops
}

// TestJudgeFindsPlantedTunnelFaults judges small histories of tunnels whose verdict is known. The planted ones are what a
// daemon with a real mistake would show.
func TestJudgeFindsPlantedTunnelFaults(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	other := func(o Operation) Operation {
		o.Tunnel = "t2"
		return o
	}
	slots := func(n int) Operation { return Operation{Kind: Slots, Answer: &Answer{Count: n}} }
	for _, c := range []struct {
		name string
		ops  []Operation
		want Verdict
	}{
		{"an upload that ends", sequence(opened(1, 1), sent("w001"), sent("w002"), received("w001", ""), hangup(), received("", "local"), unsent("w003"), guestSaw("w001w002", "eof")), Linearizable},
		{"a download that ends", sequence(opened(1, 1), sent("w001"), guestEnd(1), received("w001", "closed"), unsent("w002"), guestSaw("w001", "own")), Linearizable},
		{"a plain end", plain(sequence(opened(1, 1), sent("w001"), guestEnd(1), received("w001", "closed"), guestSaw("w001", "own"))), Linearizable},
		{"a cut", sequence(opened(1, 1), sent("w001"), sent("w002"), cutoff(), received("w001", "truncated"), guestSaw("w001", "reset")), Linearizable},
		{"a plain cut", plain(sequence(opened(1, 1), sent("w001"), cutoff(), received("", "failed"), guestSaw("w001", "eof"))), Linearizable},
		{"what the guest has in flight is dropped", sequence(opened(1, 1), sent("w001"), sent("w002"), guestEnd(1), received("w001", "closed"), guestSaw("w001", "own")), Linearizable},
		{"senders at once", beside(opened(1, 1), sent("w001"), sent("w002"), received("w002w001", "")), Linearizable},
		{"listeners", sequence(closed(4502), listen(1, true), fickle(opened(1, 1)), unlisten(true), closed(4502), unlisten(false), listen(2, true), fickle(other(opened(2, 2)))), Linearizable},
		{"a listener that leaves before it takes the connection", beside(listen(1, true), unlisten(true), closed(4500)), Linearizable},
		{"every slot", sequence(slots(maxSlots)), Linearizable},

		{"a byte that is lost", sequence(opened(1, 1), sent("w001"), sent("w002"), received("w002", "")), NotLinearizable},
		{"a byte that comes twice", sequence(opened(1, 1), sent("w001"), received("w001", ""), received("w001", "")), NotLinearizable},
		{"bytes out of order", sequence(opened(1, 1), sent("w001"), sent("w002"), received("w002w001", "")), NotLinearizable},
		{"readers that disagree about the order", append(beside(opened(1, 1), sent("w001"), sent("w002"), received("w002", "")), sequence(received("w002", ""))...), NotLinearizable},
		{"a byte of another tunnel", sequence(opened(1, 1), other(opened(2, 1)), other(sent("w001")), sent("w002"), received("w001", "")), NotLinearizable},
		{"a byte before it was sent", sequence(opened(1, 1), received("w001", ""), sent("w001")), NotLinearizable},
		{"half a byte", sequence(opened(1, 1), sent("w001"), received("w0", "")), NotLinearizable},
		{"a proven end without the last byte", sequence(opened(1, 1), sent("w001"), guestEnd(1), received("", "closed")), NotLinearizable},
		{"a proven end that nobody asked for", sequence(opened(1, 1), sent("w001"), received("w001", "closed")), NotLinearizable},
		{"a proven end of a cut", sequence(opened(1, 1), sent("w001"), cutoff(), received("w001", "closed")), NotLinearizable},
		{"an end unproven", sequence(opened(1, 1), guestEnd(0), received("", "truncated")), NotLinearizable},
		{"a refusal in the middle", sequence(opened(1, 1), sent("w001"), received("", "refused")), NotLinearizable},
		{"a write refused while it stands", sequence(opened(1, 1), unsent("w001")), NotLinearizable},
		{"a write taken after the end", sequence(opened(1, 1), hangup(), sent("w001")), NotLinearizable},
		{"an upload that loses its end", sequence(opened(1, 1), sent("w001"), hangup(), guestSaw("", "eof")), NotLinearizable},
		{"an upload that ends in a reset", sequence(opened(1, 1), sent("w001"), hangup(), guestSaw("w001", "reset")), NotLinearizable},
		{"a cut that looks like an end", sequence(opened(1, 1), sent("w001"), cutoff(), guestSaw("w001", "eof")), NotLinearizable},
		{"a guest that is ended by nobody", sequence(opened(1, 1), guestSaw("", "eof")), NotLinearizable},
		{"a guest that gets what nobody sent", sequence(opened(1, 1), sent("w001"), hangup(), guestSaw("w001w002", "eof")), NotLinearizable},
		{"a plain upload that loses its end", plain(sequence(opened(1, 1), sent("w001"), hangup(), guestSaw("", "eof"))), NotLinearizable},
		{"a refusal while somebody listens", sequence(listen(1, true), closed(4502)), NotLinearizable},
		{"a connection while nobody listens", sequence(listen(1, true), unlisten(true), fickle(opened(1, 1))), NotLinearizable},
		{"a connection to the listener before", sequence(listen(1, true), unlisten(true), listen(2, true), fickle(opened(1, 1))), NotLinearizable},
		{"a guest lost while it stays", sequence(listen(1, true), closed(4500), unlisten(true)), NotLinearizable},
		{"two tunnels to one connection", sequence(opened(1, 1), other(opened(1, 1))), NotLinearizable},
		{"a greeting of nobody", sequence(on(Open, Answer{Status: 101, Bytes: "w001"})), NotLinearizable},
		{"another close code", sequence(closed(4400)), NotLinearizable},
		{"a slot that did not come back", sequence(slots(maxSlots - 1)), NotLinearizable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, text := Judge(planted(ByTunnel, c.ops))
			if got != c.want || (text == "") != (got == Linearizable) {
				t.Errorf("the judge says %q (%s), want %q", got, text, c.want)
			}
		})
	}
}

// TestTamperedTunnelHistoriesAreFound records histories of a real daemon and changes one answer of each at a time: a unit
// that is lost, doubled or another's is found wherever it was received.
func TestTamperedTunnelHistoriesAreFound(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	found := map[string]int{}
	c := Config{Scope: ByTunnel, Seed: 1000, Start: startBinary}
	err := c.onOneDaemon(t.Context(), 0, 6, func(h *History) error {
		if v, text := Judge(h); v != Linearizable {
			t.Errorf("%s: %s", h.Name, text)
		}
		for i := range h.Operations {
			o := &h.Operations[i]
			if o.Kind != Receive || len(o.Answer.Bytes) < Unit {
				continue
			}
			seen := o.Answer
			for name, bytes := range map[string]string{"foreign": "w255", "doubled": seen.Bytes[:Unit] + seen.Bytes, "torn": seen.Bytes[:Unit-1]} {
				o.Answer = &Answer{Bytes: bytes, End: seen.End}
				if v, _ := Judge(h); v != NotLinearizable {
					t.Errorf("%s: operation %d may receive %q, %s", h.Name, i, bytes, name)
				}
				found[name]++
			}
			o.Answer = seen
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(found)
	if found["foreign"] < 10 {
		t.Errorf("%v units were tampered with, want at least 10 of each kind", found)
	}
}
