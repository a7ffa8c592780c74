package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
)

// tokens is a ring of counters: one huge component, many equally short paths,
// and levels that several workers share.
type tokens struct{ At [6]uint8 }

func tokensModel(values uint8) Model[tokens] {
	m := Model[tokens]{
		Name: "tokens", Config: "test", Actions: []ActionInfo{{Name: "Turn", Params: []string{"i"}}, {Name: "Jump", Params: []string{"i"}}},
		Init: func(out []tokens) []tokens { return append(out, tokens{}, tokens{At: [6]uint8{1}}, tokens{}) },
		Next: func(s tokens, out []Step[tokens]) []Step[tokens] {
			for i := range s.At {
				t := s
				t.At[i] = (t.At[i] + 1) % values
				out = append(out, Step[tokens]{Act(0, uint8(i)), t})
				if k := (i + 1) % len(s.At); s.At[i] == values-1 && s.At[k] != 0 {
					t.At[i], t.At[k] = t.At[k], t.At[i]
					out = append(out, Step[tokens]{Act(1, uint8(i)), t})
				}
			}
			return out
		},
		Properties: []Property[tokens]{
			Always("not all are equal, but at zero", func(s tokens) bool {
				return s.At[0] == 0 || s.At != [6]uint8{s.At[0], s.At[0], s.At[0], s.At[0], s.At[0], s.At[0]}
			}),
			AlwaysStep("no jump over the end", func(s tokens, a Action, _ tokens) bool { return a != Act(1, 5) || s.At[2] != 2 }),
			Sometimes("the fourth is last", func(s tokens) bool { return s.At[3] == values-1 && s.At[4] == 1 }),
			Eventually("the first two meet at two", func(s tokens) bool { return s.At[0] == 2 && s.At[1] == 2 }),
			LeadsTo("one leads to two", func(s tokens) bool { return s.At[5] == 1 && s.At[4] == 1 }, func(s tokens) bool { return s.At[0] == 2 && s.At[5] == 0 }),
		},
	}
	for i := range uint8(6) {
		m.Fairness = append(m.Fairness, Fairness{Strong: i%2 == 0, Match: func(a Action) bool { return a.Arg[0] == i && a.ID == 0 }})
	}
	return m
}

// printed is everything that a run prints, without its timing.
func printed(t *testing.T, r *Report, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r.Timing = Timing{}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Properties {
		if p.Path == nil {
			continue
		}
		_ = p.Path.WriteText(&b) // a bytes.Buffer never fails
		_ = p.Path.WriteITF(&b, p.Name)
		_ = p.Path.WriteJSON(&b)
	}
	return b.String()
}

// TestSameForAnyNumberOfWorkers compares every byte that runs with 1, 2, 4 and 8
// workers print, many times.
func TestSameForAnyNumberOfWorkers(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	m := tokensModel(4)
	next := m.Next
	// The states give way to other workers, so that later chunks are often done before earlier ones.
	m.Next = func(s tokens, out []Step[tokens]) []Step[tokens] {
		for range hashState(&s) % 3 {
			runtime.Gosched()
		}
		return next(s, out)
	}
	bounded := []Options{{}, {MaxDepth: 7}, {MaxStates: 900}, {StopAtFirst: true}}
	for _, base := range bounded {
		want := ""
		for i := range determinismRounds {
			o := base
			o.Workers, o.parallelMin = []int{1, 2, 4, 8}[i%4], 32
			r, err := Check(context.Background(), m, o)
			got := printed(t, r, err)
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("round %d, %+v prints\n%s\nand one worker prints\n%s", i, o, got, want)
			}
		}
	}
}

// TestExactAgrees compares the exact mode with the fingerprints.
func TestExactAgrees(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	t.Attr("requirement", "CHECK-20")
	m := tokensModel(3)
	a, err := Check(context.Background(), m, Options{Workers: 2, parallelMin: 32})
	want := printed(t, a, err)
	b, err := Check(context.Background(), m, Options{Exact: true})
	if err == nil && (!b.Exact || b.Collisions != 0) {
		t.Errorf("the report of the exact mode says exact=%t, %g collisions", b.Exact, b.Collisions)
	}
	b.Exact, b.Collisions = false, a.Collisions
	if got := printed(t, b, err); got != want {
		t.Errorf("exact mode prints\n%s\nwant\n%s", got, want)
	}
}

// TestExportsAreTheSame: the graph's exports and the cover do not depend on
// workers.
func TestExportsAreTheSame(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	t.Attr("requirement", "CHECK-22")
	c := NewCase("test", func() Model[tokens] { return tokensModel(3) }, Expect{})
	want := ""
	for _, workers := range []int{1, 2, 4, 8} {
		var b bytes.Buffer
		g, err := c.Graph(context.Background(), Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		_ = g.WriteDOT(&b) // a bytes.Buffer never fails
		_ = g.WriteAUT(&b)
		cover, err := c.Cover(context.Background(), Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v", cover.Steps)
		for _, p := range cover.Paths {
			_ = p.WriteText(&b)
		}
		if want == "" {
			want = b.String()
		}
		if b.String() != want {
			t.Errorf("%d workers export something else than one", workers)
		}
	}
}

// TestLassosReplay follows the counterexamples of liveness on the model.
func TestLassosReplay(t *testing.T) {
	t.Attr("requirement", "CHECK-4")
	m := tokensModel(4)
	r, err := Check(context.Background(), m, Options{Workers: 2, parallelMin: 32})
	if err != nil {
		t.Fatal(err)
	}
	lassos := 0
	for _, p := range r.Properties {
		if p.Path != nil {
			replays(t, &m, p.Path)
			if p.Path.Loop >= 0 {
				lassos++
			}
		}
	}
	if lassos != 2 {
		t.Errorf("%d lassos, want 2: the test looked at nothing", lassos)
	}
}

// TestTableGrowsUnderWorkers explores enough states for the table to grow many
// times while several workers insert, with a graph whose pending edges move along.
func TestTableGrowsUnderWorkers(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	for _, n := range []int{5, 6} {
		m := twoPhase(n)
		m.Fairness = []Fairness{Weak("the manager decides", tmCommit, tmAbort)}
		m.Properties = append(m.Properties, Eventually("decided", func(s packed) bool { return s.d != 0 }))
		want := ""
		for _, workers := range []int{1, 2, 8} {
			r, err := Check(context.Background(), m, Options{Workers: workers, parallelMin: 1})
			got := printed(t, r, err)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%d managers, %d workers: %s\nwant %s", n, workers, got, want)
			}
		}
	}
}

// TestLowestParentWins inserts one state from several parents, in the worst
// order: each lower one claims it, a higher one or an older level does not.
func TestLowestParentWins(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	tab := newTable(firstTableBits)
	const fp = 1 << 60
	for i, step := range []struct {
		ref            uint64
		claimed, added bool
	}{{10, true, true}, {12, false, false}, {10, false, false}, {5, true, false}, {7, false, false}, {refInitial, true, false}} {
		_, claimed, added := tab.insert(fp, step.ref)
		if claimed != step.claimed || added != step.added {
			t.Errorf("insertion %d by %d: claimed %t, added %t, want %t and %t", i, step.ref, claimed, added, step.claimed, step.added)
		}
	}
	k, found := tab.find(fp)
	if !found || tab.slots[k].ref != refInitial {
		t.Errorf("the slot holds %+v", tab.slots[k])
	}
	tab.slots[k].ref = 9 | 100<<32 // numbered: its level is settled
	if _, claimed, _ := tab.insert(fp, 3); claimed {
		t.Error("a state of an earlier level got another parent")
	}
}
