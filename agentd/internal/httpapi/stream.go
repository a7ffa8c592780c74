package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"

	"microvms/agentd/api"
	"microvms/agentd/execution"
)

// errSilence ends a wait for an event when a keepalive is due.
var errSilence = errors.New("httpapi: stream is silent")

// execStream serves GET /v1/exec/{id}/stream as server-sent events. It works in
// any phase, and attaching and leaving change nothing for the exec.
func (s *Server) execStream(a *answer, r *request) {
	// OUT-14: the query is judged before the id.
	offset, ok := parseOffset(r.URL.RawQuery)
	if !ok {
		a.fail(api.MalformedRequest, "offset is not a non-negative integer")
		return
	}
	e, ok := s.lookup(a, r)
	if !ok {
		return
	}
	header := a.Header()
	header.Set("Content-Type", api.MediaSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		a.WriteHeader(http.StatusOK)
		return
	}
	ctx := execution.WithRequest(r.Context(), r.serial)
	reader, err := e.SubscribeContext(ctx, offset)
	if err != nil {
		panic(http.ErrAbortHandler) // the client or the daemon left at a gate
	}
	// OUT-12: a reader that leaves takes nothing of the execution with it.
	defer reader.Close()
	a.WriteHeader(http.StatusOK)
	a.record()
	if err := s.follow(ctx, a, r, reader); err != nil {
		// Cut: the body must not end as if the stream were complete.
		s.log.Debug("stream ended before its exit event", "request", r.serial, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// follow writes events until the exit event. Each write has its own deadline,
// so a reader that takes nothing is cut; it holds no lock meanwhile and the
// core drops for it, alone, what its ring no longer has.
func (s *Server) follow(ctx context.Context, a *answer, r *request, reader *execution.Reader) error {
	pooled := takeBuffer()
	defer giveBuffer(pooled)
	out := &frameWriter{answer: a, conn: connOf(r.Request)}
	buf := (*pooled)[:0]
	if err := out.send(nil); err != nil { // the header goes out at once
		return err
	}
	for {
		ev, err := s.await(ctx, reader)
		if errors.Is(err, errSilence) {
			if err := out.send([]byte(":\n\n")); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		buf = appendFrame(buf[:0], &ev)
		// What is there already joins the same write.
		for ev.Kind != execution.Exit && len(buf) < bufferSize/2 && reader.Ready() {
			if ev, err = reader.Next(ctx); err != nil {
				return err
			}
			buf = appendFrame(buf, &ev)
		}
		if err := out.send(buf); err != nil {
			return err
		}
		if ev.Kind == execution.Exit {
			return nil
		}
	}
}

// await returns the next event, or errSilence when a keepalive is due first.
func (s *Server) await(ctx context.Context, reader *execution.Reader) (execution.StreamEvent, error) {
	if s.limits.SSEKeepalive <= 0 || reader.Ready() {
		return reader.Next(ctx)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// OUT-16: armed anew for each wait, so that only silence is filled.
	timer := s.config.Clock.AfterFunc(s.limits.SSEKeepalive, func() { cancel(errSilence) })
	defer timer.Stop()
	return reader.Next(waiting)
}

// frameWriter sends frames with one system call each time.
type frameWriter struct {
	answer *answer
	conn   *conn
}

func (f *frameWriter) send(frames []byte) error {
	f.conn.cork()
	if len(frames) > 0 {
		if _, err := f.answer.Write(frames); err != nil {
			_ = f.conn.uncork()
			return err
		}
	}
	if err := http.NewResponseController(f.answer.ResponseWriter).Flush(); err != nil {
		_ = f.conn.uncork()
		return err
	}
	return f.conn.uncork()
}

// appendFrame appends one event as it goes over the wire (wire facts, section
// 7.3): an event line, one data line, an empty line.
func appendFrame(b []byte, ev *execution.StreamEvent) []byte {
	// OUT-15: written by hand, because each frame is one line of known shape.
	switch ev.Kind {
	case execution.Output:
		b = append(b, "event: output\ndata: {\"offset\":"...)
		b = strconv.AppendUint(b, ev.Offset, 10)
		if ev.Stream == execution.Stderr {
			b = append(b, `,"stream":"stderr","output":"`...)
		} else {
			b = append(b, `,"stream":"stdout","output":"`...)
		}
		b = base64.StdEncoding.AppendEncode(b, ev.Data)
		return append(b, "\"}\n\n"...)
	case execution.Gap:
		b = append(b, "event: gap\ndata: {\"from\":"...)
		b = strconv.AppendUint(b, ev.Offset, 10)
		b = append(b, `,"to":`...)
		b = strconv.AppendUint(b, ev.To, 10)
		return append(b, "}\n\n"...)
	}
	b = append(b, "event: exit\ndata: {\"exit_code\":"...)
	b = appendNullable(b, ev.Result.ExitCode)
	b = append(b, `,"signal":`...)
	b = appendNullable(b, ev.Result.Signal)
	b = strconv.AppendBool(append(b, `,"timed_out":`...), ev.Result.TimedOut)
	b = strconv.AppendBool(append(b, `,"truncated":`...), ev.Result.Truncated)
	b = strconv.AppendBool(append(b, `,"writers_may_be_alive":`...), ev.Result.WritersMayBeAlive)
	b = append(b, `,"offset":`...)
	b = strconv.AppendUint(b, ev.Offset, 10)
	return append(b, "}\n\n"...)
}
