package replay

import (
	"context"
	"errors"
	"testing"

	"microvms/agentd/trace"
)

func holdHooks(p trace.Point) bool { return p.Action == trace.HookDecide }

// TestGateParksAndReleases holds two goroutines at one point and lets the later
// one go first, while points that are not held pass.
func TestGateParksAndReleases(t *testing.T) {
	g := NewGate(holdHooks)
	if err := g.Pass(t.Context(), trace.Point{Action: trace.HookAnswer}); err != nil {
		t.Fatal(err)
	}
	passed := make(chan uint64, 2)
	for _, n := range []uint64{1, 2} {
		go func() {
			if err := g.Pass(t.Context(), trace.Point{Action: trace.HookDecide, Request: n}); err == nil {
				passed <- n
			}
		}()
	}
	for _, n := range []uint64{2, 1} {
		p, err := g.Await(t.Context(), func(p trace.Point) bool { return p.Request == n })
		if err != nil {
			t.Fatal(err)
		}
		if len(passed) != 0 {
			t.Error("a held goroutine passed")
		}
		p.Release()
		p.Release() // a second release does nothing
		if got := <-passed; got != n {
			t.Errorf("goroutine %d passed, want %d", got, n)
		}
	}
	if left := g.Parked(); len(left) != 0 {
		t.Errorf("still parked: %v", left)
	}
}

// TestGateEndsWithItsContext checks that a parked goroutine whose context ends
// gets its error, and that a wait for a point that nobody reaches ends too.
func TestGateEndsWithItsContext(t *testing.T) {
	g := NewGate(holdHooks)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- g.Pass(ctx, trace.Point{Action: trace.HookDecide}) }()
	if _, err := g.Await(t.Context(), holdHooks); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Pass returned %v", err)
	}
	if _, err := g.Await(ctx, holdHooks); !errors.Is(err, context.Canceled) {
		t.Errorf("Await returned %v", err)
	}
}

// TestGateOpens checks that an opened gate lets the parked go and parks nobody.
func TestGateOpens(t *testing.T) {
	g := NewGate(holdHooks)
	result := make(chan error)
	go func() { result <- g.Pass(t.Context(), trace.Point{Action: trace.HookDecide}) }()
	if _, err := g.Await(t.Context(), holdHooks); err != nil {
		t.Fatal(err)
	}
	g.Open()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := g.Pass(t.Context(), trace.Point{Action: trace.HookDecide}); err != nil {
		t.Error(err)
	}
}

// TestRecorderNumbersAndAwaits checks numbering from 1 without holes, and a wait
// that begins before its event.
func TestRecorderNumbersAndAwaits(t *testing.T) {
	r := NewRecorder()
	r.Record(trace.Event{Point: trace.Point{Action: trace.HookReceive}})
	got := make(chan trace.Event)
	go func() {
		e, err := r.Await(t.Context(), 1, func(e trace.Event) bool { return e.Action == trace.HookReceive })
		if err == nil {
			got <- e
		}
	}()
	r.Record(trace.Event{Point: trace.Point{Action: trace.HookAnswer}})
	r.Record(trace.Event{Point: trace.Point{Action: trace.HookReceive, Request: 2}})
	if e := <-got; e.Seq != 3 || e.Request != 2 {
		t.Errorf("waited for event 3, got %+v", e)
	}
	if events := r.Events(); len(events) != 3 || events[0].Seq != 1 {
		t.Errorf("events %+v", events)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Await(ctx, 3, func(trace.Event) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("Await returned %v", err)
	}
}
