package execution

import "microvms/model"

type groupProperty = model.Property[GroupState]

// properties returns what must hold of the group model. A property, and the
// witness beside it, is left out of a configuration that does not offer what it
// speaks about.
func (g group) properties() []groupProperty {
	all := g.startProperties()
	all = append(all, g.endProperties()...)
	all = append(all, g.resultProperties()...)
	all = append(all, g.escalationProperties()...)
	all = append(all, g.signalProperties()...)
	all = append(all, g.recordProperties()...)
	all = append(all, g.viewProperties()...)
	if g.c.Liveness {
		all = append(all, g.liveness()...)
	}
	return all
}

// offers reports whether some start on offer carries the flag.
func (g group) offers(flag Kind) bool {
	for _, k := range g.c.Kinds {
		if k&flag != 0 {
			return true
		}
	}
	return false
}

// pair returns a property beside its witness. The witness is also what the
// property speaks about.
func pair(p groupProperty, witness string, seen func(s GroupState) bool) []groupProperty {
	return []groupProperty{
		p.When(seen).WitnessedBy(witness),
		model.Sometimes(witness, seen, p.Requirements...),
	}
}

// pairStep is pair for properties of transitions.
func pairStep(p groupProperty, witness string, seen func(from GroupState, a model.Action, to GroupState) bool) []groupProperty {
	return []groupProperty{
		p.WhenStep(seen).WitnessedBy(witness),
		model.SometimesStep(witness, seen, p.Requirements...),
	}
}

// some lifts a predicate of one exec to a state: some exec is like this.
func some(f func(e Exec) bool) func(s GroupState) bool {
	return func(s GroupState) bool {
		for _, e := range s.Exec {
			if f(e) {
				return true
			}
		}
		return false
	}
}

// every lifts a predicate of one exec to a state: all execs are like this.
func every(f func(e Exec) bool) func(s GroupState) bool {
	not := some(func(e Exec) bool { return !f(e) })
	return func(s GroupState) bool { return !not(s) }
}

// onAct lifts a predicate of the exec that an action names: steps of other
// actions are outside.
func onAct(ids []uint16, f func(from Exec, a model.Action, to Exec) bool) func(GroupState, model.Action, GroupState) bool {
	return func(from GroupState, a model.Action, to GroupState) bool {
		for _, id := range ids {
			if a.ID == id {
				return f(from.Exec[a.Arg[0]], a, to.Exec[a.Arg[0]])
			}
		}
		return false
	}
}

// implies returns the step predicate "case, then rule".
func implies(antecedent, rule func(GroupState, model.Action, GroupState) bool) func(GroupState, model.Action, GroupState) bool {
	return func(from GroupState, a model.Action, to GroupState) bool {
		return !antecedent(from, a, to) || rule(from, a, to)
	}
}

// rule returns a step property, its witness, and the case that both speak of.
func rule(name, witness string, ids []uint16, when, then func(from Exec, a model.Action, to Exec) bool, requirements ...string) []groupProperty {
	seen := onAct(ids, when)
	return pairStep(model.AlwaysStep(name, implies(seen, onAct(ids, then)), requirements...), witness, seen)
}

// startProperties speak about start requests.
func (g group) startProperties() []groupProperty {
	starts := []uint16{ExecStart}
	props := pair(model.Always("an id has one child while its record lives",
		every(func(e Exec) bool { return e.Spawned <= 1 }), "EXEC-1", "EXEC-2"),
		"a child is spawned", some(func(e Exec) bool { return e.Spawned > 0 }))
	props = append(props, rule("a start of a known id is answered and changes nothing", "a start is retried after the exit", starts,
		func(from Exec, _ model.Action, _ Exec) bool { return known(from) && from.Phase != Running },
		func(from Exec, a model.Action, to Exec) bool { return from == to && g.answerOf(from, a) == OK }, "EXEC-2")...)
	props = append(props, rule("a start of an unknown id spawns, whatever the id was before", "an unknown id is started", starts,
		func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Absent },
		func(_ Exec, _ model.Action, to Exec) bool { return to.Phase != Absent || g.c.Settled && to.Kind == 0 }, "EXEC-1")...)
	if g.c.MaxLives > 1 && g.c.Time {
		props = append(props, rule("a collected id is free again", "a collected id is started again", starts,
			func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Absent && from.Life > 0 },
			func(_ Exec, a model.Action, to Exec) bool { return to.Phase != Absent || Kind(a.Arg[1])&Unspawned != 0 }, "EXEC-29")...)
	}
	if g.c.ConcurrentStarts && !g.c.Settled {
		props = append(props, rule("a start that overlaps another waits for it", "a start overlaps another", starts,
			func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Reserved },
			func(from Exec, _ model.Action, to Exec) bool {
				return to.Spawners == from.Spawners && to.Waiters == from.Waiters+1
			}, "EXEC-3")...)
	}
	if g.offers(Unspawned) && !g.c.Settled {
		props = append(props, rule("a refused spawn registers nothing", "a spawn is refused", []uint16{ExecRefuse},
			func(Exec, model.Action, Exec) bool { return true },
			func(from Exec, _ model.Action, to Exec) bool { return to == Exec{Life: from.Life} }, "EXEC-5")...)
	}
	return props
}

// answerOf is answer for the exec that the action names.
func (g group) answerOf(e Exec, a model.Action) Answer {
	var s GroupState
	s.Exec[a.Arg[0]] = e
	return g.answer(s, a)
}

