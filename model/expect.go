package model

import (
	"fmt"
	"slices"
	"sort"
)

// Compare returns what differs between a report and what was expected, as
// sentences; nothing when the report is as expected. A dead action or a vacuous
// property is a difference unless the configuration plants a deviation, of which
// both are natural consequences.
func (e Expect) Compare(r *Report) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !r.Complete {
		// Counts of a part are no evidence, and neither is what it did not find.
		add("inconclusive: %s", r.Reason)
		for _, p := range r.Properties {
			if _, expected := e.Violated[p.Name]; p.Verdict == Violated && !expected {
				add("property %q is violated, and should hold", p.Name)
			}
		}
		return out
	}
	if e.Distinct != 0 && e.Distinct != r.Distinct {
		add("%d distinct states, expected %d", r.Distinct, e.Distinct)
	}
	if e.States != 0 && e.States != r.States {
		add("%d states, expected %d", r.States, e.States)
	}
	if e.Depth != 0 && e.Depth != r.Depth {
		add("depth %d, expected %d", r.Depth, e.Depth)
	}
	// CHECK-15: the exact set, since one violated property too many is a finding.
	met := map[string]bool{}
	for _, p := range r.Properties {
		met[p.Name] = true
		length, expected := e.Violated[p.Name]
		switch {
		case p.Verdict == Violated && !expected:
			add("property %q is violated, and should hold", p.Name)
		case p.Verdict != Violated && expected:
			add("property %q should be violated, and is not (%s)", p.Name, p.Verdict)
		case expected && p.Path != nil && p.Path.Len() != length:
			add("the counterexample of %q has %d steps, expected %d", p.Name, p.Path.Len(), length)
		case p.Verdict == Inconclusive:
			add("property %q is inconclusive", p.Name)
		}
		if p.Vacuous && e.Deviation == "" {
			add("property %q holds vacuously: the case that it speaks about is never reached", p.Name)
		}
	}
	for _, name := range sortedKeys(e.Violated) {
		if !met[name] {
			add("property %q should be violated, and the model has no such property", name)
		}
	}
	if e.Deviation == "" {
		for _, a := range r.DeadActions {
			add("action %s never fires", a)
		}
	}
	return out
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// Unchallenged returns the names of the properties in reports, those of one
// suite, that no case of the suite expects to be violated: nothing shows that
// they can fail. Witnesses, the deadlock check and what NotSeeded waives are left out.
func (s Suite) Unchallenged(reports []*Report) []string {
	challenged := map[string]bool{}
	for name := range s.NotSeeded {
		challenged[name] = true
	}
	for _, c := range s.Cases {
		for name := range c.Expect().Violated {
			challenged[name] = true
		}
	}
	var out []string
	for _, r := range reports {
		for _, p := range r.Properties {
			switch p.Kind {
			case KindAlways.String(), KindStep.String(), KindEventually.String(), KindLeadsTo.String():
				if !challenged[p.Name] && !slices.Contains(out, p.Name) {
					out = append(out, p.Name)
				}
			}
		}
	}
	return out
}

// StaleWaivers returns the names in NotSeeded, sorted, that need no waiver: a case
// expects the property to be violated, or no report has it.
func (s Suite) StaleWaivers(reports []*Report) []string {
	var out []string
	for name := range s.NotSeeded {
		has, seeded := false, false
		for _, r := range reports {
			has = has || slices.ContainsFunc(r.Properties, func(p PropertyReport) bool { return p.Name == name })
		}
		for _, c := range s.Cases {
			_, v := c.Expect().Violated[name]
			seeded = seeded || v
		}
		if !has || seeded {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
