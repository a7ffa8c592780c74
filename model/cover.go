package model

import (
	"context"
	"fmt"
)

// CoverOptions steer a transition cover.
type CoverOptions[S comparable] struct {
	Options // bounds of the exploration
	// MaxLength is the most steps that a path takes when it is extended; a path that reaches its first new transition
	// may be longer. 0 means 100.
	MaxLength int
	// Abstract, when set, asks for less: every pair of an action (with its arguments) and the Abstract value of the
	// state it leaves, instead of every transition.
	Abstract func(s S) uint64
}

// CoverPath is one path of a cover: an initial state and the steps from it.
type CoverPath[S comparable] struct {
	Initial S
	Steps   []Step[S]
}

// CoverReport is a transition cover, rendered.
type CoverReport struct {
	Model       string  `json:"name"`
	Config      string  `json:"config"`
	Transitions int     `json:"transitions"` // distinct (from, action, to) of the reachable graph
	Targets     int     `json:"targets"`     // what the cover takes: the transitions, or the (action, abstract state) pairs
	Steps       int     `json:"steps"`       // steps over all paths
	Paths       []*Path `json:"paths"`
}

// CoverPaths returns paths from initial states that together take every
// distinct transition (from, action, to) of the reachable graph, or every
// (action, abstract state) pair when o.Abstract is set. Paths are ordered by
// the depth of the first transition that they add, the same in every run. Each
// goes on through transitions not yet taken for as long as it can reach them, up to
// MaxLength, so that there are few.
//
// Under a symmetry the graph has representatives only, and its paths do not
// replay; such a model is refused: take the symmetry out for a cover.
func CoverPaths[S comparable](ctx context.Context, m Model[S], o CoverOptions[S]) ([]CoverPath[S], error) {
	paths, _, err := coverPaths(ctx, &m, o)
	return paths, err
}

// Cover is CoverPaths, rendered.
func Cover[S comparable](ctx context.Context, m Model[S], o CoverOptions[S]) (*CoverReport, error) {
	paths, c, err := coverPaths(ctx, &m, o)
	if err != nil {
		return nil, err
	}
	r := &CoverReport{Model: m.Name, Config: m.Config, Transitions: len(c.g.Edges), Targets: c.targets, Paths: make([]*Path, 0, len(paths))}
	for _, p := range paths {
		states, actions := []S{p.Initial}, []Action(nil)
		for _, st := range p.Steps {
			states, actions = append(states, st.State), append(actions, st.Action)
		}
		r.Steps += len(p.Steps)
		r.Paths = append(r.Paths, newPath(&m, states, actions, -1))
	}
	return r, nil
}

func coverPaths[S comparable](ctx context.Context, m *Model[S], o CoverOptions[S]) ([]CoverPath[S], *coverer[S], error) {
	// CHECK-27: half a graph, or one of representatives, would be taken for the whole.
	if m.Symmetry != nil {
		return nil, nil, refuse(m.Name, "a cover under a symmetry would not replay; build the model without Symmetry for it")
	}
	g, err := Explore(ctx, *m, o.Options)
	if err != nil {
		return nil, nil, err
	}
	if o.MaxLength <= 0 {
		o.MaxLength = 100
	}
	c := newCoverer(g, o)
	var paths []CoverPath[S]
	// Breadth-first numbers rise with depth, so taking the edges in order gives the shortest first.
	// CHECK-14: each edge begins a path unless an earlier path took it.
	for e := range g.Edges {
		if c.isTaken(e) {
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("cannot cover model %q: %w", m.Name, ctx.Err())
		}
		paths = append(paths, c.path(e))
	}
	return paths, c, nil
}

// coverer holds what has been covered. A target is a transition, or a pair.
type coverer[S comparable] struct {
	g       *StateGraph[S]
	max     int
	via     []int // the edge by which the breadth-first search met each state; -1 for initial ones
	target  []int // the target of each edge
	targets int
	taken   []bool  // by target
	left    []int   // by state: edges whose target is not taken
	edgesOf [][]int // by target: its edges, when targets are pairs

	seen  []int // scratch of nearest: the search that met the state
	from  []int // scratch of nearest: the edge by which it was met
	queue []int
	round int
}

