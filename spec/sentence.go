package spec

import (
	"fmt"
	"strings"
)

// Clauses is what a sentence says, taken apart.
type Clauses struct {
	Feature, Precondition, Trigger, Unwanted string
	System, Response                         string
}

// clauses returns the requirement's clauses with the trigger of an unwanted
// requirement where the grammar has it.
func (r *Requirement) clauses() Clauses {
	c := Clauses{r.Feature, r.Precondition, r.Trigger, r.Unwanted, r.System, r.Response}
	if r.Pattern == Unwanted {
		c.Trigger, c.Unwanted = "", r.Trigger
	}
	return c
}

// Sentence renders the requirement in EARS order:
// Where feature, while precondition, when trigger (or: if trigger, then) the
// system shall response.
func (r *Requirement) Sentence() string { return r.clauses().Sentence() }

// Sentence renders the clauses in EARS order.
func (c Clauses) Sentence() string {
	var b strings.Builder
	clause := func(keyword, text, end string) {
		if text == "" {
			return
		}
		if b.Len() == 0 {
			keyword = strings.ToUpper(keyword[:1]) + keyword[1:]
		}
		b.WriteString(keyword + " " + text + end)
	}
	clause("where", c.Feature, ", ")
	clause("while", c.Precondition, ", ")
	clause("when", c.Trigger, ", ")
	clause("if", c.Unwanted, ", then ")
	system := c.System
	if b.Len() == 0 && system != "" {
		system = strings.ToUpper(system[:1]) + system[1:]
	}
	b.WriteString(system + " shall " + c.Response + ".")
	return b.String()
}

// clauseKeywords are the grammar's keywords in their only order.
var clauseKeywords = []string{"where", "while", "when", "if"}

// Parse takes a sentence apart. Systems are the names that may stand before
// "shall". It is the inverse of [Clauses.Sentence] for clauses that do not
// contain the grammar's own joints; the linter refuses the others.
func Parse(sentence string, systems []System) (Clauses, error) {
	var c Clauses
	body, ok := strings.CutSuffix(sentence, ".")
	if !ok {
		return c, fmt.Errorf("cannot parse sentence %q: no full stop at the end", sentence)
	}
	head, response, ok := strings.Cut(body, " shall ")
	if !ok || response == "" {
		return c, fmt.Errorf("cannot parse sentence %q: no \"shall\" with a response", sentence)
	}
	c.Response = response
	prefix, system, ok := cutSystem(head, systems)
	if !ok {
		return c, fmt.Errorf("cannot parse sentence %q: no known system before \"shall\"", sentence)
	}
	c.System = system
	return c, c.parsePrefix(prefix, sentence)
}

// cutSystem removes the system's name from the end of head. A sentence that
// begins with the name has it capitalised.
func cutSystem(head string, systems []System) (prefix, system string, ok bool) {
	for _, s := range systems {
		if s.Name == "" {
			continue
		}
		if strings.ToUpper(s.Name[:1])+s.Name[1:] == head {
			return "", s.Name, true
		}
		if p, found := strings.CutSuffix(head, s.Name); found && strings.HasSuffix(p, " ") {
			return p, s.Name, true
		}
	}
	return "", "", false
}

// parsePrefix reads the clauses before the system's name.
func (c *Clauses) parsePrefix(prefix, sentence string) error {
	fields := []*string{&c.Feature, &c.Precondition, &c.Trigger, &c.Unwanted}
	first := true
	for next := 0; prefix != ""; first = false {
		at := keywordAt(prefix, next, first)
		if at < 0 {
			return fmt.Errorf("cannot parse sentence %q: %q does not begin with a clause keyword in order", sentence, prefix)
		}
		rest := prefix[len(clauseKeywords[at])+1:]
		end := ", "
		if at == 3 {
			end = ", then "
		}
		text, tail := cutClause(rest, end)
		if text == "" {
			return fmt.Errorf("cannot parse sentence %q: the %q clause is empty or does not end with %q", sentence, clauseKeywords[at], end)
		}
		*fields[at], prefix, next = text, tail, at+1
	}
	return nil
}

// keywordAt returns the index of the keyword that prefix begins with, at least
// from. Only the first clause's keyword is capitalised.
func keywordAt(prefix string, from int, first bool) int {
	for i := from; i < len(clauseKeywords); i++ {
		k := clauseKeywords[i]
		if first {
			k = strings.ToUpper(k[:1]) + k[1:]
		}
		if strings.HasPrefix(prefix, k+" ") {
			return i
		}
	}
	return -1
}

// cutClause ends a clause at the earliest keyword after a comma, or at the end of
// the prefix, which must be the clause's own ending.
func cutClause(rest, end string) (text, tail string) {
	at := -1
	for _, k := range clauseKeywords {
		if i := strings.Index(rest, ", "+k+" "); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		return rest[:at], rest[at+2:]
	}
	text, ok := strings.CutSuffix(rest, end)
	if !ok {
		return "", ""
	}
	return text, ""
}
