package spec

import (
	"slices"
	"strings"
)

// terms checks the vocabulary of one clause and notes which terms it uses.
func (l *linter) terms(r *Requirement, c clauseText) {
	l.report.Checks += 4
	marks := l.vocabulary.mark(c.words)
	for _, m := range marks {
		if m >= 0 {
			l.used[m] = true
		}
	}
	if alias, canonical, found := l.vocabulary.aliasIn(c.words); found {
		l.add(r, CodeAlias, "%q in the %s stands for the term %q", alias, c.name, canonical)
	}
	for i, t := range c.tokens {
		switch {
		case t.kind == quoted && !l.isTerm(t.text):
			l.add(r, CodeQuoted, "%q in the %s", t.text, c.name)
		case t.kind == word && capitalised(t.text) && marks[i] < 0 && !l.vocabulary.exact[t.text] && !units[t.lower()]:
			l.add(r, CodeTerm, "%q in the %s is not in the glossary", t.text, c.name)
		case t.kind == word && l.vocabulary.heads[t.lower()] && i > 0:
			l.head(r, c, marks, i)
		}
	}
}

// head checks that a head noun either stands alone or is the end of a known term.
// A participle in -ed describes and makes no kind: "a refused request".
func (l *linter) head(r *Requirement, c clauseText, marks []int, i int) {
	before := c.words[i-1]
	if marks[i-1] >= 0 && marks[i-1] == marks[i] || c.tokens[i-1].kind != word || determiners[before] || strings.HasSuffix(before, "ed") {
		return
	}
	l.add(r, CodeHead, "%q in the %s", before+" "+c.words[i], c.name)
}

func (l *linter) isTerm(text string) bool {
	return slices.ContainsFunc(l.set.Terms, func(t Term) bool { return t.Name == text })
}

// fields checks everything beside the sentence.
func (l *linter) fields(r *Requirement) {
	l.report.Checks += 6
	if !slices.Contains([]Status{Draft, Approved, Retired}, r.Status) {
		l.add(r, CodeStatus, "status %q", r.Status)
	}
	if !slices.ContainsFunc(strengths, func(s struct{ name, meaning string }) bool { return s.name == r.Strength }) {
		l.add(r, CodeStrength, "strength %q", r.Strength)
	}
	if len(strings.Fields(r.Rationale)) < 4 || !strings.HasSuffix(r.Rationale, ".") {
		l.add(r, CodeRationale, "rationale %q", r.Rationale)
	}
	for _, source := range strings.Split(r.Source, "; ") {
		if !sourceForm.MatchString(source) {
			l.add(r, CodeSource, "source %q", source)
		}
	}
	l.layers(r)
}

// layers checks the list, which is empty for retired requirements only.
func (l *linter) layers(r *Requirement) {
	order, last := Layers(), -1
	for _, layer := range r.Layers {
		at := slices.Index(order, layer)
		if at <= last {
			l.add(r, CodeLayers, "layer %q", layer)
			return
		}
		last = at
	}
	if (len(r.Layers) == 0) != (r.Status == Retired) {
		l.add(r, CodeLayers, "%d layers with status %q", len(r.Layers), r.Status)
	} else if r.Status == Approved && !slices.Contains(r.Layers, LayerTest) {
		l.add(r, CodeTestLayer, "layers %v", r.Layers)
	}
}
