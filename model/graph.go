package model

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// StateGraph is the whole reachable graph of a model, with its states. States
// are numbered in the order of a sequential breadth-first search, so that the
// graph is the same in every run.
type StateGraph[S comparable] struct {
	States  []S
	Initial []int // the initial states; always 0, 1, 2, …
	Depth   []int // of each state: 1 for an initial state
	// Edges holds each distinct (From, Action, To) once, ordered by From and then by the order of Next.
	Edges []Edge
	// First[i] is the index of state i's first edge; First has one more element than States.
	First []int
}

// Edge is a transition between two numbered states.
type Edge struct {
	From, To int
	Action   Action
}

// Out returns the edges that leave state i. The slice belongs to the graph.
func (g *StateGraph[S]) Out(i int) []Edge { return g.Edges[g.First[i]:g.First[i+1]] }

// Explore returns the reachable graph, or an error when a bound of o (MaxDepth,
// MaxStates, Timeout) is reached, the context ends or the model is refused: a
// part of a graph is never returned. It holds every state, so it is meant for
// spaces of up to a few million states. Edges to states outside the constraint
// and steps outside the action constraint are left out. Under a symmetry, states
// are the representatives.
func Explore[S comparable](ctx context.Context, m Model[S], o Options) (g *StateGraph[S], err error) {
	if err := validate(&m); err != nil {
		return nil, err
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	x := explorer[S]{m: &m, number: map[S]int{}, g: &StateGraph[S]{}}
	defer func() {
		if r := recover(); r != nil {
			g, err = nil, fmt.Errorf("cannot explore model %q: panic in a model function: %v", m.Name, r)
		}
	}()
	return x.run(ctx, o)
}

type explorer[S comparable] struct {
	m      *Model[S]
	number map[S]int
	g      *StateGraph[S]
}

// add returns the number of s, or -1 when s is outside the constraint.
func (x *explorer[S]) add(s S, depth int) int {
	if sym := x.m.Symmetry; sym != nil {
		s = sym.Canonical(s)
	}
	if n, ok := x.number[s]; ok {
		return n
	}
	if x.m.Constraint != nil && !x.m.Constraint(s) {
		return -1
	}
	n := len(x.g.States)
	x.number[s] = n
	x.g.States = append(x.g.States, s)
	x.g.Depth = append(x.g.Depth, depth)
	return n
}

func (x *explorer[S]) run(ctx context.Context, o Options) (*StateGraph[S], error) {
	g, m := x.g, x.m
	for _, s := range m.Init(nil) {
		before := len(g.States)
		if n := x.add(s, 1); n >= before {
			g.Initial = append(g.Initial, n)
		}
	}
	var buf []Step[S]
	start := time.Now()
	for i := 0; i < len(g.States); i++ {
		g.First = append(g.First, len(g.Edges))
		s, d := g.States[i], g.Depth[i]
		if o.MaxDepth > 0 && d >= o.MaxDepth {
			return nil, fmt.Errorf("cannot explore model %q: depth bound %d reached; raise it, or use a smaller configuration", m.Name, o.MaxDepth)
		}
		if o.MaxStates > 0 && uint64(len(g.States)) > o.MaxStates {
			return nil, fmt.Errorf("cannot explore model %q: state bound %d reached; raise it, or use a smaller configuration", m.Name, o.MaxStates)
		}
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("cannot explore model %q: stopped after %s with %d states: %w", m.Name, time.Since(start).Round(time.Millisecond), len(g.States), ctx.Err())
		}
		buf = m.Next(s, buf[:0])
		for _, st := range buf {
			if m.ActionConstraint != nil && !m.ActionConstraint(s, st) {
				continue
			}
			if to := x.add(st.State, d+1); to >= 0 {
				e := Edge{From: i, To: to, Action: st.Action}
				if !slices.Contains(g.Edges[g.First[i]:], e) {
					g.Edges = append(g.Edges, e)
				}
			}
		}
	}
	g.First = append(g.First, len(g.Edges))
	return g, nil
}

// Graph is a reachable graph with its states and actions rendered for people
// and tools. WriteDOT and WriteAUT export it.
type Graph struct {
	Model   string      `json:"name"`
	Config  string      `json:"config"`
	Initial []int       `json:"initial"`
	Nodes   []GraphNode `json:"nodes"`
	Edges   []GraphEdge `json:"edges"`
}

// GraphNode is a state: its number is its index in Graph.Nodes.
type GraphNode struct {
	Depth  int     `json:"depth"` // 1 for an initial state
	Fields []Field `json:"state"`
}

// GraphEdge is a transition between two nodes.
type GraphEdge struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Action string `json:"action"`
}

func render[S comparable](m *Model[S], g *StateGraph[S]) *Graph {
	r := &Graph{Model: m.Name, Config: m.Config, Initial: g.Initial, Nodes: make([]GraphNode, len(g.States)), Edges: make([]GraphEdge, len(g.Edges))}
	for i, s := range g.States {
		r.Nodes[i] = GraphNode{Depth: g.Depth[i], Fields: fieldsOf(m, s)}
	}
	for i, e := range g.Edges {
		r.Edges[i] = GraphEdge{From: e.From, To: e.To, Action: m.ActionString(e.Action)}
	}
	return r
}
