package runs

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// The defaults of Config.
const (
	DefaultRetention   = 5 * time.Minute // manager facts, section 4.8
	DefaultMaxDeadline = 24 * time.Hour  // manager facts, section 3.1
	DefaultWindow      = 128
)

// Errors that callers branch on.
var (
	// ErrUnknown is returned for an id that was never given, was acked or has
	// expired, and by Artifact for a run that did not finish.
	ErrUnknown = errors.New("run is unknown: it never existed, was acked or has expired")
	// ErrNotFinished is returned by Ack before the terminal event.
	ErrNotFinished = errors.New("run has not finished: wait for its terminal event")
	// ErrShuttingDown is returned by Run once Shutdown was called.
	ErrShuttingDown = errors.New("manager is shutting down")
	// ErrField is returned by Artifact for a field that is none.
	ErrField = errors.New("unknown artifact field: use stdout, stderr or genvm_log")
)

// Config holds the policies of a table.
type Config struct {
	Clock    trace.Clock      // nil: the system's
	Recorder trace.Recorder   // nil: none
	Gate     trace.Gate       // nil: none
	Log      *slog.Logger     // nil: slog.Default()
	Waits    *execution.Waits // who waits for children; nil: an owner of the table's own

	Permits     int           // total; less than 1 is 1
	Retention   time.Duration // life of an ended run that nobody acks; 0: 5 m, negative: none
	Linger      time.Duration // wait for output after the process's exit; 0: 5 s, negative: none
	MaxDeadline time.Duration // cap of Spec.Deadline; 0: 24 h
	Window      int           // runs at the queue's head that are prepared; 0: 128
}

// Table holds the runs. All methods are safe for concurrent use.
type Table struct {
	cfg Config
	reg *execution.Registry

	// base ends when Shutdown gives up or is done.
	base   context.Context
	cancel context.CancelFunc
	// halt ends when Shutdown has stopped the runs.
	halt     context.Context
	stopRuns context.CancelFunc
	wg       sync.WaitGroup // goroutines of the table
	down     chan struct{}  // closed when Shutdown is done

	// mu guards the rest and every run. Nothing blocks under it.
	mu      sync.Mutex
	last    ID
	runs    map[ID]*run                      // known runs
	tokens  map[string]*run                  // of known runs
	conns   map[Subscriber]map[*run]struct{} // the runs in which a connection has a seat
	driven  map[execution.Key]*run           // runs with a goroutine
	total   int                              // permits
	free    int                              // below 0 while a lowering waits for permits to come back
	queue   *list.List                       // *run, in the order of acceptance: those within the window
	backlog *list.List                       // *run behind the window
	live    int                              // runs without a terminal event
	closing bool                             // Shutdown was called: no new run
	closed  bool                             // no goroutine may be added
	idle    chan struct{}                    // closed when closing and no run lives
}

// New makes a table. Shutdown ends it.
func New(c Config) *Table {
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Permits = max(c.Permits, 1)
	c.Retention = max(cmp.Or(c.Retention, DefaultRetention), 0)
	c.Linger = max(cmp.Or(c.Linger, execution.DefaultLinger), 0)
	c.MaxDeadline = cmp.Or(c.MaxDeadline, DefaultMaxDeadline)
	c.Window = cmp.Or(c.Window, DefaultWindow)
	t := &Table{
		cfg: c, total: c.Permits, free: c.Permits,
		runs: map[ID]*run{}, tokens: map[string]*run{}, driven: map[execution.Key]*run{},
		conns: map[Subscriber]map[*run]struct{}{},
		queue: list.New(), backlog: list.New(),
		down: make(chan struct{}), idle: make(chan struct{}),
	}
	t.base, t.cancel = context.WithCancel(context.Background())
	t.halt, t.stopRuns = context.WithCancel(t.base)
	kill := execution.KillAtOnce()
	linger := c.Linger
	if linger == 0 {
		linger = -1 // the core's word for none
	}
	t.reg = execution.New(execution.Config{
		Clock: c.Clock, Log: c.Log, Waits: c.Waits,
		Linger: linger, Kill: &kill, AckLeaves: execution.AckRemoves, KillOnClose: true,
		// The input is one write, as long as the process takes for it.
		StdinTimeout: -1, MaxStdinWrite: -1,
		Admission: admission{t},
	})
	return t
}

