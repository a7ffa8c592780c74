package spec

import (
	"slices"
	"testing"
)

// fixture returns a small specification that lints clean. Cases edit it; the
// second result finds a requirement of it.
func fixture() *Set {
	s := &Set{
		Version:  "0.3.0",
		Systems:  []System{{"the daemon", "serves"}, {"the client", "asks"}},
		Families: []Family{{"BASE", "The base", "requirements/base.toml"}, {"MORE", "More", "requirements/more.toml"}},
		Terms: []Term{
			{Name: "request", Definition: "a message of a client to the daemon", Head: true, File: "glossary.toml", Line: 1},
			{Name: "start request", Aliases: []string{"launch call"}, Definition: "a request that begins work", File: "glossary.toml", Line: 4},
			{Name: "SIGTERM", Definition: "the signal that asks a process to end", File: "glossary.toml", Line: 8},
			{Name: "token", Aliases: []string{"secret"}, Definition: "what a request presents", File: "glossary.toml", Line: 12},
		},
		Requirements: []Requirement{
			rule("BASE-1", EventDriven, "a start request arrives", "answer 200 within 5 seconds"),
			rule("BASE-2", Unwanted, "a start request brings no token", "answer 401 and start no work"),
			rule("BASE-3", StateDriven, "a token is installed", "send SIGTERM to each worker"),
			rule("MORE-1", Optional, "logging is configured", "write at most 64 entries to the log"),
			rule("MORE-2", Ubiquitous, "", "compare a presented token byte for byte"),
		},
		Reviewed: map[string]string{},
	}
	for i := range s.Requirements {
		s.Requirements[i].Line = 3 + 12*i
	}
	return s
}

// rule makes a requirement of the daemon whose one clause is text.
func rule(id string, p Pattern, text, response string) Requirement {
	family, _ := splitID(id)
	r := Requirement{ID: id, Pattern: p, System: "the daemon", Response: response, Rationale: "A reader must be able to see why.",
		Strength: "S2", Status: Approved, Source: "wire facts, section 1", Layers: []Layer{LayerModel, LayerTest},
		File: map[string]string{"BASE": "requirements/base.toml", "MORE": "requirements/more.toml"}[family], Line: 900}
	switch p {
	case EventDriven, Unwanted:
		r.Trigger = text
	case StateDriven:
		r.Precondition = text
	case Optional:
		r.Feature = text
	}
	return r
}

// get returns a requirement of the set for an edit.
func (s *Set) get(id string) *Requirement {
	s.index()
	r, ok := s.Lookup(id)
	if !ok {
		panic("spec: internal error: no requirement " + id + " in the fixture")
	}
	return r
}

// reviewAll records the present texts as reviewed.
func (s *Set) reviewAll() {
	for i := range s.Requirements {
		s.Reviewed[s.Requirements[i].ID] = s.Requirements[i].Fingerprint()
	}
}

// lintOf indexes, reviews and lints an edited fixture.
func lintOf(edit func(*Set)) Report {
	s := fixture()
	s.index()
	if edit != nil {
		edit(s)
	}
	s.index()
	s.reviewAll()
	return Lint(s)
}

func (r Report) has(code string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Code == code && f.Waived == "" })
}

// TestFixtureIsClean: the cases below say something only if the unedited fixture
// has no finding.
func TestFixtureIsClean(t *testing.T) {
	report := lintOf(nil)
	for _, f := range report.Findings {
		t.Errorf("%v", f)
	}
	if report.Requirements != 5 || report.Terms != 4 || report.Checks < 100 {
		t.Errorf("looked at %d requirements, %d terms, %d checks; want 5, 4 and at least 100", report.Requirements, report.Terms, report.Checks)
	}
}
