package execution

import "microvms/model"

// Taken is one step on the way of a settled transition.
type Taken[S comparable] struct {
	From   S
	Action model.Action
	To     S
}

// Follow returns the steps that make up the settled transition that begins with
// a in state s: a itself, and every daemon step that follows from it. It
// returns nil when a is not possible in s. A driver waits for them one by one.
func (c GroupConfig) Follow(s GroupState, a model.Action) []Taken[GroupState] {
	c.Settled = false
	g := group{c}
	return follow(s, a, g.next, func(s GroupState) []groupStep {
		var steps []groupStep
		for id := range uint8(c.IDs) {
			steps = g.daemon(s, id, steps)
		}
		return steps
	})
}

// Follow is [GroupConfig.Follow] for the output model.
func (c OutputConfig) Follow(s OutputState, a model.Action) []Taken[OutputState] {
	c.Settled = false
	o := output{c}
	return follow(s, a, o.next, func(s OutputState) []outputStep { return o.inside(s, nil) })
}

// Follow is [GroupConfig.Follow] for the stdin model.
func (c StdinConfig) Follow(s StdinState, a model.Action) []Taken[StdinState] {
	c.Settled = false
	i := stdin{c}
	return follow(s, a, i.next, func(s StdinState) []stdinStep { return i.inside(s, nil) })
}

func follow[S comparable](s S, a model.Action, next func(S, []model.Step[S]) []model.Step[S], inside func(S) []model.Step[S]) []Taken[S] {
	var taken []Taken[S]
	for _, step := range next(s, nil) {
		if step.Action == a {
			taken = append(taken, Taken[S]{s, a, step.State})
			s = step.State
			break
		}
	}
	if taken == nil {
		return nil
	}
	for {
		steps := inside(s)
		if len(steps) == 0 {
			return taken
		}
		taken = append(taken, Taken[S]{s, steps[0].Action, steps[0].State})
		s = steps[0].State
	}
}
