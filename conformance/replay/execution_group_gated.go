package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/model/execution"
)

// ExecGroupGated replays an interleaved configuration of the group model: the
// daemon is held before each of its own steps, and each is let go when the model
// takes it. It needs a daemon with a gate, which runs in the test process.
//
// The table of actions and operations, beside those of [ExecGroup]:
//
//	ExecStart   POST the start and wait until it stands before ExecSpawn, or is recorded as waiting or answered
//	ExecSpawn   let it go, and compare every answer that depends on it
//	ExecRefuse  let it go from ExecSpawn and from ExecRefuse, and compare every answer that depends on it
//	ExecKill    POST the kill and wait until it stands before GroupTerm
//	LeaderReap, GroupTerm, ExecExit  let it go
//	PowerOff    scan until the daemon stands before it, and let it go
//	GroupGone   let it go from GroupTerm where it stands there, scan, let it go, and compare the kill's answer
func ExecGroupGated(c execution.GroupConfig, start ExecStarter) Spec[execution.GroupState] {
	return Spec[execution.GroupState]{
		Name: "execution-" + c.Name, Target: "in-process", Model: execution.NewGroup(c),
		Start: func(ctx context.Context, _ execution.GroupState) (Driver[execution.GroupState], error) {
			s, err := newExecSystem(ctx, start, ExecOptions{Hold: holdsDaemon})
			if err != nil {
				return nil, err
			}
			return &gatedGroupDriver{groupSystem: groupSystem{execSystem: s, config: c}}, nil
		},
		Project: func(t Transition[execution.GroupState]) Observation { return projectGroup(t.To, c.IDs) },
	}
}

// holdsDaemon selects the daemon's own steps.
func holdsDaemon(p trace.Point) bool {
	switch p.Action {
	case trace.ExecSpawn, trace.ExecRefuse, trace.LeaderReap, trace.GroupTerm, trace.GroupGone, trace.ExecExit, trace.PowerOff:
		return true
	}
	return false
}

type gatedGroupDriver struct {
	groupSystem
	starts [execution.MaxIDs][]chan result // that wait for an outcome
}

// Do takes one step.
func (d *gatedGroupDriver) Do(ctx context.Context, t Transition[execution.GroupState]) error {
	mark, id := d.mark(), t.Action.Arg[0]
	operation, ok := gatedGroupTable[t.Action.ID]
	if ok {
		return operation(d, ctx, t, id, mark)
	}
	if operation, ok := processOperations[t.Action.ID]; ok {
		return operation(&d.groupSystem, ctx, id)
	}
	return errors.New("the table has no operation for the action")
}

type gatedGroupOperation func(d *gatedGroupDriver, ctx context.Context, t Transition[execution.GroupState], id uint8, mark uint64) error

var gatedGroupTable = map[uint16]gatedGroupOperation{
	execution.ExecStart:  (*gatedGroupDriver).execStart,
	execution.ExecSpawn:  (*gatedGroupDriver).execSpawn,
	execution.ExecRefuse: (*gatedGroupDriver).execRefuse,
	execution.ExecKill:   (*gatedGroupDriver).execKill,
	execution.ExecAck:    (*gatedGroupDriver).execAck,
	execution.ExecPoll:   (*gatedGroupDriver).execPoll,
	execution.LeaderReap: letGo(trace.LeaderReap),
	execution.ExecExit:   letGo(trace.ExecExit),
	execution.GroupTerm:  (*gatedGroupDriver).groupTerm,
	execution.GroupGone:  (*gatedGroupDriver).groupGone,
	execution.PowerOff:   (*gatedGroupDriver).powerOff,
}

// release waits until the exec's daemon step stands at its point and lets it go.
func (d *gatedGroupDriver) release(ctx context.Context, action trace.Action, id uint8) error {
	parked, err := d.stands(ctx, action, id)
	if err != nil {
		return err
	}
	parked.Release()
	return nil
}

func (d *gatedGroupDriver) stands(ctx context.Context, action trace.Action, id uint8) (*Parked, error) {
	parked, err := d.daemon.Gate.Await(ctx, func(p trace.Point) bool { return p.Action == action && p.Exec == execID(id) })
	if err != nil {
		return nil, fmt.Errorf("nothing stands before %s: %w", action, err)
	}
	return parked, nil
}

// letGo is a step that is nothing but one point.
func letGo(action trace.Action) gatedGroupOperation {
	return func(d *gatedGroupDriver, ctx context.Context, _ Transition[execution.GroupState], id uint8, mark uint64) error {
		if err := d.release(ctx, action, id); err != nil {
			return err
		}
		_, err := d.await(ctx, mark, []wanted{{action: string(action), exec: execID(id)}})
		return err
	}
}

func (d *gatedGroupDriver) execStart(ctx context.Context, t Transition[execution.GroupState], id uint8, mark uint64) error {
	kind := execution.Kind(t.Action.Arg[1])
	if execution.GroupAnswer(t.From, t.Action) == execution.OK {
		a, err := d.sendStart(ctx, id, kind)
		if err != nil {
			return err
		}
		return a.says("ok")
	}
	body, err := d.groupBody(id, kind)
	if err != nil {
		return err
	}
	d.starts[id] = append(d.starts[id], d.later(func(ctx context.Context) (*answer, error) {
		return d.wire.call(ctx, d.wire.once, http.MethodPost, api.PathExecStart, d.bearer, api.MediaJSON, body)
	}))
	if _, err := d.await(ctx, mark, []wanted{{action: string(trace.ExecStart), exec: execID(id)}}); err != nil {
		return err
	}
	_, err = d.stands(ctx, trace.ExecSpawn, id)
	return err
}

