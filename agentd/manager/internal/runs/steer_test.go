package runs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// spot is where a goroutine stands.
type spot struct {
	action trace.Action
	run    uint64
}

// gate parks what comes to a shut action until it is released.
type gate struct {
	mu      sync.Mutex
	shut    map[trace.Action]bool
	parked  map[spot]chan struct{} // closed to let it go
	changed chan struct{}
}

func newGate(shut ...trace.Action) *gate {
	g := &gate{shut: map[trace.Action]bool{}, parked: map[spot]chan struct{}{}, changed: make(chan struct{})}
	for _, a := range shut {
		g.shut[a] = true
	}
	return g
}

func (g *gate) Pass(ctx context.Context, p trace.Point) error {
	s := spot{p.Action, p.Run}
	g.mu.Lock()
	if !g.shut[s.action] {
		g.mu.Unlock()
		return nil
	}
	let := make(chan struct{})
	g.parked[s] = let
	g.changedLocked()
	g.mu.Unlock()
	select {
	case <-let:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.parked[s] == let {
			delete(g.parked, s)
			g.changedLocked()
		}
		return context.Cause(ctx)
	}
}

// signal is closed when somebody comes or leaves.
func (g *gate) signal() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// standing lists who is parked, sorted.
func (g *gate) standing() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for s := range g.parked {
		all = append(all, fmt.Sprint(s.action, " ", s.run))
	}
	slices.Sort(all)
	return all
}

func (g *gate) changedLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// shutOn parks who comes to the action from now on.
func (g *gate) shutOn(a trace.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut[a] = true
}

// arrived waits until the run stands at the action.
func (g *gate) arrived(t testing.TB, a trace.Action, id ID) {
	t.Helper()
	g.until(t, string(a), func(parked map[spot]chan struct{}) bool { return parked[spot{a, uint64(id)}] != nil })
}

func (g *gate) until(t testing.TB, what string, ok func(map[spot]chan struct{}) bool) {
	t.Helper()
	for {
		g.mu.Lock()
		done, changed := ok(g.parked), g.changed
		g.mu.Unlock()
		if done {
			return
		}
		await(t, changed, "a goroutine at the gate of "+what)
	}
}

// release lets the run go on from the action, at which it must stand.
func (g *gate) release(t testing.TB, a trace.Action, id ID) {
	t.Helper()
	g.arrived(t, a, id)
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.parked[spot{a, uint64(id)}])
	delete(g.parked, spot{a, uint64(id)})
}

// open lets everybody pass the action from now on.
func (g *gate) open(a trace.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.shut, a)
	for s, let := range g.parked {
		if s.action == a {
			close(let)
			delete(g.parked, s)
		}
	}
}

func (g *gate) openAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.shut)
	for s, let := range g.parked {
		close(let)
		delete(g.parked, s)
	}
}

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

// pending waits until n timers of that span are armed.
func (c *stepClock) pending(t testing.TB, span time.Duration, n int) {
	t.Helper()
	for {
		armed := c.armedNow()
		if c.count(span) >= n {
			return
		}
		await(t, armed, "a timer of "+span.String())
	}
}

func (c *stepClock) armedNow() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed
}

// count says how many timers of that span are pending.
func (c *stepClock) count(span time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, t := range c.timers {
		if t.span == span {
			n++
		}
	}
	return n
}

// advance moves the clock, calls what became due and waits for the calls.
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
		t.f()
	}
}

// recorder keeps the transitions of a table.
type recorder struct {
	mu      sync.Mutex
	events  []trace.Event
	changed chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

// signal is closed at the next transition.
func (r *recorder) signal() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *recorder) Record(e trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = uint64(len(r.events) + 1)
	r.events = append(r.events, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

// of lists the transitions of a run.
func (r *recorder) of(id ID) []trace.Action {
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []trace.Action
	for _, e := range r.events {
		if e.Run == uint64(id) {
			got = append(got, e.Action)
		}
	}
	return got
}
