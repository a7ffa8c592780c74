//go:build !race

package execstart

import (
	"flag"
	"os"
	"strings"
	"testing"

	"microvms/model"
)

var update = flag.Bool("update", false, "rewrite the golden record")

const goldenFile = "testdata/configs.golden"

// TestGoldenRecord checks every configuration: exact counts, the exact set of
// violated properties, shortest counterexamples. Then it judges the properties
// themselves: each one that says "always" or "leads to" is violated by a planted
// fault, each planted fault is noticed, and what passes passes without being
// vacuous or leaving an action dead.
func TestGoldenRecord(t *testing.T) {
	reports := map[string]*model.Report{}
	var ordered []*model.Report
	suite := Suite()
	for _, c := range suite.Cases {
		r, err := c.Check(t.Context(), model.Options{Workers: 2})
		if err != nil {
			t.Fatalf("case %q: %v", c.Name(), err)
		}
		if reports[c.Name()] != nil {
			t.Fatalf("two cases are named %q", c.Name())
		}
		reports[c.Name()] = r
		ordered = append(ordered, r)
	}
	if *update {
		writeGolden(t, reports)
	}
	for _, c := range suite.Cases {
		want := c.Expect()
		t.Run(c.Name(), func(t *testing.T) {
			for _, difference := range want.Compare(reports[c.Name()]) {
				t.Error(difference)
			}
			if want.Deviation != "" && len(want.Violated) == 0 {
				t.Errorf("nothing notices that %s", want.Deviation)
			}
			if !strings.HasPrefix(c.Name(), "m3") && (want.Distinct == 0 || want.States == 0 || want.Depth == 0) {
				t.Error("the counts are not pinned")
			}
		})
	}
	if left, stale := suite.Unchallenged(ordered), suite.StaleWaivers(ordered); len(left)+len(stale) > 0 {
		t.Errorf("no deviation violates %q; needless waivers for %q", left, stale)
	}
}

func writeGolden(t *testing.T, reports map[string]*model.Report) {
	t.Helper()
	var parts []string
	put := func(c Config, r *model.Report) {
		sentence := c.Deviation.String()
		if sentence == "" {
			sentence = "the specified rule"
		}
		parts = append(parts, formatGolden(c.Name, sentence, found(r)))
	}
	for _, c := range Configs() {
		put(c, reports[c.Name])
	}
	atomics := []Config{Sequential()}
	for _, d := range Deviations() {
		atomics = append(atomics, d.atomic())
	}
	for _, c := range atomics {
		r, err := model.Check(t.Context(), NewAtomic(c), model.Options{})
		if err != nil {
			t.Fatalf("atomic form of %s: %v", c.Name, err)
		}
		if c.Deviation == Specified || len(found(r).Violated) > 0 {
			put(c, r)
		}
	}
	if err := os.WriteFile(goldenFile, []byte(strings.Join(parts, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Fatal("golden record rewritten: read the difference, then run the test again")
}
