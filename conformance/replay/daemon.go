package replay

import (
	"context"

	"microvms/agentd/trace"
)

// Daemon is a running daemon that a driver drives. Gate and Recorder are nil
// where it runs as a binary.
type Daemon struct {
	URL      string // "http://127.0.0.1:41237"
	Gate     *Gate
	Recorder *Recorder
	Clock    *Clock
	// LogSize is the number of entries that its hook log keeps.
	LogSize int
	// Stop ends the daemon, waits for its end and frees what it held.
	Stop func() error
}

// Options are what a driver asks of a daemon that is started for it. A starter
// of binaries ignores them.
type Options struct {
	// Hold selects the points at which the daemon is parked; nil means none.
	Hold func(p trace.Point) bool
	// LogSize asks for a hook log of this many entries.
	LogSize int
	// HandlerDir asks for the hook handlers in this directory; empty means none.
	HandlerDir string
}

// Starter starts a fresh daemon.
type Starter func(ctx context.Context, o Options) (*Daemon, error)
