package tunnel

import "microvms/model"

// Atomic is the model in the form that judges recorded histories of one tunnel
// on a path that only ever hangs up: what each side does is one step, and frames
// move and the guest echoes in silent ones. Every step is one of the model's
// own, taken by the same functions; only how much the sides have to say is left
// to the history, and what the path remembers is dropped, because it replays
// nothing.
type Atomic struct {
	// Verified tunnels prove their end. A plain one is the same rule between
	// sides that offer no end of stream: its handshake then stands for the
	// upgrade, and a normal close is the end.
	Verified bool
}

// MaxBytes is how much each side of an atomic tunnel can say.
const MaxBytes = itemsCap

func (a Atomic) config(caller, guest uint8) *Config {
	return &Config{Ready: true, Budget: 1, CallerBytes: caller, Guest: guest, OldDaemon: !a.Verified, OldClient: !a.Verified}
}

// Established returns the state in which both sides relay and nothing was said.
func (a Atomic) Established() State {
	c := a.config(0, 0)
	s := State{Budget: c.Budget}
	for _, id := range []uint16{ClientHello, Deliver, Deliver, Deliver} {
		s, _ = only(c.next(s, nil), id)
	}
	return s
}

// only returns the state after the first step with the action.
func only(steps []step, id uint16) (State, bool) {
	for _, t := range steps {
		if t.Action.ID == id {
			t.State.Seen = [2]Seen{}
			return t.State, true
		}
	}
	return State{}, false
}

// Send is the caller sending its next byte. ok is false where it cannot.
func (a Atomic) Send(s State) (_ State, ok bool) {
	if s.Client.Sent == MaxBytes {
		return s, false
	}
	return only(a.config(s.Client.Sent+1, 0).clientSteps(s, nil), ClientSend)
}

// Close is the caller ending the tunnel after what it sent.
func (a Atomic) Close(s State) (_ State, ok bool) {
	return only(a.config(s.Client.Sent, 0).clientSteps(s, nil), ClientLocalEof)
}

// Cut is the path hanging up, once: what is in flight is lost.
func (a Atomic) Cut(s State) (_ State, ok bool) {
	if s.Budget == 0 || s.HungUp {
		return s, false
	}
	return only(a.config(0, 0).pathSteps(s, nil), HangUp)
}

// GuestEnd is the guest ending its side after what it said.
func (a Atomic) GuestEnd(s State) (_ State, ok bool) {
	return only(a.config(0, s.Far.Relayed).farSteps(s, nil), GuestEof)
}

// Silent appends the states that one silent step leads to: a frame that is
// delivered in one direction, or the guest's echo of the next byte that it got.
func (a Atomic) Silent(s State, out []State) []State {
	c := a.config(0, s.Far.GuestReceived.Len)
	var steps []model.Step[State]
	for _, d := range [...]Dir{ToFar, ToClient} {
		steps = c.deliverStep(s, d, steps)
	}
	if s.Far.Relayed < s.Far.GuestReceived.Len {
		steps = c.farSteps(s, steps)
	}
	for _, t := range steps {
		t.State.Seen = [2]Seen{}
		out = append(out, t.State)
	}
	return out
}
