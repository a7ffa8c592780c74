package execution

import (
	"slices"

	"microvms/model"
)

var signals = []uint16{GroupTerm, GroupKill}

// escalationProperties speak about deadline, reap and kill.
func (g group) escalationProperties() []groupProperty {
	var props []groupProperty
	always := func(Exec, model.Action, Exec) bool { return true }
	if g.c.Kills && (g.c.Members || !g.c.Settled) {
		props = append(props, rule("a kill escalates in every phase of a record", "a group is killed after the exit", []uint16{ExecKill},
			func(from Exec, _ model.Action, _ Exec) bool {
				return from.Phase > Running && (!g.c.Settled || live(from))
			},
			func(from Exec, a model.Action, to Exec) bool {
				return to.Stage[ByKill] == Due || g.c.Settled && !(to.Member == InGroup && !to.MemberIgnores)
			}, "KILL-1", "KILL-6")...)
	}
	if g.c.Time && g.c.MemberIgnores && (g.c.Kills || g.offers(ReapGroup)) {
		ended := func(from Exec, a model.Action, to Exec) bool {
			return from.Member == InGroup && from.MemberIgnores && to.Member == Gone
		}
		props = append(props, rule("a process that ignores SIGTERM is ended by SIGKILL, after the grace",
			"a process that ignores SIGTERM is ended", []uint16{GroupTerm, GroupKill, GraceExpire, ExecKill, LeaderExit, DeadlineExpire}, ended,
			func(from Exec, a model.Action, _ Exec) bool {
				return a.ID == GraceExpire || a.ID == GroupKill && from.Stage[a.Arg[1]] == Over
			}, "KILL-2", "KILL-3")...)
	}
	if slices.Contains(g.c.Kinds, ReapGroup|Timed) && g.c.Time {
		props = append(props, pair(model.Always("the daemon begins one escalation of its own at most",
			every(func(e Exec) bool { return e.Plans <= 1 }), "KILL-11"),
			"a group that is to be reaped has timed out", some(func(e Exec) bool {
				return e.Kind&ReapGroup != 0 && e.Deadline == Fired && e.Reaped
			}))...)
	}
	if g.c.Settled {
		return props
	}
	if g.offers(Timed) && g.c.Time {
		props = append(props, rule("a deadline escalates", "a deadline begins an escalation", []uint16{DeadlineExpire}, always,
			func(_ Exec, _ model.Action, to Exec) bool { return to.Stage[ByDeadline] == Due }, "EXEC-31")...)
	}
	if g.offers(ReapGroup) {
		props = append(props, rule("a group reap begins with the leader's end", "a group reap begins", []uint16{LeaderReap},
			func(from Exec, _ model.Action, _ Exec) bool {
				return from.Kind&ReapGroup != 0 && from.Deadline != Fired
			},
			func(_ Exec, _ model.Action, to Exec) bool { return to.Stage[ByReap] == Due }, "KILL-10")...)
	}
	if g.c.Kills || g.offers(ReapGroup) {
		props = append(props, rule("an escalation ends when no live member is left", "an escalation ends", []uint16{GroupGone}, always,
			func(from Exec, _ model.Action, _ Exec) bool { return !live(from) }, "KILL-4", "KILL-14")...)
	}
	if g.c.Time && (g.c.MemberIgnores || g.c.LeaderIgnores) {
		props = append(props, rule("SIGKILL follows SIGTERM and the grace", "a group is sent SIGKILL", []uint16{GroupKill}, always,
			func(from Exec, a model.Action, _ Exec) bool { return from.Stage[a.Arg[1]] == Over }, "KILL-2", "KILL-3")...)
	}
	return append(props, g.killAnswerProperties()...)
}

// killAnswerProperties speak about what a kill request is told.
func (g group) killAnswerProperties() []groupProperty {
	if !g.c.Kills {
		return nil
	}
	byKill := func(_ Exec, a model.Action, _ Exec) bool { return Cause(a.Arg[1]) == ByKill }
	return rule("killed tells whether the group was signalled", "a kill finds no live member", []uint16{GroupGone},
		func(from Exec, a model.Action, to Exec) bool { return byKill(from, a, to) && from.Stage[ByKill] == Due },
		func(from Exec, a model.Action, _ Exec) bool { return g.answerOf(from, a) == NotSignalled }, "KILL-5")
}

