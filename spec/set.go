package spec

import (
	"slices"
	"strings"
)

// nearDuplicate is the share of common words (Jaccard index over content words)
// from which two sentences with the same literals count as nearly the same.
const nearDuplicate = 0.8

// functionWords carry no meaning of their own in a comparison.
var functionWords = map[string]bool{"|": true, "of": true, "to": true, "for": true, "in": true, "on": true, "with": true, "and": true, "or": true,
	"by": true, "that": true, "as": true, "at": true, "is": true, "are": true, "has": true, ",": true}

// wholeSet applies the rules that look at more than one requirement.
func (l *linter) wholeSet() {
	l.ids()
	l.pairs()
	l.edges()
	for _, f := range l.set.Families {
		l.report.Checks++
		if strings.TrimSpace(f.Title) == "" {
			l.addAt(CodeTitle, "", f.File, 1, "family %s has no title", f.Name)
		}
	}
}

// ids checks form, file, order and uniqueness. The order is that of the file, so
// it goes by line.
func (l *linter) ids() {
	inFile := make([]*Requirement, len(l.set.Requirements))
	for i := range l.set.Requirements {
		inFile[i] = &l.set.Requirements[i]
	}
	slices.SortStableFunc(inFile, func(a, b *Requirement) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	seen, last := map[string]*Requirement{}, map[string]int{}
	for _, r := range inFile {
		l.report.Checks += 3
		family, n := splitID(r.ID)
		known := slices.ContainsFunc(l.set.Families, func(f Family) bool { return f.Name == family && f.File == r.File })
		if n == 0 || !known {
			l.add(r, CodeID, "id %q in %s", r.ID, r.File)
		}
		if first, taken := seen[r.ID]; taken {
			l.add(r, CodeDuplicateID, "id %s is taken at %s:%d", r.ID, first.File, first.Line)
		} else {
			seen[r.ID] = r
			if n < last[r.File] {
				l.add(r, CodeOrder, "%s stands after number %d", r.ID, last[r.File])
			}
		}
		last[r.File] = max(last[r.File], n)
	}
}

// reading is a requirement prepared for comparison with others.
type reading struct {
	r         *Requirement
	condition string              // canonical clauses
	response  string              // canonical
	content   map[string]bool     // words that carry meaning
	literals  string              // code spans and numbers in order
	facts     map[string][]string // what the response fixes: "answer" → 409
}

// pairs compares each two requirements in force.
func (l *linter) pairs() {
	var all []reading
	for i := range l.set.Requirements {
		if r := &l.set.Requirements[i]; r.Status != Retired {
			all = append(all, l.read(r))
		}
	}
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			l.pair(all[i], all[j])
		}
	}
}

func (l *linter) pair(a, b reading) {
	if a.r.System != b.r.System || a.r.ID == b.r.ID {
		return
	}
	l.report.Checks++
	sameCondition := a.condition == b.condition
	switch {
	case sameCondition && a.response == b.response:
		l.add(b.r, CodeDuplicate, "says the same as %s", a.r.ID)
	case sameCondition && contradict(a, b) != "":
		l.add(b.r, CodeContradiction, "%s of %s cannot hold together with it", contradict(a, b), a.r.ID)
	case a.literals == b.literals && jaccard(a.content, b.content) >= nearDuplicate:
		l.add(b.r, CodeNearDuplicate, "says nearly the same as %s", a.r.ID)
	}
}

// read prepares a requirement. "When x" and "If x, then" state one condition.
func (l *linter) read(r *Requirement) reading {
	out := reading{r: r, content: map[string]bool{}}
	canonical := func(text string) string {
		var kept []string
		for _, w := range l.vocabulary.canonical(literalWords(text), l.set.Terms) {
			if w != "a" && w != "an" && w != "the" {
				kept = append(kept, w)
			}
		}
		return strings.Join(kept, " ")
	}
	out.condition = canonical(r.Feature) + " | " + canonical(r.Precondition) + " | " + canonical(r.Trigger+" "+r.Unwanted)
	out.response = canonical(r.Response)
	for _, w := range strings.Fields(out.condition + " " + out.response) {
		if !functionWords[w] {
			out.content[w] = true
		}
	}
	var literals []string
	for _, c := range clausesOf(r) {
		for _, t := range c.tokens {
			if t.kind == code || t.kind == number {
				literals = append(literals, t.text)
			}
		}
	}
	out.literals = strings.Join(literals, " ")
	out.facts = factsOf(tokenize(r.Response))
	return out
}

