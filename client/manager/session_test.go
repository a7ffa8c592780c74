package manager

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// accept answers the next run request.
func (p *peer) accept(number uint64) {
	id, _ := p.want(msp.MethodRun)
	p.send(msp.Header{Method: msp.MethodRun, Request: id}, &msp.RunReply{GenvmID: number})
}

// snapshot answers the next attach.
func (p *peer) snapshot(boot, number uint64, e msp.Event) {
	id, r := p.want(msp.MethodAttach)
	if *r.Attach != (msp.Attach{BootID: boot, GenvmID: number}) {
		p.t.Errorf("attach to %+v", *r.Attach)
	}
	p.send(msp.Header{Method: msp.MethodAttach, Request: id}, &msp.AttachReply{Snapshot: e})
}

// TestFollower loses the connection at each point of a run.
func TestFollower(t *testing.T) {
	t.Attr("requirement", "MCLIENT-8")
	for _, tc := range []struct {
		what        string
		connections []func(*peer)
		want        []string
	}{
		{"before the first event", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5) },
			func(p *peer) {
				p.hello(7)
				p.snapshot(7, 5, queued(5))
				p.event(started(5))
				p.event(finished(5, 0))
				p.untilLeft()
			},
		}, []string{"queued", "started", "finished", "EOF"}},
		{"after started", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5); p.event(started(5)) },
			func(p *peer) { p.hello(7); p.snapshot(7, 5, started(5)); p.event(finished(5, 0)); p.untilLeft() },
		}, []string{"started", "finished", "EOF"}},
		{"over the end", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5); p.event(started(5)) },
			func(p *peer) { p.hello(7); p.snapshot(7, 5, finished(5, 0)); p.untilLeft() },
		}, []string{"started", "finished", "EOF"}},
		{"again and again", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5) },
			func(p *peer) { p.hello(7) },
			func(p *peer) {},
			func(p *peer) { p.hello(7); p.want(msp.MethodAttach) },
			func(p *peer) { p.hello(7); p.snapshot(7, 5, started(5)) },
			func(p *peer) { p.hello(7); p.snapshot(7, 5, started(5)) },
			func(p *peer) { p.hello(7); p.snapshot(7, 5, finished(5, 0)) },
		}, []string{"started", "finished", "EOF"}},
		{"after the end", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5); p.event(finished(5, 0)) },
		}, []string{"finished", "EOF"}},
		{"acked by another meanwhile", []func(*peer){
			func(p *peer) { p.hello(7); p.accept(5); p.event(started(5)) },
			func(p *peer) {
				p.hello(7)
				id, _ := p.want(msp.MethodAttach)
				p.refuse(id, msp.CodeUnknownID, "")
				p.untilLeft()
			},
		}, []string{"started", "attach: unknown_id"}},
	} {
		s := serve(t, tc.connections...).session(10)
		run, err := s.Run(testContext(t), request("t"))
		if err != nil {
			t.Errorf("%s: %v", tc.what, err)
			continue
		}
		if got := kinds(t, run.Next); !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
		s.Close()
	}
}

