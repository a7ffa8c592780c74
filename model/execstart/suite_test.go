package execstart

import (
	"slices"
	"testing"

	"microvms/model"
	"microvms/model/modeltest"
)

// TestPublishedCounts checks the published model against every number that the
// publication gives: the counts, and the exact set of violated properties with
// the length of each counterexample, for each of its deviations.
func TestPublishedCounts(t *testing.T) {
	for _, p := range m3Published {
		t.Run(p.name, func(t *testing.T) {
			r, err := model.Check(t.Context(), NewM3(p.name, p.deviation), model.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, difference := range p.expect.Compare(r) {
				t.Error(difference)
			}
			terminal, requests := 0, map[Request]bool{}
			if p.deviation != M3Specified {
				return
			}
			g, err := model.Explore(t.Context(), NewM3(p.name, p.deviation), model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range g.States {
				if s.Step == m3Answered && s.Health > 0 {
					terminal++
				}
				if s.Step != m3Idle {
					requests[s.Request] = true
				}
			}
			if terminal != 3072 || len(requests) != 768 {
				t.Errorf("%d terminal states and %d requests, want 3072 and 768", terminal, len(requests))
			}
		})
	}
}

// TestAtomicFormIsMadeOfTheModel walks every step of the atomic form through
// the interleaved one: the same decisions, in the same order, to the same state.
func TestAtomicFormIsMadeOfTheModel(t *testing.T) {
	c := Sequential()
	m := New(c)
	g, err := model.Explore(t.Context(), NewAtomic(c), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for _, e := range g.Edges {
		if e.Action.ID != StartRequestAction {
			continue
		}
		walked++
		id, r := RequestOf(e.Action)
		s := g.States[e.From]
		var code Code
		for {
			steps := m.Next(s, nil)
			i := slices.IndexFunc(steps, func(st model.Step[State]) bool {
				a := st.Action
				if s.idle() {
					return a.ID == ExecReceive && a.Arg[1] == id && st.State.Slots[0].Request == r
				}
				return a.ID >= ExecStart
			})
			s = steps[i].State
			if steps[i].Action.ID == ControlAnswer {
				code = Code(steps[i].Action.Arg[1])
				break
			}
		}
		if s != g.States[e.To] || code != Code(e.Action.Arg[5]) {
			t.Fatalf("%s of id %d: the forms differ", r, id)
		}
	}
	if walked < 100 {
		t.Errorf("only %d steps were compared", walked)
	}
}

// TestBoundsAreChecked checks that a configuration out of bounds is refused.
func TestBoundsAreChecked(t *testing.T) {
	edited := func(edit func(*Config)) func() {
		return func() { c := Live(); edit(&c); New(c) }
	}
	modeltest.Panics(t, edited(func(c *Config) { c.Slots = MaxSlots + 1 }), edited(func(c *Config) { c.IDs = MaxIDs + 1 }),
		edited(func(c *Config) { c.Images = nil }), edited(func(c *Config) { c.Requests = -1 }), edited(func(c *Config) { c.Edits = 9 }))
}
