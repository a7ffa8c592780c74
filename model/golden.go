package model

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Golden is the golden record of a model package: what a check of each of its
// configurations must find, by the configuration's name. Packages keep it as a
// text that people read, embed it, and take the expectations of their suite from
// it:
//
//	# the deviation, in a sentence
//	case check-then-act
//	counts distinct=1 states=2 depth=3
//	violated 4 "name of a property"
//
// The number behind "violated" is the length of the shortest counterexample.
type Golden map[string]Expect

// ParseGolden reads a golden record. Its error names the line. Deviations are
// not in the record: each package adds its own sentence.
func ParseGolden(text string) (Golden, error) {
	out := Golden{}
	name := ""
	for n, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		e := out[name]
		var err error
		switch word {
		case "", "#":
			continue
		case "case":
			if _, twice := out[rest]; twice {
				err = fmt.Errorf("case %q stands there twice", rest)
			}
			name, e = rest, Expect{}
		case "counts":
			_, err = fmt.Sscanf(rest, "distinct=%d states=%d depth=%d", &e.Distinct, &e.States, &e.Depth)
		case "violated":
			length, quoted, _ := strings.Cut(rest, " ")
			if e.Violated == nil {
				e.Violated = map[string]int{}
			}
			var property string
			if property, err = strconv.Unquote(quoted); err == nil {
				e.Violated[property], err = strconv.Atoi(length)
			}
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read golden record, line %d: %w", n+1, err)
		}
		out[name] = e
	}
	return out, nil
}

// MustParseGolden is ParseGolden for a record that is embedded in the program:
// it panics when the record cannot be read.
func MustParseGolden(text string) Golden {
	g, err := ParseGolden(text)
	if err != nil {
		panic("model: internal error: " + err.Error())
	}
	return g
}

// FormatGolden renders one case of a golden record under a sentence.
func FormatGolden(name, sentence string, e Expect) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\ncase %s\ncounts distinct=%d states=%d depth=%d\n", sentence, name, e.Distinct, e.States, e.Depth)
	var names []string
	for p := range e.Violated {
		names = append(names, p)
	}
	sort.Strings(names)
	for _, p := range names {
		fmt.Fprintf(&b, "violated %d %q\n", e.Violated[p], p)
	}
	return b.String()
}

// Found turns a report into the expectation that it would meet.
func (r *Report) Found() Expect {
	e := Expect{Distinct: r.Distinct, States: r.States, Depth: r.Depth}
	for _, p := range r.Properties {
		if p.Verdict != Violated {
			continue
		}
		if e.Violated == nil {
			e.Violated = map[string]int{}
		}
		e.Violated[p.Name] = 0
		if p.Path != nil {
			e.Violated[p.Name] = p.Path.Len()
		}
	}
	return e
}
