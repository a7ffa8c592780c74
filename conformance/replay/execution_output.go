package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/model/execution"
)

// unitBytes is the size of a unit of output. Units go to stdout and stderr in
// turn, so that the store keeps them apart and each is one event.
const unitBytes = 16

// unitText is the unit with that number.
func unitText(unit uint8) string { return fmt.Sprintf("<unit %02d %s>\n", unit, "abcdef")[:unitBytes] }

// unitStream is the stream that the unit goes to.
func unitStream(unit uint8) string { return [...]string{"stdout", "stderr"}[unit%2] }

// outputExec is the one exec of a path.
const outputExec = "e0"

// ExecOutput replays a settled configuration of the output model.
//
// The table of actions and operations:
//
//	ChildWrite     the leader, or the member that outlived it, writes the next unit to its stream
//	MemberFork     the leader forks a member that holds the pipes
//	MemberExit     the member exits
//	LeaderExit     the leader exits with code 0
//	LingerExpire   the timer of the linger fires
//	ExecAck        POST …/ack
//	ExecPoll       GET /v1/exec/{id}
//	StreamAttach   GET …/stream with the offset
//	StreamDetach   cut the reader's connection
//
// What follows (OutputPublish, StreamDeliver, StreamGap, StreamExit, ExecExit)
// is awaited: the store's steps from the recorder, the events from the reader.
func ExecOutput(c execution.OutputConfig, target string, start ExecStarter) Spec[execution.OutputState] {
	return outputSpec(c, target, start, nil, func(s *outputSystem) Driver[execution.OutputState] { return &outputDriver{s} })
}

func outputSpec(c execution.OutputConfig, target string, start ExecStarter, hold func(p trace.Point) bool,
	driver func(s *outputSystem) Driver[execution.OutputState]) Spec[execution.OutputState] {
	return Spec[execution.OutputState]{
		Name: "execution-" + c.Name, Target: target, Model: execution.NewOutput(c),
		Start: func(ctx context.Context, _ execution.OutputState) (Driver[execution.OutputState], error) {
			s, err := newOutputSystem(ctx, c, start, hold)
			if err != nil {
				return nil, err
			}
			return driver(s), nil
		},
		Project: func(t Transition[execution.OutputState]) Observation { return projectOutput(t.To, c) },
	}
}

// outputSystem is what both drivers of the output model share.
type outputSystem struct {
	*execSystem
	config  execution.OutputConfig
	leader  *child.Process
	member  *child.Process
	readers [execution.MaxReaders]reader
	watch   *stream // a reader beside the model's, where the daemon does not tell when output is published; or nil
}

// reader is what a client has received, over all its attachments.
type reader struct {
	stream *stream
	serial uint64
	got    string // "0 1 gap2-3 4 exit"
	want   int    // bytes
}

