package execution

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"microvms/agentd/trace"
	"microvms/agentd/trace/tracetest"
)

// stepClock is a clock that moves only when a test moves it.
type stepClock struct{ *tracetest.Clock }

func newStepClock() *stepClock { return &stepClock{tracetest.NewClock(time.Unix(1_000_000, 0))} }

// patience bounds a wait of a test that hangs.
const patience = time.Minute

// pending waits until a timer of that span is armed.
func (c *stepClock) pending(t testing.TB, span time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.AwaitSpan(ctx, span); err != nil {
		t.Fatalf("a timer of %v did not come: %v are armed", span, c.Spans())
	}
}

// run moves the clock by step, again and again, until done is closed.
func (c *stepClock) run(t testing.TB, step time.Duration, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Run(ctx, step, done); err != nil {
		t.Fatal("the clock ran and nothing came of it")
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
