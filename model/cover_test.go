package model

import (
	"context"
	"errors"
	"reflect"
	"testing"
)

// checkCover follows the paths of a cover on the model and returns the edges of
// the graph that they take.
func checkCover[S comparable](t *testing.T, m Model[S], paths []CoverPath[S]) map[Edge]bool {
	t.Helper()
	g, err := Explore(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	number := map[S]int{}
	for i, s := range g.States {
		number[s] = i
	}
	taken := map[Edge]bool{}
	for i, p := range paths {
		at, known := number[p.Initial]
		if !known || g.Depth[at] != 1 || len(p.Steps) == 0 {
			t.Fatalf("path %d begins in %+v, which is no initial state, or is empty", i, p.Initial)
		}
		for _, st := range p.Steps {
			to, known := number[st.State]
			e := Edge{From: at, To: to, Action: st.Action}
			found := false
			for _, x := range g.Out(at) {
				found = found || x == e
			}
			if !known || !found {
				t.Fatalf("path %d takes a step that the model has not: %+v", i, st)
			}
			taken[e] = true
			at = to
		}
	}
	return taken
}

// TestCoverTakesEveryTransition on random systems and on one with large
// components.
func TestCoverTakesEveryTransition(t *testing.T) {
	t.Attr("requirement", "CHECK-14")
	covered := 0
	for i := range 500 {
		r := random(i)
		y := randomTiny(&r)
		covered += coverAll(t, y.model(), CoverOptions[tinyState]{MaxLength: 1 + i%30})
	}
	covered += coverAll(t, tokensModel(2), CoverOptions[tokens]{})
	covered += coverAll(t, twoPhase(3), CoverOptions[packed]{})
	if covered < 2000 {
		t.Errorf("%d transitions covered: the test looked at nearly nothing", covered)
	}
}

func coverAll[S comparable](t *testing.T, m Model[S], o CoverOptions[S]) int {
	t.Helper()
	paths, err := CoverPaths(context.Background(), m, o)
	if errors.Is(err, ErrRefused) {
		return 0 // a random system without a state
	}
	if err != nil {
		t.Fatal(err)
	}
	again, _ := CoverPaths(context.Background(), m, o)
	if !reflect.DeepEqual(paths, again) {
		t.Fatal("two covers of one model differ")
	}
	g, _ := Explore(context.Background(), m, Options{})
	taken := checkCover(t, m, paths)
	for _, e := range g.Edges {
		if !taken[e] {
			t.Fatalf("the cover leaves out %+v", e)
		}
	}
	for i, p := range paths {
		if o.MaxLength > 0 && len(p.Steps) > max(o.MaxLength, longestShortest(g)+1) {
			t.Fatalf("path %d has %d steps, the most is %d", i, len(p.Steps), o.MaxLength)
		}
	}
	return len(g.Edges)
}

func longestShortest[S comparable](g *StateGraph[S]) (n int) {
	for _, d := range g.Depth {
		n = max(n, d)
	}
	return n
}

// TestAbstractCover takes each action in each class of states, and has fewer
// steps than the whole.
func TestAbstractCover(t *testing.T) {
	t.Attr("requirement", "CHECK-14")
	m := twoPhase(4)
	class := func(s packed) uint64 { return s.d<<8 | s.c>>62 }
	r, err := Cover(context.Background(), m, CoverOptions[packed]{Abstract: class})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Cover(context.Background(), m, CoverOptions[packed]{})
	if err != nil {
		t.Fatal(err)
	}
	paths, err := CoverPaths(context.Background(), m, CoverOptions[packed]{Abstract: class})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := Explore(context.Background(), m, Options{})
	type pair struct {
		a     Action
		class uint64
	}
	want, got := map[pair]bool{}, map[pair]bool{}
	for _, e := range g.Edges {
		want[pair{e.Action, class(g.States[e.From])}] = true
	}
	for e := range checkCover(t, m, paths) {
		got[pair{e.Action, class(g.States[e.From])}] = true
	}
	if !reflect.DeepEqual(got, want) || r.Targets != len(want) {
		t.Errorf("%d pairs covered, %d reported, want %d", len(got), r.Targets, len(want))
	}
	if r.Steps >= whole.Steps {
		t.Errorf("the abstract cover has %d steps, the whole one %d", r.Steps, whole.Steps)
	}
}

// TestCoverIsRefused under a symmetry, and reported as incomplete at a bound.
func TestCoverIsRefused(t *testing.T) {
	t.Attr("requirement", "CHECK-14")
	t.Attr("requirement", "CHECK-27")
	if _, err := CoverPaths(context.Background(), symmetricTwoPhase(3), CoverOptions[packed]{}); !errors.Is(err, ErrRefused) {
		t.Errorf("a cover under a symmetry: error %v", err)
	}
	for _, o := range []Options{{MaxDepth: 3}, {MaxStates: 10}, {Timeout: 1}} {
		if _, err := CoverPaths(context.Background(), twoPhase(5), CoverOptions[packed]{Options: o}); err == nil {
			t.Errorf("a cover of a part of the graph was given: %+v", o)
		}
	}
}
