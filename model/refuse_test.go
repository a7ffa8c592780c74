package model

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// counter is the state of the models that are refused below.
type counter struct{ N, M uint8 }

func counterModel() Model[counter] {
	return Model[counter]{
		Name: "counter", Actions: []ActionInfo{{Name: "Up"}, {Name: "Side"}},
		Init: func(out []counter) []counter { return append(out, counter{}) },
		Next: func(s counter, out []Step[counter]) []Step[counter] {
			if s.N < 5 {
				out = append(out, Step[counter]{Action{ID: 0}, counter{s.N + 1, s.M}}, Step[counter]{Action{ID: 1}, counter{s.N + 1, 1 - s.M}})
			}
			return out
		},
	}
}

func checkErr[S comparable](m Model[S]) error {
	_, err := Check(context.Background(), m, Options{})
	return err
}

// stateless makes a model of a state type; only validate looks at it.
func stateless[S comparable]() error {
	return checkErr(Model[S]{Name: "m", Init: func(out []S) []S { return out }, Next: func(s S, out []Step[S]) []Step[S] { return out }})
}

// TestStatesAreRefused: each kind of state that has not exactly one sequence of
// bytes a value, with the field's name and what to do.
func TestStatesAreRefused(t *testing.T) {
	t.Attr("requirement", "CHECK-12")
	type nested struct{ Inner [2]struct{ P *int } }
	type gap struct {
		A uint8
		B uint32
	}
	type tail struct {
		A uint32
		B uint8
	}
	type blank struct {
		A uint8
		_ uint8
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"pointer", stateless[struct{ P *int }](), "state.P is a ptr (*int)"},
		{"nested pointer", stateless[nested](), "state.Inner[…].P is a ptr"},
		{"string", stateless[struct{ S string }](), "state.S is a string"},
		{"interface", stateless[struct{ E error }](), "state.E is an interface (error)"},
		{"float", stateless[struct{ F float64 }](), "state.F is a float64"},
		{"channel", stateless[struct{ C chan int }](), "state.C is a chan"},
		{"padding inside", stateless[gap](), "3 bytes of padding before field B"},
		{"padding at the end", stateless[tail](), "3 bytes of padding at its end"},
		{"blank field", stateless[blank](), "blank field"},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, ErrRefused) || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, tt.err, tt.want)
		}
	}
	if err := checkErr(counterModel()); err != nil {
		t.Errorf("a model in order is refused: %v", err)
	}
}

