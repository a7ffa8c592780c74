package tracetest

import (
	"context"
	"errors"
	"testing"
	"time"
)

var epoch = time.Unix(1_000_000_000, 0)

// TestClockFiresWhenMoved checks that a timer fires at its due time and not
// before, and that a stopped one never does.
func TestClockFiresWhenMoved(t *testing.T) {
	c := NewClock(epoch)
	fired := make(chan time.Time, 3)
	c.AfterFunc(3*time.Second, func() { fired <- c.Now() })
	stopped := c.AfterFunc(2*time.Second, func() { fired <- time.Time{} })
	if p := c.Pending(); len(p) != 2 || p[0] != 2*time.Second || p[1] != 3*time.Second {
		t.Errorf("pending %v", p)
	}
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop does not report whether the call was pending")
	}
	c.Advance(3*time.Second - 1)
	if len(fired) != 0 || len(c.Pending()) != 1 {
		t.Error("a timer fired before its time")
	}
	c.Advance(1)
	if at := <-fired; !at.Equal(epoch.Add(3 * time.Second)) {
		t.Errorf("fired at %v", at)
	}
	if len(c.Pending()) != 0 {
		t.Error("a fired timer is pending")
	}
}

// TestClockDueAtOnce checks that a duration that is not positive needs no move,
// and that a timer set by a timer is seen by a waiter.
func TestClockDueAtOnce(t *testing.T) {
	c := NewClock(epoch)
	done := make(chan struct{})
	timer := c.AfterFunc(0, func() {
		c.AfterFunc(time.Second, func() { close(done) })
	})
	one := func(pending []time.Duration) bool { return len(pending) == 1 && pending[0] == time.Second }
	if err := c.Await(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if timer.Stop() {
		t.Error("a fired timer was still pending")
	}
	c.Advance(time.Minute)
	<-done
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Await(ctx, one); !errors.Is(err, context.Canceled) {
		t.Errorf("Await returned %v", err)
	}
}

// TestClockRuns checks that spans are what timers were set for, whatever has
// passed, and that a clock that runs fires one timer after another.
func TestClockRuns(t *testing.T) {
	c := NewClock(epoch)
	done := make(chan struct{})
	c.AfterFunc(5*time.Second, func() { c.AfterFunc(time.Second, func() { close(done) }) })
	c.Advance(2 * time.Second)
	if s, p := c.Spans(), c.Pending(); len(s) != 1 || s[0] != 5*time.Second || p[0] != 3*time.Second {
		t.Errorf("spans %v, pending %v", s, p)
	}
	if err := c.AwaitSpan(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), 5*time.Second, done); err != nil {
		t.Fatal(err)
	}
	if now := c.Now(); now.Before(epoch.Add(6 * time.Second)) {
		t.Errorf("the clock ran to %v", now)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.AwaitSpan(ctx, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitSpan returned %v", err)
	}
	if err := c.Run(ctx, time.Second, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}
