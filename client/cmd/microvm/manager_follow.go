package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
	"microvms/client/manager"
)

// runData is the data of microvm.manager.run and .attach. What is not known, or
// does not exist, is null.
type runData struct {
	RunID      string  `json:"runId"`
	Token      *string `json:"token"`
	Phase      string  `json:"phase"` // queued, started or finished
	Cause      *string `json:"cause"` // exited, cancelled, deadline or shutdown
	ExitCode   *int64  `json:"exitCode"`
	FinishedAt *string `json:"finishedAt"`
	Version    *string `json:"version"` // major.minor of the executor
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
	Log        *string `json:"log"`            // with --log
	Result     *string `json:"consumedResult"` // base64
	Metrics    any     `json:"metrics"`
	Acked      bool    `json:"acked"`      // it is released once this document is written
	Lossy      bool    `json:"lossy"`      // stdout, stderr or log stands for bytes that are not UTF-8
	OutputLost bool    `json:"outputLost"` // the rest of the output could not be read
}

// toTheEnd follows a run and turns its end into a result. When release is set
// the run is acked then.
func (f *follow) toTheEnd(ctx context.Context, a *app, run *manager.Follower, kind string, release bool) (*result, error) {
	id := run.ID()
	var event *msp.Event
	for event == nil || !event.Terminal() {
		var err error
		if event, err = run.Next(ctx); err != nil {
			return nil, err
		}
		// MCLIENT-32: on stderr, so that stdout holds the run's own output alone.
		if !a.quiet {
			fmt.Fprintf(a.stderr, "%v: %s\n", id, describe(event))
		}
	}
	if event.FailedToStart != nil {
		return nil, f.failedToStart(ctx, a, run, event.FailedToStart, release)
	}
	data := runData{RunID: id.String(), Token: event.Token(), Phase: event.Kind(), Acked: release}
	finishedData(event.Finished, &data)
	res := &result{kind: kind, exit: f.exitCode(event.Finished)}
	if err := f.outputs(ctx, a, run, event.Finished, &data); err != nil {
		// Not acked: what could not be read may be there yet.
		data.Acked, data.OutputLost = false, true
		// MCLIENT-46, MCLIENT-48: the ending is known and counts, but 0 is for a whole output.
		if res.exit == 0 || !gone(err) {
			return nil, incomplete(&data, err)
		}
		res.warnings = append(res.warnings, fmt.Sprintf("the output of run %v is gone, or a part of it: %v", id, err))
	}
	code := "-"
	if data.ExitCode != nil {
		code = strconv.FormatInt(*data.ExitCode, 10)
	}
	res.data, res.dense = data, fmt.Sprintf("%v	%s	%s", id, *data.Cause, code)
	if err := f.handOver(ctx, a, res, &data, event.Finished); err != nil {
		return nil, err
	}
	if data.Acked {
		a.release(ctx, run)
	}
	return res, nil
}

// describe is a line about an event.
func describe(e *msp.Event) string {
	f := e.Finished
	switch {
	case f == nil:
		return e.Kind()
	case f.Cause != msp.Exited:
		return "finished: " + string(f.Cause)
	case f.ExitCode == nil:
		return "finished: ended by a signal"
	}
	return fmt.Sprintf("finished: exit code %d", *f.ExitCode)
}

