package model

import (
	"context"
	"strings"
	"testing"
)

// line is a state of the small graphs below: a number.
type line struct{ N uint8 }

// arrow is a transition of such a graph.
type arrow struct {
	from   uint8
	action uint16
	to     uint8
}

const (
	actA = iota
	actB
	actC
)

// graphModel makes a model of arrows; state 0 is initial.
func graphModel(arrows []arrow, fair []Fairness, props ...Property[line]) Model[line] {
	return Model[line]{
		Name: "graph", Actions: []ActionInfo{{Name: "A"}, {Name: "B"}, {Name: "C"}}, MayBeDead: []string{"A", "B", "C"},
		Init: func(out []line) []line { return append(out, line{}) },
		Next: func(s line, out []Step[line]) []Step[line] {
			for _, a := range arrows {
				if a.from == s.N {
					out = append(out, Step[line]{Action{ID: a.action}, line{a.to}})
				}
			}
			return out
		},
		Fairness: fair, Properties: props,
	}
}

func is(n uint8) func(line) bool { return func(s line) bool { return s.N == n } }

// TestLivenessTraps holds the mistakes that published checkers made (checker
// facts, section 4), each on a graph whose right verdict is known by hand.
func TestLivenessTraps(t *testing.T) {
	t.Attr("requirement", "CHECK-4")
	reach := func(n uint8) Property[line] { return Eventually("reached", is(n)) }
	tests := []struct {
		name   string
		arrows []arrow
		fair   []Fairness
		prop   Property[line]
		want   Verdict
		lasso  string // the states of the counterexample, > before the first of the cycle, * when the last one stutters
	}{
		// A step that changes nothing is no step: taking it for ever keeps no assumption of progress.
		{"a fair cycle that stutters", []arrow{{0, actA, 0}, {0, actB, 1}}, []Fairness{Weak("", actA)}, reach(1), Violated, "0*"},
		{"a self-loop does not keep the assumption on it", []arrow{{0, actA, 0}, {0, actA, 1}}, []Fairness{Weak("", actA)}, reach(1), Holds, ""},
		// B is enabled in 1 only, so never for ever: weak fairness asks nothing of it.
		{"weak fairness of an action disabled infinitely often", []arrow{{0, actA, 1}, {1, actA, 0}, {1, actB, 2}}, []Fairness{Weak("", actA), Weak("", actB)}, reach(2), Violated, ">0 1 0"},
		{"strong fairness where weak is not enough", []arrow{{0, actA, 1}, {1, actA, 0}, {1, actB, 2}}, []Fairness{Weak("", actA), Strong("", actB)}, reach(2), Holds, ""},
		// B is enabled in 0 and 1, for ever: the cycle of A alone is unfair.
		{"an unfair cycle is no counterexample", []arrow{{0, actA, 1}, {1, actA, 0}, {0, actB, 2}, {1, actB, 2}}, []Fairness{Weak("", actB)}, reach(2), Holds, ""},
		// The component is {0, 1, 2, 3}; a lasso goes round in it by single steps.
		{"a lasso, not a component", []arrow{{0, actA, 1}, {1, actA, 2}, {2, actA, 0}, {0, actB, 3}, {3, actB, 0}, {2, actC, 4}}, []Fairness{Weak("", actA), Weak("", actB)}, reach(4), Violated, ">0 1 2 0"},
		{"both actions must be on the lasso", []arrow{{0, actA, 1}, {1, actA, 2}, {2, actA, 0}, {0, actB, 3}, {3, actB, 0}, {2, actC, 4}}, []Fairness{Strong("", actA), Strong("", actB)}, reach(4), Violated, ">0 1 2 0 3 0"},
		// Strong fairness of C is kept only by not coming to 2 any more: the component must be taken apart.
		{"a component is fair in a part only", []arrow{{0, actA, 1}, {1, actA, 0}, {1, actB, 2}, {2, actB, 1}, {2, actC, 3}}, []Fairness{Weak("", actA, actB), Strong("", actC)}, reach(3), Violated, ">0 1 0"},
		{"no part of a component is fair", []arrow{{0, actA, 2}, {2, actB, 0}, {2, actC, 3}}, []Fairness{Weak("", actA, actB), Strong("", actC)}, reach(3), Holds, ""},
		// 1 and 2 both lead to 3: the second path finds 3 visited, and must see the violation all the same.
		{"two paths join at a visited state", []arrow{{0, actA, 1}, {0, actB, 2}, {1, actA, 3}, {2, actA, 3}}, []Fairness{Weak("", actA, actB)}, reach(1), Violated, "0 2 3*"},
		{"the join is after the goal on every path", []arrow{{0, actA, 1}, {0, actB, 2}, {1, actA, 3}, {2, actA, 3}}, []Fairness{Weak("", actA, actB)}, reach(3), Holds, ""},
		{"a terminal state stutters", []arrow{{0, actA, 1}}, []Fairness{Strong("", actA)}, reach(2), Violated, "0 1*"},
		{"a terminal goal is reached", []arrow{{0, actA, 1}}, []Fairness{Weak("", actA)}, reach(1), Holds, ""},
		{"without fairness every state may be the last", []arrow{{0, actA, 1}}, nil, reach(1), Violated, "0*"},
		// "Eventually always not 1": said as a leads-to from each state to come, and not dropped.
		{"what is left again and again", []arrow{{0, actA, 1}, {1, actA, 0}}, []Fairness{Weak("", actA)}, LeadsTo("p", is(0), is(2)), Violated, ">0 1 0"},
		{"leads-to begins late", []arrow{{0, actA, 1}, {1, actA, 2}, {2, actB, 2}}, []Fairness{Weak("", actA)}, LeadsTo("p", is(1), is(0)), Violated, "0 1 2*"},
		{"leads-to is served at once", []arrow{{0, actA, 1}, {1, actA, 0}}, []Fairness{Weak("", actA)}, LeadsTo("p", is(1), is(1)), Holds, ""},
		{"leads-to is asked again after it was served", []arrow{{0, actA, 1}, {1, actA, 0}, {0, actB, 2}, {2, actB, 3}, {3, actB, 2}}, []Fairness{Weak("", actA), Weak("", actB)}, LeadsTo("p", is(0), is(1)), Violated, "0 >2 3 2"},
		{"two actions of one assumption count together", []arrow{{0, actA, 1}, {1, actA, 0}, {0, actB, 2}, {1, actB, 2}}, []Fairness{Weak("", actA, actB)}, reach(2), Violated, ">0 1 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, o := range []Options{{Workers: 1}, {Workers: 2, parallelMin: 1}, {Workers: 8, parallelMin: 1}, {Exact: true}} {
				r, err := Check(context.Background(), graphModel(tt.arrows, tt.fair, tt.prop), o)
				if err != nil {
					t.Fatal(err)
				}
				p := r.Properties[0]
				if p.Verdict != tt.want || lassoString(p.Path) != tt.lasso {
					t.Errorf("%+v: verdict %s, counterexample %q; want %s, %q", o, p.Verdict, lassoString(p.Path), tt.want, tt.lasso)
				}
			}
		})
	}
}