func newCoverer[S comparable](g *StateGraph[S], o CoverOptions[S]) *coverer[S] {
	n := len(g.States)
	c := &coverer[S]{g: g, max: o.MaxLength, via: make([]int, n), target: make([]int, len(g.Edges)), left: make([]int, n), seen: make([]int, n), from: make([]int, n)}
	for i := range c.via {
		c.via[i] = -1
	}
	type pair struct {
		a     Action
		class uint64
	}
	pairs := map[pair]int{}
	for i, e := range g.Edges {
		if c.via[e.To] < 0 && g.Depth[e.To] == g.Depth[e.From]+1 {
			c.via[e.To] = i
		}
		c.left[e.From]++
		if o.Abstract == nil {
			c.target[i] = i
			continue
		}
		p := pair{e.Action, o.Abstract(g.States[e.From])}
		t, ok := pairs[p]
		if !ok {
			t = len(pairs)
			pairs[p] = t
			c.edgesOf = append(c.edgesOf, nil)
		}
		c.target[i] = t
		c.edgesOf[t] = append(c.edgesOf[t], i)
	}
	c.targets = len(g.Edges)
	if o.Abstract != nil {
		c.targets = len(pairs)
	}
	c.taken = make([]bool, c.targets)
	return c
}

func (c *coverer[S]) isTaken(e int) bool { return c.taken[c.target[e]] }

func (c *coverer[S]) take(e int) {
	t := c.target[e]
	if c.taken[t] {
		return
	}
	c.taken[t] = true
	if c.edgesOf == nil {
		c.left[c.g.Edges[e].From]--
		return
	}
	for _, x := range c.edgesOf[t] {
		c.left[c.g.Edges[x].From]--
	}
}

// path returns the shortest path to edge first, extended.
func (c *coverer[S]) path(first int) CoverPath[S] {
	var edges []int
	at := c.g.Edges[first].From
	for c.via[at] >= 0 {
		edges = append(edges, c.via[at])
		at = c.g.Edges[c.via[at]].From
	}
	p := CoverPath[S]{Initial: c.g.States[at]}
	walk := func(e int) {
		c.take(e)
		p.Steps = append(p.Steps, Step[S]{Action: c.g.Edges[e].Action, State: c.g.States[c.g.Edges[e].To]})
		at = c.g.Edges[e].To
	}
	for i := len(edges) - 1; i >= 0; i-- {
		walk(edges[i])
	}
	walk(first)
	for len(p.Steps) < c.max {
		more := c.nearest(at, min(c.max-len(p.Steps), 2*len(edges)+2))
		if more == nil {
			break
		}
		for _, e := range more {
			walk(e)
		}
	}
	return p
}

// nearest returns the shortest walk from state at that ends with an edge whose
// target is not taken, of at most limit edges: a detour of up to twice what
// starting anew would cost, since every path costs a fresh start beside its steps.
func (c *coverer[S]) nearest(at, limit int) []int {
	c.round++
	c.queue = append(c.queue[:0], at)
	c.seen[at], c.from[at] = c.round, -1
	depth, end := 1, 1
	for i := 0; i < len(c.queue); i++ {
		if i == end {
			depth, end = depth+1, len(c.queue)
		}
		if depth > limit {
			return nil
		}
		s := c.queue[i]
		for e := c.g.First[s]; e < c.g.First[s+1]; e++ {
			to := c.g.Edges[e].To
			if c.left[s] > 0 && !c.isTaken(e) {
				return c.walkTo(s, e)
			}
			if c.seen[to] != c.round {
				c.seen[to], c.from[to] = c.round, e
				c.queue = append(c.queue, to)
			}
		}
	}
	return nil
}

func (c *coverer[S]) walkTo(s, last int) []int {
	rev := []int{last}
	for c.from[s] >= 0 {
		rev = append(rev, c.from[s])
		s = c.g.Edges[c.from[s]].From
	}
	for i, j := 0, len(rev)-1; i < j; i, j = i+1, j-1 {
		rev[i], rev[j] = rev[j], rev[i]
	}
	return rev
}
