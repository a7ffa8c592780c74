package verify

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"microvms/model"
)

// Report is the content of report.json. Schema 1 is the contract of the design, section 4; fields beyond it may be
// added, never removed or changed.
type Report struct {
	Schema       int           `json:"schema"`
	Commit       string        `json:"commit"`
	StartedAt    string        `json:"started_at"` // RFC 3339, UTC
	Seconds      float64       `json:"seconds"`
	Verdict      model.Verdict `json:"verdict"`
	Stages       []Stage       `json:"stages"`
	Models       []ModelEntry  `json:"models"`
	Requirements []Row         `json:"requirements"`
	Replays      []Replay      `json:"replays,omitempty"`
	Histories    []History     `json:"histories,omitempty"`
}

// ModelEntry is one configuration of a model in report.json.
type ModelEntry struct {
	Name        string                 `json:"name"`
	Config      string                 `json:"config"`
	States      uint64                 `json:"states"`
	Distinct    uint64                 `json:"distinct"`
	Depth       int                    `json:"depth"`
	Seconds     float64                `json:"seconds"`
	Actions     map[string]uint64      `json:"actions"`
	Properties  []model.PropertyReport `json:"properties"`
	Transitions uint64                 `json:"transitions"`
	Replayed    int64                  `json:"replayed"`
	AsExpected  bool                   `json:"as_expected"`
	Deviation   string                 `json:"deviation,omitempty"`
	Verdict     model.Verdict          `json:"verdict"`
}

func modelEntry(c ModelCase) ModelEntry {
	e := ModelEntry{
		Name: c.Model, Config: c.Config, States: c.States, Distinct: c.Distinct, Depth: c.Depth, Seconds: c.Timing.Seconds,
		Actions: map[string]uint64{}, Properties: drawn(c), Transitions: c.Transitions, AsExpected: c.AsExpected,
		Deviation: c.Expected.Deviation, Verdict: c.Verdict,
	}
	for _, a := range c.Actions {
		e.Actions[a.Name] = a.Taken
	}
	return e
}

// drawn returns the properties with the paths that the report draws: every counterexample, and the examples of the
// specified rules. A step keeps what it changed; whole states would make the report ten times as large and say no more.
func drawn(c ModelCase) []model.PropertyReport {
	out := make([]model.PropertyReport, len(c.Properties))
	for i, p := range c.Properties {
		if p.Path != nil && c.Expected.Deviation != "" && p.Verdict != model.Violated {
			p.Path = nil
		}
		if p.Path != nil {
			path := *p.Path
			path.Steps = append([]model.PathStep(nil), path.Steps...)
			for k := range path.Steps {
				path.Steps[k].State = nil
			}
			p.Path = &path
		}
		out[i] = p
	}
	return out
}

// addReplays sets how many transitions of each model were replayed.
func (r *Report) addReplays(replays []Replay) {
	for _, p := range replays {
		for i := range r.Models {
			if m := &r.Models[i]; m.Name == p.Model && m.Config == p.Config {
				m.Replayed = max(m.Replayed, p.Replayed)
			}
		}
	}
}

// Write writes report.json, index.html, junit.xml and matrix.csv into dir, which it makes.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the report folder: %w", err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the report: %w", err)
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	// VERIFY-14: the whole report as one document beside its renderings.
	files := map[string][]byte{"report.json": append(data, '\n'), "index.html": page, "junit.xml": r.junit(), "matrix.csv": r.csv()}
	for _, name := range sortedKeys(files) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return fmt.Errorf("cannot write the report: %w", err)
		}
	}
	return nil
}

// csv renders the matrix, one row a requirement, one column a layer.
func (r *Report) csv() []byte {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(append(append([]string{"id", "verdict", "sentence", "required"}, Layers...), "waived"))
	for _, row := range r.Requirements {
		rec := []string{row.ID, string(row.Verdict), row.Sentence, strings.Join(row.Required, " ")}
		for _, layer := range Layers {
			var refs []string
			for _, e := range row.Layers[layer] {
				refs = append(refs, e.Ref)
			}
			rec = append(rec, strings.Join(refs, "\n"))
		}
		var waived []string
		for _, layer := range sortedKeys(row.Waived) {
			waived = append(waived, layer+": "+row.Waived[layer])
		}
		_ = w.Write(append(rec, strings.Join(waived, "\n"))) // a strings.Builder never fails
	}
	w.Flush()
	return []byte(b.String())
}