// outputs prints the artifacts as they are, or under JSON keeps them.
func (f *follow) outputs(ctx context.Context, a *app, run *manager.Follower, end *msp.Finished, data *runData) error {
	for _, out := range []struct {
		field msp.Artifact
		size  uint64
		text  *string
		sink  io.Writer
	}{
		{msp.Stdout, end.Sizes.Stdout, &data.Stdout, a.stdout},
		{msp.Stderr, end.Sizes.Stderr, &data.Stderr, a.stderr},
		{msp.GenvmLog, end.Sizes.GenvmLog, nil, a.stderr},
	} {
		if out.field == msp.GenvmLog {
			if !f.Log {
				continue
			}
			data.Log = new(string)
			out.text = data.Log
		}
		// MCLIENT-34: sizes say what is empty, so that nothing is asked for in vain.
		if out.size == 0 {
			continue
		}
		from := run.Open(ctx, out.field)
		var err error
		switch {
		case a.format.json:
			var raw string
			raw, err = read(from)
			// MCLIENT-47: marked, because the replacement cannot be told from what was written so.
			*out.text, data.Lossy = strings.ToValidUTF8(raw, "\uFFFD"), data.Lossy || !utf8.ValidString(raw)
		case !a.format.dense:
			_, err = io.Copy(out.sink, from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func finishedData(end *msp.Finished, data *runData) {
	cause, at, version := string(end.Cause), end.FinishedAt.String(), fmt.Sprintf("%d.%d", end.VersionMajor, end.VersionMinor)
	data.Cause, data.ExitCode, data.FinishedAt, data.Version = &cause, end.ExitCode, &at, &version
	if end.Consumed != nil {
		text := base64.StdEncoding.EncodeToString(end.Consumed)
		data.Result = &text
	}
	if end.Metrics != nil {
		data.Metrics, _ = calldata.Decode(end.Metrics) // valid: it was decoded
	}
}

// failedToStart is the error of a run of which no process was created.
func (f *follow) failedToStart(ctx context.Context, a *app, run *manager.Follower, e *msp.FailedToStart, release bool) error {
	// MCLIENT-33: an error of its own, because the executor never ran and so did not fail.
	ce := &commandError{err: &client.Error{Kind: client.KindPrecondition, Message: fmt.Sprintf("run %v failed to start: %s", run.ID(), e.Error)},
		data: map[string]any{"runId": run.ID().String(), "phase": "failed_to_start", "acked": release},
		own:  true, suggestions: []string{"compare --version, --major and the request with the executors that the manager was started with"}}
	if f.PropagateExit {
		ce.exit = 127
	}
	if release {
		a.deliverFailure(ce)
		ce.delivered = true
		// MCLIENT-42: what the manager says is kept there until it is told here.
		if a.format.json && !a.stdout.broken() || !a.stderr.broken() {
			a.release(ctx, run)
		}
	}
	return ce
}

// exitCode is this command's own code for a run that has finished.
func (f *follow) exitCode(end *msp.Finished) int {
	exited := end.Cause == msp.Exited
	switch {
	// MCLIENT-33: 0 only for an executor that exited with 0.
	case exited && end.ExitCode != nil && *end.ExitCode == 0:
		return 0
	case !f.PropagateExit:
		return exitOf(client.KindExecFailed)
	case exited && end.ExitCode != nil && *end.ExitCode&0xff != 0:
		return int(*end.ExitCode & 0xff)
	case end.Cause == msp.Deadline:
		return 124
	}
	return 137
}

// managerAttachCommand is `microvm manager attach`.
type managerAttachCommand struct {
	runArgument
	NoWait bool `name:"no-wait" help:"Print what the run is doing and leave."`
	Ack    bool `help:"Release the run at the end."`
	follow
	managerAddress
}

func (c *managerAttachCommand) run(ctx context.Context, a *app) (*result, error) {
	if err := c.runArgument.check(); err != nil {
		return nil, err
	}
	if c.NoWait && (c.Ack || c.Log || c.PropagateExit || c.Timeout != 0) {
		return nil, usage("--no-wait excludes --ack, --log, --timeout and --propagate-exit: nobody waits for the end")
	}
	if err := c.follow.check(); err != nil {
		return nil, err
	}
	return c.session(ctx, a, func(ctx context.Context, s *manager.Session) (*result, error) {
		bounded, cancel := c.bound(ctx)
		defer cancel()
		id, err := c.id(bounded, s)
		if err != nil {
			return nil, err
		}
		run, err := s.Attach(bounded, id)
		if err != nil {
			return nil, &commandError{err: err, data: map[string]any{"runId": id.String()}}
		}
		if c.NoWait {
			return snapshot(bounded, run)
		}
		res, err := c.toTheEnd(bounded, a, run, "microvm.manager.attach", c.Ack)
		if err != nil {
			return nil, c.explain(ctx, a, s, id, err)
		}
		return res, nil
	})
}

// snapshot is the result of the latest event alone.
func snapshot(ctx context.Context, run *manager.Follower) (*result, error) {
	e, err := run.Next(ctx)
	if err != nil {
		return nil, err
	}
	data := runData{RunID: run.ID().String(), Token: e.Token(), Phase: e.Kind()}
	text := describe(e)
	switch {
	case e.Finished != nil:
		finishedData(e.Finished, &data)
	case e.FailedToStart != nil:
		text += ": " + escape(e.FailedToStart.Error)
	}
	return &result{kind: "microvm.manager.attach", data: data, text: fmt.Sprintf("%v: %s\n", run.ID(), text), dense: data.RunID + "\t" + data.Phase}, nil
}
