package replay

import (
	"bytes"
	"context"
	"encoding/base64"
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

// stdinUnit is the size of a unit of input: one page, so that a pipe of n pages
// holds n units and a write that finds less room takes whole units.
const stdinUnit = 4096

// inputUnit is the content of a unit: it names its request and its place.
func inputUnit(u execution.Unit) []byte {
	return bytes.Repeat([]byte{'a' + u.Request, '0' + u.Index}, stdinUnit/2)
}

// stdinExec is the one exec of a path.
const stdinExec = "e0"

// ExecStdin replays a settled configuration of the stdin model.
//
// The table of actions and operations:
//
//	StdinWrite    POST …/stdin with the units and the signal, answered now or later
//	StdinTimeout  the timer of the write fires
//	ChildRead     the child reads one unit
//	ChildEOF      the child reads the end of file
//	LeaderExit    the child exits
//
// What follows (StdinLock, StdinPut, StdinDone, ExecExit) shows in the answers
// and in the pipe, which the child looks into without reading.
func ExecStdin(c execution.StdinConfig, target string, start ExecStarter) Spec[execution.StdinState] {
	return Spec[execution.StdinState]{
		Name: "execution-" + c.Name, Target: target, Model: execution.NewStdin(c),
		Start: func(ctx context.Context, initial execution.StdinState) (Driver[execution.StdinState], error) {
			return newStdinDriver(ctx, c, initial, start)
		},
		Project: func(t Transition[execution.StdinState]) Observation { return projectStdin(t.To, c) },
	}
}

type stdinDriver struct {
	*execSystem
	config  execution.StdinConfig
	child   *child.Process
	pending [execution.MaxWriters]chan result
	answers [execution.MaxWriters]string // the last answer to each writer
	eof     bool                         // the child has read the end of file
	read    int                          // units that the child has read
}

func newStdinDriver(ctx context.Context, c execution.StdinConfig, initial execution.StdinState, start ExecStarter) (*stdinDriver, error) {
	s, err := newExecSystem(ctx, start, ExecOptions{})
	if err != nil {
		return nil, err
	}
	d := &stdinDriver{execSystem: s, config: c}
	for w := range d.answers {
		d.answers[w] = execution.NoStdinAnswer.String()
	}
	if err := d.begin(ctx, initial.Requested); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return d, nil
}

// begin starts the exec and makes its pipe as small as the model's.
func (d *stdinDriver) begin(ctx context.Context, requested bool) error {
	body, err := d.startBody(stdinExec, "leader", map[string]any{"stdin": requested})
	if err != nil {
		return err
	}
	a, err := d.wire.call(ctx, d.wire.once, http.MethodPost, api.PathExecStart, d.bearer, api.MediaJSON, body)
	if err != nil {
		return err
	}
	if err := a.says("ok"); err != nil {
		return err
	}
	if d.child, err = d.children.Await(ctx, "leader"); err != nil || !requested {
		return err
	}
	want := int(d.config.Pipe) * stdinUnit
	if n, err := d.child.Number(ctx, "pipesize", fmt.Sprint(want)); err != nil || n != want {
		return fmt.Errorf("the stdin pipe holds %d bytes, the model's holds %d: %w", n, want, err)
	}
	return nil
}

// Do performs one act and waits for all that follows from it.
func (d *stdinDriver) Do(ctx context.Context, t Transition[execution.StdinState]) error {
	trail := d.config.Follow(t.From, t.Action)
	if len(trail) == 0 {
		return errors.New("the model has no such step")
	}
	mark := d.mark()
	if err := d.act(ctx, t, mark); err != nil {
		return err
	}
	if _, err := d.await(ctx, mark, writes(trail)); err != nil {
		return err
	}
	for w := range uint8(d.config.Writers) {
		if d.pending[w] == nil || t.To.Writer[w].Step != execution.WriterIdle {
			continue
		}
		if err := d.answer(ctx, w, t.To.Writer[w]); err != nil {
			return err
		}
	}
	return d.fills(ctx, t.To)
}

// writes lists the writes that begin on the way: a request with data whose turn
// it is, and the exit.
func writes(trail []execution.Taken[execution.StdinState]) []wanted {
	var want []wanted
	for _, step := range trail {
		w := step.Action.Arg[0]
		switch step.Action.ID {
		case execution.StdinLock:
			if x := step.To.Writer[w]; x.Step == execution.WriterWrites && x.Units > 0 {
				want = append(want, wanted{action: string(trace.StdinWrite), exec: stdinExec})
			}
		case execution.StdinExit:
			want = append(want, wanted{action: string(trace.ExecExit), exec: stdinExec})
		}
	}
	return want
}

// act performs the operation that the action stands for.
func (d *stdinDriver) act(ctx context.Context, t Transition[execution.StdinState], mark uint64) error {
	switch t.Action.ID {
	case execution.StdinWrite:
		return d.request(ctx, t, mark)
	case execution.StdinTimeout:
		return d.passes(ctx, SpanStdin)
	case execution.ChildRead:
		return d.childRead(ctx, t.From.Sent[t.From.Read])
	case execution.ChildEOF:
		data, ended, err := d.child.Read(ctx, 1)
		if err == nil && (!ended || len(data) != 0) {
			err = fmt.Errorf("the child read %q, the model says that its input has ended", data)
		}
		d.eof = err == nil
		return err
	case execution.StdinLeader:
		return d.child.Exit(ctx, 0)
	}
	return errors.New("the table has no operation for the action")
}

// request sends a stdin request and waits until it was taken up.
func (d *stdinDriver) request(ctx context.Context, t Transition[execution.StdinState], mark uint64) error {
	w, units, eof := t.Action.Arg[0], t.Action.Arg[1], t.Action.Arg[2] != 0
	body := map[string]any{}
	if units > 0 {
		var data []byte
		for n := range units {
			data = append(data, inputUnit(execution.Unit{Request: t.From.Requests + 1, Index: n})...)
		}
		body["data_b64"] = base64.StdEncoding.EncodeToString(data)
	}
	if eof {
		body["signal"] = api.SignalEOF
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	d.pending[w] = d.later(func(ctx context.Context) (*answer, error) {
		return d.post(ctx, api.PathExecStdin, stdinExec, string(text))
	})
	d.answers[w] = execution.NoStdinAnswer.String()
	_, err = d.await(ctx, mark, []wanted{{action: string(trace.ControlServe), exec: stdinExec}})
	return err
}

func (d *stdinDriver) childRead(ctx context.Context, unit execution.Unit) error {
	data, ended, err := d.child.Read(ctx, stdinUnit)
	if err != nil {
		return err
	}
	if ended || !bytes.Equal(data, inputUnit(unit)) {
		return fmt.Errorf("the child read %.4q… (ended: %v), the model says unit %d of request %d", data, ended, unit.Index, unit.Request)
	}
	d.read++
	return nil
}

// answer waits for a writer's answer and compares it.
func (d *stdinDriver) answer(ctx context.Context, w uint8, x execution.Writer) error {
	a, err := answered(ctx, d.pending[w])
	if err != nil {
		return err
	}
	d.pending[w] = nil
	if err := a.says(x.Answer.String()); err != nil {
		return err
	}
	d.answers[w] = a.slug()
	if x.Answer != execution.StdinOK {
		return nil
	}
	body := fmt.Sprintf(`{"exec_id":%q,"written":%d,"eof":%v}`, stdinExec, int(x.Told)*stdinUnit, x.EOF)
	if got := strings.TrimSpace(string(a.body)); got != body {
		return fmt.Errorf("the request was answered %s, the model says %s", got, body)
	}
	return nil
}

// fills waits until the pipe holds what the model says, and is closed if the
// model says so. The kernel takes a write into the pipe without telling anybody,
// and a close is complete when no fork of the daemon that has yet to become its
// program holds a copy of the write end. A pipe that is closed too early, or
// holds too much, is never waited for.
func (d *stdinDriver) fills(ctx context.Context, s execution.StdinState) error {
	if !s.Requested || s.LeaderGone {
		return nil
	}
	want := int(s.Entered-s.Read) * stdinUnit
	for {
		n, hung, err := d.pipe(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("cannot wait for %d bytes in the pipe: %w", want, err)
		case n >= want && hung == !s.Open, n > want, hung && s.Open:
			return nil // what differs is told by the observation
		}
	}
}

// pipe looks into the child's stdin: bytes that lie there, and whether the write
// end is closed.
func (d *stdinDriver) pipe(ctx context.Context) (int, bool, error) {
	n, err := d.child.Number(ctx, "available")
	if err != nil {
		return 0, false, err
	}
	hung, err := d.child.Number(ctx, "hungup")
	return n, hung != 0, err
}

// Observe reads the state back.
func (d *stdinDriver) Observe(ctx context.Context, t Transition[execution.StdinState]) (Observation, error) {
	return d.settled(ctx, projectStdin(t.To, d.config), func(ctx context.Context) (Observation, error) {
		return d.observe(ctx, t.To.Requested)
	})
}

// observe reads the poll and the child's side of the pipe.
func (d *stdinDriver) observe(ctx context.Context, requested bool) (Observation, error) {
	var poll api.PollResponse
	if _, err := d.get(ctx, execRoute(api.PathExec, stdinExec), &poll); err != nil {
		return nil, err
	}
	pipe := "none"
	if requested && d.child.Alive() {
		n, hung, err := d.pipe(ctx)
		if err != nil {
			return nil, err
		}
		pipe = pipeWord(n/stdinUnit, hung)
	}
	out := Observation{field("phase", poll.Phase), field("pipe", pipe), field("read", d.read), field("eof", d.eof)}
	for w := range d.config.Writers {
		out = append(out, field(fmt.Sprintf("writer %d", w), d.answers[w]))
	}
	return out, nil
}

func pipeWord(units int, closed bool) string { return fmt.Sprintf("units=%d closed=%v", units, closed) }

// projectStdin is what must be observed of a state.
func projectStdin(s execution.StdinState, c execution.StdinConfig) Observation {
	phase, pipe := "running", "none"
	if s.Phase == execution.Exited {
		phase = "exited"
	}
	if s.Requested && !s.LeaderGone {
		pipe = pipeWord(int(s.Entered-s.Read), !s.Open)
	}
	out := Observation{field("phase", phase), field("pipe", pipe), field("read", s.Read), field("eof", s.SawEOF)}
	for w := range c.Writers {
		out = append(out, field(fmt.Sprintf("writer %d", w), s.Writer[w].Answer))
	}
	return out
}

// Close ends everything.
func (d *stdinDriver) Close() error { return d.close() }
