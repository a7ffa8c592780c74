// Package agentd is the daemon inside a MicroVM as a library with one door:
// New, Serve, Shutdown. It serves wire version 1 (wire facts, sections 1 to 9)
// over HTTP/1.1: one-shot bootstrap, commands with their output streams,
// process accounting and health. The command agentd/cmd/agentd is the same
// daemon with its settings read from the environment.
//
// What changes the machine beyond files and commands (identity repair, hook
// handlers, power-off) is off unless its Config field is set.
package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"microvms/agentd/execution"
	"microvms/agentd/internal/accounts"
	"microvms/agentd/internal/capabilities"
	"microvms/agentd/internal/handlers"
	"microvms/agentd/internal/hooks"
	"microvms/agentd/internal/httpapi"
	"microvms/agentd/internal/identity"
	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
)

// Limits bounds the daemon: every size and duration of wire facts, section 3.
// A zero field takes its default; a negative one means zero, where zero has a
// meaning of its own.
type Limits = limits.Limits

// IdentityMachine is what identity repair changes. Its zero value is the real
// machine; tests put parts of their own in its place.
type IdentityMachine = identity.Machine

// Config holds everything that a Daemon is given. The zero value serves wire
// version 1 with its defaults and an empty image environment.
type Config struct {
	Version  string         // published in health, schema and every response; default "0.0.0-dev"
	Log      *slog.Logger   // nil: slog.Default()
	Clock    trace.Clock    // nil: the system's. Socket deadlines always follow the system clock
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none

	// Environ is the daemon's startup environment in the form of os.Environ,
	// from which the image snapshot is taken once. Hook handlers get all of it.
	Environ []string

	Limits Limits

	// PasswdPath and GroupPath are the guest's user and group files, read for
	// each start; default "/etc/passwd" and "/etc/group".
	PasswdPath, GroupPath string

	// DefaultUser is whom a start without a user runs as, by name or digits,
	// with a row of the passwd file; nil for none. Set but empty it names
	// nobody, and such a start is refused.
	DefaultUser *string
	// PreserveImageUser says that a start without a user runs as the user that
	// the image sealed. It counts only while DefaultUser is nil.
	PreserveImageUser bool
	// ImageUserPath is the sealed record, read once by New; default
	// "/etc/agentd/image-user".
	ImageUserPath string

	// HandlerDir holds the image's hook handlers, which run as the daemon's
	// user; empty: there are none. The command uses /etc/agentd/hooks.d, and no
	// caller may take it from the environment.
	HandlerDir string

	// RepairIdentity asks for identity repair at the winning run hook. It
	// changes the machine, so only the daemon's command sets it by default.
	RepairIdentity bool
	// Identity is the machine that the repair changes; zero: this one.
	Identity IdentityMachine

	// PowerOff powers the VM off; nil except in the daemon's command. Without it
	// every request for a power-off is answered poweroff_unavailable.
	PowerOff func() error
	// MayPowerOff says whether PowerOff would be allowed; nil: whether this
	// process holds CAP_SYS_BOOT in its effective and permitted sets.
	MayPowerOff func() bool

	// Pace lets output wait, within bounds, for a reader that keeps up; nil: it
	// never waits, and a reader that the ring outruns loses bytes.
	Pace *execution.Pace

	// Waits owns the waits for children. nil: the daemon waits only for its own
	// children, by pid, as a library must.
	Waits *execution.Waits
	// OOMScoreAdj is the daemon's and its children's out-of-memory score; nil
	// leaves both alone.
	OOMScoreAdj *execution.OOMScoreAdj
}

// Daemon serves wire version 1. Its methods are safe for concurrent use.
type Daemon struct {
	server   *httpapi.Server
	registry *execution.Registry

	stop sync.Once
	done chan struct{} // closed when the shutdown is complete
	err  error         // of the shutdown; read after done
}

