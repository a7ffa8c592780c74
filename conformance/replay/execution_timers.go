package replay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"microvms/agentd/trace"
)

// Timers is a [trace.Clock] whose pending timers are fired one by one, in any
// order: a timer that is late is as real as one that is punctual, and the models
// let timers pass in every order. Firing one moves the time to its due moment,
// unless that has passed. All methods are safe for concurrent use.
type Timers struct {
	mu      sync.Mutex
	now     time.Time
	serial  uint64
	pending []*pendingTimer // in the order of their creation
	changed chan struct{}
}

type pendingTimer struct {
	timers *Timers
	serial uint64
	span   time.Duration
	due    time.Time
	call   func()
}

// NewTimers returns a clock that shows start.
func NewTimers(start time.Time) *Timers { return &Timers{now: start, changed: make(chan struct{})} }

// Now returns the time that the clock shows.
func (c *Timers) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc enters a timer. It is called when it is fired, in a goroutine of
// its own. A span that is not positive is due at once.
func (c *Timers) AfterFunc(d time.Duration, f func()) trace.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	t := &pendingTimer{timers: c, serial: c.serial, span: d, due: c.now.Add(d), call: f}
	if d <= 0 {
		go f()
		return t
	}
	c.pending = append(c.pending, t)
	c.notifyLocked()
	return t
}

// Stop takes the timer out; it reports whether it was still pending.
func (t *pendingTimer) Stop() bool {
	c := t.timers
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked(t)
}

func (c *Timers) takeLocked(t *pendingTimer) bool {
	i := slices.Index(c.pending, t)
	if i < 0 {
		return false
	}
	c.pending = slices.Delete(c.pending, i, i+1)
	c.notifyLocked()
	return true
}

func (c *Timers) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// find waits until a pending timer matches, and returns the oldest that does.
func (c *Timers) find(ctx context.Context, match func(t *pendingTimer) bool) (*pendingTimer, error) {
	for {
		c.mu.Lock()
		i := slices.IndexFunc(c.pending, match)
		changed := c.changed
		var t *pendingTimer
		if i >= 0 {
			t = c.pending[i]
		}
		c.mu.Unlock()
		if t != nil {
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fire calls a timer unless it was stopped meanwhile.
func (c *Timers) fire(t *pendingTimer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.takeLocked(t) {
		return false
	}
	if t.due.After(c.now) {
		c.now = t.due
	}
	go t.call()
	return true
}

// Fire waits for a pending timer of that span and fires the oldest.
func (c *Timers) Fire(ctx context.Context, span time.Duration) error {
	t, err := c.find(ctx, func(t *pendingTimer) bool { return t.span == span })
	if err != nil {
		return fmt.Errorf("no timer of %v is set: %w", span, err)
	}
	if !c.fire(t) {
		return fmt.Errorf("the timer of %v was stopped while it was about to fire", span)
	}
	return nil
}

// Next waits for a timer of that span that was entered after the one with the
// serial number, and returns its own serial number.
func (c *Timers) Next(ctx context.Context, span time.Duration, after uint64) (uint64, error) {
	t, err := c.find(ctx, func(t *pendingTimer) bool { return t.span == span && t.serial > after })
	if err != nil {
		return 0, fmt.Errorf("no new timer of %v is set: %w", span, err)
	}
	return t.serial, nil
}

// FireSerial fires the timer with that serial number.
func (c *Timers) FireSerial(ctx context.Context, serial uint64) error {
	t, err := c.find(ctx, func(t *pendingTimer) bool { return t.serial == serial })
	if err != nil || !c.fire(t) {
		return fmt.Errorf("timer %d is not set any more: %w", serial, err)
	}
	return nil
}

// Last returns the serial number of the newest timer so far.
func (c *Timers) Last() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serial
}

// Keep fires every timer of that span as soon as it is entered, until ctx ends:
// it lets what looks again and again go on looking.
func (c *Timers) Keep(ctx context.Context, span time.Duration) {
	for {
		t, err := c.find(ctx, func(t *pendingTimer) bool { return t.span == span })
		if err != nil {
			return
		}
		c.fire(t)
	}
}

// Counts waits until as many timers are pending as want says, by span; a span
// that want does not name is not counted. Its error tells what is set instead.
func (c *Timers) Counts(ctx context.Context, want map[time.Duration]int) error {
	for {
		c.mu.Lock()
		got := map[time.Duration]int{}
		for _, t := range c.pending {
			if _, counted := want[t.span]; counted {
				got[t.span]++
			}
		}
		changed := c.changed
		c.mu.Unlock()
		same := true
		for span, n := range want {
			same = same && got[span] == n
		}
		if same {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the timers set are %v, the model says %v: %w", got, want, ctx.Err())
		}
	}
}
