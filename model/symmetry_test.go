package model

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// symmetricTwoPhase is two-phase commit under all permutations of its resource
// managers: the canonical form sorts them by everything that is theirs.
func symmetricTwoPhase(n int) Model[packed] {
	m := twoPhase(n)
	swap := func(i int) func(packed) packed {
		return func(s packed) packed {
			x := (s.a>>(2*i) ^ s.a>>(2*i+2)) & 3
			s.a ^= x<<(2*i) | x<<(2*i+2)
			s.b = swapBits(s.b, i)
			s.c = swapBits(s.c, i)
			return s
		}
	}
	m.Symmetry = &Symmetry[packed]{Canonical: func(s packed) packed { return sortManagers(s, n) }}
	for i := range n - 1 {
		m.Symmetry.Generators = append(m.Symmetry.Generators, swap(i))
	}
	return m
}

func swapBits(v uint64, i int) uint64 {
	x := (v>>i ^ v>>(i+1)) & 1
	return v ^ (x<<i | x<<(i+1))
}

// sortManagers sorts the managers' tuples by counting: there are 16.
func sortManagers(s packed, n int) packed {
	var count [16]uint8
	for i := range n {
		count[s.a>>(2*i)&3|s.b>>i&1<<2|s.c>>i&1<<3]++
	}
	out := packed{d: s.d, c: s.c & (msgCommit | msgAbort)}
	i := 0
	for k, c := range count {
		for range c {
			k := uint64(k)
			out.a |= k & 3 << (2 * i)
			out.b |= k >> 2 & 1 << i
			out.c |= k >> 3 << i
			i++
		}
	}
	return out
}

