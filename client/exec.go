package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"microvms/agentd/api"
)

// StdinChunkBytes is the most that one stdin request carries.
const StdinChunkBytes = 256 << 10

// Result is what the daemon's record says about an exec: the answer of a poll
// or an ack. The outcome fields mean something only when [Result.HasOutcome].
type Result struct{ api.PollResponse }

// Done says whether the command has ended.
func (r *Result) Done() bool { return r.Phase == api.PhaseExited || r.Phase == api.PhaseAcked }

// HasOutcome says whether the record carries the outcome: always when exited,
// and in the one answer that acks; a later poll of an acked exec has none.
func (r *Result) HasOutcome() bool { return r.Outcome != nil }

// Succeeded says whether the command exited with code 0 by itself. One that
// handled its deadline's SIGTERM and exited 0 did not succeed.
func (r *Result) Succeeded() bool {
	return r.HasOutcome() && !r.TimedOut && r.ExitCode != nil && *r.ExitCode == 0
}

// Health asks for the daemon's health. It needs no token and works before
// bootstrap.
func (s *Session) Health(ctx context.Context) (*api.Health, error) {
	var out api.Health
	if err := s.do(ctx, call{method: http.MethodGet, path: api.PathHealth, out: &out, open: true}); err != nil {
		return nil, err
	}
	return &out, nil
}

// Start starts a command and returns its exec id. An empty req.ExecID is
// minted, so every call starts a new command; with the caller's own id a repeat
// is answered from the record and starts nothing. req is not changed.
//
// Errors: ErrSpawn when the process cannot be created; KindProtocol with the
// code unknown_user, unknown_group or unknown_shell when a name is unknown;
// after a retryable error it is unknown whether the command was started.
func (s *Session) Start(ctx context.Context, req api.StartRequest) (string, error) {
	if req.ExecID == "" {
		// CLIENT-16: a reused id would be answered from an old record.
		req.ExecID = NewExecID()
	}
	if _, err := execPath(req.ExecID, ""); err != nil {
		return "", err
	}
	if err := checkText(&req); err != nil {
		return "", err
	}
	if req.Command == nil {
		req.Command = []string{} // null is malformed on the wire
	}
	var out api.StartResponse
	if err := s.do(ctx, call{method: http.MethodPost, path: api.PathExecStart, in: req, out: &out}); err != nil {
		return "", err
	}
	if out.ExecID != "" { // the daemon's id wins
		return out.ExecID, nil
	}
	return req.ExecID, nil
}

// checkText refuses what JSON cannot carry: it would replace each byte that is no UTF-8, so the daemon would start
// another command than the one asked for, under another id.
//
// CLIENT-30: before anything is sent, because two different texts would become one.
func checkText(req *api.StartRequest) error {
	bad := ""
	check := func(what, text string) {
		if bad == "" && !utf8.ValidString(text) {
			bad = what
		}
	}
	for i, word := range req.Command {
		check(fmt.Sprintf("command word %d", i), word)
	}
	for name, value := range req.Env {
		check("the name of an environment entry", name)
		check("the value of environment entry "+strconv.Quote(name), value)
	}
	check("the shell", req.Shell.Name)
	for what, who := range map[string]*api.NameOrID{"the user": req.User, "the group": req.Group} {
		if who != nil {
			check(what, who.Name)
		}
	}
	if req.Cwd != nil {
		check("the working directory", *req.Cwd)
	}
	if bad != "" {
		return invalidArg("%s is not valid UTF-8, and the wire carries nothing else: encode it, or pass it in a file", bad)
	}
	return nil
}

// Poll reads an exec's record. It changes nothing.
func (s *Session) Poll(ctx context.Context, id string) (*Result, error) {
	return s.record(ctx, http.MethodGet, id, "")
}

// Ack takes the result of a finished exec: the last delivery of its output. The
// daemon forgets the exec some time later. Errors: ErrStillRunning before the
// exit, ErrAlreadyAcked after another ack.
func (s *Session) Ack(ctx context.Context, id string) (*Result, error) {
	return s.record(ctx, http.MethodPost, id, "/ack")
}

