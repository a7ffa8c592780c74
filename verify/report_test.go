package verify

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/model"
)

func sampleReport() *Report {
	return &Report{
		Schema: 1, Commit: "0123456789abcdef", StartedAt: "2026-01-02T03:04:05Z", Verdict: model.Violated,
		Stages: []Stage{{Name: "lint", Verdict: model.Holds, Counts: map[string]int64{"requirements": 2}},
			{Name: "models", Verdict: model.Violated, Problems: []string{"</script> in a problem"}}},
		Models: []ModelEntry{{Name: "bootstrap", Config: "held", Distinct: 4, Actions: map[string]uint64{"HookDecide": 3}, AsExpected: true,
			Properties: []model.PropertyReport{{Name: "p", Kind: "always", Verdict: model.Holds, Path: &model.Path{Loop: -1}}}}},
		Requirements: []Row{{ID: "AGENTD-2", Family: "AGENTD", Sentence: "When …", Verdict: model.Holds, Required: []string{"test"},
			Layers: map[string][]Evidence{"test": {{Ref: "agentd:TestA", Verdict: model.Holds}}}, Waived: map[string]string{"fault": "later"}},
			{ID: "AGENTD-3", Family: "AGENTD", Verdict: model.Violated, Missing: []string{"replay"}}},
	}
}

// TestReportKeepsItsContract checks the names that report.json promises (design, section 4).
func TestReportKeepsItsContract(t *testing.T) {
	t.Attr("requirement", "VERIFY-14")
	dir := t.TempDir()
	if err := sampleReport().Write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatal(err)
	}
	hasKeys(t, "report", top, "schema", "commit", "started_at", "seconds", "verdict", "stages", "models", "requirements")
	hasKeys(t, "stage", first(t, top["stages"]), "name", "verdict", "seconds", "counts")
	m := first(t, top["models"])
	hasKeys(t, "model", m, "name", "config", "states", "distinct", "depth", "seconds", "actions", "properties", "transitions", "replayed")
	hasKeys(t, "property", first(t, m["properties"]), "name", "kind", "verdict", "requirements")
	q := first(t, top["requirements"])
	hasKeys(t, "requirement", q, "id", "sentence", "layers", "waived", "verdict")
	hasKeys(t, "evidence", first(t, q["layers"].(map[string]any)["test"]), "ref", "verdict")
}

func first(t *testing.T, list any) map[string]any {
	t.Helper()
	l, ok := list.([]any)
	if !ok || len(l) == 0 {
		t.Fatalf("%v is no list with an entry", list)
	}
	return l[0].(map[string]any)
}

func hasKeys(t *testing.T, what string, m map[string]any, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			t.Errorf("a %s lacks the key %q", what, k)
		}
	}
}

func TestJUnitCountsFailuresAndErrors(t *testing.T) {
	t.Attr("requirement", "VERIFY-15")
	r := sampleReport()
	r.Stages = append(r.Stages, Stage{Name: "replay", Verdict: model.Inconclusive, Unsure: []string{"stopped"}})
	var got junitSuites
	if err := xml.Unmarshal(r.junit(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 6 || got.Failures != 2 || got.Errors != 1 {
		t.Errorf("%d tests, %d failures, %d errors; want 6, 2, 1", got.Tests, got.Failures, got.Errors)
	}
}

// TestPageIsSelfContained checks that the page asks nobody for anything and that no text of the report can end its script.
func TestPageIsSelfContained(t *testing.T) {
	t.Attr("requirement", "VERIFY-16")
	page, err := sampleReport().html()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if n := strings.Count(text, "</script>"); n != 2 {
		t.Errorf("the page has %d ends of script, want 2", n)
	}
	for _, bad := range []string{"src=", "href=\"http", "@import", "fetch("} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q: it must need nothing from outside", bad)
		}
	}
	if !strings.Contains(text, `"AGENTD-2"`) {
		t.Error("the page lacks the report's data")
	}
}
