package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/model/execstart"
)

// StartOptions are what the driver of the exec start model asks of the daemon
// that is started for it.
type StartOptions struct {
	Hold                              func(p trace.Point) bool
	Environ                           []string
	PasswdPath, GroupPath, RecordPath string
	DefaultUser                       *string
	PreserveImageUser                 bool
}

// StartStarter starts a fresh daemon, as root, in the test process: its gate
// splits a request, and its files are the guest's that the driver made.
type StartStarter func(ctx context.Context, o StartOptions) (*Daemon, error)

// ExecStart replays the interleaved form of the exec start model. Each child is
// a real process that runs as it was resolved and says so itself: ids, groups,
// shell and environment.
//
// The table of actions and operations:
//
//	Boot           start the daemon with what the image of the initial state says
//	RunHook        POST the run hook with the launch environment
//	Health         GET /v1/health and compare the number of keys
//	FilesChange    write the guest's passwd and group files anew
//	ExecReceive    POST the start; it stands before ExecStart
//	ExecStart      let it go; it stands before ExecResolve (new), before ControlAnswer (known), or waits
//	ExecResolve    let it go; it stands before ExecSpawn or before ExecRefuse
//	ExecSpawn      let it go; it and those that wait for it stand before ControlAnswer
//	ExecRefuse     let it go; likewise
//	ControlAnswer  let it go and compare the answer: status, error, and the value that a refusal names
func ExecStart(c execstart.Config, house *StartHouse, start StartStarter) Spec[execstart.State] {
	groups, groupsErr := os.Getgroups()
	slices.Sort(groups)
	return Spec[execstart.State]{
		Name: "execstart-" + c.Name, Target: "in-process", Model: execstart.New(c),
		Start: func(ctx context.Context, initial execstart.State) (Driver[execstart.State], error) {
			guest, err := newStartGuest(house, initial.Image, initial.Files)
			if err != nil || groupsErr != nil {
				return nil, errors.Join(err, groupsErr)
			}
			return &startDriver{house: house, guest: guest, start: start, driven: map[uint64]bool{}, said: map[string]string{}}, nil
		},
		Project: func(t Transition[execstart.State]) Observation { return house.project(t, groups) },
	}
}

// startDriver drives one daemon over one guest.
type startDriver struct {
	house  *StartHouse
	guest  *startGuest
	start  StartStarter
	daemon *Daemon // nil before its boot
	wire   *wire
	said   map[string]string // what the child of an exec said

	requests [execstart.MaxSlots]*startFlight
	calls    sync.WaitGroup

	mu     sync.Mutex
	driven map[uint64]bool // starts: their answers are held, those of reads are not
}

// startFlight is a start request in flight.
type startFlight struct {
	request uint64  // its serial number in the daemon
	parked  *Parked // nil while it waits for another request
	cut     context.CancelFunc
	result  chan result
}

func (d *startDriver) hold(p trace.Point) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch p.Action {
	case trace.ExecStart:
		d.driven[p.Request] = true
		return true
	case trace.ExecResolve, trace.ExecSpawn, trace.ExecRefuse:
		return true
	case trace.ControlAnswer:
		return d.driven[p.Request]
	}
	return false
}

// Do takes one step.
func (d *startDriver) Do(ctx context.Context, t Transition[execstart.State]) error {
	slot := t.Action.Arg[0]
	switch t.Action.ID {
	case execstart.Boot:
		return d.boot(ctx, t.From.Image)
	case execstart.RunHook:
		return d.bootstrap(ctx, execstart.Flags(slot))
	case execstart.Health:
		h, err := d.wire.health(ctx)
		if err == nil && (h.ImageEnvKeys == nil || *h.ImageEnvKeys != uint(slot)) {
			err = fmt.Errorf("health reports %v keys, the model says %d", h.ImageEnvKeys, slot)
		}
		return err
	case execstart.FilesChange:
		return d.guest.write(t.To.Files)
	case execstart.ExecReceive:
		return d.receive(ctx, slot, t.Action.Arg[1], t.To.Slots[slot].Request)
	case execstart.ExecStart:
		return d.find(ctx, slot, t.To.Slots[slot].Phase)
	case execstart.ExecResolve:
		return d.resolve(ctx, slot, t.To.Slots[slot])
	case execstart.ExecSpawn, execstart.ExecRefuse:
		return d.decide(ctx, slot, t)
	case execstart.ControlAnswer:
		return d.answer(ctx, slot, t)
	}
	return errors.New("the table has no operation for the action")
}

func (d *startDriver) boot(ctx context.Context, image execstart.Image) (err error) {
	d.daemon, err = d.start(ctx, StartOptions{
		Hold: d.hold, Environ: d.house.environ(),
		PasswdPath: d.guest.passwd(), GroupPath: d.guest.group(), RecordPath: d.guest.record(),
		DefaultUser: defaultUser(image.Default), PreserveImageUser: image.Record != execstart.RecordOff,
	})
	if err == nil {
		d.wire = newWire(d.daemon.URL)
	}
	return err
}

func (d *startDriver) bootstrap(ctx context.Context, launch execstart.Flags) error {
	payload, err := json.Marshal(map[string]any{"agent_token": startBear, "env": d.house.layer(launch, "launch")})
	if err != nil {
		return err
	}
	a, err := d.wire.call(ctx, d.wire.once, http.MethodPost, api.HookPrefix+"/run", "", api.MediaJSON, envelope(string(payload)))
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("the run hook was answered %d", a.status)
	}
	return err
}

