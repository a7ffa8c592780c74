package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"microvms/agentd/api"
)

// Event is one event of an output stream: [*Output], [*Gap] or [*Exit].
type Event interface{ event() }

// Output is a piece of output. Data belongs to the receiver.
type Output struct {
	Offset uint64 // position of the first byte in the exec's one offset space
	Stream api.StreamKind
	Data   []byte
}

// Gap says that the bytes [From, To) are lost.
type Gap struct{ From, To uint64 }

// Exit ends a stream that is complete.
type Exit struct{ api.ExitEvent }

func (*Output) event() {}
func (*Gap) event()    {}
func (*Exit) event()   {}

// StreamOptions says where a stream starts and what it does on loss.
type StreamOptions struct {
	Offset      uint64 // first byte wanted
	NoReconnect bool   // a cut ends the stream, without an error
	ErrorOnGap  bool   // a gap ends the stream with a *GapError instead of an event
}

// EndReason says why a stream ended.
type EndReason int

// The reasons.
const (
	EndNone    EndReason = iota // it has not ended
	EndExited                   // the exit event came: the output is complete
	EndStopped                  // the receiver stopped
	EndCut                      // without an exit event, by a cut or an error
)

func (r EndReason) String() string {
	return [...]string{"none", "exited", "stopped", "cut"}[r]
}

// Stream is one reading of an exec's output. Range over All once; it is not
// safe for concurrent use. Reading, leaving and being cut never affect the exec.
type Stream struct {
	session *Session
	ctx     context.Context
	id      string
	opts    StreamOptions
	cursor  uint64
	reason  EndReason
	used    bool
}

// Stream prepares a reading of the exec's output from opts.Offset on. Nothing
// is requested before [Stream.All] is ranged over.
func (s *Session) Stream(ctx context.Context, id string, opts StreamOptions) *Stream {
	return &Stream{session: s, ctx: ctx, id: id, opts: opts, cursor: opts.Offset}
}

// Cursor is the offset after the last byte delivered or reported lost.
func (st *Stream) Cursor() uint64 { return st.cursor }

// Reason says why the stream ended.
func (st *Stream) Reason() EndReason { return st.reason }

// errCut marks a body that ended without its exit event.
var errCut = errors.New("the stream ended without its exit event")

