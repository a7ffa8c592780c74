package spec

import (
	"slices"
	"strings"
	"testing"
)

// also appends a requirement to the fixture.
func also(r Requirement) func(*Set) {
	return func(s *Set) { s.Requirements = append(s.Requirements, r) }
}

func waive(w Waiver) func(*Set) {
	return func(s *Set) {
		w.File, w.Line = "waivers.toml", 1
		s.Waivers = append(s.Waivers, w)
	}
}

func both(a, b func(*Set)) func(*Set) {
	return func(s *Set) { a(s); b(s) }
}

func retire(id, by string) func(*Set) {
	return func(s *Set) {
		r := s.get(id)
		r.Status, r.Layers, r.ReplacedBy = Retired, nil, by
	}
}

func refines(from, to string) func(*Set) {
	return func(s *Set) { r := s.get(from); r.Refines = append(r.Refines, to) }
}

func derives(from, to string) func(*Set) {
	return func(s *Set) { r := s.get(from); r.Derives = append(r.Derives, to) }
}

var setCases = []codeCase{
	{CodeDuplicateID, also(rule("BASE-3", Ubiquitous, "", "write a log")), also(rule("BASE-4", Ubiquitous, "", "write a log"))},
	{CodeDuplicateID, both(retire("BASE-3", ""), also(rule("BASE-3", Ubiquitous, "", "write a log"))), nil},
	{CodeID, func(s *Set) { s.get("BASE-3").ID = "BASE-03" }, nil},
	{CodeID, func(s *Set) { s.get("BASE-3").File = "requirements/more.toml" }, nil},
	{CodeID, func(s *Set) { s.get("BASE-3").ID = "OTHER-3" }, nil},
	{CodeOrder, func(s *Set) { s.get("BASE-3").Line = 1 }, func(s *Set) { s.get("BASE-3").ID = "BASE-7" }},
	{CodeDuplicate, also(rule("BASE-4", EventDriven, "a launch call arrives", "answer 200 within the 5 seconds")),
		also(rule("BASE-4", EventDriven, "a token arrives", "answer 200 within 5 seconds"))},
	{CodeNearDuplicate, also(rule("BASE-4", EventDriven, "a start request arrives again", "answer 200 within 5 seconds")),
		also(rule("BASE-4", EventDriven, "a start request arrives again", "answer 200 within 6 seconds"))},
	{CodeContradiction, also(rule("BASE-4", Unwanted, "a start request arrives", "answer 409")), also(rule("BASE-4", Unwanted, "a start request arrives", "write a log"))},
	{CodeContradiction, also(rule("BASE-4", StateDriven, "the token is installed", "send no SIGTERM to each worker")),
		also(rule("BASE-4", StateDriven, "no token is installed", "send no SIGTERM to each worker"))},
	{CodeContradiction, both(also(rule("BASE-4", EventDriven, "a worker ends", "publish `done` set to true")), also(rule("BASE-5", EventDriven, "a worker ends", "publish `done` set to false"))),
		both(also(rule("BASE-4", EventDriven, "a worker ends", "publish `done` set to true")), also(rule("BASE-5", EventDriven, "a worker ends", "publish `late` set to false")))},
	{CodeContradiction, both(also(rule("BASE-4", EventDriven, "a worker ends", "enter the phase `ended`")), also(rule("BASE-5", EventDriven, "a worker ends", "enter the phase `idle`"))), nil},
	{CodeContradiction, also(rule("BASE-4", Unwanted, "a start request brings no token", "answer 503 or 429")),
		also(rule("BASE-4", Unwanted, "a start request brings no token", "answer 503 or 401"))},
	{CodeDangling, refines("BASE-1", "BASE-9"), refines("BASE-1", "BASE-2")},
	{CodeDangling, derives("BASE-1", "GONE-1"), derives("BASE-1", "MORE-1")},
	{CodeCycle, both(refines("BASE-1", "BASE-2"), derives("BASE-2", "BASE-1")), both(refines("BASE-1", "BASE-3"), refines("BASE-2", "BASE-3"))},
	{CodeCycle, refines("BASE-1", "BASE-1"), nil},
	{CodeRetired, both(retire("BASE-3", ""), refines("BASE-1", "BASE-3")), both(retire("BASE-3", ""), refines("BASE-3", "BASE-1"))},
	{CodeReplacement, retire("BASE-3", "BASE-9"), retire("BASE-3", "BASE-2")},
	{CodeReplacement, edit(func(r *Requirement) { r.ReplacedBy = "BASE-2" }), nil},
	{CodeTitle, func(s *Set) { s.Families[0].Title = " " }, nil},

	{CodeOrphanTerm, func(s *Set) { s.get("BASE-3").Response = "end each worker" }, nil},
	{CodeDuplicateTerm, func(s *Set) { s.Terms[3].Aliases = []string{"SIGTERM"} }, func(s *Set) { s.Terms[3].Aliases = []string{"password"} }},
	{CodeDefinition, func(s *Set) { s.Terms[0].Definition = "" }, nil},
}

