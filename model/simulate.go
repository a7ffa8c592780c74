package model

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultSeed       = 1
	defaultWalks      = 1000
	defaultWalkLength = 100
)

// random is a SplitMix64 generator (Steele, Lea, Flood 2014): small, and fixed
// for ever, which math/rand does not promise for its top-level functions.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n).
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// walker takes random walks for one goroutine.
type walker[S comparable] struct {
	m     *Model[S]
	judge *judge[S]
	tally tally
	inits []S

	states  []S
	actions []Action
	steps   []Step[S]
	paths   []*walkPath[S] // by property: its shortest example, of the lowest walk
	longest int
	doing   activity
	err     *PanicError
	errWalk int
}

type walkPath[S comparable] struct {
	walk    int
	states  []S
	actions []Action
}

func (p *walkPath[S]) less(q *walkPath[S]) bool {
	if q == nil || len(p.states) != len(q.states) {
		return q == nil || len(p.states) < len(q.states)
	}
	return p.walk < q.walk
}

func simulate[S comparable](ctx context.Context, m *Model[S], o Options) (*Report, error) {
	start := time.Now()
	if o.Walks <= 0 {
		o.Walks = defaultWalks
	}
	if o.WalkLength <= 0 {
		o.WalkLength = defaultWalkLength
	}
	if o.Seed == 0 {
		o.Seed = defaultSeed
	}
	j := newJudge(m)
	inits, err := initialStates(m)
	if err != nil {
		return nil, err
	}
	var mt meter
	stop := mt.watch(o.Progress, m.title())
	workers := make([]*walker[S], min(o.Workers, o.Walks))
	var claims, cut atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		w := &walker[S]{m: m, judge: j, inits: inits, tally: newTally(len(m.Actions), len(m.Properties)), paths: make([]*walkPath[S], len(m.Properties)+1)}
		workers[i] = w
		wg.Go(func() {
			for k := int(claims.Add(1)) - 1; k < o.Walks; k = int(claims.Add(1)) - 1 {
				if ctx.Err() != nil {
					cut.Add(1)
					return
				}
				before := w.tally.states
				w.walk(k, o)
				mt.add(w.tally.states-before, 0, 0)
			}
		})
	}
	wg.Wait()
	stop()
	r, err := simulated(m, j, workers, cut.Load() > 0, o)
	if err != nil {
		return nil, err
	}
	r.finish(start, len(workers), 0)
	return r, nil
}

