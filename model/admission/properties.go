package admission

import "microvms/model"

type (
	property = model.Property[State]
	action   = model.Action
)

// stated is a property with the condition under which its case exists.
type stated struct {
	when bool
	property
}

// Names of witnesses that properties are paired with.
const (
	full        = "every slot is taken"
	tunnelEnds  = "a tunnel ends and a newcomer has its slot"
	waits       = "a newcomer waits for a request under way"
	makesRoom   = "a connection that asks nothing makes room"
	silence     = "a silent connection is closed"
	atHookCap   = "a hook body of exactly the cap is taken"
	drained     = "a connection is kept after a drain"
	cut         = "a refused body is cut off"
	refusal     = "a caller is refused before its body"
	largeUnread = "a large body is refused unread"
)

// properties returns what must hold of a configuration, stated where the case
// exists.
func (c *Config) properties() []property {
	var out []property
	for _, p := range append(c.slotProperties(), c.bodyProperties()...) {
		if p.when {
			out = append(out, p.property)
		}
	}
	if c.Live {
		out = append(out, c.liveness()...)
	}
	if c.Deviation != Specified {
		// Witnesses guard a pass against being vacuous. A planted fault is not meant to pass.
		for i := range out {
			out[i].Witness = ""
		}
		return out
	}
	for _, p := range c.witnesses() {
		if p.when {
			out = append(out, p.property)
		}
	}
	return out
}

// crowded reports whether there may be more connections than slots.
func (c *Config) crowded() bool { return c.Conns > c.Cap }

func (c *Config) slotProperties() []stated {
	backlog := func(s State) bool { return s.any(Backlog) }
	return []stated{
		{true, model.Always("no more connections are open than the cap", func(s State) bool { return s.open() <= c.Cap }, "XPORT-4").
			When(func(s State) bool { return s.open() >= c.Cap }).WitnessedBy(full)},
		{c.has(Upgrade), model.Always("each slot that is taken is an open connection's", func(s State) bool { return s.Slots == s.open() }, "XPORT-4").
			When(func(s State) bool { return s.open() > 0 }).WitnessedBy(full)},
		{c.crowded() && c.has(Control), model.Always("a newcomer waits only for requests under way", func(s State) bool {
			return !backlog(s) || !s.any(Waiting) && s.open() >= c.Cap
		}, "XPORT-5").When(backlog).WitnessedBy(waits)},
		{c.crowded(), model.AlwaysStep("who is closed for another is the oldest without a header", func(from State, a action, to State) bool {
			victim := closed(&from, a, &to)
			return victim == MaxConns || from.longest(victim)
		}, "XPORT-5").WhenStep(func(from State, a action, to State) bool { return closed(&from, a, &to) < MaxConns }).WitnessedBy(makesRoom)},
		{c.Deadlines, model.AlwaysStep("silence is closed and not answered", func(from State, a action, to State) bool {
			return !silent(from, a, to) || a.Arg[1] == uint8(NoStatus) && to.Conns[a.Arg[0]].Phase == Absent
		}, "XPORT-6").WhenStep(silent).WitnessedBy(silence)},
	}
}

func (s *State) any(p Phase) bool {
	for _, c := range s.Conns {
		if c.Phase == p {
			return true
		}
	}
	return false
}

// closed returns the connection that ended although the step was another's,
// MaxConns when there is none.
func closed(from *State, a action, to *State) uint8 {
	for i := range uint8(MaxConns) {
		if i != a.Arg[0] && from.Conns[i].Phase.Open() && !to.Conns[i].Phase.Open() {
			return i
		}
	}
	return MaxConns
}

// longest reports whether a connection waits for a header, and none that was
// never answered, or as often, has waited longer.
func (s *State) longest(i uint8) bool {
	victim := s.Conns[i]
	for j, c := range s.Conns {
		if uint8(j) == i || c.Phase != Waiting {
			continue
		}
		if victim.Served && !c.Served || victim.Served == c.Served && c.Since < victim.Since {
			return false
		}
	}
	return victim.Phase == Waiting
}

func silent(from State, a action, _ State) bool {
	return a.ID == Deadline && from.Conns[a.Arg[0]].Phase == Waiting
}

