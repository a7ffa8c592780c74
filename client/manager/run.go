package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// RunID is the identity of a run. Numbers begin anew with each boot of a
// manager.
type RunID struct {
	Boot   uint64
	Number uint64
}

// String is the boot in hexadecimal, a slash, and the number in decimal.
func (id RunID) String() string { return fmt.Sprintf("%016x/%d", id.Boot, id.Number) }

// ParseRunID reads what [RunID.String] writes.
func ParseRunID(text string) (RunID, error) {
	boot, number, ok := strings.Cut(text, "/")
	b, err := strconv.ParseUint(boot, 16, 64)
	n, err2 := strconv.ParseUint(number, 10, 64)
	if !ok || len(boot) != 16 || err != nil || err2 != nil {
		return RunID{}, invalidArg("run %q: want BOOT/NUMBER, such as 00f1e2d3c4b5a697/12", text)
	}
	return RunID{b, n}, nil
}

// Run is a run as one caller follows it. Several may follow one run; each sees
// every event.
type Run struct {
	c     *Client
	id    RunID
	track *track
	seen  int // events handed out; guarded by c.mu
}

// track is what a connection has heard of a run.
type track struct {
	events   []*msp.Event
	rank     int           // of the last event, -1 before the first
	changed  chan struct{} // closed when an event is added
	released bool          // acked: nothing is asked about the run again
}

// rank orders the events of a run: no run goes back.
func rank(e *msp.Event) int {
	switch {
	case e.Terminal():
		return 2
	case e.Started != nil:
		return 1
	}
	return 0
}

// trackLocked gives the track of a run, a new one if there is none.
func (c *Client) trackLocked(number uint64) *track {
	t := c.runs[number]
	if t == nil {
		t = &track{rank: -1, changed: make(chan struct{})}
		c.runs[number] = t
	}
	return t
}

