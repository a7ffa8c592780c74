package execution

import (
	"context"
	"os"
	"sync"
	"time"

	"microvms/agentd/trace"
)

// Phase is where a command stands in its life.
type Phase uint8

// The phases.
const (
	PhaseQueued  Phase = iota // admitted but not spawned; only with an Admission
	PhaseRunning              // until the terminal marker, through reap and linger
	PhaseExited
	PhaseAcked
)

// String is the wire word.
func (p Phase) String() string {
	return [...]string{"queued", "running", "exited", "acked"}[p]
}

// Cause says what ended a command. The first cause wins.
type Cause uint8

// The causes.
const (
	CauseExited   Cause = iota // the leader ended by itself
	CauseDeadline              // Command.Timeout passed
	CauseKilled                // Exec.Kill
	CauseShutdown              // Registry.Close
	CauseRefused               // there never was a process (RegisterRefusals)
)

// String is a fixed word.
func (c Cause) String() string {
	return [...]string{"exited", "deadline", "killed", "shutdown", "refused"}[c]
}

// Result is what a command leaves behind.
type Result struct {
	ExitCode *int // nil when a signal ended the leader, or its status is not known
	Signal   *int // nil when the leader exited
	TimedOut bool // the deadline passed before the leader ended
	// Stdout and Stderr are what the capture plan kept. They are shared with
	// the record: the caller must not change them.
	Stdout, Stderr    []byte
	Truncated         bool      // a stream holds less than was written
	Missing           [2]uint64 // how many bytes of Stdout and of Stderr were not kept
	WritersMayBeAlive bool      // the linger passed with a pipe still open
	Total             uint64
	Cause             Cause
	FinishedAt        time.Time
	Refusal           error // why there was no process, with CauseRefused
}

// Snapshot is a command's state at one moment.
type Snapshot struct {
	Phase     Phase
	StartedAt time.Time
	Result    *Result // set in PhaseExited only; a fresh copy
}

// Exec is one registered command. All methods are safe for concurrent use.
type Exec struct {
	reg  *Registry
	key  Key
	cmd  *Command
	kill KillPlan

	order   uint64        // position in the order of starts
	decided chan struct{} // closed when the start has its outcome
	refusal error         // of a start that failed; set before decided is closed
	done    chan struct{} // closed at the terminal marker
	exited  chan struct{} // closed once the leader's status was collected
	visible bool          // a Lookup finds it; guarded by the registry's lock

	group   group
	stdin   stdin
	proc    *Process
	pipes   []*os.File // the daemon's ends of what the child writes
	started time.Time

	// mu guards the rest. Nothing blocks under it.
	mu          sync.Mutex
	phase       Phase
	store       store
	result      Result
	readers     []*Reader     // those that wait for an event
	attached    []*Reader     // all of them; only with a Pace
	progress    chan struct{} // closed when a reader took bytes; nil: nobody waits for it
	nextReader  uint64
	open        int // pipes that have not ended
	drained     chan struct{}
	leaderEnded bool // the leader's status was collected
	timedOut    bool
	cause       Cause
	caused      bool                    // a cause other than the exit was recorded
	writersLive bool                    // the linger passed with a pipe open
	removed     bool                    // collected
	escalations [reasons]*escalation    // under way, by reason
	dequeue     context.CancelCauseFunc // ends the wait for admission
	deadline    trace.Timer
	retention   trace.Timer
	release     func() // the permit; nil: none
}

// Key returns the key that the command was started under.
func (e *Exec) Key() Key { return e.key }

// Done is closed at the terminal marker: from then on Poll shows a result,
// Registry.Counts does not count the command as busy and stdin is closed.
func (e *Exec) Done() <-chan struct{} { return e.done }

// Exited is closed once the leader's exit was observed, before the reap of its
// group and the drain of its pipes. After Registry.Close it may stay open for
// ever.
func (e *Exec) Exited() <-chan struct{} { return e.exited }

// Poll returns the state. It changes nothing.
func (e *Exec) Poll() Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Snapshot{Phase: e.phase, StartedAt: e.started}
	if e.phase == PhaseExited {
		r := e.result
		s.Result = &r
	}
	return s
}

// Ack releases the result and returns it for the last time. It returns
// ErrStillRunning before the terminal marker and ErrAlreadyAcked after the
// first ack.
func (e *Exec) Ack() (Result, error) { return e.AckContext(context.Background()) }

// AckContext is Ack; ctx carries the request's serial number and ends only the
// wait at a Gate.
func (e *Exec) AckContext(ctx context.Context) (Result, error) {
	if err := e.reg.pass(ctx, e.point(ctx, trace.ExecAck)); err != nil {
		return Result{}, err
	}
	e.mu.Lock()
	switch e.phase {
	case PhaseQueued, PhaseRunning:
		e.mu.Unlock()
		return Result{}, ErrStillRunning // EXEC-25: there is no result to release
	case PhaseAcked:
		e.mu.Unlock()
		return Result{}, ErrAlreadyAcked // EXEC-26: it was released once
	}
	r := e.result
	e.phase = PhaseAcked // EXEC-24: once, under the lock
	e.result.Stdout, e.result.Stderr = nil, nil
	e.store.release() // OUT-11: of the heads; the ring stays
	if e.reg.cfg.AckLeaves == AckKeepsRing && e.reg.cfg.RetainFrom == RetainFromAck {
		e.retainLocked() // EXEC-27: what nobody took over has no term
	}
	e.noteLocked(ctx, trace.ExecAck)
	e.mu.Unlock()
	if e.reg.cfg.AckLeaves == AckRemoves {
		e.reg.collect(e)
	}
	return r, nil
}

// Group is a command's process group.
type Group struct {
	Key         Key
	Pgid        *int // nil when there never was a process
	StartedAt   time.Time
	ChildExited bool  // the terminal marker, true after an ack as well
	Reap        bool  // Command.ReapGroup
	Pids        []int // live members, ascending; never nil
}

// Group lists the live members of the process group. It reads the process
// table unless the group is known to have ended.
func (e *Exec) Group() Group {
	pids, err := e.group.members()
	if err != nil {
		e.reg.cfg.Log.Warn("cannot list a process group", "exec_id", e.key.ID, "err", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := Group{
		Key: e.key, StartedAt: e.started, Reap: e.cmd.ReapGroup,
		ChildExited: e.phase >= PhaseExited, Pids: pids, // PROC-3: the marker, which an ack does not take back
	}
	if g.Pids == nil {
		g.Pids = []int{}
	}
	if e.group.id != 0 {
		id := e.group.id
		g.Pgid = &id
	}
	return g
}

// point names where the code stands. It is used only where a Gate or a
// Recorder may see it.
func (e *Exec) point(ctx context.Context, a trace.Action) trace.Point {
	return trace.Point{Action: a, Exec: e.key.ID, Request: requestSerial(ctx)}
}

// noteLocked tells the recorder of a transition.
func (e *Exec) noteLocked(ctx context.Context, a trace.Action, attrs ...trace.Attr) {
	if rec := e.reg.cfg.Recorder; rec != nil {
		rec.Record(trace.Event{Point: e.point(ctx, a), Attrs: attrs})
	}
}

// causeLocked records why the command ends; the first cause wins, and an exit
// that was collected before is a cause already.
func (e *Exec) causeLocked(c Cause) {
	if !e.caused && !e.leaderEnded {
		e.caused, e.cause = true, c
	}
}