// initialStates returns the initial states within the constraint.
func initialStates[S comparable](m *Model[S]) (out []S, err error) {
	defer func() {
		if r := recover(); r != nil {
			w := worker[S]{at: noState, doing: inInit}
			err = w.panicked(r).error(&search[S]{m: m})
		}
	}()
	for _, s := range m.Init(nil) {
		if m.Constraint == nil || m.Constraint(s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, refuse(m.Name, "Init gave no state within the constraint, so that every property would hold of nothing")
	}
	return out, nil
}

// walk takes walk number k, which depends on (seed, k) only.
func (w *walker[S]) walk(k int, o Options) {
	defer func() {
		if r := recover(); r != nil && (w.err == nil || k < w.errWalk) {
			f := (&worker[S]{doing: w.doing}).panicked(r)
			w.errWalk = k
			w.err = &PanicError{Model: w.m.Name, Function: w.doing.String(), Value: f.value, Path: newPath(w.m, w.states, w.actions, -1)}
		}
	}()
	// CHECK-18: of the seed and the walk's number only, whichever worker takes it.
	rng := random(o.Seed*key0 ^ uint64(k)*key3)
	none := make([]bool, len(w.m.Properties)+1)
	at := w.inits[rng.below(len(w.inits))]
	w.states, w.actions = append(w.states[:0], at), w.actions[:0]
	w.tally.states++
	for {
		w.doing = inState
		w.judge.state(&at, &w.tally, none, finding{})
		w.doing = inNext
		w.steps = w.m.Next(at, w.steps[:0])
		if len(w.steps) == 0 {
			w.doing = inTerminal
			w.tally.terminal++
			if w.judge.stuck(&at) {
				w.tally.note(len(w.m.Properties), finding{})
			}
		}
		w.keep(k)
		if len(w.states) > o.WalkLength {
			break
		}
		st, ok := w.choose(&at, &rng)
		if !ok {
			break
		}
		w.doing = inStep
		w.judge.step(&at, &st, &w.tally, none, finding{})
		w.count(at, st)
		at = st.State
		w.states, w.actions = append(w.states, at), append(w.actions, st.Action)
		w.keep(k)
	}
	w.longest = max(w.longest, len(w.states))
}

// choose picks a step that stays in the graph.
func (w *walker[S]) choose(at *S, rng *random) (Step[S], bool) {
	for n := len(w.steps); n > 0; n-- {
		i := rng.below(n)
		st := w.steps[i]
		w.doing = inActionConstraint
		if w.m.ActionConstraint == nil || w.m.ActionConstraint(*at, st) {
			if w.doing = inConstraint; w.m.Constraint == nil || w.m.Constraint(st.State) {
				return st, true
			}
		}
		w.steps[i] = w.steps[n-1]
	}
	return Step[S]{}, false
}

func (w *walker[S]) count(from S, st Step[S]) {
	w.tally.states++
	w.tally.transitions++
	id := int(st.Action.ID)
	if id >= len(w.m.Actions) {
		w.tally.stray++
		return
	}
	w.tally.taken[id]++
	w.tally.enabled[id]++
	if st.State != from {
		w.tally.changed[id]++
	}
}

// keep copies the walk so far for each property that was just found.
func (w *walker[S]) keep(k int) {
	for p := range w.tally.best {
		if !w.tally.best[p].found {
			continue
		}
		w.tally.best[p] = finding{}
		here := &walkPath[S]{walk: k, states: w.states, actions: w.actions}
		if here.less(w.paths[p]) {
			w.paths[p] = &walkPath[S]{walk: k, states: append([]S(nil), w.states...), actions: append([]Action(nil), w.actions...)}
		}
	}
}

// simulated puts the workers' findings together.
func simulated[S comparable](m *Model[S], j *judge[S], ws []*walker[S], cut bool, o Options) (*Report, error) {
	total := newTally(len(m.Actions), len(m.Properties))
	paths := make([]*walkPath[S], len(m.Properties)+1)
	longest := 0
	var fail *walker[S]
	for _, w := range ws {
		total.merge(&w.tally)
		longest = max(longest, w.longest)
		for p, path := range w.paths {
			if path != nil && path.less(paths[p]) {
				paths[p] = path
			}
		}
		if w.err != nil && (fail == nil || w.errWalk < fail.errWalk) {
			fail = w
		}
	}
	if fail != nil {
		return nil, fail.err
	}
	if total.stray > 0 {
		return nil, refuse(m.Name, "Next gave %d steps whose Action.ID is not an index of Actions, which has %d; list every action", total.stray, len(m.Actions))
	}
	// CHECK-19: a sample is a bound that was reached, so nothing holds by it.
	bound := "simulation of " + itoa(uint64(o.Walks)) + " walks of up to " + itoa(uint64(o.WalkLength)) + " steps is a sample"
	if cut {
		bound = "interrupted; " + bound
	}
	return sampled(m, j, &total, longest, bound, func(p int) *Path {
		if paths[p] == nil {
			return nil
		}
		return newPath(m, paths[p].states, paths[p].actions, -1)
	}), nil
}

// sampled makes the report of a search that keeps its own paths.
func sampled[S comparable](m *Model[S], j *judge[S], t *tally, depth int, bound string, path func(p int) *Path) *Report {
	r := newReport(m, t, bound == "")
	r.Depth = depth
	for i := range m.Properties {
		p := &m.Properties[i]
		pr := newPropertyReport(p)
		pr.Antecedents, pr.Path = t.antecedents[i], path(i)
		pr.Verdict = verdictOf(p.Kind, pr.Path != nil, bound == "")
		if p.Kind == KindEventually || p.Kind == KindLeadsTo {
			pr.Verdict = Inconclusive
		}
		r.Properties = append(r.Properties, pr)
	}
	if j.deadlock {
		pr := PropertyReport{Name: deadlockName, Kind: "deadlock", Requirements: []string{}, Path: path(len(m.Properties))}
		pr.Verdict = verdictOf(KindAlways, pr.Path != nil, bound == "")
		r.Properties = append(r.Properties, pr)
	}
	conclude(r, m.Properties, bound)
	return r
}
