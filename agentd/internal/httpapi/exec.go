package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/lossy"
)

// lookup finds the exec of the path, or answers 404.
func (s *Server) lookup(a *answer, r *request) (*execution.Exec, bool) {
	e, ok := s.config.Registry.Lookup(execution.Key{Namespace: namespace, ID: r.id})
	if !ok {
		// EXEC-30: the same for an id that was never known, was refused, or was collected.
		a.fail(api.UnknownExec, r.id)
	}
	return e, ok
}

// execPoll serves GET /v1/exec/{id}. It changes nothing.
func (s *Server) execPoll(a *answer, r *request) {
	e, ok := s.lookup(a, r)
	if !ok {
		return
	}
	// EXEC-21: a copy, so that reading changes nothing.
	snapshot := e.Poll()
	phase := api.Phase(snapshot.Phase.String())
	if snapshot.Result == nil {
		a.json(http.StatusOK, &api.PollResponse{ExecID: r.id, Phase: phase})
		return
	}
	// EXEC-22: a result is there only in the phase exited.
	s.outcome(a, r, phase, snapshot.Result)
}

// execAck serves POST /v1/exec/{id}/ack, which delivers the output for the
// last time.
func (s *Server) execAck(a *answer, r *request) {
	e, ok := s.lookup(a, r)
	if !ok {
		return
	}
	result, err := e.AckContext(execution.WithRequest(s.detached(), r.serial))
	switch {
	case errors.Is(err, execution.ErrStillRunning):
		a.fail(api.StillRunning, err.Error())
	case errors.Is(err, execution.ErrAlreadyAcked):
		a.fail(api.AlreadyAcked, err.Error())
	case err != nil:
		panic(http.ErrAbortHandler) // the daemon ended at a gate
	default:
		s.outcome(a, r, api.PhaseAcked, &result)
	}
}

// outcome answers with a poll body that has its outcome.
func (s *Server) outcome(a *answer, r *request, phase api.Phase, result *execution.Result) {
	a.Header().Set("Content-Type", api.MediaJSON)
	a.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if err := writeOutcome(a, r.id, phase, result); err != nil {
		// The reader left. A body that lacks its end must not look complete.
		panic(http.ErrAbortHandler)
	}
}

// writeOutcome writes an api.PollResponse with its outcome. Output can be
// megabytes, so it is encoded in pieces straight from the store and never held
// as a whole.
func writeOutcome(w io.Writer, id string, phase api.Phase, result *execution.Result) error {
	buf := takeBuffer()
	defer giveBuffer(buf)
	b, err := lossy.Quote(w, append((*buf)[:0], `{"exec_id":`...), []byte(id))
	b = append(append(b, `,"phase":"`...), phase...)
	b = appendNullable(append(b, `","exit_code":`...), result.ExitCode)
	b = appendNullable(append(b, `,"signal":`...), result.Signal)
	b = strconv.AppendBool(append(b, `,"timed_out":`...), result.TimedOut)
	b = append(b, `,"stdout":`...)
	if err == nil {
		b, err = lossy.Quote(w, b, result.Stdout)
	}
	b = append(b, `,"stderr":`...)
	if err == nil {
		b, err = lossy.Quote(w, b, result.Stderr)
	}
	b = strconv.AppendBool(append(b, `,"truncated":`...), result.Truncated)
	b = strconv.AppendBool(append(b, `,"writers_may_be_alive":`...), result.WritersMayBeAlive)
	if err == nil {
		_, err = w.Write(append(b, '}'))
	}
	return err
}

func appendNullable(b []byte, n *int) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, int64(*n), 10)
}

// execKill serves POST /v1/exec/{id}/kill. It answers when the escalation is
// done, and a client that leaves does not stop it.
func (s *Server) execKill(a *answer, r *request) {
	e, ok := s.lookup(a, r)
	if !ok {
		return
	}
	// EXEC-35: under the daemon's context, so that a client that leaves stops nothing.
	killed, err := e.Kill(execution.WithRequest(s.detached(), r.serial))
	if err != nil {
		if s.base.Err() != nil {
			panic(http.ErrAbortHandler)
		}
		panic("httpapi: internal error: cannot kill: " + err.Error())
	}
	// KILL-5: 200 whether or not a member was there: a repeat must succeed.
	a.json(http.StatusOK, &api.KillResponse{ExecID: r.id, Killed: killed})
}

