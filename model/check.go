package model

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Mode selects the order in which a check walks the space.
type Mode uint8

const (
	// BFS is parallel breadth-first search: counterexamples are shortest. The default.
	BFS Mode = iota
	// DFS is sequential depth-first search: it needs memory for one path and the visited set only. Its counterexamples
	// are not shortest, Depth is the longest path it stood on, and it judges no Eventually or LeadsTo.
	DFS
)

// Options bound and steer a run. The zero value is a complete breadth-first
// search with one worker for each processor. A bound that is reached makes the
// verdict Inconclusive, and the report's Reason names it.
type Options struct {
	Workers int // goroutines that expand states; 0 means runtime.GOMAXPROCS(0). Changes no field of the report but Timing

	// MaxDepth is the number of levels: states on a path of this many states are checked, but not expanded. 0: no bound.
	MaxDepth int
	// MaxStates stops the search before the first level that starts with at least this many distinct states known. It
	// is looked at between levels, so that it stops at the same state for any number of workers. 0: no bound.
	MaxStates uint64
	// MaxBytes bounds the visited set, frontier and graph, in bytes. 0: no bound.
	MaxBytes uint64
	// Timeout bounds the run's wall-clock time. A context that ends does the same. 0: no bound.
	Timeout time.Duration

	// Exact compares whole states instead of fingerprints: slower, more memory, no collisions.
	Exact bool
	// Mode is breadth-first unless set.
	Mode Mode
	// StopAtFirst ends the search after the level in which the first property is violated. The other properties are
	// then inconclusive.
	StopAtFirst bool

	// Seed, Walks and WalkLength steer Simulate: walk i depends on (Seed, i) only. Zero means 1, 1000 and 100.
	Seed       uint64
	Walks      int
	WalkLength int

	// Progress, when set, gets a line a second while the run lasts: states, distinct, depth, queue, states/s, memory.
	// Report.Summary is the line for the end.
	Progress io.Writer

	// parallelMin is the size of a level from which several workers share it; 0 means the default. Tests lower it.
	parallelMin int
}

// deadlockName is the property under which a deadlock is reported. It exists
// when the model sets Terminal or CheckDeadlock.
const deadlockName = "no deadlock"

// Check explores the model and judges its properties. It returns an error that
// wraps [ErrRefused] when the model breaks a rule of [Model], a [PanicError] when
// one of its functions panics, and no error otherwise: a bound that is reached, or a
// context that ends, makes the verdict Inconclusive. Safe for concurrent use.
func Check[S comparable](ctx context.Context, m Model[S], o Options) (*Report, error) {
	if err := validate(&m); err != nil {
		return nil, err
	}
	if !o.Exact {
		if err := probeFingerprint(&m); err != nil {
			return nil, err
		}
	}
	return checkValid(ctx, m, o)
}