func (s *Session) record(ctx context.Context, method, id, route string) (*Result, error) {
	path, err := execPath(id, route)
	if err != nil {
		return nil, err
	}
	var out Result
	if err := s.do(ctx, call{method: method, path: path, out: &out.PollResponse}); err != nil {
		return nil, err
	}
	switch {
	case out.Phase == api.PhaseExited && out.Outcome == nil:
		return nil, protocolError("answer of %s %s: the exec has exited, yet no outcome is given", method, path)
	case out.Phase == api.PhaseRunning:
		out.Outcome = nil
		return &out, nil
	case out.Phase == api.PhaseExited, out.Phase == api.PhaseAcked:
		return &out, nil
	}
	return nil, protocolError("answer of %s %s: unknown phase %q", method, path, out.Phase)
}

// firstPollPause is the first pause of a wait; it doubles up to Retry.Poll, so
// that short commands are not kept waiting for a whole interval.
const firstPollPause = 10 * time.Millisecond

// Wait polls until the command has ended, for at most timeout (0: no limit).
// Retryable errors are tried again. The deadline gives an error that matches
// ErrTimeout and names the last phase; the exec goes on.
func (s *Session) Wait(ctx context.Context, id string, timeout time.Duration) (*Result, error) {
	return s.waitUntil(ctx, id, timeout, s.clock.Now().Add(timeout))
}

