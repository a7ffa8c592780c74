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
	// Cover returns a transition cover, rendered; WalkLength is its MaxLength.
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

// NewCase returns a named configuration: build makes the model, expect is what
// a check of it must find. The model's Config is set to name when build leaves
// it empty.
func NewCase[S comparable](name string, build func() Model[S], expect Expect) Case {
	return typedCase[S]{name: name, build: build, expect: expect}
}

type typedCase[S comparable] struct {
	name   string
	build  func() Model[S]
	expect Expect
}

func (c typedCase[S]) Name() string   { return c.name }
func (c typedCase[S]) Expect() Expect { return c.expect }

func (c typedCase[S]) model() Model[S] {
	m := c.build()
	if m.Config == "" {
		m.Config = c.name
	}
	return m
}

func (c typedCase[S]) Check(ctx context.Context, o Options) (*Report, error) {
	return Check(ctx, c.model(), o)
}

func (c typedCase[S]) Simulate(ctx context.Context, o Options) (*Report, error) {
	return Simulate(ctx, c.model(), o)
}

func (c typedCase[S]) Graph(ctx context.Context, o Options) (*Graph, error) {
	m := c.model()
	g, err := Explore(ctx, m, o)
	if err != nil {
		return nil, err
	}
	return render(&m, g), nil
}

func (c typedCase[S]) Cover(ctx context.Context, o Options) (*CoverReport, error) {
	return Cover(ctx, c.model(), CoverOptions[S]{Options: o, MaxLength: o.WalkLength})
}
