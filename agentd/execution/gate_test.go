package execution

import (
	"context"
	"sync"
	"testing"

	"microvms/agentd/trace"
)

// gate parks what comes to the named transitions until they are opened.
type gate struct {
	mu     sync.Mutex
	closed map[trace.Action]chan struct{} // closed when the gate is opened
	came   map[trace.Action]chan struct{} // closed when the first one is parked
	passed map[trace.Action]int
}

func newGate(actions ...trace.Action) *gate {
	g := &gate{closed: map[trace.Action]chan struct{}{}, came: map[trace.Action]chan struct{}{}, passed: map[trace.Action]int{}}
	for _, a := range actions {
		g.closed[a], g.came[a] = make(chan struct{}), make(chan struct{})
	}
	return g
}

func (g *gate) Pass(ctx context.Context, p trace.Point) error {
	g.mu.Lock()
	closed, came := g.closed[p.Action], g.came[p.Action]
	g.passed[p.Action]++
	if came != nil {
		select {
		case <-came:
		default:
			close(came)
		}
	}
	g.mu.Unlock()
	if closed == nil {
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// arrived waits until a goroutine stands at the gate.
func (g *gate) arrived(t testing.TB, a trace.Action) {
	t.Helper()
	await(t, g.came[a], "a goroutine at the gate of "+string(a))
}

// open lets everybody pass from now on.
func (g *gate) open(a trace.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed[a])
	delete(g.closed, a)
}

// count says how often the gate of an action was passed or stood at.
func (g *gate) count(a trace.Action) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed[a]
}
