package manager_test

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"microvms/agentd/manager"
)

// slowListener returns from Accept only once it was closed twice: by the shutdown,
// and by the HTTP server that still held it.
type slowListener struct {
	net.Listener
	closes *atomic.Int32
	let    chan struct{}
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	<-l.let
	return c, err
}

func (l slowListener) Close() error {
	err := l.Listener.Close()
	if l.closes.Add(1) == 2 {
		close(l.let)
	}
	return err
}

// TestRegressionShutdownBesideAccept shuts down while the HTTP server still holds
// the listener that the shutdown closed: that it cannot be closed twice was
// reported as an error.
func TestRegressionShutdownBesideAccept(t *testing.T) {
	t.Attr("requirement", "MGR-24")
	m, err := manager.New(manager.Config{Log: slog.New(slog.DiscardHandler), Executors: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow := slowListener{l, new(atomic.Int32), make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(context.Background(), slow) }()
	// The connection is behind the slow Accept, so the server is in its loop.
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := m.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
