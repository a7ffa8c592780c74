package execution

import (
	"context"
	"log/slog"
	"syscall"
	"time"

	"microvms/agentd/trace"
)

// The defaults of Config, the figures of wire facts, section 3.
const (
	DefaultHeadBytes     = 8388608
	DefaultRingBytes     = 1048576
	DefaultReadUnit      = 16384
	DefaultLinger        = 5 * time.Second
	DefaultKillGrace     = 10 * time.Second
	DefaultKillSettle    = time.Second
	DefaultScanInterval  = 50 * time.Millisecond
	DefaultRetention     = 900 * time.Second
	DefaultStdinTimeout  = 5 * time.Second
	DefaultMaxStdinWrite = 1048576
)

// Key names a command: the token that the caller minted, in the namespace of
// its front door.
type Key struct{ Namespace, ID string }

// Capture says what is kept of a command's output. A zero number means its
// default, a negative one means none.
type Capture struct {
	HeadBytes int    // first bytes of each stream, for the result; default 8388608
	TailBytes int    // newest bytes of each stream after its head, for the result; default none
	RingBytes int    // newest bytes of both streams together, for readers; default 1048576
	ReadUnit  int    // most bytes of one read and of one output event; default 16384
	Mark      []byte // put between head and tail where bytes are missing; nil: nothing
	Discard   bool   // stdout and stderr are /dev/null: nothing is captured
}

func (c Capture) withDefaults() Capture {
	c.HeadBytes = limit(c.HeadBytes, DefaultHeadBytes)
	c.TailBytes = limit(c.TailBytes, 0)
	c.RingBytes = limit(c.RingBytes, DefaultRingBytes)
	if c.ReadUnit <= 0 {
		c.ReadUnit = DefaultReadUnit
	}
	return c
}

// limit reads a number where zero means the default and less means none.
func limit(n, def int) int {
	switch {
	case n == 0:
		return def
	case n < 0:
		return 0
	}
	return n
}

// AckPolicy says what an ack leaves behind.
type AckPolicy uint8

const (
	// AckKeepsRing releases the result and keeps the record, its terminal
	// marker and the ring until collection (wire v1).
	AckKeepsRing AckPolicy = iota
	// AckRemoves removes the record at once (manager facts, section 5.1).
	AckRemoves
)

// RetentionBase says when the retention of a record begins.
type RetentionBase uint8

const (
	// RetainFromAck begins at the ack; a record without ack is never collected
	// (wire v1).
	RetainFromAck RetentionBase = iota
	// RetainFromExit begins at the terminal marker, acked or not (manager
	// facts, section 4.8).
	RetainFromExit
)

// KillStep is one signal of a kill plan and the time that its receivers get
// before the next step.
type KillStep struct {
	Signal syscall.Signal
	Grace  time.Duration
}

// KillPlan is the list of steps by which a deadline, a reap or a kill ends a
// command. The last step's grace is how long the group is watched afterwards;
// while a member lives, the last signal is repeated at each scan.
type KillPlan struct {
	Steps      []KillStep
	LeaderOnly bool // signal the leader alone, not its group
}

// TermThenKill is the plan of wire v1: SIGTERM, the grace, SIGKILL.
func TermThenKill(grace time.Duration) KillPlan {
	// KILL-2: first the signal that a process can use to end in order.
	return KillPlan{Steps: []KillStep{{syscall.SIGTERM, grace}, {syscall.SIGKILL, DefaultKillSettle}}}
}

// KillAtOnce is the manager's plan: SIGKILL and no grace.
func KillAtOnce() KillPlan {
	return KillPlan{Steps: []KillStep{{syscall.SIGKILL, DefaultKillSettle}}}
}

// Admission grants permits before a process is created.
type Admission interface {
	// Acquire blocks until the command may run, ctx ends or the permit is
	// refused. The core calls release once, when the command has ended, or
	// when its spawn failed.
	Acquire(ctx context.Context, k Key, c *Command) (release func(), err error)
}

// OOMScoreAdj says which out-of-memory scores the daemon and its children
// have. The kernel copies the daemon's score to a child at the fork, so the
// core writes Child before each fork and Own after it.
type OOMScoreAdj struct{ Own, Child int }

// Config holds the policies of a registry. The zero value is wire v1.
type Config struct {
	Clock    trace.Clock    // nil: the system's
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none
	Log      *slog.Logger   // nil: slog.Default()

	// Waits owns every wait for a child. nil: the registry makes one that
	// waits only for its own children, by pid.
	Waits *Waits

	Capture       Capture       // used where a command brings none
	Linger        time.Duration // wait for pipes that outlive the leader; default 5 s, negative: none
	KillGrace     time.Duration // between SIGTERM and SIGKILL; default 10 s, negative: none
	ScanInterval  time.Duration // between two looks at a group's members; default 50 ms
	Retention     time.Duration // life of a record after its base; default 900 s
	StdinTimeout  time.Duration // longest stall of one stdin write; default 5 s, negative: none
	MaxStdinWrite int           // bytes of one stdin write; default 1048576, negative: no limit

	Kill             *KillPlan     // nil: TermThenKill(KillGrace)
	RetainFrom       RetentionBase // wire v1: from the ack
	AckLeaves        AckPolicy     // wire v1: the ring, until collection
	RegisterRefusals bool          // a refused spawn stays as an exited record; false for wire v1
	KillOnClose      bool          // Close sends the kill plan's last signal to every running group
	Admission        Admission     // nil: none
	Pace             *Pace         // nil: output never waits for a reader
	OOMScoreAdj      *OOMScoreAdj  // nil: the score is left alone
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Capture = c.Capture.withDefaults()
	c.Linger = span(c.Linger, DefaultLinger)
	c.KillGrace = span(c.KillGrace, DefaultKillGrace)
	c.ScanInterval = max(span(c.ScanInterval, DefaultScanInterval), time.Microsecond)
	c.Retention = span(c.Retention, DefaultRetention)
	c.StdinTimeout = span(c.StdinTimeout, DefaultStdinTimeout)
	c.MaxStdinWrite = limit(c.MaxStdinWrite, DefaultMaxStdinWrite)
	if c.Kill == nil || len(c.Kill.Steps) == 0 {
		plan := TermThenKill(c.KillGrace)
		c.Kill = &plan
	}
	return c
}

// span reads a duration where zero means the default and less means none.
func span(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}