// receive sends a start and waits until it stands before ExecStart.
func (d *startDriver) receive(ctx context.Context, slot, id uint8, r execstart.Request) error {
	body, err := d.house.body(execName(id), r)
	if err != nil {
		return err
	}
	// The request outlives the step; Close ends it.
	own, cut := context.WithCancel(context.WithoutCancel(ctx))
	f := &startFlight{cut: cut, result: make(chan result, 1)}
	d.calls.Go(func() {
		a, err := d.wire.call(own, d.wire.once, http.MethodPost, api.PathExecStart, "Bearer "+startBear, api.MediaJSON, body)
		f.result <- result{a, err}
	})
	d.requests[slot] = f
	known := map[uint64]bool{}
	for i, other := range d.requests {
		if other != nil && i != int(slot) {
			known[other.request] = true
		}
	}
	f.parked, err = d.daemon.Gate.Await(ctx, func(p trace.Point) bool { return p.Action == trace.ExecStart && !known[p.Request] })
	if err != nil {
		return fmt.Errorf("the start did not arrive: %w", err)
	}
	f.request = f.parked.Point.Request
	return nil
}

// release lets a request go from where it stands.
func (f *startFlight) release() {
	f.parked.Release()
	f.parked = nil
}

// stand waits until the request stands before one of the points.
func (d *startDriver) stand(ctx context.Context, f *startFlight, points ...trace.Action) (err error) {
	f.parked, err = d.daemon.Gate.Await(ctx, func(p trace.Point) bool {
		return p.Request == f.request && slices.Contains(points, p.Action)
	})
	if err != nil {
		return fmt.Errorf("request %d does not come to %v: %w", f.request, points, err)
	}
	return nil
}

// find lets a request look for its id. That it waits is something that only the
// daemon knows, so its recorder is asked.
func (d *startDriver) find(ctx context.Context, slot uint8, found execstart.Phase) error {
	f := d.requests[slot]
	f.release()
	if found != execstart.PhaseWaiting {
		return d.stand(ctx, f, trace.ExecResolve, trace.ControlAnswer)
	}
	_, err := d.daemon.Recorder.Await(ctx, 0, func(e trace.Event) bool {
		return e.Action == trace.ExecStart && e.Request == f.request && slices.Contains(e.Attrs, trace.Attr{Key: "pending", Value: true})
	})
	return err
}

// resolve lets the names be resolved, and compares what the daemon recorded.
func (d *startDriver) resolve(ctx context.Context, slot uint8, to execstart.Slot) error {
	f := d.requests[slot]
	f.release()
	if err := d.stand(ctx, f, trace.ExecSpawn, trace.ExecRefuse); err != nil {
		return err
	}
	want := "command"
	if to.Code != execstart.Started {
		want = string(codeOf[to.Code])
	}
	for _, e := range d.daemon.Recorder.Events() {
		if e.Action == trace.ExecResolve && e.Request == f.request {
			if !slices.Contains(e.Attrs, trace.Attr{Key: "outcome", Value: want}) {
				return fmt.Errorf("the resolution was recorded as %v, the model says %s", e.Attrs, want)
			}
			return nil
		}
	}
	return errors.New("no resolution was recorded")
}

// decide lets the spawn or the refusal happen; whoever waited goes on, too.
func (d *startDriver) decide(ctx context.Context, slot uint8, t Transition[execstart.State]) error {
	d.requests[slot].release()
	for i, f := range d.requests {
		waited := t.From.Slots[i].Phase == execstart.PhaseWaiting && t.To.Slots[i].Phase == execstart.PhaseAnswering
		if i == int(slot) || waited {
			if err := d.stand(ctx, f, trace.ControlAnswer); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer lets the answer out and compares it.
func (d *startDriver) answer(ctx context.Context, slot uint8, t Transition[execstart.State]) error {
	f, from := d.requests[slot], t.From.Slots[slot]
	f.release()
	d.requests[slot] = nil
	defer f.cut()
	var got result
	select {
	case got = <-f.result:
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
	code := execstart.Code(t.Action.Arg[1])
	switch {
	case got.err != nil:
		return got.err
	case code == execstart.Started:
		want := fmt.Sprintf(`{"exec_id":%q,"phase":"running"}`, execName(from.ID))
		if got.answer.status != http.StatusOK || string(got.answer.body) != want {
			return fmt.Errorf("answered %d %s, the model says 200", got.answer.status, got.answer.slug())
		}
		return nil
	case got.answer.status != http.StatusBadRequest || got.answer.slug() != string(codeOf[code]):
		return fmt.Errorf("answered %d %s, the model says 400 %s", got.answer.status, got.answer.slug(), code)
	case !from.Owner:
		return nil // it has the refusal of another request, which names that one's value
	}
	return got.answer.mustName(d.house.named(t.From.Image, from.Request, code))
}

// Close lets every request go, ends the daemon and removes the guest.
func (d *startDriver) Close() error {
	var err error
	if d.daemon != nil {
		d.daemon.Gate.Open()
		for _, f := range d.requests {
			if f != nil {
				f.cut()
			}
		}
		d.calls.Wait()
		d.wire.close()
		err = d.daemon.Stop()
	}
	return errors.Join(err, d.guest.remove())
}
