package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"
)

// experiment measures some figures together, once a round.
type experiment struct {
	name    string
	figures []figure
	once    bool // measured in the first round only: sizes, reports
	// absent says what to do about a figure that a round without an error did not bring.
	absent string
	// setup runs before the first round, outside of what is measured; nil: nothing to do.
	setup func(ctx context.Context) error
	round func(ctx context.Context, r *round) error
}

// round collects the samples of one experiment in one round.
type round struct {
	number int // from 0
	load   *processes
	found  map[string]sample // by figure name
}

// span runs f and returns how many cores other processes took meanwhile.
func (r *round) span(f func() error) (others float64, err error) {
	m, err := r.load.begin()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	return m.end()
}

// inTurns runs ours and the peer, the peer first in every second round, so that
// drift and warmth favour neither.
func (r *round) inTurns(ours, peer func() error) error {
	if r.number%2 == 1 {
		ours, peer = peer, ours
	}
	if err := ours(); err != nil {
		return err
	}
	return peer()
}

// add enters a sample. A peer of 0 was not measured.
func (r *round) add(name string, ours, peer, others float64) {
	r.found[name] = sample{Ours: ours, Peer: peer, Others: others}
}

// selected returns the experiments that have a figure that matches.
func selected(all []experiment, only *regexp.Regexp) []experiment {
	var some []experiment
	for _, e := range all {
		for _, f := range e.figures {
			if only.MatchString(f.id()) {
				some = append(some, e)
				break
			}
		}
	}
	return some
}

// runRounds measures every experiment in every round. One that fails is not
// tried again; its figures that have no sample are not measured.
func runRounds(ctx context.Context, all []experiment, rounds int, only *regexp.Regexp, progress io.Writer) (results []result, failures []error) {
	load := theseProcesses
	samples, broken := map[string][]sample{}, map[string]error{}
	for n := range rounds {
		for _, e := range all {
			if broken[e.name] != nil || (e.once && n > 0) || ctx.Err() != nil {
				continue
			}
			started := time.Now()
			r := &round{number: n, load: load, found: map[string]sample{}}
			var err error
			if n == 0 && e.setup != nil {
				err = e.setup(ctx)
			}
			if err == nil {
				err = e.round(ctx, r)
			}
			if err != nil {
				broken[e.name] = fmt.Errorf("cannot measure %s: %w", e.name, err)
				failures = append(failures, broken[e.name])
			}
			for _, f := range e.figures {
				if s, ok := r.found[f.Name]; ok {
					samples[f.id()] = append(samples[f.id()], s)
				}
			}
			fmt.Fprintf(progress, "round %d/%d  %-28s %5.1f s\n", n+1, rounds, e.name, time.Since(started).Seconds())
		}
	}
	for _, e := range all {
		for _, f := range e.figures {
			if !only.MatchString(f.id()) {
				continue
			}
			r := result{figure: f, Samples: samples[f.id()]}
			if err := broken[e.name]; len(r.Samples) == 0 && err != nil {
				r.Why = err.Error()
			} else if len(r.Samples) == 0 {
				r.Why = e.absent
			}
			r.judge()
			results = append(results, r)
		}
	}
	return results, failures
}

// experiments lists everything in the order of the table.
func experiments(w *workshop) []experiment {
	all := checkerExperiments(w)
	all = append(all, daemonExperiments(w)...)
	all = append(all, managerExperiments(w)...)
	return append(all, verificationExperiment(w))
}