// signalProperties speak about who is signalled.
func (g group) signalProperties() []groupProperty {
	if !g.c.Kills && !g.offers(ReapGroup) {
		return nil
	}
	var props []groupProperty
	if g.c.IDs > 1 {
		props = g.apart()
	}
	if g.c.Settled {
		return props // a signal is part of the step that causes it there
	}
	always := func(Exec, model.Action, Exec) bool { return true }
	livePresent := func(from Exec, _ model.Action, _ Exec) bool { return live(from) }
	props = append(props, rule("a signal is sent only where a live member is", "a group is signalled", signals, always, livePresent,
		"KILL-4", "KILL-12")...)
	if g.c.Members {
		props = append(props, rule("a group whose leader was reaped is signalled only by the proof of a member",
			"a group is signalled after its leader was reaped", signals,
			func(from Exec, _ model.Action, _ Exec) bool { return from.Reaped }, livePresent, "KILL-9")...)
	}
	if g.c.Recycling {
		props = append(props, pair(model.Always("no signal reaches a group that took over the number",
			every(func(e Exec) bool { return e.StrangerHits == 0 }), "KILL-9", "KILL-12"),
			"the number of a group is taken over", some(func(e Exec) bool { return e.Stranger }))...)
	}
	if g.c.Escapes {
		props = append(props, rule("a process that left the group is not signalled", "a group is signalled after a member left it", signals,
			func(from Exec, _ model.Action, _ Exec) bool { return from.Member == Escaped },
			func(_ Exec, _ model.Action, to Exec) bool { return to.Member == Escaped }, "KILL-12")...)
	}
	return props
}

// apart says that groups are apart: what signals one exec leaves the other as
// it is.
func (g group) apart() []groupProperty {
	seen := func(from GroupState, a model.Action, _ GroupState) bool {
		switch a.ID {
		case GroupTerm, GroupKill, ExecKill, GraceExpire:
			return live(from.Exec[a.Arg[0]]) && live(from.Exec[1-a.Arg[0]])
		}
		return false
	}
	return pairStep(model.AlwaysStep("a signal reaches the group of one exec only",
		func(from GroupState, a model.Action, to GroupState) bool {
			return !seen(from, a, to) || from.Exec[1-a.Arg[0]] == to.Exec[1-a.Arg[0]]
		}, "EXEC-16", "KILL-12"), "a group is signalled beside another", seen)
}

// recordProperties speak about ack and collection.
func (g group) recordProperties() []groupProperty {
	ack, requests := []uint16{ExecAck}, []uint16{ExecAck, ExecPoll, ExecKill}
	props := rule("an ack takes an exited exec", "an exited exec is acked", ack,
		func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Exited },
		func(from Exec, a model.Action, to Exec) bool { return to.Phase == Acked && g.answerOf(from, a) == OK }, "EXEC-24")
	refused := func(phase Phase, answer Answer) (when, then func(Exec, model.Action, Exec) bool) {
		return func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == phase },
			func(from Exec, a model.Action, to Exec) bool { return from == to && g.answerOf(from, a) == answer }
	}
	when, then := refused(Running, StillRunning)
	props = append(props, rule("an ack before the exit is refused", "a running exec is acked in vain", ack, when, then, "EXEC-25")...)
	when, then = refused(Acked, AlreadyAcked)
	props = append(props, rule("a second ack is refused", "an exec is acked twice", ack, when, then, "EXEC-26")...)
	when, then = refused(Absent, UnknownExec)
	props = append(props, rule("a request for an unknown id is refused", "an unknown id is asked for", requests, when, then, "EXEC-30")...)
	props = append(props, rule("a poll changes nothing", "an exited exec is polled", []uint16{ExecPoll},
		func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Exited },
		func(from Exec, _ model.Action, to Exec) bool { return from == to }, "EXEC-21")...)
	if g.c.Time {
		props = append(props, rule("a record is collected only once acked", "a record is collected", []uint16{ExecCollect},
			func(Exec, model.Action, Exec) bool { return true },
			func(from Exec, _ model.Action, _ Exec) bool { return from.Phase == Acked }, "EXEC-27", "EXEC-28")...)
	}
	return props
}

