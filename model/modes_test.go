package model

import (
	"context"
	"math"
	"testing"
)

// TestDepthFirstAgrees: the same counts and verdicts of safety as breadth-first,
// and counterexamples that are none the shorter.
func TestDepthFirstAgrees(t *testing.T) {
	t.Attr("requirement", "CHECK-17")
	t.Attr("requirement", "CHECK-29")
	for i := range 3000 {
		r := random(i)
		y := randomTiny(&r)
		m := y.model()
		m.Properties = m.Properties[:3]
		a, errA := Check(context.Background(), m, Options{Workers: 1})
		b, errB := Check(context.Background(), m, Options{Mode: DFS, Exact: i%2 == 0})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.States != b.States || a.Distinct != b.Distinct || a.Transitions != b.Transitions || a.Terminal != b.Terminal || a.Verdict != b.Verdict || b.Depth < a.Depth {
			t.Fatalf("system %d: depth-first %+v, breadth-first %+v", i, b, a)
		}
		for k, p := range b.Properties {
			q := a.Properties[k]
			if p.Verdict != q.Verdict || (p.Path == nil) != (q.Path == nil) || p.Path != nil && p.Path.Len() < q.Path.Len() {
				t.Fatalf("system %d, property %q: depth-first %+v, breadth-first %+v", i, p.Name, p, q)
			}
		}
		if msg := y.checkPaths(b); msg != "" {
			t.Fatalf("system %d: %s", i, msg)
		}
	}
}

// TestDepthFirstUnderSymmetry visits orbits and prints paths of the model.
func TestDepthFirstUnderSymmetry(t *testing.T) {
	t.Attr("requirement", "CHECK-29")
	m := symmetricTwoPhase(4)
	m.Properties = append(m.Properties, Sometimes("three are prepared", func(s packed) bool {
		n := 0
		for i := range 4 {
			n += int(s.b >> i & 1)
		}
		return n == 3
	}))
	r, err := Check(context.Background(), m, Options{Mode: DFS})
	if err != nil {
		t.Fatal(err)
	}
	if r.Distinct != 166 || r.States != 869 {
		t.Errorf("%d orbits and %d states, want 166 and 869", r.Distinct, r.States)
	}
	replays(t, &m, r.Properties[1].Path)
}

// TestSimulationIsReproducible: walks depend on the seed alone, find what is
// there, replay, and prove nothing.
func TestSimulationIsReproducible(t *testing.T) {
	t.Attr("requirement", "CHECK-2")
	t.Attr("requirement", "CHECK-18")
	m := tokensModel(3)
	m.Properties = append(m.Properties, Always("true", func(tokens) bool { return true }))
	var first string
	for _, workers := range []int{1, 2, 4, 8} {
		r, err := Simulate(context.Background(), m, Options{Workers: workers, Walks: 200, WalkLength: 50, Seed: 7})
		got := printed(t, r, err)
		if first == "" {
			first = got
			if r.Verdict != Violated || r.Properties[0].Verdict != Violated || r.Properties[2].Verdict != Holds {
				t.Errorf("the walks found nothing: %s", got)
			}
			if p := r.Properties[5]; p.Verdict != Inconclusive {
				t.Errorf("walks proved an invariant: %s", p.Verdict)
			}
			if p := r.Properties[3]; p.Verdict != Inconclusive {
				t.Errorf("walks judged liveness: %s", p.Verdict)
			}
			for _, p := range r.Properties {
				if p.Path != nil {
					replays(t, &m, p.Path)
				}
			}
		}
		if got != first {
			t.Errorf("%d workers print\n%s\nwant\n%s", workers, got, first)
		}
	}
	r, err := Simulate(context.Background(), m, Options{Walks: 200, WalkLength: 50, Seed: 8})
	if got := printed(t, r, err); got == first {
		t.Error("another seed gives the same walks")
	}
}

// TestSimulationOfWhatHolds is inconclusive, never a pass.
func TestSimulationOfWhatHolds(t *testing.T) {
	t.Attr("requirement", "CHECK-3")
	t.Attr("requirement", "CHECK-19")
	r, err := Simulate(context.Background(), twoPhase(3), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Inconclusive || r.States < 1000 {
		t.Errorf("verdict %s after %d states, want inconclusive after some thousands", r.Verdict, r.States)
	}
}

// narrow is a state with a field that a poor fingerprint drops.
type narrow struct{ N uint32 }

// narrowModel counts up to n by steps of one and doubling, with fingerprints of
// the given number of bits.
func narrowModel(n uint32, bits uint) Model[narrow] {
	return Model[narrow]{
		Name: "narrow", Actions: []ActionInfo{{Name: "Next"}, {Name: "Double"}},
		Init: func(out []narrow) []narrow { return append(out, narrow{1}) },
		Next: func(s narrow, out []Step[narrow]) []Step[narrow] {
			return append(out, Step[narrow]{Action{ID: 0}, narrow{(s.N + 1) % n}}, Step[narrow]{Action{ID: 1}, narrow{2 * s.N % n}})
		},
		Fingerprint: func(s *narrow) uint64 {
			h := hashState(s)
			return h >> (64 - bits)
		},
	}
}

// TestEstimateOfCollisions: with a fingerprint cut to few bits states are lost,
// the exact mode loses none, and the estimate scaled to those bits is of the right size.
func TestEstimateOfCollisions(t *testing.T) {
	t.Attr("requirement", "CHECK-20")
	t.Attr("requirement", "CHECK-21")
	const n, bits = 60_000, 28
	exact, err := Check(context.Background(), narrowModel(n, bits), Options{Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	// Check would refuse a fingerprint that is poor so early.
	lossy, err := checkValid(context.Background(), narrowModel(n, bits), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if exact.Distinct != n {
		t.Errorf("exact mode finds %d states, want %d", exact.Distinct, n)
	}
	// The birthday bound: n²/2 pairs share 28 bits with 2^-28, about 6.7 here, and what lies behind a lost state may be lost too.
	lost := float64(n - lossy.Distinct)
	want := float64(n) * n / 2 / (1 << bits)
	if lost < 1 || lost > 10*want {
		t.Errorf("%g states lost with %d bits, expected about %g", lost, bits, want)
	}
	if got := lossy.Collisions * math.Pow(2, 64-bits); got < want/2 || got > 4*want {
		t.Errorf("the estimate, scaled to %d bits, is %g collisions, want about %g", bits, got, want)
	}
	full := narrowModel(n, 64)
	full.Fingerprint = nil
	if r, err := Check(context.Background(), full, Options{}); err != nil || r.Distinct != n || !(r.Collisions > 0 && r.Collisions < 1e-6) {
		t.Errorf("with 64 bits: %d states, estimate %g, error %v", r.Distinct, r.Collisions, err)
	}
}

// TestNoAllocationPerTransition: what a run allocates does not grow with its
// transitions.
func TestNoAllocationPerTransition(t *testing.T) {
	t.Attr("requirement", "CHECK-30")
	for _, workers := range []int{1, 2} {
		var transitions uint64
		allocs := testing.AllocsPerRun(1, func() {
			r, err := Check(context.Background(), twoPhase(6), Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			transitions = r.Transitions
		})
		if per := allocs / float64(transitions); per > 0.005 {
			t.Errorf("%d workers: %g allocations in %d transitions", workers, allocs, transitions)
		}
	}
}
