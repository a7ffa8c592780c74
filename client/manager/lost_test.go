package manager

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// TestNobodyHangs ends a connection in every way, while calls and waits are
// pending on it: each returns, with an error that says why.
func TestNobodyHangs(t *testing.T) {
	t.Attr("requirement", "MCLIENT-4")
	t.Attr("requirement", "MCLIENT-16")
	for _, tc := range []struct {
		what string
		end  func(p *peer, c *Client)
		want error
	}{
		{"the manager is killed", func(p *peer, _ *Client) { p.ws.CloseNow() }, ErrLost},
		{"the manager says goodbye", func(p *peer, _ *Client) { p.ws.Close(1001, "shutting down") }, ErrLost},
		{"the client is closed", func(_ *peer, c *Client) { c.Close() }, ErrClosed},
	} {
		const calls, waits = 20, 20
		var c *Client
		pending, dialled := make(chan struct{}, waits), make(chan struct{})
		f := serve(t, func(p *peer) {
			p.hello(1)
			id, _ := p.want(msp.MethodRun)
			p.send(msp.Header{Method: msp.MethodRun, Request: id}, &msp.RunReply{GenvmID: 5})
			p.event(started(5))
			for range calls {
				p.want(msp.MethodCancel)
			}
			for range waits {
				<-pending
			}
			<-dialled
			tc.end(p, c)
			p.untilLeft()
		})
		c = f.connect()
		close(dialled)
		first, err := c.Run(testContext(t), request())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		check := func(what string, err error) {
			if !errors.Is(err, tc.want) {
				t.Errorf("%s: %s: %v, want %v", tc.what, what, err, tc.want)
			}
		}
		for range calls {
			all.Go(func() { check("a call", c.Cancel(testContext(t), RunID{1, 5})) })
		}
		for range waits {
			run := &Run{c: c, id: first.id, track: first.track}
			all.Go(func() {
				// What came before the end is still told.
				e, err := run.Next(testContext(t))
				if err != nil || e.Started == nil {
					t.Errorf("%s: the event before the end: %v", tc.what, err)
				}
				pending <- struct{}{}
				_, err = run.Next(testContext(t))
				check("a wait", err)
			})
		}
		all.Wait()
		select {
		case <-c.Done():
		case <-testContext(t).Done():
			t.Fatalf("%s: the client does not end", tc.what)
		}
		_, err = c.Run(testContext(t), request())
		check("a call afterwards", err)
		check("the client", c.Err())
		c.Close()
		c.Close()
		check("the client once closed", c.Err())
	}
}

// TestStopWaiting ends the context of one call: the connection serves the next,
// and the late reply is nobody's.
func TestStopWaiting(t *testing.T) {
	t.Attr("requirement", "MCLIENT-12")
	ctx, cancel := context.WithCancel(testContext(t))
	f := serve(t, func(p *peer) {
		p.hello(1)
		late, _ := p.want(msp.MethodAck)
		cancel()
		id, _ := p.want(msp.MethodCancel)
		p.send(msp.Header{Method: msp.MethodAck, Request: late}, &msp.Empty{})
		p.send(msp.Header{Method: msp.MethodCancel, Request: id}, &msp.Empty{})
		id, _ = p.want(msp.MethodRun)
		p.send(msp.Header{Method: msp.MethodRun, Request: id}, &msp.RunReply{GenvmID: 1})
		p.untilLeft()
	})
	c := f.connect()
	err := c.Ack(ctx, RunID{1, 1})
	if client.KindOf(err) != client.KindInterrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was left: %v", err)
	}
	if err := c.Cancel(testContext(t), RunID{1, 1}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	run, err := c.Run(testContext(t), request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Next(ctx); client.KindOf(err) != client.KindInterrupted {
		t.Errorf("a wait whose context has ended: %v", err)
	}
	past, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := run.Next(past); client.KindOf(err) != client.KindTimeout {
		t.Errorf("a wait whose deadline has passed: %v", err)
	}
	if err := c.Cancel(past, RunID{1, 1}); client.KindOf(err) != client.KindTimeout {
		t.Errorf("a call whose deadline has passed: %v", err)
	}
}

// TestSlowManager does not read: a call that cannot be sent is left with its
// context, and a keep-alive notices.
func TestSlowManager(t *testing.T) {
	t.Attr("requirement", "MCLIENT-12")
	t.Attr("requirement", "MCLIENT-22")
	done := make(chan struct{})
	deaf := func(p *peer) { p.hello(1); <-done }
	f := serve(t, deaf, deaf)
	defer close(done)
	c := f.connect()
	large := request()
	large.Calldata = make([]byte, 32<<20) // more than any buffer on the way
	ctx, cancel := context.WithCancel(testContext(t))
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := c.Run(ctx, large); client.KindOf(err) != client.KindInterrupted {
			t.Errorf("the call that is being sent: %v", err)
		}
	})
	calls.Go(func() {
		if err := c.Cancel(ctx, RunID{1, 1}); client.KindOf(err) != client.KindInterrupted {
			t.Errorf("the call that waits to be sent: %v", err)
		}
	})
	cancel()
	calls.Wait()
	if c.Err() != nil {
		t.Errorf("the connection ended: %v", c.Err())
	}
	c.Close()
	c = f.connect(WithKeepAlive(10 * time.Millisecond))
	if err := c.Cancel(testContext(t), RunID{1, 1}); !errors.Is(err, ErrLost) {
		t.Errorf("a call to a manager that answers no ping: %v", err)
	}
}

