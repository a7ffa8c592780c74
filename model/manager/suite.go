package manager

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"microvms/model"
)

// goldenRecord is what one configuration must be found to be: exact counts and
// the exact set of violated properties with the lengths of their shortest
// counterexamples.
type goldenRecord struct {
	Sentence string         `json:"sentence"` // what the configuration is, or which fault it plants
	Distinct uint64         `json:"distinct"`
	States   uint64         `json:"states"`
	Depth    int            `json:"depth"`
	Violated map[string]int `json:"violated,omitempty"` // -1 where there is no counterexample: a witness that is not reached
}

//go:embed testdata/expect.golden
var goldenFile []byte

// golden reads the embedded records. A broken file is a broken build.
func golden() map[string]goldenRecord {
	records := map[string]goldenRecord{}
	if err := json.Unmarshal(goldenFile, &records); err != nil {
		panic(fmt.Sprintf("manager: internal error: cannot read the golden file: %v", err))
	}
	return records
}

// entry is one configuration before its expectation is known.
type entry struct {
	name, sentence string
	deviates       bool
	build          func(model.Expect) model.Case
}

func entryOf[S comparable](name, sentence string, deviates bool, build func() model.Model[S]) entry {
	return entry{name, sentence, deviates, func(x model.Expect) model.Case { return model.NewCase(name, build, x) }}
}

// entries lists every configuration of the package, in the order of reports.
func entries() []entry {
	var all []entry
	for _, c := range Configs() {
		all = append(all, entryOf(c.Name, c.sentence(), c.Deviation != Specified, func() model.Model[State] { return New(c) }))
	}
	for _, c := range WireConfigs() {
		all = append(all, entryOf(c.Name, c.sentence(), c.Deviation != WireSpecified, func() model.Model[WireState] { return NewWire(c) }))
	}
	return all
}

// Suite returns the package's catalogue: the specified configurations, those
// that are replayed on the manager, and the deviations.
func Suite() model.Suite {
	records := golden()
	s := model.Suite{
		Name:    "manager",
		Summary: "the manager's runs, who is told of them, and what a connection's messages are answered",
	}
	for _, e := range entries() {
		r := records[e.name]
		x := model.Expect{Distinct: r.Distinct, States: r.States, Depth: r.Depth, Violated: r.Violated}
		if e.deviates {
			x.Deviation = e.sentence
		}
		s.Cases = append(s.Cases, e.build(x))
	}
	return s
}
