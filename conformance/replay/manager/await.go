package manager

import (
	"context"
	"fmt"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/trace"
	"microvms/model/manager"
)

// closeLimit bounds the end of a manager.
const closeLimit = time.Minute

// held selects the manager's own steps.
func held(p trace.Point) bool {
	switch p.Action {
	case trace.RunReject, trace.RunGrant, trace.RunSpawn, trace.RunAbort, trace.RunExit, trace.RunFinish:
		return true
	}
	return false
}

// gates are the points at which a held manager stands before each of its own
// steps.
var gates = map[uint16]trace.Action{
	manager.ActReject: trace.RunReject, manager.ActGrant: trace.RunGrant, manager.ActSpawnOk: trace.RunSpawn,
	manager.ActSpawnFail: trace.RunSpawn, manager.ActAbortSpawn: trace.RunAbort,
	manager.ActExecutorExit: trace.RunExit, manager.ActFinish: trace.RunFinish,
}

// stands are the points at which a run that is held stands after a step.
var stands = map[uint16]trace.Action{
	manager.ActGrant: trace.RunSpawn, manager.ActExecutorExit: trace.RunFinish,
}

// pass lets a run pass the gate of a step, and waits until it stands at the next.
func (d *driver) pass(ctx context.Context, t transition) error {
	run := uint64(t.Action.Arg[0]) + 1
	at := func(a trace.Action) func(p trace.Point) bool {
		return func(p trace.Point) bool { return p.Action == a && p.Run == run }
	}
	gate, ok := gates[t.Action.ID]
	if !ok {
		return fmt.Errorf("the table has no operation for %s", actionOf(t.Action))
	}
	parked, err := d.manager.Gate.Await(ctx, at(gate))
	if err != nil {
		return fmt.Errorf("run %d does not stand before %s: %w", run, gate, err)
	}
	parked.Release()
	if next, ok := stands[t.Action.ID]; ok {
		if _, err := d.manager.Gate.Await(ctx, at(next)); err != nil {
			return fmt.Errorf("run %d does not stand before %s: %w", run, next, err)
		}
	}
	return nil
}

// mark is the number of transitions that the manager has recorded.
func (d *driver) mark() uint64 {
	if d.manager.Recorder == nil {
		return 0
	}
	return uint64(len(d.manager.Recorder.Events()))
}

func (d *driver) lastTimer() uint64 {
	if d.manager.Timers == nil {
		return 0
	}
	return d.manager.Timers.Last()
}

// await waits until the manager has recorded what the step brings about, so that
// one look afterwards shows it.
func (d *driver) await(ctx context.Context, mark uint64, t transition) error {
	for i := range d.config.Runs {
		for _, a := range recorded(&t.From.Runs[i], &t.To.Runs[i]) {
			run := uint64(i) + 1
			if a == trace.RunExpire && t.Action.ID == manager.ActAck {
				a = trace.RunAck
			}
			if _, err := d.manager.Recorder.Await(ctx, mark, func(e trace.Event) bool { return e.Action == a && e.Run == run }); err != nil {
				return fmt.Errorf("run %d: the manager did not record %s: %w", run, a, err)
			}
		}
	}
	if t.Action.ID == manager.ActShutdown {
		if err := d.awaitStops(ctx, mark, t); err != nil {
			return err
		}
	}
	if t.Action.ID == manager.ActDisconnect {
		serial := d.clients[t.Action.Arg[0]].serial
		if t.From.Closing() {
			return nil // the manager has closed it already
		}
		_, err := d.manager.Recorder.Await(ctx, 0, func(e trace.Event) bool { return e.Action == trace.ConnClose && e.Conn == serial })
		if err != nil {
			return fmt.Errorf("the manager did not record the end of connection %d: %w", serial, err)
		}
	}
	if !t.From.Closing() && t.To.Closing() {
		return d.awaitClosed(ctx)
	}
	return nil
}

