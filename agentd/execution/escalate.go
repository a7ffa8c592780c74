package execution

import (
	"context"
	"syscall"
	"time"

	"microvms/agentd/trace"
)

// reason is why a group is escalated against. Each reason walks through the
// kill plan on its own, with graces of its own; the walks may overlap.
type reason uint8

const (
	byDeadline reason = iota
	byReap
	byKill
	reasons
)

// String is a fixed word, that of the model's parameter.
func (y reason) String() string { return [...]string{"deadline", "reap", "kill"}[y] }

// escalation is one walk through the kill plan. Kills that meet share one.
type escalation struct {
	why       reason
	done      chan struct{}
	wake      chan struct{} // the leader has ended: look now
	signalled bool          // a live member was signalled; set before done is closed
}

// look asks for a look at the group before the next interval has passed.
func (esc *escalation) look() {
	select {
	case esc.wake <- struct{}{}:
	default:
	}
}

// Kill ends the command by its kill plan and returns once no live member of
// the group is left, or the plan has run out. signalled is false when nothing
// could be signalled: the group is gone, or nobody proves that it is ours. It
// works after the leader's exit and after an ack. Concurrent kills share one
// escalation. ctx ends the waiting, not the escalation. A command that waits
// for admission is ended without a process.
func (e *Exec) Kill(ctx context.Context) (signalled bool, err error) {
	r := e.reg
	if err := r.pass(ctx, e.point(ctx, trace.ExecKill)); err != nil {
		return false, err
	}
	if !r.begin() {
		return false, ErrClosed
	}
	e.mu.Lock()
	e.noteLocked(ctx, trace.ExecKill)
	e.causeLocked(CauseKilled)
	if e.phase == PhaseQueued {
		if e.dequeue != nil {
			e.dequeue(ErrKilledBeforeSpawn)
		}
		e.mu.Unlock()
		r.wg.Done()
		return e.killQueued(ctx)
	}
	esc, mine := e.joinLocked(byKill) // KILL-1, KILL-6: in every phase
	e.mu.Unlock()
	if mine {
		go func() {
			defer r.wg.Done()
			e.escalate(esc)
		}()
	} else {
		r.wg.Done()
	}
	select {
	case <-esc.done:
		return esc.signalled, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// killQueued waits for the start's outcome: a spawn that was already under way
// is killed like any other.
func (e *Exec) killQueued(ctx context.Context) (bool, error) {
	select {
	case <-e.decided:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if e.group.id == 0 {
		return false, nil
	}
	return e.Kill(ctx)
}

// joinLocked returns the escalation under way for that reason, or a new one
// that the caller must run.
func (e *Exec) joinLocked(why reason) (esc *escalation, mine bool) {
	// KILL-15: two walks through one plan would send each signal twice.
	if esc := e.escalations[why]; esc != nil {
		return esc, false
	}
	esc = &escalation{why: why, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	e.escalations[why] = esc
	return esc, true
}

// escalatingLocked says whether any escalation is under way.
func (e *Exec) escalatingLocked() bool { return e.escalations != [reasons]*escalation{} }

// escalate walks through the kill plan until no live member is left. A dead
// leader or a closed pipe does not end it.
func (e *Exec) escalate(esc *escalation) {
	r := e.reg
	steps := e.kill.Steps
	gone := false
	for i, step := range steps {
		if i > 0 && !e.graceExpired(esc) { // KILL-3: the next step only after the grace, with a member alive
			break
		}
		live, sent := e.signalGroup(step.Signal, esc.why)
		esc.signalled = esc.signalled || sent
		// KILL-4, KILL-14: ended by a look at the members, by nothing else.
		if gone = !live || e.watch(esc, step, i == len(steps)-1); gone || r.base.Err() != nil {
			break
		}
	}
	if gone {
		_ = r.pass(r.base, e.point(r.base, trace.GroupGone))
	}
	e.mu.Lock()
	e.escalations[esc.why] = nil
	removed := e.removed && !e.escalatingLocked()
	if gone {
		e.noteLocked(r.base, trace.GroupGone, esc.why.attr())
	}
	close(esc.done)
	e.mu.Unlock()
	if removed {
		e.group.forget()
	}
}

// graceExpired passes from one step of the plan to the next.
func (e *Exec) graceExpired(esc *escalation) bool {
	r := e.reg
	if r.pass(r.base, e.point(r.base, trace.GraceExpire)) != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteLocked(r.base, trace.GraceExpire, esc.why.attr())
	return true
}

func (y reason) attr() trace.Attr { return trace.Attr{Key: "cause", Value: y.String()} }

// signalGroup sends one signal. live says whether a member was there.
func (e *Exec) signalGroup(sig syscall.Signal, why reason) (live, sent bool) {
	r := e.reg
	action := trace.GroupTerm
	if sig == syscall.SIGKILL {
		action = trace.GroupKill
	}
	if r.pass(r.base, e.point(r.base, action)) != nil {
		return false, false
	}
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	pids, err := g.lookLocked()
	// The exec's lock orders the record of the signal before that of what the
	// signal causes.
	e.mu.Lock()
	if err == nil {
		sent, err = g.sendLocked(pids, sig, e.kill.LeaderOnly)
	}
	if sent {
		e.noteLocked(r.base, action, why.attr())
	}
	e.mu.Unlock()
	if err != nil {
		r.cfg.Log.Warn("cannot signal a process group", "exec_id", e.key.ID, "err", err)
	}
	return len(pids) > 0, sent
}

// watch looks at the group until no live member is left or the step's grace
// has passed, and says which. In the plan's last step the signal is repeated
// while a member lives.
func (e *Exec) watch(esc *escalation, step KillStep, last bool) (gone bool) {
	r := e.reg
	expired := make(chan struct{})
	grace := r.cfg.Clock.AfterFunc(step.Grace, func() { close(expired) })
	defer grace.Stop()
	for {
		tick := make(chan struct{})
		timer := r.cfg.Clock.AfterFunc(min(r.cfg.ScanInterval, max(step.Grace, time.Microsecond)), func() { close(tick) })
		over := false
		select {
		case <-tick:
		case <-esc.wake:
		case <-expired:
			over = true
		case <-r.base.Done():
			over = true
		}
		timer.Stop()
		if e.groupGone() {
			return true
		}
		if over {
			return false
		}
		if last {
			e.repeat(step.Signal)
		}
	}
}

// groupGone looks twice before it says so where the kernel cannot tell: a
// listing of the process table is not one moment, and may miss a member that
// was forked behind it.
func (e *Exec) groupGone() bool {
	if e.kill.LeaderOnly {
		return !e.leaderAlive()
	}
	for range 2 {
		if pids, err := e.group.members(); err != nil || len(pids) > 0 {
			return false
		}
	}
	return true
}

func (e *Exec) leaderAlive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.leaderEnded
}

// repeat sends a signal again, to members that were forked meanwhile. It is
// not a transition of its own.
func (e *Exec) repeat(sig syscall.Signal) {
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if pids, err := g.lookLocked(); err == nil {
		_, _ = g.sendLocked(pids, sig, e.kill.LeaderOnly)
	}
}
