package replay

import (
	"context"
	"slices"
	"sync"

	"microvms/agentd/trace"
)

// Recorder is a [trace.Recorder] that keeps the events and lets its owner wait
// for one. All methods are safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	events  []trace.Event
	changed chan struct{}
}

// NewRecorder returns a recorder without events.
func NewRecorder() *Recorder { return &Recorder{changed: make(chan struct{})} }

// Record keeps the event and numbers it.
func (r *Recorder) Record(e trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = uint64(len(r.events) + 1)
	r.events = append(r.events, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

// Events returns the events so far, in the order of effects, in a fresh slice.
func (r *Recorder) Events() []trace.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Await waits for an event with a number above after that satisfies match, and
// returns the first.
func (r *Recorder) Await(ctx context.Context, after uint64, match func(e trace.Event) bool) (trace.Event, error) {
	for {
		r.mu.Lock()
		for _, e := range r.events[min(after, uint64(len(r.events))):] {
			if match(e) {
				r.mu.Unlock()
				return e, nil
			}
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return trace.Event{}, ctx.Err()
		}
	}
}
