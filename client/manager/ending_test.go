package manager

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// ended is a terminal event with an output of size bytes.
func ended(number, size uint64, cause msp.Cause) msp.Event {
	e := &msp.Finished{GenvmID: number, Cause: cause}
	e.Sizes.Stdout, e.Sizes.Stderr, e.Sizes.GenvmLog = size, size+1, size+2
	return msp.Event{Finished: e}
}

// TestAfterTheEnding loses the connection once the ending is known: it is dialled
// again once, without the delays and without a word.
func TestAfterTheEnding(t *testing.T) {
	t.Attr("requirement", "MCLIENT-40")
	var told []error
	options := []Option{
		WithRetry(client.Retry{Delays: []time.Duration{time.Millisecond}, Reconnects: 20}),
		WithReconnecting(func(err error) { told = append(told, err) }),
	}
	open := func(f *fake) *Follower {
		t.Helper()
		s, err := NewSession(f.address, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		run, err := s.Run(testContext(t), request("t"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
		return run
	}
	ends := func(p *peer) { p.hello(7); p.accept(5); p.event(ended(5, 2, msp.Shutdown)) }

	// Nothing listens any more.
	f := serve(t, ends)
	run := open(f)
	f.server.Listener.Close()
	f.server.CloseClientConnections()
	<-run.s.latest().Done()
	if _, err := io.ReadAll(run.Open(testContext(t), msp.Stdout)); client.KindOf(err) != client.KindRetryable {
		t.Errorf("an artifact of a manager that is gone: %v", err)
	}
	if err := run.Ack(testContext(t)); client.KindOf(err) != client.KindRetryable {
		t.Errorf("an ack to a manager that is gone: %v", err)
	}

	// The manager is there: the one try serves.
	run = open(serve(t, ends, func(p *peer) {
		p.hello(7)
		id, _ := p.want(msp.MethodGetArtifact)
		p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &msp.ArtifactReply{TotalLen: 2, Data: []byte("ab")})
		id, _ = p.want(msp.MethodAck)
		p.send(msp.Header{Method: msp.MethodAck, Request: id}, &msp.Empty{})
		p.untilLeft()
	}))
	if got, err := io.ReadAll(run.Open(testContext(t), msp.Stdout)); err != nil || string(got) != "ab" {
		t.Errorf("an artifact over another connection: %q, %v", got, err)
	}
	if err := run.Ack(testContext(t)); err != nil {
		t.Errorf("an ack over another connection: %v", err)
	}

	// Every connection is dropped: it is given up.
	drop := func(p *peer) { p.hello(7); p.want(msp.MethodGetArtifact) }
	run = open(serve(t, ends, drop, drop, drop, drop))
	if _, err := io.ReadAll(run.Open(testContext(t), msp.Stdout)); !errors.Is(err, ErrLost) {
		t.Errorf("an artifact of a manager that drops each connection: %v", err)
	}
	if len(told) != 0 {
		t.Errorf("told of tries that nobody waits for: %v", told)
	}
}

// TestToldOfLosses tells of each loss before the first try.
func TestToldOfLosses(t *testing.T) {
	t.Attr("requirement", "MCLIENT-41")
	f := serve(t, func(p *peer) { p.hello(7); p.accept(5); p.event(started(5)); p.untilLeft() })
	told := make(chan error, 8)
	s, err := NewSession(f.address, WithRetry(client.Retry{Delays: []time.Duration{time.Hour}, Reconnects: 20}),
		WithReconnecting(func(err error) { told <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Run(testContext(t), request("t"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := run.Wait(ctx); done <- err }()
	f.server.Listener.Close()
	s.latest().fail(lost(errors.New("cut")))
	select {
	case err := <-told:
		if !errors.Is(err, ErrLost) {
			t.Errorf("told of %v", err)
		}
	case <-testContext(t).Done():
		t.Fatal("nobody was told that the connection is lost")
	}
	cancel()
	<-done
	if len(told) != 0 {
		t.Errorf("told again of one loss: %v", <-told)
	}
}

// TestGrowingArtifact reads from a manager whose artifact has another length at
// each page, or another than the ending told.
func TestGrowingArtifact(t *testing.T) {
	t.Attr("requirement", "MCLIENT-44")
	for _, tc := range []struct {
		what   string
		told   uint64 // by the ending
		totals []uint64
		want   string
	}{
		{"true", 2, []uint64{2, 2}, "ab"},
		{"grows", 1, []uint64{1, 2}, "a"},
		{"longer than told", 2, []uint64{9}, ""},
		{"shorter than told", 2, []uint64{1}, ""},
		{"grows later", 2, []uint64{2, 3}, "a"},
	} {
		f := serve(t, func(p *peer) {
			p.hello(1)
			p.accept(5)
			p.event(ended(5, tc.told, msp.Exited))
			for i := 0; ; i++ {
				id, r := p.read()
				if r == nil {
					return
				}
				if i >= len(tc.totals) {
					t.Errorf("%s: another page was asked for", tc.what)
					return
				}
				p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &msp.ArtifactReply{TotalLen: tc.totals[i], Data: []byte{byte('a' + i)}})
			}
		})
		s := f.session(3)
		run, err := s.Run(testContext(t), request("t"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(run.Open(testContext(t), msp.Stdout))
		lies := tc.what != "true" && tc.what != "grows"
		if string(got) != tc.want || lies != (client.KindOf(err) == client.KindProtocol && client.WireKindOf(err) == client.WireProtocolError) {
			t.Errorf("%s: %q, %v", tc.what, got, err)
		}
		s.Close()
	}

	// Who did not see the ending holds on to the first page's length.
	f := serve(t, func(p *peer) {
		p.hello(1)
		for total := uint64(2); ; total++ {
			id, r := p.read()
			if r == nil {
				return
			}
			p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &msp.ArtifactReply{TotalLen: total, Data: []byte("a")})
		}
	})
	got, err := io.ReadAll(io.LimitReader(f.connect().Open(testContext(t), RunID{1, 5}, msp.Stdout), 100))
	if string(got) != "a" || client.KindOf(err) != client.KindProtocol {
		t.Errorf("an artifact that grows: %q, %v", got, err)
	}
}

// TestArtifactSizes compares each field with its own size.
func TestArtifactSizes(t *testing.T) {
	t.Attr("requirement", "MCLIENT-44")
	end := ended(5, 10, msp.Exited).Finished
	for field, want := range map[msp.Artifact]uint64{msp.Stdout: 10, msp.Stderr: 11, msp.GenvmLog: 12} {
		if got, ok := sizeOf(end, field); !ok || got != want {
			t.Errorf("%s: %d, %v", field, got, ok)
		}
	}
	if _, ok := sizeOf(end, "other"); ok {
		t.Error("the size of a field that is not known")
	}
}

// TestSocketNames tells names of sockets from hosts.
func TestSocketNames(t *testing.T) {
	t.Attr("requirement", "MCLIENT-43")
	t.Chdir(t.TempDir())
	listener, err := net.Listen("unix", "manager")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for text, want := range map[string]string{
		"manager":                "unix:manager", // it exists
		"m1.sock":                "unix:m1.sock",
		"m1.socket":              "unix:m1.socket",
		"run/manager":            "unix:run/manager",
		"other":                  "http://other",
		"other:3999":             "http://other:3999",
		"other:3999/":            "http://other:3999",
		"http://manager":         "http://manager",
		"http://m1.sock":         "http://m1.sock",
		filepath.Join(".", "m"):  "http://m",
		"." + "/" + "m":          "unix:./m",
		"unix:other":             "unix:other",
		"[::1]:3999":             "http://[::1]:3999",
		"127.0.0.1:3999":         "http://127.0.0.1:3999",
		"manager.example.org:80": "http://manager.example.org:80",
	} {
		if at, err := parseAddress(text); err != nil || at.String() != want {
			t.Errorf("%q is %v, %v, want %s", text, at, err, want)
		}
	}
	if at, err := parseAddress("other:3999/status"); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("a URL with a path is %v, %v", at, err)
	}
}
