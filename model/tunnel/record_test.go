package tunnel

import (
	"maps"
	"testing"

	"microvms/model"
)

// found turns a report into the expectation that it would meet.
func found(r *model.Report) model.Expect {
	e := model.Expect{Distinct: r.Distinct, States: r.States, Depth: r.Depth}
	for _, p := range r.Properties {
		if p.Verdict == model.Violated {
			if e.Violated == nil {
				e.Violated = map[string]int{}
			}
			n := 0
			if p.Path != nil {
				n = p.Path.Len()
			}
			e.Violated[p.Name] = n
		}
	}
	return e
}

func compare(t *testing.T, r *model.Report, want model.Expect) {
	t.Helper()
	got := found(r)
	// The publication leaves some of the counts of some configurations out.
	if want.States == 0 {
		want.States = got.States
	}
	if want.Depth == 0 {
		want.Depth = got.Depth
	}
	if got.Distinct != want.Distinct || got.States != want.States || got.Depth != want.Depth {
		t.Errorf("counts: distinct=%d states=%d depth=%d, want distinct=%d states=%d depth=%d",
			got.Distinct, got.States, got.Depth, want.Distinct, want.States, want.Depth)
	}
	if !maps.Equal(got.Violated, want.Violated) {
		t.Errorf("violated %v\nwant     %v", got.Violated, want.Violated)
	}
	if !r.Complete {
		t.Errorf("the search is not complete: %s", r.Reason)
	}
	for _, p := range r.Properties {
		if p.Verdict == model.Inconclusive {
			t.Errorf("property %q is inconclusive", p.Name)
		}
	}
}
