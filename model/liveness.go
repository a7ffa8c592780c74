package model

import "context"

// Liveness is judged on the stored graph. A behaviour is a path from an initial
// state in which every state may be repeated for ever; fairness is what rules
// that out. A property "from ~> to" is violated exactly if some reachable From
// state leads, through states without To, to a strongly connected set of such
// states in which every assumption can be kept for ever:
//
//   - weak: some state of the set does not enable it, or some step in the set takes it;
//   - strong: no state of the set enables it, or some step in the set takes it.
//
// A maximal component that fails a weak assumption has no subset that keeps it.
// One that fails a strong assumption may: the states that enable it are taken
// out, and what is left is searched again (the emptiness check of Streett
// automata). Eventually is the same with the initial states as From.
type liveSearch struct {
	g       *liveGraph
	weak    uint64 // assumptions
	strong  uint64
	prop    uint // which pair of marks
	stopped func() bool

	// region is, by state, the set that it is searched with: 0 for none. Edges between regions do not count.
	region []uint32
	later  [][]uint32 // sets that are to be searched again

	comp  []uint32 // by state: 1 + index in fair, 0 for none
	fair  []uint64 // assumptions that some state of the component enables
	found bool

	// Tarjan's algorithm, without recursion.
	index   []uint32 // 0: not visited
	low     []uint32
	onStack []bool
	stack   []uint32
	calls   []liveCall
	counter uint32
}

type liveCall struct {
	state uint32
	edge  uint64
}

func newLiveSearch(g *liveGraph, prop int, stopped func() bool) *liveSearch {
	n := g.states()
	l := &liveSearch{g: g, prop: uint(2 * prop), stopped: stopped}
	for i, f := range g.fairness {
		if f.Strong {
			l.strong |= 1 << i
		} else {
			l.weak |= 1 << i
		}
	}
	l.region, l.comp, l.index, l.low, l.onStack = make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]bool, n)
	return l
}

func (l *liveSearch) begins(n uint32) bool { return l.g.marks.at(uint64(n))>>l.prop&1 != 0 }
func (l *liveSearch) ends(n uint32) bool   { return l.g.marks.at(uint64(n))>>l.prop&2 != 0 }

// run finds the fair components among the states that can wait.
func (l *liveSearch) run() {
	l.reach()
	var roots []uint32
	for n, r := range l.region {
		if r != 0 {
			roots = append(roots, uint32(n))
		}
	}
	l.components(roots)
	for id := uint32(2); len(l.later) > 0 && !l.stopped(); id++ {
		set := l.later[0]
		l.later = l.later[1:]
		for _, n := range set {
			l.region[n], l.index[n] = id, 0
		}
		l.components(set)
	}
}

// reach marks the states that a waiting behaviour can be in.
func (l *liveSearch) reach() {
	var todo []uint32
	for n := range l.region {
		if l.begins(uint32(n)) && l.region[n] == 0 {
			l.region[n] = 1
			todo = append(todo, uint32(n))
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for e, end := l.g.first.at(uint64(n)), l.g.first.at(uint64(n)+1); e < end; e++ {
			if to := l.g.to.at(e); l.region[to] == 0 && !l.ends(to) {
				l.region[to] = 1
				todo = append(todo, to)
			}
		}
	}
}

// components visits the strongly connected components of the region of roots.
func (l *liveSearch) components(roots []uint32) {
	for _, r := range roots {
		if l.index[r] != 0 {
			continue
		}
		if l.stopped() {
			return
		}
		l.visit(r)
		for len(l.calls) > 0 {
			c := &l.calls[len(l.calls)-1]
			if next, ok := l.advance(c); ok {
				l.visit(next)
				continue
			}
			n := c.state
			l.calls = l.calls[:len(l.calls)-1]
			if k := len(l.calls); k > 0 {
				up := l.calls[k-1].state
				l.low[up] = min(l.low[up], l.low[n])
			}
			if l.low[n] == l.index[n] {
				l.pop(n)
			}
		}
	}
}

func (l *liveSearch) visit(n uint32) {
	l.counter++
	l.index[n], l.low[n], l.onStack[n] = l.counter, l.counter, true
	l.stack = append(l.stack, n)
	l.calls = append(l.calls, liveCall{n, l.g.first.at(uint64(n))})
}

// advance looks at the remaining edges of c; it returns a state to visit first.
func (l *liveSearch) advance(c *liveCall) (uint32, bool) {
	end := l.g.first.at(uint64(c.state) + 1)
	for c.edge < end {
		to := l.g.to.at(c.edge)
		c.edge++
		switch {
		case l.region[to] != l.region[c.state]:
		case l.index[to] == 0:
			return to, true
		case l.onStack[to]:
			l.low[c.state] = min(l.low[c.state], l.index[to])
		}
	}
	return 0, false
}

// pop takes the component of root from the stack and judges it.
func (l *liveSearch) pop(root uint32) {
	k := len(l.stack) - 1
	for l.stack[k] != root {
		k--
	}
	set := l.stack[k:]
	for _, n := range set {
		l.onStack[n] = false
	}
	l.stack = l.stack[:k]
	if len(set) == 1 && l.g.first.at(uint64(root)) == l.g.first.at(uint64(root)+1) && l.g.enabled.at(uint64(root)) == 0 {
		l.accept(set, 0)
		return
	}
	l.judge(set)
}

// judge accepts a component, rejects it, or searches it again without the
// states that enable what it can't keep.
func (l *liveSearch) judge(set []uint32) {
	l.fair = append(l.fair, 0)
	id := uint32(len(l.fair))
	for _, n := range set {
		l.comp[n] = id
	}
	var someEnabled, someDisabled, taken uint64
	for _, n := range set {
		on := l.g.enabled.at(uint64(n))
		someEnabled |= on
		someDisabled |= ^on
		if taken == l.weak|l.strong {
			continue
		}
		for e, end := l.g.first.at(uint64(n)), l.g.first.at(uint64(n)+1); e < end; e++ {
			if l.comp[l.g.to.at(e)] == id {
				taken |= l.g.classes[l.g.class.at(e)]
			}
		}
	}
	// CHECK-4: a set is a behaviour only if each assumption can be kept in it for ever.
	bad := l.strong & someEnabled &^ taken
	weak := l.weak &^ someDisabled &^ taken
	if bad|weak == 0 {
		l.fair[id-1] = someEnabled
		l.found = true
		return
	}
	for _, n := range set {
		l.comp[n] = 0
	}
	l.fair = l.fair[:id-1]
	if weak == 0 {
		l.again(set, bad)
	}
}

// accept makes set a fair component.
func (l *liveSearch) accept(set []uint32, enabled uint64) {
	l.fair = append(l.fair, enabled)
	for _, n := range set {
		l.comp[n] = uint32(len(l.fair))
	}
	l.found = true
}

// again leaves the states of set that do not enable an assumption in bad to a
// search of their own, once the running one has ended.
func (l *liveSearch) again(set []uint32, bad uint64) {
	var rest []uint32
	for _, n := range set {
		if l.g.enabled.at(uint64(n))&bad == 0 {
			rest = append(rest, n)
		}
	}
	if len(rest) > 0 {
		l.later = append(l.later, rest)
	}
}

// judgeLive judges the i-th liveness property. It returns the lasso that
// violates it, or nil.
func (s *search[S]) judgeLive(ctx context.Context, i int) (*Path, error) {
	l := newLiveSearch(s.graph, i, func() bool { return s.stop.Load() != 0 })
	l.run()
	if !l.found || s.stop.Load() != 0 {
		return nil, nil
	}
	return s.lasso(l)
}
