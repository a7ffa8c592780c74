package model_test

import (
	"testing"

	"microvms/model"
)

// TestGoldenRecordIsStrict reads a record, renders it again, and checks that a
// line that the record does not know, a number that is none and a case that
// stands there twice are refused.
func TestGoldenRecordIsStrict(t *testing.T) {
	t.Attr("requirement", "CHECK-15")
	text := "# a\ncase a\ncounts distinct=1 states=2 depth=3\nviolated 4 \"p q\"\n"
	got, err := model.ParseGolden(text)
	if err != nil {
		t.Fatal(err)
	}
	if e := got["a"]; e.Distinct != 1 || e.States != 2 || e.Depth != 3 || e.Violated["p q"] != 4 || model.FormatGolden("a", "a", e) != text {
		t.Errorf("parsed %+v", e)
	}
	for _, bad := range []string{
		"cases a\n", "case a\ncounts distinct=x\n", "case a\nviolated x \"p\"\n", "case a\nviolated 1 p\n", "case a\ncase a\n",
	} {
		if _, err := model.ParseGolden(bad); err == nil {
			t.Errorf("a bad record was read: %q", bad)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an embedded record that cannot be read was taken")
		}
	}()
	model.MustParseGolden("cases a\n")
}

// TestFoundIsWhatAReportMeets checks that a report meets the expectation that
// is made of it, and none that differs in a count or a violated property.
func TestFoundIsWhatAReportMeets(t *testing.T) {
	t.Attr("requirement", "CHECK-15")
	path := &model.Path{Steps: make([]model.PathStep, 3)}
	r := &model.Report{Distinct: 5, States: 7, Depth: 3, Complete: true, Verdict: model.Violated, Properties: []model.PropertyReport{
		{Name: "broken", Kind: "always", Verdict: model.Violated, Path: path},
		{Name: "never reached", Kind: "sometimes", Verdict: model.Violated},
		{Name: "kept", Kind: "always", Verdict: model.Holds},
	}}
	e := r.Found()
	e.Deviation = "planted"
	if d := e.Compare(r); len(d) > 0 || len(e.Violated) != 2 || e.Violated["broken"] != path.Len() {
		t.Errorf("found %+v, which differs: %q", e, d)
	}
	for name, edit := range map[string]func(e *model.Expect){
		"states": func(e *model.Expect) { e.States++ }, "distinct": func(e *model.Expect) { e.Distinct++ }, "depth": func(e *model.Expect) { e.Depth++ },
		"one violated more": func(e *model.Expect) {
			e.Violated = map[string]int{"broken": path.Len(), "never reached": 0, "kept": 1}
		},
		"one violated less": func(e *model.Expect) { e.Violated = map[string]int{"broken": path.Len()} },
		"another length":    func(e *model.Expect) { e.Violated = map[string]int{"broken": 1, "never reached": 0} },
	} {
		other := e
		edit(&other)
		if len(other.Compare(r)) == 0 {
			t.Errorf("%s: the report meets another expectation, too", name)
		}
	}
}
