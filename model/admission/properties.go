package admission

import "microvms/model"

type (
	property = model.Property[State]
	action   = model.Action
	when     = func(from State, a action, to State) bool
)

// stated is a property with the condition under which its case exists.
type stated struct {
	when bool
	property
}

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

// implies is a step property: in its case, then.
func implies(name string, of, then when, ids ...string) property {
	return model.AlwaysStep(name, func(from State, a action, to State) bool {
		return !of(from, a, to) || then(from, a, to)
	}, ids...).WhenStep(of)
}

func (c *Config) slotProperties() []stated {
	backlog := func(s State) bool { return s.any(Backlog) }
	closes := func(from State, a action, to State) bool { return closed(&from, a, &to) < MaxConns }
	victim := func(from State, a action, to State) Conn {
		i := closed(&from, a, &to)
		conn := from.Conns[i]
		conn.Ripe = conn.Ripe || a.ID == Grace && a.Arg[0] == i
		return conn
	}
	return []stated{
		{true, model.Always("no more connections are open than the cap", func(s State) bool { return s.open() <= c.Cap }, "XPORT-4").
			When(func(s State) bool { return s.open() >= c.Cap }).WitnessedBy(full)},
		{c.has(Upgrade), model.Always("each slot that is taken is an open connection's", func(s State) bool { return s.Slots == s.open() }, "XPORT-4").
			When(func(s State) bool { return s.open() > 0 }).WitnessedBy(full)},
		{c.crowded(), model.Always("a newcomer waits only while nobody keeps the daemon waiting beyond the grace", func(s State) bool {
			return !backlog(s) || s.open() >= c.Cap && (s.Asked != 0 && s.Conns[s.Asked-1].Phase == Arrived || !s.late())
		}, "XPORT-5", "XPORT-31").When(backlog).WitnessedBy(waits)},
		{c.crowded(), implies("who is closed for another has kept the daemon waiting beyond the grace", closes,
			func(from State, a action, to State) bool { return victim(from, a, to).Ripe }, "XPORT-5", "XPORT-30").WitnessedBy(makesRoom)},
		{c.crowded() && c.has(Control), implies("a request that has arrived is not closed for another", closes,
			func(from State, a action, to State) bool {
				p := victim(from, a, to).Phase
				return p != Serving && p != Gone && p != Arrived && p != Tunnel
			}, "XPORT-30").WitnessedBy(makesRoom)},
		{c.crowded() && c.has(Hook, Upload), implies("a request whose body is complete is not closed for another", closes,
			func(from State, a action, to State) bool { return !victim(from, a, to).Phase.Complete() }, "XPORT-31").WitnessedBy(completes)},
		{c.crowded(), implies("who is closed for another proved least, and of those waited longest", closes,
			func(from State, a action, to State) bool { return from.foremost(a, closed(&from, a, &to)) }, "XPORT-5", "XPORT-31").WitnessedBy(makesRoom)},
		{c.has(Upload), model.AlwaysStep("an upload that moves does not stall", func(from State, a action, to State) bool {
			i := a.Arg[0]
			return a.ID != BodyPiece || to.Conns[i].Phase != Uploading || !to.Conns[i].Ripe
		}, "XPORT-31").WhenStep(func(from State, a action, _ State) bool {
			return a.ID == BodyPiece && from.Conns[a.Arg[0]].Phase == Uploading && from.Conns[a.Arg[0]].Ripe
		}).WitnessedBy(moves)},
		{c.crowded(), implies("an answer announces the end while a newcomer waits", contended,
			func(_ State, a action, to State) bool {
				conn := to.Conns[a.Arg[0]]
				return conn.Ending || conn.Phase == Absent || conn.Phase == Backlog
			}, "XPORT-32").WitnessedBy(announced)},
		{c.crowded() && c.has(Refused, Ignored), implies("a connection whose end was announced takes no further request", func(from State, a action, to State) bool {
			return from.Conns[a.Arg[0]].Ending
		}, func(_ State, a action, to State) bool {
			conn := to.Conns[a.Arg[0]]
			return conn.Ending || !conn.Phase.Open()
		}, "XPORT-32").WitnessedBy(announced)},
		{c.crowded() && c.has(Upgrade), implies("an upgrade lasts, whoever waits", func(_ State, a action, _ State) bool {
			return a.ID == Request && Status(a.Arg[2]) == Switching
		}, func(_ State, a action, to State) bool { return to.Conns[a.Arg[0]].Phase == Tunnel }, "XPORT-32").WitnessedBy(upgraded)},
		{c.Deadlines, model.AlwaysStep("silence is closed and not answered", func(from State, a action, to State) bool {
			return !silent(from, a, to) || a.Arg[1] == uint8(NoStatus) && !to.Conns[a.Arg[0]].Phase.Open()
		}, "XPORT-6").WhenStep(silent).WitnessedBy(silence)},
	}
}

