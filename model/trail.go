package model

import (
	"fmt"
	"slices"
)

// noState is the number of no state.
const noState = ^uint32(0)

// trail rebuilds the behaviour that leads to a numbered state. Only parents are
// stored; states come from running Next again. The children of one parent are
// numbered one after the other in the order of Next, so the child's place among
// them says which successor it is.
type trail[S comparable] struct {
	s *search[S]
}

// to returns the states from an initial one to number n, and the actions
// between. Under a symmetry the states are a behaviour of the model itself, not
// of representatives.
func (t trail[S]) to(n uint32) ([]S, []Action, error) {
	var chain []uint32
	for {
		chain = append(chain, n)
		ref := t.s.parents.at(uint64(n))
		if ref == refInitial {
			break
		}
		n = ref - refOffset
	}
	slices.Reverse(chain)
	at := t.s.raw[chain[0]]
	states, actions := []S{at}, []Action(nil)
	for i := 1; i < len(chain); i++ {
		st, err := t.child(at, chain[i-1], chain[i])
		if err != nil {
			return nil, nil, err
		}
		at = st.State
		states, actions = append(states, at), append(actions, st.Action)
	}
	return states, actions, nil
}

// child returns the step from at, which is (or is permuted from) state n, to
// state c.
func (t trail[S]) child(at S, n, c uint32) (Step[S], error) {
	m := t.s.m
	ref := n + refOffset
	place := uint64(c) - searchPages(&t.s.parents, ref)
	rep := t.canonical(at)
	var met []S
	for _, st := range m.Next(rep, nil) {
		if !t.follows(rep, st) {
			continue
		}
		to := t.canonical(st.State)
		if uint32(t.ref(&to)) != ref || slices.Contains(met, to) {
			continue
		}
		if uint64(len(met)) < place {
			met = append(met, to)
			continue
		}
		return t.step(at, func(x Step[S]) bool { return t.follows(at, x) && t.canonical(x.State) == to })
	}
	return Step[S]{}, refuse(m.Name, "the path to a state could not be followed again: Next gave other successors than before; it must depend on its argument only")
}

// step returns the first step of at that is as wanted.
func (t trail[S]) step(at S, want func(Step[S]) bool) (Step[S], error) {
	for _, st := range t.s.m.Next(at, nil) {
		if want(st) {
			return st, nil
		}
	}
	return Step[S]{}, refuse(t.s.m.Name, "the path to a state could not be followed again: no step of a permuted state matches; the symmetry does not commute with Next")
}

func (t trail[S]) canonical(x S) S {
	if sym := t.s.m.Symmetry; sym != nil {
		return sym.Canonical(x)
	}
	return x
}

func (t trail[S]) follows(from S, st Step[S]) bool {
	m := t.s.m
	return (m.ActionConstraint == nil || m.ActionConstraint(from, st)) && (m.Constraint == nil || m.Constraint(st.State))
}

// ref returns what the visited set holds for a state, 0 for one that it does not hold.
func (t trail[S]) ref(x *S) uint64 {
	if t.s.exact != nil {
		return t.s.exact[*x]
	}
	i, ok := t.s.table.find(t.s.fingerprint(x))
	if !ok {
		return 0
	}
	return t.s.table.slots[i].ref
}

// of returns the path of a finding of property p.
func (t trail[S]) of(p int, f finding) (path *Path, err error) {
	m := t.s.m
	defer func() {
		if r := recover(); r != nil {
			path, err = nil, fmt.Errorf("model %q: panic while a path was rendered: %v", m.Name, r)
		}
	}()
	if f.kind == foundInit {
		return newPath(m, []S{t.s.outside[f.from]}, nil, -1), nil
	}
	states, actions, err := t.to(f.from)
	if err != nil {
		return nil, err
	}
	if f.kind == foundState {
		return newPath(m, states, actions, -1), nil
	}
	prop, at := &m.Properties[p], states[len(states)-1]
	st, err := t.step(at, func(x Step[S]) bool {
		if m.ActionConstraint != nil && !m.ActionConstraint(at, x) {
			return false
		}
		if f.kind == foundOutside {
			return !m.Constraint(x.State) && prop.State(x.State) == (prop.Kind == KindSometimes)
		}
		return prop.Step(at, x.Action, x.State) == (prop.Kind == KindSometimesStep)
	})
	if err != nil {
		return nil, err
	}
	return newPath(m, append(states, st.State), append(actions, st.Action), -1), nil
}
