package model

import "context"

// Suite is one model package's catalogue: its configurations, each with what a
// check must find. Packages under model/ export a function Suite() Suite.
type Suite struct {
	Name    string
	Summary string // one sentence
	Cases   []Case
	// NotSeeded waives, by the name of a property, that some case must plant a deviation that violates it; the value is
	// the reason.
	NotSeeded map[string]string
}

// Case is one configuration of a model with its expectation, its state type
// hidden so that commands and reports can hold all of them in one list. NewCase
// makes one.
type Case interface {
	Name() string   // the configuration's name: "held"
	Expect() Expect // what a check must find
	Check(ctx context.Context, o Options) (*Report, error)
	Simulate(ctx context.Context, o Options) (*Report, error)
	// Graph explores the space and returns it with states rendered, for the exports.
	Graph(ctx context.Context, o Options) (*Graph, error)
	// Cover returns a transition cover, rendered.
	Cover(ctx context.Context, o Options) (*CoverReport, error)
}

// Expect is the golden record of a configuration. Violated is the exact set:
// one more or one fewer violated property is a failure.
type Expect struct {
	Distinct uint64 `json:"distinct,omitempty"` // 0 means not pinned
	States   uint64 `json:"states,omitempty"`
	Depth    int    `json:"depth,omitempty"`
	// Violated maps the name of each property that must be violated to the length (actions) of its shortest
	// counterexample. Empty for a configuration in which everything holds. The length of a witness that is never reached
	// is not compared, since it has no path.
	Violated map[string]int `json:"violated,omitempty"`
	// Deviation describes the deliberate fault that the configuration plants; empty for the specified rule.
	Deviation string `json:"deviation,omitempty"`
}