// late reports whether a connection that could make room has kept the daemon
// waiting beyond the grace.
func (s *State) late() bool {
	for _, c := range s.Conns {
		if c.Phase.Keeps() && c.Ripe {
			return true
		}
	}
	return false
}

// contended is a step that writes the head of an answer while a newcomer waits.
func contended(from State, a action, _ State) bool {
	if !from.any(Backlog) {
		return false
	}
	switch status := Status(a.Arg[1]); a.ID {
	case Request:
		return Kind(a.Arg[1]) == Ignored || Status(a.Arg[2]) != NoStatus && Status(a.Arg[2]) != Switching
	case BodyEnd, Finish:
		return status != NoStatus
	}
	return false
}

// closed returns the connection that ended although the step was another's, or
// the grace passing; MaxConns when there is none.
func closed(from *State, a action, to *State) uint8 {
	for i := range uint8(MaxConns) {
		if (i != a.Arg[0] || a.ID == Grace) && from.Conns[i].Phase.Open() && !to.Conns[i].Phase.Open() {
			return i
		}
	}
	return MaxConns
}

// proof is how much a connection that keeps the daemon waiting has shown: an
// authorized request, an earlier request, or nothing.
func proof(c Conn) int {
	if c.Phase == Uploading {
		return 2
	}
	if c.Served && (c.Phase == Waiting || c.Phase == Arrived) {
		return 1
	}
	return 0
}

// foremost reports whether no other connection beyond its grace proved less than
// i, or as little and has waited longer.
func (s *State) foremost(a action, i uint8) bool {
	victim := s.Conns[i]
	for j, c := range s.Conns {
		other := uint8(j)
		late := c.Ripe || a.ID == Grace && a.Arg[0] == other
		// Who took the step has just gone on, except where the step is the grace's.
		if other == i || !c.Phase.Keeps() || !late || other == a.Arg[0] && a.ID != Grace {
			continue
		}
		if proof(c) < proof(victim) || proof(c) == proof(victim) && c.Since < victim.Since {
			return false
		}
	}
	return true
}

func silent(from State, a action, _ State) bool {
	return a.ID == Deadline && from.Conns[a.Arg[0]].Phase == Waiting
}

func (c *Config) bodyProperties() []stated {
	of := func(id uint16, p Phase) when {
		return func(from State, a action, to State) bool { return a.ID == id && from.Conns[a.Arg[0]].Phase == p }
	}
	asked := func(k Kind) when {
		return func(_ State, a action, _ State) bool { return a.ID == Request && a.Arg[1] == uint8(k) }
	}
	over := func(from State, a action, to State) bool {
		return of(BodyPiece, HookBody)(from, a, to) && from.Conns[a.Arg[0]].Got >= HookCap
	}
	answered := func(s Status) when {
		return func(_ State, a action, to State) bool {
			return a.Arg[1] == uint8(s) && !to.Conns[a.Arg[0]].Phase.Open()
		}
	}
	draining := func(s State) bool { return s.any(Draining) }
	kept := func(from State, a action, to State) bool {
		i := a.Arg[0]
		return from.Conns[i].Phase == Draining && to.Conns[i].Phase == Waiting
	}
	return []stated{
		{c.has(Hook), implies("a hook body above the cap is answered 413 and closed", over, answered(TooMuch), "XPORT-8").WitnessedBy(atHookCap)},
		{c.has(Hook) && c.Deadlines, implies("a late hook body is answered 408 and closed", of(Deadline, HookBody), answered(Timeout), "XPORT-9").WitnessedBy(atHookCap)},
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
			return a.Arg[2] == uint8(TooMuch) && !to.Conns[a.Arg[0]].Phase.Open()
		}, "XPORT-10").WitnessedBy(largeUnread)},
	}
}
