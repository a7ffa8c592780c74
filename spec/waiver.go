package spec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// versionForm is MAJOR.MINOR.PATCH. A date such as 2027.01.31 has no place: a
// waiver ends when somebody decides so.
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)

// ended reports whether version has reached until. Malformed versions end a
// waiver: it must not hold for ever by a typing mistake.
func ended(until, version string) bool {
	u, okU := parseVersion(until)
	v, okV := parseVersion(version)
	return !okU || !okV || slices.Compare(v, u) >= 0
}

func parseVersion(text string) ([]int, bool) {
	if !versionForm.MatchString(text) {
		return nil, false
	}
	var out []int
	for _, part := range strings.Split(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// inForce reports whether the waiver is well-formed and has not ended.
func (w *Waiver) inForce(version string) bool {
	return !ended(w.Until, version) && len(w.faults()) == 0
}

// faults returns the codes of what the waiver lacks.
func (w *Waiver) faults() []string {
	var out []string
	if len(strings.Fields(w.Reason)) < 4 {
		out = append(out, CodeWaiverReason)
	}
	if strings.TrimSpace(w.Owner) == "" {
		out = append(out, CodeWaiverOwner)
	}
	if (w.Layer == "") == (w.Code == "") || !versionForm.MatchString(w.Until) {
		out = append(out, CodeWaiverForm)
	}
	return out
}

// Subject says what the waiver waives: "layer test" or a finding's code.
func (w *Waiver) Subject() string {
	if w.Layer != "" {
		return "layer " + string(w.Layer)
	}
	return w.Code
}

// waivers judges the waivers and marks the findings that they cover. Findings
// about waivers cannot be waived.
func (l *linter) waivers() {
	found := len(l.report.Findings)
	for i := range l.set.Waivers {
		w := &l.set.Waivers[i]
		l.report.Checks += 4
		for _, code := range w.faults() {
			l.addAt(code, w.Requirement, w.File, w.Line, "waiver of %s for %s: layer %q, code %q, owner %q, until %q, reason %q",
				w.Subject(), w.Requirement, w.Layer, w.Code, w.Owner, w.Until, w.Reason)
		}
		r, ok := l.set.Lookup(w.Requirement)
		if !ok || !l.target(w) {
			l.addAt(CodeWaiverTarget, w.Requirement, w.File, w.Line, "waiver of %s for %q", w.Subject(), w.Requirement)
			continue
		}
		if versionForm.MatchString(w.Until) && ended(w.Until, l.set.Version) {
			l.addAt(CodeWaiverEnded, w.Requirement, w.File, w.Line, "waiver of %s for %s ended with version %s; this is %s", w.Subject(), w.Requirement, w.Until, l.set.Version)
			continue
		}
		covered := l.cover(w, l.report.Findings[:found])
		if w.Code != "" && !covered || w.Layer != "" && !r.Requires(w.Layer) {
			l.addAt(CodeWaiverNeedless, w.Requirement, w.File, w.Line, "waiver of %s for %s covers nothing", w.Subject(), w.Requirement)
		}
	}
}

// target reports whether the layer or code of the waiver exists and may be
// waived.
func (l *linter) target(w *Waiver) bool {
	if w.Layer != "" {
		return slices.Contains(Layers(), w.Layer)
	}
	return slices.ContainsFunc(codes, func(c Code) bool { return c.ID == w.Code }) && !strings.HasPrefix(w.Code, "SPEC-L3")
}

// cover marks the findings that the waiver covers.
func (l *linter) cover(w *Waiver, findings []Finding) bool {
	covered := false
	for i := range findings {
		f := &findings[i]
		if w.Code != "" && f.Code == w.Code && f.Requirement == w.Requirement && w.inForce(l.set.Version) {
			f.Waived, covered = w.Reason, true
		}
	}
	return covered
}

// NeedlessWaivers returns the findings for layer waivers whose layer has evidence
// by now. Only the matrix knows that, so filled is its answer for a requirement
// and a layer.
func NeedlessWaivers(s *Set, filled func(id string, l Layer) bool) []Finding {
	l := &linter{set: s}
	for i := range s.Waivers {
		w := &s.Waivers[i]
		if w.Layer != "" && filled(w.Requirement, w.Layer) {
			l.addAt(CodeWaiverNeedless, w.Requirement, w.File, w.Line, "waiver of %s for %s: the layer has evidence", w.Subject(), w.Requirement)
		}
	}
	return l.report.Findings
}
