package admission

import (
	_ "embed"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"microvms/model"
)

// The golden record is a text that people read and that the suite takes its
// expectations from:
//
//	# the deviation, in a sentence
//	case leak-on-upgrade
//	counts distinct=1 states=2 depth=3
//	violated 4 "name of a property"
//
//go:embed testdata/configs.golden
var goldenText string

func goldenRecord() map[string]model.Expect {
	r, err := parseGolden(goldenText)
	if err != nil {
		panic("admission: internal error: " + err.Error())
	}
	return r
}

func parseGolden(text string) (map[string]model.Expect, error) {
	out := map[string]model.Expect{}
	name := ""
	for n, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		e := out[name]
		var err error
		switch word {
		case "", "#":
			continue
		case "case":
			name, e = rest, model.Expect{}
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

// formatGolden renders one case of the golden record.
func formatGolden(name, sentence string, e model.Expect) string {
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
