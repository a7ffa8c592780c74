package model

import "context"

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
	return Cover(ctx, c.model(), CoverOptions[S]{Options: o})
}