var waiverCases = []codeCase{
	{CodeWaiverTarget, waive(layerWaiver("BASE-9", LayerTest)), waive(layerWaiver("BASE-1", LayerTest))},
	{CodeWaiverTarget, waive(layerWaiver("BASE-1", "proof")), nil},
	{CodeWaiverTarget, waive(codeWaiver("BASE-1", "SPEC-L999")), both(respond("answer quickly"), waive(codeWaiver("BASE-1", CodeVague)))},
	{CodeWaiverTarget, waive(codeWaiver("BASE-1", CodeWaiverEnded)), nil},
	{CodeWaiverReason, waive(Waiver{Requirement: "BASE-1", Layer: LayerTest, Owner: "spec", Until: "1.0.0"}), waive(layerWaiver("BASE-1", LayerTest))},
	{CodeWaiverEnded, waive(until("0.3.0")), waive(until("0.3.1"))},
	{CodeWaiverEnded, waive(until("0.2.9")), waive(until("0.10.0"))},
	{CodeWaiverNeedless, waive(codeWaiver("BASE-1", CodeVague)), both(respond("answer quickly"), waive(codeWaiver("BASE-1", CodeVague)))},
	{CodeWaiverNeedless, waive(layerWaiver("BASE-1", LayerReplay)), waive(layerWaiver("BASE-1", LayerModel))},
	{CodeWaiverForm, waive(until("2027-01-31")), waive(until("1.0.0"))},
	{CodeWaiverForm, waive(until("2027.1.31")), nil},
	{CodeWaiverForm, waive(until("")), nil},
	{CodeWaiverForm, waive(Waiver{Requirement: "BASE-1", Reason: "the work is not done yet", Owner: "spec", Until: "1.0.0"}), nil},
	{CodeWaiverForm, waive(Waiver{Requirement: "BASE-1", Layer: LayerTest, Code: CodeVague, Reason: "the work is not done yet", Owner: "spec", Until: "1.0.0"}), nil},
	{CodeWaiverOwner, waive(Waiver{Requirement: "BASE-1", Layer: LayerTest, Reason: "the work is not done yet", Until: "1.0.0"}), waive(layerWaiver("BASE-1", LayerTest))},
}

func layerWaiver(id string, l Layer) Waiver {
	return Waiver{Requirement: id, Layer: l, Reason: "the work is not done yet", Owner: "spec", Until: "1.0.0"}
}

func codeWaiver(id, code string) Waiver {
	return Waiver{Requirement: id, Code: code, Reason: "the work is not done yet", Owner: "spec", Until: "1.0.0"}
}

func until(version string) Waiver {
	w := layerWaiver("BASE-1", LayerTest)
	w.Until = version
	return w
}

// TestSetCodes: each rule on the set and the glossary fires, and stays quiet on
// the nearest set that is fine.
func TestSetCodes(t *testing.T) { runCodeCases(t, setCases) }

// TestWaiverCodes: a waiver without a reason, ended or needless is an error.
func TestWaiverCodes(t *testing.T) {
	t.Attr("requirement", "VERIFY-3")
	runCodeCases(t, waiverCases)
}

// TestEveryCodeHasACase: a code without a case could be one that never fires.
func TestEveryCodeHasACase(t *testing.T) {
	t.Attr("requirement", "VERIFY-26")
	elsewhere := []string{CodeChanged, CodeUnreviewed, CodeStray} // TestReview…
	cases := slices.Concat(sentenceCases, setCases, waiverCases)
	for _, c := range Codes() {
		has := slices.ContainsFunc(cases, func(k codeCase) bool { return k.code == c.ID })
		if has == slices.Contains(elsewhere, c.ID) {
			t.Errorf("%s (%s) has a case: %t", c.ID, c.Title, has)
		}
	}
}

// TestWaiverCoversItsFindingOnly: the waived finding stays visible with the reason,
// and nothing else is waived with it.
func TestWaiverCoversItsFindingOnly(t *testing.T) {
	t.Attr("requirement", "VERIFY-3")
	report := lintOf(both(respond("answer quickly (always)"), waive(codeWaiver("BASE-1", CodeVague))))
	if report.Waived() != 1 || report.Errors() != 3 {
		t.Fatalf("waived %d, errors %d, want 1 and 3 (one absolute, two parentheses): %v", report.Waived(), report.Errors(), report.Findings)
	}
	for _, f := range report.Findings {
		if (f.Code == CodeVague) != (f.Waived != "") {
			t.Errorf("%v: waived %q", f, f.Waived)
		}
	}
}

// TestEndedWaiverIsNotInForce: neither the matrix nor a reader may count on it.
func TestEndedWaiverIsNotInForce(t *testing.T) {
	t.Attr("requirement", "VERIFY-3")
	for version, want := range map[string]bool{"0.3.1": true, "0.3.0": false, "0.1.0": false, "tomorrow": false} {
		s := fixture()
		waive(until(version))(s)
		s.index()
		if _, ok := s.Waived("BASE-1", LayerTest); ok != want {
			t.Errorf("a waiver until %q in version %s is in force: %t, want %t", version, s.Version, ok, want)
		}
		if _, ok := s.Waived("BASE-1", LayerModel); ok {
			t.Errorf("a waiver of the test layer waives the model layer")
		}
	}
}

// TestNeedlessLayerWaiver: once the matrix has evidence, the waiver is a finding.
func TestNeedlessLayerWaiver(t *testing.T) {
	t.Attr("requirement", "VERIFY-3")
	s := fixture()
	waive(layerWaiver("BASE-1", LayerTest))(s)
	s.index()
	if got := NeedlessWaivers(s, func(string, Layer) bool { return false }); len(got) != 0 {
		t.Errorf("a needed waiver is reported: %v", got)
	}
	got := NeedlessWaivers(s, func(id string, l Layer) bool { return id == "BASE-1" && l == LayerTest })
	if len(got) != 1 || got[0].Code != CodeWaiverNeedless || !strings.Contains(got[0].Message, "BASE-1") {
		t.Errorf("findings %v, want one %s", got, CodeWaiverNeedless)
	}
}
