package verify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/model"
)

// TestListedStagesRunInTheirOwnOrder runs two stages over a copy of the
// specification: the list selects, and the order is that of the whole run.
func TestListedStagesRunInTheirOwnOrder(t *testing.T) {
	t.Attr("requirement", "VERIFY-12")
	root := copySpec(t)
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module copy\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), Options{Root: root, Stages: []string{"matrix", "lint"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stages) != 2 || r.Stages[0].Name != "lint" || r.Stages[1].Name != "matrix" {
		t.Errorf("stages %+v, want lint and matrix", r.Stages)
	}
	if r.Stages[0].Verdict != model.Holds || len(r.Requirements) == 0 {
		t.Errorf("lint %+v, %d requirements: the stages looked at nothing", r.Stages[0], len(r.Requirements))
	}
	if _, err := Run(context.Background(), Options{Root: root, Stages: []string{"lint", "dreams"}}); err == nil || !strings.Contains(err.Error(), "dreams") {
		t.Errorf("an unknown stage gives %v", err)
	}
	if _, err := Run(context.Background(), Options{Root: t.TempDir()}); err == nil {
		t.Error("a folder without the repository was accepted")
	}
}

// TestChangedMachineIsViolated lets a run rename the machine: the verdict is
// that of no stage, yet the run is violated.
func TestChangedMachineIsViolated(t *testing.T) {
	t.Attr("requirement", "VERIFY-13")
	before := Machine{Hostname: "a", Mounts: "m"}
	for after, want := range map[Machine]model.Verdict{before: model.Holds, {Hostname: "b", Mounts: "m"}: model.Violated} {
		r := &Report{Stages: []Stage{{Name: "tests", Verdict: model.Holds}}}
		r.holdMachine(before, after)
		if got := overall(r.Stages); got != want {
			t.Errorf("from %+v to %+v: %q, want %q", before, after, got, want)
		}
	}
}
