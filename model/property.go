package model

// Kind says what a property quantifies over.
type Kind uint8

const (
	// KindAlways holds of every reachable state.
	KindAlways Kind = iota
	// KindStep holds of every transition (from, action, to) of the reachable graph.
	KindStep
	// KindSometimes must be reached by at least one state: the guard against a vacuous pass.
	KindSometimes
	// KindSometimesStep must be shown by at least one transition.
	KindSometimesStep
	// KindEventually: every fair behaviour reaches such a state.
	KindEventually
	// KindLeadsTo: in every fair behaviour each From state is followed, then or later, by a To state.
	KindLeadsTo
)

// String returns the kind's name as reports print it.
func (k Kind) String() string {
	return [...]string{"always", "step", "sometimes", "sometimes-step", "eventually", "leads-to"}[k]
}

// Property is one thing that must hold of a model. Exactly one of State, Step
// and the pair From/To is set, as Kind says; the constructors do that.
type Property[S comparable] struct {
	Name         string // a short sentence: "an installed token is never replaced"
	Kind         Kind
	Requirements []string // ids of the requirements that it checks

	State func(s S) bool
	Step  func(from S, a Action, to S) bool
	From  func(s S) bool
	To    func(s S) bool

	// Antecedent, when set, is the case that the property speaks about (the left side of its implication). A run in
	// which it is never true is reported as vacuous.
	Antecedent     func(s S) bool
	StepAntecedent func(from S, a Action, to S) bool
	// Witness names the Sometimes property that shows the interesting case reached.
	Witness string
}

// Always returns the invariant "holds of every reachable state".
func Always[S comparable](name string, holds func(s S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindAlways, State: holds, Requirements: requirements}
}

// AlwaysStep returns the property "holds of every transition".
func AlwaysStep[S comparable](name string, holds func(from S, a Action, to S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindStep, Step: holds, Requirements: requirements}
}

// Sometimes returns the witness "some reachable state is like this".
func Sometimes[S comparable](name string, reached func(s S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindSometimes, State: reached, Requirements: requirements}
}

// SometimesStep returns the witness "some transition is like this".
func SometimesStep[S comparable](name string, taken func(from S, a Action, to S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindSometimesStep, Step: taken, Requirements: requirements}
}

// Eventually returns the liveness property "every fair behaviour reaches such a
// state". A terminal state stutters for ever.
func Eventually[S comparable](name string, reached func(s S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindEventually, State: reached, Requirements: requirements}
}

// LeadsTo returns the liveness property "from ~> to" under the model's fairness.
func LeadsTo[S comparable](name string, from, to func(s S) bool, requirements ...string) Property[S] {
	return Property[S]{Name: name, Kind: KindLeadsTo, From: from, To: to, Requirements: requirements}
}

// When returns p with its antecedent: the case it speaks about, which must be
// reached for a pass to mean anything.
func (p Property[S]) When(antecedent func(s S) bool) Property[S] {
	p.Antecedent = antecedent
	return p
}

// WhenStep is When for properties of transitions.
func (p Property[S]) WhenStep(antecedent func(from S, a Action, to S) bool) Property[S] {
	p.StepAntecedent = antecedent
	return p
}

// WitnessedBy returns p with the name of the Sometimes property that shows its
// interesting case reached.
func (p Property[S]) WitnessedBy(name string) Property[S] {
	p.Witness = name
	return p
}
