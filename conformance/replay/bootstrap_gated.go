package replay

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"microvms/agentd/trace"
	"microvms/model/bootstrap"
)

// BootstrapGated replays the interleaved form of the bootstrap model: requests
// are held at every point at which they can interleave. It needs a daemon with a
// gate, which runs in the test process.
//
// The table of actions and operations, each of which ends with the request
// parked before its next transition:
//
//	HookReceive       POST the hook; when it stands before HookReceive, let it go
//	HookDecide        let it go from HookDecide (a malformed one has nothing to decide and stands before HookAnswer)
//	HookAnswer        let it go from HookAnswer and compare the answer
//	HookCut           cut the client's connection
//	ControlAuthorize  send the request; when it stands before ControlAuthorize, let it go
//	ControlServe      let it go from ControlServe
//	ControlAnswer     let it go from ControlAnswer and compare the answer
//	ControlCut        cut the client's connection
func BootstrapGated(c bootstrap.Config, start Starter) Spec[bootstrap.State] {
	return Spec[bootstrap.State]{
		Name: "bootstrap-" + c.Name, Target: "in-process", Model: bootstrap.New(c),
		Start: func(ctx context.Context, _ bootstrap.State) (Driver[bootstrap.State], error) {
			d := &gatedDriver{driven: map[uint64]bool{}}
			var err error
			if d.system, err = newBootstrapSystem(ctx, start, Options{Hold: d.hold, LogSize: c.LogCap}, c); err != nil {
				return nil, err
			}
			return d, nil
		},
		Project: func(t Transition[bootstrap.State]) Observation {
			return projectBootstrap(t.To, c.Execs, decidesOrAnswers(t))
		},
	}
}

// decidesOrAnswers says whether the environment is worth a look: after the
// steps of a hook request that could change it.
func decidesOrAnswers(t Transition[bootstrap.State]) bool {
	return t.Action.ID == bootstrap.HookDecide || t.Action.ID == bootstrap.HookAnswer
}

type gatedDriver struct {
	system   *bootstrapSystem
	hooks    [bootstrap.MaxSlots]*inFlight
	controls [bootstrap.MaxSlots]*inFlight

	mu     sync.Mutex
	expect trace.Action    // the first point of the request that is about to arrive; empty for none
	driven map[uint64]bool // requests that are parked at their points; all others pass
}

// inFlight is a request that the driver has sent.
type inFlight struct {
	parked *Parked
	cut    context.CancelFunc
	gone   bool
	result chan result
}

type result struct {
	answer *answer
	err    error
}

