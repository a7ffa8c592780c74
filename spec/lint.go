package spec

import (
	"cmp"
	"fmt"
	"slices"
)

// Report is what the linter found.
type Report struct {
	Findings     []Finding `json:"findings"`     // by file, line and code; waived ones included
	Requirements int       `json:"requirements"` // looked at
	Terms        int       `json:"terms"`        // looked at
	Checks       int       `json:"checks"`       // rule applications
}

// Errors counts unwaived findings of severity error.
func (r Report) Errors() int { return r.count(Error) }

// Warnings counts unwaived findings of severity warning.
func (r Report) Warnings() int { return r.count(Warning) }

// Waived counts findings that a waiver covers.
func (r Report) Waived() int { return len(r.Findings) - r.Errors() - r.Warnings() }

// Strict counts unwaived findings of either severity.
func (r Report) Strict() int { return r.Errors() + r.Warnings() }

func (r Report) count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s && f.Waived == "" {
			n++
		}
	}
	return n
}

// linter carries one run.
type linter struct {
	set        *Set
	vocabulary *vocabulary
	used       []bool // terms that a sentence or a definition uses
	report     Report
}

// Lint judges a set: each sentence, the set as a whole, the glossary, the waivers
// and the reviews. It changes nothing.
func Lint(s *Set) Report {
	l := &linter{set: s, vocabulary: newVocabulary(s.Terms), used: make([]bool, len(s.Terms))}
	for i := range s.Requirements {
		r := &s.Requirements[i]
		if r.Status != Retired {
			l.sentence(r)
		}
		l.fields(r)
		l.report.Requirements++
	}
	l.wholeSet()
	l.glossary()
	l.reviews()
	l.waivers()
	slices.SortStableFunc(l.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return l.report
}

// add records a finding about a requirement.
func (l *linter) add(r *Requirement, code, format string, args ...any) {
	l.addAt(code, r.ID, r.File, r.Line, format, args...)
}

// addAt records a finding anywhere.
func (l *linter) addAt(code, id, file string, line int, format string, args ...any) {
	c := codeOf(code)
	l.report.Findings = append(l.report.Findings, Finding{Code: code, Severity: c.Severity, Requirement: id, File: file,
		Line: line, Message: fmt.Sprintf(format, args...) + "; " + c.Remedy})
}

// glossary judges the terms.
func (l *linter) glossary() {
	owner := map[string]string{}
	for i := range l.set.Terms {
		t := &l.set.Terms[i]
		l.report.Terms++
		l.report.Checks += 3
		if len(t.Definition) < 10 {
			l.addAt(CodeDefinition, "", t.File, t.Line, "term %q has no definition", t.Name)
		}
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if other, taken := owner[name]; taken || name == "" {
				l.addAt(CodeDuplicateTerm, "", t.File, t.Line, "%q of term %q already stands for %q", name, t.Name, other)
			}
			owner[name] = t.Name
		}
		for _, m := range l.vocabulary.mark(phrases(tokenize(t.Definition))) {
			if m >= 0 && m != i {
				l.used[m] = true
			}
		}
	}
	for i, t := range l.set.Terms {
		if !l.used[i] {
			l.addAt(CodeOrphanTerm, "", t.File, t.Line, "no sentence or definition uses the term %q", t.Name)
		}
	}
}

// reviews compares fingerprints with the reviewed ones.
func (l *linter) reviews() {
	for i := range l.set.Requirements {
		r := &l.set.Requirements[i]
		l.report.Checks++
		switch reviewed, ok := l.set.Reviewed[r.ID]; {
		case !ok:
			l.add(r, CodeUnreviewed, "the text has fingerprint %s and was never reviewed", r.ShortFingerprint())
		case reviewed != r.Fingerprint():
			l.add(r, CodeChanged, "the text has fingerprint %s; the reviewed one was %.12s", r.ShortFingerprint(), reviewed)
		}
	}
	for id := range l.set.Reviewed {
		if _, ok := l.set.Lookup(id); !ok {
			l.addAt(CodeStray, id, "reviewed.toml", 1, "%q was reviewed and does not exist", id)
		}
	}
}
