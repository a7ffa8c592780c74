package histories

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"microvms/agentd/api"
	"microvms/model/tunnel"
)

// portState is one guest port: whether somebody listens, and how many listeners there were.
type portState struct {
	Listening  bool
	Generation int
}

// portApply is the sequential specification of a port: a tunnel reaches the listener that is there, or is refused.
func portApply(s portState, e entry) []portState {
	a := e.Answer
	ok := true
	switch e.Kind {
	case Listen:
		ok = a.Changed != s.Listening
		if !s.Listening {
			s = portState{true, s.Generation + 1}
		}
		ok = ok && a.Generation == s.Generation
	case Unlisten:
		ok = a.Changed == s.Listening
		s.Listening = false
	case Open:
		ok = a.Status != api.TunnelNoListener && s.Listening && a.Generation == s.Generation ||
			a.Status == api.TunnelNoListener && !s.Listening
	}
	if !ok {
		return nil
	}
	return []portState{s}
}

// tunnelState is one tunnel that reached a guest: the model's state, and what
// the model does not know because its bytes are numbered.
type tunnelState struct {
	World tunnel.State
	Order [tunnel.MaxBytes]uint8 // the units in the order in which they were sent
	Taken uint8                  // units that the caller has received
	Local bool                   // the caller has closed its end
	Own   bool                   // the guest has ended its side
}

// tunnelSpec is the sequential specification of one tunnel. What is one step
// here is one in the atomic form of the tunnel's model; frames that move and the
// guest's echo are its silent steps.
type tunnelSpec struct {
	atomic tunnel.Atomic
}

func tunnelSpecification(verified bool) specification[tunnelState] {
	x := tunnelSpec{tunnel.Atomic{Verified: verified}}
	return specification[tunnelState]{init: tunnelState{World: x.atomic.Established()}, silent: x.silent, apply: x.apply}
}

func (x tunnelSpec) silent(s tunnelState) []tunnelState {
	var out []tunnelState
	for _, w := range x.atomic.Silent(s.World, nil) {
		to := s
		to.World = w
		out = append(out, to)
	}
	return out
}

func (x tunnelSpec) apply(s tunnelState, e entry) []tunnelState {
	switch e.Kind {
	case Send:
		return x.send(s, e)
	case Receive:
		return x.receive(s, e.Answer)
	case Hangup:
		if e.half == first {
			s.Local = true // Reads end here, the last Write may still go out
			return []tunnelState{s}
		}
		return x.step(s, x.atomic.Close)
	case Cutoff:
		return x.step(s, x.atomic.Cut)
	case GuestEnd:
		return x.guestEnd(s, e.Answer)
	case GuestSaw:
		return x.guestSaw(s, e.Answer)
	}
	return nil
}

// step takes a step of the model where it can be taken; who comes second changes nothing.
func (x tunnelSpec) step(s tunnelState, act func(tunnel.State) (tunnel.State, bool)) []tunnelState {
	if w, ok := act(s.World); ok {
		s.World = w
	}
	return []tunnelState{s}
}

// over reports whether the caller's end of the tunnel takes no more.
func (s *tunnelState) over() bool {
	return s.Local || s.World.HungUp || s.World.Client.Phase == tunnel.Done
}

func (x tunnelSpec) send(s tunnelState, e entry) []tunnelState {
	var out []tunnelState
	if e.Answer.End != "" {
		if s.over() {
			out = append(out, s)
		}
		// A write that failed may have gone out before the cut that failed it.
		if !s.World.HungUp {
			return out
		}
	}
	if w, ok := x.atomic.Send(s.World); ok {
		s.Order[s.World.Client.Sent] = textNumber(e.Text)
		s.World = w
		out = append(out, s)
	}
	return out
}

// receive holds units to the next ones that the model has delivered, and an end to the model's.
func (x tunnelSpec) receive(s tunnelState, a *Answer) []tunnelState {
	k := &s.World.Client
	n := len(a.Bytes) / Unit
	if len(a.Bytes)%Unit != 0 || int(s.Taken)+n > int(k.Received.Len) {
		return nil
	}
	for i := range n {
		// The model's bytes are numbered by their senders: the guest's echo of the caller's n-th is its own n-th.
		number := k.Received.Bytes[int(s.Taken)+i]
		if number >= k.Sent || a.Bytes[i*Unit:(i+1)*Unit] != textOf(s.Order[number]) {
			return nil
		}
	}
	s.Taken += uint8(n)
	if a.End != "" && !x.ended(&s, a.End) {
		return nil
	}
	return []tunnelState{s}
}

// ended reports whether the caller may learn that the tunnel ended so. All ends but its own come after the last byte
// that arrived.
func (x tunnelSpec) ended(s *tunnelState, end string) bool {
	k := &s.World.Client
	if end == endLocal {
		return s.Local
	}
	if s.Taken != k.Received.Len || k.EndedFirst {
		return false
	}
	if x.atomic.Verified {
		return k.End.String() == end
	}
	// A plain tunnel proves nothing: its normal close is the end, and a connection that is gone is a failure.
	if s.World.HungUp && end == "failed" {
		return true
	}
	return k.End == tunnel.ClosedUnproven && end == "closed"
}

func (x tunnelSpec) guestEnd(s tunnelState, a *Answer) []tunnelState {
	if !a.Changed {
		if s.World.Far.Guest == tunnel.Open && !s.Own {
			return nil // nobody ended before it
		}
		return []tunnelState{s}
	}
	s.Own = true
	w, ok := x.atomic.GuestEnd(s.World)
	if !ok {
		return []tunnelState{s} // the caller's end, or the cut, came first and the guest does not know yet
	}
	if a.Count != int(s.World.Far.Relayed) {
		return nil
	}
	s.World = w
	return []tunnelState{s}
}

