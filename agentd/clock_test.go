package agentd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// clock is a trace.Clock that stands still until a test moves it.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*timer]struct{}
	armed  chan time.Duration // each AfterFunc's duration
}

func newClock(epoch int64) *clock {
	return &clock{now: time.Unix(epoch, 0), timers: map[*timer]struct{}{}, armed: make(chan time.Duration, 10000)}
}

type timer struct {
	clock *clock
	at    time.Time
	call  func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) trace.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c, c.now.Add(d), f}
	c.timers[t] = struct{}{}
	c.armed <- d
	return t
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, pending := t.clock.timers[t]
	delete(t.clock.timers, t)
	return pending
}

// advance moves the clock and calls what became due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for t := range c.timers {
		if !t.at.After(c.now) {
			delete(c.timers, t)
			go t.call()
		}
	}
}

// awaitArmed waits, at most for the failsafe, until a timer of this duration is
// armed.
func (c *clock) awaitArmed(t *testing.T, want time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	for {
		select {
		case d := <-c.armed:
			if d == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no timer of %v is armed", want)
		}
	}
}

// stopped is a clock whose timers run and whose hands stand still.
type stopped struct {
	trace.System
	at int64
}

func (s stopped) Now() time.Time { return time.Unix(s.at, 0) }