// exits is the step predicate "the terminal marker appears".
func exits(from Exec, to Exec) bool { return from.Phase == Running && to.Phase == Exited }

// endProperties speak about when the exit is published.
func (g group) endProperties() []groupProperty {
	var props []groupProperty
	exit := []uint16{ExecExit}
	if !g.c.Settled { // there, the exit is part of the step that makes it possible
		props = rule("an exit is published once the leader is reaped", "an exit is published", exit,
			func(from Exec, _ model.Action, to Exec) bool { return exits(from, to) },
			func(from Exec, _ model.Action, _ Exec) bool { return from.Reaped }, "EXEC-18")
	}
	if !g.c.Members || !g.c.Time {
		return props
	}
	if !g.c.Settled {
		props = append(props, rule("an exit waits for the pipes or the linger", "an exit is published with a pipe open", exit,
			func(from Exec, _ model.Action, to Exec) bool { return exits(from, to) && pipeOpen(from) },
			func(from Exec, _ model.Action, _ Exec) bool { return from.Linger == Fired }, "EXEC-18", "EXEC-19", "EXEC-20")...)
	}
	props = append(props, pair(model.Always("an exec whose pipe is held open runs until the linger passes",
		every(func(e Exec) bool { return e.Phase != Exited || !pipeOpen(e) || e.Linger == Fired }), "EXEC-18", "EXEC-19"),
		"a pipe is held open after the leader's end", some(func(e Exec) bool { return e.Reaped && pipeOpen(e) }))...)
	props = append(props, pair(model.Always("writers_may_be_alive tells that the linger passed",
		every(func(e Exec) bool { return e.Phase < Exited || e.Writers == (e.Linger == Fired) }), "EXEC-20"),
		"a result says that writers may be alive", some(func(e Exec) bool { return e.Phase >= Exited && e.Linger == Fired }))...)
	if g.offers(ReapGroup) && g.c.Escapes {
		reaps := func(from Exec, _ model.Action, _ Exec) bool {
			return from.Kind&ReapGroup != 0 && from.Deadline != Fired
		}
		props = append(props, rule("a group that is to be reaped has no member when the linger passes",
			"a linger passes after a reap", []uint16{LingerExpire}, reaps,
			func(from Exec, _ model.Action, _ Exec) bool { return !live(from) }, "KILL-10")...)
	}
	return props
}

// resultProperties speak about what is published.
func (g group) resultProperties() []groupProperty {
	props := pair(model.Always("a result holds the raw status", every(func(e Exec) bool {
		return e.Phase < Exited || e.Leader == NoLeader || g.status(e) == rawStatus(e.Leader)
	}), "EXEC-33", "KILL-13"), "a result is stored", some(func(e Exec) bool { return e.Phase >= Exited }))
	props = append(props, pair(model.Always("a poll shows the result exactly while exited",
		every(func(e Exec) bool { return g.shows(e) == (e.Phase == Exited) }), "EXEC-22"),
		"an exec is acked", some(func(e Exec) bool { return e.Phase == Acked }))...)
	any := make([]uint16, groupActions)
	for i := range any {
		any[i] = uint16(i)
	}
	stored := func(from Exec, a model.Action, to Exec) bool { return from.Phase >= Exited && to.Phase >= Exited }
	props = append(props, rule("a published result stays as it is", "something happens after the exit", any, stored,
		func(from Exec, _ model.Action, to Exec) bool {
			return from.TimedOut == to.TimedOut && from.Writers == to.Writers && from.Leader == to.Leader && to.Phase >= from.Phase
		}, "EXEC-23")...)
	if g.offers(Timed) && g.c.Time {
		witness, raw := "a timed-out exec ends by itself", EndedItself
		if g.c.Settled && !g.c.LeaderIgnores {
			witness, raw = "a timed-out exec ends by SIGTERM", EndedByTerm // nobody outruns the signal there
		}
		props = append(props, pair(model.Always("timed_out tells that the deadline passed, whatever the status",
			every(func(e Exec) bool { return e.Phase < Exited || e.TimedOut == (e.Deadline == Fired) }), "EXEC-32"),
			witness, some(func(e Exec) bool { return e.Phase >= Exited && e.Deadline == Fired && e.Leader == raw }))...)
		props = append(props, rule("a deadline passes only before the leader's end is known", "a deadline passes", []uint16{DeadlineExpire},
			func(Exec, model.Action, Exec) bool { return true },
			func(from Exec, _ model.Action, _ Exec) bool { return !from.Reaped }, "EXEC-31", "EXEC-32")...)
	}
	if g.offers(PowersOff) && !g.c.Settled {
		props = append(props, rule("the result is stored before the power-off", "the machine is powered off", []uint16{PowerOff},
			func(Exec, model.Action, Exec) bool { return true },
			func(from Exec, _ model.Action, _ Exec) bool { return from.Phase >= Exited }, "EXEC-37")...)
		props = append(props, rule("the group has ended before the power-off", "the machine is powered off after a group with a member", []uint16{PowerOff},
			func(from Exec, _ model.Action, _ Exec) bool { return from.Member != NoMember },
			func(from Exec, _ model.Action, _ Exec) bool {
				return from.Leader != LeaderAlive && from.Member != InGroup
			}, "POWER-2")...)
	}
	return props
}

// rawStatus is the status that the kernel gave.
func rawStatus(l Leader) Status {
	return map[Leader]Status{EndedItself: {HasCode: true}, EndedByTerm: {Signal: 15}, EndedByKill: {Signal: 9}}[l]
}
