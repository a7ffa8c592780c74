package verify

import (
	"testing"

	"microvms/model"
)

// TestRunOfSomeStagesIsNoPass runs one stage that holds: the run as a whole must
// not say so.
func TestRunOfSomeStagesIsNoPass(t *testing.T) {
	t.Attr("requirement", "VERIFY-29")
	r, err := Run(t.Context(), Options{Root: "..", Stages: []string{"lint"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stages) != 1 || r.Stages[0].Verdict != model.Holds {
		t.Fatalf("the stages are %v, want lint alone, which holds", r.Stages)
	}
	if r.Verdict != model.Inconclusive {
		t.Errorf("the run says %q, want %q", r.Verdict, model.Inconclusive)
	}
}
