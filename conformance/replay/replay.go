// Package replay drives a real daemon down every transition of a checked model
// and compares, after each step, what can be seen of the daemon with what the
// model says.
//
// A [Spec] names a model, a table that maps each of its actions to one real
// operation (the [Driver]), and a projection of the model's states to what can
// be observed. [Run] covers the model's reachable graph with paths, starts a
// fresh system for each, and takes the steps one by one. What the real world
// cannot be forced into is skipped by name, with a reason and a predicate over
// the model's transitions, and listed in the [Result].
//
// Interleavings inside a request are forced with a [Gate], which parks a request
// at a named transition point until the driver lets it go, and passage of time
// with a [Clock], which stands still until the driver moves it. Nothing sleeps.
//
// This package does not import the daemon: what starts one is given to it, so
// that any daemon that speaks the wire can be driven. Its test starts this
// repository's daemon, in the test process and as a binary.
package replay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"microvms/model"
)

// Transition is one step of a model.
type Transition[S comparable] struct {
	From   S
	Action model.Action
	To     S
}

// Observation is what can be seen of a system, or what a model state says about
// it: named values in a fixed order.
type Observation []model.Field

// Driver is a running system in the model's initial state. Run uses one driver
// for one path, from one goroutine.
type Driver[S comparable] interface {
	// Do performs the operation that the transition's action stands for. Its error says what the operation's party
	// saw that the model does not allow, or why the operation could not be performed; both end the path.
	Do(ctx context.Context, t Transition[S]) error
	// Observe reads the state back after the transition.
	Observe(ctx context.Context, t Transition[S]) (Observation, error)
	// Close ends the system and frees what it holds.
	Close() error
}

// Skip names transitions that cannot be forced in the real world.
type Skip[S comparable] struct {
	Action string // the action's name in the model
	Reason string // why it cannot be forced
	// Match selects among the action's transitions. Nil means all of them.
	Match func(t Transition[S]) bool
}

// MaxSkipShare is the largest share of transitions that may be skipped.
const MaxSkipShare = 0.05

// Spec is one replay: a model, the system it is compared with, and how.
type Spec[S comparable] struct {
	Name   string // of the result file: "bootstrap" gives bootstrap.replay.json
	Target string // what was driven: "binary" or "in-process"
	Model  model.Model[S]

	// Start returns a driver over a fresh system in the state initial.
	Start func(ctx context.Context, initial S) (Driver[S], error)
	// Project is what must be observed after a transition.
	Project func(t Transition[S]) Observation

	Skips []Skip[S]
	// Cover bounds and steers the transition cover. With its Abstract set, what is replayed are (action, abstract state)
	// pairs instead of all transitions, and so the result counts.
	Cover model.CoverOptions[S]
	// Parallel is the number of paths replayed at once; 0 means 2.
	Parallel int
	// Only, when positive, replays the path with this number alone (from 1), to reproduce a failure.
	Only int
	// StepTimeout bounds one step, so that a daemon that hangs is a failure and not a hang; 0 means 30 s.
	StepTimeout time.Duration
	// MaxFailures ends the run after this many failed paths; 0 means 5.
	MaxFailures int
}

// Run replays the model. The error is about the run itself: a model that cannot
// be covered, or skips that select nothing or too much. What the system did
// wrong is in Result.Failures.
func Run[S comparable](ctx context.Context, s Spec[S]) (*Result, error) {
	started := time.Now()
	plan, err := newPlan(ctx, &s)
	if err != nil {
		return nil, fmt.Errorf("cannot replay %q: %w", s.Name, err)
	}
	r := &Result{
		Model: s.Model.Name, Config: s.Model.Config, Target: s.Target, Transitions: plan.total, Skips: plan.skips,
		Paths: len(plan.paths), Requirements: map[string]int{},
	}
	run := &runner[S]{spec: &s, plan: plan, taken: map[Transition[S]]bool{}}
	run.all(ctx)
	r.Failures, r.Steps = run.failures, run.steps
	pairs := map[pair]bool{}
	for t := range run.taken {
		if s.Cover.Abstract != nil {
			pairs[s.pairOf(t)] = true
		} else {
			r.Replayed++
		}
		for _, id := range demonstrates(&s.Model, t) {
			r.Requirements[id]++
		}
	}
	if s.Cover.Abstract != nil {
		r.Unit, r.Replayed = "pairs", len(pairs)
	}
	r.Seconds = time.Since(started).Seconds()
	return r, ctx.Err()
}

