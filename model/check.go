package model

import (
	"context"
)

// deadlockName is the property under which a deadlock is reported.
const deadlockName = "no deadlock"

// Check explores the model and judges its properties.
func Check[S comparable](ctx context.Context, m Model[S], o Options) (*Report, error) {
	g, err := Explore(ctx, m, o)
	if err != nil {
		return nil, err
	}
	r := &Report{Model: m.Name, Config: m.Config, Verdict: Holds, Complete: true, Distinct: uint64(len(g.States)), Transitions: uint64(len(g.Edges))}
	parent := make([]int, len(g.States))
	via := make([]Action, len(g.States))
	for i := range parent {
		parent[i] = -1
	}
	r.States = uint64(len(m.Init(nil)))
	for i, s := range g.States {
		r.Depth = max(r.Depth, g.Depth[i])
		r.States += uint64(len(m.Next(s, nil)))
		for _, e := range g.Out(i) {
			if parent[e.To] < 0 && g.Depth[e.To] == g.Depth[i]+1 {
				parent[e.To], via[e.To] = i, e.Action
			}
		}
	}
	path := func(n int, more ...Edge) *Path {
		var ss []S
		var as []Action
		for k := n; k >= 0; k = parent[k] {
			ss = append([]S{g.States[k]}, ss...)
			if parent[k] >= 0 {
				as = append([]Action{via[k]}, as...)
			}
		}
		for _, e := range more {
			ss, as = append(ss, g.States[e.To]), append(as, e.Action)
		}
		return newPath(&m, ss, as, -1)
	}
	for _, p := range m.Properties {
		pr := PropertyReport{Name: p.Name, Kind: p.Kind.String(), Requirements: p.Requirements, Witness: p.Witness, Verdict: Holds}
		switch p.Kind {
		case KindAlways, KindSometimes:
			if p.Kind == KindSometimes {
				pr.Verdict = Violated
			}
			for i, s := range g.States {
				if p.State(s) != (p.Kind == KindAlways) {
					pr.Path = path(i)
					pr.Verdict = map[bool]Verdict{true: Violated, false: Holds}[p.Kind == KindAlways]
					break
				}
			}
		case KindStep, KindSometimesStep:
			if p.Kind == KindSometimesStep {
				pr.Verdict = Violated
			}
			for _, e := range g.Edges {
				if p.Step(g.States[e.From], e.Action, g.States[e.To]) != (p.Kind == KindStep) {
					pr.Path = path(e.From, e)
					pr.Verdict = map[bool]Verdict{true: Violated, false: Holds}[p.Kind == KindStep]
					break
				}
			}
		default:
			pr.Verdict = Inconclusive
		}
		if pr.Verdict != Holds && r.Verdict != Violated {
			r.Verdict = pr.Verdict
		}
		r.Properties = append(r.Properties, pr)
	}
	return r, nil
}

// Simulate walks the model at random.
func Simulate[S comparable](ctx context.Context, m Model[S], o Options) (*Report, error) {
	return Check(ctx, m, o)
}
