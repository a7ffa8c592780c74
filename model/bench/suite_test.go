package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"microvms/model"
)

// checkRow checks one row of the table with two workers.
func checkRow(t *testing.T, row Published) {
	t.Helper()
	r, err := row.Check(context.Background(), model.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	if found := departures(r, row.Expect()); len(found) > 0 {
		t.Errorf("%s:\n%s\nreason: %s\nsource: %s", row.Name(), strings.Join(found, "\n"), r.Reason, row.Source)
	}
	t.Logf("generated=%d distinct=%d depth=%d seconds=%.3f bytes=%d", r.States, r.Distinct, r.Depth, r.Timing.Seconds, r.Timing.PeakHeap)
}

// departures lists in what a report departs from the published counts and the
// exact set of violated properties.
func departures(r *model.Report, want model.Expect) []string {
	out := want.Compare(r)
	verdict := model.Holds
	if len(want.Violated) > 0 {
		verdict = model.Violated
	}
	if r.Verdict != verdict {
		out = append(out, fmt.Sprintf("the verdict is %s, expected %s", r.Verdict, verdict))
	}
	if len(r.Properties) == 0 {
		out = append(out, "no property was judged")
	}
	return out
}

// TestPublishedCounts checks every port of up to a million generated states
// against its published counts. The larger ones are in big_test.go.
func TestPublishedCounts(t *testing.T) {
	t.Attr("requirement", "CHECK-6")
	n := 0
	for _, row := range Table() {
		if row.Big() {
			continue
		}
		n++
		t.Run(row.Name(), func(t *testing.T) { checkRow(t, row) })
	}
	if n < 40 {
		t.Errorf("looked at %d rows, expected at least 40", n)
	}
}

// TestShortestCounterexamples looks at the puzzles whose shortest solutions are
// published: as counterexamples and as examples, for one and several workers.
func TestShortestCounterexamples(t *testing.T) {
	t.Attr("requirement", "CHECK-1")
	want := map[string]struct {
		property string
		steps    int
	}{
		"die-hard":                          {"the puzzle is solved", 6},
		"die-hard-puzzle":                   {"NotSolved", 6},
		"missionaries-and-cannibals":        {"the puzzle is solved", 11},
		"missionaries-and-cannibals-puzzle": {"Solution", 11},
		"tower-of-hanoi-5":                  {"the puzzle is solved", 31},
		"tower-of-hanoi-5-puzzle":           {"NotSolved", 31},
		"linear-equation-2-10-14":           {"solvable", 3},
	}
	for _, row := range Table() {
		w, ok := want[row.Name()]
		if !ok {
			continue
		}
		delete(want, row.Name())
		for _, workers := range []int{1, 2, 4} {
			r, err := row.Check(context.Background(), model.Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.Properties, func(p model.PropertyReport) bool { return p.Name == w.property })
			if i < 0 || r.Properties[i].Path == nil || r.Properties[i].Path.Len() != w.steps {
				t.Errorf("%s, %d workers: %q has no path of %d steps: %+v", row.Name(), workers, w.property, w.steps, r.Properties)
			}
		}
	}
	for name := range want {
		t.Errorf("the table has no row %q", name)
	}
}

// TestDeparturesAreSeen shows the judge of this package going red for each
// thing that it compares.
func TestDeparturesAreSeen(t *testing.T) {
	t.Attr("requirement", "CHECK-15")
	want := model.Expect{Distinct: 16, States: 97, Depth: 8}
	for name, spoil := range map[string]func(*model.Report){
		"15 distinct states":     func(r *model.Report) { r.Distinct-- },
		"98 states":              func(r *model.Report) { r.States++ },
		"depth 9":                func(r *model.Report) { r.Depth++ },
		"inconclusive":           func(r *model.Report) { r.Complete = false },
		"the verdict is":         func(r *model.Report) { r.Verdict = model.Inconclusive },
		"no property was judged": func(r *model.Report) { r.Properties = nil },
		`"p" is violated`:        func(r *model.Report) { r.Properties[0].Verdict = model.Violated },
		`"p" is inconclusive`:    func(r *model.Report) { r.Properties[0].Verdict = model.Inconclusive },
		"action Fill never":      func(r *model.Report) { r.DeadActions = []string{"Fill"} },
	} {
		r := &model.Report{
			Distinct: 16, States: 97, Depth: 8, Complete: true, Verdict: model.Holds,
			Properties: []model.PropertyReport{{Name: "p", Verdict: model.Holds}},
		}
		if found := departures(r, want); len(found) > 0 {
			t.Fatalf("unspoiled: %v", found)
		}
		spoil(r)
		if found := departures(r, want); len(found) != 1 || !strings.Contains(found[0], name) {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

// TestTableNamesSources requires a source and pinned counts for each row, and
// names that are unique.
func TestTableNamesSources(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Table() {
		e := row.Expect()
		if row.Source == "" || e.Distinct == 0 || e.States == 0 || e.Depth == 0 {
			t.Errorf("%s: not pinned or without a source", row.Name())
		}
		if seen[row.Name()] {
			t.Errorf("%s: named twice", row.Name())
		}
		seen[row.Name()] = true
	}
	for _, c := range faultCases() {
		if seen[c.Name()] || c.Expect().Deviation == "" || len(c.Expect().Violated) == 0 {
			t.Errorf("%s: named twice, without a deviation, or with nothing violated", c.Name())
		}
		seen[c.Name()] = true
	}
	if got := len(Suite().Cases); got != len(seen) {
		t.Errorf("the suite has %d cases, the table and the faults %d", got, len(seen))
	}
}

// TestFaultsAreSeen checks every planted fault, and every model whose fairness
// was taken away or weakened, for the exact set of violated properties.
func TestFaultsAreSeen(t *testing.T) {
	t.Attr("requirement", "CHECK-4")
	n := 0
	for _, c := range faultCases() {
		n++
		t.Run(c.Name(), func(t *testing.T) {
			r, err := c.Check(context.Background(), model.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			if found := departures(r, c.Expect()); len(found) > 0 {
				t.Errorf("%s", strings.Join(found, "\n"))
			}
		})
	}
	if n < 40 {
		t.Errorf("looked at %d cases, expected at least 40", n)
	}
}

// TestEveryPropertyIsChallenged requires of the suite that some case violates
// each property, so that none is true by construction.
func TestEveryPropertyIsChallenged(t *testing.T) {
	suite := Suite()
	var reports []*model.Report
	for _, c := range suite.Cases {
		if c.Expect().States > 100_000 {
			continue
		}
		r, err := c.Check(context.Background(), model.Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	if names := suite.Unchallenged(reports); len(names) > 0 {
		t.Errorf("no case violates %q", names)
	}
	suite.Cases = suite.Cases[:1]
	if names := suite.Unchallenged(reports); len(names) < 20 {
		t.Errorf("without the planted faults only %q are unchallenged", names)
	}
}
