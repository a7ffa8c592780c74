package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// errStopped ends a start whose run was stopped first.
var errStopped = errors.New("run was stopped before its process was created")

// admission is the core's way to ask for permits. The table gives them back
// itself, in the same step as the transition that ends their use, so the core's
// release does nothing.
type admission struct{ t *Table }

func keyOf(id ID) execution.Key {
	return execution.Key{Namespace: "run", ID: strconv.FormatUint(uint64(id), 10)}
}

// Acquire blocks until the run holds its permits and its process is to be
// created.
func (a admission) Acquire(_ context.Context, k execution.Key, _ *execution.Command) (func(), error) {
	a.t.mu.Lock()
	r := a.t.driven[k]
	a.t.mu.Unlock()
	if err := a.t.grant(r); err != nil {
		return nil, err
	}
	if err := a.t.clearToSpawn(r); err != nil {
		return nil, err
	}
	return func() {}, nil
}

// grant waits for the run's turn and takes its permits.
func (t *Table) grant(r *run) error {
	for {
		select {
		case <-r.turn:
		case <-r.ctx.Done():
			return errStopped
		}
		if !t.next(r) {
			continue // others were faster, or the permits were lowered
		}
		if t.pass(r.ctx, trace.RunGrant, r.id) != nil {
			return errStopped
		}
		if granted, err := t.tryGrant(r); granted || err != nil {
			return err
		}
	}
}

func (t *Table) tryGrant(r *run) (granted bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.phase != PhaseQueued:
		return false, errStopped // MGR-11: it ended in the queue and takes no permit
	case !t.nextLocked(r):
		return false, nil
	}
	t.leaveLocked(r)
	r.held = t.needLocked(r)
	t.free -= r.held
	r.phase = PhaseGranted
	t.noteLocked(t.base, trace.RunGrant, r.id, trace.Attr{Key: "permits", Value: int64(r.held)})
	t.advanceLocked()
	return true, nil
}

// needLocked is what a run takes: its cost, or all permits where there are not
// as many, since it would wait for ever.
func (t *Table) needLocked(r *run) int { return min(r.cost, t.total) }

// next is nextLocked for those who do not hold the lock.
func (t *Table) next(r *run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nextLocked(r)
}

// nextLocked says whether it is the run's turn.
func (t *Table) nextLocked(r *run) bool {
	// MGR-9: the head alone is looked at, so that a big request is not starved
	// by small ones behind it.
	return t.queue.Front() == r.place && t.free >= t.needLocked(r)
}

// leaveLocked takes the run out of the queue.
func (t *Table) leaveLocked(r *run) {
	if r.place != nil {
		r.waiting.Remove(r.place)
		r.place = nil
	}
}

// giveBackLocked returns what the run holds. It may be called more than once.
func (t *Table) giveBackLocked(r *run) {
	t.free += r.held
	r.held = 0 // MGR-10: whatever comes second has nothing to give back
}

// advanceLocked fills the window from the backlog and tells the head that it
// may be its turn. It follows every change of the queue and of the permits.
func (t *Table) advanceLocked() {
	for t.queue.Len() < t.cfg.Window && t.backlog.Len() > 0 {
		r := t.backlog.Remove(t.backlog.Front()).(*run)
		r.waiting = t.queue
		r.place = t.queue.PushBack(r)
		t.driven[keyOf(r.id)] = r
		t.wg.Add(1) // closed is not set: this run lives
		go t.drive(r)
	}
	if head := t.queue.Front(); head != nil && t.nextLocked(head.Value.(*run)) {
		select {
		case head.Value.(*run).turn <- struct{}{}:
		default:
		}
	}
}

// clearToSpawn is the last look before the process: it lets it be created, or
// not. While it is being created no stop is accepted, so that each is either
// before this look or after the process is known.
func (t *Table) clearToSpawn(r *run) error {
	_ = t.pass(r.ctx, trace.RunSpawn, r.id) // a stop ends the wait; the look below sees it
	for {
		t.mu.Lock()
		switch {
		case r.decided:
			t.mu.Unlock()
			return errStopped // MGR-12: after the permit as before it
		case !t.closing:
			r.spawning = make(chan struct{})
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
		<-r.ctx.Done() // the shutdown waits for others, and then stops this run too
	}
}

// settleSpawnLocked lets stops through again.
func (r *run) settleSpawnLocked() {
	if r.spawning != nil {
		close(r.spawning)
		r.spawning = nil
	}
}

// Permits returns how many permits there are and how many of them are free.
// After a lowering, free is 0 until enough came back.
func (t *Table) Permits() (total, free int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total, max(t.free, 0)
}

// SetPermits changes how many permits there are, without waiting: a lowering
// takes effect as permits come back. It returns an error for less than 1.
func (t *Table) SetPermits(_ context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("cannot set %d permits: at least 1 is needed", n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += n - t.total
	t.total = n
	t.advanceLocked()
	return nil
}
