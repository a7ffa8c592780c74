package model

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// TestBoundsAreInconclusive: each bound stops the run, is named, and is never a
// pass; what was found within it stands.
func TestBoundsAreInconclusive(t *testing.T) {
	t.Attr("requirement", "CHECK-3")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		o    Options
		want string
	}{
		{"depth", context.Background(), Options{MaxDepth: 5}, "depth bound 5 reached"},
		{"states", context.Background(), Options{MaxStates: 1000}, "state bound 1000 reached"},
		{"memory", context.Background(), Options{MaxBytes: 1 << 20}, "memory bound 1.0 MiB reached"},
		{"time", context.Background(), Options{Timeout: time.Nanosecond}, "time bound reached"},
		{"interrupt", ended, Options{}, "interrupted"},
		{"depth, depth-first", context.Background(), Options{MaxDepth: 5, Mode: DFS}, "depth bound 5 reached"},
		{"states, depth-first", context.Background(), Options{MaxStates: 1000, Mode: DFS}, "state bound 1000 reached"},
		{"memory, depth-first", context.Background(), Options{MaxBytes: 1 << 20, Mode: DFS}, "memory bound 1.0 MiB reached"},
		{"interrupt, depth-first", ended, Options{Mode: DFS}, "interrupted"},
		{"interrupt, simulation", ended, Options{Walks: 10}, "interrupted"},
	}
	for _, tt := range tests {
		for _, workers := range []int{1, 3} {
			tt.o.Workers, tt.o.parallelMin = workers, 64
			m := twoPhase(7)
			m.Properties = append(m.Properties, Sometimes("somebody is prepared", func(s packed) bool { return s.c != 0 }), Sometimes("never", func(s packed) bool { return s.d == 9 }))
			run := Check[packed]
			if strings.Contains(tt.name, "simulation") {
				run = Simulate[packed]
			}
			r, err := run(tt.ctx, m, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != Inconclusive || r.Complete || !strings.Contains(r.Reason, tt.want) {
				t.Errorf("%s, %d workers: verdict %s, complete %t, reason %q; want inconclusive, %q", tt.name, workers, r.Verdict, r.Complete, r.Reason, tt.want)
			}
			if p := r.Properties[0]; p.Verdict != Inconclusive {
				t.Errorf("%s: an invariant of a part of the space is %s", tt.name, p.Verdict)
			}
			if p := r.Properties[2]; p.Verdict != Inconclusive {
				t.Errorf("%s: a witness that may still come is %s", tt.name, p.Verdict)
			}
			if len(r.DeadActions) > 0 {
				t.Errorf("%s: actions are called dead in a part of the space: %v", tt.name, r.DeadActions)
			}
			if tt.ctx.Err() == nil && tt.o.Timeout == 0 && tt.o.Mode == BFS && r.Properties[1].Verdict != Holds {
				t.Errorf("%s: the witness that was reached is %s", tt.name, r.Properties[1].Verdict)
			}
		}
	}
}

// TestDepthFirstKeepsTheBound: an initial state that comes after the bound, and
// was met before, does not call the end another.
func TestDepthFirstKeepsTheBound(t *testing.T) {
	t.Attr("requirement", "CHECK-3")
	t.Attr("requirement", "CHECK-29")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	m := counterModel()
	init, next := m.Init, m.Next
	m.Init = func(to []counter) []counter { return init(init(to)) }
	m.Next = func(s counter, to []Step[counter]) []Step[counter] {
		<-ctx.Done()
		return next(s, to)
	}
	r, err := checkValid(ctx, m, Options{Mode: DFS})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Inconclusive || r.Reason != "time bound reached" {
		t.Errorf("verdict %s, reason %q; want inconclusive, time bound reached", r.Verdict, r.Reason)
	}
}

// TestDepthBoundJudgesItsLastLevel: a violation at the bound is found, one step
// beyond it is not.
func TestDepthBoundJudgesItsLastLevel(t *testing.T) {
	t.Attr("requirement", "CHECK-3")
	m := counterModel()
	m.Properties = []Property[counter]{Always("low", func(s counter) bool { return s.N < 3 })}
	for depth, want := range map[int]Verdict{3: Inconclusive, 4: Violated} {
		r, err := Check(context.Background(), m, Options{MaxDepth: depth})
		if err != nil {
			t.Fatal(err)
		}
		if r.Properties[0].Verdict != want || r.Depth != depth {
			t.Errorf("depth bound %d: property %s at depth %d, want %s", depth, r.Properties[0].Verdict, r.Depth, want)
		}
	}
}

