package execution

import (
	"slices"
	"sync"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// stepClock is a trace.Clock that moves only when a test moves it.
type stepClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*stepTimer
	armed  chan struct{} // closed and replaced whenever a timer is armed
}

type stepTimer struct {
	clock *stepClock
	at    time.Time
	span  time.Duration
	f     func()
}

func newStepClock() *stepClock {
	return &stepClock{now: time.Unix(1_000_000, 0), armed: make(chan struct{})}
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) AfterFunc(d time.Duration, f func()) trace.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &stepTimer{clock: c, at: c.now.Add(d), span: d, f: f}
	c.timers = append(c.timers, t)
	close(c.armed)
	c.armed = make(chan struct{})
	return t
}

func (t *stepTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.timers, t)
	if i < 0 {
		return false
	}
	t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	return true
}

// pending waits until a timer of that span is armed.
func (c *stepClock) pending(t testing.TB, span time.Duration) {
	t.Helper()
	for {
		c.mu.Lock()
		armed := c.armed
		found := slices.ContainsFunc(c.timers, func(t *stepTimer) bool { return t.span == span })
		c.mu.Unlock()
		if found {
			return
		}
		await(t, armed, "a timer of "+span.String())
	}
}

// armedSpans lists the spans of the pending timers.
func (c *stepClock) armedSpans() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var spans []time.Duration
	for _, t := range c.timers {
		spans = append(spans, t.span)
	}
	return spans
}

// advance moves the clock and calls what became due, in order.
func (c *stepClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*stepTimer
	c.timers = slices.DeleteFunc(c.timers, func(t *stepTimer) bool {
		if t.at.After(c.now) {
			return false
		}
		due = append(due, t)
		return true
	})
	c.mu.Unlock()
	slices.SortStableFunc(due, func(a, b *stepTimer) int { return a.at.Compare(b.at) })
	for _, t := range due {
		go t.f()
	}
}

// run advances the clock by step, again and again, until done is closed: for
// tests in which only the order of the timers matters.
func (c *stepClock) run(t testing.TB, step time.Duration, done <-chan struct{}) {
	t.Helper()
	for {
		c.mu.Lock()
		armed, n := c.armed, len(c.timers)
		c.mu.Unlock()
		if n > 0 {
			c.advance(step)
		}
		select {
		case <-done:
			return
		case <-armed:
		case <-time.After(time.Minute):
			t.Fatal("the clock ran and nothing came of it")
		}
	}
}

// recorder keeps the events of a registry.
type recorder struct {
	mu     sync.Mutex
	events []trace.Event
}

func (r *recorder) Record(e trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = uint64(len(r.events) + 1)
	r.events = append(r.events, e)
}

// actions lists the recorded actions in order, all of them or those of want.
func (r *recorder) actions(want ...trace.Action) []trace.Action {
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []trace.Action
	for _, e := range r.events {
		if len(want) == 0 || slices.Contains(want, e.Action) {
			got = append(got, e.Action)
		}
	}
	return got
}

func (r *recorder) count(a trace.Action) int { return len(r.actions(a)) }
