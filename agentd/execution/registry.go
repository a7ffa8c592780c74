package execution

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"microvms/agentd/trace"
)

// Registry holds the commands by key. All methods are safe for concurrent use.
type Registry struct {
	cfg   Config
	waits *Waits
	table procReader

	// base ends at Close; it is what the core's own goroutines wait under.
	base   context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // goroutines of the core
	parent parentThread   // creates the children that die with the daemon

	busy atomic.Int64 // registered commands without a terminal marker

	mu         sync.Mutex
	entries    map[Key]*Exec      // reservations too
	loose      map[*Exec]struct{} // collected, but a pipe is still drained
	registered int                // entries that a Lookup finds
	order      uint64
	closed     bool
}

// New makes a registry. Close ends it.
func New(c Config) *Registry {
	r := &Registry{cfg: c.withDefaults(), entries: map[Key]*Exec{}, loose: map[*Exec]struct{}{}, table: procFS{"/proc"}}
	r.waits = c.Waits
	if r.waits == nil {
		r.waits = NewWaits()
	}
	if p := r.cfg.OOMScoreAdj; p != nil {
		if err := r.waits.SetOOMScoreAdj(*p, r.cfg.Log); err != nil {
			r.cfg.Log.Warn("cannot set the oom score", "err", err)
		}
	}
	r.base, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// Start registers and spawns the command that prepare returns, unless k is
// known: then it returns the known one and created is false, whatever its
// phase. Of any number of concurrent starts of one key one runs prepare and
// spawns, and the others wait for its outcome: its exec, or its error. Only a
// start that was called off says nothing about the command: then the next one
// has its turn. prepare runs without a lock held.
//
// It returns prepare's error as it is, a *SpawnError from the spawn, ctx's
// error when ctx ends before the spawn, or ErrClosed. ctx has no effect on a
// command that was spawned.
func (r *Registry) Start(ctx context.Context, k Key, prepare func(context.Context) (*Command, error)) (e *Exec, created bool, err error) {
	if err := r.pass(ctx, trace.Point{Action: trace.ExecStart, Exec: k.ID, Request: requestSerial(ctx)}); err != nil {
		return nil, false, err
	}
	for waited := false; ; waited = true {
		e, state, err := r.reserve(ctx, k, waited)
		switch {
		case err != nil:
			return nil, false, err
		case state == keyKnown:
			return e, false, nil
		case state == keyReserved:
			if err := r.launch(ctx, e, prepare); err != nil {
				return r.refused(e, err)
			}
			return e, true, nil
		}
		select {
		case <-e.decided:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		if e.refusal != nil && !r.cfg.RegisterRefusals {
			return nil, false, e.refusal
		}
	}
}

// keyState is what a start finds under its key.
type keyState uint8

const (
	keyReserved keyState = iota // nothing: the key is this start's now
	keyPending                  // another start has it and no outcome yet
	keyKnown                    // a registered command
)

// reserve finds k or takes it for the caller. waited is true when the caller
// waited for the outcome of another start, and so was recorded before.
func (r *Registry) reserve(ctx context.Context, k Key, waited bool) (*Exec, keyState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0, ErrClosed
	}
	if e, ok := r.entries[k]; ok {
		select {
		case <-e.decided:
		default:
			if !waited {
				r.note(ctx, k, trace.ExecStart, trace.Attr{Key: "pending", Value: true})
			}
			return e, keyPending, nil // EXEC-3: the other start's outcome is this one's too
		}
		// EXEC-2, EXEC-4: known in any phase, and before prepare resolves a name.
		if !waited { // a start that waited took its place when it came
			r.note(ctx, k, trace.ExecStart, trace.Attr{Key: "known", Value: true})
		}
		return e, keyKnown, nil
	}
	r.order++
	e := &Exec{
		reg: r, key: k, order: r.order, cmd: &Command{},
		decided: make(chan struct{}), done: make(chan struct{}), drained: make(chan struct{}),
		exited: make(chan struct{}),
	}
	e.group.table, e.group.kill = r.table, killGroup
	e.stdin.turn = make(chan struct{}, 1)
	// EXEC-1: taken before prepare runs, so that of any number of starts one spawns.
	r.entries[k] = e
	r.wg.Add(1) // until the outcome, so that Close waits for a spawn under way
	r.note(ctx, k, trace.ExecStart, trace.Attr{Key: "known", Value: false})
	return e, keyReserved, nil
}

// refused is Start's answer to a launch that failed.
func (r *Registry) refused(e *Exec, err error) (*Exec, bool, error) {
	if r.cfg.RegisterRefusals {
		return e, true, err
	}
	return nil, false, err
}

// Lookup finds a registered command, in any phase.
func (r *Registry) Lookup(k Key) (*Exec, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[k]
	if !ok || !e.visible {
		return nil, false
	}
	return e, true
}

// All returns the registered commands in the order of their starts. The slice
// is the caller's.
func (r *Registry) All() []*Exec {
	r.mu.Lock()
	all := make([]*Exec, 0, r.registered)
	for _, e := range r.entries {
		if e.visible {
			all = append(all, e)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *Exec) int {
		if a.order < b.order {
			return -1
		}
		return 1
	})
	return all
}

// Counts returns how many commands are registered, in any phase, and whether
// one of them has no terminal marker yet. It never waits for a command.
func (r *Registry) Counts() (registered int, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.registered, r.busy.Load() > 0 // HEALTH-6: no exec's lock is taken, so none can block this
}

// begin adds a goroutine of the core, unless the registry is closed. It is not
// called with an exec's lock held.
func (r *Registry) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Add(1)
	return true
}

// Close refuses new starts, stops every timer and goroutine of the core and
// waits for them until ctx ends; then it returns ctx's error. Children live on
// unless Config.KillOnClose says otherwise; their pipes are closed, so a child
// that writes on gets SIGPIPE. With KillOnClose the results of what was killed
// are published first, as far as ctx allows.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	all := make([]*Exec, 0, len(r.entries)+len(r.loose))
	for _, e := range r.entries {
		all = append(all, e)
	}
	for e := range r.loose {
		all = append(all, e)
	}
	r.mu.Unlock()
	if r.cfg.KillOnClose {
		r.shutDown(ctx, all)
	}
	r.cancel(ErrClosed)
	for _, e := range all {
		e.stop()
	}
	done := make(chan struct{})
	go func() {
		r.wg.Wait()
		r.parent.end() // nothing spawns any more
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass stands at the gate before a transition.
func (r *Registry) pass(ctx context.Context, p trace.Point) error {
	if r.cfg.Gate == nil {
		return nil
	}
	return r.cfg.Gate.Pass(ctx, p)
}

// note records a transition that the registry's lock guards.
func (r *Registry) note(ctx context.Context, k Key, a trace.Action, attrs ...trace.Attr) {
	if rec := r.cfg.Recorder; rec != nil {
		rec.Record(trace.Event{Point: trace.Point{Action: a, Exec: k.ID, Request: requestSerial(ctx)}, Attrs: attrs})
	}
}