// TestOrbitCounts pins the exact numbers of orbits, on which three programs agree
// (checker facts, section 1.3).
func TestOrbitCounts(t *testing.T) {
	t.Attr("requirement", "CHECK-6")
	orbits := map[int][2]uint64{3: {80, 318}, 4: {166, 869}, 5: {314, 2048}, 6: {553, 4328}, 7: {920, 8410}, 8: {1461, 15287}, 9: {2232, 26316}, 10: {3300, 43298}}
	for n, want := range orbits {
		for _, o := range []Options{{Workers: 1}, {Workers: 4, parallelMin: 1}} {
			r, err := Check(context.Background(), symmetricTwoPhase(n), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Distinct != want[0] || r.States != want[1] {
				t.Errorf("%d managers: %d orbits and %d states, want %d and %d", n, r.Distinct, r.States, want[0], want[1])
			}
		}
	}
}

// ring has three interchangeable processes, a history of who was last, and room
// for faults.
type ring struct {
	At   [3]uint8 // 0 idle, 1 trying, 2 inside, 3 done
	Last uint8    // 1 + the process that was inside last, 0 for none
}

const (
	ringTry uint16 = iota
	ringEnter
	ringLeave
)

func ringSwap(i, k uint8) func(ring) ring {
	return func(s ring) ring {
		s.At[i], s.At[k] = s.At[k], s.At[i]
		switch s.Last {
		case i + 1:
			s.Last = k + 1
		case k + 1:
			s.Last = i + 1
		}
		return s
	}
}

// ringCanonical is the least of all six permutations.
func ringCanonical(s ring) ring {
	best := s
	a, b := ringSwap(0, 1), ringSwap(1, 2)
	for range 3 {
		for range 2 {
			if s = a(s); slices.Compare(ringBytes(s), ringBytes(best)) < 0 {
				best = s
			}
		}
		s = b(a(s))
	}
	return best
}

func ringBytes(s ring) []uint8 { return []uint8{s.At[0], s.At[1], s.At[2], s.Last} }

func ringModel() Model[ring] {
	return Model[ring]{
		Name: "ring", Actions: []ActionInfo{{Name: "Try", Params: []string{"p"}}, {Name: "Enter", Params: []string{"p"}}, {Name: "Leave", Params: []string{"p"}}},
		Init: func(out []ring) []ring { return append(out, ring{}) },
		Next: ringNext,
		Properties: []Property[ring]{
			Always("at most one is inside", func(s ring) bool { return ringCount(s, 2) <= 1 }),
		},
		Terminal: func(s ring) bool { return ringCount(s, 3) == 3 },
		Symmetry: &Symmetry[ring]{Canonical: ringCanonical, Generators: []func(ring) ring{ringSwap(0, 1), ringSwap(1, 2)}},
	}
}

func ringCount(s ring, at uint8) (n int) {
	for _, v := range s.At {
		if v == at {
			n++
		}
	}
	return n
}

func ringNext(s ring, out []Step[ring]) []Step[ring] {
	for i := range s.At {
		t, action := s, ringTry
		switch {
		case s.At[i] == 0:
			t.At[i] = 1
		case s.At[i] == 1 && ringCount(s, 2) == 0:
			t.At[i], t.Last, action = 2, uint8(i)+1, ringEnter
		case s.At[i] == 2:
			t.At[i], action = 3, ringLeave
		default:
			continue
		}
		out = append(out, Step[ring]{Act(action, uint8(i)), t})
	}
	return out
}

// TestAsymmetriesAreRefused plants one asymmetry at a time in a model whose
// symmetry is right.
func TestAsymmetriesAreRefused(t *testing.T) {
	t.Attr("requirement", "CHECK-5")
	if err := checkErr(ringModel()); err != nil {
		t.Fatalf("the symmetric model is refused: %v", err)
	}
	first := func(s ring) bool { return s.At[0] != 2 }
	always := func(ring) bool { return true }
	live := func(m *Model[ring]) {
		m.Properties = append(m.Properties, Eventually("all are done", func(s ring) bool { return ringCount(s, 3) == 3 }))
	}
	tests := []struct {
		name  string
		plant func(m *Model[ring])
		want  string
	}{
		{"canonical form by one field", func(m *Model[ring]) {
			m.Symmetry.Canonical = func(s ring) ring { slices.Sort(s.At[:]); return s }
		}, "Symmetry.Canonical"},
		{"canonical form that drops a field", func(m *Model[ring]) {
			m.Properties = append(m.Properties, Sometimes("somebody was inside", func(s ring) bool { return s.Last != 0 }))
			m.Symmetry.Canonical = func(s ring) ring { s.Last = 0; return ringCanonical(s) }
		}, "under Symmetry.Canonical"},
		{"canonical form that merges what behaves differently", func(m *Model[ring]) {
			m.Symmetry.Canonical = func(s ring) ring {
				for i, v := range s.At {
					if v == 3 {
						s.At[i] = 0
					}
				}
				return ringCanonical(s)
			}
		}, "under Symmetry.Canonical"},
		{"canonical form that is not idempotent", func(m *Model[ring]) {
			m.Symmetry.Canonical = func(s ring) ring { return ringSwap(0, 1)(ringSwap(1, 2)(s)) }
		}, "not idempotent"},
		{"no canonical form at all", func(m *Model[ring]) { m.Symmetry.Canonical = func(s ring) ring { return s } }, "two representatives"},
		{"generator that forgets a field", func(m *Model[ring]) {
			m.Symmetry.Generators[0] = func(s ring) ring { s.At[0], s.At[1] = s.At[1], s.At[0]; return s }
		}, "generator 0"},
		{"invariant about one process", func(m *Model[ring]) { m.Properties = append(m.Properties, Always("first is out", first)) }, `property "first is out"`},
		{"witness about one process", func(m *Model[ring]) { m.Properties = append(m.Properties, Sometimes("first is in", first)) }, `property "first is in"`},
		{"antecedent about one process", func(m *Model[ring]) { m.Properties = append(m.Properties, Always("p", always).When(first)) }, `property "p"`},
		{"leads-to from one process", func(m *Model[ring]) { m.Properties = append(m.Properties, LeadsTo("p", first, always)) }, `property "p"`},
		{"leads-to to one process", func(m *Model[ring]) { m.Properties = append(m.Properties, LeadsTo("p", always, first)) }, `property "p"`},
		{"eventually of one process", func(m *Model[ring]) { m.Properties = append(m.Properties, Eventually("p", first)) }, `property "p"`},
		{"step property about one process", func(m *Model[ring]) {
			m.Properties = append(m.Properties, AlwaysStep("p", func(_ ring, a Action, _ ring) bool { return a.Arg[0] != 0 }))
		}, "a step property"},
		{"step antecedent about one process", func(m *Model[ring]) {
			p := AlwaysStep("p", func(ring, Action, ring) bool { return true })
			m.Properties = append(m.Properties, p.WhenStep(func(_ ring, a Action, _ ring) bool { return a.Arg[0] == 1 }))
		}, "a step property"},
		{"guard about one process", func(m *Model[ring]) {
			m.Next = func(s ring, out []Step[ring]) []Step[ring] {
				return slices.DeleteFunc(ringNext(s, out), func(st Step[ring]) bool { return st.Action == Act(ringTry, 2) && s.At[0] == 0 })
			}
		}, "Next"},
		{"update about one process", func(m *Model[ring]) {
			m.Next = func(s ring, out []Step[ring]) []Step[ring] {
				out = ringNext(s, out)
				for i := range out {
					if out[i].Action == Act(ringLeave, 1) {
						out[i].State.At[1] = 0
					}
				}
				return out
			}
		}, "Next"},
		{"a name stored and not renamed", func(m *Model[ring]) {
			for i, k := range []uint8{0, 1} {
				m.Symmetry.Generators[i] = func(s ring) ring { s.At[k], s.At[k+1] = s.At[k+1], s.At[k]; return s }
			}
			m.Symmetry.Canonical = func(s ring) ring { slices.Sort(s.At[:]); return s }
			m.Next = func(s ring, out []Step[ring]) []Step[ring] {
				return slices.DeleteFunc(ringNext(s, out), func(st Step[ring]) bool { return st.Action.ID == ringEnter && s.Last == st.Action.Arg[0] })
			}
		}, "Next"},
		{"constraint about one process", func(m *Model[ring]) { m.Constraint = func(s ring) bool { return s.At[2] < 3 } }, "Constraint"},
		{"action constraint about one process", func(m *Model[ring]) {
			m.ActionConstraint = func(_ ring, st Step[ring]) bool { return st.Action != Act(ringLeave, 0) }
		}, "ActionConstraint"},
		{"terminal about one process", func(m *Model[ring]) { m.Terminal = func(s ring) bool { return s.At[0] == 3 } }, "Terminal"},
		{"fairness of one process", func(m *Model[ring]) {
			live(m)
			m.Fairness = []Fairness{{Match: func(a Action) bool { return a.Arg[0] == 0 }}}
		}, "fairness"},
		{"fingerprint of an address", func(m *Model[ring]) {
			var calls uint64
			m.Fingerprint = func(s *ring) uint64 { calls++; return calls }
		}, "Fingerprint gave two values"},
	}
	for _, tt := range tests {
		m := ringModel()
		tt.plant(&m)
		_, err := Check(context.Background(), m, Options{Workers: 1})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want a refusal with %q", tt.name, err, tt.want)
		}
	}
}

