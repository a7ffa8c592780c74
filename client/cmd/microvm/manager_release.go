package main

import (
	"context"
	"errors"
	"fmt"

	"microvms/agentd/api/msp"
	"microvms/client"
	"microvms/client/manager"
)

// gone reports whether err says that a run or its manager is no longer there.
func gone(err error) bool {
	return client.WireKindOf(err) != client.WireProtocolError &&
		(client.Retryable(err) || errors.Is(err, manager.ErrRestarted) || errors.Is(err, manager.ErrUnknownID))
}

// incomplete is the error of a run that has ended but whose output was not read
// whole.
func incomplete(data *runData, err error) error {
	ce := &commandError{err: fmt.Errorf("run %s has ended (%s), but its output could not be read: %w", data.RunID, *data.Cause, err), ended: true,
		data: map[string]any{"runId": data.RunID, "token": nil, "cause": *data.Cause, "exitCode": nil, "acked": false}}
	if data.Token != nil {
		ce.data["token"] = *data.Token
	}
	if data.ExitCode != nil {
		ce.data["exitCode"] = *data.ExitCode
	}
	if !gone(err) {
		ce.suggestions = []string{"read it again: microvm manager attach " + data.RunID}
	}
	return ce
}

// handOver writes the result of a run that has finished, and takes back that it
// is acked when the result, or the output ahead of it, was not written.
func (f *follow) handOver(ctx context.Context, a *app, res *result, data *runData, end *msp.Finished) error {
	if errors.Is(context.Cause(ctx), errSignal) { // the signal ends no write any more: the next one does
		next, stop := a.untilInterrupt(context.Background())
		defer stop()
		a.writeUntil(next)
	}
	asIs := !a.format.json && !a.format.dense
	sinks := []*sink{a.stdout}
	if asIs && (end.Sizes.Stderr > 0 || f.Log && end.Sizes.GenvmLog > 0) {
		sinks = append(sinks, a.stderr)
	}
	return a.written(res, data, "is kept", sinks...)
}

// started writes the result of a run that nobody waits for.
func (a *app) started(res *result, data *runData) (*result, error) {
	return res, a.written(res, data, "was started", a.stdout)
}

// written writes a result and sees that all of it arrived. If not, it names the
// run, and data says that it is not acked.
//
// MCLIENT-42: a run that nobody can name is lost with its output, and so is one
// that is released before its output is somewhere else.
func (a *app) written(res *result, data *runData, state string, sinks ...*sink) error {
	a.deliver(res)
	for _, to := range sinks {
		failure := to.failure()
		if failure == nil {
			continue
		}
		data.Acked = false
		token := "none"
		if data.Token != nil {
			token = *data.Token
		}
		text := fmt.Sprintf("run %s (token %q) %s", data.RunID, token, state)
		if to.left() {
			// CLI-8: a reader that left changes no outcome.
			fmt.Fprintf(a.stderr, "warning: the reader of the output left; %s\n", a.clean(text))
			return nil
		}
		kind := client.KindPrecondition
		if errors.Is(failure, client.ErrInterrupted) {
			kind = client.KindInterrupted
		}
		return &commandError{err: &client.Error{Kind: kind, Message: "cannot write the output; " + text, Err: failure},
			exit: res.exit, ended: true, own: true, data: map[string]any{"runId": data.RunID, "token": token, "acked": false},
			suggestions: []string{"follow it: microvm manager attach " + data.RunID}}
	}
	return nil
}

// release acks a run whose result is written.
func (a *app) release(ctx context.Context, run *manager.Follower) {
	err := run.Ack(ctx)
	// MCLIENT-45: it is released, by another or with the boot of its manager.
	if err == nil || errors.Is(err, manager.ErrUnknownID) || errors.Is(err, manager.ErrRestarted) {
		return
	}
	fmt.Fprintf(a.stderr, "warning: run %v was not released: %s\n", run.ID(), a.clean(err.Error()))
}
