package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"microvms/model"
)

// plan is what a replay goes through: the paths, and what they leave out.
type plan[S comparable] struct {
	total int // distinct transitions of the whole reachable graph
	paths []model.CoverPath[S]
	skips []Skipped
}

// behind is the reason of transitions that no path reaches without a skipped
// one.
const behind = "reachable only through skipped transitions"

// newPlan covers the graph without the skipped transitions, and accounts for
// every transition of the whole graph.
func newPlan[S comparable](ctx context.Context, s *Spec[S]) (*plan[S], error) {
	whole, err := model.Explore(ctx, s.Model, s.Cover.Options)
	if err != nil {
		return nil, err
	}
	p := &plan[S]{total: len(whole.Edges), skips: []Skipped{}}
	if p.total == 0 {
		return nil, errors.New("the model has no transitions, so nothing would be compared")
	}
	open := s.Model
	if len(s.Skips) > 0 {
		inner := open.ActionConstraint
		open.ActionConstraint = func(from S, step model.Step[S]) bool {
			if inner != nil && !inner(from, step) {
				return false
			}
			return s.skipped(Transition[S]{from, step.Action, step.State}) < 0
		}
	}
	if p.paths, err = model.CoverPaths(ctx, open, s.Cover); err != nil {
		return nil, err
	}
	if s.Cover.Abstract != nil {
		return p, p.accountPairs(s, whole)
	}
	return p, p.account(s, whole)
}

// pair is what an abstract cover takes: an action and the abstract value of the
// state that it leaves.
type pair struct {
	action model.Action
	state  uint64
}

func (s *Spec[S]) pairOf(t Transition[S]) pair { return pair{t.Action, s.Cover.Abstract(t.From)} }

// accountPairs accounts for every pair of the whole graph instead of every
// transition. What is skipped would have to be told apart by pairs, too, so such
// a replay skips nothing.
func (p *plan[S]) accountPairs(s *Spec[S], whole *model.StateGraph[S]) error {
	if len(s.Skips) > 0 {
		return errors.New("a replay of pairs cannot skip transitions: take the skips out, or the abstraction")
	}
	all, covered := map[pair]bool{}, map[pair]bool{}
	for _, e := range whole.Edges {
		all[s.pairOf(Transition[S]{whole.States[e.From], e.Action, whole.States[e.To]})] = true
	}
	for _, path := range p.paths {
		from := path.Initial
		for _, step := range path.Steps {
			covered[s.pairOf(Transition[S]{from, step.Action, step.State})] = true
			from = step.State
		}
	}
	if len(covered) != len(all) {
		return fmt.Errorf("the cover takes %d of %d pairs", len(covered), len(all))
	}
	p.total = len(all)
	return nil
}

// skipped returns the index of the skip that selects the transition, or -1.
func (s *Spec[S]) skipped(t Transition[S]) int {
	name := s.Model.Actions[t.Action.ID].Name
	for i, k := range s.Skips {
		if k.Action == name && (k.Match == nil || k.Match(t)) {
			return i
		}
	}
	return -1
}

func (p *plan[S]) account(s *Spec[S], whole *model.StateGraph[S]) error {
	covered := map[Transition[S]]bool{}
	for _, path := range p.paths {
		from := path.Initial
		for _, step := range path.Steps {
			covered[Transition[S]{from, step.Action, step.State}] = true
			from = step.State
		}
	}
	selected := make([]int, len(s.Skips))
	beyond := map[string]int{}
	left := 0
	for _, e := range whole.Edges {
		t := Transition[S]{whole.States[e.From], e.Action, whole.States[e.To]}
		if covered[t] {
			continue
		}
		left++
		if i := s.skipped(t); i >= 0 {
			selected[i]++
		} else {
			beyond[s.Model.Actions[e.Action.ID].Name]++
		}
	}
	for i, k := range s.Skips {
		// CONF-2: a skip nobody can explain, or that selects nothing, is a hole or a typo.
		if k.Reason == "" {
			return fmt.Errorf("the skip of %q has no reason", k.Action)
		}
		if selected[i] == 0 {
			return fmt.Errorf("the skip of %q (%s) selects no transition; take it out", k.Action, k.Reason)
		}
		p.skips = append(p.skips, Skipped{Action: k.Action, Reason: k.Reason, Transitions: selected[i]})
	}
	for _, a := range s.Model.Actions {
		if n := beyond[a.Name]; n > 0 {
			p.skips = append(p.skips, Skipped{Action: a.Name, Reason: behind, Transitions: n})
			if len(s.Skips) == 0 {
				return fmt.Errorf("%d transitions of %q are in no path of the cover", n, a.Name)
			}
		}
	}
	if float64(left) > MaxSkipShare*float64(p.total) {
		return fmt.Errorf("%d of %d transitions are skipped, the most is %.0f %%", left, p.total, 100*MaxSkipShare)
	}
	return nil
}

// demonstrates lists the requirements that a transition shows: those of every
// step property whose case the transition is, of every invariant whose case it
// brings about, and of every witness that it is or brings about. A property without a stated case
// speaks about everything, so it shows nothing in particular.
func demonstrates[S comparable](m *model.Model[S], t Transition[S]) []string {
	var ids []string
	for _, p := range m.Properties {
		shown := false
		switch p.Kind {
		case model.KindStep:
			shown = p.StepAntecedent != nil && p.StepAntecedent(t.From, t.Action, t.To)
		case model.KindAlways:
			shown = p.Antecedent != nil && p.Antecedent(t.To) && !p.Antecedent(t.From)
		case model.KindSometimes:
			shown = p.State(t.To) && !p.State(t.From)
		case model.KindSometimesStep:
			shown = p.Step(t.From, t.Action, t.To)
		}
		// CONF-7: a rule says nothing here, so nothing is shown of it.
		if !shown {
			continue
		}
		for _, id := range p.Requirements {
			ids = appendNew(ids, id)
		}
	}
	return ids
}

func appendNew(ids []string, id string) []string {
	for _, have := range ids {
		if have == id {
			return ids
		}
	}
	return append(ids, id)
}

// renderPath prints the first steps of a path, for failures.
func renderPath[S comparable](m *model.Model[S], p model.CoverPath[S], steps int) string {
	var b strings.Builder
	for i, s := range p.Steps[:steps] {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, m.ActionString(s.Action))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
