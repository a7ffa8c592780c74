package replay

import (
	"context"
	"fmt"

	"microvms/model/bootstrap"
)

// BootstrapSequential replays the atomic form of the bootstrap model: whole
// requests, one at a time. It needs nothing of the daemon but its address, so it
// drives any binary.
//
// The table of actions and operations:
//
//	HookRequest     POST the hook with a body that stands for the payload
//	ControlRequest  POST /v1/exec/start or GET /v1/exec/{id} with a header that stands for the bearer
//
// Outcomes are compared with the answer's status, states with what
// [projectBootstrap] says that health, the bearers and the children show.
func BootstrapSequential(c bootstrap.Config, target string, start Starter) Spec[bootstrap.State] {
	return Spec[bootstrap.State]{
		Name: "bootstrap-" + c.Name, Target: target, Model: bootstrap.NewAtomic(c),
		Start: func(ctx context.Context, _ bootstrap.State) (Driver[bootstrap.State], error) {
			b, err := newBootstrapSystem(ctx, start, Options{LogSize: c.LogCap}, c)
			if err != nil {
				return nil, err
			}
			return &sequentialDriver{b}, nil
		},
		Project: func(t Transition[bootstrap.State]) Observation {
			return projectBootstrap(t.To, c.Execs, changesBoot(t))
		},
	}
}

// changesBoot says whether the environment is worth a look after a transition
// of the atomic form: it is changed, or could wrongly be changed, by run hooks.
func changesBoot(t Transition[bootstrap.State]) bool {
	r := bootstrap.RequestOf(t.Action)
	return r.Kind == bootstrap.HookCall && r.Hook == bootstrap.Run
}

type sequentialDriver struct{ system *bootstrapSystem }

// Do performs one whole request.
func (d *sequentialDriver) Do(ctx context.Context, t Transition[bootstrap.State]) error {
	b, r := d.system, bootstrap.RequestOf(t.Action)
	var a *answer
	var err error
	var want bootstrap.Outcome
	if r.Kind == bootstrap.HookCall {
		b.turn++
		want = bootstrap.Outcome(t.Action.Arg[2])
		a, err = b.hook(ctx, r.Hook, hookBody(r.Payload, b.turn))
	} else {
		want = bootstrap.Outcome(t.Action.Arg[3])
		a, err = b.control(ctx, r.Op, r.Exec, b.next(bearers(r.Bearer, t.From.Token)))
	}
	if err != nil {
		return err
	}
	return expectOutcome(a, want)
}

func expectOutcome(a *answer, want bootstrap.Outcome) error {
	if a.status != want.Status() {
		return fmt.Errorf("answered %d, the model says %d (%s)", a.status, want.Status(), want)
	}
	return nil
}

// Observe reads the state back.
func (d *sequentialDriver) Observe(ctx context.Context, t Transition[bootstrap.State]) (Observation, error) {
	return d.system.observe(ctx, t.To.Token, changesBoot(t))
}

// Close ends the daemon.
func (d *sequentialDriver) Close() error { return d.system.close() }
