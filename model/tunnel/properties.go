package tunnel

import "microvms/model"

// Names of properties that the published counts speak about.
const (
	onlyPinned       = "only the pinned host's handshake is accepted"
	dialAfter        = "nothing is dialed before the handshake"
	clientOrder      = "the client gets the guest's bytes in order, each once"
	guestOrder       = "the guest gets the caller's bytes in order, each once"
	endProven        = "a guest's end is proven to the caller"
	wholeDownload    = "a download that counts as closed is whole"
	wholeUpload      = "a guest that reads its end has all of the caller's bytes"
	handshakeRefused = "a handshake is refused"
)

// refusing reports whether no tunnel can come about: what the properties of one
// speak about is then never reached.
func (c *Config) refusing() bool {
	return c.Impostor || c.Caller != Launcher || c.servedPort() != clientPort
}

// current reports whether both ends offer an end of stream.
func (c *Config) current() bool { return c.daemonOffers() && c.clientOffers() }

// properties are stated for every configuration. Where their case cannot be
// reached, which the witnesses show, they are stated without it.
func (c *Config) properties() []model.Property[State] {
	always := func(name string, holds, when func(s State) bool, ids ...string) model.Property[State] {
		p := model.Always(name, func(s State) bool { return !when(s) || holds(s) }, ids...)
		if c.refusing() || !c.current() {
			return p
		}
		return p.When(when)
	}
	ps := []model.Property[State]{
		always(onlyPinned,
			func(s State) bool { return c.Caller == Launcher },
			func(s State) bool { return s.Far.Established && !c.Impostor }, "AGENTD-17"),
		always(dialAfter,
			func(s State) bool { return s.Far.Established },
			func(s State) bool { return s.Far.Dialed }, "AGENTD-18"),
		model.Always("an impostor gets no byte of the caller", func(s State) bool { return s.Far.Stolen.Len == 0 }, "BIND-21"),
		model.Always("no byte of an impostor is delivered", func(s State) bool {
			for _, b := range s.Client.Received.Bytes[:s.Client.Received.Len] {
				if b == impostorItem {
					return false
				}
			}
			return true
		}, "BIND-21"),
		always(clientOrder,
			func(s State) bool { return s.Client.Received.inOrder() },
			func(s State) bool { return s.Client.Received.Len > 0 }, "BIND-24"),
		always(guestOrder,
			func(s State) bool { return s.Far.GuestReceived.inOrder() },
			func(s State) bool { return s.Far.GuestReceived.Len > 0 }, "AGENTD-21"),
		always(endProven,
			func(s State) bool { return s.Far.SentEnd || c.OldDaemon },
			func(s State) bool { return s.Far.GuestEndedFirst }, "AGENTD-19"),
		always(wholeDownload,
			func(s State) bool { return s.Client.Received.Len == c.Guest && s.Client.Received.inOrder() },
			func(s State) bool { return c.current() && s.Client.End == Closed && !s.Client.EndedFirst }, "BIND-23"),
		model.Always("an unproven close comes from a far end that offered nothing", func(s State) bool {
			return s.Client.End != ClosedUnproven || !c.daemonOffers()
		}, "BIND-23"),
		always(wholeUpload,
			func(s State) bool { return s.Far.GuestReceived.Len == c.CallerBytes && s.Far.GuestReceived.inOrder() },
			func(s State) bool { return c.current() && s.Far.Guest == Eof && !s.Far.GuestEndedFirst && !c.Impostor },
			"AGENTD-20"),
	}
	return append(append(ps, c.readyProperties()...), c.witnesses()...)
}

// readyProperties are those of protocol 2.
func (c *Config) readyProperties() []model.Property[State] {
	if !c.Ready {
		return nil
	}
	dialed := func(s State) bool { return s.Far.Dialed }
	late := func(_ State, a model.Action, _ State) bool { return a.ID == HelloDeadline || a.ID == ReadyDeadline }
	ps := []model.Property[State]{
		model.Always("nothing is dialed before the ready message opened",
			func(s State) bool { return !s.Far.Dialed || s.Far.Ready }, "AGENTD-18", "TUNNEL-10"),
		model.Always("the port that is dialed is the one that the client asked for",
			func(s State) bool { return !s.Far.Dialed || s.Far.DialedPort == clientPort }, "TUNNEL-6"),
		model.AlwaysStep("a deadline that passes refuses and dials nothing",
			func(from State, a model.Action, to State) bool {
				return !late(from, a, to) || (to.Far.Refused && to.Far.Done && !to.Far.Dialed)
			}, "TUNNEL-9", "TUNNEL-10"),
	}
	if !c.refusing() {
		ps[0], ps[1], ps[2] = ps[0].When(dialed), ps[1].When(dialed), ps[2].WhenStep(late)
	}
	if c.Live {
		ps = append(ps,
			model.LeadsTo("a tunnel that was asked for ends at the daemon",
				func(s State) bool { return s.Client.Phase != Idle }, func(s State) bool { return s.Far.Done }, "TUNNEL-11"),
			model.LeadsTo("a tunnel that was asked for ends at the client",
				func(s State) bool { return s.Client.Phase != Idle }, func(s State) bool { return s.Client.Phase == Done }, "TUNNEL-11"))
	}
	return ps
}

