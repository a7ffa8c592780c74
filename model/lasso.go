package model

import "slices"

// lasso builds the counterexample of a liveness property: the shortest way (the
// first in breadth-first order) on which the property begins to wait and comes
// to a fair component, and then a cycle in it that keeps every assumption. The
// behaviour replays step by step on the model.
func (s *search[S]) lasso(l *liveSearch) (*Path, error) {
	walk := l.prefix(len(s.raw))
	end := walk[len(walk)-1].state
	t := trail[S]{s}
	states, actions := []S{s.raw[walk[0].state]}, []Action(nil)
	follow := func(hops []hop, from uint32) error {
		for _, h := range hops {
			st, err := t.hop(states[len(states)-1], h, l.g)
			if err != nil {
				return err
			}
			states, actions = append(states, st.State), append(actions, st.Action)
		}
		return nil
	}
	if err := follow(walk[1:], walk[0].state); err != nil {
		return nil, err
	}
	if l.g.enabled.at(uint64(end)) == 0 {
		return newPath(s.m, states, actions, len(states)), nil
	}
	cycle := l.cycle(end)
	loop := len(states) - 1
	// Under a symmetry one turn of the cycle leads to a renamed state: go on until a state comes back.
	turns := []int{loop}
	for {
		if err := follow(cycle, end); err != nil {
			return nil, err
		}
		last := len(states) - 1
		for _, k := range turns {
			if states[k] == states[last] {
				return newPath(s.m, states, actions, k), nil
			}
		}
		turns = append(turns, last)
	}
}

// hop is a step to a numbered state by an action of a class.
type hop struct {
	state uint32
	class uint16
}

// hop returns the step from at that h stands for.
func (t trail[S]) hop(at S, h hop, g *liveGraph) (Step[S], error) {
	mask := g.classes[h.class]
	return t.step(at, func(x Step[S]) bool {
		if x.State == at || !t.follows(at, x) || g.maskOf(x.Action) != mask {
			return false
		}
		rep := t.canonical(x.State)
		return uint32(t.ref(&rep)>>32)-1 == h.state
	})
}

// prefix searches (state, waiting) pairs breadth-first from the initial states
// for the first waiting one in a fair component.
func (l *liveSearch) prefix(initial int) []hop {
	type node struct {
		state   uint32
		waiting bool
	}
	n := l.g.states()
	var met [2][]bool
	met[0], met[1] = make([]bool, n), make([]bool, n)
	type entry struct {
		node
		class  uint16
		parent int
	}
	var queue []entry
	push := func(state uint32, before bool, class uint16, parent int) bool {
		waiting := l.begins(state) || before && !l.ends(state)
		w := 0
		if waiting {
			w = 1
		}
		if met[w][state] {
			return false
		}
		met[w][state] = true
		queue = append(queue, entry{node{state, waiting}, class, parent})
		return waiting && l.comp[state] != 0
	}
	back := func() []hop {
		var hops []hop
		for k := len(queue) - 1; k >= 0; k = queue[k].parent {
			hops = append(hops, hop{queue[k].state, queue[k].class})
		}
		slices.Reverse(hops)
		return hops
	}
	for i := range initial {
		if push(uint32(i), false, 0, -1) {
			return back()
		}
	}
	for k := 0; k < len(queue); k++ {
		at := queue[k]
		for e, end := l.g.first.at(uint64(at.state)), l.g.first.at(uint64(at.state)+1); e < end; e++ {
			if push(l.g.to.at(e), at.waiting, l.g.class.at(e), k) {
				return back()
			}
		}
	}
	panic("model: internal error: a fair component that no waiting behaviour reaches")
}

// cycle returns a walk from state start back to it, inside its component, that
// keeps every assumption: for each one that is not kept yet it goes to the nearest
// place that keeps it.
func (l *liveSearch) cycle(start uint32) []hop {
	id := l.comp[start]
	kept := ^l.g.enabled.at(uint64(start))&l.weak | l.strong&^l.fair[id-1]
	all := l.weak | l.strong
	at := start
	var walk []hop
	take := func(hops []hop) {
		for _, h := range hops {
			kept |= l.g.classes[h.class] | ^l.g.enabled.at(uint64(h.state))&l.weak
			at = h.state
		}
		walk = append(walk, hops...)
	}
	for kept&all != all {
		open := all &^ kept
		take(l.nearest(at, id, func(to uint32, class uint16) bool {
			return l.g.classes[class]&open != 0 || ^l.g.enabled.at(uint64(to))&l.weak&open != 0
		}))
	}
	if at != start || len(walk) == 0 {
		take(l.nearest(at, id, func(to uint32, _ uint16) bool { return to == start }))
	}
	return walk
}

// nearest returns the shortest walk in component id whose last step is as wanted.
func (l *liveSearch) nearest(from, id uint32, want func(to uint32, class uint16) bool) []hop {
	type entry struct {
		hop
		parent int
	}
	met := map[uint32]bool{from: true}
	queue := []entry{{hop{from, 0}, -1}}
	for k := 0; k < len(queue); k++ {
		n := queue[k].state
		for e, end := l.g.first.at(uint64(n)), l.g.first.at(uint64(n)+1); e < end; e++ {
			h := hop{l.g.to.at(e), l.g.class.at(e)}
			if l.comp[h.state] != id {
				continue
			}
			if want(h.state, h.class) {
				hops := []hop{h}
				for i := k; queue[i].parent >= 0; i = queue[i].parent {
					hops = append(hops, queue[i].hop)
				}
				slices.Reverse(hops)
				return hops
			}
			if !met[h.state] {
				met[h.state] = true
				queue = append(queue, entry{h, k})
			}
		}
	}
	panic("model: internal error: a component that is not strongly connected")
}
