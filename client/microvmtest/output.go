package microvmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"microvms/agentd/api"
)

// unit is the most that one output event carries.
const unit = 16 << 10

// output keeps what a command wrote: the head of each stream for the record,
// and the newest bytes of both for streams.
type output struct {
	headBytes, ringBytes int

	mu        sync.Mutex
	heads     map[api.StreamKind][]byte
	truncated bool
	chunks    []api.OutputEvent // contiguous, the oldest first
	total     uint64
	closed    bool
	changed   chan struct{} // closed and replaced at each change
}

func newOutput(headBytes, ringBytes int) *output {
	return &output{headBytes: headBytes, ringBytes: ringBytes, heads: make(map[api.StreamKind][]byte), changed: make(chan struct{})}
}

type outputWriter struct {
	out  *output
	kind api.StreamKind
}

func (o *output) writer(kind api.StreamKind) io.Writer { return outputWriter{o, kind} }

// Write publishes p in units. After the end of the command it fails.
func (w outputWriter) Write(p []byte) (int, error) {
	o := w.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		if o.closed {
			return len(p) - len(rest), io.ErrClosedPipe
		}
		n := min(unit, len(rest))
		o.appendLocked(w.kind, append([]byte(nil), rest[:n]...))
		rest = rest[n:]
	}
	return len(p), nil
}

func (o *output) appendLocked(kind api.StreamKind, data []byte) {
	room := o.headBytes - len(o.heads[kind])
	o.truncated = o.truncated || len(data) > room
	o.heads[kind] = append(o.heads[kind], data[:min(len(data), room)]...)
	o.chunks = append(o.chunks, api.OutputEvent{Offset: o.total, Stream: kind, Output: data})
	o.total += uint64(len(data))
	for o.total-o.chunks[0].Offset > uint64(o.ringBytes) {
		excess := o.total - o.chunks[0].Offset - uint64(o.ringBytes)
		first := &o.chunks[0]
		if excess >= uint64(len(first.Output)) {
			o.chunks = o.chunks[1:]
			continue
		}
		first.Offset, first.Output = first.Offset+excess, first.Output[excess:]
	}
	o.wakeLocked()
}

func (o *output) wakeLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wakeLocked()
}

// outcome starts an outcome with what the record keeps of the output.
func (o *output) outcome() *api.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &api.Outcome{Stdout: lossy(o.heads[api.StreamStdout]), Stderr: lossy(o.heads[api.StreamStderr]), Truncated: o.truncated}
}

// lossy decodes UTF-8 with one U+FFFD per invalid byte. The daemon gives one
// per maximal subpart; the two differ for sequences cut in the middle.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

// next gives the event at the cursor: output, a gap, or nothing yet, in which
// case over tells the end and changed what to wait for.
func (o *output) next(cursor uint64) (ev any, to uint64, over bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.chunks {
		end := c.Offset + uint64(len(c.Output))
		switch {
		case end <= cursor:
			continue
		case c.Offset > cursor:
			return api.GapEvent{From: cursor, To: c.Offset}, c.Offset, false, nil
		}
		c.Output = c.Output[cursor-c.Offset:]
		c.Offset = cursor
		return c, end, false, nil
	}
	if len(o.chunks) == 0 && cursor < o.total { // a ring of no bytes
		return api.GapEvent{From: cursor, To: o.total}, o.total, false, nil
	}
	return nil, cursor, o.closed, o.changed
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	var cursor uint64
	if text, ok := r.URL.Query()["offset"]; ok {
		var err error
		if cursor, err = strconv.ParseUint(text[0], 10, 64); err != nil {
			refuse(w, api.MalformedRequest, "offset must be a non-negative integer")
			return
		}
	}
	e := s.find(w, r)
	if e == nil {
		return
	}
	w.Header().Set("Content-Type", api.MediaSSE)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	keepAlive := time.NewTicker(s.KeepAlive)
	defer keepAlive.Stop()
	for {
		ev, to, over, changed := e.out.next(cursor)
		switch {
		case ev != nil:
			cursor = to
			writeEvent(w, ev)
			_ = flush()
		case over:
			<-e.done
			writeEvent(w, e.exitEvent())
			return
		default:
			select {
			case <-changed:
			case <-keepAlive.C:
				io.WriteString(w, ":\n\n")
				_ = flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func (e *exec) exitEvent() api.ExitEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	return api.ExitEvent{ExitCode: e.outcome.ExitCode, Signal: e.outcome.Signal, TimedOut: e.outcome.TimedOut,
		Truncated: e.outcome.Truncated, WritersMayBeAlive: e.outcome.WritersMayBeAlive, Offset: e.out.total}
}

// writeEvent writes one frame.
func writeEvent(w io.Writer, ev any) {
	name := api.EventOutput
	switch ev.(type) {
	case api.GapEvent:
		name = api.EventGap
	case api.ExitEvent:
		name = api.EventExit
	}
	data, err := json.Marshal(ev)
	if err != nil {
		panic("microvmtest: internal error: " + err.Error())
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
}