// execStdin serves POST /v1/exec/{id}/stdin. The order of the checks is the
// contract's: body, id, stdin asked for, signal, base64, size, pipe.
func (s *Server) execStdin(a *answer, r *request) {
	var req api.StdinRequest
	if !s.readJSON(a, r, &req) {
		return
	}
	e, ok := s.lookup(a, r)
	if !ok {
		return
	}
	if !e.StdinRequested() {
		a.fail(api.StdinNotRequested, "the exec was started without stdin; start it with stdin set to true")
		return
	}
	data, eof, bad := s.decodeStdin(&req)
	if bad != nil {
		a.fail(bad.Code, bad.Detail)
		return
	}
	// The write goes on when the client leaves: bytes that were accepted once
	// reach the child in order.
	written, err := e.WriteStdin(execution.WithRequest(s.detached(), r.serial), data, eof)
	if err != nil {
		s.failStdin(a, written, err)
		return
	}
	// STDIN-10: all of the data, because a part of it would have been an error.
	a.json(http.StatusOK, &api.StdinResponse{ExecID: r.id, Written: uint(written), EOF: eof})
}

// decodeStdin reads the two optional parts of the body.
func (s *Server) decodeStdin(req *api.StdinRequest) (data []byte, eof bool, bad *api.Error) {
	// STDIN-9: signal and base64 are judged before the first byte is offered.
	if req.Signal != nil {
		if *req.Signal != api.SignalEOF {
			return nil, false, malformed(fmt.Sprintf("signal %q is not %q", short(*req.Signal), api.SignalEOF))
		}
		eof = true
	}
	if req.DataB64 == nil {
		return nil, eof, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*req.DataB64)
	if err != nil || strings.ContainsAny(*req.DataB64, "\r\n") {
		return nil, false, malformed("data_b64 is not standard padded base64")
	}
	if len(data) > s.limits.MaxStdinWriteBytes {
		return nil, false, &api.Error{Code: api.StdinWriteTooLarge, Detail: fmt.Sprintf("%d bytes exceed %d; split the write", len(data), s.limits.MaxStdinWriteBytes)}
	}
	return data, eof, nil
}

func (s *Server) failStdin(a *answer, written int, err error) {
	switch {
	case errors.Is(err, execution.ErrStdinNotRequested):
		a.fail(api.StdinNotRequested, err.Error())
	case errors.Is(err, execution.ErrStdinClosed):
		a.fail(api.StdinClosed, err.Error())
	case errors.Is(err, execution.ErrStdinTimeout):
		a.fail(api.StdinWriteTimeout, fmt.Sprintf("the child took %d bytes and then none for %v", written, s.limits.StdinWriteTimeout))
	case errors.Is(err, execution.ErrStdinTooLarge):
		a.fail(api.StdinWriteTooLarge, err.Error())
	case s.base.Err() != nil:
		panic(http.ErrAbortHandler)
	default:
		a.fail(api.StdinWriteFailed, err.Error())
	}
}

// procs serves GET /v1/procs.
func (s *Server) procs(a *answer, _ *request) {
	answer := api.ProcsResponse{Procs: []api.ProcGroup{}}
	// PROC-1: in any phase, because a survivor outlives its result.
	for _, e := range s.config.Registry.All() {
		g := e.Group()
		entry := api.ProcGroup{
			ExecID: g.Key.ID, StartedAt: seconds(g.StartedAt),
			ChildExited: g.ChildExited, Reap: g.Reap, Pids: make([]uint32, len(g.Pids)),
		}
		// PROC-4: null where there never was a process: 0 would name the reader's own group.
		if g.Pgid != nil {
			pgid := uint32(*g.Pgid)
			entry.Pgid = &pgid
		}
		for i, pid := range g.Pids {
			entry.Pids[i] = uint32(pid)
		}
		answer.Procs = append(answer.Procs, entry)
	}
	a.json(http.StatusOK, &answer)
}

// short cuts a quoted value, so that an answer does not repeat a long body.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
