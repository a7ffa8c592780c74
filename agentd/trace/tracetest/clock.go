// Package tracetest holds the clock that tests give a daemon or its parts.
package tracetest

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"microvms/agentd/trace"
)

// Clock is a [trace.Clock] that stands still until it is moved. The zero value
// is not usable; make one with NewClock. All methods are safe for concurrent
// use.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*timer // pending, in the order of their creation
	set     int      // timers so far
	changed chan struct{}
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock { return &Clock{now: start, changed: make(chan struct{})} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f in its own goroutine once the clock has been moved by d. A
// d that is not positive is due at once.
func (c *Clock) AfterFunc(d time.Duration, f func()) trace.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{clock: c, due: c.now.Add(d), span: d, f: f}
	if d <= 0 {
		t.fired = true
		go f()
		return t
	}
	c.timers = append(c.timers, t)
	c.set++
	c.notifyLocked()
	return t
}

// Advance moves the clock by d and starts, in the order of their due times, the
// timers that become due. Each is called with the clock standing at its due
// time or later. Advance returns when the calls have been started, not when they
// have returned.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var due, rest []*timer
	for _, t := range c.timers {
		if t.due.After(c.now) {
			rest = append(rest, t)
		} else {
			due = append(due, t)
		}
	}
	c.timers = rest
	sort.SliceStable(due, func(i, j int) bool { return due[i].due.Before(due[j].due) })
	for _, t := range due {
		t.fired = true
		go t.f()
	}
	if len(due) > 0 {
		c.notifyLocked()
	}
}

// Pending returns how far the clock must be moved for each pending timer,
// ascending, in a fresh slice.
func (c *Clock) Pending() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pendingLocked()
}

func (c *Clock) pendingLocked() []time.Duration {
	out := make([]time.Duration, len(c.timers))
	for i, t := range c.timers {
		out[i] = t.due.Sub(c.now)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// Await waits until the pending timers satisfy ready, for example until a timer
// of the expected duration is set. ready is called with the clock held and must
// not call it.
func (c *Clock) Await(ctx context.Context, ready func(pending []time.Duration) bool) error {
	for {
		c.mu.Lock()
		ok, changed := ready(c.pendingLocked()), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Spans returns, in the order in which they were set, what the pending timers
// were set for, in a fresh slice.
func (c *Clock) Spans() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]time.Duration, len(c.timers))
	for i, t := range c.timers {
		out[i] = t.span
	}
	return out
}

// AwaitSpan waits until a timer is pending that was set for span.
func (c *Clock) AwaitSpan(ctx context.Context, span time.Duration) error {
	return c.Await(ctx, func([]time.Duration) bool {
		return slices.ContainsFunc(c.timers, func(t *timer) bool { return t.span == span })
	})
}

// Run moves the clock by step once for each timer that is set, and once at first
// for those that are pending, until done is closed: for tests in which only the
// order of the timers matters. No timer should be set for longer than step.
func (c *Clock) Run(ctx context.Context, step time.Duration, done <-chan struct{}) error {
	for moved := -1; ; {
		c.mu.Lock()
		pending, changed, set := len(c.timers) > 0, c.changed, c.set
		c.mu.Unlock()
		if pending && set != moved {
			moved = set
			c.Advance(step)
		}
		select {
		case <-done:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Clock) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// timer is a pending call of a Clock.
type timer struct {
	clock *Clock
	due   time.Time
	span  time.Duration // that it was set for
	f     func()
	fired bool // guarded by clock.mu: called or stopped
}

// Stop prevents the call; it reports whether it was still pending.
func (t *timer) Stop() bool {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.fired {
		return false
	}
	t.fired = true
	for i, p := range c.timers {
		if p == t {
			c.timers = append(c.timers[:i:i], c.timers[i+1:]...)
			break
		}
	}
	c.notifyLocked()
	return true
}
