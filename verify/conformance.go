package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Replay is what the replay of one model configuration reports (written by conformance/replay).
type Replay struct {
	Model        string           `json:"model"`
	Config       string           `json:"config"`
	Target       string           `json:"target,omitempty"` // "binary" or "in-process"
	Transitions  int64            `json:"transitions"`
	Replayed     int64            `json:"replayed"`
	Skips        []ReplaySkip     `json:"skips"`
	Paths        int64            `json:"paths"`
	Requirements map[string]int64 `json:"requirements"` // transitions that showed each
	Failures     []string         `json:"failures,omitempty"`
	Seconds      float64          `json:"seconds"`
}

// ReplaySkip names transitions that the real world cannot be forced into.
type ReplaySkip struct {
	Action      string `json:"action"`
	Reason      string `json:"reason"`
	Transitions int64  `json:"transitions"`
}

// Ref returns "model:config".
func (r Replay) Ref() string { return r.Model + ":" + r.Config }

func (r Replay) skipped() (n int64) {
	for _, k := range r.Skips {
		n += k.Transitions
	}
	return n
}

// History is what the judging of one kind of concurrent history reports (written by conformance/histories).
type History struct {
	Name         string           `json:"name"`
	Histories    int64            `json:"histories"`
	Operations   int64            `json:"operations"`
	Overlapping  int64            `json:"overlapping"`
	Open         int64            `json:"open"`
	Undecided    int64            `json:"undecided"`
	Requirements map[string]int64 `json:"requirements"` // operations that showed each
	Failures     []string         `json:"failures"`
	Samples      []HistorySample  `json:"samples,omitempty"`
	Seconds      float64          `json:"seconds"`
}

// HistorySample is one judged history, for drawing.
type HistorySample struct {
	Name       string        `json:"name"`
	Verdict    string        `json:"verdict"`
	Operations []HistoryDraw `json:"operations"`
}

// HistoryDraw is one operation of a drawn history: times in microseconds from the history's start; Return is -1 for
// an operation of unknown outcome.
type HistoryDraw struct {
	Client int    `json:"client"`
	Label  string `json:"label"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
}

// minHistories is how many histories a run must judge, minReplayed how many transitions it must replay, and
// maxSkipShare the share of transitions that may be skipped by name.
const (
	minHistories = 2000
	minReplayed  = 2000
	maxSkipShare = 0.05
)

// readResults decodes every file of dir with that suffix, in name order.
func readResults[T any](dir, suffix string) ([]T, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("cannot list results: %w", err)
	}
	sort.Strings(paths)
	var all []T
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("cannot read a result: %w", err)
		}
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return nil, fmt.Errorf("cannot read the result %q: %w", filepath.Base(p), err)
		}
		all = append(all, v)
	}
	return all, nil
}

// JudgeReplays holds the replays to their floor: every transition replayed or skipped by name with a reason.
func JudgeReplays(replays []Replay, s *Stage) {
	for _, r := range replays {
		s.count("configurations", 1)
		s.count("paths", r.Paths)
		s.count("transitions", r.Transitions)
		s.count("replayed", r.Replayed)
		s.count("skipped", r.skipped())
		for _, f := range r.Failures {
			s.problem("%s: %s", r.Ref(), f)
		}
		for _, k := range r.Skips {
			if k.Reason == "" {
				s.problem("%s: %d transitions of %s are skipped without a reason", r.Ref(), k.Transitions, k.Action)
			}
		}
		// VERIFY-19: what is left out without a word cannot be told from what held.
		if left := r.Transitions - r.Replayed - r.skipped(); left != 0 {
			s.problem("%s: %d transitions were neither replayed nor skipped by name", r.Ref(), left)
		}
		// VERIFY-9: past this share the skips, not the replay, decide what was shown.
		if float64(r.skipped()) > maxSkipShare*float64(r.Transitions) {
			s.problem("%s: %d of %d transitions are skipped: the most is %.0f %%", r.Ref(), r.skipped(), r.Transitions, 100*maxSkipShare)
		}
	}
	s.requireLooked("configurations", "paths", "transitions", "replayed")
	if n := s.Counts["replayed"]; n > 0 && n < minReplayed {
		s.problem("%d transitions were replayed: the least is %d", n, minReplayed)
	}
}

// JudgeHistories holds the judged histories to their floor; an undecided history is a doubt, not a pass.
func JudgeHistories(histories []History, s *Stage) {
	for _, h := range histories {
		s.count("histories", h.Histories)
		s.count("operations", h.Operations)
		s.count("overlapping", h.Overlapping)
		s.count("open", h.Open)
		s.count("undecided", h.Undecided)
		for _, f := range h.Failures {
			s.problem("%s: %s", h.Name, f)
		}
		// VERIFY-20: the judge's bound was reached, so nobody knows.
		if h.Undecided > 0 {
			s.unsure("%s: %d histories were not decided within their bound", h.Name, h.Undecided)
		}
	}
	s.requireLooked("histories", "operations", "overlapping")
	// VERIFY-23: what is rare shows in none of a handful.
	if n := s.Counts["histories"]; n > 0 && n < minHistories {
		s.problem("%d histories were judged: the least is %d", n, minHistories)
	}
}

// conformanceTests runs the tests of one conformance package tree and judges them; their results land in outDir.
func conformanceTests(ctx context.Context, o Options, outDir string, s *Stage, packages ...string) *TestRun {
	args := append([]string{"-count=1", "-timeout=20m"}, packages...)
	run, err := goTest(ctx, o.Root, []string{"VERIFY_OUT_DIR=" + outDir}, o.eachTest(s.Name), args...)
	if err != nil {
		s.problem("%v", err)
	}
	if run != nil {
		judgeTests(run, o, s)
	}
	return run
}

// judgeTests counts a run's tests and records each failure, and each skip when none is allowed.
func judgeTests(run *TestRun, o Options, s *Stage) {
	passed, failed, skipped := run.Totals()
	s.count("tests", int64(passed))
	s.count("failed", int64(failed))
	s.count("skipped tests", int64(skipped))
	for _, t := range run.Tests {
		switch {
		case t.Outcome == Failed && !hasFailedChild(run, t):
			s.problem("%s:%s failed: %s", shortPackage(t.Package), t.Name, firstLines(t.Output, 12))
		case t.Outcome == Unfinished:
			s.problem("%s:%s did not finish", shortPackage(t.Package), t.Name)
		// VERIFY-25: where nothing may be missing, a skip is a hole.
		case t.Outcome == Skipped && o.FailOnSkip:
			s.problem("%s:%s was skipped: %s", shortPackage(t.Package), t.Name, firstLines(t.Output, 4))
		}
	}
	for pkg, outcome := range run.Packages {
		// VERIFY-21: a package that does not compile has no test that could fail.
		if outcome == Failed && !packageHasFailedTest(run, pkg) {
			s.problem("package %s failed outside its tests: %s", shortPackage(pkg), firstLines(run.Output[pkg], 12))
		}
	}
	s.requireLooked("tests")
}

func hasFailedChild(run *TestRun, t *Test) bool {
	for _, o := range run.Tests {
		if o.Package == t.Package && strings.HasPrefix(o.Name, t.Name+"/") && o.Outcome == Failed {
			return true
		}
	}
	return false
}

func packageHasFailedTest(run *TestRun, pkg string) bool {
	for _, t := range run.Tests {
		if t.Package == pkg && (t.Outcome == Failed || t.Outcome == Unfinished) {
			return true
		}
	}
	return false
}