// literalWords is phrases with the literals kept, for comparison.
func literalWords(text string) []string {
	tokens := tokenize(text)
	words := phrases(tokens)
	for i, t := range tokens {
		if t.kind == code || t.kind == quoted {
			words[i] = "`" + t.text + "`"
		}
	}
	return words
}

// factsOf collects what a response fixes and another response could fix
// otherwise: the status, the exit code, a phase, an error, a verdict, a key.
func factsOf(tokens []token) map[string][]string {
	facts := map[string][]string{}
	for i := 0; i+1 < len(tokens); i++ {
		t, next := tokens[i], tokens[i+1]
		switch {
		case t.lower() == "answer" && next.kind == number, t.lower() == "code" && next.kind == number, t.lower() == "code" && next.kind == code:
			facts[t.lower()] = append(facts[t.lower()], next.text)
			if i+3 < len(tokens) && tokens[i+2].lower() == "or" && tokens[i+3].kind == number {
				facts[t.lower()] = append(facts[t.lower()], tokens[i+3].text)
			}
		case (t.lower() == "phase" || t.lower() == "error") && next.kind == code:
			facts[t.lower()] = append(facts[t.lower()], next.text)
		case t.lower() == "verdict" && next.kind == word:
			facts["verdict"] = append(facts["verdict"], next.text)
		case t.kind == code && next.lower() == "set" && i+3 < len(tokens) && tokens[i+2].lower() == "to":
			facts["`"+t.text+"`"] = append(facts["`"+t.text+"`"], tokens[i+3].text)
		}
	}
	return facts
}

// contradict names what two responses to one condition fix differently, or
// returns "".
func contradict(a, b reading) string {
	if x, y := positive(a.response), positive(b.response); x == y {
		return "the negation"
	}
	var names []string
	for name := range a.facts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		theirs, both := b.facts[name]
		if both && !slices.ContainsFunc(a.facts[name], func(v string) bool { return slices.Contains(theirs, v) }) {
			return "the " + name + " " + strings.Join(a.facts[name], " or ")
		}
	}
	return ""
}

// positive removes negations, so that "x" and "not x" become equal.
func positive(response string) string {
	var kept []string
	for _, w := range strings.Fields(response) {
		if w != "not" && w != "no" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

func jaccard(a, b map[string]bool) float64 {
	common := 0
	for w := range a {
		if b[w] {
			common++
		}
	}
	union := len(a) + len(b) - common
	if union == 0 {
		return 0
	}
	return float64(common) / float64(union)
}

// edges checks refines, derives and replaced_by.
func (l *linter) edges() {
	for i := range l.set.Requirements {
		r := &l.set.Requirements[i]
		for _, to := range slices.Concat(r.Refines, r.Derives) {
			l.report.Checks++
			if target, ok := l.set.Lookup(to); !ok {
				l.add(r, CodeDangling, "edge to %q", to)
			} else if target.Status == Retired && r.Status != Retired {
				l.add(r, CodeRetired, "edge to %s", to)
			}
		}
		if r.ReplacedBy != "" {
			l.report.Checks++
			if target, ok := l.set.Lookup(r.ReplacedBy); !ok || target.Status == Retired || r.Status != Retired {
				l.add(r, CodeReplacement, "status %q, replaced by %q", r.Status, r.ReplacedBy)
			}
		}
	}
	l.cycles()
}

// cycles reports each cycle once, at the member that comes first.
func (l *linter) cycles() {
	const (
		white = iota
		grey
		black
	)
	colour := map[string]int{}
	var stack []string
	var visit func(id string)
	visit = func(id string) {
		r, ok := l.set.Lookup(id)
		if !ok || colour[id] == black {
			return
		}
		if colour[id] == grey {
			cycle := stack[slices.Index(stack, id):]
			l.add(r, CodeCycle, "%s", strings.Join(append(slices.Clone(cycle), id), " → "))
			return
		}
		colour[id] = grey
		stack = append(stack, id)
		for _, to := range slices.Concat(r.Refines, r.Derives) {
			visit(to)
		}
		stack = stack[:len(stack)-1]
		colour[id] = black
	}
	for i := range l.set.Requirements {
		visit(l.set.Requirements[i].ID)
	}
}