// newOutputSystem starts a daemon whose ring and head have the model's sizes,
// and the exec.
func newOutputSystem(ctx context.Context, c execution.OutputConfig, start ExecStarter, hold func(p trace.Point) bool) (*outputSystem, error) {
	s, err := newExecSystem(ctx, start, ExecOptions{Ring: int(c.Ring) * unitBytes, Head: int(c.Head) * unitBytes, Hold: hold})
	if err != nil {
		return nil, err
	}
	o := &outputSystem{execSystem: s, config: c}
	body, err := s.startBody(outputExec, "leader", nil)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	a, err := s.wire.call(ctx, s.wire.once, http.MethodPost, api.PathExecStart, s.bearer, api.MediaJSON, body)
	if err == nil {
		err = a.says("ok")
	}
	if err == nil {
		o.leader, err = s.children.Await(ctx, "leader")
	}
	if err == nil && s.daemon.Recorder == nil {
		o.watch, err = s.attach(outputExec, 0)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return o, nil
}

// watched waits until a watching reader got an event for the step.
func (o *outputSystem) watched(ctx context.Context, step execution.Taken[execution.OutputState]) error {
	if o.watch == nil || step.Action.ID != execution.OutputPublish && step.Action.ID != execution.OutputExit {
		return nil
	}
	_, ok, err := o.watch.next(ctx)
	if err == nil && !ok {
		err = errors.New("the watching reader's stream ended before the exit event")
	}
	return err
}

// write lets a live process write the next unit.
func (o *outputSystem) write(ctx context.Context, unit uint8, leaderGone bool) error {
	writer := o.leader
	if leaderGone {
		writer = o.member
	}
	return writer.Write(ctx, unitStream(unit), []byte(unitText(unit)))
}

func (o *outputSystem) fork(ctx context.Context) (err error) {
	if _, err = o.leader.Do(ctx, "fork", "member"); err == nil {
		o.member, err = o.children.Await(ctx, "member")
	}
	return err
}

// attachReader attaches a reader at an offset in units and learns its number.
func (o *outputSystem) attachReader(ctx context.Context, r, offset uint8, mark uint64) error {
	x := &o.readers[r]
	var err error
	if x.stream, err = o.attach(outputExec, int(offset)*unitBytes); err != nil {
		return err
	}
	x.want = int(offset) * unitBytes
	events, err := o.await(ctx, mark, []wanted{{action: string(trace.StreamAttach), exec: outputExec}})
	if err == nil && events != nil {
		x.serial = events[0].Reader
	}
	return err
}

// detachReader cuts a reader and waits until the daemon has let it go.
func (o *outputSystem) detachReader(ctx context.Context, r uint8, mark uint64) error {
	x := &o.readers[r]
	if err := x.stream.leave(ctx); err != nil {
		return err
	}
	_, err := o.await(ctx, mark, []wanted{{action: string(trace.StreamDetach), exec: outputExec, reader: x.serial}})
	return err
}

// takes reads the next frame of a reader and holds it to the cursor and to the
// bytes that were written. Output comes in any number of units.
func (o *outputSystem) takes(ctx context.Context, r uint8) (string, error) {
	x := &o.readers[r]
	f, ok, err := x.stream.next(ctx)
	if err != nil {
		return "", err
	}
	if !ok {
		return "end", nil
	}
	var word string
	switch {
	case f.kind == "exit":
		word = fmt.Sprintf("exit%d", f.to/unitBytes)
	case f.from != x.want:
		return "", fmt.Errorf("reader %d got %s at byte %d, its cursor is %d", r, f.kind, f.from, x.want)
	case f.from%unitBytes != 0 || f.to%unitBytes != 0:
		return "", fmt.Errorf("reader %d got %s of bytes %d to %d: a part of a unit", r, f.kind, f.from, f.to)
	case f.kind == "gap":
		word = fmt.Sprintf("gap%d-%d", f.from/unitBytes, f.to/unitBytes)
	default:
		unit := uint8(f.from / unitBytes)
		if f.data != unitText(unit) || f.stream != unitStream(unit) {
			return "", fmt.Errorf("reader %d got %q of %s as unit %d", r, f.data, f.stream, unit)
		}
		word = fmt.Sprintf("%d", unit)
	}
	x.want = f.to
	x.got = strings.TrimSpace(x.got + " " + word)
	return word, nil
}

// expectFrame takes a frame and compares it with the model's.
func (o *outputSystem) expectFrame(ctx context.Context, r uint8, want string) error {
	got, err := o.takes(ctx, r)
	if err == nil && got != want {
		err = fmt.Errorf("reader %d got %s, the model says %s", r, got, want)
	}
	return err
}

type outputDriver struct{ *outputSystem }

// Do performs one act and waits for all that follows from it.
func (d *outputDriver) Do(ctx context.Context, t Transition[execution.OutputState]) error {
	trail := d.config.Follow(t.From, t.Action)
	if len(trail) == 0 {
		return errors.New("the model has no such step")
	}
	mark := d.mark()
	if err := d.act(ctx, t, mark); err != nil {
		return err
	}
	return d.follows(ctx, trail, mark)
}

// act performs the operation that the action stands for.
func (d *outputDriver) act(ctx context.Context, t Transition[execution.OutputState], mark uint64) error {
	if t.Action.ID == execution.StreamAttach {
		return d.attachReader(ctx, t.Action.Arg[0], t.Action.Arg[1], mark)
	}
	return d.outputAct(ctx, t, mark)
}

// outputAct performs the acts that are the same however the daemon is held.
func (o *outputSystem) outputAct(ctx context.Context, t Transition[execution.OutputState], mark uint64) error {
	switch t.Action.ID {
	case execution.ChildWrite:
		return o.write(ctx, t.From.Written, t.From.LeaderGone)
	case execution.WriterFork:
		return o.fork(ctx)
	case execution.WriterExit:
		return o.member.Exit(ctx, 0)
	case execution.WriterLead:
		return o.leader.Exit(ctx, 0)
	case execution.OutputLinger:
		return o.passes(ctx, SpanLinger)
	case execution.OutputAck:
		return o.ack(ctx, t.From)
	case execution.OutputPoll:
		_, err := o.get(ctx, execRoute(api.PathExec, outputExec), nil)
		return err
	case execution.StreamDetach:
		return o.detachReader(ctx, t.Action.Arg[0], mark)
	}
	return errors.New("the table has no operation for the action")
}

// ack acks, and compares the answer and the output that it delivers.
func (o *outputSystem) ack(ctx context.Context, s execution.OutputState) error {
	want := map[execution.Phase]string{execution.Running: "still_running", execution.Exited: "ok", execution.Acked: "already_acked"}[s.Phase]
	a, err := o.post(ctx, api.PathExecAck, outputExec, "")
	if err != nil {
		return err
	}
	if err := a.says(want); err != nil || want != "ok" {
		return err
	}
	var poll api.PollResponse
	if err := json.Unmarshal(a.body, &poll); err != nil {
		return fmt.Errorf("cannot read the answer to an ack: %w", err)
	}
	if got, want := headWord(poll.Outcome), headOf(s, o.config); got != want {
		return fmt.Errorf("the ack delivered %s, the model says %s", got, want)
	}
	return nil
}

// follows waits for what follows from an act: the steps of the store from the
// recorder, the events from their readers.
func (d *outputDriver) follows(ctx context.Context, trail []execution.Taken[execution.OutputState], mark uint64) error {
	var want []wanted
	for _, step := range trail {
		switch step.Action.ID {
		case execution.OutputPublish:
			want = append(want, wanted{action: string(trace.OutputPublish), exec: outputExec})
		case execution.OutputExit:
			want = append(want, wanted{action: string(trace.ExecExit), exec: outputExec})
		case execution.OutputLinger:
			want = append(want, wanted{action: string(trace.LingerExpire), exec: outputExec})
		case execution.WriterLead:
			want = append(want, wanted{action: string(trace.LeaderReap), exec: outputExec})
		}
	}
	if _, err := d.await(ctx, mark, want); err != nil {
		return err
	}
	for _, step := range trail {
		if err := errors.Join(d.watched(ctx, step), d.event(ctx, step)); err != nil {
			return err
		}
	}
	return nil
}

// event waits for the frame of a step that has one.
func (o *outputSystem) event(ctx context.Context, step execution.Taken[execution.OutputState]) error {
	r := step.Action.Arg[0]
	switch step.Action.ID {
	case execution.StreamDeliver:
		return o.expectFrame(ctx, r, fmt.Sprint(step.From.Reader[r].Next))
	case execution.StreamGap:
		return o.expectFrame(ctx, r, fmt.Sprintf("gap%d-%d", step.From.Reader[r].Next, step.From.Low))
	case execution.StreamExit:
		if err := o.expectFrame(ctx, r, fmt.Sprintf("exit%d", step.From.Total)); err != nil {
			return err
		}
		return o.expectFrame(ctx, r, "end")
	}
	return nil
}

// Observe reads the state back.
func (d *outputDriver) Observe(ctx context.Context, t Transition[execution.OutputState]) (Observation, error) {
	return d.settled(ctx, projectOutput(t.To, d.config), d.observe)
}

// Close ends everything.
func (d *outputDriver) Close() error { return d.close() }
