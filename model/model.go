// Package model is an explicit-state model checker for small, finite models
// written in Go.
//
// A model is a value of [Model]: initial states, a successor function and
// properties, all pure. States are fixed-size comparable values without
// pointers or padding, so that the search can copy, hash and store them without
// the collector ever looking at them.
//
// The search is breadth-first and parallel, and everything it reports (states,
// distinct states, depth, action counts, counterexamples) is the same for any
// number of workers and in any process: a state's number is its place in the
// order of a sequential search, and ties break by the order of Next.
//
// [Check] judges a model, [Simulate] samples one that is too large, [Explore]
// returns its graph and [CoverPaths] paths that take every transition of it.
// [NewCase] and [Suite] put a configuration, with what a check must find, into
// the catalogue that the command modelcheck works on.
//
// A verdict of Holds means that the whole space was explored, every witness
// (Sometimes) was reached, every action fired and no property was vacuous. A
// bound that is reached makes it Inconclusive. States are told apart by 64-bit
// fingerprints; the report says how many collisions to expect, and Options.Exact
// does without them.
//
// Liveness (Eventually, LeadsTo) has the meaning of TLA+: a behaviour may stop in
// any state unless an assumption of [Fairness] makes it go on.
package model

import "fmt"

// MaxArgs is the number of parameters that an [Action] can carry.
const MaxArgs = 6

// Action is one parameterised action of a model: an index into Model.Actions
// and its arguments. It is comparable and 8 bytes wide, so that a [Step] stays
// small.
type Action struct {
	ID  uint16
	Arg [MaxArgs]uint8
}

// Act builds an Action. It panics when more than [MaxArgs] arguments are given.
func Act(id uint16, args ...uint8) Action {
	a := Action{ID: id}
	if len(args) > MaxArgs {
		panic(fmt.Sprintf("model: internal error: action %d has %d arguments, the most is %d", id, len(args), MaxArgs))
	}
	copy(a.Arg[:], args)
	return a
}

// ActionInfo names an action and its parameters, in the order of Action.Arg.
type ActionInfo struct {
	Name   string   // a verb phrase in CamelCase, the same in model, trace and code: "ExecStart"
	Params []string // parameter names, for printing: "id", "reader"
	// Values optionally names the values of a parameter: Values["token"][1] is
	// printed instead of 1.
	Values map[string][]string
}

// Step is one transition out of a state: the action taken and the state it
// leads to.
type Step[S comparable] struct {
	Action Action
	State  S
}

// Model describes a transition system over states of type S, and what must hold
// of it. S must be a fixed-size comparable type without pointers, strings,
// interfaces, floats or padding; Check refuses others and says how to mend them.
//
// All functions must be pure, deterministic and safe for concurrent use. A
// function that appends to a slice must not keep it.
type Model[S comparable] struct {
	Name   string // "bootstrap"
	Config string // the configuration that this value describes: "held", "broken"

	// Actions lists every action; Action.ID indexes it. An action that never
	// fires in an exhaustive run is reported as dead unless MayBeDead holds it.
	Actions   []ActionInfo
	MayBeDead []string

	// Init appends the initial states.
	Init func(out []S) []S
	// Next appends every enabled step of s, always in the same order. The order is part of the model: ties between
	// equally short counterexamples break by it.
	Next func(s S, out []Step[S]) []Step[S]

	// Constraint, when set, cuts the space: a state for which it is false is generated and checked by the properties
	// of states, but not counted as distinct and not expanded (TLC's CONSTRAINT).
	Constraint func(s S) bool
	// ActionConstraint, when set, cuts steps: a successor is generated, but not followed, when it is false (TLC's
	// ACTION_CONSTRAINT). Neither the step nor its target is judged.
	ActionConstraint func(from S, step Step[S]) bool

	// Terminal declares the states in which having no successor is the intended end. A state without successors for
	// which it is false (or which has no Terminal at all while CheckDeadlock is set) is a deadlock.
	Terminal      func(s S) bool
	CheckDeadlock bool

	// Fingerprint, when set, replaces the default hash of the state's bytes. Equal states must have equal fingerprints.
	Fingerprint func(s *S) uint64

	// Symmetry, when set, identifies states that differ by a renaming only.
	Symmetry *Symmetry[S]

	Properties []Property[S]
	// Fairness holds the assumptions under which Eventually and LeadsTo are judged.
	Fairness []Fairness

	// Fields names the parts of a state for printing: a counterexample shows, for each step, the fields that changed.
	// When nil, the exported and unexported fields of S are printed by reflection (never on the hot path).
	Fields func(s S) []Field
}

// Field is a named part of a state, rendered for people.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Symmetry declares interchangeable identities. Canonical maps every state to
// one representative of its orbit. Generators are permutations that generate
// the symmetry group (adjacent transpositions are enough). For the first 16,384
// representatives and for each sixteenth after that, the checker verifies that
// Canonical is idempotent and takes a state and its permuted images to one
// representative, and that properties, constraints, fairness, successors and
// fingerprint commute with each generator; a declared symmetry for which that
// fails is refused.
type Symmetry[S comparable] struct {
	Canonical  func(s S) S
	Generators []func(s S) S
}

// Fairness is an assumption on one set of actions: a behaviour in which they
// are enabled for ever (weak) or enabled again and again (strong) without ever
// being taken is not considered. The actions of one Fairness count together
// (their disjunction is fair), as in TLA+'s WF_vars(A \/ B).
//
// Without an assumption that is broken by it, a behaviour may stop (stutter for ever) in any state, also as in
// TLA+: what must go on needs a Fairness. Whether an action is enabled is asked of Next: a step that a constraint
// cuts counts as enabled, so that a bound never makes up a counterexample.
type Fairness struct {
	Name   string
	Strong bool
	// Match selects the actions. A step that does not change the state counts
	// neither as enabled nor as taken, as in TLA+'s angle-bracket action.
	Match func(a Action) bool

	ids []uint16 // those of Weak and Strong, so that one outside Model.Actions is refused
}

// Weak returns weak fairness of all actions with one of the given ids, together.
func Weak(name string, ids ...uint16) Fairness { return fair(name, false, ids) }

// Strong returns strong fairness of all actions with one of the given ids, together.
func Strong(name string, ids ...uint16) Fairness { return fair(name, true, ids) }

func fair(name string, strong bool, ids []uint16) Fairness {
	return Fairness{Name: name, Strong: strong, ids: ids, Match: func(a Action) bool {
		for _, id := range ids {
			if a.ID == id {
				return true
			}
		}
		return false
	}}
}