// awaitStops waits until a shutdown has asked every run to stop: also those that
// something else had stopped before.
func (d *driver) awaitStops(ctx context.Context, mark uint64, t transition) error {
	for i := range d.config.Runs {
		run := uint64(i) + 1
		if p := t.From.Runs[i].Phase; p < manager.Queued || p > manager.Draining {
			continue
		}
		if _, err := d.manager.Recorder.Await(ctx, mark, func(e trace.Event) bool { return e.Action == trace.RunStop && e.Run == run }); err != nil {
			return fmt.Errorf("the shutdown did not ask run %d to stop: %w", run, err)
		}
	}
	return nil
}

// recorded lists the transitions by which a run's record changes.
func recorded(from, to *manager.RunState) (out []trace.Action) {
	ended := func(r *manager.RunState) bool { return r.Phase == manager.Finished || r.Phase == manager.Failed }
	if to.Cause > manager.ByExit && from.Cause != to.Cause {
		out = append(out, trace.RunStop)
	}
	if to.Spawned > 0 && from.Spawned == 0 {
		out = append(out, trace.RunSpawn)
	}
	switch {
	case ended(from) && to.Phase == manager.Released:
		out = append(out, trace.RunExpire) // or RunAck
	case from.Phase < manager.Draining && to.Phase == manager.Draining:
		out = append(out, trace.RunExit)
	case from.Phase == manager.Draining && to.Phase == manager.Finished, to.Phase == manager.Finished && !ended(from) && to.Spawned > 0:
		out = append(out, trace.RunFinish)
	case to.Phase == manager.Failed && !ended(from) && to.SpawnFailed:
		out = append(out, trace.RunSpawnFail)
	case to.Phase == manager.Failed && !ended(from):
		out = append(out, trace.RunReject)
	case to.Phase == manager.Finished && from.Phase == manager.Granted:
		out = append(out, trace.RunAbort)
	case to.Phase == manager.Granted && from.Phase != manager.Granted:
		out = append(out, trace.RunGrant)
	}
	return out
}

// awaitClosed waits until a manager that has nothing left to do has closed every
// connection.
func (d *driver) awaitClosed(ctx context.Context) error {
	for _, l := range d.clients {
		if l.client == nil {
			continue
		}
		if err := l.awaitEnd(ctx); err != nil {
			return err
		}
	}
	return d.asker.awaitEnd(ctx)
}

// executors waits for the executors that the step starts or ends.
func (d *driver) executors(ctx context.Context, t transition) (err error) {
	for i := range d.config.Runs {
		from, to := t.From.Runs[i], t.To.Runs[i]
		// A deadline in real time may end an executor before it greets.
		if to.Spawned > 0 && from.Spawned == 0 && d.manager.Deadline == 0 {
			if d.processes[i], err = d.shop.children.Await(ctx, d.names[i]); err != nil {
				return err
			}
		}
		if d.processes[i] != nil && dead(to) {
			if err := d.processes[i].AwaitEnd(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// dead reports whether a run's executor is gone, whether it exited or was killed.
func dead(r manager.RunState) bool { return r.Phase >= manager.Stopping }

// expiries finds the retention timers of the runs that the step ended.
func (d *driver) expiries(ctx context.Context, t transition, last uint64) (err error) {
	if d.manager.Timers == nil || t.To.Closing() {
		return nil
	}
	over := func(r *manager.RunState) bool { return r.Phase == manager.Finished || r.Phase == manager.Failed }
	for i := range d.config.Runs {
		if over(&t.To.Runs[i]) && !over(&t.From.Runs[i]) {
			if d.expiry[i], err = d.manager.Timers.Next(ctx, SpanRetention, last); err != nil {
				return err
			}
		}
	}
	return nil
}

// deadline is the span of a run's deadline.
func deadline(run uint8) time.Duration { return SpanDeadline + time.Duration(run)*time.Minute }

func duration(d time.Duration) *msp.Duration {
	v := msp.DurationOf(d)
	return &v
}
