package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Result is what a replay looked at and what it found.
type Result struct {
	Model       string    `json:"model"`
	Config      string    `json:"config"`
	Target      string    `json:"target,omitempty"`
	Transitions int       `json:"transitions"`    // distinct transitions of the model's reachable graph, or what Unit says
	Replayed    int       `json:"replayed"`       // of those, taken on the system and found right
	Unit        string    `json:"unit,omitempty"` // "pairs": of an action and an abstract state, instead of transitions
	Skips       []Skipped `json:"skips"`
	Paths       int       `json:"paths"`
	Steps       int       `json:"steps"` // steps over all paths, repetitions included
	// Requirements counts the replayed transitions that show each requirement.
	Requirements map[string]int `json:"requirements"`
	Failures     []string       `json:"failures,omitempty"`
	Seconds      float64        `json:"seconds"`
}

// Skipped counts the transitions that one skip leaves out.
type Skipped struct {
	Action      string `json:"action"`
	Reason      string `json:"reason"`
	Transitions int    `json:"transitions"`
}

// Err returns an error unless every transition was replayed or skipped by name,
// and none was found wrong.
func (r *Result) Err() error {
	skipped := 0
	for _, s := range r.Skips {
		skipped += s.Transitions
	}
	switch {
	case len(r.Failures) > 0:
		return fmt.Errorf("replay of %s:%s failed on %d paths, first: %s", r.Model, r.Config, len(r.Failures), r.Failures[0])
	case r.Replayed == 0:
		return fmt.Errorf("replay of %s:%s replayed nothing", r.Model, r.Config)
	case r.Replayed+skipped != r.Transitions:
		return fmt.Errorf("replay of %s:%s accounts for %d of %d transitions", r.Model, r.Config, r.Replayed+skipped, r.Transitions)
	}
	return nil
}

// String summarizes the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("%s:%s on %s: transitions=%d replayed=%d paths=%d steps=%d failures=%d seconds=%.1f",
		r.Model, r.Config, r.Target, r.Transitions, r.Replayed, r.Paths, r.Steps, len(r.Failures), r.Seconds)
}

// OutputVariable names the directory that results are written to. Unset, they
// are not written.
const OutputVariable = "VERIFY_OUT_DIR"

// Write writes the result as name.replay.json to the directory named by
// [OutputVariable], for verification.
func (r *Result) Write(name string) error {
	dir := os.Getenv(OutputVariable)
	if dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the result %q: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".replay.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the result %q: %w", name, err)
	}
	return nil
}
