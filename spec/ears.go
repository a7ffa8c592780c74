package spec

import (
	"regexp"
	"strings"
	"unicode"
)

// maxWords bounds a sentence, literals counted as one word each.
const maxWords = 45

// maxAnds bounds the joints of a response. Two let a list of three stand; a third
// is a second idea.
const maxAnds = 2

// clauseText is one clause of a requirement, prepared for the word rules.
type clauseText struct {
	name   string // "trigger"
	text   string
	tokens []token
	words  []string
}

// sentence applies each rule of the language to one requirement.
func (l *linter) sentence(r *Requirement) {
	l.pattern(r)
	l.shape(r)
	total := 0
	for _, c := range clausesOf(r) {
		l.form(r, c)
		l.wordLists(r, c)
		l.marks(r, c)
		l.numbers(r, c)
		l.terms(r, c)
		total += len(c.words)
	}
	l.response(r)
	l.report.Checks++
	if total > maxWords {
		l.add(r, CodeLength, "%d words", total)
	}
}

func clausesOf(r *Requirement) []clauseText {
	var out []clauseText
	for _, c := range []struct{ name, text string }{
		{"feature", r.Feature}, {"precondition", r.Precondition}, {"trigger", r.Trigger}, {"unwanted", r.Unwanted}, {"response", r.Response},
	} {
		if c.text != "" || c.name == "response" {
			t := tokenize(c.text)
			out = append(out, clauseText{c.name, c.text, t, phrases(t)})
		}
	}
	return out
}

// pattern compares the class with the clauses present.
func (l *linter) pattern(r *Requirement) {
	l.report.Checks++
	has := map[string]bool{"feature": r.Feature != "", "precondition": r.Precondition != "", "trigger": r.Trigger != "", "unwanted": r.Unwanted != ""}
	count := 0
	for _, present := range has {
		if present {
			count++
		}
	}
	fits := false
	switch r.Pattern {
	case Ubiquitous:
		fits = count == 0
	case EventDriven, Unwanted:
		fits = count == 1 && has["trigger"]
	case StateDriven:
		fits = count == 1 && has["precondition"]
	case Optional:
		fits = count == 1 && has["feature"]
	case Complex:
		fits = count >= 2 && !(has["trigger"] && has["unwanted"])
	}
	if !fits {
		l.add(r, CodePattern, "pattern %q with feature=%q precondition=%q trigger=%q unwanted=%q", r.Pattern, r.Feature, r.Precondition, r.Trigger, r.Unwanted)
	}
}

var grammarWords = split("when; if; then; where; whenever")

// shape checks the system, the one "shall", and that the rendered sentence reads
// back to the same clauses.
func (l *linter) shape(r *Requirement) {
	l.report.Checks += 3
	sentence := r.Sentence()
	if known := l.system(r.System); !known {
		l.add(r, CodeSystem, "system %q", r.System)
	} else if back, err := Parse(sentence, l.set.Systems); err != nil || back != r.clauses() {
		l.add(r, CodeClauseOrder, "%q does not read back to its clauses", sentence)
	} else {
		for _, c := range clausesOf(r) {
			if found, ok := findPhrase(c.words, grammarWords); ok {
				l.add(r, CodeClauseOrder, "keyword %q inside the %s", found, c.name)
			}
		}
	}
	if n := countWord(phrases(tokenize(sentence)), "shall"); n != 1 {
		l.add(r, CodeShall, "%d times \"shall\"", n)
	}
}

func (l *linter) system(name string) bool {
	for _, s := range l.set.Systems {
		if s.Name == name {
			return true
		}
	}
	return false
}

func countWord(words []string, w string) int {
	n := 0
	for _, have := range words {
		if have == w {
			n++
		}
	}
	return n
}

// form checks the outside of a clause.
func (l *linter) form(r *Requirement, c clauseText) {
	l.report.Checks++
	first, _ := firstRune(c.text)
	starts := unicode.IsUpper(first) && len(c.tokens) > 0 && !l.vocabulary.exact[c.tokens[0].text] && !isAcronym(c.tokens[0].text)
	switch {
	case c.text == "":
		l.add(r, CodeForm, "the %s is empty", c.name)
	case c.text != strings.TrimSpace(c.text) || strings.Contains(c.text, "  ") || strings.ContainsAny(c.text, "\n\r\t"):
		l.add(r, CodeForm, "the %s %q has stray space", c.name, c.text)
	case strings.ContainsAny(c.text[len(c.text)-1:], ".,;:!?"):
		l.add(r, CodeForm, "the %s ends with %q", c.name, c.text[len(c.text)-1:])
	case starts:
		l.add(r, CodeForm, "the %s begins with a capital: %q", c.name, c.text)
	case strings.Count(c.text, "`")%2 != 0 || strings.Count(c.text, `"`)%2 != 0:
		l.add(r, CodeForm, "the %s has an unclosed span: %q", c.name, c.text)
	}
}