// witnesses are the cases without which a pass would mean nothing. Each is
// stated where it can be reached.
func (c *Config) witnesses() []model.Property[State] {
	if !c.Impostor && c.refusing() {
		return []model.Property[State]{
			model.Sometimes(handshakeRefused, func(s State) bool { return s.Client.End == Refused && s.Far.Refused && !s.Far.Dialed }, "AGENTD-17"),
		}
	}
	if c.Impostor {
		return []model.Property[State]{
			model.Sometimes("an impostor is not believed", func(s State) bool { return s.Client.End == Failed && s.Far.Established }, "BIND-21"),
		}
	}
	ps := []model.Property[State]{
		model.Sometimes("a whole download", func(s State) bool {
			return s.Client.End == Closed && !s.Client.EndedFirst && s.Client.Received.Len == c.Guest
		}, "BIND-23", "AGENTD-19"),
		model.Sometimes("a whole upload", func(s State) bool {
			return s.Far.Guest == Eof && !s.Far.GuestEndedFirst && s.Far.GuestReceived.Len == c.CallerBytes
		}, "AGENTD-20"),
		model.Sometimes("a cut stream is truncated", func(s State) bool { return s.Client.End == Truncated }, "BIND-23"),
		model.Sometimes("a cut upload resets the guest", func(s State) bool { return s.Far.Guest == Reset }, "AGENTD-20"),
		model.Sometimes("a tampered frame fails the client", func(s State) bool { return s.Client.End == Failed && s.Client.Session != noSession }, "BIND-24"),
	}
	if c.Ready {
		ps = append(ps, model.Sometimes("a far end that proves nothing is not believed", func(s State) bool {
			return s.Client.End == Failed && s.Client.Session == noSession && s.Far.Established
		}, "BIND-21"))
	}
	switch {
	case c.OldDaemon:
		return append(ps[1:2:2], ps[4])
	case c.OldClient:
		return []model.Property[State]{ps[1], ps[2], ps[4]}
	case c.Budget == 0:
		return ps[:2]
	}
	return ps
}

// New returns the model of a configuration.
func New(c Config) model.Model[State] {
	m := model.Model[State]{
		Name: "tunnel", Config: c.Name, Actions: Actions(),
		Init:       func(out []State) []State { return append(out, State{Budget: c.Budget}) },
		Next:       c.next,
		Properties: c.properties(),
	}
	m.MayBeDead = c.mayBeDead()
	if c.Live {
		m.Fairness = fairness()
	}
	return m
}

// fairness is a path that delivers what it does not take away, and parties and
// clocks that go on.
func fairness() []model.Fairness {
	deliver := func(name string, d Dir) model.Fairness {
		return model.Fairness{Name: name, Match: func(a model.Action) bool { return a.ID == Deliver && Dir(a.Arg[0]) == d }}
	}
	return []model.Fairness{
		deliver("delivery to the daemon", ToFar), deliver("delivery to the client", ToClient),
		model.Weak("the client goes on", ClientSend, ClientLocalEof),
		model.Weak("the guest goes on", GuestSend, GuestEof),
		model.Weak("the deadlines pass", HelloDeadline, ReadyDeadline),
	}
}

// mayBeDead names the actions that the configuration has no use for.
func (c *Config) mayBeDead() []string {
	dead := []string{}
	add := func(unused bool, names ...string) {
		if unused {
			dead = append(dead, names...)
		}
	}
	add(!c.Impostor, "ImpostorSend")
	add(!c.Ready, "HelloDeadline", "ReadyDeadline")
	add(!c.Ready && c.Deviation != OfferInClear, "Strip")
	add(c.Budget == 0, "Drop", "Swap", "Replay", "ForgeClose", "HangUp", "Strip")
	add(c.refusing(), "ClientSend", "ClientLocalEof", "GuestSend", "GuestEof", "Swap", "ReadyDeadline")
	add(c.Impostor, "HelloDeadline")
	return dead
}
