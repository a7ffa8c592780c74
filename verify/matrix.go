package verify

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"microvms/model"
)

// Layer names, in the order in which the matrix shows them.
var Layers = []string{"model", "replay", "history", "hostile", "test", "code", "fault"}

// Evidence is one thing that was looked at for a requirement.
type Evidence struct {
	Ref     string        `json:"ref"`
	Verdict model.Verdict `json:"verdict"`
}

// Row is one requirement of the matrix, as report.json holds it.
type Row struct {
	ID       string                `json:"id"`
	Sentence string                `json:"sentence"`
	Layers   map[string][]Evidence `json:"layers"`
	Waived   map[string]string     `json:"waived"`
	Verdict  model.Verdict         `json:"verdict"`
	Required []string              `json:"required"`
	Family   string                `json:"family"`
	Missing  []string              `json:"missing,omitempty"`
}

// Need is what the matrix has to know of a requirement.
type Need struct {
	ID, Family, Sentence string
	Layers               []string          // required layers
	Waived               map[string]string // layer → reason
	Retired              bool
}

// Sources are the links found in one run, by kind.
type Sources struct {
	Needs     []Need
	Models    []ModelCase
	Replays   []Replay
	Histories []History
	Runs      []*TestRun // of all stages that ran tests
	Citations []Citation
	Mentions  []Mention
	Faults    []Fault
	// Left are the stages that did not run: a layer that they would fill is not known to be empty.
	Left []string
}

// BuildMatrix joins requirements and links, and records in s each hole: a required layer without evidence, evidence
// that failed, an id that no requirement has, a retired id still in use, a waiver no longer needed.
func BuildMatrix(in Sources, s *Stage) []Row {
	rows := map[string]*Row{}
	var order []string
	for _, n := range in.Needs {
		if n.Retired {
			continue
		}
		rows[n.ID] = &Row{ID: n.ID, Family: n.Family, Sentence: n.Sentence, Layers: map[string][]Evidence{}, Waived: n.Waived, Required: n.Layers}
		order = append(order, n.ID)
	}
	m := &joiner{rows: rows, stage: s, retired: map[string]bool{}}
	for _, n := range in.Needs {
		m.retired[n.ID] = n.Retired
	}
	m.models(in.Models)
	m.conformance(in.Replays, in.Histories)
	m.tests(in.Runs)
	m.code(in.Citations, in.Mentions)
	for _, f := range in.Faults {
		m.link(f.Requirement, "fault", "recorded:"+f.ID, model.Holds, "the fault registry "+f.registry)
	}
	out := make([]Row, 0, len(order))
	for _, id := range order {
		r := rows[id]
		m.finish(r, in.Left)
		out = append(out, *r)
	}
	// VERIFY-28: a matrix with rows that nothing decided is no pass, however it was asked for.
	if m.undecided > 0 {
		s.unsure("%d requirements are not decided, since these stages did not run: %s", m.undecided, strings.Join(in.Left, ", "))
	}
	s.count("requirements", int64(len(out)))
	s.count("links", m.links)
	s.requireLooked("requirements", "links")
	return out
}

type joiner struct {
	rows    map[string]*Row
	retired map[string]bool
	stage   *Stage
	links   int64
	unknown map[string]bool
	// undecided counts the rows with an empty layer that a stage which did not run would fill.
	undecided int
}

// filledBy names the stages whose runs can fill a layer. Tests run in three stages.
var filledBy = map[string][]string{
	"model": {"models"}, "replay": {"replay"}, "history": {"histories"}, "hostile": {"tests"}, "test": {"tests", "replay", "histories"},
}

// open reports whether a stage that could fill the layer did not run.
func open(layer string, left []string) bool {
	return slices.ContainsFunc(filledBy[layer], func(stage string) bool { return slices.Contains(left, stage) })
}

func (m *joiner) link(id, layer, ref string, v model.Verdict, where string) {
	r := m.rows[id]
	if r == nil {
		m.refuse(id, where)
		return
	}
	m.links++
	r.Layers[layer] = append(r.Layers[layer], Evidence{Ref: ref, Verdict: v})
}

// refuse records an id that no requirement has, once.
func (m *joiner) refuse(id, where string) {
	if m.unknown == nil {
		m.unknown = map[string]bool{}
	}
	if m.unknown[id] {
		return
	}
	m.unknown[id] = true
	// VERIFY-2: a link to a requirement that does not exist would count as work nobody asked for, and hide a typo.
	if m.retired[id] {
		m.stage.problem("%s names %s, which is retired: remove the link or name its successor", where, id)
	} else {
		m.stage.problem("%s names %s, which no requirement has: correct the id or write the requirement", where, id)
	}
}

