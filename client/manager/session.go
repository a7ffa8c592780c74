package manager

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// Session talks to one manager across connections. When a connection is lost it
// dials again, with the delays of [WithRetry], and its runs are joined again. It
// never carries a run over to another boot of the manager: the run has ended
// with its own, and that is said by a [*RestartedError].
//
// A Session is safe for concurrent use. Close it.
type Session struct {
	at       address
	settings settings
	closing  context.Context
	close    context.CancelFunc
	turn     chan struct{} // held by the one who dials

	mu     sync.Mutex
	client *Client // the latest connection, nil before the first
}

// NewSession makes a session with the manager at address, in the forms of
// [Dial]. No connection is made.
func NewSession(address string, opts ...Option) (*Session, error) {
	at, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	s := &Session{at: at, settings: newSettings(opts), turn: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the connection and every call with ErrClosed. Runs go on. It is
// safe to call it more than once.
func (s *Session) Close() error {
	s.close()
	s.turn <- struct{}{} // whoever dials sees the end first
	defer func() { <-s.turn }()
	if c := s.latest(); c != nil {
		return c.Close()
	}
	return nil
}

func (s *Session) latest() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// Client gives the live connection, and makes one if there is none. The first
// is tried once; later ones as often as [WithRetry] says. The client belongs to
// the session: don't close it.
func (s *Session) Client(ctx context.Context) (*Client, error) {
	return s.connect(ctx, s.settings)
}

// connect is Client with these settings.
func (s *Session) connect(ctx context.Context, settings settings) (*Client, error) {
	linked, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(ErrClosed) })()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-linked.Done():
	}
	before := s.latest()
	for try := 0; ; try++ {
		switch {
		case s.closing.Err() != nil:
			return nil, closedError()
		case ctx.Err() != nil:
			return nil, stopped("a connection to the manager", ctx)
		case try == 0 && before != nil && before.Err() == nil:
			return before, nil
		}
		if try == 0 && before != nil && settings.reconnecting != nil {
			// MCLIENT-41: ahead of the first try, because the tries may take a minute.
			settings.reconnecting(before.Err())
		}
		c, err := dial(linked, s.at, settings)
		if err == nil {
			s.mu.Lock()
			s.client = c
			s.mu.Unlock()
			if before != nil {
				_ = before.Close() // it has failed, or it would have been given
			}
			return c, nil
		}
		if before == nil || !client.Retryable(err) || try >= settings.retry.Reconnects {
			if s.closing.Err() != nil {
				err = closedError()
			}
			return nil, err
		}
		s.settings.log.Debug("manager dial", "try", try+1, "err", err)
		s.pause(linked, try)
	}
}

