package execution

import (
	"bytes"
	"context"
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
// Then it asks of the whole suite that every always and step property is
// violated by some deviation, so that none of them is true for want of a way to
// be false.
func TestSuite(t *testing.T) {
	records := map[string]goldenRecord{}
	violated := map[string]bool{}
	judged := map[string]bool{}
	want := golden()
	suite := Suite()
	for i, e := range entries() {
		r, err := suite.Cases[i].Check(context.Background(), model.Options{})
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if !r.Complete {
			t.Fatalf("%s: the space was not explored whole: %s", e.name, r.Reason)
		}
		got := found(r)
		got.Sentence = e.sentence
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