// models links properties of the specified configurations: a deviation shows that a property can fail, not that the rule holds.
func (m *joiner) models(cases []ModelCase) {
	for _, c := range cases {
		for _, p := range c.Properties {
			v := p.Verdict
			if p.Vacuous {
				v = model.Violated
			}
			for _, id := range p.Requirements {
				if c.Expected.Deviation != "" {
					if m.rows[id] == nil {
						m.refuse(id, "model "+c.Ref())
					}
					continue
				}
				if _, expected := c.Expected.Violated[p.Name]; expected {
					continue // a broken deployment assumption, checked to be necessary
				}
				m.link(id, "model", fmt.Sprintf("%s %s %q", c.Ref(), p.Kind, p.Name), v, "model "+c.Ref())
			}
		}
	}
}

func (m *joiner) conformance(replays []Replay, histories []History) {
	for _, r := range replays {
		v := model.Holds
		if len(r.Failures) > 0 {
			v = model.Violated
		}
		for _, id := range sortedKeys(r.Requirements) {
			if n := r.Requirements[id]; n > 0 {
				m.link(id, "replay", fmt.Sprintf("%s %d transitions", r.Ref(), n), v, "replay "+r.Ref())
			}
		}
	}
	for _, h := range histories {
		v := model.Holds
		if len(h.Failures) > 0 {
			v = model.Violated
		} else if h.Undecided > 0 {
			v = model.Inconclusive
		}
		for _, id := range sortedKeys(h.Requirements) {
			if n := h.Requirements[id]; n > 0 {
				m.link(id, "history", fmt.Sprintf("%s %d operations", h.Name, n), v, "histories "+h.Name)
			}
		}
	}
}

// tests links the claims that count. A claim of the hostile catalogue's package is evidence of both layers.
func (m *joiner) tests(runs []*TestRun) {
	for _, run := range runs {
		claims := run.Claims()
		for _, id := range sortedKeys(claims) {
			for _, ref := range claims[id] {
				m.link(id, "test", ref, model.Holds, "test "+ref)
				if isHostile(ref) {
					m.link(id, "hostile", ref, model.Holds, "test "+ref)
				}
			}
		}
		all := run.ClaimedIDs()
		for _, id := range sortedKeys(all) {
			if m.rows[id] == nil {
				m.refuse(id, "test "+all[id])
			}
		}
	}
}

func isHostile(ref string) bool {
	const pkg = "conformance/hostile"
	return len(ref) > len(pkg) && ref[:len(pkg)] == pkg
}

func (m *joiner) code(cites []Citation, mentions []Mention) {
	for _, c := range cites {
		if m.rows[c.ID] != nil {
			m.link(c.ID, "code", c.Ref(), model.Holds, c.Ref())
		}
	}
	for _, n := range mentions {
		if m.rows[n.ID] == nil {
			m.refuse(n.ID, fmt.Sprintf("%s:%d", n.File, n.Line))
		}
	}
}

// finish sets a row's verdict from its required layers.
func (m *joiner) finish(r *Row, left []string) {
	r.Verdict = model.Holds
	undecided := false
	for _, layer := range r.Required {
		if r.Waived[layer] != "" {
			// VERIFY-3: a waiver that is no longer needed would hide the next hole.
			if len(r.Layers[layer]) > 0 {
				m.stage.problem("%s: layer %q is waived, yet it has evidence: remove the waiver", r.ID, layer)
			}
			continue
		}
		if len(r.Layers[layer]) > 0 {
			continue
		}
		r.Missing = append(r.Missing, layer)
		if open(layer, left) {
			undecided = true
			continue
		}
		// VERIFY-1: a rule without the evidence it asks for is not verified, whatever else passed.
		m.stage.problem("%s: required layer %q is empty: add the evidence, or waive the layer with a reason", r.ID, layer)
		r.Verdict = model.Violated
	}
	if undecided {
		m.undecided++
		if r.Verdict == model.Holds {
			r.Verdict = model.Inconclusive
		}
	}
	for _, evidence := range r.Layers {
		for _, e := range evidence {
			if e.Verdict == model.Violated {
				r.Verdict = model.Violated
			} else if e.Verdict == model.Inconclusive && r.Verdict == model.Holds {
				r.Verdict = model.Inconclusive
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