// Run accepts a run, or finds the known run of its token, and calls reply with
// the id before anything is delivered to sub. reply is called with the table's
// lock held: it must queue the answer and return. sub is subscribed; nil: nobody
// is. It returns the error of ctx, or ErrShuttingDown for a
// run that is new, and then calls nothing.
func (t *Table) Run(ctx context.Context, s Spec, sub Subscriber, reply func(ID)) error {
	if err := t.pass(ctx, trace.RunAccept, 0); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var r *run
	if s.Token != nil {
		// MGR-3, MGR-28: one critical section from the look to the insertion, so
		// two requests with one token can't both start a run.
		r = t.tokens[*s.Token]
	}
	known := r != nil
	if !known && t.closing {
		return ErrShuttingDown // MGR-24: after the look-up, because a repeat asks how its run ended
	}
	if !known {
		r = t.acceptLocked(s)
	}
	t.noteLocked(ctx, trace.RunAccept, r.id,
		trace.Attr{Key: "known", Value: known}, trace.Attr{Key: "token", Value: s.Token != nil})
	reply(r.id) // MGR-2: under the lock that every delivery needs
	t.repeatLocked(r, sub, known)
	if !known {
		t.advanceLocked()
	}
	return nil
}

// acceptLocked makes the entry of a new run, at the end of the queue.
func (t *Table) acceptLocked(s Spec) *run {
	t.last++ // MGR-1: before validation, permit and spawn
	now := t.cfg.Clock.Now()
	span := max(min(s.Deadline, t.cfg.MaxDeadline), 0)
	r := &run{
		id: t.last, token: s.Token, cost: max(s.Permits, 1), accepted: now, due: now.Add(span),
		prepare: s.Prepare, turn: make(chan struct{}, 1), seats: map[Subscriber]struct{}{},
		latest: Event{Kind: EventQueued, ID: t.last, Token: s.Token},
	}
	r.ctx, r.cancel = context.WithCancel(t.base)
	t.runs[r.id] = r
	if s.Token != nil {
		t.tokens[*s.Token] = r
	}
	t.live++
	r.waiting = t.backlog
	r.place = t.backlog.PushBack(r)
	// MGR-15: from the acceptance, so that the time in the queue counts.
	r.deadline = t.cfg.Clock.AfterFunc(span, func() { t.expireDeadline(r) })
	return r
}

// NewID takes a number for a run that the table does not hold: a nested one.
func (t *Table) NewID() ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	return t.last
}

// begin adds a goroutine to those that Shutdown waits for, unless it is too
// late for that.
func (t *Table) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Add(1)
	return true
}

// origin is who asked for a step.
type origin struct{ conn, request uint64 }

type originKey struct{}

// WithOrigin returns a context that carries the serial numbers of the connection
// and of the request in whose name the table is called. They appear in
// trace.Point.
func WithOrigin(ctx context.Context, conn, request uint64) context.Context {
	return context.WithValue(ctx, originKey{}, origin{conn, request})
}

func point(ctx context.Context, a trace.Action, id ID) trace.Point {
	o, _ := ctx.Value(originKey{}).(origin)
	return trace.Point{Action: a, Run: uint64(id), Conn: o.conn, Request: o.request}
}

// pass stands at the gate before a transition.
func (t *Table) pass(ctx context.Context, a trace.Action, id ID) error {
	if t.cfg.Gate == nil {
		return nil
	}
	return t.cfg.Gate.Pass(ctx, point(ctx, a, id))
}

// noteLocked tells the recorder of a transition.
func (t *Table) noteLocked(ctx context.Context, a trace.Action, id ID, attrs ...trace.Attr) {
	if rec := t.cfg.Recorder; rec != nil {
		rec.Record(trace.Event{Point: point(ctx, a, id), Attrs: attrs})
	}
}