// TestKeepAlive pings a manager that answers.
func TestKeepAlive(t *testing.T) {
	t.Attr("requirement", "MCLIENT-22")
	pinged := make(chan struct{})
	f := serve(t, func(p *peer) {
		p.hello(1)
		go func() {
			// The client answers pings while it pings: both directions work.
			for range 3 {
				if err := p.ws.Ping(p.ctx); err != nil {
					t.Errorf("no pong: %v", err)
				}
			}
			close(pinged)
		}()
		p.untilLeft()
	})
	c := f.connect(WithKeepAlive(time.Minute))
	<-pinged
	if c.Err() != nil {
		t.Errorf("the connection ended: %v", c.Err())
	}
}

// TestOtherBoot asks about a run of another boot: nothing is sent.
func TestOtherBoot(t *testing.T) {
	t.Attr("requirement", "MCLIENT-7")
	t.Attr("requirement", "MCLIENT-9")
	f := serve(t, func(p *peer) {
		p.hello(7)
		id, _ := p.want(msp.MethodAck) // the first that comes
		p.send(msp.Header{Method: msp.MethodAck, Request: id}, &msp.Empty{})
		p.untilLeft()
	})
	c := f.connect()
	other := RunID{8, 1}
	_, attach := c.Attach(testContext(t), other)
	_, _, page := c.ReadArtifact(testContext(t), other, msp.Stdout, 0, 1)
	for what, err := range map[string]error{"attach": attach, "cancel": c.Cancel(testContext(t), other), "ack": c.Ack(testContext(t), other), "artifact": page} {
		var restarted *RestartedError
		if !errors.As(err, &restarted) || *restarted != (RestartedError{8, 7}) || !errors.Is(err, ErrRestarted) || client.Retryable(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Ack(testContext(t), RunID{7, 1}); err != nil {
		t.Error(err)
	}
}

// TestRepeats gives one run several times on one connection: managers repeat the
// latest event or say nothing; either way each reader sees each event once.
func TestRepeats(t *testing.T) {
	t.Attr("requirement", "MCLIENT-6")
	t.Attr("requirement", "MCLIENT-19")
	f := serve(t, func(p *peer) {
		p.hello(1)
		run := func(events ...msp.Event) {
			id, _ := p.want(msp.MethodRun)
			p.send(msp.Header{Method: msp.MethodRun, Request: id}, &msp.RunReply{GenvmID: 5})
			for _, e := range events {
				p.event(e)
			}
		}
		attach := func(snapshot msp.Event) {
			id, _ := p.want(msp.MethodAttach)
			p.send(msp.Header{Method: msp.MethodAttach, Request: id}, &msp.AttachReply{Snapshot: snapshot})
		}
		attach(queued(5))
		run(started(5), started(5))
		run()
		attach(started(5))
		run(started(5), finished(5, 3), finished(5, 3), started(5))
		attach(finished(5, 3))
		run()
		id, _ := p.want(msp.MethodAttach)
		p.send(msp.Header{Method: msp.MethodAttach, Request: id}, &msp.AttachReply{Snapshot: started(6)})
		p.untilLeft()
	})
	c := f.connect()
	var runs []*Run
	for _, attach := range []bool{true, false, false, true, false, true, false} {
		var r *Run
		var err error
		if attach {
			r, err = c.Attach(testContext(t), RunID{1, 5})
		} else {
			r, err = c.Run(testContext(t), request("t"))
		}
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	all := []string{"queued", "started", "finished", "EOF"}
	for i, want := range [][]string{all, all, all, {"started", "finished", "EOF"}, all, {"finished", "EOF"}, all} {
		if got := kinds(t, runs[i].Next); !cmp.Equal(got, want) {
			t.Errorf("reader %d sees %q, want %q", i, got, want)
		}
		if _, err := runs[i].Next(testContext(t)); err != io.EOF {
			t.Errorf("reader %d after the end: %v", i, err)
		}
	}
	if _, err := c.Attach(testContext(t), RunID{1, 5}); client.KindOf(err) != client.KindProtocol {
		t.Errorf("a snapshot of another run: %v", err)
	}
}

// TestShortArtifact gives pages that no artifact has.
func TestShortArtifact(t *testing.T) {
	t.Attr("requirement", "MCLIENT-14")
	for _, tc := range []struct {
		what  string
		pages []msp.ArtifactReply
		want  string
		err   error
	}{
		{"empty", []msp.ArtifactReply{{TotalLen: 0, Data: []byte{}}}, "", nil},
		{"one page", []msp.ArtifactReply{{TotalLen: 2, Data: []byte("ab")}}, "ab", nil},
		{"short pages", []msp.ArtifactReply{{TotalLen: 2, Data: []byte("a")}, {TotalLen: 2, Data: []byte("b")}}, "ab", nil},
		{"an empty page before the end", []msp.ArtifactReply{{TotalLen: 2, Data: []byte("a")}, {TotalLen: 2, Data: []byte{}}}, "a", client.ErrTruncated},
		{"more than the total", []msp.ArtifactReply{{TotalLen: 1, Data: []byte("ab")}}, "", errors.New("")},
		{"more than was asked for", []msp.ArtifactReply{{TotalLen: 1 << 30, Data: make([]byte, msp.ChunkBytes+1)}}, "", errors.New("")},
	} {
		f := serve(t, func(p *peer) {
			p.hello(1)
			for _, page := range tc.pages {
				id, _ := p.want(msp.MethodGetArtifact)
				p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &page)
			}
			p.untilLeft()
		})
		c := f.connect()
		got, err := io.ReadAll(io.MultiReader(c.Open(testContext(t), RunID{1, 1}, msp.Stdout)))
		if string(got) != tc.want || (err == nil) != (tc.err == nil) {
			t.Errorf("%s: %q, %v", tc.what, got, err)
		}
		if tc.err == client.ErrTruncated && (!errors.Is(err, client.ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
}

func TestRunIDs(t *testing.T) {
	t.Attr("requirement", "MCLIENT-7")
	id := RunID{1<<64 - 1, 12}
	if got, err := ParseRunID(id.String()); err != nil || got != id || id.String() != "ffffffffffffffff/12" {
		t.Errorf("%v reads as %v, %v", id, got, err)
	}
	for _, bad := range []string{"", "12", "f/12", "ffffffffffffffff/", "ffffffffffffffff/-1", "fffffffffffffffff/1", "ffffffffffffffff/1/2", "+fffffffffffffff/1", "ffffffffffffffff/18446744073709551616"} {
		if got, err := ParseRunID(bad); client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%q reads as %v, %v", bad, got, err)
		}
	}
}

// holding is a log handler in which the client's reader stays after the end of
// the connection, until Close returns or a moment has passed.
type holding struct {
	slog.Handler
	entered, returned chan struct{}
	early             atomic.Bool // Close returned while the reader was here
	c                 *Client
}

func (*holding) Enabled(context.Context, slog.Level) bool { return true }

func (h *holding) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "manager event" {
		close(h.entered)
		<-h.c.Done()
		select {
		case <-h.returned:
			h.early.Store(true)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// TestCloseWaits closes a client whose reader is at work.
func TestCloseWaits(t *testing.T) {
	t.Attr("requirement", "MCLIENT-16")
	known := make(chan struct{})
	f := serve(t, func(p *peer) { p.hello(1); <-known; p.event(started(5)); p.untilLeft() })
	h := &holding{Handler: slog.DiscardHandler, entered: make(chan struct{}), returned: make(chan struct{})}
	h.c = f.connect(WithLogger(slog.New(h)))
	close(known)
	<-h.entered
	h.c.Close()
	left := make(chan struct{})
	go func() { h.c.workers.Wait(); close(left) }()
	close(h.returned)
	<-left
	if h.early.Load() {
		t.Error("Close returned before the reader")
	}
}
