package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"microvms/verify"
)

const (
	verifyName      = "make verify, all stages"
	replayedName    = "transitions replayed"
	unskippedName   = "replayed share of unskipped transitions"
	skippedName     = "skipped share of transitions"
	historiesName   = "histories judged"
	undecidedName   = "histories undecided"
	stageNamePrefix = "stage "
)

// stageBounds are the seconds that each stage may take on two cores.
var stageBounds = []struct {
	name    string
	seconds float64
}{{"lint", 5}, {"models", 60}, {"replay", 90}, {"histories", 60}, {"tests", 60}, {"matrix", 5}}

// verificationExperiment reads the figures of the last make verify. They were
// measured there, so that nothing is known of what others took.
func verificationExperiment(w *workshop) experiment {
	e := experiment{name: "verification", once: true, absent: "the last make verify has left no such figure", figures: []figure{
		{"verification", verifyName, "s", "", alone("≤", 300)},
		{"verification", replayedName, "", "", alone("≥", 5000)},
		{"verification", unskippedName, "%", "", alone("≥", 100)},
		{"verification", skippedName, "%", "", alone("≤", 5)},
		{"verification", historiesName, "", "", alone("≥", 2000)},
		{"verification", undecidedName, "", "", alone("=", 0)},
	}}
	for _, s := range stageBounds {
		e.figures = append(e.figures, figure{"verification", stageNamePrefix + s.name, "s", "", alone("≤", s.seconds)})
	}
	e.round = func(_ context.Context, r *round) error {
		path := filepath.Join(w.root, "verify", "report", "report.json")
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing was verified yet: the table says so, which is no fault of this run
		}
		if err != nil {
			return err
		}
		var report verify.Report
		if err := json.Unmarshal(text, &report); err != nil {
			return fmt.Errorf("cannot read %s: %w; make verify writes it again", path, err)
		}
		for name, value := range reportFigures(&report) {
			r.add(name, value, 0, untimed)
		}
		return nil
	}
	return e
}

// reportFigures returns what a report holds; a stage that did not run has no
// figures.
func reportFigures(r *verify.Report) map[string]float64 {
	found := map[string]float64{}
	ran := map[string]bool{}
	for _, s := range r.Stages {
		ran[s.Name] = true
		found[stageNamePrefix+s.Name] = s.Seconds
	}
	whole := true
	for _, s := range stageBounds {
		whole = whole && ran[s.name]
	}
	if whole {
		found[verifyName] = r.Seconds
	}
	var transitions, replayed, skipped int64
	for _, p := range r.Replays {
		transitions, replayed = transitions+p.Transitions, replayed+p.Replayed
		for _, s := range p.Skips {
			skipped += s.Transitions
		}
	}
	if transitions > 0 {
		found[replayedName] = float64(replayed)
		found[skippedName] = 100 * float64(skipped) / float64(transitions)
	}
	if transitions > skipped {
		found[unskippedName] = 100 * float64(replayed) / float64(transitions-skipped)
	}
	var histories, undecided int64
	for _, h := range r.Histories {
		histories, undecided = histories+h.Histories, undecided+h.Undecided
	}
	if histories > 0 {
		found[historiesName], found[undecidedName] = float64(histories), float64(undecided)
	}
	return found
}
