package runs

import (
	"context"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// drive takes a run from its preparation to its terminal event. It is the
// run's goroutine.
func (t *Table) drive(r *run) {
	defer t.wg.Done()
	var p *Prepared
	defer func() {
		t.mu.Lock()
		delete(t.driven, keyOf(r.id))
		t.mu.Unlock()
		if p != nil && p.Close != nil {
			p.Close()
		}
	}()
	// The start's context is the table's: a stop is judged in one place,
	// clearToSpawn, and nowhere in the core.
	e, _, err := t.reg.Start(t.base, keyOf(r.id), func(context.Context) (c *execution.Command, err error) {
		p, c, err = t.prepare(r)
		return c, err
	})
	if p != nil && p.Spawned != nil {
		p.Spawned(err == nil)
	}
	if err != nil {
		t.refused(r, err)
		return
	}
	t.spawned(r)
	t.follow(r, p, e)
}

// prepare has the request validated, and makes its command the table's.
func (t *Table) prepare(r *run) (*Prepared, *execution.Command, error) {
	t.mu.Lock()
	prepare := r.prepare
	r.prepare = nil // it holds the request
	t.mu.Unlock()
	if prepare == nil {
		return nil, nil, errStopped
	}
	p, err := prepare(r.ctx, r.id)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	r.version = p.Version
	t.mu.Unlock()
	c := *p.Command
	c.Stdin = true
	c.Timeout, c.ReapGroup = 0, false // the table ends its runs itself
	c.CutPipes = true                 // MGR-30: who left the group must not cost a descriptor for ever
	c.Kill = nil                      // MGR-14: the registry's, SIGKILL to the group at once
	c.DieWithParent = true            // MGR-26
	var capture execution.Capture
	if c.Capture != nil {
		capture = *c.Capture
	}
	capture.RingBytes = -1 // nobody reads output before the end
	c.Capture = &capture
	return p, &c, nil
}

// refused ends a run that has no process.
func (t *Table) refused(r *run, err error) {
	t.mu.Lock()
	r.settleSpawnLocked()
	step := r.refusalLocked()
	t.mu.Unlock()
	for step != "" {
		wait := r.ctx // a stop ends the wait, since another step is due then
		if step == trace.RunAbort {
			wait = t.base
		}
		_ = t.pass(wait, step, r.id) // a gate that gives up must not keep the run from its end
		t.mu.Lock()
		now := r.refusalLocked()
		if now == step {
			t.refuseLocked(r, step, err)
			now = ""
		}
		t.mu.Unlock()
		step = now
	}
}

// refusalLocked is the step by which a run without a process ends; "": it has
// ended.
func (r *run) refusalLocked() trace.Action {
	switch {
	case r.phase.terminal():
		return ""
	case r.phase == PhaseQueued:
		return trace.RunReject
	case r.decided:
		return trace.RunAbort
	}
	return trace.RunSpawnFail
}

func (t *Table) refuseLocked(r *run, step trace.Action, err error) {
	t.noteLocked(t.base, step, r.id)
	if step == trace.RunAbort {
		t.endLocked(r, PhaseFinished, Event{Kind: EventFinished, Finished: t.stoppedLocked(r)})
		return
	}
	// MGR-7: no process was created and no stop was accepted, both known here.
	t.endLocked(r, PhaseFailedToStart, Event{Kind: EventFailedToStart, Error: err.Error()})
}

// stoppedLocked is the end of a run that was stopped and never had a process.
func (t *Table) stoppedLocked(r *run) *Finished {
	return &Finished{Cause: r.cause, FinishedAt: t.cfg.Clock.Now()}
}

// spawned enters the process that was just created. No stop was accepted since
// the last look.
func (t *Table) spawned(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.settleSpawnLocked()
	r.phase = PhaseRunning
	r.started = t.cfg.Clock.Now()
	t.noteLocked(t.base, trace.RunSpawn, r.id)
	t.publishLocked(r, Event{Kind: EventStarted}) // MGR-8: before anything that the process does can end it
}

// follow sees a process to its end.
func (t *Table) follow(r *run, p *Prepared, e *execution.Exec) {
	input := p.Input
	p.Input = nil
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		// MGR-7: a process that does not take its input ends by itself, and how
		// it ends is what is told.
		_, _ = e.WriteStdin(t.base, input, true)
	}()
	if t.awaitExit(r, e) {
		t.observeExit(r)
	}
	// MGR-24: a shutdown does not linger for what the process left behind.
	defer context.AfterFunc(t.halt, func() { t.killNow(e) })()
	report := t.finishReport(p)
	select { // bounded by the core's linger
	case <-e.Done():
	case <-t.base.Done():
	}
	t.finish(r, e.Poll().Result, report)
	// MGR-30: whatever kept a pipe open had the linger. Also what was forked
	// behind the kill of a stop.
	_, _ = e.Kill(t.base)
	_, _ = e.Ack() // the table holds the result
}

