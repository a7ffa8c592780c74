package tunnel

import (
	"maps"
	"testing"
)

// walk returns every state of the atomic form in which the caller says at most
// limit bytes, and how often each step was taken.
func walk(a Atomic, limit uint8) (states map[State]bool, taken map[string]int) {
	states, taken = map[State]bool{}, map[string]int{}
	todo := []State{a.Established()}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if states[s] {
			continue
		}
		states[s] = true
		for name, act := range map[string]func(State) (State, bool){"send": a.Send, "close": a.Close, "cut": a.Cut, "guest-end": a.GuestEnd} {
			if next, ok := act(s); ok && next.Client.Sent <= limit {
				taken[name]++
				todo = append(todo, next)
			}
		}
		next := a.Silent(s, nil)
		taken["silent"] += len(next)
		todo = append(todo, next...)
	}
	return states, taken
}

// TestAtomicFormIsMadeOfTheModel holds every state of the atomic form to the
// rule that the model's properties state of it, and to the model's own steps:
// each state is one that the model reaches with the same bytes and a path that
// may hang up.
func TestAtomicFormIsMadeOfTheModel(t *testing.T) {
	for _, verified := range []bool{true, false} {
		a := Atomic{Verified: verified}
		states, taken := walk(a, 2)
		for _, name := range []string{"send", "close", "cut", "guest-end", "silent"} {
			if taken[name] == 0 {
				t.Errorf("verified %v: %s was never taken", verified, name)
			}
		}
		reached := map[State]bool{}
		for caller := range uint8(3) {
			for guest := range uint8(3) {
				maps.Copy(reached, honest(a.config(caller, guest)))
			}
		}
		for s := range states {
			if !reached[s] {
				t.Fatalf("verified %v: the model reaches no %+v", verified, s)
			}
			d := s.Far
			if d.Guest == Reset && (!verified || !s.HungUp) {
				t.Fatalf("verified %v: a guest is reset without a cut: %+v", verified, s)
			}
			if !s.Client.Received.inOrder() || !d.GuestReceived.inOrder() || s.Client.Received.Len > d.Relayed || d.Relayed > d.GuestReceived.Len {
				t.Fatalf("verified %v: bytes out of order or out of nowhere: %+v", verified, s)
			}
			if s.Client.End == Closed && !s.Client.EndedFirst && s.Client.Received.Len != d.Relayed {
				t.Fatalf("verified %v: a proven end lacks bytes: %+v", verified, s)
			}
		}
		t.Logf("verified %v: %d states, steps %v", verified, len(states), taken)
	}
}

// honest returns what a configuration reaches on a path that only hangs up,
// without what the path remembers.
func honest(c *Config) map[State]bool {
	seen := map[State]bool{}
	todo := []State{{Budget: c.Budget}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		for _, n := range c.next(s, nil) {
			switch n.Action.ID {
			case Drop, Swap, Replay, ForgeClose, Strip, HelloDeadline, ReadyDeadline:
				continue
			}
			n.State.Seen = [2]Seen{}
			todo = append(todo, n.State)
		}
	}
	return seen
}
