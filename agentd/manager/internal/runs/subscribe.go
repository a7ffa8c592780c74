package runs

import (
	"context"

	"microvms/agentd/trace"
)

// Attach calls reply with the run's latest event and subscribes sub to the
// later ones, in one step: reply is called with the table's lock held and must
// queue the answer and return. A terminal snapshot is the last that sub hears.
// It returns ErrUnknown or the error of ctx, and then calls nothing.
func (t *Table) Attach(ctx context.Context, id ID, sub Subscriber, reply func(Event)) error {
	if err := t.pass(ctx, trace.RunAttach, id); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[id]
	if !ok {
		return ErrUnknown // MGR-19
	}
	t.noteLocked(ctx, trace.RunAttach, id, trace.Attr{Key: "snapshot", Value: r.latest.Kind.String()})
	reply(r.latest)
	// MGR-17: under one hold of the lock, so that no event falls between the
	// snapshot and the subscription, and none is in both.
	t.seatLocked(r, sub)
	return nil
}

// repeatLocked gives sub its seat after the reply to a run request. A
// connection that repeats the token of a run that it does not hear of yet gets
// the latest event.
func (t *Table) repeatLocked(r *run, sub Subscriber, known bool) {
	if sub == nil {
		return
	}
	// MGR-4: who is subscribed hears of the end anyway, and who had the terminal
	// event must not get a second one.
	if _, seated := r.seats[sub]; seated {
		return
	}
	t.seatLocked(r, sub)
	if known && r.latest.Kind != EventQueued {
		sub.Deliver(r.latest)
	}
}

// seatLocked enters sub at a run.
func (t *Table) seatLocked(r *run, sub Subscriber) {
	if sub == nil {
		return
	}
	r.seats[sub] = struct{}{}
	if t.conns[sub] == nil {
		t.conns[sub] = map[*run]struct{}{}
	}
	t.conns[sub][r] = struct{}{}
}

// publishLocked makes ev the run's latest event and hands it to whoever is
// subscribed.
func (t *Table) publishLocked(r *run, ev Event) {
	ev.ID, ev.Token = r.id, r.token
	r.latest = ev
	// MGR-6: a terminal event is published once, by endLocked, and the seats
	// stay, so that no repeat brings a second one.
	for sub := range r.seats {
		sub.Deliver(ev)
	}
	r.changeLocked()
}

// changeLocked wakes those that wait for the run.
func (r *run) changeLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Disconnect drops what sub is subscribed to, and what is known of what it
// heard. No run changes. The caller must not use sub again.
func (t *Table) Disconnect(_ context.Context, sub Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// MGR-16: the seats alone.
	for r := range t.conns[sub] {
		delete(r.seats, sub)
	}
	delete(t.conns, sub)
}

// Wait blocks until the run's latest event satisfies until, and returns it. It
// returns ErrUnknown when the run is unknown or is released before, and the
// error of ctx.
func (t *Table) Wait(ctx context.Context, id ID, until func(Event) bool) (Event, error) {
	t.mu.Lock()
	r, ok := t.runs[id]
	if !ok {
		t.mu.Unlock()
		return Event{}, ErrUnknown
	}
	for {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		ev, changed, released := r.latest, r.changed, r.released
		t.mu.Unlock()
		switch {
		case until(ev): // also of a run that was released meanwhile: it is how it ended
			return ev, nil
		case released:
			return Event{}, ErrUnknown
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
		t.mu.Lock()
	}
}
