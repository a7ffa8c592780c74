package model

import (
	"context"
	"time"
)

// depthFirst is a sequential depth-first search: a stack of states, each with
// the successors that it has still to try. Its memory is the visited set and one
// path with its successors. Under a symmetry it walks states of the model and
// remembers their representatives, so that its paths replay.
type depthFirst[S comparable] struct {
	s     *search[S] // for the visited set, the judge and the counts
	w     *worker[S]
	stack []dfsFrame[S]
	steps []Step[S] // successors of all frames, one after the other
	paths []*Path   // by property: the path on which it was first found
	deep  int
	cut   bool // a state was not expanded because of MaxDepth
}

type dfsFrame[S comparable] struct {
	state  S
	action Action // that led here
	first  int    // in steps: its successors
	next   int    // the next one to try
	end    int
}

func checkDepthFirst[S comparable](ctx context.Context, m *Model[S], o Options, start time.Time) (r *Report, err error) {
	o.Workers = 1
	s := newSearch(m, o)
	defer s.free()
	s.graph = nil // liveness is not judged, so no graph is kept
	d := &depthFirst[S]{s: s, w: s.workers[0], paths: make([]*Path, len(m.Properties)+1)}
	stop := s.meter.watch(o.Progress, m.title())
	d.w.guard(func() { err = d.run(ctx) })
	stop()
	if f := d.w.fault; f != nil {
		if f.refusal != "" {
			return nil, refuse(m.Name, "%s", f.refusal)
		}
		return nil, &PanicError{Model: m.Name, Function: f.doing.String(), Value: f.value, Path: d.path(nil)}
	}
	s.total.merge(&d.w.tally)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, err
	}
	if d.cut && s.bound == "" {
		s.bound = "depth bound " + itoa(uint64(o.MaxDepth)) + " reached"
	}
	// CHECK-29: judged by the same counts, whatever the order of the walk.
	r = sampled(m, s.judge, &s.total, d.deep, s.bound, func(p int) *Path { return d.paths[p] })
	r.Distinct, r.Exact = s.distinct(), o.Exact
	if !r.Exact {
		r.Collisions = expectedCollisions(r.Distinct, r.States)
	}
	r.finish(start, 1, s.meter.peak.Load())
	return r, nil
}

func (d *depthFirst[S]) run(ctx context.Context) error {
	s, w := d.s, d.w
	w.doing, w.at = inInit, noState
	inits := s.m.Init(nil)
	if len(inits) == 0 {
		return refuse(s.m.Name, "Init gave no state, so that every property would hold of nothing")
	}
	w.states += uint64(len(inits))
	for i := range inits {
		if s.m.Constraint != nil && !s.m.Constraint(inits[i]) {
			s.judge.state(&inits[i], &w.tally, s.done, finding{})
			d.keep(Step[S]{State: inits[i]}, nil)
			continue
		}
		d.enter(ctx, inits[i], Action{})
		for len(d.stack) > 0 && s.bound == "" {
			f := &d.stack[len(d.stack)-1]
			if f.next == f.end {
				d.steps = d.steps[:f.first]
				d.stack = d.stack[:len(d.stack)-1]
				continue
			}
			st := d.steps[f.next]
			f.next++
			d.enter(ctx, st.State, st.Action)
			d.bounds(ctx)
		}
	}
	d.stack = nil
	return nil
}

// enter visits a state that the last frame leads to, unless it was met.
func (d *depthFirst[S]) enter(ctx context.Context, real S, by Action) {
	s, w := d.s, d.w
	rep := real
	if s.m.Symmetry != nil {
		w.doing = inCanonical
		rep = s.m.Symmetry.Canonical(real)
	}
	w.doing = inFingerprint
	before := w.inserted
	if !s.insertInitial(w, &rep) || w.inserted == before {
		if s.stop.Load() != 0 {
			s.bound = s.stopReason(ctx)
		}
		return
	}
	d.stack = append(d.stack, dfsFrame[S]{state: real, action: by, first: len(d.steps), next: len(d.steps), end: len(d.steps)})
	d.deep = max(d.deep, len(d.stack))
	w.at = uint32(w.inserted - 1)
	w.look(&real, w.at)
	if d.s.o.MaxDepth > 0 && len(d.stack) >= d.s.o.MaxDepth {
		d.cut = true
		d.keep(Step[S]{}, nil)
		return
	}
	w.steps, w.flags, w.fps = w.steps[:0], w.flags[:0], w.fps[:0]
	w.next(&real)
	d.keep(Step[S]{}, nil)
	w.states += uint64(len(w.steps))
	first := len(d.steps)
	d.steps = append(d.steps, w.steps...) // before consider puts representatives in their place
	w.consider(&real, 0)
	raw := d.steps[first:]
	d.keep(Step[S]{}, raw)
	if w.audit.due(w.at) {
		w.audit.state(w, &rep, w.at, nil)
	}
	kept := first
	for i := range raw {
		if w.flags[i]&stepFollow != 0 {
			d.steps[kept] = raw[i]
			kept++
		}
	}
	d.steps = d.steps[:kept]
	d.stack[len(d.stack)-1].end = kept
}

// bounds ends the search when something asks for it.
func (d *depthFirst[S]) bounds(ctx context.Context) {
	s := d.s
	switch {
	case ctx.Err() != nil:
		s.stop.Store(int32(stopContext))
		s.bound = s.stopReason(ctx)
	case s.o.MaxStates > 0 && s.distinct() >= s.o.MaxStates:
		s.bound = "state bound " + itoa(s.o.MaxStates) + " reached"
	case s.o.StopAtFirst && d.violated():
		s.bound = "stopped at the first violation"
	}
}

func (d *depthFirst[S]) violated() bool {
	for p, path := range d.paths {
		if path != nil && (p == len(d.s.m.Properties) || d.s.m.Properties[p].Kind == KindAlways || d.s.m.Properties[p].Kind == KindStep) {
			return true
		}
	}
	return false
}

// keep stores the path of each property that was just found. A finding of a
// step refers to one of steps.
func (d *depthFirst[S]) keep(outside Step[S], steps []Step[S]) {
	for p := range d.w.best {
		f := d.w.best[p]
		if !f.found {
			continue
		}
		d.w.best[p] = finding{}
		if d.paths[p] != nil {
			continue
		}
		d.s.done[p] = true
		switch {
		case len(d.stack) == 0:
			d.paths[p] = newPath(d.s.m, []S{outside.State}, nil, -1)
		case steps != nil:
			d.paths[p] = d.path(&steps[f.step])
		default:
			d.paths[p] = d.path(nil)
		}
	}
}

// path renders the stack, and one step more if given.
func (d *depthFirst[S]) path(more *Step[S]) *Path {
	if len(d.stack) == 0 {
		return nil
	}
	var states []S
	var actions []Action
	for i, f := range d.stack {
		states = append(states, f.state)
		if i > 0 {
			actions = append(actions, f.action)
		}
	}
	if more != nil {
		states, actions = append(states, more.State), append(actions, more.Action)
	}
	return newPath(d.s.m, states, actions, -1)
}
