package execution

import "microvms/model"

type groupStep = model.Step[GroupState]

// next appends every step of s: requests first, then the daemon's own steps,
// the timers, and what the processes do by themselves.
func (g group) next(s GroupState, out []groupStep) []groupStep {
	if s.Off {
		return out
	}
	first := len(out)
	for id := range uint8(g.c.IDs) {
		out = g.requests(s, id, out)
		if !g.c.Settled {
			out = g.daemon(s, id, out)
		}
		if g.c.Time {
			out = g.timers(s, id, out)
		}
		out = g.processes(s, id, out)
	}
	if g.c.Settled {
		for i := first; i < len(out); i++ {
			out[i].State = g.settle(out[i].State)
		}
	}
	return out
}

// settle takes daemon steps until none is left. Which goes first does not
// matter: two that are possible at once lead to one state.
func (g group) settle(s GroupState) GroupState {
	var buf [8]groupStep
	for id := uint8(0); id < uint8(g.c.IDs); {
		steps := g.daemon(s, id, buf[:0])
		if len(steps) == 0 {
			id++
			continue
		}
		s = steps[0].State
		id = 0
	}
	return s
}

// with returns s with the record of id changed by f.
func with(s GroupState, id uint8, f func(e *Exec)) GroupState {
	f(&s.Exec[id])
	return s
}

// live reports whether a live process is in the group. Zombies are not live.
func live(e Exec) bool { return e.Leader == LeaderAlive || e.Member == InGroup }

// pipeOpen reports whether a process still holds the output pipes.
func pipeOpen(e Exec) bool { return e.Leader == LeaderAlive || e.MemberPipe }

// known reports whether the routes see a record.
func known(e Exec) bool { return e.Phase >= Running }

// supervised reports whether the daemon has done with the group what the
// request asked for, so that only the pipes are waited for.
func supervised(e Exec) bool {
	over := func(c Cause) bool { return e.Stage[c] == Idle || e.Stage[c] == Finished }
	return e.Reaped && over(ByDeadline) && over(ByReap)
}

// requests appends the steps that a client causes.
func (g group) requests(s GroupState, id uint8, out []groupStep) []groupStep {
	e := s.Exec[id]
	for _, kind := range g.c.Kinds {
		if to, ok := g.start(e, kind); ok {
			out = append(out, step(model.Act(ExecStart, id, uint8(kind)), with(s, id, func(e *Exec) { *e = to })))
		}
	}
	if g.c.Kills && e.Phase != Reserved && (e.Stage[ByKill] == Idle) {
		out = append(out, step(model.Act(ExecKill, id), with(s, id, g.kill)))
	}
	if e.Phase != Reserved {
		out = append(out, step(model.Act(ExecAck, id), with(s, id, g.ack)))
		out = append(out, step(model.Act(ExecPoll, id), with(s, id, g.poll)))
	}
	return out
}

// start decides a start request. An absent id is reserved; a reserved one is
// waited for; a known one is answered and nothing else.
func (g group) start(e Exec, kind Kind) (Exec, bool) {
	switch {
	case e.Phase == Absent:
		if e.Life >= g.c.MaxLives {
			return e, false
		}
		if e.Life > 0 && g.c.Deviation == IDRemembered {
			return e, true
		}
		e.Phase, e.Kind, e.Spawners = Reserved, kind, 1
	case e.Phase == Reserved:
		if !g.c.ConcurrentStarts || kind != e.Kind || e.Spawners+e.Waiters >= 2 {
			return e, false
		}
		if g.c.Deviation == SpawnTwice {
			e.Spawners++
		} else {
			e.Waiters++
		}
	case kind != e.Kind && kind&Unspawned == 0:
		return e, false // a retry repeats its request; an unspawnable one shows that a known id is not looked at again
	case g.c.Deviation == RestartKnown && e.Phase == Exited:
		e.Phase, e.Spawners = Reserved, 1
	}
	return e, true
}

// kill begins an escalation, in any phase of a known record.
func (g group) kill(e *Exec) {
	if !known(*e) || g.c.Deviation == KillRefusedAfterExit && e.Phase != Running {
		return
	}
	e.Stage[ByKill] = Due
}

// ack releases the result, once.
func (g group) ack(e *Exec) {
	if e.Phase == Exited && g.c.Deviation != AckForgotten || g.c.Deviation == AckWhileRunning && e.Phase == Running {
		e.Phase = Acked
	}
}

// poll reads.
func (g group) poll(e *Exec) {
	if g.c.Deviation == PollReleases && e.Phase == Exited {
		e.Phase = Acked
	}
}

// daemon appends the steps that the daemon takes by itself, without time.
func (g group) daemon(s GroupState, id uint8, out []groupStep) []groupStep {
	if s.Off {
		return out
	}
	e := s.Exec[id]
	add := func(action model.Action, f func(e *Exec)) {
		out = append(out, step(action, with(s, id, f)))
	}
	switch {
	case g.c.Deviation == StartsDeadlock && e.Waiters > 0:
	case e.Spawners > 0 && e.Kind&Unspawned != 0:
		add(model.Act(ExecRefuse, id), g.refuse)
	case e.Spawners > 0:
		add(model.Act(ExecSpawn, id), g.spawn)
	}
	if e.Leader >= EndedItself && !e.Reaped {
		add(model.Act(LeaderReap, id), g.reap)
	}
	for c := range causes {
		out = g.escalate(s, id, c, out)
	}
	if g.mayExit(e) {
		add(model.Act(ExecExit, id), g.exit)
	}
	if e.Kind&PowersOff != 0 && g.mayPowerOff(e) {
		off := s
		off.Off = true
		out = append(out, step(model.Act(PowerOff, id), off))
	}
	return out
}