func lassoString(p *Path) string {
	if p == nil {
		return ""
	}
	var parts []string
	for i, st := range p.Steps {
		mark := ""
		if i == p.Loop {
			mark = ">"
		}
		parts = append(parts, mark+st.State[0].Value)
	}
	out := strings.Join(parts, " ")
	if p.Loop == len(p.Steps) {
		out += "*"
	}
	return out
}

// TestFairnessLooksBeyondConstraints: a step that a constraint cuts is still
// enabled, so that a bound makes up no counterexample.
func TestFairnessLooksBeyondConstraints(t *testing.T) {
	t.Attr("requirement", "CHECK-4")
	arrows := []arrow{{0, actA, 1}, {1, actA, 2}}
	m := graphModel(arrows, []Fairness{Weak("", actA)}, Eventually("reached", is(2)))
	m.Constraint = func(s line) bool { return s.N < 2 }
	r, err := Check(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Properties[0].Verdict != Holds {
		t.Errorf("stopping in 1, where A is enabled, was taken for a fair behaviour: %s", lassoString(r.Properties[0].Path))
	}
}

// TestBoundedLivenessIsInconclusive: nothing is said about liveness on a part of
// the graph.
func TestBoundedLivenessIsInconclusive(t *testing.T) {
	t.Attr("requirement", "CHECK-3")
	arrows := []arrow{{0, actA, 1}, {1, actA, 2}, {2, actA, 3}}
	for _, o := range []Options{{MaxDepth: 2}, {MaxStates: 2}, {Mode: DFS}} {
		r, err := Check(context.Background(), graphModel(arrows, []Fairness{Weak("", actA)}, Eventually("reached", is(3))), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Inconclusive || r.Properties[0].Verdict != Inconclusive {
			t.Errorf("%+v: verdict %s, property %s, want both inconclusive", o, r.Verdict, r.Properties[0].Verdict)
		}
	}
}
