package execution

import "microvms/model"

// timers appends a step for each pending timer: it may fire at any moment.
func (g group) timers(s GroupState, id uint8, out []groupStep) []groupStep {
	e := s.Exec[id]
	add := func(action model.Action, f func(e *Exec)) {
		out = append(out, step(action, with(s, id, f)))
	}
	if e.Deadline == Armed {
		add(model.Act(DeadlineExpire, id), g.expireDeadline)
	}
	for c := range causes {
		// The scan that follows the last member's end comes before the grace's own end, so a grace passes only with
		// someone left.
		if e.Stage[c] == Grace && live(e) {
			add(model.Act(GraceExpire, id, uint8(c)), func(e *Exec) { e.Stage[c] = Over })
		}
	}
	if e.Phase == Running && supervised(e) && pipeOpen(e) && e.Linger == Unset {
		add(model.Act(LingerExpire, id), g.expireLinger)
	}
	if g.mayCollect(e) {
		add(model.Act(ExecCollect, id), func(e *Exec) { *e = Exec{Life: e.Life + 1} })
	}
	return out
}

// expireDeadline marks the exec as timed out and begins the escalation.
func (g group) expireDeadline(e *Exec) {
	e.Deadline = Fired
	if e.Phase == Running && g.c.Deviation != DeadlineMarksOnly {
		begin(e, ByDeadline)
	}
	if e.Phase >= Exited {
		e.TimedOut = true
	}
}

// expireLinger gives up waiting for the pipes.
func (g group) expireLinger(e *Exec) {
	e.Linger = Fired
	if g.c.Deviation == ReapAfterLinger && e.Kind&ReapGroup != 0 {
		begin(e, ByReap)
	}
}

// mayCollect reports whether the record's retention can end. A kill in flight
// outlives the record in the daemon; here it is waited for.
func (g group) mayCollect(e Exec) bool {
	if e.Stage[ByKill] != Idle || e.Spawners > 0 {
		return false
	}
	switch g.c.Deviation {
	case CollectAtExit:
		return e.Phase >= Exited
	case CollectRunning:
		return e.Phase >= Running
	}
	return e.Phase == Acked
}

// processes appends what the command's processes do by themselves.
func (g group) processes(s GroupState, id uint8, out []groupStep) []groupStep {
	e := s.Exec[id]
	add := func(action uint16, f func(e *Exec)) {
		out = append(out, step(model.Act(action, id), with(s, id, f)))
	}
	if e.Leader == LeaderAlive {
		add(LeaderExit, func(e *Exec) { e.Leader, e.LeaderIgnores = EndedItself, false })
		if g.c.LeaderIgnores && !e.LeaderIgnores {
			add(LeaderIgnore, func(e *Exec) { e.LeaderIgnores = true })
		}
		if g.c.Members && e.Member == NoMember {
			add(MemberFork, func(e *Exec) { e.Member, e.MemberPipe = InGroup, true })
		}
	}
	if e.Member == InGroup || e.Member == Escaped {
		out = g.member(s, id, out)
	}
	if g.c.Recycling && known(e) && e.Reaped && e.Member != InGroup && !e.Stranger {
		// The kernel gives out a number again only when no process and no group has it.
		add(PidRecycle, func(e *Exec) { e.Stranger = true })
	}
	return out
}

// member appends the steps of a live member.
func (g group) member(s GroupState, id uint8, out []groupStep) []groupStep {
	e := s.Exec[id]
	add := func(action uint16, f func(e *Exec)) {
		out = append(out, step(model.Act(action, id), with(s, id, f)))
	}
	add(MemberExit, func(e *Exec) { e.Member, e.MemberIgnores, e.MemberPipe = Gone, false, false })
	if g.c.Escapes && e.Member == InGroup {
		add(MemberEscape, func(e *Exec) { e.Member = Escaped })
	}
	if g.c.MemberIgnores && e.Member == InGroup && !e.MemberIgnores {
		add(MemberIgnore, func(e *Exec) { e.MemberIgnores = true })
	}
	if g.c.Closes && e.MemberPipe {
		add(MemberClose, func(e *Exec) { e.MemberPipe = false })
	}
	return out
}
