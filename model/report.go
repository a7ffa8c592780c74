package model

// Verdict is the outcome of a run or of one property.
type Verdict string

const (
	// Holds: looked at everything, nothing wrong.
	Holds Verdict = "holds"
	// Violated: a counterexample exists (or a witness was never reached in a complete search).
	Violated Verdict = "violated"
	// Inconclusive: a bound was reached before the answer was known. Never a pass.
	Inconclusive Verdict = "inconclusive"
)

// Report is what one run found. It is the same, byte for byte, for any number
// of workers, except for the fields of Timing.
type Report struct {
	Model   string  `json:"name"`
	Config  string  `json:"config"`
	Verdict Verdict `json:"verdict"`
	// Reason says why the verdict is not Holds: the bound reached, the properties violated, dead actions, vacuous properties.
	Reason string `json:"reason,omitempty"`

	States   uint64 `json:"states"`   // generated: initial states and every successor, before any constraint
	Distinct uint64 `json:"distinct"` // distinct states within the constraint
	Depth    int    `json:"depth"`    // states on the longest shortest path: 1 for a model whose initial states have no new successors
	Terminal uint64 `json:"terminal"` // distinct states without successors

	Complete    bool             `json:"complete"` // the whole space was explored
	Actions     []ActionCount    `json:"action_counts"`
	Properties  []PropertyReport `json:"properties"`
	DeadActions []string         `json:"dead_actions,omitempty"`
	Transitions uint64           `json:"transitions"` // distinct (state, action, successor) triples followed
	// Collisions is the expected number of fingerprint collisions, distinct × (states − distinct) / 2^64; 0 in exact mode.
	Collisions float64 `json:"expected_collisions"`
	Exact      bool    `json:"exact"`

	Timing Timing `json:"timing"`
}

// Timing is the part of a report that differs between runs.
type Timing struct {
	Seconds  float64 `json:"seconds"`
	Workers  int     `json:"workers"`
	PeakHeap uint64  `json:"peak_bytes"` // bytes held by the visited set and frontier at their largest
}

// ActionCount is the coverage of one action.
type ActionCount struct {
	Name    string `json:"name"`
	Enabled uint64 `json:"enabled"` // distinct states in which it is enabled
	Taken   uint64 `json:"taken"`   // transitions it labels
	Changed uint64 `json:"changed"` // transitions whose target differs from their source
}

// PropertyReport is the verdict on one property.
type PropertyReport struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Verdict      Verdict  `json:"verdict"`
	Requirements []string `json:"requirements"`
	Witness      string   `json:"witness,omitempty"`
	// Vacuous: the property holds, but its antecedent was never true.
	Vacuous bool `json:"vacuous,omitempty"`
	// Antecedents counts the states or transitions in which the antecedent was true.
	Antecedents uint64 `json:"antecedents,omitempty"`
	// Path is the counterexample (always, step, eventually, leads-to) or the shortest example (sometimes).
	Path *Path `json:"path,omitempty"`
}

// Path is a behaviour: states joined by actions. For a liveness counterexample
// Loop is the index in Steps at which the cycle begins: the last step leads back
// to the state of Steps[Loop], and the steps from Loop+1 on are repeated for
// ever. Loop is -1 for a finite path, and len(Steps) when the last state stutters
// for ever.
type Path struct {
	Steps []PathStep `json:"steps"`
	Loop  int        `json:"loop"`
}

// PathStep is one step of a path. The first step has no action: it is the
// initial state.
type PathStep struct {
	Action  string  `json:"action,omitempty"` // rendered with its arguments: "ExecStart(id=1)"
	Changed []Field `json:"changed"`          // the fields that differ from the step before; all of them in the first
	State   []Field `json:"state,omitempty"`
}

// Len returns the number of actions on the path.
func (p *Path) Len() int { return len(p.Steps) - 1 }