// pause waits before another try, or for the end of ctx.
func (s *Session) pause(ctx context.Context, try int) {
	delays := s.settings.retry.Delays
	timer := time.NewTimer(delays[min(try, len(delays)-1)])
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// with calls f with a live connection, again when the connection is lost under
// it. Repeating must be safe.
func (s *Session) with(ctx context.Context, f func(c *Client, lost int) error) error {
	return s.repeat(ctx, s.settings, s.settings.retry.Reconnects, f)
}

// once is with, but a lost connection is dialled again once, for a short time
// and without a word.
func (s *Session) once(ctx context.Context, f func(c *Client, lost int) error) error {
	short := s.settings
	short.retry.Reconnects, short.dialTimeout, short.reconnecting = 0, min(short.dialTimeout, shortDial), nil
	return s.repeat(ctx, short, min(s.settings.retry.Reconnects, 1), f)
}

// shortDial bounds the one dial after the ending of a run is known.
const shortDial = 2 * time.Second

func (s *Session) repeat(ctx context.Context, settings settings, most int, f func(c *Client, lost int) error) error {
	for losses := 0; ; losses++ {
		c, err := s.connect(ctx, settings)
		if err != nil {
			return err
		}
		err = f(c, losses)
		if !errors.Is(err, ErrLost) || losses >= most {
			return err
		}
		if losses > 0 {
			s.pause(ctx, losses-1)
		}
	}
}

// Follower is a run that is followed across connections. It is safe for
// concurrent use; each event goes to one caller of Next.
type Follower struct {
	s  *Session
	id RunID

	mu    sync.Mutex
	run   *Run       // on the latest connection
	rank  int        // of the last event that was given, -1 before the first
	ended *msp.Event // the terminal event, nil until it is given
}

// Run is [Client.Run]. When the connection is lost before the reply, it repeats
// a request that has a token, which is safe, and joins the run if there is one;
// without a token it gives up, because a second run could be started.
func (s *Session) Run(ctx context.Context, request *msp.RunRequest) (*Follower, error) {
	var run *Run
	var boot uint64
	err := s.with(ctx, func(c *Client, losses int) (err error) {
		// MCLIENT-10: a manager that restarted does not know the token, so a repeat would run a second time.
		if losses > 0 && c.BootID() != boot {
			return restarted(boot, c.BootID())
		}
		boot = c.BootID()
		run, err = c.Run(ctx, request)
		if errors.Is(err, ErrLost) && request.Token == nil {
			return &client.Error{Kind: client.KindPlatform, Wire: client.WireTransport,
				Message: "the connection was lost before the reply, and without a token the run cannot be found: it may have started", Err: noRepeat{err}}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Follower{s: s, id: run.ID(), run: run, rank: -1}, nil
}

// noRepeat keeps an error's text and takes it out of its class.
type noRepeat struct{ cause error }

func (e noRepeat) Error() string { return e.cause.Error() }

// Attach is [Client.Attach].
func (s *Session) Attach(ctx context.Context, id RunID) (*Follower, error) {
	var run *Run
	err := s.with(ctx, func(c *Client, _ int) (err error) {
		run, err = c.Attach(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Follower{s: s, id: id, run: run, rank: -1}, nil
}

// ID is the identity of the run.
func (f *Follower) ID() RunID { return f.id }

// Next gives the next event of the run, waiting for it, and io.EOF after the
// terminal one. When the connection is lost it joins the run again. Then events
// between may have been passed over, since the manager tells the latest one; the
// terminal one never is.
//
// Errors: a [*RestartedError] when the manager has restarted, ErrUnknownID when
// the run was acked or has expired meanwhile, and one of KindRetryable when no
// connection could be made.
func (f *Follower) Next(ctx context.Context) (*msp.Event, error) {
	var event *msp.Event
	f.mu.Lock()
	run := f.run
	f.mu.Unlock()
	for run.pending() { // what has come already needs no connection
		event, err := run.Next(ctx)
		if err != nil || f.takes(run, event) {
			return event, err
		}
	}
	err := f.s.with(ctx, func(c *Client, _ int) (err error) {
		for {
			if run.c != c && run.c.Err() != nil {
				// MCLIENT-9: Attach refuses another boot, where the number is another run.
				joined, err := c.Attach(ctx, f.id)
				if err != nil {
					return err
				}
				run = joined
			}
			if event, err = run.Next(ctx); err != nil {
				return err
			}
			if f.takes(run, event) {
				return nil
			}
		}
	})
	return event, err
}

// pending reports whether an event waits to be read.
func (r *Run) pending() bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.seen < len(r.track.events) || r.track.rank == 2
}

// takes reports whether the event is news.
//
// MCLIENT-8: the snapshot after a new connection tells what was told before.
func (f *Follower) takes(run *Run, e *msp.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = run
	if rank(e) <= f.rank {
		return false
	}
	f.rank = rank(e)
	if e.Terminal() {
		f.ended = e
	}
	return true
}

// Wait gives the terminal event, passing over the others.
func (f *Follower) Wait(ctx context.Context) (*msp.Event, error) { return waitFor(ctx, f.Next) }

// Cancel is [Client.Cancel] of the run.
func (f *Follower) Cancel(ctx context.Context) error { return f.s.Cancel(ctx, f.id) }

// Ack is [Session.Ack] of the run. Once Next has given the terminal event, a lost
// connection is dialled again once, for 2 s at most.
func (f *Follower) Ack(ctx context.Context) error { return ackBy(ctx, f.with(), f.id) }

// Open is [Session.Open] of the run. Once Next has given the terminal event, a
// lost connection is dialled again once for each page, for 2 s at most, and a
// length other than the event's is a protocol error.
func (f *Follower) Open(ctx context.Context, field msp.Artifact) io.Reader {
	a := &Artifact{ctx: ctx, from: repeater(f.with()), id: f.id, field: field}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil && f.ended.Finished != nil {
		// MCLIENT-44: the ending tells what there is to read.
		a.total, a.pinned = sizeOf(f.ended.Finished, field)
	}
	return a
}

// sizeOf is the length of an artifact as the ending tells it; ok is false for a
// field that is not known.
func sizeOf(end *msp.Finished, field msp.Artifact) (size uint64, ok bool) {
	switch field {
	case msp.Stdout:
		return end.Sizes.Stdout, true
	case msp.Stderr:
		return end.Sizes.Stderr, true
	case msp.GenvmLog:
		return end.Sizes.GenvmLog, true
	}
	return 0, false
}

// with is how a request about the run is made.
//
// MCLIENT-40: what is left to fetch is worth no long wait once the ending is
// known, because a manager that ends takes it along.
func (f *Follower) with() repeater {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return f.s.once
	}
	return f.s.with
}

// Cancel is [Client.Cancel].
func (s *Session) Cancel(ctx context.Context, id RunID) error {
	return s.with(ctx, func(c *Client, _ int) error { return c.Cancel(ctx, id) })
}

// Ack is [Client.Ack]. When the reply was lost and the repeat finds no run, the
// run is released and the call succeeds.
func (s *Session) Ack(ctx context.Context, id RunID) error { return ackBy(ctx, s.with, id) }

// repeater is [Session.with] or [Session.once].
type repeater func(ctx context.Context, f func(c *Client, lost int) error) error

func ackBy(ctx context.Context, by repeater, id RunID) error {
	return by(ctx, func(c *Client, losses int) error {
		err := c.Ack(ctx, id)
		if losses > 0 && errors.Is(err, ErrUnknownID) {
			return nil
		}
		return err
	})
}

// ReadArtifact is [Client.ReadArtifact].
func (s *Session) ReadArtifact(ctx context.Context, id RunID, field msp.Artifact, offset uint64, most uint32) (total uint64, page []byte, err error) {
	return repeater(s.with).ReadArtifact(ctx, id, field, offset, most)
}

// ReadArtifact makes the repeater a pager.
func (by repeater) ReadArtifact(ctx context.Context, id RunID, field msp.Artifact, offset uint64, most uint32) (total uint64, page []byte, err error) {
	err = by(ctx, func(c *Client, _ int) (err error) {
		total, page, err = c.ReadArtifact(ctx, id, field, offset, most)
		return err
	})
	return total, page, err
}

// Open is [Client.Open].
func (s *Session) Open(ctx context.Context, id RunID, field msp.Artifact) *Artifact {
	return &Artifact{ctx: ctx, from: s, id: id, field: field}
}

// OpenAt is [Session.Open] from an offset.
func (s *Session) OpenAt(ctx context.Context, id RunID, field msp.Artifact, offset uint64) *Artifact {
	return &Artifact{ctx: ctx, from: s, id: id, field: field, offset: offset}
}
