package spec

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestFingerprintCoversTheNormativeFields: each of them changes it, and nothing
// else does.
func TestFingerprintCoversTheNormativeFields(t *testing.T) {
	t.Attr("requirement", "VERIFY-4")
	base := rule("BASE-1", Complex, "", "answer 200")
	seen := map[string]string{base.Fingerprint(): "the base"}
	for name, change := range map[string]func(*Requirement){
		"id": func(r *Requirement) { r.ID = "BASE-2" }, "pattern": func(r *Requirement) { r.Pattern = Optional },
		"feature": func(r *Requirement) { r.Feature = "x" }, "precondition": func(r *Requirement) { r.Precondition = "x" },
		"trigger": func(r *Requirement) { r.Trigger = "x" }, "unwanted": func(r *Requirement) { r.Unwanted = "x" },
		"system": func(r *Requirement) { r.System = "the client" }, "response": func(r *Requirement) { r.Response = "answer 201" },
		"strength": func(r *Requirement) { r.Strength = "S1" }, "status": func(r *Requirement) { r.Status = Draft },
		"layers": func(r *Requirement) { r.Layers = []Layer{LayerTest} }, "refines": func(r *Requirement) { r.Refines = []string{"BASE-2"} },
		"derives": func(r *Requirement) { r.Derives = []string{"BASE-2"} }, "replaced by": func(r *Requirement) { r.ReplacedBy = "BASE-2" },
		"two fields in one": func(r *Requirement) { r.Feature = "x\nprecondition 1 y" }, "two fields": func(r *Requirement) { r.Feature, r.Precondition = "x", "y" },
	} {
		r := base
		change(&r)
		if other, taken := seen[r.Fingerprint()]; taken {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[r.Fingerprint()] = name
	}
	r := base
	r.Rationale, r.Source, r.Line, r.File = "Another reason for the same rule.", "wire facts, section 2", 7, "elsewhere"
	if r.Fingerprint() != base.Fingerprint() {
		t.Error("rationale, source or place changes the fingerprint")
	}
}

// TestReviewFindings: a text that changed is flagged until it is reviewed, as are
// one never reviewed and a review of nothing.
func TestReviewFindings(t *testing.T) {
	t.Attr("requirement", "VERIFY-4")
	s := fixture()
	s.index()
	s.reviewAll()
	s.get("BASE-1").Response = "answer 201 within 5 seconds"
	delete(s.Reviewed, "BASE-2")
	s.Reviewed["GONE-1"] = "00"
	report := Lint(s)
	if len(report.Findings) != 3 || !report.has(CodeChanged) || !report.has(CodeUnreviewed) || !report.has(CodeStray) {
		t.Fatalf("findings %v, want one each of %s, %s, %s", report.Findings, CodeChanged, CodeUnreviewed, CodeStray)
	}
	for _, f := range report.Findings {
		want := map[string]string{CodeChanged: "BASE-1", CodeUnreviewed: "BASE-2", CodeStray: "GONE-1"}[f.Code]
		if f.Requirement != want {
			t.Errorf("%s names %q, want %q", f.Code, f.Requirement, want)
		}
	}
}

// TestReviewRewritesNamedEntriesOnly: a review is deliberate, one id at a time,
// and what it writes loads again.
func TestReviewRewritesNamedEntriesOnly(t *testing.T) {
	t.Attr("requirement", "VERIFY-4")
	s := fixture()
	s.index()
	s.Reviewed = map[string]string{"BASE-1": "old", "BASE-2": "old", "GONE-1": "old"}
	data, err := Review(s, []string{"BASE-2", "MORE-1"})
	if err != nil {
		t.Fatal(err)
	}
	back := &Set{Reviewed: map[string]string{}}
	if err := loadReviewed(fstest.MapFS{"reviewed.toml": {Data: data}}, back); err != nil {
		t.Fatal(err)
	}
	if len(back.Reviewed) != 3 || back.Reviewed["BASE-1"] != "old" || back.Reviewed["BASE-2"] != s.get("BASE-2").Fingerprint() || back.Reviewed["MORE-1"] == "" {
		t.Errorf("reviewed %v", back.Reviewed)
	}
	if strings.Index(string(data), "BASE-1") > strings.Index(string(data), "BASE-2") {
		t.Error("entries are out of order")
	}
	if _, err := Review(s, []string{"BASE-99"}); err == nil || !strings.Contains(err.Error(), `"BASE-99"`) {
		t.Errorf("a review of an unknown id: %v", err)
	}
}