// TestModelsAreRefused: each broken rule, one fault in a model that is otherwise
// in order.
func TestModelsAreRefused(t *testing.T) {
	t.Attr("requirement", "CHECK-31")
	t.Attr("requirement", "CHECK-13")
	var calls atomic.Uint64
	holds := func(counter) bool { return true }
	tests := []struct {
		name   string
		break_ func(m *Model[counter])
		want   string
	}{
		{"two properties of one name", func(m *Model[counter]) { m.Properties = []Property[counter]{Always("p", holds), Always("p", holds)} }, `two properties are called "p"`},
		{"a property without a name", func(m *Model[counter]) { m.Properties = []Property[counter]{Always("", holds)} }, "has no name"},
		{"a property of the wrong shape", func(m *Model[counter]) { m.Properties = []Property[counter]{{Name: "p", Kind: KindStep, State: holds}} }, "other functions than its kind"},
		{"a witness that is none", func(m *Model[counter]) { m.Properties = []Property[counter]{Always("p", holds).WitnessedBy("q")} }, `is witnessed by "q"`},
		{"the deadlock's name", func(m *Model[counter]) {
			m.CheckDeadlock, m.Properties = true, []Property[counter]{Always(deadlockName, holds)}
		}, "belongs to the deadlock check"},
		{"two actions of one name", func(m *Model[counter]) { m.Actions[1].Name = "Up" }, "needs a name of its own"},
		{"a step of an unlisted action", func(m *Model[counter]) { m.Actions = m.Actions[:1] }, "not an index of Actions"},
		{"MayBeDead of no action", func(m *Model[counter]) { m.MayBeDead = []string{"Down"} }, `MayBeDead names "Down"`},
		{"no Next", func(m *Model[counter]) { m.Next = nil }, "must both be set"},
		{"no initial state", func(m *Model[counter]) { m.Init = func(out []counter) []counter { return out } }, "hold of nothing"},
		{"Init that changes", func(m *Model[counter]) {
			m.Init = func(out []counter) []counter { return append(out, counter{N: uint8(calls.Add(1) % 2)}) }
		}, "Init gave two different lists"},
		{"Next in two orders", func(m *Model[counter]) {
			next := m.Next
			m.Next = func(s counter, out []Step[counter]) []Step[counter] {
				out = next(s, out)
				if calls.Add(1)%2 == 0 && len(out) == 2 {
					out[0], out[1] = out[1], out[0]
				}
				return out
			}
		}, "the same steps in two orders"},
		{"Next that depends on more than the state", func(m *Model[counter]) {
			next := m.Next
			m.Next = func(s counter, out []Step[counter]) []Step[counter] {
				if calls.Add(1)%2 == 0 {
					return out
				}
				return next(s, out)
			}
		}, "two different lists of steps"},
		{"two fingerprints for one state", func(m *Model[counter]) {
			m.Fingerprint = func(s *counter) uint64 { return uint64(s.N)<<8 | uint64(s.M) | calls.Add(1)<<32 }
		}, "Fingerprint gave two values for one state"},
		{"one fingerprint for two states", func(m *Model[counter]) { m.Fingerprint = func(s *counter) uint64 { return uint64(s.N) } }, "same value for two different states, one reached by Side"},
		{"one fingerprint for a state and its successor", func(m *Model[counter]) {
			m.Fingerprint = func(s *counter) uint64 { return uint64(s.M) }
		}, "they differ in N"},
		{"fairness of an action that is none", func(m *Model[counter]) { m.Fairness = []Fairness{Weak("f", 99)} }, "names action 99"},
		{"a symmetry without generators", func(m *Model[counter]) {
			m.Symmetry = &Symmetry[counter]{Canonical: func(s counter) counter { return s }}
		}, "at least one generator"},
		{"fairness without Match", func(m *Model[counter]) { m.Fairness = []Fairness{{Name: "f"}} }, "has no Match"},
		{"too many liveness properties", func(m *Model[counter]) {
			for i := range 33 {
				m.Properties = append(m.Properties, Eventually(itoa(uint64(i)), holds))
			}
		}, "the most is 32"},
		{"too many assumptions", func(m *Model[counter]) { m.Fairness = make([]Fairness, 65) }, "the most is 64"},
	}
	for _, tt := range tests {
		m := counterModel()
		tt.break_(&m)
		if err := checkErr(m); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

// TestPanicIsReportedWithItsPath: a panic in each function names the function
// and leads to the state.
func TestPanicIsReportedWithItsPath(t *testing.T) {
	t.Attr("requirement", "CHECK-11")
	at := func(s counter) bool {
		if s.N == 3 && s.M == 1 {
			panic("index out of range")
		}
		return true
	}
	tests := []struct {
		function string
		length   int
		plant    func(m *Model[counter])
	}{
		{"Next", 3, func(m *Model[counter]) {
			next := m.Next
			m.Next = func(s counter, out []Step[counter]) []Step[counter] { at(s); return next(s, out) }
		}},
		{"a state property", 3, func(m *Model[counter]) { m.Properties = []Property[counter]{Always("p", at)} }},
		{"a step property", 3, func(m *Model[counter]) {
			m.Properties = []Property[counter]{AlwaysStep("p", func(s counter, _ Action, _ counter) bool { return at(s) })}
		}},
		{"a liveness property", 3, func(m *Model[counter]) { m.Properties = []Property[counter]{Eventually("p", at)} }},
		{"Constraint", 2, func(m *Model[counter]) { m.Constraint = at }},
		{"ActionConstraint", 3, func(m *Model[counter]) { m.ActionConstraint = func(s counter, _ Step[counter]) bool { return at(s) } }},
		{"Fingerprint", 2, func(m *Model[counter]) {
			m.Fingerprint = func(s *counter) uint64 { at(*s); return uint64(s.N)<<8 | uint64(s.M) }
		}},
	}
	for _, tt := range tests {
		m := counterModel()
		tt.plant(&m)
		for _, o := range []Options{{Workers: 1}, {Workers: 4, parallelMin: 1}} {
			_, err := Check(context.Background(), m, o)
			var p *PanicError
			if !errors.As(err, &p) {
				t.Errorf("%s: error %v, want a PanicError", tt.function, err)
				continue
			}
			if p.Function != tt.function || p.Value != "index out of range" || p.Path == nil || p.Path.Len() != tt.length {
				t.Errorf("%s: %v", tt.function, p)
			}
			if p.Path != nil && !strings.Contains(err.Error(), " 2  Up\n") {
				t.Errorf("%s: the message has no path: %v", tt.function, err)
			}
		}
	}
	for _, mode := range []Mode{BFS, DFS} {
		m := counterModel()
		m.Init = func(out []counter) []counter { panic("no state") }
		_, err := Check(context.Background(), m, Options{Mode: mode})
		var p *PanicError
		if !errors.As(err, &p) || p.Function != "Init" || p.Path != nil {
			t.Errorf("panic in Init, mode %d: %v", mode, err)
		}
	}
	m := counterModel()
	m.Properties = []Property[counter]{Always("p", at)}
	for _, err := range []error{errOf(Check(context.Background(), m, Options{Mode: DFS})), errOf(Simulate(context.Background(), m, Options{}))} {
		var p *PanicError
		if !errors.As(err, &p) || p.Path == nil || p.Path.Len() != 3 {
			t.Errorf("panic in a property: %v", err)
		}
	}
}

func errOf(_ *Report, err error) error { return err }
