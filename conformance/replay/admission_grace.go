package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"microvms/model/admission"
)

// admissionGrace is the grace that a daemon under the admission model must be
// given. It is long, so that however many steps go by within one, each takes a
// part of what is left of it.
const admissionGrace = 50000 * time.Hour

// graces moves a daemon's clock so that graces pass when the model says so, and
// at no other time: each step takes an eighth of what is left until the first of
// those that run.
type graces struct {
	clock *Clock
	began [admission.MaxConns]time.Time // when the wait began that a connection keeps the daemon in
}

// left returns how long it is until the first grace passes that has not.
func (g *graces) left(s admission.State) (left time.Duration, runs bool) {
	for i, c := range s.Conns {
		if !c.Phase.Keeps() || c.Ripe {
			continue
		}
		if l := g.began[i].Add(admissionGrace).Sub(g.clock.Now()); !runs || l < left {
			left, runs = l, true
		}
	}
	return left, runs
}

// pass lets time pass before a step other than a grace's.
func (g *graces) pass(s admission.State) {
	if left, runs := g.left(s); runs {
		g.clock.Advance(left / 8)
		return
	}
	g.clock.Advance(time.Second)
}

// ripen lets exactly the first grace pass. Where a newcomer waits for it, its
// timer is the daemon's; one that was set for a wait that has begun anew since
// comes first.
func (g *graces) ripen(ctx context.Context, s admission.State) error {
	left, runs := g.left(s)
	if !runs {
		return fmt.Errorf("no grace runs")
	}
	for left > 0 {
		step := left
		if waitsForGrace(s) {
			rings, err := g.awaitTimer(ctx, left)
			if err != nil {
				return err
			}
			step = rings
		}
		g.clock.Advance(step)
		left -= step
	}
	return nil
}

// settle notes which waits began in a step, and waits until a newcomer that
// waits for a grace has set its timer.
func (g *graces) settle(ctx context.Context, t Transition[admission.State]) error {
	for i := range t.To.Conns {
		if begins(t, i) {
			g.began[i] = g.clock.Now()
		}
	}
	if left, runs := g.left(t.To); runs && waitsForGrace(t.To) {
		_, err := g.awaitTimer(ctx, left)
		return err
	}
	return nil
}

// begins reports whether a connection's wait began in the step.
func begins(t Transition[admission.State], i int) bool {
	from, to := t.From.Conns[i].Phase, t.To.Conns[i].Phase
	own := int(t.Action.Arg[0]) == i
	switch {
	case !to.Keeps() || to == admission.Arrived:
		return false
	case from != to:
		return true
	case t.Action.ID == admission.BodyPiece:
		return own && to == admission.Uploading
	}
	return own && t.Action.ID == admission.Request
}

// waitsForGrace reports whether a newcomer waits for the first grace to pass: it
// waits for nothing else while it has asked a connection that goes on.
func waitsForGrace(s admission.State) bool {
	return s.Asked == 0 && slices.ContainsFunc(s.Conns[:], func(c admission.Conn) bool { return c.Phase == admission.Backlog })
}

// awaitTimer waits until a timer is set that rings by then, and returns when the
// first one does. It may be gone a moment later: a newcomer sets it anew whenever
// something changes.
func (g *graces) awaitTimer(ctx context.Context, by time.Duration) (rings time.Duration, err error) {
	err = g.clock.Await(ctx, func(pending []time.Duration) bool {
		if len(pending) == 0 || pending[0] > by {
			return false
		}
		rings = pending[0]
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("no newcomer waits for a grace that passes in %v: %w", by, err)
	}
	return rings, nil
}