func (c *Config) bodyProperties() []stated {
	of := func(id uint16, p Phase) func(from State, a action, to State) bool {
		return func(from State, a action, _ State) bool { return a.ID == id && from.Conns[a.Arg[0]].Phase == p }
	}
	asked := func(k Kind) func(from State, a action, to State) bool {
		return func(_ State, a action, _ State) bool { return a.ID == Request && a.Arg[1] == uint8(k) }
	}
	over := func(from State, a action, to State) bool {
		return of(BodyPiece, HookBody)(from, a, to) && from.Conns[a.Arg[0]].Got >= HookCap
	}
	late := of(Deadline, HookBody)
	answered := func(s Status) func(_ State, a action, to State) bool {
		return func(_ State, a action, to State) bool {
			return a.Arg[1] == uint8(s) && to.Conns[a.Arg[0]].Phase == Absent
		}
	}
	implies := func(name string, when, then func(from State, a action, to State) bool, ids ...string) property {
		return model.AlwaysStep(name, func(from State, a action, to State) bool {
			return !when(from, a, to) || then(from, a, to)
		}, ids...).WhenStep(when)
	}
	draining := func(s State) bool { return s.any(Draining) }
	kept := func(from State, a action, to State) bool {
		i := a.Arg[0]
		return from.Conns[i].Phase == Draining && to.Conns[i].Phase == Waiting
	}
	return []stated{
		{c.has(Hook), implies("a hook body above the cap is answered 413 and closed", over, answered(TooMuch), "XPORT-8").WitnessedBy(atHookCap)},
		{c.has(Hook) && c.Deadlines, implies("a late hook body is answered 408 and closed", late, answered(Timeout), "XPORT-9").WitnessedBy(atHookCap)},
		{c.has(Refused), model.Always("a refused body is read up to the drain cap", func(s State) bool {
			for _, conn := range s.Conns {
				if conn.Phase == Draining && conn.Got >= DrainCap {
					return false
				}
			}
			return true
		}, "XPORT-7").When(draining).WitnessedBy(cut)},
		{c.has(Refused), implies("a connection is kept only after a complete drain", kept,
			func(_ State, a action, _ State) bool { return a.ID == BodyEnd }, "XPORT-17", "XPORT-7").WitnessedBy(drained)},
		{c.has(Refused), implies("a caller is refused before its body is read", asked(Refused),
			func(_ State, a action, _ State) bool { return a.Arg[2] == uint8(Unauthorized) }, "AUTHZ-4").WitnessedBy(refusal)},
		{c.has(Refused), model.Always("no body of a refused caller is held", func(s State) bool {
			for _, conn := range s.Conns {
				if conn.Held > 0 {
					return false
				}
			}
			return true
		}, "AUTHZ-4").When(draining).WitnessedBy(refusal)},
		{c.has(TooLarge), implies("a body declared above the cap is refused unread", asked(TooLarge), func(_ State, a action, to State) bool {
			return a.Arg[2] == uint8(TooMuch) && to.Conns[a.Arg[0]].Phase == Absent
		}, "XPORT-10").WitnessedBy(largeUnread)},
	}
}

// liveness states that who is slow does not keep a slot.
func (c *Config) liveness() []property {
	var out []property
	for _, p := range []struct {
		name  string
		kind  Kind
		phase Phase
		id    string
	}{
		{"a wait for a header ends", c.Kinds[0], Waiting, "XPORT-6"},
		{"a wait for a hook body ends", Hook, HookBody, "XPORT-9"},
		{"a drain ends", Refused, Draining, "XPORT-17"},
	} {
		if !c.has(p.kind) {
			continue
		}
		out = append(out, model.LeadsTo(p.name,
			func(s State) bool { return s.Conns[0].Phase == p.phase }, func(s State) bool { return s.Conns[0].Phase != p.phase }, p.id))
	}
	return out
}

func (c *Config) witnesses() []stated {
	return []stated{
		{true, model.Sometimes(full, func(s State) bool { return s.open() == c.Cap }, "XPORT-4")},
		{c.crowded() && c.has(Upgrade) && c.has(Control), model.SometimesStep(tunnelEnds, func(from State, a action, to State) bool {
			return a.ID == ClientClose && from.Conns[a.Arg[0]].Phase == Tunnel && from.any(Backlog) && !to.any(Backlog)
		}, "XPORT-4")},
		{c.crowded() && c.has(Control), model.Sometimes(waits, func(s State) bool { return s.any(Backlog) && s.any(Serving) }, "XPORT-4", "XPORT-5")},
		{c.crowded(), model.SometimesStep(makesRoom, func(from State, a action, to State) bool {
			return a.ID == Dial && closed(&from, a, &to) < MaxConns && to.Conns[a.Arg[0]].Phase == Waiting
		}, "XPORT-5")},
		{c.Deadlines, model.SometimesStep(silence, silent, "XPORT-6")},
		{c.has(Hook), model.SometimesStep(atHookCap, func(from State, a action, _ State) bool {
			return a.ID == BodyEnd && a.Arg[1] == uint8(OK) && from.Conns[a.Arg[0]].Got == HookCap
		}, "XPORT-8", "XPORT-9")},
		{c.has(Refused), model.SometimesStep(drained, func(from State, a action, to State) bool {
			return a.ID == BodyEnd && from.Conns[a.Arg[0]].Phase == Draining && from.Conns[a.Arg[0]].Got > 0
		}, "XPORT-7", "XPORT-17")},
		{c.has(Refused), model.SometimesStep(cut, func(from State, a action, to State) bool {
			return a.ID == BodyPiece && from.Conns[a.Arg[0]].Phase == Draining && to.Conns[a.Arg[0]].Phase == Absent
		}, "XPORT-7", "XPORT-17")},
		{c.has(Refused), model.SometimesStep(refusal, func(_ State, a action, to State) bool {
			return a.ID == Request && a.Arg[2] == uint8(Unauthorized)
		}, "AUTHZ-4")},
		{c.has(TooLarge), model.SometimesStep(largeUnread, func(_ State, a action, _ State) bool {
			return a.ID == Request && a.Arg[2] == uint8(TooMuch)
		}, "XPORT-10")},
	}
}