// TestRestarted lets the manager restart at each point: the run is not carried
// over, and nothing is asked about it.
func TestRestarted(t *testing.T) {
	t.Attr("requirement", "MCLIENT-9")
	t.Attr("requirement", "MCLIENT-10")
	other := func(p *peer) {
		p.hello(8)
		if _, r := p.read(); r != nil {
			t.Errorf("a request went to the other boot: %+v", r)
		}
	}
	check := func(what string, err error) {
		t.Helper()
		var restarted *RestartedError
		if !errors.As(err, &restarted) || *restarted != (RestartedError{7, 8}) || client.Retryable(err) || errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := serve(t, func(p *peer) { p.hello(7); p.accept(5); p.event(started(5)) }, other).session(10)
	run, err := s.Run(testContext(t), request("t"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(testContext(t)); err != nil {
		check("a wait", err)
	} else {
		t.Error("a run ended that nobody ended")
	}
	check("a cancel", run.Cancel(testContext(t)))
	_, err = run.Open(testContext(t), msp.Stdout).Read(make([]byte, 1))
	check("an artifact", err)
	check("an ack", run.Ack(testContext(t)))
	s.Close()

	s = serve(t, func(p *peer) { p.hello(7); p.want(msp.MethodRun) }, other).session(10)
	_, err = s.Run(testContext(t), request("t"))
	check("a request without a reply", err)
	s.Close()
}

// TestLostReplies loses the reply to each request.
func TestLostReplies(t *testing.T) {
	t.Attr("requirement", "MCLIENT-10")
	s := serve(t, func(p *peer) { p.hello(7); p.want(msp.MethodRun) },
		func(p *peer) { p.hello(7); p.accept(5); p.event(finished(5, 0)); p.untilLeft() }).session(10)
	run, err := s.Run(testContext(t), request("t"))
	if err != nil || run.ID() != (RunID{7, 5}) {
		t.Errorf("the repeat of a request with a token: %v", err)
	}
	s.Close()

	// Without a token nothing is repeated, and the error says what may be.
	s = serve(t, func(p *peer) { p.hello(7); p.want(msp.MethodRun) }, func(p *peer) {
		p.hello(7)
		if _, r := p.read(); r != nil {
			t.Errorf("a request without a token was repeated: %+v", r)
		}
	}).session(10)
	_, err = s.Run(testContext(t), request())
	if client.Retryable(err) || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "it may have started") {
		t.Errorf("a lost reply without a token: %v", err)
	}
	s.Close()

	s = serve(t, func(p *peer) { p.hello(7); p.want(msp.MethodAck) }, func(p *peer) {
		p.hello(7)
		id, _ := p.want(msp.MethodAck)
		p.refuse(id, msp.CodeUnknownID, "")
		id, _ = p.want(msp.MethodAck)
		p.refuse(id, msp.CodeUnknownID, "")
		p.untilLeft()
	}).session(10)
	if err := s.Ack(testContext(t), RunID{7, 5}); err != nil {
		t.Errorf("an ack whose reply was lost: %v", err)
	}
	if err := s.Ack(testContext(t), RunID{7, 5}); !errors.Is(err, ErrUnknownID) {
		t.Errorf("an ack of a run that is unknown from the start: %v", err)
	}
	s.Close()

	page := func(p *peer, offset uint64, data string) {
		id, r := p.want(msp.MethodGetArtifact)
		if r.GetArtifact.Offset != offset {
			t.Errorf("asked for offset %d, want %d", r.GetArtifact.Offset, offset)
		}
		p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &msp.ArtifactReply{TotalLen: 6, Data: []byte(data)})
	}
	s = serve(t, func(p *peer) { p.hello(7); page(p, 0, "ab"); p.want(msp.MethodGetArtifact) },
		func(p *peer) { p.hello(7); page(p, 2, "cd") }, func(p *peer) { p.hello(7); page(p, 4, "ef"); p.untilLeft() }).session(10)
	var got bytes.Buffer
	if n, err := io.Copy(&got, s.Open(testContext(t), RunID{7, 5}, msp.GenvmLog)); err != nil || n != 6 || got.String() != "abcdef" {
		t.Errorf("an artifact over three connections: %q, %v", got.String(), err)
	}
	s.Close()

	s = serve(t, func(p *peer) { p.hello(7); p.want(msp.MethodCancel) }, func(p *peer) {
		p.hello(7)
		id, _ := p.want(msp.MethodCancel)
		p.send(msp.Header{Method: msp.MethodCancel, Request: id}, &msp.Empty{})
		p.snapshot(7, 6, queued(6))
		p.untilLeft()
	}).session(10)
	if err := s.Cancel(testContext(t), RunID{7, 5}); err != nil {
		t.Errorf("a cancel whose reply was lost: %v", err)
	}
	run, err = s.Attach(testContext(t), RunID{7, 6})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := run.Next(testContext(t)); err != nil || e.Queued == nil {
		t.Errorf("the snapshot: %v", err)
	}
}

// TestGivingUp lets nothing answer any more.
func TestGivingUp(t *testing.T) {
	t.Attr("requirement", "MCLIENT-4")
	f := serve(t, func(p *peer) { p.hello(7); p.accept(5) })
	s := f.session(3)
	run, err := s.Run(testContext(t), request("t"))
	if err != nil {
		t.Fatal(err)
	}
	// The upgrade is refused: that is an answer, and nobody asks again.
	if _, err := run.Next(testContext(t)); client.KindOf(err) != client.KindProtocol {
		t.Errorf("something else answers: %v", err)
	}
	f.server.Close()
	if _, err := run.Next(testContext(t)); client.KindOf(err) != client.KindRetryable || !strings.Contains(err.Error(), "cannot connect") {
		t.Errorf("nothing answers: %v", err)
	}
	fresh, err := NewSession(f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	// The first connection is tried once: the default delays would take a minute.
	if _, err := fresh.Client(testContext(t)); client.KindOf(err) != client.KindRetryable {
		t.Errorf("nothing answers from the start: %v", err)
	}
	// A manager that takes every connection and drops it is given up as well.
	drops := make([]func(*peer), 50)
	for i := range drops {
		drops[i] = func(p *peer) { p.hello(7) }
	}
	dropper := serve(t, drops...).session(3)
	if err := dropper.Cancel(testContext(t), RunID{7, 1}); !errors.Is(err, ErrLost) {
		t.Errorf("a manager that drops each connection: %v", err)
	}
}

// TestSessionEnds closes the session, or ends the context, while it waits to
// dial again.
func TestSessionEnds(t *testing.T) {
	t.Attr("requirement", "MCLIENT-12")
	t.Attr("requirement", "MCLIENT-16")
	slow := WithRetry(client.Retry{Delays: []time.Duration{time.Hour}, Reconnects: 100})
	for _, closes := range []bool{true, false} {
		f := serve(t, func(p *peer) { p.hello(7); p.accept(5); p.untilLeft() })
		s, err := NewSession(f.address, slow)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(testContext(t))
		run, err := s.Run(ctx, request("t"))
		if err != nil {
			t.Fatal(err)
		}
		f.server.Listener.Close() // nothing listens any more
		f.server.CloseClientConnections()
		c := s.latest()
		c.fail(lost(nil))
		done := make(chan error)
		go func() { _, err := run.Next(ctx); done <- err }()
		if closes {
			s.Close()
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("the session was closed: %v", err)
			}
		} else {
			cancel()
			if err := <-done; client.KindOf(err) != client.KindInterrupted {
				t.Errorf("the context ended: %v", err)
			}
		}
		cancel()
		s.Close()
		if _, err := s.Client(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed session: %v", err)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Attr("requirement", "MCLIENT-23")
	body, code := `{"llm_module":"stopped","web_module":"running","permits":{"current":3,"max":8,"per_sync_run":4,"per_nondet_run":8},"zone":"x",
		"executions":{"12":{"result":null,"version":"v0.3.0","started_at":null,"strict_deadline":"2026-01-01T00:00:00Z"},
		"3":{"result":{"finished_at":"2026-01-01T00:00:00.5Z"},"version":"v0.3.0","started_at":"2026-01-01T00:00:00Z","strict_deadline":"2026-01-01T00:00:00Z"}}}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" || r.Method != http.MethodGet {
			t.Errorf("asked for %s %s", r.Method, r.URL.Path)
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}))
	defer server.Close()
	s, err := ReadStatus(testContext(t), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(s.Numbers(), []uint64{3, 12}) || s.Permits != (PermitsStatus{3, 8, 4, 8}) || s.LLM != "stopped" || s.Runs[12].StartedAt != nil || s.Runs[3].Result == nil {
		t.Errorf("the status is %+v", s)
	}
	for _, bad := range []struct {
		code int
		body string
		kind client.Kind
	}{{404, "no", client.KindProtocol}, {200, "{", client.KindProtocol}, {200, `[]`, client.KindProtocol}, {302, "", client.KindProtocol}} {
		code, body = bad.code, bad.body
		if _, err := ReadStatus(testContext(t), server.URL); client.KindOf(err) != bad.kind {
			t.Errorf("%d %s: %v", bad.code, bad.body, err)
		}
	}
	server.Close()
	if _, err := ReadStatus(testContext(t), server.URL); client.KindOf(err) != client.KindRetryable {
		t.Errorf("nothing answers: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadStatus(ended, server.URL); client.KindOf(err) != client.KindInterrupted {
		t.Errorf("the context has ended: %v", err)
	}
}
