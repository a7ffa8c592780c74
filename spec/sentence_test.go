package spec

import (
	"strings"
	"testing"
)

var systems = []System{{"the daemon", ""}, {"the client", ""}}

// TestSentence: one rendering for each pattern, and it reads back.
func TestSentence(t *testing.T) {
	for _, c := range []struct {
		r    Requirement
		want string
	}{
		{Requirement{Pattern: Ubiquitous}, "The daemon shall answer."},
		{Requirement{Pattern: EventDriven, Trigger: "x"}, "When x, the daemon shall answer."},
		{Requirement{Pattern: StateDriven, Precondition: "x"}, "While x, the daemon shall answer."},
		{Requirement{Pattern: Unwanted, Trigger: "x"}, "If x, then the daemon shall answer."},
		{Requirement{Pattern: Optional, Feature: "x"}, "Where x, the daemon shall answer."},
		{Requirement{Pattern: Complex, Feature: "x", Precondition: "y", Trigger: "z"}, "Where x, while y, when z, the daemon shall answer."},
		{Requirement{Pattern: Complex, Precondition: "y", Unwanted: "z"}, "While y, if z, then the daemon shall answer."},
	} {
		c.r.System, c.r.Response = "the daemon", "answer"
		if got := c.r.Sentence(); got != c.want {
			t.Errorf("%s: %q, want %q", c.r.Pattern, got, c.want)
		}
		if back, err := Parse(c.want, systems); err != nil || back != c.r.clauses() {
			t.Errorf("%q reads back as %+v, %v", c.want, back, err)
		}
	}
}

// TestParseRefuses: what is no sentence of the language is an error that quotes it.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", ".", "The daemon shall answer", "The daemon answers.", "The server shall answer.", "When x the daemon shall answer.",
		"When , the daemon shall answer.", "when x, the daemon shall answer.", "If x, the daemon shall answer.", "When x, while y, the daemon shall answer.", "X, the daemon shall answer.",
		"the daemon shall answer.", " shall answer."} {
		if c, err := Parse(text, systems); err == nil || !strings.Contains(err.Error(), "cannot parse sentence") {
			t.Errorf("Parse(%q) = %+v, %v; want an error", text, c, err)
		}
	}
}

// FuzzParse: whatever parses renders to the same text, so the two are one grammar.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"The daemon shall answer.", "Where x, while y, when z, the client shall wait.", "If a, then the daemon shall b.",
		"While a, if b, then the daemon shall c, while d.", "When x, the daemon shall shall .", "Where , while , then the daemon shall x."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text, systems)
		if err != nil {
			return
		}
		if got := c.Sentence(); got != text {
			t.Errorf("%q parses to %+v, which renders as %q", text, c, got)
		}
	})
}

// FuzzRequirement: for any clauses the linter terminates without panic, and a
// requirement that it finds clean reads back from its sentence.
func FuzzRequirement(f *testing.F) {
	f.Add("a start request arrives", "", "answer 200")
	f.Add("x, while y", "z, if", "`")
	f.Add("\"", "(", "1.2.3 and/or … 5 bytes")
	f.Fuzz(func(t *testing.T, trigger, precondition, response string) {
		s := fixture()
		r := s.get("BASE-1")
		r.Trigger, r.Response, r.Pattern = trigger, response, EventDriven
		if precondition != "" {
			r.Precondition, r.Pattern = precondition, Complex
		}
		s.reviewAll()
		report := Lint(s)
		if report.Errors() > 0 {
			return
		}
		if back, err := Parse(r.Sentence(), s.Systems); err != nil || back != r.clauses() {
			t.Errorf("%q lints clean and reads back as %+v, %v", r.Sentence(), back, err)
		}
	})
}