// checkValid is Check of a model that was looked at already.
func checkValid[S comparable](ctx context.Context, m Model[S], o Options) (*Report, error) {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	start := time.Now()
	if o.Mode == DFS {
		return checkDepthFirst(ctx, &m, o, start)
	}
	s := newSearch(&m, o)
	defer s.free()
	stop := s.meter.watch(o.Progress, m.title())
	err := s.run(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	r, err := s.report(ctx)
	if err != nil {
		return nil, err
	}
	r.finish(start, len(s.workers), s.meter.peak.Load())
	return r, nil
}

func (r *Report) finish(start time.Time, workers int, peak uint64) {
	r.Timing = Timing{Seconds: time.Since(start).Seconds(), Workers: workers, PeakHeap: peak}
}

// title names a model and its configuration: "bootstrap:held".
func (m *Model[S]) title() string {
	if m.Config == "" {
		return m.Name
	}
	return m.Name + ":" + m.Config
}

// newReport fills in what the counts alone say.
func newReport[S comparable](m *Model[S], t *tally, complete bool) *Report {
	r := &Report{Model: m.Name, Config: m.Config, States: t.states, Terminal: t.terminal, Transitions: t.transitions, Complete: complete}
	for i, a := range m.Actions {
		r.Actions = append(r.Actions, ActionCount{Name: a.Name, Enabled: t.enabled[i], Taken: t.taken[i], Changed: t.changed[i]})
		// CHECK-7: only a complete run can say that an action never fires.
		if complete && t.taken[i] == 0 && !slices.Contains(m.MayBeDead, a.Name) {
			r.DeadActions = append(r.DeadActions, a.Name)
		}
	}
	return r
}

// report judges everything that the search found.
func (s *search[S]) report(ctx context.Context) (*Report, error) {
	m := s.m
	r := newReport(m, &s.total, s.bound == "")
	r.Distinct, r.Depth, r.Exact = s.distinct(), s.depth, s.exact != nil
	if !r.Exact {
		// CHECK-21: the reader sees how far the count can be trusted.
		r.Collisions = expectedCollisions(r.Distinct, r.States)
	}
	t := trail[S]{s}
	live := 0
	for i := range m.Properties {
		p := &m.Properties[i]
		pr := newPropertyReport(p)
		pr.Antecedents = s.total.antecedents[i]
		if f := s.total.best[i]; f.found {
			path, err := t.of(i, f)
			if err != nil {
				return nil, err
			}
			pr.Path = path
		}
		pr.Verdict = verdictOf(p.Kind, pr.Path != nil, r.Complete)
		if p.Kind == KindEventually || p.Kind == KindLeadsTo {
			if r.Complete {
				path, err := s.judgeLive(ctx, live)
				if err != nil {
					return nil, err
				}
				pr.Path, pr.Verdict = path, Holds
				if path != nil {
					pr.Verdict = Violated
				}
				if s.stop.Load() != 0 {
					pr.Path, pr.Verdict = nil, Inconclusive
					s.bound = s.stopReason(ctx)
				}
			}
			live++
		}
		r.Properties = append(r.Properties, pr)
	}
	if s.judge.deadlock {
		pr := PropertyReport{Name: deadlockName, Kind: "deadlock", Requirements: []string{}}
		if f := s.total.best[len(m.Properties)]; f.found {
			path, err := t.of(len(m.Properties), f)
			if err != nil {
				return nil, err
			}
			pr.Path = path
		}
		pr.Verdict = verdictOf(KindAlways, pr.Path != nil, r.Complete)
		r.Properties = append(r.Properties, pr)
	}
	conclude(r, m.Properties, s.bound)
	return r, nil
}

func newPropertyReport[S comparable](p *Property[S]) PropertyReport {
	pr := PropertyReport{Name: p.Name, Kind: p.Kind.String(), Requirements: p.Requirements, Witness: p.Witness}
	if pr.Requirements == nil {
		pr.Requirements = []string{}
	}
	return pr
}

// verdictOf turns "an example was found" into a verdict.
func verdictOf(k Kind, found, complete bool) Verdict {
	witness := k == KindSometimes || k == KindSometimesStep
	switch {
	case found && witness:
		return Holds
	case found:
		return Violated
	case !complete: // CHECK-3: what was not seen within a bound may still be there
		return Inconclusive
	case witness: // CHECK-8
		return Violated
	}
	return Holds
}

// conclude marks vacuous properties and gives the verdict on the run.
func conclude[S comparable](r *Report, ps []Property[S], bound string) {
	reached := map[string]bool{}
	for i := range ps {
		reached[ps[i].Name] = r.Properties[i].Verdict == Holds
	}
	var violated, vacuous, why []string
	unknown := bound != ""
	for i := range r.Properties {
		pr := &r.Properties[i]
		switch pr.Verdict {
		case Violated:
			violated = append(violated, quote(pr.Name))
			continue
		case Inconclusive:
			unknown = true
			continue
		}
		if i >= len(ps) || !r.Complete {
			continue
		}
		p := &ps[i]
		// CHECK-9: true of nothing, by its antecedent or by its witness.
		if hasAntecedent(p) && pr.Antecedents == 0 || p.Witness != "" && !reached[p.Witness] {
			pr.Vacuous = true
			vacuous = append(vacuous, quote(pr.Name))
		}
	}
	add := func(label string, items []string) {
		if len(items) > 0 {
			why = append(why, label+strings.Join(items, ", "))
		}
	}
	add("violated: ", violated)
	add("dead actions: ", r.DeadActions)
	add("vacuous: ", vacuous)
	if bound != "" {
		why = append(why, bound)
	}
	r.Reason = strings.Join(why, "; ")
	switch {
	case len(violated)+len(vacuous)+len(r.DeadActions) > 0:
		r.Verdict = Violated
	case unknown:
		r.Verdict = Inconclusive
	default:
		r.Verdict = Holds
	}
}

func quote(s string) string { return `"` + s + `"` }

// expectedCollisions is TLC's estimate: each state that was met again might have
// been a new one that shares a fingerprint (checker facts, section 3.1).
func expectedCollisions(distinct, states uint64) float64 {
	if states < distinct {
		return 0
	}
	return float64(distinct) * float64(states-distinct) / (1 << 63) / 2
}

// Simulate walks the model at random, Walks times up to WalkLength steps. It
// finds violations and witnesses and never proves anything: without a violation
// the verdict is Inconclusive. It returns errors as Check does.
func Simulate[S comparable](ctx context.Context, m Model[S], o Options) (*Report, error) {
	if err := validate(&m); err != nil {
		return nil, err
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return simulate(ctx, &m, o)
}

// Refused reports whether err says that a model breaks the rules.
func Refused(err error) bool { return errors.Is(err, ErrRefused) }
