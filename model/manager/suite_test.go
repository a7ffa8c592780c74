package manager

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"microvms/model"
)

var update = flag.Bool("update", false, "rewrite the golden file from what the checker finds")

// found reduces a report to what the golden file pins.
func found(r *model.Report) goldenRecord {
	g := goldenRecord{Distinct: r.Distinct, States: r.States, Depth: r.Depth}
	for _, p := range r.Properties {
		if p.Verdict != model.Violated {
			continue
		}
		if g.Violated == nil {
			g.Violated = map[string]int{}
		}
		g.Violated[p.Name] = -1
		if p.Path != nil {
			g.Violated[p.Name] = p.Path.Len()
		}
	}
	return g
}

// TestSuite checks every configuration and compares it with the golden record:
// exact counts, exact set of violated properties, exact counterexample lengths.
// Then it asks of the whole suite that every always, step and leads-to property
// is violated by some deviation, so that none of them is true for want of a way
// to be false.
func TestSuite(t *testing.T) {
	records := map[string]goldenRecord{}
	violated := map[string]bool{}
	judged := map[string]bool{}
	want := golden()
	suite := Suite()
	for i, e := range entries() {
		if want[e.name].States > 1e6 && !bigCounts && !*update {
			continue
		}
		r, err := suite.Cases[i].Check(t.Context(), model.Options{})
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if !r.Complete {
			t.Fatalf("%s: the space was not explored whole: %s", e.name, r.Reason)
		}
		got := found(r)
		got.Sentence = e.sentence
		if _, twice := records[e.name]; twice {
			t.Errorf("two configurations are named %q", e.name)
		}
		records[e.name] = got
		if diff := cmp.Diff(want[e.name], got); diff != "" && !*update {
			t.Errorf("%s differs from its golden record (-want +got):\n%s", e.name, diff)
		}
		for _, p := range r.Properties {
			if p.Verdict == model.Inconclusive {
				t.Errorf("%s: %q is inconclusive", e.name, p.Name)
			}
			if p.Kind == "always" || p.Kind == "step" || p.Kind == "leads-to" {
				judged[p.Name] = true
				violated[p.Name] = violated[p.Name] || e.deviates && p.Verdict == model.Violated
			}
			if !e.deviates && (p.Verdict != model.Holds || p.Vacuous) {
				t.Errorf("%s: %q: %s, vacuous %v", e.name, p.Name, p.Verdict, p.Vacuous)
			}
		}
		if !e.deviates && len(r.DeadActions) > 0 {
			t.Errorf("%s: dead actions %v", e.name, r.DeadActions)
		}
		if e.deviates && len(got.Violated) == 0 {
			t.Errorf("%s: the deviation violates nothing", e.name)
		}
	}
	for name := range judged {
		if !violated[name] {
			t.Errorf("no deviation violates %q", name)
		}
	}
	if *update {
		writeGolden(t, records)
	}
}

func writeGolden(t *testing.T, records map[string]goldenRecord) {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(records); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/expect.golden", out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSymmetry counts, in the unreduced graph, the states that differ by more
// than the numbers of their connections: the reduced search must find as many.
func TestSymmetry(t *testing.T) {
	c := Config{Name: "small", Runs: 1, Conns: 2, Tokens: []uint8{1}, NoTime: true}
	whole, err := model.Explore(t.Context(), New(c), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	classes := map[State]bool{}
	for _, s := range whole.States {
		classes[canonical(s)] = true
	}
	c.Symmetric = true
	r, err := model.Check(t.Context(), New(c), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Distinct != uint64(len(classes)) || len(classes) >= len(whole.States) {
		t.Errorf("the reduced search found %d states, there are %d classes of %d states", r.Distinct, len(classes), len(whole.States))
	}
	if r.Verdict != model.Holds {
		t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
	}
}