func (d *gatedGroupDriver) execSpawn(ctx context.Context, _ Transition[execution.GroupState], id uint8, mark uint64) error {
	if err := d.release(ctx, trace.ExecSpawn, id); err != nil {
		return err
	}
	if _, err := d.await(ctx, mark, []wanted{{action: string(trace.ExecSpawn), exec: execID(id)}}); err != nil {
		return err
	}
	if err := d.outcome(ctx, id, execution.OK); err != nil {
		return err
	}
	return d.greet(ctx, id)
}

func (d *gatedGroupDriver) execRefuse(ctx context.Context, _ Transition[execution.GroupState], id uint8, _ uint64) error {
	for _, action := range []trace.Action{trace.ExecSpawn, trace.ExecRefuse} {
		if err := d.release(ctx, action, id); err != nil {
			return err
		}
	}
	return d.outcome(ctx, id, execution.SpawnFailed)
}

// outcome compares the answers of all starts that waited for it.
func (d *gatedGroupDriver) outcome(ctx context.Context, id uint8, want execution.Answer) error {
	for _, start := range d.starts[id] {
		a, err := answered(ctx, start)
		if err != nil {
			return err
		}
		if err := a.says(want.String()); err != nil {
			return err
		}
	}
	d.starts[id] = nil
	return nil
}

func (d *gatedGroupDriver) execKill(ctx context.Context, t Transition[execution.GroupState], id uint8, _ uint64) error {
	if want := execution.GroupAnswer(t.From, t.Action); want != execution.None {
		return d.expect(ctx, api.PathExecKill, id, want)
	}
	d.kills[id] = d.later(func(ctx context.Context) (*answer, error) { return d.post(ctx, api.PathExecKill, execID(id), "") })
	_, err := d.stands(ctx, trace.GroupTerm, id)
	return err
}

func (d *gatedGroupDriver) execAck(ctx context.Context, t Transition[execution.GroupState], id uint8, _ uint64) error {
	return d.expect(ctx, api.PathExecAck, id, execution.GroupAnswer(t.From, t.Action))
}

func (d *gatedGroupDriver) execPoll(ctx context.Context, t Transition[execution.GroupState], id uint8, _ uint64) error {
	a, err := d.get(ctx, execRoute(api.PathExec, execID(id)), nil)
	if err != nil {
		return err
	}
	return a.says(execution.GroupAnswer(t.From, t.Action).String())
}

func (d *gatedGroupDriver) groupTerm(ctx context.Context, t Transition[execution.GroupState], id uint8, mark uint64) error {
	if err := d.release(ctx, trace.GroupTerm, id); err != nil {
		return err
	}
	if _, err := d.await(ctx, mark, []wanted{{action: string(trace.GroupTerm), exec: execID(id)}}); err != nil {
		return err
	}
	return d.processes(ctx, t.From, t.To)
}

// groupGone lets the escalation look until it has seen that nobody is left.
func (d *gatedGroupDriver) groupGone(ctx context.Context, t Transition[execution.GroupState], id uint8, mark uint64) error {
	if t.From.Exec[id].Stage[t.Action.Arg[1]] == execution.Due {
		if err := d.release(ctx, trace.GroupTerm, id); err != nil {
			return err
		}
	}
	scan, stop := context.WithCancel(ctx)
	defer stop()
	go d.daemon.Timers.Keep(scan, SpanScan)
	if err := d.release(ctx, trace.GroupGone, id); err != nil {
		return err
	}
	if _, err := d.await(ctx, mark, []wanted{{action: string(trace.GroupGone), exec: execID(id)}}); err != nil {
		return err
	}
	return d.killed(ctx, id, execution.GroupAnswer(t.From, t.Action))
}

// powerOff lets the daemon look at the group until it has seen that nobody is
// left, and then power off.
func (d *gatedGroupDriver) powerOff(ctx context.Context, _ Transition[execution.GroupState], id uint8, mark uint64) error {
	scan, stop := context.WithCancel(ctx)
	defer stop()
	go d.daemon.Timers.Keep(scan, SpanScan)
	if err := d.release(ctx, trace.PowerOff, id); err != nil {
		return err
	}
	if _, err := d.await(ctx, mark, []wanted{{action: string(trace.PowerOff), exec: execID(id)}}); err != nil {
		return err
	}
	for !d.daemon.PoweredOff() { // it was recorded right before the call
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the machine is not powered off: %w", err)
		}
		runtime.Gosched()
	}
	return nil
}

// Observe reads the state back.
func (d *gatedGroupDriver) Observe(ctx context.Context, _ Transition[execution.GroupState]) (Observation, error) {
	return d.observe(ctx)
}

// Close lets everything go and ends it.
func (d *gatedGroupDriver) Close() error { return d.close() }
