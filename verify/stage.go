// Package verify runs the gate of the project: it checks the requirements'
// language, explores the models, replays their transitions on the real daemon,
// judges concurrent histories, runs the tests, and joins what each of these
// looked at into a matrix, requirement by requirement (design, section 4).
//
// A stage that looked at nothing is a failure, and a stage that was stopped by
// a bound is inconclusive: neither ever counts as a pass.
package verify

import (
	"context"
	"fmt"
	"sort"
	"time"

	"microvms/model"
)

// Stage is the outcome of one stage, as report.json holds it.
type Stage struct {
	Name    string           `json:"name"`
	Verdict model.Verdict    `json:"verdict"`
	Seconds float64          `json:"seconds"`
	Counts  map[string]int64 `json:"counts"`
	// Problems are sentences that say what is wrong and what to do; empty when the verdict is holds.
	Problems []string `json:"problems,omitempty"`
	// Unsure are the reasons why the stage is inconclusive.
	Unsure []string `json:"unsure,omitempty"`
}

// problem records a violation.
func (s *Stage) problem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

// unsure records a bound reached or an answer not known.
func (s *Stage) unsure(format string, args ...any) {
	s.Unsure = append(s.Unsure, fmt.Sprintf(format, args...))
}

func (s *Stage) count(name string, n int64) {
	if s.Counts == nil {
		s.Counts = map[string]int64{}
	}
	s.Counts[name] += n
}

// requireLooked fails the stage when one of the named counts is zero.
// VERIFY-5: a check that looked at nothing proves nothing, so zero is a violation and not a pass.
func (s *Stage) requireLooked(names ...string) {
	for _, n := range names {
		if s.Counts[n] == 0 {
			s.problem("the %s stage looked at no %s: its input is missing or a filter is too narrow", s.Name, n)
		}
	}
}

// judge sets the verdict from what was recorded: a violation outweighs a doubt.
func (s *Stage) judge() {
	sort.Strings(s.Problems)
	switch {
	case len(s.Problems) > 0:
		s.Verdict = model.Violated
	case len(s.Unsure) > 0:
		s.Verdict = model.Inconclusive
	default:
		s.Verdict = model.Holds
	}
}

// runStage times body and judges what it recorded. An exceeded budget makes the stage inconclusive.
func runStage(ctx context.Context, name string, budget time.Duration, body func(ctx context.Context, s *Stage)) Stage {
	s := Stage{Name: name, Counts: map[string]int64{}}
	start := time.Now()
	inner, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	body(inner, &s)
	// VERIFY-8: a stage that was stopped has no verdict of its own, so its answer is not known.
	switch {
	case ctx.Err() != nil:
		s.unsure("the %s stage was interrupted", name)
	case inner.Err() != nil:
		s.unsure("the %s stage did not finish within its bound of %s", name, budget)
	}
	s.Seconds = time.Since(start).Seconds()
	s.judge()
	return s
}

// overall is the verdict over all stages: violated before inconclusive before holds.
func overall(stages []Stage) model.Verdict {
	v := model.Holds
	for _, s := range stages {
		switch s.Verdict {
		case model.Violated:
			return model.Violated
		case model.Inconclusive:
			v = model.Inconclusive
		}
	}
	return v
}

// ExitCode maps a verdict to the exit code of the verify and modelcheck
// commands: 0 holds, 1 violated, 3 inconclusive (2 is a usage error).
func ExitCode(v model.Verdict) int {
	// VERIFY-17: what is not known is neither a pass nor a failure.
	switch v {
	case model.Holds:
		return 0
	case model.Inconclusive:
		return 3
	}
	return 1
}
