package modeltest

import (
	"strings"
	"testing"

	"microvms/model"
)

// counter counts up to a number: a model whose record is known by hand.
func counter(to uint8) model.Model[uint8] {
	return model.Model[uint8]{
		Name: "counter", Actions: []model.ActionInfo{{Name: "Count"}},
		Init: func(out []uint8) []uint8 { return append(out, 0) },
		Next: func(s uint8, out []model.Step[uint8]) []model.Step[uint8] {
			if s < to {
				out = append(out, model.Step[uint8]{Action: model.Act(0), State: s + 1})
			}
			return out
		},
		Properties: []model.Property[uint8]{model.Always("at most two", func(s uint8) bool { return s <= 2 }, "X-1")},
		Fields:     func(s uint8) []model.Field { return nil },
	}
}

// TestProblems checks that a case is judged by its record, and the record by
// what it leaves out.
func TestProblems(t *testing.T) {
	t.Attr("requirement", "CHECK-15")
	honest := model.Expect{Distinct: 3, States: 3, Depth: 3}
	broken := model.Expect{Distinct: 4, States: 4, Depth: 4, Deviation: "it counts too far", Violated: map[string]int{"at most two": 3}}
	for _, c := range []struct {
		name      string
		to        uint8
		expect    model.Expect
		published bool
		words     string // in a problem; empty for none
	}{
		{"as the record says", 2, honest, false, ""},
		{"a deviation that is noticed", 3, broken, false, ""},
		{"a violation that is not in the record", 3, model.Expect{Distinct: 4, States: 4, Depth: 4}, false, "should hold"},
		{"a state more", 2, model.Expect{Distinct: 2, States: 3, Depth: 3}, false, "distinct states"},
		{"a deviation that nothing notices", 2, model.Expect{Distinct: 3, States: 3, Depth: 3, Deviation: "a planted fault"}, false, "nothing notices"},
		{"counts that are not pinned", 2, model.Expect{Distinct: 3, States: 3}, false, "not pinned"},
		{"a publication that leaves counts out", 2, model.Expect{Distinct: 3}, true, ""},
	} {
		k := model.NewCase("counter", func() model.Model[uint8] { return counter(c.to) }, c.expect)
		report, err := k.Check(t.Context(), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(problems(k, report, c.published), "; ")
		if (got == "") != (c.words == "") || !strings.Contains(got, c.words) {
			t.Errorf("%s: problems %q, want one with %q", c.name, got, c.words)
		}
	}
}

// TestPanics checks that a call which does not panic is told from one that does.
func TestPanics(t *testing.T) {
	if panics(func() {}) || !panics(func() { panic("out of bounds") }) {
		t.Error("a call that panics is not told from one that does not")
	}
}
