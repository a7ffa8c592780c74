package execution

import (
	"context"
	"os"
	"syscall"
	"time"

	"microvms/agentd/trace"
)

// run takes over a child that was just created: it registers the command and
// starts the goroutines that see it to its end.
func (e *Exec) run(ctx context.Context, s *spawned, release func()) {
	r := e.reg
	e.take(s, release)
	closed := r.register(ctx, e)
	// The reservation's share of the group of goroutines is still held, so
	// these may be added although Close has begun to wait.
	r.wg.Add(1 + s.pipes())
	go e.supervise()
	for i, f := range s.out {
		if f != nil {
			go e.pump(f, func(p []byte) { e.publish(Stream(i), p) }, Stream(i).String())
		}
	}
	for _, p := range s.sinks {
		go e.pump(p.read, func(b []byte) { _, _ = p.sink.Write(b) }, "sink")
	}
	e.armDeadline()
	if closed && r.cfg.KillOnClose {
		e.signalShutdown()
	}
	if closed && (!r.cfg.KillOnClose || r.base.Err() != nil) {
		e.stop() // Close may have passed by before there was anything to stop
	}
}

// take enters a child into its record, which may be visible already.
func (e *Exec) take(s *spawned, release func()) {
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proc, e.started, e.release = s.proc, e.reg.cfg.Clock.Now(), release
	e.group.id = s.proc.Pid
	e.group.handle = &groupHandle{fd: s.proc.takeGroup()}
	e.stdin.init(s.stdin)
	for _, f := range s.out {
		if f != nil {
			e.pipes = append(e.pipes, f)
		}
	}
	for _, p := range s.sinks {
		e.pipes = append(e.pipes, p.read)
	}
	if e.open = len(e.pipes); e.open == 0 {
		close(e.drained)
	}
}

// armDeadline starts the clock of Command.Timeout.
func (e *Exec) armDeadline() {
	if e.cmd.Timeout <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leaderEnded && e.reg.base.Err() == nil {
		e.deadline = e.reg.cfg.Clock.AfterFunc(e.cmd.Timeout, e.expire)
	}
}

// expire is the deadline. It has no effect once the leader's status was
// collected: what the group does then is the reap's and the linger's affair.
func (e *Exec) expire() {
	r := e.reg
	if !r.begin() {
		return
	}
	defer r.wg.Done()
	if r.pass(r.base, e.point(r.base, trace.DeadlineExpire)) != nil {
		return
	}
	e.mu.Lock()
	if e.leaderEnded { // EXEC-40: it ended in time, whoever holds the pipes
		e.mu.Unlock()
		return
	}
	e.timedOut = true // EXEC-32: whatever status the leader then ends with
	e.causeLocked(CauseDeadline)
	e.noteLocked(r.base, trace.DeadlineExpire)
	// EXEC-31: of the whole group, since the leader may have left others behind.
	esc, mine := e.joinLocked(byDeadline)
	e.mu.Unlock()
	if mine {
		e.escalate(esc)
	}
}

// supervise sees the command to its end: leader exit, reap, drain, terminal
// marker (wire facts, section 7.2).
func (e *Exec) supervise() {
	r := e.reg
	defer r.wg.Done()
	if err := e.proc.Exited(r.base); err != nil {
		if r.base.Err() != nil {
			return
		}
		r.cfg.Log.Error("cannot wait for the leader", "exec_id", e.key.ID, "err", err)
	}
	if r.pass(r.base, e.point(r.base, trace.LeaderReap)) != nil {
		return
	}
	status := e.collectLeader()
	if !e.endGroup() || !e.linger() {
		return
	}
	if r.pass(r.base, e.point(r.base, trace.ExecExit)) != nil {
		return
	}
	e.finish(status)
	e.group.settle()
}

// collectLeader takes the leader's status. Both locks are held, so that no
// signal is between its proof and its sending while the pid goes back.
func (e *Exec) collectLeader() Status {
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinLocked()
	reaped := bootTicks() // before, so that nothing started later seems older
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.proc.Collect()
	g.collected, g.reaped = true, reaped
	e.leaderEnded = true
	close(e.exited)
	if e.deadline != nil {
		e.deadline.Stop()
	}
	for _, esc := range e.escalations {
		if esc != nil {
			esc.look()
		}
	}
	e.noteLocked(e.reg.base, trace.LeaderReap,
		trace.Attr{Key: "exit_code", Value: int64(status.ExitCode)},
		trace.Attr{Key: "signal", Value: int64(status.Signal)})
	e.proc.Release()
	return status
}