// add takes an event that moves the run on.
//
// MCLIENT-6: managers repeat the latest event to a repeated request, and a
// reader must not see an ending twice.
func (t *track) add(e *msp.Event) {
	if r := rank(e); r > t.rank {
		t.rank = r
		t.events = append(t.events, e)
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// event takes an event off the wire. An error ends the connection.
func (c *Client) event(payload []byte) error {
	e := new(msp.Event)
	if err := replies.Unmarshal(payload, e); err != nil {
		var bad *calldata.Error
		if errors.As(err, &bad) && bad.Fault == calldata.BadVariant && calldata.Valid(payload) == nil {
			return nil // a newer manager tells more kinds of events
		}
		// MCLIENT-13: it may have been an ending, for which somebody would wait for ever.
		return fmt.Errorf("cannot read an event: %w", err)
	}
	c.mu.Lock()
	if t := c.runs[e.GenvmID()]; t != nil {
		t.add(e)
		c.dropLocked(e.GenvmID())
	}
	c.mu.Unlock()
	c.settings.log.Debug("manager event", "kind", e.Kind(), "genvm_id", e.GenvmID())
	return nil
}

// Run asks for an execution and returns as soon as the manager has given it a
// number; what becomes of it, refusals included, is told by events. The request
// is encoded before the return and is the caller's again.
//
// With a token a repeat is safe: while the manager knows the run, it gives that
// run and starts no second one. Without a token a call that fails with ErrLost,
// or whose context ends, may have started a run that nobody can name.
func (c *Client) Run(ctx context.Context, request *msp.RunRequest) (*Run, error) {
	var reply msp.RunReply
	r := &Run{c: c} // MCLIENT-19: from the first event of the track on
	err := c.do(ctx, &msp.Request{Run: request}, &reply, func() {
		// MCLIENT-5: taken up before the next message is read, which may be its first event.
		r.id, r.track = RunID{c.hello.BootID, reply.GenvmID}, c.trackLocked(reply.GenvmID)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Attach joins a run. The first event of [Run.Next] is the latest that the run
// had. It fails with a [*RestartedError] when the manager has restarted since,
// and with ErrUnknownID when the run was acked or has expired.
func (c *Client) Attach(ctx context.Context, id RunID) (*Run, error) {
	if err := c.ofThisBoot(id); err != nil {
		return nil, err
	}
	var reply msp.AttachReply
	r := &Run{c: c, id: id}
	err := c.do(ctx, &msp.Request{Attach: &msp.Attach{BootID: id.Boot, GenvmID: id.Number}}, &reply, func() {
		r.track = c.trackLocked(id.Number)
		r.track.add(&reply.Snapshot)
		// What came before the snapshot is no news to who joins now.
		r.seen = len(r.track.events) - 1
	})
	if err != nil {
		return nil, err
	}
	if got := reply.Snapshot.GenvmID(); got != id.Number {
		return nil, protocolError("attach to run %d was answered with a snapshot of run %d", id.Number, got)
	}
	return r, nil
}

// ofThisBoot refuses a run of another boot.
//
// MCLIENT-7: nothing is sent, because cancel, ack and get_artifact carry no boot
// id and would act on whichever run has the number now.
func (c *Client) ofThisBoot(id RunID) error {
	if id.Boot != c.hello.BootID {
		return restarted(id.Boot, c.hello.BootID)
	}
	return nil
}

// Cancel asks for the end of a run and does not wait for it. On a run that has
// ended it does nothing.
func (c *Client) Cancel(ctx context.Context, id RunID) error {
	if err := c.ofThisBoot(id); err != nil {
		return err
	}
	return c.do(ctx, &msp.Request{Cancel: &msp.Target{GenvmID: id.Number}}, new(msp.Empty), nil)
}

// Ack releases a run that has ended: its number, token and artifacts are gone
// then. Before the end it fails with ErrNotFinished, a second time with
// ErrUnknownID.
func (c *Client) Ack(ctx context.Context, id RunID) error {
	if err := c.ofThisBoot(id); err != nil {
		return err
	}
	err := c.do(ctx, &msp.Request{Ack: &msp.Target{GenvmID: id.Number}}, new(msp.Empty), nil)
	if err == nil || errors.Is(err, ErrUnknownID) {
		c.mu.Lock()
		if t := c.runs[id.Number]; t != nil {
			t.released = true
			c.dropLocked(id.Number)
		}
		c.mu.Unlock()
	}
	return err
}

// dropLocked forgets a run that is released, once its ending has come: until
// then somebody may wait for it.
func (c *Client) dropLocked(number uint64) {
	if t := c.runs[number]; t.released && t.rank == 2 {
		delete(c.runs, number)
	}
}

// ID is the identity of the run.
func (r *Run) ID() RunID { return r.id }

// Next gives the next event, waiting for it, and io.EOF after the terminal one.
// Events that came before the connection ended are still given. The event is
// shared: read it only.
func (r *Run) Next(ctx context.Context) (*msp.Event, error) {
	for {
		r.c.mu.Lock()
		if r.seen < len(r.track.events) {
			e := r.track.events[r.seen]
			r.seen++
			r.c.mu.Unlock()
			return e, nil
		}
		ended, changed, err := r.track.rank == 2, r.track.changed, r.c.err
		r.c.mu.Unlock()
		if ended {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-r.c.alive.Done():
		case <-ctx.Done():
			return nil, stopped("run "+r.id.String(), ctx)
		}
	}
}

// Wait gives the terminal event, passing over the others.
func (r *Run) Wait(ctx context.Context) (*msp.Event, error) { return waitFor(ctx, r.Next) }

func waitFor(ctx context.Context, next func(context.Context) (*msp.Event, error)) (*msp.Event, error) {
	for {
		e, err := next(ctx)
		if err != nil || e.Terminal() {
			return e, err
		}
	}
}

// Cancel is [Client.Cancel] of the run.
func (r *Run) Cancel(ctx context.Context) error { return r.c.Cancel(ctx, r.id) }

// Ack is [Client.Ack] of the run.
func (r *Run) Ack(ctx context.Context) error { return r.c.Ack(ctx, r.id) }

// Open is [Client.Open] of the run.
func (r *Run) Open(ctx context.Context, field msp.Artifact) *Artifact {
	return r.c.Open(ctx, r.id, field)
}
