// Package agentd is the daemon inside a MicroVM as a library with one door:
// New, Serve, Shutdown. It serves wire version 1 (wire facts, sections 1 to 9)
// over HTTP/1.1: one-shot bootstrap, commands with their output streams,
// process accounting and health. The command agentd/cmd/agentd is the same
// daemon with its settings read from the environment.
//
// Parts of wire version 1 that this version refuses, never fakes: users,
// groups and shells given by name, power-off on exit, and a default user.
package agentd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"microvms/agentd/internal/hooks"
	"microvms/agentd/internal/httpapi"
	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
)

// Limits bounds the daemon: every size and duration of wire facts, section 3.
// A zero field takes its default; a negative one means zero, where zero has a
// meaning of its own.
type Limits = limits.Limits

// Config holds everything that a Daemon is given. The zero value serves wire
// version 1 with its defaults and an empty image environment.
type Config struct {
	Version  string         // published in health, schema and every response; default "0.0.0-dev"
	Log      *slog.Logger   // nil: slog.Default()
	Clock    trace.Clock    // nil: the system's. Socket deadlines always follow the system clock
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none

	// Environ is the daemon's startup environment in the form of os.Environ,
	// from which the image snapshot is taken once.
	Environ []string

	Limits Limits
}

// Daemon serves wire version 1. Its methods are safe for concurrent use.
type Daemon struct {
	server *httpapi.Server

	stop sync.Once
	done chan struct{} // closed when the shutdown is complete
	err  error         // of the shutdown; read after done
}

// New returns a Daemon that does not serve yet. Release it with Shutdown.
func New(c Config) (*Daemon, error) {
	if c.Version == "" {
		c.Version = "0.0.0-dev"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	lim := c.Limits.WithDefaults()
	server := httpapi.New(httpapi.Config{
		Version: c.Version, Log: c.Log, Clock: c.Clock, Recorder: c.Recorder, Gate: c.Gate,
		Limits: lim, Boot: hooks.New(lim.HookLogEntries), Registry: none{},
	})
	return &Daemon{server: server, done: make(chan struct{})}, nil
}

type none struct{}

func (none) Counts() (int, bool) { return 0, false }

// Serve accepts connections from l until ctx ends or Shutdown is called, and
// returns nil once that shutdown is complete. It closes l in any case.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { d.Shutdown(context.Background()) })()
	if err := d.server.Serve(l); err != nil {
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	}
	<-d.done
	return nil
}

// Shutdown stops accepting, lets requests in flight finish until ctx ends or
// the shutdown grace has passed, cuts the rest and ends the daemon's
// goroutines. Commands that still run are left alone. Every call returns after
// the one shutdown is complete, with its error.
func (d *Daemon) Shutdown(ctx context.Context) error {
	d.stop.Do(func() {
		defer close(d.done)
		d.err = d.server.Shutdown(ctx)
	})
	<-d.done
	return d.err
}