// hold parks the points of driven requests. The next new request that stands
// before the expected point becomes a driven one; requests that only observe
// pass.
func (d *gatedDriver) hold(p trace.Point) bool {
	switch p.Action {
	case trace.HookReceive, trace.HookDecide, trace.HookHandlerStart, trace.HookHandlerEnd, trace.HookAnswer, trace.ControlAuthorize, trace.ControlServe, trace.ControlAnswer:
	default:
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.driven[p.Request] && p.Action == d.expect {
		d.driven[p.Request] = true
		d.expect = ""
	}
	return d.driven[p.Request]
}

// send starts a request and returns once it stands before its first point.
func (d *gatedDriver) send(ctx context.Context, first trace.Action, call func(ctx context.Context) (*answer, error)) (*inFlight, error) {
	d.mu.Lock()
	d.expect = first
	d.mu.Unlock()
	// The request outlives the step, so its context is its own; the driver's Close ends it by ending the daemon.
	requestCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	r := &inFlight{cut: cut, result: make(chan result, 1)}
	go func() {
		a, err := call(requestCtx)
		r.result <- result{a, err}
	}()
	var err error
	if r.parked, err = d.await(ctx, r, func(p trace.Point) bool { return p.Action == first }); err != nil {
		cut()
		return nil, fmt.Errorf("before %s: %w", first, err)
	}
	return r, nil
}

// await waits until the request is parked at a point that matches. An answer
// that comes first ends the wait, unless its client is gone.
func (d *gatedDriver) await(ctx context.Context, r *inFlight, match func(p trace.Point) bool) (*Parked, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var early result
	var watch sync.WaitGroup
	if !r.gone {
		watch.Go(func() {
			select {
			case early = <-r.result:
				r.result <- early
				cancel()
			case <-waiting.Done():
			}
		})
	}
	parked, err := d.system.daemon.Gate.Await(waiting, match)
	cancel()
	watch.Wait()
	switch {
	case err == nil:
		return parked, nil
	case early.err != nil:
		return nil, early.err
	case early.answer != nil:
		return nil, fmt.Errorf("answered %d before its time", early.answer.status)
	}
	return nil, fmt.Errorf("the request went nowhere: %w", err)
}

// proceed lets the request go and waits until it stands before one of the next
// points.
func (d *gatedDriver) proceed(ctx context.Context, r *inFlight, next ...trace.Action) error {
	from := r.parked.Point
	r.parked.Release()
	parked, err := d.await(ctx, r, func(p trace.Point) bool {
		return p.Request == from.Request && slices.Contains(next, p.Action)
	})
	if err != nil {
		return fmt.Errorf("after %s, before one of %v: %w", from.Action, next, err)
	}
	r.parked = parked
	return nil
}

// finish lets the request go from its last point and compares the answer. An
// answer that nobody waits for is awaited from the recorder.
func (d *gatedDriver) finish(ctx context.Context, r *inFlight, want bootstrap.Outcome) error {
	point := r.parked.Point
	if point.Action != trace.HookAnswer && point.Action != trace.ControlAnswer {
		return fmt.Errorf("the request stands before %s, the model answers it", point.Action)
	}
	r.parked.Release()
	defer r.cut()
	if !r.gone {
		select {
		case got := <-r.result:
			if got.err != nil {
				return got.err
			}
			if err := expectOutcome(got.answer, want); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
	_, err := d.system.daemon.Recorder.Await(ctx, 0, func(e trace.Event) bool {
		return e.Action == point.Action && e.Request == point.Request
	})
	if err != nil {
		return fmt.Errorf("the answer was not recorded: %w", err)
	}
	return nil
}

// Do takes one step of one request.
func (d *gatedDriver) Do(ctx context.Context, t Transition[bootstrap.State]) error {
	slot := t.Action.Arg[0]
	operation, ok := gatedTable[t.Action.ID]
	if !ok {
		return fmt.Errorf("the table has no operation for the action")
	}
	return operation(d, ctx, t, slot)
}

type gatedOperation func(d *gatedDriver, ctx context.Context, t Transition[bootstrap.State], slot uint8) error

var gatedTable = map[uint16]gatedOperation{
	bootstrap.HookReceive:      (*gatedDriver).hookReceive,
	bootstrap.HookDecide:       (*gatedDriver).hookDecide,
	bootstrap.HookAnswer:       (*gatedDriver).hookAnswer,
	bootstrap.HookCut:          (*gatedDriver).hookCut,
	bootstrap.ControlAuthorize: (*gatedDriver).controlAuthorize,
	bootstrap.ControlServe:     (*gatedDriver).controlServe,
	bootstrap.ControlAnswer:    (*gatedDriver).controlAnswer,
	bootstrap.ControlCut:       (*gatedDriver).controlCut,
}

func (d *gatedDriver) hookReceive(ctx context.Context, t Transition[bootstrap.State], slot uint8) error {
	b := d.system
	b.turn++
	hook, body := bootstrap.Hook(t.Action.Arg[1]), hookBody(bootstrap.Payload(t.Action.Arg[2]), b.turn)
	r, err := d.send(ctx, trace.HookReceive, func(ctx context.Context) (*answer, error) { return b.hook(ctx, hook, body) })
	if err != nil {
		return err
	}
	d.hooks[slot] = r
	return d.proceed(ctx, r, trace.HookDecide, trace.HookHandlerStart, trace.HookAnswer)
}

func (d *gatedDriver) hookDecide(ctx context.Context, _ Transition[bootstrap.State], slot uint8) error {
	r := d.hooks[slot]
	if r.parked.Point.Action == trace.HookAnswer {
		return nil // refused by its shape: nothing to decide
	}
	return d.proceed(ctx, r, trace.HookHandlerStart, trace.HookAnswer)
}

func (d *gatedDriver) hookAnswer(ctx context.Context, t Transition[bootstrap.State], slot uint8) error {
	return d.finish(ctx, d.hooks[slot], bootstrap.Outcome(t.Action.Arg[1]))
}

func (d *gatedDriver) hookCut(ctx context.Context, _ Transition[bootstrap.State], slot uint8) error {
	return d.vanish(ctx, d.hooks[slot])
}

func (d *gatedDriver) controlAuthorize(ctx context.Context, t Transition[bootstrap.State], slot uint8) error {
	b := d.system
	presented, op, exec := bootstrap.Token(t.Action.Arg[1]), bootstrap.Op(t.Action.Arg[2]), t.Action.Arg[3]
	authorization := b.next(bearers(presented, t.From.Token))
	r, err := d.send(ctx, trace.ControlAuthorize, func(ctx context.Context) (*answer, error) { return b.control(ctx, op, exec, authorization) })
	if err != nil {
		return err
	}
	d.controls[slot] = r
	next := trace.ControlAnswer
	if bootstrap.Outcome(t.Action.Arg[4]) == bootstrap.Pending {
		next = trace.ControlServe
	}
	if err := d.proceed(ctx, r, trace.ControlServe, trace.ControlAnswer); err != nil {
		return err
	}
	if at := r.parked.Point.Action; at != next {
		return fmt.Errorf("the request stands before %s, the model says %s", at, next)
	}
	return nil
}

func (d *gatedDriver) controlServe(ctx context.Context, _ Transition[bootstrap.State], slot uint8) error {
	return d.proceed(ctx, d.controls[slot], trace.ControlAnswer)
}

func (d *gatedDriver) controlAnswer(ctx context.Context, t Transition[bootstrap.State], slot uint8) error {
	return d.finish(ctx, d.controls[slot], bootstrap.Outcome(t.Action.Arg[1]))
}

func (d *gatedDriver) controlCut(ctx context.Context, _ Transition[bootstrap.State], slot uint8) error {
	return d.vanish(ctx, d.controls[slot])
}

// vanish cuts the client's connection and waits until the client has given up.
func (d *gatedDriver) vanish(ctx context.Context, r *inFlight) error {
	r.gone = true
	r.cut()
	select {
	case got := <-r.result:
		if got.err == nil {
			return fmt.Errorf("answered %d before its time", got.answer.status)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Observe reads the state back.
func (d *gatedDriver) Observe(ctx context.Context, t Transition[bootstrap.State]) (Observation, error) {
	return d.system.observe(ctx, t.To.Token, decidesOrAnswers(t))
}

// Close lets every request go, ends the daemon and waits for the clients.
func (d *gatedDriver) Close() error {
	err := d.system.close()
	for _, slots := range [...][]*inFlight{d.hooks[:], d.controls[:]} {
		for _, r := range slots {
			if r != nil {
				r.cut()
			}
		}
	}
	return err
}
