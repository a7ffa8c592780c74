package runs

import (
	"context"
	"maps"
	"slices"

	"microvms/agentd/trace"
)

// Cancel asks for the run's end. It does not wait for it: the outcome is the
// terminal event. It waits only while the run's process is being created. A
// run that was stopped or has ended already is not changed. It returns
// ErrUnknown or the error of ctx.
func (t *Table) Cancel(ctx context.Context, id ID) error {
	return t.stop(ctx, id, CauseCancelled)
}

// expireDeadline is the run's deadline.
func (t *Table) expireDeadline(r *run) {
	if !t.begin() {
		return
	}
	defer t.wg.Done()
	_ = t.stop(t.base, r.id, CauseDeadline) // unknown by now: it was released
}

func (t *Table) stop(ctx context.Context, id ID, c Cause) error {
	if err := t.pass(ctx, trace.RunStop, id); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		r, ok := t.runs[id]
		if !ok {
			return ErrUnknown // MGR-19
		}
		if r.spawning == nil {
			t.stopLocked(ctx, r, c)
			return nil
		}
		if err := t.awaitSpawnLocked(ctx, r); err != nil {
			return err
		}
	}
}

// awaitSpawnLocked gives up the lock until the run's process was created or
// could not be. MGR-12: a stop is before the spawn or after it, never beside
// it.
func (t *Table) awaitSpawnLocked(ctx context.Context, r *run) error {
	spawning := r.spawning
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-spawning:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopLocked accepts a stop.
func (t *Table) stopLocked(ctx context.Context, r *run, c Cause) {
	effective := !r.phase.terminal() && r.decideLocked(c) // MGR-13, MGR-27: a later one changes nothing
	t.noteLocked(ctx, trace.RunStop, r.id,
		trace.Attr{Key: "cause", Value: c.String()}, trace.Attr{Key: "effective", Value: effective})
	if !effective {
		return
	}
	if r.phase == PhaseQueued {
		// MGR-11, MGR-15: here and now, without a permit and without a process.
		t.endLocked(r, PhaseFinished, Event{Kind: EventFinished, Finished: t.stoppedLocked(r)})
		return
	}
	r.cancel() // the run's goroutine kills its process, or does not create one
}

// Shutdown refuses new runs, stops every run that has not ended and waits until
// its terminal event was delivered. When ctx ends before, it delivers what is
// known, without output, and returns the error of ctx. Later calls wait for the
// first.
func (t *Table) Shutdown(ctx context.Context) error {
	_ = t.pass(ctx, trace.RunStop, 0) // a gate that gives up must not keep the table from its end
	t.mu.Lock()
	if t.closing {
		t.mu.Unlock()
		select {
		case <-t.down:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.closing = true
	if t.live == 0 {
		close(t.idle) // otherwise the last run's end closes it
	}
	t.stopAllLocked(ctx)
	t.stopRuns()
	t.mu.Unlock()
	defer close(t.down)
	select {
	case <-t.idle: // MGR-24: everybody subscribed was told
		return t.dismantle(ctx)
	case <-ctx.Done():
		t.giveUp()
		_ = t.dismantle(ctx) // what it could say is said by the next line
		return context.Cause(ctx)
	}
}

// stopAllLocked stops every run at one moment: when no process is being
// created, and none will be.
func (t *Table) stopAllLocked(ctx context.Context) {
	for {
		i := slices.IndexFunc(t.sortedLocked(), func(r *run) bool { return r.spawning != nil })
		if i < 0 {
			break
		}
		// A process is created in bounded time, whatever ctx says.
		_ = t.awaitSpawnLocked(context.WithoutCancel(ctx), t.sortedLocked()[i])
	}
	t.noteLocked(ctx, trace.RunStop, 0, // also where there is no run
		trace.Attr{Key: "cause", Value: CauseShutdown.String()}, trace.Attr{Key: "effective", Value: true})
	for _, r := range t.sortedLocked() {
		if !r.phase.terminal() {
			t.stopLocked(ctx, r, CauseShutdown)
		}
	}
}

// sortedLocked lists the known runs in the order of their acceptance.
func (t *Table) sortedLocked() []*run {
	all := make([]*run, 0, len(t.runs))
	for _, id := range slices.Sorted(maps.Keys(t.runs)) {
		all = append(all, t.runs[id])
	}
	return all
}

// giveUp ends every run that still lives by what is known of it.
func (t *Table) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.sortedLocked() {
		if !r.phase.terminal() {
			t.noteLocked(t.base, trace.RunFinish, r.id,
				trace.Attr{Key: "cause", Value: r.cause.String()}, trace.Attr{Key: "forced", Value: true})
			t.endLocked(r, PhaseFinished, Event{Kind: EventFinished, Finished: t.stoppedLocked(r)})
		}
	}
}

// dismantle ends the table's goroutines, timers and registry.
func (t *Table) dismantle(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for _, r := range t.runs {
		if r.expiry != nil {
			r.expiry.Stop()
		}
	}
	t.mu.Unlock()
	t.cancel() // nobody needs to see the end of a group any more; its SIGKILL is sent
	done := make(chan struct{})
	go func() { t.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	err := t.reg.Close(ctx)
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