func firstRune(s string) (rune, bool) {
	for _, r := range s {
		return r, true
	}
	return 0, false
}

// isAcronym reports whether a word has two capitals or a digit with a capital:
// UTF-8, SIGTERM, U+FFFD.
func isAcronym(w string) bool {
	capitals := 0
	for _, r := range w {
		if unicode.IsUpper(r) {
			capitals++
		}
	}
	return capitals >= 2
}

// wordLists applies the lists that hold for every clause.
func (l *linter) wordLists(r *Requirement, c clauseText) {
	for _, rule := range []struct {
		code string
		list [][]string
		what string
	}{
		{CodeVague, vagueWords, "vague"}, {CodeEscape, escapeClauses, "an escape"}, {CodeOpenList, openLists, "an open list"},
		{CodeInfinitive, infinitives, "no action"}, {CodeCombinator, combinators, "a combinator"}, {CodePurpose, purposes, "a purpose"},
		{CodePronoun, pronouns, "a pronoun"}, {CodeAbsolute, absolutes, "an absolute"}, {CodeQuantifier, quantifiers, "a loose quantifier"},
		{CodeModal, modals, "a modal verb"},
	} {
		l.report.Checks++
		if found, ok := findPhrase(c.words, rule.list); ok {
			l.add(r, rule.code, "%q in the %s is %s", found, c.name, rule.what)
		}
	}
}

// marks checks slashes, parentheses and ellipses outside of literals.
func (l *linter) marks(r *Requirement, c clauseText) {
	l.report.Checks += 3
	for _, t := range c.tokens {
		if t.kind != mark {
			continue
		}
		switch t.text {
		case "/", "\\":
			l.add(r, CodeSlash, "%q in the %s", t.text, c.name)
		case "(", ")", "[", "]", "{", "}":
			l.add(r, CodeParenthesis, "%q in the %s", t.text, c.name)
		case "…":
			l.add(r, CodeOpenList, "%q in the %s", t.text, c.name)
		case ";":
			l.add(r, CodeIdeas, "a semicolon in the %s", c.name)
		}
	}
}

// response checks what only the response must avoid.
func (l *linter) response(r *Requirement) {
	l.report.Checks += 2
	words := phrases(tokenize(r.Response))
	if ands := countWord(words, "and"); ands > maxAnds {
		l.add(r, CodeIdeas, "%d times \"and\" in the response", ands)
	}
	for i := range words {
		if !beForms[words[i]] {
			continue
		}
		next := i + 1
		for next < len(words) && (words[next] == "not" || strings.HasSuffix(words[next], "ly")) {
			next++
		}
		if next < len(words) && (irregularParticiples[words[next]] || strings.HasSuffix(words[next], "ed")) {
			l.add(r, CodePassive, "%q", words[i]+" "+words[next])
		}
	}
}

var (
	decimal    = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	sourceForm = regexp.MustCompile(`^[a-z][a-z0-9 '-]*, (sections?|rows?) [A-Za-z0-9.]+( and [A-Za-z0-9.]+|, [A-Za-z0-9.]+)*( \([A-Z0-9]+\))?$`)
)

// numbers checks format and units.
func (l *linter) numbers(r *Requirement, c clauseText) {
	fine := make([]bool, len(c.tokens))
	for i, t := range c.tokens {
		if t.kind != number {
			continue
		}
		l.report.Checks += 2
		if !decimal.MatchString(t.text) {
			l.add(r, CodeDecimal, "%q in the %s", t.text, c.name)
			continue
		}
		fine[i] = l.measured(c, i, fine)
		if !fine[i] {
			l.add(r, CodeUnit, "%q in the %s", t.text, c.name)
		}
	}
}

// measured reports whether the number at i has a unit behind it, a measure before
// it, or continues a list that has.
func (l *linter) measured(c clauseText, i int, fine []bool) bool {
	word := func(at int) string {
		if at < 0 || at >= len(c.words) {
			return ""
		}
		return c.words[at]
	}
	switch {
	case units[word(i+1)], measures[word(i-1)]:
		return true
	case word(i-1) == "than" && word(i-2) == "other" && measures[word(i-3)]:
		return true
	case (word(i-1) == "or" || word(i-1) == "and" || word(i-1) == ",") && i >= 2 && fine[i-2]:
		return true
	}
	return false
}
