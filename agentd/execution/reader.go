package execution

import (
	"context"
	"io"
	"slices"
	"time"

	"microvms/agentd/trace"
)

// EventKind says what a StreamEvent is.
type EventKind uint8

// The kinds of event.
const (
	Output EventKind = iota // bytes of one stream
	Gap                     // bytes that the ring no longer has
	Exit                    // the end; nothing follows
)

// StreamEvent is one event of a command's output. Output and gap events
// together tile [the reader's offset, the exit's offset), without overlap.
type StreamEvent struct {
	Kind   EventKind
	Stream Stream // of Output
	Offset uint64 // first byte; of Exit: the total published
	To     uint64 // one past the last byte; of Exit: Offset
	// Data is the bytes of Output, at most Capture.ReadUnit of them. It is
	// valid until the reader's next call of Next or Close; the caller may not
	// change it.
	Data   []byte
	Result *Result // of Exit; Stdout and Stderr are those of Poll, nil after an ack
}

// Reader follows a command's output from an offset. It is one goroutine's;
// any number of readers follow one command, and a slow one loses bytes of its
// own, never the time of another or of the child.
type Reader struct {
	e      *Exec
	serial uint64
	wake   chan struct{} // capacity 1: an event may be there
	buf    []byte        // holds StreamEvent.Data

	// The rest is guarded by the exec's lock.
	cursor  uint64 // every byte below it was handed out, or reported lost
	at      place
	waiting bool // in e.readers
	ended   bool // the exit was handed out
	closed  bool
	credit  time.Duration // see Pace
}

// Subscribe attaches a reader at offset. What the ring holds from there on and
// what is published later reach it as one sequence. An offset beyond the total
// waits until output passes it.
func (e *Exec) Subscribe(offset uint64) *Reader {
	r, err := e.SubscribeContext(context.Background(), offset)
	if err != nil { // the gate gave up: the registry is closing
		return &Reader{e: e, closed: true}
	}
	return r
}

// SubscribeContext is Subscribe; ctx carries the request's serial number and
// ends only the wait at a Gate.
func (e *Exec) SubscribeContext(ctx context.Context, offset uint64) (*Reader, error) {
	if err := e.reg.pass(ctx, e.point(ctx, trace.StreamAttach)); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nextReader++ // OUT-9: one step, under the lock of every publication
	r := &Reader{e: e, serial: e.nextReader, wake: make(chan struct{}, 1), cursor: offset}
	e.attachLocked(r)
	r.noteLocked(ctx, trace.StreamAttach, trace.Attr{Key: "offset", Value: int64(offset)})
	return r, nil
}

// Serial returns the reader's number within its exec, from 1.
func (r *Reader) Serial() uint64 { return r.serial }

// Next returns the next event, and io.EOF after the exit event. It blocks
// until there is one, ctx ends (ctx's error; the reader lives), the reader is
// closed (ErrReaderClosed) or the registry is (ErrClosed). It allocates only
// for the first output and for the exit.
func (r *Reader) Next(ctx context.Context) (StreamEvent, error) {
	e := r.e
	passed, gated := Exit, false // the kind of event that the gate let through
	for {
		e.mu.Lock()
		if r.closed {
			e.mu.Unlock()
			return StreamEvent{}, ErrReaderClosed
		}
		if r.ended {
			e.mu.Unlock()
			return StreamEvent{}, io.EOF
		}
		kind, ready := r.peekLocked()
		switch {
		case !ready:
			if !r.waiting {
				r.waiting = true
				e.readers = append(e.readers, r)
			}
			e.mu.Unlock()
			if err := r.wait(ctx); err != nil {
				return StreamEvent{}, err
			}
		case e.reg.cfg.Gate != nil && (!gated || passed != kind):
			e.mu.Unlock()
			p := e.point(ctx, kind.action())
			p.Reader = r.serial
			if err := e.reg.pass(ctx, p); err != nil {
				return StreamEvent{}, err
			}
			passed, gated = kind, true
		default:
			ev := r.takeLocked(ctx, kind)
			e.mu.Unlock()
			return ev, nil
		}
	}
}

