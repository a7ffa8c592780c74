package spec

import (
	"strings"
	"testing"
)

// codeCase makes one code fire, and shows the nearest text that must not.
type codeCase struct {
	code         string
	fires, quiet func(*Set)
}

// respond and trigger edit the first two requirements of the fixture.
func respond(text string) func(*Set) { return func(s *Set) { s.get("BASE-1").Response = text } }
func trigger(text string) func(*Set) { return func(s *Set) { s.get("BASE-1").Trigger = text } }
func edit(f func(*Requirement)) func(*Set) {
	return func(s *Set) { f(s.get("BASE-1")) }
}

var sentenceCases = []codeCase{
	{CodePattern, edit(func(r *Requirement) { r.Pattern = StateDriven }), edit(func(r *Requirement) { r.Pattern = Unwanted })},
	{CodePattern, edit(func(r *Requirement) { r.Pattern = Complex }), edit(func(r *Requirement) { r.Pattern, r.Precondition = Complex, "a token is installed" })},
	{CodePattern, edit(func(r *Requirement) { r.Pattern, r.Unwanted = Complex, "a token is missing" }), edit(func(r *Requirement) {
		r.Pattern, r.Unwanted, r.Trigger, r.Feature = Complex, r.Trigger, "", "logging is configured"
	})},
	{CodePattern, edit(func(r *Requirement) { r.Pattern = "sometimes" }), nil},
	{CodeClauseOrder, trigger("a start request arrives, if a token is installed"), trigger("a start request arrives while a token is installed")},
	{CodeClauseOrder, respond("answer 200, then answer 401"), respond("answer 200 after the token")},
	{CodeClauseOrder, trigger("a start request arrives, the daemon shall wait"), nil},
	{CodeClauseOrder, trigger("a start request arrives, while a token is installed"), nil},
	{CodeShall, respond("answer 200 and shall log"), respond("answer 200 and log")},
	{CodeSystem, edit(func(r *Requirement) { r.System = "the server" }), edit(func(r *Requirement) { r.System = "the client" })},
	{CodeTerm, respond("answer HTTP with 5 seconds"), respond("send SIGTERM and read `HTTP` within 5 seconds")},
	{CodeAlias, trigger("a launch call arrives"), trigger("a start request arrives")},
	{CodeAlias, respond("compare the secrets"), respond("compare the tokens")},
	{CodeQuoted, respond(`log the word "gone"`), respond("log the word `gone`")},
	{CodeVague, respond("answer quickly"), respond("answer within 5 seconds")},
	{CodeEscape, respond("answer 200 if possible"), respond("answer 200 in a possible world")},
	{CodePassive, respond("answer 200 as work is started"), respond("answer 200 as work is there")},
	{CodePassive, respond("report that work was not cleanly ended"), respond("report an ended start request")},
	{CodePassive, respond("report that bytes are lost"), trigger("bytes of a start request are lost")},
	{CodePronoun, respond("answer 200 and forget it"), respond("answer 200 and forget the token")},
	{CodeAbsolute, respond("always answer 200"), respond("answer 200 each time")},
	{CodeQuantifier, respond("answer all requests"), respond("answer each request")},
	{CodeOpenList, respond("log names, ports, etc"), respond("log names and ports")},
	{CodeOpenList, respond("log names …"), respond("log names, `…` or ports")},
	{CodeSlash, respond("log names and/or ports"), respond("log `names/ports`")},
	{CodeParenthesis, respond("log names (sorted)"), respond("log `names(1)`")},
	{CodeCombinator, respond("answer 200 unless the token is bad"), respond("answer 200 without a token")},
	{CodePurpose, respond("answer 200 so that the client knows"), respond("answer 200 so late")},
	{CodeUnit, respond("answer within 5"), respond("answer within 5 seconds")},
	{CodeUnit, respond("wait for 3 or 4 workers"), nil},
	{CodeUnit, respond("answer with 17"), respond("answer 200 or 401")},
	{CodeUnit, respond("fail on an exit code below 3"), respond("fail on an exit code other than 0")},
	{CodeDecimal, respond("send 65,536 bytes"), respond("send 65536 bytes")},
	{CodeDecimal, respond("wait for .5 seconds"), respond("wait for 0.5 seconds")},
	{CodeDecimal, respond("wait for 007 seconds"), respond("wait for 7 seconds")},
	{CodeLength, respond("log" + strings.Repeat(" name", 45)), respond("log" + strings.Repeat(" name", 30))},
	{CodeInfinitive, respond("be able to answer"), respond("answer an able client")},
	{CodeModal, trigger("a start request may arrive"), trigger("a start request arrives in time")},
	{CodeForm, respond("answer 200."), respond("answer 200")},
	{CodeForm, respond("Answer 200"), trigger("SIGTERM arrives")},
	{CodeForm, respond("answer  200"), nil},
	{CodeForm, respond("answer 200\nor 401"), nil},
	{CodeForm, respond(""), nil},
	{CodeForm, respond("answer `200"), respond("answer `200`")},
	{CodeRationale, edit(func(r *Requirement) { r.Rationale = "" }), edit(func(r *Requirement) { r.Rationale = "Nobody else can know." })},
	{CodeRationale, edit(func(r *Requirement) { r.Rationale = "It is needed" }), nil},
	{CodeSource, edit(func(r *Requirement) { r.Source = "wire facts" }), edit(func(r *Requirement) { r.Source = "wire facts, sections 2, 3 and 7.4; models facts, section 1 (M1)" })},
	{CodeSource, edit(func(r *Requirement) { r.Source = "" }), edit(func(r *Requirement) { r.Source = "hostile input facts, row H2" })},
	{CodeStrength, edit(func(r *Requirement) { r.Strength = "S9" }), edit(func(r *Requirement) { r.Strength = "S4" })},
	{CodeLayers, edit(func(r *Requirement) { r.Layers = nil }), edit(func(r *Requirement) { r.Layers = []Layer{LayerTest} })},
	{CodeLayers, edit(func(r *Requirement) { r.Layers = []Layer{"proof", LayerTest} }), edit(func(r *Requirement) { r.Layers = Layers() })},
	{CodeLayers, edit(func(r *Requirement) { r.Layers = []Layer{LayerTest, LayerModel} }), nil},
	{CodeLayers, edit(func(r *Requirement) { r.Layers = []Layer{LayerTest, LayerTest} }), nil},
	{CodeHead, respond("count each frobnication request"), respond("count each start request")},
	{CodeHead, respond("count slow-moving requests"), respond("count refused requests")},
	{CodeIdeas, respond("log names and ports and users and groups"), respond("log names and ports and users")},
	{CodeIdeas, respond("log names; log ports"), respond("log names, ports")},
	{CodeStatus, edit(func(r *Requirement) { r.Status = "verified" }), edit(func(r *Requirement) { r.Status = Draft })},
	{CodeTestLayer, edit(func(r *Requirement) { r.Layers = []Layer{LayerModel} }), edit(func(r *Requirement) { r.Layers, r.Status = []Layer{LayerModel}, Draft })},
}

// TestSentenceCodes: each rule on a sentence fires on its case and stays quiet on
// the nearest text that is fine.
func TestSentenceCodes(t *testing.T) { runCodeCases(t, sentenceCases) }

func runCodeCases(t *testing.T, cases []codeCase) {
	t.Helper()
	for _, c := range cases {
		if report := lintOf(c.fires); !report.has(c.code) {
			t.Errorf("%s does not fire: %v", c.code, report.Findings)
		}
		if c.quiet == nil {
			continue
		}
		if report := lintOf(c.quiet); report.has(c.code) {
			t.Errorf("%s fires where it must not: %v", c.code, report.Findings)
		}
	}
}

// TestFindingNamesItsPlace: an editor finds the requirement from the line that the
// linter prints.
func TestFindingNamesItsPlace(t *testing.T) {
	report := lintOf(respond("answer quickly"))
	if len(report.Findings) != 1 {
		t.Fatalf("findings %v, want one", report.Findings)
	}
	got := report.Findings[0].String()
	if !strings.HasPrefix(got, "requirements/base.toml:3: error SPEC-L008 BASE-1: \"quickly\" in the response is vague; ") {
		t.Errorf("finding prints as %q", got)
	}
}
