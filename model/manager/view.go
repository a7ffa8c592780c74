package manager

import (
	"fmt"
	"strings"

	"microvms/model"
)

// String renders a message.
func (i Item) String() string {
	kind := [...]string{"none", "run-reply", "snapshot-queued", "snapshot-started", "snapshot", "started", "ended"}[i.Kind()]
	if i.End() != 0 {
		return fmt.Sprintf("%s(%d, %s)", kind, i.Run()+1, i.End())
	}
	return fmt.Sprintf("%s(%d)", kind, i.Run()+1)
}

// fields renders a state for people.
func fields(s State) []model.Field {
	add := func(out []model.Field, name string, value any) []model.Field {
		return append(out, model.Field{Name: name, Value: fmt.Sprint(value)})
	}
	out := add(nil, "boot", s.Boot)
	out = add(out, "free", s.Free)
	out = add(out, "shut", s.Shut)
	out = add(out, "orphans", s.Orphans)
	for i, r := range s.Runs {
		out = add(out, fmt.Sprintf("run%d", i+1), r)
	}
	for i, k := range s.Conns {
		out = add(out, fmt.Sprintf("conn%d", i+1), k)
	}
	return out
}

// String renders a run.
func (r RunState) String() string {
	if r == (RunState{}) {
		return "absent"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s token=%d kind=%s cause=%s held=%d kept=%v", r.Phase, r.Token, argumentValues["kind"][r.Kind], r.Cause, r.Held, r.Kept)
	fmt.Fprintf(&b, " held_ever=%v stop_queued=%v stop_early=%v first=%s", r.HeldEver, r.StopQueued, r.StopEarly, r.First)
	fmt.Fprintf(&b, " spawned=%d published=%d spawn_failed=%v", r.Spawned, r.Published, r.SpawnFailed)
	return b.String()
}

// String renders a connection.
func (k Conn) String() string {
	if !k.Up {
		return fmt.Sprintf("down drops=%d", k.Drops)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "up drops=%d out=%v", k.Drops, k.Outbox())
	for i, v := range k.View {
		if v != (View{}) {
			fmt.Fprintf(&b, " run%d={sub=%d foreign=%v level=%d start_owed=%v ends=%d owed=%d snapshot=%v}",
				i+1, v.Sub, v.Foreign, v.Level, v.StartOwed, v.Ends, v.EndsOwed, v.Snapshot)
		}
	}
	return b.String()
}

// Unread returns the state that an action of an eager configuration leads to
// before the clients have read, for what is compared with real clients. ok is
// false when the configuration has no such step.
func (c Config) Unread(from State, a model.Action, to State) (s State, ok bool) {
	lazy := c
	lazy.Eager = false
	for _, next := range lazy.next(from, nil) {
		read := next.State
		c.readAll(&read)
		if next.Action == a && (read == to || !c.Eager && next.State == to) {
			return next.State, true
		}
	}
	return State{}, false
}
