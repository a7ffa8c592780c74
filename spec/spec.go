// Package spec holds the project's requirements as data and the small language
// they are written in: EARS (Easy Approach to Requirements Syntax) clauses in
// TOML, a glossary, waivers, and the fingerprints of the texts that were
// reviewed last.
//
// [Load] reads a folder strictly, [Lint] judges it, and [RenderSpec] writes
// SPEC.md. A sentence is rendered from its clauses and stored nowhere. The
// committed folder is available through [Files], so a program that imports this
// package needs no path.
//
// The package imports no sibling. Everything it returns is safe for concurrent
// reads; nothing in it changes a loaded [Set].
package spec

import (
	"embed"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run ./cmd/spec render

//go:embed spec.toml glossary.toml waivers.toml reviewed.toml requirements/*.toml
var files embed.FS

// Files returns the committed specification: the folder spec/ at build time.
func Files() fs.FS { return files }

// Pattern is the EARS class of a requirement. It must agree with the clauses
// that the requirement has.
type Pattern string

// The classes of Mavin's EARS.
const (
	Ubiquitous  Pattern = "ubiquitous"   // no clause
	EventDriven Pattern = "event-driven" // When trigger
	StateDriven Pattern = "state-driven" // While precondition
	Unwanted    Pattern = "unwanted"     // If trigger, then
	Optional    Pattern = "optional"     // Where feature
	Complex     Pattern = "complex"      // two or more of the clauses above
)

// Layer is a place where a requirement is looked at.
type Layer string

// The layers, in the order in which a requirement lists them.
const (
	LayerModel   Layer = "model"   // a property of a checked model names it
	LayerReplay  Layer = "replay"  // a replayed transition of that model shows it on the real daemon
	LayerHistory Layer = "history" // a judged concurrent history shows it
	LayerHostile Layer = "hostile" // a row of the hostile input list shows it
	LayerTest    Layer = "test"    // a passing test claims it
	LayerFault   Layer = "fault"   // a seeded fault that breaks it turns a test red
)

// Layers returns every layer in order. The slice is the caller's.
func Layers() []Layer {
	return []Layer{LayerModel, LayerReplay, LayerHistory, LayerHostile, LayerTest, LayerFault}
}

// Status is where a requirement stands. Only approved ones have to be covered.
type Status string

// The states of a requirement.
const (
	Draft    Status = "draft"
	Approved Status = "approved"
	Retired  Status = "retired" // the id stays taken for ever; nothing may cite it
)

// strengths says how a violation is prevented. Source: client facts, section 4;
// S4 is this project's own, for what only a check can find.
var strengths = []struct{ name, meaning string }{
	{"S1", "cannot be written: the structure of the code or a type excludes the violation"},
	{"S2", "can be asked for, and is refused at run time before it has an effect"},
	{"S3", "a safe default that can be overridden, with the cost of the override stated"},
	{"S4", "a promise of behaviour: nothing refuses a violation at run time, only a check finds it"},
}

// Requirement is one rule. Clause fields hold text without keywords and without
// final punctuation; absent clauses are empty.
type Requirement struct {
	ID           string
	Pattern      Pattern
	Feature      string // Where …
	Precondition string // While …
	Trigger      string // When …, or If …, then for an unwanted requirement
	Unwanted     string // If …, then in a complex requirement
	System       string // one of Set.Systems, with its article
	Response     string // what stands after "shall"
	Rationale    string
	Strength     string
	Status       Status
	Source       string // "wire facts, section 7.2"; several are joined by "; "
	Layers       []Layer
	Refines      []string
	Derives      []string
	ReplacedBy   string // of a retired requirement, optional

	File string // within the loaded folder
	Line int    // of its table header, from 1
}

// Family returns the part of the id before the number: "EXEC".
func (r *Requirement) Family() string {
	family, _ := splitID(r.ID)
	return family
}

// Requires reports whether the matrix must hold evidence in the layer, waivers
// aside: true only for approved requirements that list it.
func (r *Requirement) Requires(l Layer) bool {
	return r.Status == Approved && slices.Contains(r.Layers, l)
}

// splitID splits "BIND-6" into "BIND" and 6. The number is 0 when the id is
// malformed.
func splitID(id string) (family string, number int) {
	at := strings.LastIndexByte(id, '-')
	if at < 1 {
		return id, 0
	}
	n, err := strconv.Atoi(id[at+1:])
	if err != nil || n < 1 || strconv.Itoa(n) != id[at+1:] {
		return id[:at], 0
	}
	return id[:at], n
}

// compareIDs orders ids by family, then by number.
func compareIDs(a, b string) int {
	fa, na := splitID(a)
	fb, nb := splitID(b)
	if c := strings.Compare(fa, fb); c != 0 {
		return c
	}
	if na != nb {
		return na - nb
	}
	return strings.Compare(a, b)
}

// Family is one file of requirements.
type Family struct {
	Name  string // "EXEC"
	Title string
	File  string
}

// System is something that a requirement binds.
type System struct {
	Name    string // with its article: "the daemon"
	Meaning string
}

// Waiver forgives one missing layer or one finding of one requirement until a
// version, never until a date: a version ends when somebody decides so.
type Waiver struct {
	Requirement string
	Layer       Layer  // exactly one of Layer and Code is set
	Code        string // a finding code, SPEC-L…
	Reason      string
	Owner       string // the package that owes the work
	Until       string // the first version in which it no longer holds, "0.2.0"

	File string
	Line int
}

// Set is a loaded specification. Slices belong to it: do not change them.
type Set struct {
	Version      string // the version that waivers are judged against
	Systems      []System
	Families     []Family
	Requirements []Requirement // by family name, then number; then file order
	Terms        []Term
	Waivers      []Waiver
	Reviewed     map[string]string // id to the fingerprint last reviewed

	byID map[string]int
}

// Lookup finds a requirement by id. The pointer is into the set.
func (s *Set) Lookup(id string) (*Requirement, bool) {
	at, ok := s.byID[id]
	if !ok {
		return nil, false
	}
	return &s.Requirements[at], true
}

// Waived finds the waiver in force for a layer of a requirement. An ended
// waiver is not in force.
func (s *Set) Waived(id string, l Layer) (*Waiver, bool) {
	for i := range s.Waivers {
		w := &s.Waivers[i]
		if w.Requirement == id && w.Layer == l && w.inForce(s.Version) {
			return w, true
		}
	}
	return nil, false
}