// All yields the events in order. It reconnects at the cursor when the stream
// is cut, at most Retry.Reconnects times. The last pair has the [*Exit] event,
// or a nil event and the error that ended the stream; with NoReconnect a cut
// ends it without either. Loss that the daemon did not announce is reported as
// a gap, and bytes that came before are not delivered again.
func (st *Stream) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if st.used {
			yield(nil, invalidArg("a stream can be read only once; open another at offset %d", st.cursor))
			return
		}
		st.used = true
		st.reason = EndCut
		for drops := 0; ; {
			err := st.attach(yield)
			if st.reason == EndExited || st.reason == EndStopped {
				return
			}
			if err != nil && !Retryable(err) && !errors.Is(err, errCut) {
				yield(nil, err)
				return
			}
			if st.opts.NoReconnect {
				if !errors.Is(err, errCut) {
					yield(nil, err)
				}
				return
			}
			// CLIENT-3: a cut is no completion; the next attach asks from the cursor on.
			// CLIENT-5: counted over the stream's life, so that one that keeps dropping ends.
			if drops++; drops > st.session.retry.Reconnects {
				yield(nil, &Error{Kind: KindRetryable, Wire: WireTransport,
					Message: fmt.Sprintf("stream of %q dropped %d times; last offset %d", st.id, drops, st.cursor), Err: err})
				return
			}
			if err := st.session.pause(st.ctx, st.session.retry.delay(drops)); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// attach reads one connection from the cursor on, until the exit event (nil),
// a cut (errCut), a stop by the receiver (nil) or an error.
func (st *Stream) attach(yield func(Event, error) bool) error {
	s := st.session
	path, err := execPath(st.id, "/stream")
	if err != nil {
		return err
	}
	c := call{method: http.MethodGet, path: path + "?offset=" + strconv.FormatUint(st.cursor, 10)}
	callCtx, done, err := s.begin(st.ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(callCtx)
	defer cancel(context.Canceled)
	// CLIENT-6: the idle timeout bounds silence, not the stream: each read renews it.
	idle := s.clock.AfterFunc(s.idleTimeout, func() { cancel(errDeadline) })
	defer idle.Stop()

	resp, err := s.send(ctx, c, nil, "text/event-stream")
	if err != nil {
		return st.broken(ctx, c, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s.refusal(c, resp)
	}
	frames := newFrameReader(&renewingReader{resp.Body, func() { idle.Reset(s.idleTimeout) }}, maxFrameBytes)
	for {
		f, err := frames.next()
		if err != nil {
			return st.broken(ctx, c, err)
		}
		ev, err := decodeEvent(f)
		if err != nil {
			return err
		}
		if ev == nil {
			continue
		}
		idle.Stop() // the receiver's own time is not the stream's silence
		if over, err := st.deliver(ev, yield); over || err != nil {
			return err
		}
		idle.Reset(s.idleTimeout)
	}
}

// broken names why a connection ended before the exit event.
func (st *Stream) broken(ctx context.Context, c call, err error) error {
	if KindOf(err) == KindProtocol {
		return err
	}
	if errors.Is(context.Cause(ctx), errDeadline) && st.ctx.Err() == nil && st.session.closing.Err() == nil {
		return &Error{Kind: KindRetryable, Wire: WireTransport,
			Message: fmt.Sprintf("stream of %q was silent for %s", st.id, st.session.idleTimeout)}
	}
	if ctx.Err() == nil && errors.Is(err, io.EOF) {
		return errCut
	}
	return st.session.failure(st.ctx, ctx, c, err)
}

// deliver yields ev, after what it shows to be lost, and moves the cursor. It
// reports whether the stream is over.
func (st *Stream) deliver(ev Event, yield func(Event, error) bool) (over bool, err error) {
	lost := func(from, to uint64) (bool, error) {
		if from >= to {
			return false, nil
		}
		st.cursor = to
		if st.opts.ErrorOnGap {
			return true, gapError(from, to)
		}
		return st.yield(&Gap{From: from, To: to}, yield), nil
	}
	switch ev := ev.(type) {
	case *Gap:
		return lost(st.cursor, ev.To) // from the cursor: what lies before ev.From is lost as well
	case *Output:
		// CLIENT-2: whoever skipped them, these bytes will not come.
		if over, err := lost(st.cursor, ev.Offset); over || err != nil {
			return over, err
		}
		// CLIENT-1: what a reconnect repeats is cut off, so each byte comes once.
		if seen := st.cursor - ev.Offset; seen > 0 {
			if seen >= uint64(len(ev.Data)) {
				return false, nil
			}
			ev.Offset, ev.Data = st.cursor, ev.Data[seen:]
		}
		st.cursor = ev.Offset + uint64(len(ev.Data))
		return st.yield(ev, yield), nil
	case *Exit:
		if over, err := lost(st.cursor, ev.Offset); over || err != nil {
			return over, err
		}
		st.reason = EndExited
		yield(ev, nil)
		return true, nil
	}
	panic("client: internal error: unknown event type")
}

func (st *Stream) yield(ev Event, yield func(Event, error) bool) (over bool) {
	if yield(ev, nil) {
		return false
	}
	// CLIENT-29: the caller has what it wanted; the exec is not told.
	st.reason = EndStopped
	return true
}

// renewingReader calls renew after each read that brought bytes.
type renewingReader struct {
	src   io.Reader
	renew func()
}

func (r *renewingReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if n > 0 {
		r.renew()
	}
	return n, err
}
