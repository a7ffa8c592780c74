package histories

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
)

// Result is what a run of one kind of history looked at and found.
type Result struct {
	Name         string           `json:"name"`
	Histories    int64            `json:"histories"`
	Operations   int64            `json:"operations"`
	Overlapping  int64            `json:"overlapping"` // operations that overlap at least one of another client
	Open         int64            `json:"open"`        // operations of unknown outcome
	Undecided    int64            `json:"undecided"`
	Requirements map[string]int64 `json:"requirements"` // operations that showed each
	Failures     []string         `json:"failures"`
	Samples      []Sample         `json:"samples,omitempty"`
	Seconds      float64          `json:"seconds"`
}

// Sample is one judged history, for drawing.
type Sample struct {
	Name       string  `json:"name"`
	Verdict    Verdict `json:"verdict"`
	Operations []Drawn `json:"operations"`
}

// Drawn is one operation of a sample: times in microseconds from the history's start; Return is -1 for an operation
// that the client never saw return.
type Drawn struct {
	Client int    `json:"client"`
	Label  string `json:"label"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
}

// add counts a judged history. samples says how many histories are kept for drawing.
func (r *Result) add(h *History, v Verdict, samples int) {
	for i := range h.Operations {
		o := &h.Operations[i]
		if !o.Known() {
			r.Open++
		}
	}
	if v == Linearizable {
		h.claims(r.Requirements)
	}
	r.Count(h.sample(v), samples)
}

// Count counts a judged history but for what it shows and leaves open, which its
// kind knows. samples says how many histories are kept for drawing.
func (r *Result) Count(s Sample, samples int) {
	r.Histories++
	r.Operations += int64(len(s.Operations))
	r.Overlapping += int64(overlapping(s.Operations))
	if s.Verdict == Undecided {
		r.Undecided++
	}
	if len(r.Samples) < samples {
		r.Samples = append(r.Samples, s)
	}
}

func (h *History) sample(v Verdict) Sample {
	s := Sample{Name: h.Name, Verdict: v}
	for i := range h.Operations {
		o := &h.Operations[i]
		d := Drawn{Client: o.Client, Label: o.Label(), Call: o.Call / 1000, Return: o.Return / 1000}
		if o.Return < 0 {
			d.Return = -1
		}
		s.Operations = append(s.Operations, d)
	}
	return s
}

// overlapping counts the operations that overlap at least one operation of another client.
func overlapping(drawn []Drawn) int {
	ops := slices.Clone(drawn)
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	n := 0
	for i := range ops {
		if overlapsAny(ops, i) {
			n++
		}
	}
	return n
}

func overlapsAny(ops []Drawn, i int) bool {
	o := &ops[i]
	for j := range ops {
		p := &ops[j]
		if j == i || p.Client == o.Client {
			continue
		}
		if p.Call > o.Return && o.Return >= 0 {
			return false // sorted by call: no later one can overlap
		}
		if p.Return < 0 || p.Return >= o.Call {
			return true
		}
	}
	return false
}

// Write writes the result as name.history.json to the directory named by VERIFY_OUT_DIR; without one it writes nothing.
func (r *Result) Write() error {
	dir := os.Getenv("VERIFY_OUT_DIR")
	if dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("cannot encode the result: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, r.Name+".history.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}

// String summarizes the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("%s: histories=%d operations=%d overlapping=%d open=%d undecided=%d failures=%d seconds=%.1f",
		r.Name, r.Histories, r.Operations, r.Overlapping, r.Open, r.Undecided, len(r.Failures), r.Seconds)
}