// New returns a Daemon that does not serve yet. Release it with Shutdown.
func New(c Config) (*Daemon, error) {
	if strings.ContainsAny(c.Version, "\r\n") {
		return nil, fmt.Errorf("cannot use version %q: it goes into a header and must be one line", c.Version)
	}
	if c.Version == "" {
		c.Version = "0.0.0-dev"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	c.PasswdPath = cmp.Or(c.PasswdPath, "/etc/passwd")
	c.GroupPath = cmp.Or(c.GroupPath, "/etc/group")
	c.ImageUserPath = cmp.Or(c.ImageUserPath, accounts.ImageUserPath)
	if c.MayPowerOff == nil {
		c.MayPowerOff = capabilities.MayPowerOff
	}
	if c.Waits == nil {
		c.Waits = execution.NewWaits() // one owner for commands and handlers
	}
	l := c.Limits.WithDefaults()
	registry := execution.New(c.execution(l))
	server := httpapi.New(httpapi.Config{
		Version: c.Version, Log: c.Log, Clock: c.Clock, Recorder: c.Recorder, Gate: c.Gate, Limits: l,
		Boot: hooks.New(l.HookLogEntries), Registry: registry,
		Accounts:    &accounts.Accounts{PasswdPath: c.PasswdPath, GroupPath: c.GroupPath},
		ImageEnv:    accounts.Snapshot(c.Environ),
		DefaultUser: c.defaultUser(),
		Handlers: handlers.New(handlers.Config{
			Dir: c.HandlerDir, Budget: l.HookHandlerTimeout, Environ: c.Environ, Clock: c.Clock, Waits: c.Waits, Log: c.Log,
		}),
		Identity: c.identity(), PowerOff: c.PowerOff, MayPowerOff: c.MayPowerOff,
	})
	return &Daemon{server: server, registry: registry, done: make(chan struct{})}, nil
}

// identity returns the machine to repair, nil for none.
func (c *Config) identity() *identity.Machine {
	if !c.RepairIdentity {
		return nil // IDENTITY-3: switched off is not attempted, and health keeps saying so
	}
	return &c.Identity
}

// execution is the core's configuration: wire version 1 with these limits. In
// the core, as in Limits, zero means the default and less means none.
func (c *Config) execution(l Limits) execution.Config {
	return execution.Config{
		Clock: c.Clock, Recorder: c.Recorder, Gate: c.Gate, Log: c.Log, Waits: c.Waits,
		Capture:       execution.Capture{HeadBytes: orNone(l.MaxOutputBytes), RingBytes: orNone(l.StreamBufferBytes)},
		Linger:        orNone(l.OutputLinger),
		KillGrace:     orNone(l.KillGrace),
		ScanInterval:  orNone(l.ScanInterval),
		Retention:     orNone(l.ExecTTL),
		StdinTimeout:  orNone(l.StdinWriteTimeout),
		MaxStdinWrite: orNone(l.MaxStdinWriteBytes),
		OOMScoreAdj:   c.OOMScoreAdj,
		Pace:          c.Pace,
	}
}

func orNone[T int | time.Duration](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// defaultUser returns whom a start without a user runs as.
func (c *Config) defaultUser() accounts.Default {
	d := accounts.Default{Name: c.DefaultUser}
	if c.PreserveImageUser && d.Name == nil { // ACCOUNT-5: an empty name is set, so it refuses and selects no record
		d.Image = accounts.ReadImageUser(c.ImageUserPath)
		if d.Image.Err != nil {
			c.Log.Warn("image user cannot be used: starts without a user will be refused", "path", c.ImageUserPath, "err", d.Image.Err)
		}
	}
	return d
}

// Serve accepts connections from l until ctx ends or Shutdown is called, and
// returns nil once that shutdown is complete. It closes l in any case.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = d.Shutdown(context.Background()) })()
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
		// The front first: what its requests wait for may be the core's to end.
		front := d.server.Shutdown(ctx)
		d.err = errors.Join(front, d.registry.Close(ctx))
	})
	<-d.done
	return d.err
}