// refuse ends a spawn that failed: nothing is registered, and who waited gets
// the same refusal.
func (g group) refuse(e *Exec) {
	if g.c.Deviation == RefusalRegistered {
		*e = Exec{Phase: Exited, Kind: e.Kind, Life: e.Life}
		return
	}
	*e = Exec{Life: e.Life}
}

// spawn creates the child in a group of its own and answers every start that
// waited for it.
func (g group) spawn(e *Exec) {
	e.Spawners--
	e.Waiters = 0
	e.Spawned = min(e.Spawned+1, 2)
	e.Phase, e.Leader, e.Reaped = Running, LeaderAlive, false
	if e.Kind&Timed != 0 {
		e.Deadline = Armed
	}
}

// reap collects the leader's status. The deadline stops here: it bounds the
// command, not what outlives it. A group reap starts here, before any linger,
// unless the deadline already escalated.
func (g group) reap(e *Exec) {
	e.Reaped = true
	if e.Deadline == Armed && g.c.Deviation != LateDeadline {
		e.Deadline = Stopped
	}
	if e.Kind&ReapGroup == 0 || g.c.Deviation == ReapAfterLinger {
		return
	}
	if e.Deadline != Fired || g.c.Deviation == EscalateTwice {
		begin(e, ByReap)
	}
}

// begin starts an escalation of the daemon's own.
func begin(e *Exec, c Cause) {
	e.Stage[c] = Due
	e.Plans = min(e.Plans+1, 3)
}

// escalate appends the next steps of one escalation.
func (g group) escalate(s GroupState, id uint8, c Cause, out []groupStep) []groupStep {
	e := s.Exec[id]
	stage := e.Stage[c]
	if stage < Due || stage > KillSent {
		return out
	}
	add := func(action uint16, f func(s *GroupState, e *Exec)) {
		to := s
		f(&to, &to.Exec[id])
		out = append(out, step(model.Act(action, id, uint8(c)), to))
	}
	gone := !live(e) || g.c.Deviation == StopAtLeaderEnd && e.Leader != LeaderAlive
	if g.c.Deviation == SignalRecycled && stage == Due {
		gone = false
	}
	term := func(s *GroupState, e *Exec) { g.signal(s, id, false); e.Stage[c] = Grace }
	kill := func(s *GroupState, e *Exec) { g.signal(s, id, true); e.Stage[c] = KillSent }
	switch {
	case gone:
		add(GroupGone, func(_ *GroupState, e *Exec) { e.Stage[c] = ended(c) })
	case stage == Due && g.c.Deviation == KillAtOnce:
		add(GroupKill, kill)
	case stage == Due:
		add(GroupTerm, term)
	case stage == Over && g.c.Deviation != NeverKill:
		add(GroupKill, kill)
	}
	return out
}

// ended is the stage after an escalation of that cause.
func ended(c Cause) Stage {
	if c == ByKill {
		return Idle
	}
	return Finished
}

// signal delivers SIGTERM or SIGKILL to whoever has the group's number.
func (g group) signal(s *GroupState, id uint8, kill bool) {
	deliver(&s.Exec[id], kill, g.c.Deviation == SignalTree)
	if g.c.Deviation == SharedGroup {
		for other := range s.Exec {
			if other != int(id) {
				deliver(&s.Exec[other], kill, false)
			}
		}
	}
}

// deliver is what a signal does to one exec's processes.
func deliver(e *Exec, kill, tree bool) {
	if e.Stranger {
		e.StrangerHits = 1
	}
	if e.Leader == LeaderAlive && (kill || !e.LeaderIgnores) {
		e.Leader, e.LeaderIgnores = EndedByTerm, false
		if kill {
			e.Leader = EndedByKill
		}
	}
	if (e.Member == InGroup || tree && e.Member == Escaped) && (kill || !e.MemberIgnores) {
		e.Member, e.MemberIgnores, e.MemberPipe = Gone, false, false
	}
}

// mayExit reports whether the terminal marker can be set: the leader is
// reaped, the group was dealt with, and the pipes ended or the linger did.
func (g group) mayExit(e Exec) bool {
	if e.Phase != Running {
		return false
	}
	switch g.c.Deviation {
	case ExitAtLeaderEnd:
		return e.Reaped
	case ExitAtDeadline:
		if e.Deadline == Fired {
			return true
		}
	}
	return supervised(e) && (!pipeOpen(e) || e.Linger == Fired)
}

// exit publishes the terminal marker and the result, in one step.
func (g group) exit(e *Exec) {
	e.Phase = Exited
	e.Writers = e.Linger == Fired && g.c.Deviation != WritersForgotten
	e.TimedOut = e.Deadline == Fired
	if g.c.Deviation == TimedOutLost && e.Leader == EndedItself {
		e.TimedOut = false
	}
	if g.c.Deviation == ReapAfterLinger && e.Kind&ReapGroup != 0 && e.Stage[ByReap] == Idle {
		begin(e, ByReap)
	}
}

// mayPowerOff reports whether the machine may go down: the result is stored, and
// nobody is left in the group. Who escaped from it is not waited for.
func (g group) mayPowerOff(e Exec) bool {
	switch g.c.Deviation {
	case PowerOffEarly:
		return e.Reaped
	case PowerOffAtExit:
		return e.Phase >= Exited
	}
	return e.Phase >= Exited && e.Member != InGroup
}