// awaitExit waits for the process's exit, and kills its group when the run is
// stopped before. It reports false when the table gave up.
func (t *Table) awaitExit(r *run, e *execution.Exec) bool {
	select {
	case <-e.Exited():
		return true
	case <-r.ctx.Done():
	}
	go t.killNow(e) // MGR-14: not awaited, since it returns only when the group is gone
	select {
	case <-e.Exited():
		return true
	case <-t.base.Done():
		return false
	}
}

// killNow kills what there is of a process group.
func (t *Table) killNow(e *execution.Exec) {
	if t.begin() {
		defer t.wg.Done()
		_, _ = e.Kill(t.base)
	}
}

// observeExit gives the permits back and fixes the cause.
func (t *Table) observeExit(r *run) {
	_ = t.pass(t.base, trace.RunExit, r.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.phase.terminal() { // the shutdown did not wait for it
		return
	}
	r.exited = true
	r.decideLocked(CauseExited)
	r.deadline.Stop()
	t.giveBackLocked(r) // MGR-10: what it still prints needs no memory of its own
	t.noteLocked(t.base, trace.RunExit, r.id, trace.Attr{Key: "cause", Value: r.cause.String()})
	t.advanceLocked()
}

// finishReport lets the run's other channels drain, for as long as its pipes
// may.
func (t *Table) finishReport(p *Prepared) Report {
	if p.Finish == nil {
		return Report{}
	}
	ctx, cancel := context.WithCancel(t.base)
	defer cancel()
	timer := t.cfg.Clock.AfterFunc(t.cfg.Linger, cancel)
	defer timer.Stop()
	return p.Finish(ctx)
}

// finish publishes the end of a run that had a process. res is nil when the
// table gave up before the end was known.
func (t *Table) finish(r *run, res *execution.Result, report Report) {
	f := &Finished{Report: report}
	artifacts := [3][]byte{2: report.Log}
	if res != nil {
		artifacts[0] = newest(res.Stdout, res.Missing[0] > 0)
		artifacts[1] = newest(res.Stderr, res.Missing[1] > 0)
		if res.ExitCode != nil {
			code := int64(*res.ExitCode)
			f.ExitCode = &code
		}
	}
	for i, a := range artifacts {
		f.Sizes[i] = uint64(len(a))
	}
	_ = t.pass(t.base, trace.RunFinish, r.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.phase.terminal() {
		return
	}
	f.Cause, f.FinishedAt = r.cause, t.cfg.Clock.Now()
	r.artifacts = artifacts // before the event, which names their sizes
	t.noteLocked(t.base, trace.RunFinish, r.id, trace.Attr{Key: "cause", Value: r.cause.String()})
	t.endLocked(r, PhaseFinished, Event{Kind: EventFinished, Finished: f})
}

// endLocked is the one way to a terminal phase.
func (t *Table) endLocked(r *run, phase Phase, ev Event) {
	t.leaveLocked(r)
	t.giveBackLocked(r)
	r.phase, r.prepare = phase, nil
	r.ended = t.cfg.Clock.Now()
	r.cancel()
	r.deadline.Stop()
	t.publishLocked(r, ev)
	// MGR-23: from the end, acked or not, read or not.
	r.expiry = t.cfg.Clock.AfterFunc(t.cfg.Retention, func() { t.expire(r) })
	t.live--
	if t.closing && t.live == 0 {
		close(t.idle)
	}
	t.advanceLocked()
}