// waitUntil is Wait with a timeout that began before.
func (s *Session) waitUntil(ctx context.Context, id string, timeout time.Duration, deadline time.Time) (*Result, error) {
	phase := "unknown"
	var last error
	for pause := firstPollPause; ; pause *= 2 {
		pollCtx, cancel := ctx, func() {}
		if timeout > 0 { // at least one poll, so that the error can name a phase
			pollCtx, cancel = withTimeout(ctx, s.clock, max(deadline.Sub(s.clock.Now()), time.Millisecond))
		}
		res, err := s.Poll(pollCtx, id)
		expired := pollCtx.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil && res.Done():
			return res, nil
		case err == nil:
			phase, last = string(res.Phase), nil
		case expired || Retryable(err): // CLIENT-15: the exec goes on, whatever the way to it does
			last = err
		default:
			return nil, err
		}
		// CLIENT-14: the pauses double up to the interval of the facts.
		pause = min(pause, s.retry.Poll)
		if timeout > 0 {
			pause = min(pause, deadline.Sub(s.clock.Now()))
			if expired || pause <= 0 {
				return nil, s.waitTimeout(id, timeout, phase, last)
			}
		}
		if err := s.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// waitTimeout is the error of a wait whose own deadline passed.
func (s *Session) waitTimeout(id string, timeout time.Duration, phase string, last error) error {
	text := fmt.Sprintf("exec %q did not end within %s: its phase was %s; the VM and the exec are untouched", id, timeout, phase)
	if last != nil && KindOf(last) == KindRetryable {
		text += "; the last poll failed: " + last.Error()
	}
	return &Error{Kind: KindTimeout, Wire: WireExecTimeout, Message: text}
}

// pause waits for d, or fails when the caller stops or the session is closed.
func (s *Session) pause(ctx context.Context, d time.Duration) error {
	callCtx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := sleep(callCtx, s.clock, d); err != nil {
		if ctx.Err() != nil {
			return interrupted("the exec", context.Cause(ctx))
		}
		return errSessionClosed()
	}
	return nil
}

// WaitAndAck waits as [Session.Wait] does, then acks unless the exec is acked
// already; in that case the result has no outcome. A retryable failure of the
// ack is tried again within the timeout.
func (s *Session) WaitAndAck(ctx context.Context, id string, timeout time.Duration) (*Result, error) {
	deadline := s.clock.Now().Add(timeout)
	for {
		res, err := s.waitUntil(ctx, id, timeout, deadline)
		if err != nil || res.Phase == api.PhaseAcked {
			return res, err
		}
		acked, err := s.Ack(ctx, id)
		if err == nil {
			return acked, nil
		}
		// Another may have acked between the poll and the ack; the record that
		// was just read still tells how the command ended.
		if errors.Is(err, ErrAlreadyAcked) {
			return res, nil
		}
		if !Retryable(err) {
			return nil, err
		}
		if timeout > 0 && deadline.Sub(s.clock.Now()) <= s.retry.Poll {
			return nil, err
		}
		if err := s.pause(ctx, s.retry.Poll); err != nil {
			return nil, err
		}
	}
}

// Kill sends SIGTERM to the exec's process group and, after the daemon's grace
// of 10 s, SIGKILL; it answers when that is done. It reports whether a live
// group was signalled. A repeat succeeds.
func (s *Session) Kill(ctx context.Context, id string) (signalled bool, err error) {
	path, err := execPath(id, "/kill")
	if err != nil {
		return false, err
	}
	var out api.KillResponse
	if err := s.do(ctx, call{method: http.MethodPost, path: path, out: &out}); err != nil {
		return false, err
	}
	return out.Killed, nil
}

// killDetached kills although the caller's context has ended, and although the
// session may be closing.
func (s *Session) killDetached(id string) {
	path, err := execPath(id, "/kill")
	if err != nil {
		return
	}
	var out api.KillResponse
	c := call{method: http.MethodPost, path: path, out: &out, detached: true}
	if err := s.do(context.Background(), c); err != nil {
		s.log.Warn("kill after cancel failed", "exec_id", id, "err", err)
	}
}

// WriteStdin writes data, at most the daemon's limit of 1 MiB, to the command's
// input, then closes it if eof. It returns the number of bytes written.
//
// Errors: ErrStdinNotRequested, ErrStdinClosed; a retryable one when the
// command did not read in time, after which some of data may be written.
func (s *Session) WriteStdin(ctx context.Context, id string, data []byte, eof bool) (written int, err error) {
	path, err := execPath(id, "/stdin")
	if err != nil {
		return 0, err
	}
	var req api.StdinRequest
	if len(data) > 0 {
		encoded := base64.StdEncoding.EncodeToString(data)
		req.DataB64 = &encoded
	}
	if eof {
		signal := api.SignalEOF
		req.Signal = &signal
	}
	var out api.StdinResponse
	if err := s.do(ctx, call{method: http.MethodPost, path: path, in: req, out: &out}); err != nil {
		return 0, err
	}
	return int(out.Written), nil
}

// Stdin copies r to the command's input in chunks of StdinChunkBytes and closes
// the input with the last one. It returns the number of bytes written. It stops
// early, without an error, when the command has closed its input.
func (s *Session) Stdin(ctx context.Context, id string, r io.Reader) (written int64, err error) {
	chunk := make([]byte, StdinChunkBytes)
	next := make([]byte, StdinChunkBytes)
	n, readErr := io.ReadFull(r, chunk)
	for {
		// CLIENT-21: read one chunk ahead, because eof rides on the last one.
		more := 0
		if readErr == nil {
			more, readErr = io.ReadFull(r, next)
		}
		if readErr != nil && readErr != io.EOF && readErr != io.ErrUnexpectedEOF {
			return written, &Error{Kind: KindPrecondition, Message: "cannot read the input", Err: readErr}
		}
		last := more == 0 && readErr != nil
		w, err := s.WriteStdin(ctx, id, chunk[:n], last)
		written += int64(w)
		if errors.Is(err, ErrStdinClosed) {
			return written, nil
		}
		if err != nil || last {
			return written, err
		}
		chunk, next, n = next, chunk, more
	}
}

// Procs lists the process groups of all registered execs, in no fixed order.
func (s *Session) Procs(ctx context.Context) ([]api.ProcGroup, error) {
	var out api.ProcsResponse
	if err := s.do(ctx, call{method: http.MethodGet, path: api.PathProcs, out: &out}); err != nil {
		return nil, err
	}
	return out.Procs, nil
}