type runner[S comparable] struct {
	spec *Spec[S]
	plan *plan[S]

	mu       sync.Mutex
	next     int
	taken    map[Transition[S]]bool
	steps    int
	failures []string
}

func (r *runner[S]) all(ctx context.Context) {
	workers := r.spec.Parallel
	if workers <= 0 {
		workers = 2
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				number, ok := r.claim(ctx)
				if !ok {
					return
				}
				done, err := r.path(ctx, r.plan.paths[number-1])
				r.finish(number, done, err)
			}
		})
	}
	wg.Wait()
}

// claim hands out the number of the next path, from 1.
func (r *runner[S]) claim(ctx context.Context) (int, bool) {
	limit := r.spec.MaxFailures
	if limit <= 0 {
		limit = 5
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.next < len(r.plan.paths) && len(r.failures) < limit && ctx.Err() == nil {
		r.next++
		if r.spec.Only <= 0 || r.spec.Only == r.next {
			return r.next, true
		}
	}
	return 0, false
}

func (r *runner[S]) finish(number int, done []Transition[S], err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps += len(done)
	for _, t := range done {
		r.taken[t] = true
	}
	if err != nil {
		r.failures = append(r.failures, fmt.Sprintf("path %d of %d: %v", number, len(r.plan.paths), err))
	}
}

// path replays one path and returns the transitions that were taken and found
// right.
func (r *runner[S]) path(ctx context.Context, p model.CoverPath[S]) (done []Transition[S], err error) {
	d, err := r.spec.Start(ctx, p.Initial)
	if err != nil {
		return nil, fmt.Errorf("cannot start the system: %w", err)
	}
	defer func() {
		if closeErr := d.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("cannot end the system: %w", closeErr)
		}
	}()
	from := p.Initial
	for i, step := range p.Steps {
		t := Transition[S]{From: from, Action: step.Action, To: step.State}
		if err := r.step(ctx, d, t); err != nil {
			return done, fmt.Errorf("step %d: %w\n%s", i+1, err, renderPath(&r.spec.Model, p, i+1))
		}
		done = append(done, t)
		from = step.State
	}
	return done, nil
}

func (r *runner[S]) step(ctx context.Context, d Driver[S], t Transition[S]) error {
	timeout := r.spec.StepTimeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := r.spec.Model.ActionString(t.Action)
	if err := d.Do(ctx, t); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	got, err := d.Observe(ctx, t)
	if err != nil {
		return fmt.Errorf("after %s: cannot observe: %w", name, err)
	}
	// CONF-3: after each step, so that the first wrong one is named.
	if diff := compare(got, r.spec.Project(t)); diff != "" {
		return fmt.Errorf("after %s: %s", name, diff)
	}
	return nil
}

// compare describes how an observation differs from what the model says. An
// empty projection would compare nothing, so it counts as a difference.
func compare(got, want Observation) string {
	if len(want) == 0 {
		return "the model says nothing about this state"
	}
	if len(got) != len(want) {
		return fmt.Sprintf("observed %v, the model says %v", got, want)
	}
	diff := ""
	for i := range want {
		if got[i] != want[i] {
			diff += fmt.Sprintf("; %s is %s, the model says %s %s", got[i].Name, got[i].Value, want[i].Name, want[i].Value)
		}
	}
	if diff == "" {
		return ""
	}
	return diff[2:]
}
