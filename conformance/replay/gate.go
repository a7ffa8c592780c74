package replay

import (
	"context"
	"sync"

	"microvms/agentd/trace"
)

// Gate is a [trace.Gate] that parks goroutines before the transitions that its
// owner wants to control, until the owner lets each go. All methods are safe
// for concurrent use.
type Gate struct {
	hold func(p trace.Point) bool

	mu      sync.Mutex
	open    bool
	parked  []*Parked // in the order of arrival
	changed chan struct{}
}

// NewGate returns a gate that parks the points for which hold is true. hold is
// called by the goroutine that arrives, with no lock of the gate held.
func NewGate(hold func(p trace.Point) bool) *Gate {
	return &Gate{hold: hold, changed: make(chan struct{})}
}

// Parked is a goroutine that stands before a transition.
type Parked struct {
	Point trace.Point

	gate    *Gate
	release chan struct{}
}

// Pass parks the caller if its point is held. It returns nil once the owner
// released it or opened the gate, and the context's error when that ends first.
func (g *Gate) Pass(ctx context.Context, p trace.Point) error {
	if !g.hold(p) {
		return nil
	}
	parked := &Parked{Point: p, gate: g, release: make(chan struct{})}
	g.mu.Lock()
	if g.open {
		g.mu.Unlock()
		return nil
	}
	g.parked = append(g.parked, parked)
	g.notifyLocked()
	g.mu.Unlock()
	select {
	case <-parked.release:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.removeLocked(parked)
		return ctx.Err()
	}
}

// Await waits until a goroutine is parked at a point that satisfies match, and
// returns it. Of several, it is the one that has been parked longest.
func (g *Gate) Await(ctx context.Context, match func(p trace.Point) bool) (*Parked, error) {
	for {
		g.mu.Lock()
		for _, p := range g.parked {
			if match(p.Point) {
				g.mu.Unlock()
				return p, nil
			}
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Release lets the goroutine go. Later calls do nothing.
func (p *Parked) Release() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.gate.removeLocked(p) {
		close(p.release)
	}
}

// Parked returns the points at which goroutines stand, in the order of their
// arrival, in a fresh slice.
func (g *Gate) Parked() []trace.Point {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]trace.Point, len(g.parked))
	for i, p := range g.parked {
		out[i] = p.Point
	}
	return out
}

// Open lets every parked goroutine go and parks none from then on.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	for _, p := range g.parked {
		close(p.release)
	}
	g.parked = nil
	g.notifyLocked()
}

func (g *Gate) removeLocked(p *Parked) bool {
	for i, q := range g.parked {
		if q == p {
			g.parked = append(g.parked[:i:i], g.parked[i+1:]...)
			g.notifyLocked()
			return true
		}
	}
	return false
}

func (g *Gate) notifyLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}
