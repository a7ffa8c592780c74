package execution

import (
	"context"
	"testing"

	"microvms/model"
)

// TestFollowEndsWhereTheModelDoes checks, for each transition of each settled
// configuration, that the steps which make it up lead to its target, so that a
// driver waits for what the model means.
func TestFollowEndsWhereTheModelDoes(t *testing.T) {
	looked := 0
	for _, c := range GroupReplays() {
		if c.Settled {
			looked += checkFollow(t, NewGroup(c), c.Follow)
		}
	}
	for _, c := range OutputReplays() {
		if c.Settled {
			looked += checkFollow(t, NewOutput(c), c.Follow)
		}
	}
	for _, c := range StdinReplays() {
		if c.Settled {
			looked += checkFollow(t, NewStdin(c), c.Follow)
		}
	}
	if looked < 1000 {
		t.Errorf("looked at %d transitions only", looked)
	}
}

func checkFollow[S comparable](t *testing.T, m model.Model[S], f func(S, model.Action) []Taken[S]) int {
	t.Helper()
	g, err := model.Explore(context.Background(), m, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g.Edges {
		steps := f(g.States[e.From], e.Action)
		if len(steps) == 0 || steps[len(steps)-1].To != g.States[e.To] {
			t.Fatalf("%s: %s leads elsewhere: %v", m.Config, m.ActionString(e.Action), steps)
		}
	}
	return len(g.Edges)
}
