package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager"
	"microvms/agentd/trace"
)

// TestShutdownOrder shuts down with a run in the queue and one that runs: each
// subscriber hears both endings with the cause shutdown and then close code
// 1001, a request over HTTP that waits for an ending gets its answer, and the
// processes are gone when the shutdown returns.
func TestShutdownOrder(t *testing.T) {
	t.Attr("requirement", "ADMIN-33")
	t.Attr("requirement", "SOCKET-24")
	accepted := make(accepts, 1)
	s := start(t, func(c *manager.Config) {
		c.Permits, c.SyncCost, c.NondetCost = 4, 4, 4
		c.Recorder = accepted
	})
	p, q := s.dial(), s.dial()
	pid := filepath.Join(s.dir, "pid")
	shell, release := fifo(t)
	running := p.run(command("echo $$ > " + pid + "; " + shell + "; exec sleep 1000"))
	p.event()
	release() // so that the pid is written
	queued := p.run(command("true"))
	for _, id := range []uint64{running, queued} {
		q.ask(&msp.Request{Attach: &msp.Attach{BootID: bootID, GenvmID: id}}, new(msp.AttachReply))
	}
	waiting := make(chan string, 1)
	go func() {
		a, err := s.http.Post("http://"+s.addr+"/genvm/run", "", bytes.NewReader(encoded(t, command("true"))))
		if err != nil {
			waiting <- err.Error()
			return
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		waiting <- fmt.Sprint(a.StatusCode, " ", string(text), " ", err)
	}()
	<-accepted
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	for _, x := range []*peer{p, q} {
		ended := map[uint64]msp.Cause{}
		for {
			kind, b, err := x.ws.Read(context.Background())
			if err != nil {
				if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
					t.Errorf("closed with %v", err)
				}
				break
			}
			h, payload, err := msp.ParseHeader(b)
			if err != nil || kind != websocket.MessageBinary || h.Method != msp.MethodEvent {
				t.Fatalf("message %x", b)
			}
			ev := decodeEvent(t, payload)
			if ev.Finished == nil {
				t.Fatalf("event %+v", ev)
			}
			ended[ev.GenvmID()] = ev.Finished.Cause
		}
		if len(ended) != 2 || ended[running] != msp.Shutdown || ended[queued] != msp.Shutdown {
			t.Errorf("ended: %v", ended)
		}
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if got := <-waiting; got != `200 {"result":"started","id":3} <nil>` {
		t.Errorf("the request that waited: %s", got)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the executor's process is still there: %v", err)
	}
}

// accepts tells of each run that was asked for over HTTP.
type accepts chan struct{}

// Record hears every transition.
func (a accepts) Record(e trace.Event) {
	if e.Action == trace.RunAccept && e.Conn == 0 {
		a <- struct{}{}
	}
}

// TestShutdownHappensOnce shuts down without patience and again, and serves after:
// each call returns what the first did, and nothing is accepted.
func TestShutdownHappensOnce(t *testing.T) {
	t.Attr("requirement", "ADMIN-33")
	m, err := manager.New(manager.Config{Log: slog.New(slog.DiscardHandler), Executors: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	first := m.Shutdown(ctx)
	if second := m.Shutdown(context.Background()); !errors.Is(second, first) && (first != nil || second != nil) {
		t.Errorf("two shutdowns returned %v and %v", first, second)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Serve(context.Background(), l); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// TestServeEnds returns when its context does, and returns the listener's error
// otherwise.
func TestServeEnds(t *testing.T) {
	t.Attr("requirement", "ADMIN-33")
	m, err := manager.New(manager.Config{Log: slog.New(slog.DiscardHandler), Executors: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broken.Close()
	if err := m.Serve(context.Background(), broken); err == nil {
		t.Error("Serve took a closed listener")
	}
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	a, err := (&http.Client{Transport: transport}).Get("http://any-name.example/permits")
	if err != nil || a.StatusCode != 200 {
		t.Errorf("over the unix socket: %v, %v", a, err)
	}
	a.Body.Close()
	transport.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestNewRefusals gives New what it cannot use.
func TestNewRefusals(t *testing.T) {
	t.Attr("requirement", "ADMIN-6")
	quiet := slog.New(slog.DiscardHandler)
	for name, c := range map[string]manager.Config{
		"no executors":       {Log: quiet},
		"a cost below one":   {Log: quiet, Executors: "x", SyncCost: -1},
		"no manifest":        {Log: quiet, Executors: "x", ManifestPath: filepath.Join(t.TempDir(), "none")},
		"a tiny message":     {Log: quiet, Executors: "x", MaxMessageBytes: 9},
		"a negative message": {Log: quiet, Executors: "x", MaxMessageBytes: -1},
	} {
		if m, err := manager.New(c); err == nil || m != nil {
			t.Errorf("%s: New returned %v, %v", name, m, err)
		}
	}
}