// endGroup waits for the deadline's escalation, or else, where it was asked
// for, reaps what is left of the group. A command that timed out is not
// escalated a second time. It reports false when the registry was closed.
func (e *Exec) endGroup() bool {
	e.mu.Lock()
	var esc *escalation
	mine := false
	switch {
	case e.timedOut: // KILL-11: the deadline's escalation was the one
		esc = e.escalations[byDeadline]
	case e.cmd.ReapGroup: // KILL-10: before the linger, so that the pipes end
		esc, mine = e.joinLocked(byReap)
	}
	e.mu.Unlock()
	if mine {
		e.escalate(esc)
	}
	if esc == nil {
		return true
	}
	select {
	case <-esc.done:
		return e.reg.base.Err() == nil
	case <-e.reg.base.Done():
		return false
	}
}

// linger waits until every pipe has ended, or the linger has passed. It
// reports false when the registry was closed.
func (e *Exec) linger() bool {
	r := e.reg
	select {
	case <-e.drained:
		return true // EXEC-18, OUT-18: every byte is in the store
	default:
	}
	expired := make(chan struct{})
	// EXEC-19: running until the pipes end, but not longer than this.
	timer := r.cfg.Clock.AfterFunc(r.cfg.Linger, func() { close(expired) })
	defer timer.Stop()
	select {
	case <-e.drained:
		return true
	case <-r.base.Done():
		return false
	case <-expired:
	}
	if r.pass(r.base, e.point(r.base, trace.LingerExpire)) != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open > 0 {
		e.writersLive = true // EXEC-20: a pipe was open when it passed
		e.noteLocked(r.base, trace.LingerExpire)
	}
	return true
}

// finish publishes the terminal marker: in one step the phase, the result, the
// end of stdin and of the stream. What the pipes still bring is dropped.
func (e *Exec) finish(status Status) {
	r := e.reg
	e.mu.Lock()
	// EXEC-23: written once, under the lock, before anybody can read it.
	e.result = e.outcomeLocked(status, r.cfg.Clock.Now())
	e.phase = PhaseExited
	r.busy.Add(-1) // HEALTH-3: under the exec's lock, so whoever then polls sees it exited
	// STDIN-4: besides this, only an asked-for end and a broken pipe close it.
	stdin := e.stdin.end()
	e.wakeLocked()
	e.noteLocked(r.base, trace.ExecExit,
		trace.Attr{Key: "timed_out", Value: e.timedOut},
		trace.Attr{Key: "writers_may_be_alive", Value: e.writersLive},
		trace.Attr{Key: "total", Value: int64(e.result.Total)})
	if r.cfg.RetainFrom == RetainFromExit {
		e.retainLocked()
	}
	close(e.done)
	release := e.release
	var cut []*os.File
	if e.cmd.CutPipes {
		cut = e.pipes
	}
	e.mu.Unlock()
	if stdin != nil {
		_ = stdin.Close()
	}
	for _, f := range cut {
		_ = f.Close()
	}
	release()
}

func (e *Exec) outcomeLocked(status Status, now time.Time) Result {
	res := Result{
		TimedOut: e.timedOut, WritersMayBeAlive: e.writersLive, Total: e.store.ring.total,
		Cause: e.cause, FinishedAt: now,
		Stdout: e.store.text[Stdout].bytes(e.store.cap.Mark), Stderr: e.store.text[Stderr].bytes(e.store.cap.Mark),
		Truncated: e.store.text[Stdout].truncated() || e.store.text[Stderr].truncated(),
		Missing:   [2]uint64{e.store.text[Stdout].missing(), e.store.text[Stderr].missing()},
	}
	switch {
	case !status.Known: // a failed wait: neither is known (wire facts, section 7.2)
	case status.Signal != 0:
		res.Signal = &status.Signal // EXEC-33, KILL-13: beside a null exit code
	default:
		res.ExitCode = &status.ExitCode
	}
	return res
}

// stop ends the timers and closes what the core's goroutines wait for.
func (e *Exec) stop() {
	e.mu.Lock()
	for _, t := range []trace.Timer{e.deadline, e.retention} {
		if t != nil {
			t.Stop()
		}
	}
	stdin, pipes := e.stdin.end(), e.pipes
	e.mu.Unlock()
	if stdin != nil {
		_ = stdin.Close()
	}
	for _, f := range pipes {
		_ = f.Close()
	}
	e.group.end()
}

// shutDown kills what runs and waits until it has ended, or ctx has.
func (r *Registry) shutDown(ctx context.Context, all []*Exec) {
	for _, e := range all {
		e.signalShutdown()
	}
	for _, e := range all {
		select {
		case <-e.done:
		case <-ctx.Done():
			return
		}
	}
}

// signalShutdown sends the plan's last signal, without an escalation.
func (e *Exec) signalShutdown() {
	e.mu.Lock()
	e.causeLocked(CauseShutdown)
	if e.dequeue != nil {
		e.dequeue(ErrClosed)
	}
	sig := syscall.SIGKILL
	if n := len(e.kill.Steps); n > 0 {
		sig = e.kill.Steps[n-1].Signal
	}
	e.mu.Unlock()
	e.signalGroup(sig, byKill)
}
