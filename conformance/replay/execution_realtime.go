package replay

import (
	"context"

	"microvms/model"
	"microvms/model/execution"
)

// InRealTime narrows a replay to a few paths, given by their actions from the
// initial state, and plays them at once on a daemon whose time passes by itself.
// While a timer runs, the state may change at any moment, so what is observed is
// compared only in states in which none does; what leads there is awaited.
func InRealTime[S comparable](s Spec[S], pending func(s S) bool, paths ...[]model.Action) Spec[S] {
	on := map[Transition[S]]bool{}
	for _, path := range paths {
		at := s.Model.Init(nil)[0]
		for _, a := range path {
			for _, step := range s.Model.Next(at, nil) {
				if step.Action == a {
					on[Transition[S]{at, a, step.State}] = true
					at = step.State
					break
				}
			}
		}
	}
	s.Model.Config += "-real-time"
	s.Name += "-real-time"
	s.Model.ActionConstraint = func(from S, step model.Step[S]) bool {
		return on[Transition[S]{from, step.Action, step.State}]
	}
	s.Parallel = len(paths)
	start, project := s.Start, s.Project
	s.Start = func(ctx context.Context, initial S) (Driver[S], error) {
		d, err := start(ctx, initial)
		return &realTimeDriver[S]{d, pending}, err
	}
	s.Project = func(t Transition[S]) Observation {
		if pending(t.To) {
			return timerRuns
		}
		return project(t)
	}
	return s
}

// timerRuns stands for a state that may change at any moment.
var timerRuns = Observation{{Name: "timer", Value: "runs"}}

type realTimeDriver[S comparable] struct {
	Driver[S]
	pending func(s S) bool
}

// Observe looks only where no timer runs.
func (d *realTimeDriver[S]) Observe(ctx context.Context, t Transition[S]) (Observation, error) {
	if d.pending(t.To) {
		return timerRuns, nil
	}
	return d.Driver.Observe(ctx, t)
}

// GroupTimerRuns reports whether a timer of some exec is pending.
func GroupTimerRuns(s execution.GroupState) bool {
	return execution.PendingTimers(s) != (execution.TimerCount{})
}

// StdinTimerRuns reports whether a write is under way.
func StdinTimerRuns(s execution.StdinState) bool {
	for _, x := range s.Writer {
		if x.Step != execution.WriterIdle {
			return true
		}
	}
	return false
}
