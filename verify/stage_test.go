package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	"microvms/model"
)

func TestStageThatLookedAtNothingIsViolated(t *testing.T) {
	t.Attr("requirement", "VERIFY-5")
	for _, tc := range []struct {
		name  string
		judge func(*Stage)
	}{
		{"models", func(s *Stage) { JudgeModels(nil, s) }},
		{"replay", func(s *Stage) { JudgeReplays(nil, s) }},
		{"histories", func(s *Stage) { JudgeHistories(nil, s) }},
		{"tests", func(s *Stage) { judgeTests(&TestRun{}, Options{}, s) }},
		{"matrix", func(s *Stage) { BuildMatrix(Sources{}, s) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := runStage(context.Background(), tc.name, time.Minute, func(_ context.Context, s *Stage) { tc.judge(s) })
			if s.Verdict != model.Violated {
				t.Errorf("the verdict on an empty %s stage is %q, want violated", tc.name, s.Verdict)
			}
		})
	}
}

func TestStageStoppedByItsBoundIsInconclusive(t *testing.T) {
	t.Attr("requirement", "VERIFY-8")
	s := runStage(context.Background(), "models", time.Nanosecond, func(ctx context.Context, _ *Stage) { <-ctx.Done() })
	if s.Verdict != model.Inconclusive {
		t.Errorf("verdict %q, want inconclusive", s.Verdict)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s = runStage(ctx, "models", time.Minute, func(context.Context, *Stage) {})
	if s.Verdict != model.Inconclusive {
		t.Errorf("verdict of an interrupted stage %q, want inconclusive", s.Verdict)
	}
}

func TestOverallVerdict(t *testing.T) {
	t.Attr("requirement", "VERIFY-17")
	stage := func(v model.Verdict) Stage { return Stage{Verdict: v} }
	for _, tc := range []struct {
		stages []Stage
		want   model.Verdict
		code   int
	}{
		{[]Stage{stage(model.Holds), stage(model.Holds)}, model.Holds, 0},
		{[]Stage{stage(model.Holds), stage(model.Inconclusive)}, model.Inconclusive, 3},
		{[]Stage{stage(model.Inconclusive), stage(model.Violated)}, model.Violated, 1},
	} {
		got := overall(tc.stages)
		if got != tc.want || ExitCode(got) != tc.code {
			t.Errorf("overall(%v) = %q, exit %d; want %q, exit %d", tc.stages, got, ExitCode(got), tc.want, tc.code)
		}
	}
}

// TestModelsAreJudged checks that each thing wrong with a configuration turns the stage red.
func TestModelsAreJudged(t *testing.T) {
	t.Attr("requirement", "VERIFY-18")
	good := func() ModelCase {
		return ModelCase{AsExpected: true, Report: model.Report{
			Model: "m", Config: "held", Verdict: model.Holds, Complete: true, States: 9, Distinct: 4,
			Properties: []model.PropertyReport{{Name: "p", Kind: "always", Verdict: model.Holds}},
		}}
	}
	for _, tc := range []struct {
		name  string
		edit  func(*ModelCase)
		want  model.Verdict
		words string
	}{
		{"a sound case", func(*ModelCase) {}, model.Holds, ""},
		{"not as expected", func(c *ModelCase) { c.AsExpected, c.Problems = false, []string{"12 states"} }, model.Violated, "12 states"},
		{"a dead action", func(c *ModelCase) { c.DeadActions = []string{"Grant"} }, model.Violated, `"Grant" never fires`},
		{"a vacuous property", func(c *ModelCase) { c.Properties[0].Vacuous = true }, model.Violated, "never met"},
		{"a violated property", func(c *ModelCase) { c.Properties[0].Verdict = model.Violated }, model.Violated, "is violated"},
		{"a bound", func(c *ModelCase) { c.Complete, c.Verdict, c.Reason = false, model.Inconclusive, "1000 states" }, model.Inconclusive, ""},
		{"a dead action under a deviation", func(c *ModelCase) { c.DeadActions, c.Expected.Deviation = []string{"Grant"}, "no grant" }, model.Holds, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good()
			tc.edit(&c)
			s := Stage{Name: "models"}
			JudgeModels([]ModelCase{c}, &s)
			s.judge()
			if s.Verdict != tc.want || !strings.Contains(strings.Join(s.Problems, "\n"), tc.words) {
				t.Errorf("verdict %q with problems %q; want %q with %q", s.Verdict, s.Problems, tc.want, tc.words)
			}
		})
	}
}

func TestReplaysAreJudged(t *testing.T) {
	t.Attr("requirement", "VERIFY-9")
	t.Attr("requirement", "VERIFY-19")
	skip := func(n int64, reason string) []ReplaySkip {
		return []ReplaySkip{{Action: "Trim", Reason: reason, Transitions: n}}
	}
	for _, tc := range []struct {
		name  string
		r     Replay
		want  model.Verdict
		words string
	}{
		{"all replayed", Replay{Transitions: 3000, Replayed: 3000, Paths: 9}, model.Holds, ""},
		{"few skipped by name", Replay{Transitions: 3000, Replayed: 2900, Paths: 9, Skips: skip(100, "no such kernel")}, model.Holds, ""},
		{"too many skipped", Replay{Transitions: 3000, Replayed: 2800, Paths: 9, Skips: skip(200, "no such kernel")}, model.Violated, "the most is 5 %"},
		{"no reason", Replay{Transitions: 3000, Replayed: 2999, Paths: 9, Skips: skip(1, "")}, model.Violated, "without a reason"},
		{"some left out", Replay{Transitions: 3000, Replayed: 2999, Paths: 9}, model.Violated, "neither replayed nor skipped"},
		{"a failure", Replay{Transitions: 3000, Replayed: 3000, Paths: 9, Failures: []string{"got 200, want 409"}}, model.Violated, "got 200"},
		{"too small", Replay{Transitions: 30, Replayed: 30, Paths: 9}, model.Violated, "the least is 2000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Stage{Name: "replay"}
			JudgeReplays([]Replay{tc.r}, &s)
			s.judge()
			if s.Verdict != tc.want || !strings.Contains(strings.Join(s.Problems, "\n"), tc.words) {
				t.Errorf("verdict %q with problems %q; want %q with %q", s.Verdict, s.Problems, tc.want, tc.words)
			}
		})
	}
}

func TestHistoriesAreJudged(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	t.Attr("requirement", "VERIFY-20")
	t.Attr("requirement", "VERIFY-23")
	good := History{Name: "exec", Histories: 2000, Operations: 90000, Overlapping: 9000}
	for _, tc := range []struct {
		name string
		edit func(*History)
		want model.Verdict
	}{
		{"all linearizable", func(*History) {}, model.Holds},
		{"one is not", func(h *History) { h.Failures = []string{"seed 7: double spawn"} }, model.Violated},
		{"one undecided", func(h *History) { h.Undecided = 1 }, model.Inconclusive},
		{"nothing overlaps", func(h *History) { h.Overlapping = 0 }, model.Violated},
		{"too few", func(h *History) { h.Histories = 1999 }, model.Violated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := good
			tc.edit(&h)
			s := Stage{Name: "histories"}
			JudgeHistories([]History{h}, &s)
			s.judge()
			if s.Verdict != tc.want {
				t.Errorf("verdict %q, want %q: %q", s.Verdict, tc.want, s.Problems)
			}
		})
	}
}