// viewProperties speak about health and the process listing.
func (g group) viewProperties() []groupProperty {
	running := some(func(e Exec) bool { return e.Phase == Running })
	props := pair(model.Always("busy tells that an exec has no terminal marker",
		func(s GroupState) bool { return g.busy(s) == running(s) }, "HEALTH-3"),
		"a daemon with an exited exec is not busy", func(s GroupState) bool {
			return !running(s) && some(func(e Exec) bool { return e.Phase == Exited })(s)
		})
	props = append(props, pair(model.Always("execs counts the records in every phase", func(s GroupState) bool {
		n := 0
		for _, e := range s.Exec {
			if e.Phase >= Running {
				n++
			}
		}
		return g.execs(s) == n
	}, "HEALTH-4"), "an acked exec is still counted", some(func(e Exec) bool { return e.Phase == Acked }))...)
	props = append(props, pair(model.Always("child_exited is the terminal marker",
		every(func(e Exec) bool { return !known(e) || g.childExited(e) == (e.Phase >= Exited) }), "PROC-3"),
		"an exec has its terminal marker", some(func(e Exec) bool { return e.Phase >= Exited }))...)
	return append(props, pair(model.Always("procs lists the live members of the group", every(func(e Exec) bool {
		leader, member := g.lists(e)
		return !known(e) || leader == (e.Leader == LeaderAlive) && member == (e.Member == InGroup)
	}), "PROC-2"), "a group has a live member", some(func(e Exec) bool { return known(e) && live(e) }))...)
}

// fairness assumes that the daemon goes on, that its timers fire, and nothing
// about clients or processes. Each daemon step of each id is fair by itself: an
// exec is not held up by another.
func (g group) fairness() []model.Fairness {
	var all []model.Fairness
	fair := func(name string, id uint8, action uint16, cause int) {
		all = append(all, model.Fairness{Name: name, Match: func(a model.Action) bool {
			return a.ID == action && a.Arg[0] == id && (cause < 0 || int(a.Arg[1]) == cause)
		}})
	}
	for id := range uint8(g.c.IDs) {
		for _, action := range []uint16{ExecSpawn, ExecRefuse, LeaderReap, ExecExit, LingerExpire} {
			fair(groupActionNames[action], id, action, -1)
		}
		for _, action := range []uint16{GroupTerm, GroupKill, GroupGone, GraceExpire} {
			for cause := range int(causes) {
				fair(groupActionNames[action]+" by "+[]string{"deadline", "reap", "kill"}[cause], id, action, cause)
			}
		}
	}
	return all
}

// liveness returns the properties that need fairness.
func (g group) liveness() []groupProperty {
	var props []groupProperty
	for id := range uint8(g.c.IDs) {
		of := func(f func(e Exec) bool) func(s GroupState) bool {
			return func(s GroupState) bool { return f(s.Exec[id]) }
		}
		name := func(sentence string) string { return sentence + " (id " + string('0'+rune(id)) + ")" }
		props = append(props, model.LeadsTo(name("a start is answered"),
			of(func(e Exec) bool { return e.Phase == Reserved }),
			of(func(e Exec) bool { return e.Phase != Reserved }), "EXEC-1", "EXEC-5"))
		if g.offers(Timed) {
			props = append(props, model.LeadsTo(name("a deadline that passed leads to the exit"),
				of(func(e Exec) bool { return e.Deadline == Fired }),
				of(func(e Exec) bool { return e.Phase != Running }), "EXEC-31", "KILL-3"))
		}
		props = append(props, model.LeadsTo(name("the leader's end leads to the exit, within the linger"),
			of(func(e Exec) bool { return e.Phase == Running && e.Leader >= EndedItself }),
			of(func(e Exec) bool { return e.Phase != Running }), "EXEC-18", "EXEC-19", "KILL-3"))
		if g.c.Kills {
			props = append(props, model.LeadsTo(name("a kill is answered"),
				of(func(e Exec) bool { return e.Stage[ByKill] != Idle }),
				func(s GroupState) bool { return s.Off || s.Exec[id].Stage[ByKill] == Idle }, "KILL-1", "KILL-3"))
		}
	}
	return props
}
