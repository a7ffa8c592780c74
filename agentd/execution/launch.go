package execution

import (
	"context"
	"errors"
	"sync"

	"microvms/agentd/trace"
)

// errCalledOff is the outcome of a start whose prepare panicked.
var errCalledOff = errors.New("cannot start: the preparation was called off")

// launch takes a reservation to its outcome.
func (r *Registry) launch(ctx context.Context, e *Exec, prepare func(context.Context) (*Command, error)) (err error) {
	defer r.wg.Done()
	err = errCalledOff
	defer func() {
		// Also when prepare panics: a reservation must not outlive its start.
		if err != nil {
			r.abandon(ctx, e, err)
		}
	}()
	err = r.launchOnce(ctx, e, prepare)
	return err
}

func (r *Registry) launchOnce(ctx context.Context, e *Exec, prepare func(context.Context) (*Command, error)) error {
	c, err := prepare(ctx)
	if err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	capture := r.cfg.Capture
	if c.Capture != nil {
		capture = c.Capture.withDefaults()
	}
	e.adopt(c, capture)
	release, err := r.admit(ctx, e, c)
	if err != nil {
		return err
	}
	if err := r.pass(ctx, e.point(ctx, trace.ExecSpawn)); err != nil {
		release()
		return err
	}
	var s *spawned
	r.create(c, func() { s, err = spawn(r.waits, c, capture) })
	if err != nil {
		release()
		return err
	}
	e.run(ctx, s, release)
	return nil
}

// adopt takes the prepared command into the reservation.
func (e *Exec) adopt(c *Command, capture Capture) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cmd, e.kill = c, *e.reg.cfg.Kill
	if c.Kill != nil && len(c.Kill.Steps) > 0 {
		e.kill = *c.Kill
	}
	e.store = newStore(capture)
}

// admit waits for a permit. While it does, the record can be found, as queued,
// and a kill ends the wait.
func (r *Registry) admit(ctx context.Context, e *Exec, c *Command) (release func(), err error) {
	if r.cfg.Admission == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.base, func() { cancel(ErrClosed) })
	defer stop()
	r.show(e, cancel)
	release, err = r.cfg.Admission.Acquire(ctx, e.key, c)
	e.mu.Lock()
	e.dequeue = nil
	killed := context.Cause(ctx)
	e.mu.Unlock()
	if killed != nil {
		if err == nil {
			release()
		}
		return nil, killed
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(release), nil
}

// show makes a reservation visible as queued.
func (r *Registry) show(e *Exec, dequeue context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dequeue = dequeue
	r.appearLocked(e)
}

// appearLocked counts e among the registered and the busy, once.
func (r *Registry) appearLocked(e *Exec) {
	if !e.visible {
		e.visible = true
		r.registered++
		r.busy.Add(1)
	}
}

// register makes a spawned command known: from here on a start with its key
// finds it.
func (r *Registry) register(ctx context.Context, e *Exec) (closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mu.Lock()
	e.phase = PhaseRunning
	e.mu.Unlock()
	r.appearLocked(e)
	r.note(ctx, e.key, trace.ExecSpawn)
	close(e.decided)
	return r.closed
}

// abandon ends a start that failed. It registers nothing (wire facts, section
// 7.1), or with RegisterRefusals an exited record that says why.
func (r *Registry) abandon(ctx context.Context, e *Exec, cause error) {
	// A gate that gives up must not keep the reservation.
	_ = r.pass(ctx, e.point(ctx, trace.ExecRefuse))
	op := "prepare"
	var spawnErr *SpawnError
	if errors.As(cause, &spawnErr) {
		op = spawnErr.Op
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.cfg.RegisterRefusals {
		r.appearLocked(e)
		e.phase = PhaseExited
		e.result = Result{Cause: CauseRefused, Refusal: cause, FinishedAt: r.cfg.Clock.Now()}
		if errors.Is(cause, ErrKilledBeforeSpawn) {
			e.result.Cause = e.cause
		}
		if r.cfg.RetainFrom == RetainFromExit {
			e.retainLocked()
		}
	} else {
		delete(r.entries, e.key) // EXEC-5, EXEC-6: what was refused leaves no record
		if e.visible {
			r.registered--
		}
	}
	if e.visible {
		r.busy.Add(-1)
		e.visible = r.cfg.RegisterRefusals
	}
	// A start that was cut off, or broke, decides nothing for those that waited.
	if ctx.Err() == nil && !errors.Is(cause, errCalledOff) {
		e.refusal = cause
	}
	r.note(ctx, e.key, trace.ExecRefuse, trace.Attr{Key: "stage", Value: op})
	close(e.done)
	close(e.decided)
}
