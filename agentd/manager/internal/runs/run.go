package runs

import (
	"container/list"
	"context"
	"time"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// ID numbers the runs of one table, from 1. Ids that nested runs took are
// skipped.
type ID uint64

// Phase is where a run stands in its life.
type Phase uint8

// The phases.
const (
	PhaseQueued        Phase = iota // accepted, without permits
	PhaseGranted                    // it holds its permits; no process yet
	PhaseRunning                    // its process was created, until the terminal event
	PhaseFinished                   // the event finished was published
	PhaseFailedToStart              // the event failed_to_start was published
)

// String is a fixed word.
func (p Phase) String() string {
	return [...]string{"queued", "granted", "running", "finished", "failed_to_start"}[p]
}

func (p Phase) terminal() bool { return p >= PhaseFinished }

// Cause says what ended a run. The first cause wins.
type Cause uint8

// The causes.
const (
	CauseExited    Cause = iota // the process ended by itself
	CauseCancelled              // Table.Cancel
	CauseDeadline               // Spec.Deadline passed
	CauseShutdown               // Table.Shutdown
)

// String is the wire word.
func (c Cause) String() string {
	return [...]string{"exited", "cancelled", "deadline", "shutdown"}[c]
}

// EventKind says what an Event is.
type EventKind uint8

// The kinds of event.
const (
	EventQueued        EventKind = iota // only ever a snapshot
	EventStarted                        // the process was created
	EventFailedToStart                  // terminal: there was no process, and no stop
	EventFinished                       // terminal: there was a process, or a stop
)

// String is the wire word.
func (k EventKind) String() string {
	return [...]string{"queued", "started", "failed_to_start", "finished"}[k]
}

// Terminal says whether nothing follows an event of this kind.
func (k EventKind) Terminal() bool { return k >= EventFailedToStart }

// Event is a step of a run that its subscribers hear of. What it points to is
// shared and must not be changed.
type Event struct {
	Kind     EventKind
	ID       ID
	Token    *string   // Spec.Token
	Error    string    // of EventFailedToStart
	Finished *Finished // of EventFinished
}

// Finished is the end of a run that was not refused.
type Finished struct {
	Cause      Cause
	ExitCode   *int64 // nil when a signal ended the process, and without one
	Report     Report
	FinishedAt time.Time
	// Sizes are the lengths of the artifacts, in the order of Fields: what
	// Table.Artifact returns as total.
	Sizes [3]uint64
}

// Report is what a run brought besides its process's status and output. It is
// shared and must not be changed.
type Report struct {
	Consumed     []byte // the result that the executor gave; nil: none
	Log          []byte // the artifact genvm_log
	Metrics      []byte // encoded calldata; nil: null
	VersionMajor uint32
	VersionMinor uint32
}

// Spec is what a run request asks for.
type Spec struct {
	Token    *string       // nil: the run is not found again by a repeat
	Deadline time.Duration // from acceptance; at most Config.MaxDeadline; 0 or less: at once
	Permits  int           // cost; less than 1 is 1, more than there are is all of them
	// Prepare validates the request and resolves what is to run. It is called
	// once, while the run is queued, with a context that ends when the run is
	// stopped. Its error is the text of failed_to_start. It is not called for
	// a run that was stopped before.
	Prepare func(ctx context.Context, id ID) (*Prepared, error)
}

// Prepared is a run that is ready for its process.
type Prepared struct {
	// Command is the process. The table sets Stdin, Timeout, ReapGroup, Kill,
	// DieWithParent and CutPipes, and keeps no ring of its output. Capture.Discard keeps
	// nothing; Capture.TailBytes with HeadBytes below 0 keeps the newest bytes,
	// cut on a UTF-8 boundary; a HeadBytes of math.MaxInt keeps everything.
	Command *execution.Command
	// Input is written to the process's stdin, then its end. A process that
	// does not take it is not ended by that.
	Input []byte
	// Version is shown by Status.
	Version string
	// Spawned is called once: with true right after the process was created,
	// with false when there will be none. nil: nothing.
	Spawned func(spawned bool)
	// Finish is called once, after the process's exit, and returns at the
	// latest when ctx ends. nil: an empty report.
	Finish func(ctx context.Context) Report
	// Close is called once in every case, last. nil: nothing.
	Close func()
}

// Subscriber is a connection. It is the key of its subscriptions, so its
// dynamic type must be comparable: a pointer.
type Subscriber interface {
	// Deliver is called with the table's lock held: it must append to the
	// connection's queue and return. It may not call the table.
	Deliver(ev Event)
}

// run is one entry of the table. The table's lock guards it, but for what says
// otherwise.
type run struct {
	id       ID
	token    *string
	cost     int
	accepted time.Time
	due      time.Time // when the deadline passes

	// ctx ends when the run is stopped or has ended; fixed.
	ctx    context.Context
	cancel context.CancelFunc

	prepare func(context.Context, ID) (*Prepared, error) // nil once it was called, or will not be
	turn    chan struct{}                                // holds a token when the run may be at its turn; fixed

	phase    Phase
	decided  bool          // cause is final
	cause    Cause         // why it ends
	spawning chan struct{} // open while the process is being created; nil: it is not
	exited   bool          // the process's exit was observed
	held     int           // permits; free + the sum of held = total
	place    *list.Element // in waiting, nil once it left
	waiting  *list.List    // the queue or the backlog

	latest    Event // the snapshot
	started   time.Time
	ended     time.Time
	version   string
	artifacts [3][]byte // immutable once the phase is terminal
	// seats holds the connections that hear of the run. Once the phase is
	// terminal each of them has been told, by the event or by a snapshot.
	seats    map[Subscriber]struct{}
	released bool
	changed  chan struct{} // closed at the next change; nil: nobody waits
	deadline trace.Timer
	expiry   trace.Timer
}

// decideLocked fixes the cause, unless it is fixed already, and says whether it
// did.
func (r *run) decideLocked(c Cause) bool {
	// MGR-13: the one place in which a cause is written; the first one wins.
	if r.decided {
		return false
	}
	r.decided, r.cause = true, c
	return true
}