// guestSaw holds what the guest got, in order, and how its connection ended, to the model.
func (x tunnelSpec) guestSaw(s tunnelState, a *Answer) []tunnelState {
	d := &s.World.Far
	n := len(a.Bytes) / Unit
	if n > int(s.World.Client.Sent) || len(a.Bytes)%Unit != 0 {
		return nil
	}
	for i := range n {
		if a.Bytes[i*Unit:(i+1)*Unit] != textOf(s.Order[i]) {
			return nil
		}
	}
	had := int(d.GuestReceived.Len)
	ok := false
	switch {
	case d.Guest == tunnel.Open:
	case d.GuestEndedFirst:
		ok = a.End == "own" && n >= had // what was on its way may still have come
	case d.Guest == tunnel.Reset:
		ok = (a.End == "reset" || s.Own) && n <= had
	default:
		// The end that is no reset says: this was all.
		ok = (a.End == "eof" || s.Own) && n == had
	}
	if !ok {
		return nil
	}
	return []tunnelState{s}
}

// tunnelParts splits a history of tunnels: each port and each tunnel by itself, for nothing couples them.
func (h *History) tunnelParts() []part {
	ports := [guestPorts]part{}
	for i := range ports {
		sp := specification[portState]{silent: func(portState) []portState { return nil }, apply: portApply}
		if i == steadyPort {
			sp.init = portState{true, 1}
		}
		ports[i] = part{name: fmt.Sprintf("port-%d", i), model: sp.porcupine()}
	}
	byName := map[string]*part{}
	var names []string
	for _, o := range h.pointers() {
		if o.Kind == Listen || o.Kind == Unlisten || o.Kind == Open && !o.lost() {
			ports[o.Port].add(o, only)
		}
		if o.Tunnel == "" || o.Kind == Open {
			continue
		}
		p := byName[o.Tunnel]
		if p == nil {
			p = &part{name: o.Tunnel, model: tunnelSpecification(o.Verified).porcupine()}
			byName[o.Tunnel], names = p, append(names, o.Tunnel)
		}
		if o.Kind != Hangup {
			p.add(o, only)
			continue
		}
		p.add(o, first)
		p.add(o, second)
	}
	slices.Sort(names)
	out := ports[:]
	for _, n := range names {
		out = append(out, *byName[n])
	}
	return out
}

func (p *part) add(o *Operation, h half) {
	end := o.Return
	if end < 0 {
		end = math.MaxInt64
	}
	p.operations = append(p.operations, porcupine.Operation{
		ClientId: o.Client, Input: entry{Operation: o, half: h, number: uint8(len(p.operations))}, Call: o.Call, Output: o.Answer, Return: end,
	})
}

// lost reports whether an open found a listener that left before it took the connection.
func (o *Operation) lost() bool {
	return o.Kind == Open && (o.Answer.Status == api.TunnelRelayFailed || o.Answer.Status == api.TunnelNormal)
}

// refusedTunnel returns what is wrong with the statuses of tunnels, or "".
func refusedTunnel(ops []*Operation) string {
	serials := map[int]bool{}
	for _, o := range ops {
		a := o.Answer
		switch {
		case o.Kind == Slots && a.Count != maxSlots:
			return fmt.Sprintf("%d tunnels were open at once after all others had ended, and the daemon has %d slots", a.Count, maxSlots)
		case o.lost():
			leaves := func(p *Operation) bool {
				return p.Kind == Unlisten && p.Port == o.Port && p.Call <= o.Return && o.Call <= p.Return
			}
			if !slices.ContainsFunc(ops, leaves) {
				return fmt.Sprintf("%s lost a guest that did not leave", o.Label())
			}
		case o.Kind == Open && a.Status == 101 && (a.Generation == 0 || serials[a.Serial]):
			return fmt.Sprintf("%s was greeted by nobody's guest, or by another tunnel's: %q", o.Label(), a.Bytes)
		case o.Kind == Open && a.Status == 101:
			serials[a.Serial] = true
		case o.Kind == Open && a.Status != api.TunnelNoListener:
			return fmt.Sprintf("%s is no answer to give here", o.Label())
		}
	}
	return ""
}

// tunnelClaims counts the operations that showed a requirement of tunnels.
func (h *History) tunnelClaims(count map[string]int64) {
	verified := map[string]bool{}
	for _, o := range h.pointers() {
		a := o.Answer
		switch {
		case o.Kind == Open && a.Status == api.TunnelNoListener:
			count["TUNNEL-3"]++
		case o.Kind == Open:
			verified[o.Tunnel] = o.Verified
		case o.Kind == Slots:
			count["TUNNEL-11"]++
		case o.Kind == Receive && a.End == "closed" && verified[o.Tunnel]:
			count["AGENTD-19"]++
		case o.Kind == Receive && a.End == "closed":
			count["TUNNEL-5"]++
		case o.Kind == GuestSaw && a.End == "reset":
			count["AGENTD-20"]++
		case o.Kind == GuestSaw && a.End == "eof" && verified[o.Tunnel]:
			count["TUNNEL-17"]++
		case o.Kind == GuestSaw && a.End == "eof":
			count["TUNNEL-5"]++
		}
		if o.Kind == Receive && len(a.Bytes) > 0 && verified[o.Tunnel] {
			count["TUNNEL-7"]++
		}
	}
}