// TestLivenessUnderSymmetry: the verdict is that of the unreduced model, and the
// lasso is a behaviour of the model itself, although its states were found as
// representatives.
func TestLivenessUnderSymmetry(t *testing.T) {
	t.Attr("requirement", "CHECK-5")
	// Processes go back to idle, so that the ring goes on for ever.
	endless := func() Model[ring] {
		m := ringModel()
		m.Next = func(s ring, out []Step[ring]) []Step[ring] {
			out = ringNext(s, out)
			for i := range out {
				if out[i].Action.ID == ringLeave {
					out[i].State.At[out[i].Action.Arg[0]] = 0
				}
			}
			return out
		}
		m.Fairness = []Fairness{Weak("somebody moves", ringTry, ringEnter, ringLeave)}
		m.Properties = append(m.Properties,
			Eventually("all try at once", func(s ring) bool { return ringCount(s, 1) == 3 }),
			Eventually("somebody is inside", func(s ring) bool { return ringCount(s, 2) > 0 }),
			LeadsTo("who tries comes in, some time", func(s ring) bool { return ringCount(s, 1) > 0 }, func(s ring) bool { return ringCount(s, 2) > 0 }))
		return m
	}
	reduced, full := endless(), endless()
	full.Symmetry = nil
	a, errA := Check(context.Background(), reduced, Options{})
	b, errB := Check(context.Background(), full, Options{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Distinct >= b.Distinct {
		t.Errorf("%d representatives of %d states: nothing was reduced", a.Distinct, b.Distinct)
	}
	violated := 0
	for i, p := range a.Properties {
		if p.Verdict != b.Properties[i].Verdict {
			t.Errorf("property %q: %s under the symmetry, %s without it", p.Name, p.Verdict, b.Properties[i].Verdict)
		}
		if p.Path != nil && p.Verdict == Violated {
			violated++
			replays(t, &full, p.Path)
		}
	}
	if violated == 0 {
		t.Error("no property is violated, so no lasso was tested")
	}
}

// replays fails the test unless p is a behaviour of m.
func replays[S comparable](t *testing.T, m *Model[S], p *Path) {
	t.Helper()
	rendered := func(s S, action string) PathStep { return PathStep{Action: action, State: fieldsOf(m, s)} }
	same := func(x, y PathStep) bool { return x.Action == y.Action && slices.Equal(x.State, y.State) }
	var at S
	found := false
	for _, s := range m.Init(nil) {
		if same(rendered(s, ""), p.Steps[0]) {
			at, found = s, true
		}
	}
	for i := 1; found && i < len(p.Steps); i++ {
		found = false
		for _, st := range m.Next(at, nil) {
			if same(rendered(st.State, m.ActionString(st.Action)), p.Steps[i]) {
				at, found = st.State, true
				break
			}
		}
	}
	last := len(p.Steps) - 1
	if !found || p.Loop >= 0 && p.Loop <= last && !slices.Equal(p.Steps[p.Loop].State, p.Steps[last].State) {
		t.Errorf("the path does not replay: %+v", p)
	}
}
