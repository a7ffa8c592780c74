package client

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineThatWasPutOff puts a deadline off just when it passes: its timer
// has fired, and what it calls has not run yet.
func TestDeadlineThatWasPutOff(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	d := newConnDeadline()
	fired, release, called := make(chan struct{}), make(chan struct{}), make(chan struct{})
	passed, cancel := d.now(), d.cancel
	d.timer = time.AfterFunc(0, func() {
		defer close(called)
		close(fired)
		<-release
		cancel(os.ErrDeadlineExceeded)
	})
	<-fired
	d.set(time.Now().Add(time.Hour))
	defer d.stop()
	close(release)
	<-called
	if passed.Err() == nil {
		t.Error("what waited for the deadline that passed still waits")
	}
	if d.now().Err() != nil {
		t.Error("the deadline that passed ends what waits for the next one")
	}
}

// TestFailedWriteDoesNotWaitForAReader lets a write fail while bytes that nobody
// reads keep the pump from the tunnel's end: the write returns at once.
func TestFailedWriteDoesNotWaitForAReader(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	synctest.Test(t, func(t *testing.T) {
		s, err := New("http://127.0.0.1:1", "token")
		if err != nil {
			t.Fatal(err)
		}
		tunnel := newTunnel(s, nil, 1)
		go tunnel.hand([]byte("x"))
		began := time.Now()
		if err := tunnel.writeFailed(t.Context(), io.ErrClosedPipe); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the write failed with %v", err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the write failed %v after the connection did", waited)
		}
		close(tunnel.local)
	})
}

// TestCloseDecidesItsOwnEnd lets the pump learn of the connection's end just when
// a Close that has begun says how the tunnel ended: what Close says stays.
func TestCloseDecidesItsOwnEnd(t *testing.T) {
	t.Attr("requirement", "TUNNEL-12")
	s, err := New("http://127.0.0.1:1", "token")
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		tunnel := newTunnel(s, nil, 1)
		tunnel.beginEnd()
		pumping, pumped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(pumped)
			close(pumping)
			for tunnel.Outcome().End == TunnelOpen {
				tunnel.finish(TunnelOutcome{End: TunnelTruncated})
			}
		}()
		<-pumping
		tunnel.settle(TunnelOutcome{End: TunnelClosed})
		<-pumped
		if end := tunnel.Outcome().End; end != TunnelClosed {
			t.Fatalf("Close ended the tunnel, and it is %v", end)
		}
	}
}
