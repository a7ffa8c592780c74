// Package modeltest holds what the tests of every model package ask of their
// suite, so that a model package's own tests say only what is particular to it.
package modeltest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"microvms/model"
)

var update = flag.Bool("update", false, "rewrite the golden record")

// goldenFile is where a model package keeps its golden record.
const goldenFile = "testdata/configs.golden"

// Record says how a suite is held to its golden record.
type Record struct {
	Suite model.Suite
	// Published selects the cases whose numbers are a publication's: they may leave counts out, and are never rewritten.
	// Nil means none.
	Published func(name string) bool
	// Left selects the cases that are too large for the running binary. Nil means none.
	Left func(name string) bool
	// Candidates are cases beyond those of the suite that a rewritten record holds as well if something is violated
	// in them: the package chooses among them by its record.
	Candidates []Candidate
}

// Candidate is a configuration that belongs to the suite only if its deviation
// is noticed.
type Candidate struct {
	Name, Deviation string
	Check           func() (*model.Report, error)
}

func (r *Record) published(name string) bool { return r.Published != nil && r.Published(name) }
func (r *Record) left(name string) bool      { return r.Left != nil && r.Left(name) }

// Judge checks every configuration: exact counts, the exact set of violated
// properties, shortest counterexamples. Then it judges the properties
// themselves: each one that says "always", "eventually" or "leads to" is
// violated by a planted fault or waived with a reason, each planted fault is
// noticed, and what passes passes without being vacuous or leaving an action
// dead.
//
// With the flag -update it rewrites the golden record and fails, so that the
// difference is read and the test run again.
func Judge(t *testing.T, r Record) {
	t.Helper()
	reports := map[string]*model.Report{}
	var ordered []*model.Report
	for _, c := range r.Suite.Cases {
		if r.left(c.Name()) {
			continue
		}
		report, err := c.Check(t.Context(), model.Options{Workers: 2})
		if err != nil {
			t.Fatalf("case %q: %v", c.Name(), err)
		}
		if reports[c.Name()] != nil {
			t.Fatalf("two cases are named %q", c.Name())
		}
		reports[c.Name()] = report
		ordered = append(ordered, report)
	}
	if *update {
		rewrite(t, &r, reports)
	}
	for _, c := range r.Suite.Cases {
		if report := reports[c.Name()]; report != nil {
			t.Run(c.Name(), func(t *testing.T) {
				for _, p := range problems(c, report, r.published(c.Name())) {
					t.Error(p)
				}
			})
		}
	}
	if unchallenged, stale := r.Suite.Unchallenged(ordered), r.Suite.StaleWaivers(ordered); len(unchallenged)+len(stale) > 0 {
		t.Errorf("no deviation violates %q; needless waivers for %q", unchallenged, stale)
	}
}

// problems says what is wrong with one case: nothing, when it is as its record
// says and the record says enough.
func problems(c model.Case, report *model.Report, published bool) []string {
	want := c.Expect()
	out := want.Compare(report)
	if want.Deviation != "" && len(want.Violated) == 0 && !published {
		out = append(out, "nothing notices that "+want.Deviation)
	}
	if !published && (want.Distinct == 0 || want.States == 0 || want.Depth == 0) {
		out = append(out, "the counts are not pinned")
	}
	return out
}

func rewrite(t *testing.T, r *Record, reports map[string]*model.Report) {
	t.Helper()
	optional := map[string]bool{}
	for _, c := range r.Candidates {
		optional[c.Name] = true
	}
	var parts []string
	for _, c := range r.Suite.Cases {
		if r.published(c.Name()) || optional[c.Name()] {
			continue
		}
		report := reports[c.Name()]
		if report == nil {
			t.Fatalf("case %q was left out: rewrite the record without the race detector", c.Name())
		}
		sentence := c.Expect().Deviation
		if sentence == "" {
			sentence = "the specified rule"
		}
		parts = append(parts, model.FormatGolden(c.Name(), sentence, report.Found()))
	}
	for _, c := range r.Candidates {
		report, err := c.Check()
		if err != nil {
			t.Fatalf("case %q: %v", c.Name, err)
		}
		if e := report.Found(); len(e.Violated) > 0 {
			parts = append(parts, model.FormatGolden(c.Name, c.Deviation, e))
		}
	}
	if err := os.WriteFile(goldenFile, []byte(strings.Join(parts, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Fatal("golden record rewritten: read the difference, then run the test again")
}

// Panics checks that each of the calls panics: bounds of a configuration that
// is written by hand are checked, not believed.
func Panics(t *testing.T, calls ...func()) {
	t.Helper()
	for i, call := range calls {
		if !panics(call) {
			t.Errorf("call %d was taken, and is out of bounds", i+1)
		}
	}
}

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}
