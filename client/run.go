package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"microvms/agentd/api"
)

// Deadlines of a run to completion (client facts, section 10).
const (
	// DefaultGrace is added to the command's own timeout, and is again the time
	// for the ack after a kill.
	DefaultGrace = 60 * time.Second
	// DefaultDeadline bounds a command without a timeout.
	DefaultDeadline = 28800 * time.Second
)

// Exit codes that stand for something other than the command's own code.
const (
	exitDeadline   = 124 // as timeout(1)
	exitUnknown    = 125 // neither code nor signal is known
	exitSignalBase = 128
)

// RunOptions changes how [Session.RunToCompletion] follows a command.
type RunOptions struct {
	// Output receives each piece of output as it comes; false stops the
	// streaming, not the command. Nil: output comes with the result only.
	Output func(*Output) bool
	// Grace replaces DefaultGrace when positive.
	Grace time.Duration
}

// KillOutcome is what the kill at the client's deadline did.
type KillOutcome string

// The outcomes.
const (
	KillSignalled   KillOutcome = "Signalled"   // a live group was signalled
	KillAlreadyGone KillOutcome = "AlreadyGone" // there was none left
	KillFailed      KillOutcome = "Failed"      // the request failed
)

// ClientDeadline says that the client's own deadline passed before the ack.
type ClientDeadline struct {
	After  time.Duration // the deadline, from the start's answer on
	Kill   KillOutcome
	AckErr error // why the ack after the kill failed; nil if it did not
}

// RunResult is the one outcome of a run to completion.
type RunResult struct {
	ExecID string
	// Outcome is the daemon's record. It is zero when Synthesized, and without
	// output when OutputUnknown.
	Outcome        api.Outcome
	ClientDeadline *ClientDeadline // nil when the deadline did not pass
	Synthesized    bool            // the daemon never told how the command ended
	OutputUnknown  bool
}

// POSIXCode is the code that a shell would report, 0 to 255 for any code a
// process can have: 124 for a deadline, 128 + n for a signal, 125 if unknown.
func (r *RunResult) POSIXCode() int {
	// BIND-6: a deadline comes first, because a command that handles SIGTERM may
	// exit 0 after its deadline and must not read as a success.
	if r.Synthesized || (r.ClientDeadline != nil && r.ClientDeadline.Kill == KillSignalled) {
		return exitDeadline
	}
	return posixCode(&r.Outcome)
}

// POSIXCode is the code that a shell would report: 124 for the daemon's
// deadline, 128 + n for a signal, else the exit code; 125 without an outcome.
func (r *Result) POSIXCode() int {
	if r.Outcome == nil {
		return exitUnknown
	}
	return posixCode(r.Outcome)
}

func posixCode(o *api.Outcome) int {
	switch {
	case o.TimedOut:
		return exitDeadline // BIND-6: before the raw code, which may be 0
	case o.Signal != nil:
		return exitSignalBase + int(*o.Signal)
	case o.ExitCode != nil:
		return int(*o.ExitCode)
	}
	return exitUnknown
}

// Notes gives one sentence for each thing that a reader of the result must
// know besides the code. The slice is fresh.
func (r *RunResult) Notes() []string {
	var notes []string
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	// BIND-7: one note each, so that no kind of incompleteness passes silently.
	add(r.Outcome.Truncated, "output truncated: the daemon keeps only the first bytes of each stream")
	add(r.Outcome.TimedOut, "daemon deadline: the command ran past its timeout and was ended")
	add(r.Outcome.WritersMayBeAlive, "writers alive: a process still holds the output open, so later output is missing")
	if d := r.ClientDeadline; d != nil {
		add(true, "client deadline: no result within %s; kill: %s", d.After, d.Kill)
		if r.Synthesized {
			add(true, "synthesized result: the daemon did not tell how the command ended: %v", d.AckErr)
		}
	}
	add(r.OutputUnknown && !r.Synthesized, "output unknown: the result was acked before")
	return notes
}

// RunToCompletion starts a command and returns exactly one of a result and an
// error. The deadline is the command's timeout plus the grace, or 28800 s
// without a timeout. When it passes, the command is killed and acked within the
// grace; if that fails too, the result is synthesized.
//
// Ending ctx stops the waiting with ErrInterrupted and leaves the command alone.
func (s *Session) RunToCompletion(ctx context.Context, req api.StartRequest, opts RunOptions) (*RunResult, error) {
	grace := opts.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	after, err := runDeadline(req.TimeoutSec, grace)
	if err != nil {
		return nil, err
	}
	id, err := s.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	runCtx, cancel := withTimeout(ctx, s.clock, after)
	done, err := s.complete(runCtx, id, opts.Output)
	expired := errors.Is(context.Cause(runCtx), errDeadline)
	cancel()
	if err == nil {
		return done.result(id), nil
	}
	if !expired || s.stopped(ctx) || fatal(err) {
		return nil, err
	}
	return s.endAtDeadline(ctx, id, after, grace)
}

// endAtDeadline kills and acks a command whose client deadline has passed.
func (s *Session) endAtDeadline(ctx context.Context, id string, after, grace time.Duration) (*RunResult, error) {
	deadline := &ClientDeadline{After: after}
	// BIND-9: the group is signalled first, because an ack of a running command
	// is refused and its output would be lost.
	signalled, err := s.Kill(ctx, id)
	switch {
	case s.stopped(ctx):
		return nil, err
	case err != nil:
		deadline.Kill = KillFailed
	case signalled:
		deadline.Kill = KillSignalled
	default:
		deadline.Kill = KillAlreadyGone
	}
	graceCtx, cancel := withTimeout(ctx, s.clock, grace)
	defer cancel()
	done, err := s.complete(graceCtx, id, nil)
	if err == nil {
		res := done.result(id)
		res.ClientDeadline = deadline
		return res, nil
	}
	if s.stopped(ctx) {
		return nil, err
	}
	// BIND-10: the caller gets a result, not an error, because the command may
	// have run; its notes name what failed.
	deadline.AckErr = err
	return &RunResult{ExecID: id, ClientDeadline: deadline, Synthesized: true, OutputUnknown: true}, nil
}

func (c *completion) result(id string) *RunResult {
	return &RunResult{ExecID: id, Outcome: *c.outcome, OutputUnknown: c.outputUnknown}
}

// stopped says whether the caller, not a deadline of ours, ended the call.
func (s *Session) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || s.closing.Err() != nil
}

// fatal says whether err is the daemon's final word, not a matter of time.
func fatal(err error) bool {
	switch KindOf(err) {
	case KindRetryable, KindTimeout, KindInterrupted:
		return false
	}
	return true
}

// runDeadline computes the client's deadline; a timeout that is no number of
// seconds is refused before anything is started.
func runDeadline(timeoutSec *float64, grace time.Duration) (time.Duration, error) {
	if timeoutSec == nil {
		return DefaultDeadline, nil
	}
	sec := *timeoutSec
	// CLIENT-25: before the start, because a mistake must not cost a run.
	if math.IsNaN(sec) || math.IsInf(sec, 0) || sec <= 0 {
		return 0, invalidArg("timeout of %v s: must be positive and finite", sec)
	}
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(sec, century)*float64(time.Second)) + grace, nil
}