func (k EventKind) action() trace.Action {
	return [...]trace.Action{trace.StreamDeliver, trace.StreamGap, trace.StreamExit}[k]
}

// wait blocks until the reader was woken.
func (r *Reader) wait(ctx context.Context) error {
	var err error
	select {
	case <-r.wake:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.e.reg.base.Done():
		err = ErrClosed
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	r.unwaitLocked()
	return err
}

// unwaitLocked takes the reader out of those that wait.
func (r *Reader) unwaitLocked() {
	if r.waiting {
		r.waiting = false
		if i := slices.Index(r.e.readers, r); i >= 0 {
			r.e.readers = slices.Delete(r.e.readers, i, i+1)
		}
	}
	select {
	case <-r.wake:
	default:
	}
}

// wakeLocked wakes the readers that wait.
func (e *Exec) wakeLocked() {
	// OUT-13: each has a cursor of its own, so that none takes from another.
	for i, r := range e.readers {
		r.waiting = false
		select { // OUT-17: a reader that does not come costs the publisher nothing
		case r.wake <- struct{}{}:
		default:
		}
		e.readers[i] = nil
	}
	e.readers = e.readers[:0]
}

// peekLocked says which event is due.
func (r *Reader) peekLocked() (kind EventKind, ready bool) {
	ring := &r.e.store.ring
	switch {
	case r.cursor < ring.start():
		return Gap, true // OUT-7: told, never skipped in silence
	case r.cursor < ring.total:
		return Output, true
	case r.e.phase >= PhaseExited:
		return Exit, true // OUT-8: only past the last byte
	}
	return 0, false // OUT-20: a cursor past the total waits for output to pass it
}

// takeLocked hands out the event that peekLocked found.
func (r *Reader) takeLocked(ctx context.Context, kind EventKind) StreamEvent {
	e := r.e
	ring := &e.store.ring
	ev := StreamEvent{Kind: kind, Offset: r.cursor}
	switch kind {
	case Gap:
		ev.To = ring.start()
	case Output:
		if r.buf == nil {
			r.buf = make([]byte, ring.unit)
		}
		// OUT-5: a piece that the cursor cuts is read from there on.
		r.at = ring.find(r.cursor, r.at)
		var n int
		n, ev.Stream = ring.read(r.buf, r.cursor, r.at)
		ev.Data, ev.To = r.buf[:n], r.cursor+uint64(n)
		r.earnLocked(n)
	case Exit:
		ev.Offset, ev.To = ring.total, ring.total
		res := e.result
		ev.Result = &res
		r.ended = true
	}
	r.cursor = max(r.cursor, ev.To) // OUT-6: the next event starts where this one ends
	if e.reg.cfg.Recorder != nil {
		r.noteLocked(ctx, kind.action(),
			trace.Attr{Key: "offset", Value: int64(ev.Offset)}, trace.Attr{Key: "to", Value: int64(ev.To)})
	}
	return ev
}

// Close detaches the reader. The command is not touched. It may be called more
// than once, and while Next waits in another goroutine.
func (r *Reader) Close() {
	e := r.e
	if e.reg.cfg.Gate != nil {
		p := e.point(e.reg.base, trace.StreamDetach)
		p.Reader = r.serial
		_ = e.reg.pass(e.reg.base, p) // a reader must be able to leave
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	r.unwaitLocked()
	e.attached = slices.DeleteFunc(e.attached, func(a *Reader) bool { return a == r })
	e.progressLocked()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.noteLocked(e.reg.base, trace.StreamDetach)
}

func (r *Reader) noteLocked(ctx context.Context, a trace.Action, attrs ...trace.Attr) {
	if rec := r.e.reg.cfg.Recorder; rec != nil {
		p := r.e.point(ctx, a)
		p.Reader = r.serial
		rec.Record(trace.Event{Point: p, Attrs: attrs})
	}
}