// TestStopAtFirst ends after the level of the violation.
func TestStopAtFirst(t *testing.T) {
	t.Attr("requirement", "CHECK-25")
	m := counterModel()
	m.Properties = []Property[counter]{
		Always("low", func(s counter) bool { return s.N < 2 }),
		Always("lower than five", func(s counter) bool { return s.N < 5 }),
	}
	for _, o := range []Options{{StopAtFirst: true}, {StopAtFirst: true, Mode: DFS}} {
		r, err := Check(context.Background(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Violated || r.Complete || r.Properties[0].Path.Len() != 2 || r.Properties[1].Verdict != Inconclusive {
			t.Errorf("mode %d: %+v", o.Mode, r)
		}
	}
}

// TestCountsOfActions: enabled counts states, taken counts distinct transitions,
// changed those with another target; steps of a cut action are enabled only.
func TestCountsOfActions(t *testing.T) {
	t.Attr("requirement", "CHECK-7")
	arrows := []arrow{{0, actA, 1}, {0, actA, 2}, {0, actA, 2}, {1, actA, 1}, {1, actB, 2}, {2, actB, 0}}
	m := graphModel(arrows, nil)
	m.MayBeDead = nil
	r, err := Check(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []ActionCount{{"A", 2, 3, 2}, {"B", 2, 2, 2}, {"C", 0, 0, 0}}
	for i, a := range r.Actions {
		if a != want[i] {
			t.Errorf("action %+v, want %+v", a, want[i])
		}
	}
	if r.States != 7 || r.Transitions != 5 || r.Terminal != 0 {
		t.Errorf("states %d, transitions %d, terminal %d, want 7, 5 and 0", r.States, r.Transitions, r.Terminal)
	}
	if r.Verdict != Violated || len(r.DeadActions) != 1 || r.DeadActions[0] != "C" || !strings.Contains(r.Reason, "dead actions: C") {
		t.Errorf("a dead action gives %s, %v, %q", r.Verdict, r.DeadActions, r.Reason)
	}
	m.MayBeDead = []string{"C"}
	m.ActionConstraint = func(_ line, st Step[line]) bool { return st.Action.ID != actB }
	r, err = Check(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b := r.Actions[1]; b != (ActionCount{"B", 2, 0, 0}) || len(r.DeadActions) != 1 {
		t.Errorf("a cut action is counted as %+v, dead actions %v", b, r.DeadActions)
	}
}

// TestVacuity: a property whose case is never reached, by its antecedent or its
// witness, does not pass.
func TestVacuity(t *testing.T) {
	t.Attr("requirement", "CHECK-9")
	arrows := []arrow{{0, actA, 1}, {1, actB, 2}}
	yes := func(line) bool { return true }
	step := AlwaysStep("p", func(line, Action, line) bool { return true })
	tests := []struct {
		name    string
		props   []Property[line]
		vacuous bool
	}{
		{"antecedent reached", []Property[line]{Always("p", yes).When(is(2))}, false},
		{"antecedent never true", []Property[line]{Always("p", yes).When(is(3))}, true},
		{"step antecedent reached", []Property[line]{step.WhenStep(func(_ line, a Action, _ line) bool { return a.ID == actB })}, false},
		{"step antecedent never true", []Property[line]{step.WhenStep(func(_ line, a Action, _ line) bool { return a.ID == actC })}, true},
		{"from never true", []Property[line]{LeadsTo("p", is(3), is(2))}, true},
		{"witness reached", []Property[line]{Always("p", yes).WitnessedBy("w"), Sometimes("w", is(2))}, false},
	}
	for _, tt := range tests {
		r, err := Check(context.Background(), graphModel(arrows, []Fairness{Weak("", actA, actB)}, tt.props...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Properties[0].Vacuous != tt.vacuous || (r.Verdict == Holds) == tt.vacuous {
			t.Errorf("%s: vacuous %t, verdict %s, want vacuous %t", tt.name, r.Properties[0].Vacuous, r.Verdict, tt.vacuous)
		}
	}
}

// TestUnreachedWitness: it is violated, and what it witnesses is vacuous.
func TestUnreachedWitness(t *testing.T) {
	t.Attr("requirement", "CHECK-8")
	arrows := []arrow{{0, actA, 1}}
	m := graphModel(arrows, nil, Always("p", func(line) bool { return true }).WitnessedBy("w"), Sometimes("w", is(2)),
		SometimesStep("s", func(_ line, a Action, _ line) bool { return a.ID == actB }))
	for _, mode := range []Mode{BFS, DFS} {
		r, err := Check(context.Background(), m, Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Properties[0].Vacuous || r.Properties[1].Verdict != Violated || r.Properties[2].Verdict != Violated || r.Verdict != Violated {
			t.Errorf("mode %d: %+v", mode, r)
		}
	}
}

// TestDeadlock: a state without successors is one unless it is declared.
func TestDeadlock(t *testing.T) {
	t.Attr("requirement", "CHECK-10")
	arrows := []arrow{{0, actA, 1}, {0, actB, 2}, {2, actA, 2}}
	for _, tt := range []struct {
		name  string
		plant func(m *Model[line])
		want  string
	}{
		{"not asked", func(m *Model[line]) {}, ""},
		{"asked", func(m *Model[line]) { m.CheckDeadlock = true }, "0 1"},
		{"declared", func(m *Model[line]) { m.Terminal = is(1) }, ""},
		{"another one declared", func(m *Model[line]) { m.Terminal = is(2) }, "0 1"},
	} {
		m := graphModel(arrows, nil)
		tt.plant(&m)
		for _, mode := range []Mode{BFS, DFS} {
			r, err := Check(context.Background(), m, Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if k := len(r.Properties); k > 0 {
				got = lassoString(r.Properties[k-1].Path)
			}
			if got != tt.want || (r.Verdict == Violated) != (tt.want != "") {
				t.Errorf("%s, mode %d: path %q, verdict %s, want %q", tt.name, mode, got, r.Verdict, tt.want)
			}
		}
	}
}

// TestProgress: a run that lasts prints lines; none when it is not asked.
func TestProgress(t *testing.T) {
	t.Attr("requirement", "CHECK-24")
	var m meter
	var b bytes.Buffer
	stop := m.watch(&b, "model:config")
	m.add(1234567, 2000, 1000)
	m.level(7, 1000, 3<<20)
	stop()
	b.Reset()
	m.line(&b, "model:config", 2*time.Second, time.Second, 0)
	want := "model:config:    2s  states 1,234,567  distinct 2,000  depth 7  queue 1,000  1,234,567 states/s  memory 3.0 MiB\n"
	if b.String() != want {
		t.Errorf("progress line %q, want %q", b.String(), want)
	}
}
