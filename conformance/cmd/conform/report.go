package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// verdict is what an entry of the report says.
type verdict string

const (
	holds        verdict = "holds"
	violated     verdict = "violated"
	inconclusive verdict = "inconclusive"
	leftOut      verdict = "left out"
)

// entry is one thing that was looked at, or that was left out.
type entry struct {
	Part    string   `json:"part"`
	Name    string   `json:"name"`
	Verdict verdict  `json:"verdict"`
	Text    string   `json:"text,omitempty"` // how much was looked at, or why it was left out
	Faults  []string `json:"faults,omitempty"`
}

// report prints entries as they come and knows the worst of them.
type report struct {
	out    io.Writer
	json   bool
	counts map[verdict]int
	err    error // of the first write that failed
}

func (r *report) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *report) add(e entry) {
	if r.counts == nil {
		r.counts = map[verdict]int{}
	}
	// CONF-4: what was left out is an entry like any other, with its reason.
	r.counts[e.Verdict]++
	if r.json {
		b, err := json.Marshal(e)
		if err != nil {
			panic("conform: internal error: cannot encode an entry: " + err.Error())
		}
		r.printf("%s\n", b)
		return
	}
	r.printf("%-12s %-10s %s", e.Verdict, e.Part, e.Name)
	if e.Text != "" {
		r.printf(": %s", printable(e.Text))
	}
	r.printf("\n")
	for _, f := range e.Faults {
		r.printf("    %s\n", strings.ReplaceAll(printable(f), "\n", "\n    "))
	}
}

// end prints the summary and returns the exit code. A run that looked at nothing is a violation, not a pass.
func (r *report) end() int {
	code := exitHolds
	switch {
	// CONF-5: nothing looked at is no pass.
	case r.counts[violated] > 0 || r.counts[holds]+r.counts[inconclusive] == 0:
		code = exitViolated
	case r.counts[inconclusive] > 0:
		code = exitInconclusive
	}
	if !r.json {
		r.printf("%d held, %d violated, %d inconclusive, %d left out\n",
			r.counts[holds], r.counts[violated], r.counts[inconclusive], r.counts[leftOut])
	}
	return code
}

// printable drops control characters other than newline and tab: a daemon's answer may hold anything.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if (r < 0x20 && r != '\n' && r != '\t') || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
