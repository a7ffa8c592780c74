package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"microvms/model"
)

// ModelCase is one line of `modelcheck check --all --json`: a configuration, what the check found, what it had to find.
type ModelCase struct {
	model.Report
	Expected   model.Expect `json:"expected"`
	AsExpected bool         `json:"as_expected"`
	Problems   []string     `json:"problems"`
}

// Ref returns "model:config".
func (c ModelCase) Ref() string { return c.Model + ":" + c.Config }

// checkModels runs the checker on every configuration of every model. It reads nothing but the checker's report, so
// the gate sees what a user of modelcheck sees. The ports of published models are the checker's self-test: the tests
// stage checks them, and no check runs twice.
func checkModels(ctx context.Context, root string, progress io.Writer, s *Stage) []ModelCase {
	cmd := exec.CommandContext(ctx, "go", "run", "./model/cmd/modelcheck", "check", "--all", "--except=bench", "--json")
	cmd.Dir = root
	var out, stderr bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	if progress != nil {
		cmd.Stderr = io.MultiWriter(&stderr, progress)
	}
	err := cmd.Run()
	cases, parseErr := ParseModels(&out)
	if parseErr != nil {
		s.problem("%v", parseErr)
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || len(cases) == 0) {
		s.problem("cannot run the checker: %v: %s", err, firstLines(stderr.String(), 10))
		return cases
	}
	JudgeModels(cases, s)
	if err != nil && len(s.Problems) == 0 && len(s.Unsure) == 0 {
		s.problem("the checker ended with %v although each case looks as expected: %s", err, firstLines(stderr.String(), 10))
	}
	return cases
}

// ParseModels reads the lines of `modelcheck check --all --json`.
func ParseModels(r io.Reader) ([]ModelCase, error) {
	var cases []ModelCase
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		var c ModelCase
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return cases, fmt.Errorf("cannot read the checker's report, line %d: %w", len(cases)+1, err)
		}
		if c.Model == "" {
			continue // a line about a whole suite
		}
		cases = append(cases, c)
	}
	return cases, in.Err()
}

// JudgeModels holds each case to its expectation: the exact set of violated properties, live actions, witnesses
// reached, antecedents met, and a complete search.
func JudgeModels(cases []ModelCase, s *Stage) {
	for _, c := range cases {
		s.count("configurations", 1)
		s.count("states", int64(c.States))
		s.count("distinct", int64(c.Distinct))
		s.count("properties", int64(len(c.Properties)))
		if !c.Complete && c.Verdict == model.Inconclusive {
			s.unsure("%s: %s", c.Ref(), c.Reason)
			continue
		}
		// VERIFY-18: a set that moved either way has not been read.
		if !c.AsExpected {
			s.problem("%s is not as expected: %s", c.Ref(), strings.Join(c.Problems, "; "))
		}
		// A deviation may well make an action impossible or a case unreachable: that is what it is planted for.
		if c.Expected.Deviation != "" {
			continue
		}
		// CHECK-8, CHECK-10: an action that never fires, or a property whose case is never met, was not looked at.
		for _, a := range c.DeadActions {
			s.problem("%s: action %q never fires: remove it or mend its guard", c.Ref(), a)
		}
		for _, p := range c.Properties {
			_, expected := c.Expected.Violated[p.Name]
			switch {
			case p.Vacuous:
				s.problem("%s: property %q holds only because its case is never met", c.Ref(), p.Name)
			case p.Verdict == model.Violated && !expected:
				s.problem("%s: property %q is violated", c.Ref(), p.Name)
			case p.Verdict == model.Inconclusive:
				s.unsure("%s: property %q is not decided", c.Ref(), p.Name)
			}
		}
	}
	s.requireLooked("configurations", "states", "properties")
}
