// Package manager is the manager as a library with one door: New, Serve,
// Shutdown. It serves the Manager Socket Protocol on a WebSocket, and admin
// endpoints beside it, over the execution core of the daemon (manager facts).
//
// It has no authentication: whoever reaches the listener starts programs as
// this process's user. Listen on a unix socket or on loopback only. Requests of
// web pages are refused.
//
// Runs are this process's: when it is killed, its executors are killed with it,
// and a manager that is started again knows none of them, which clients see by
// its boot id.
package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/execution"
	"microvms/agentd/manager/internal/executor"
	"microvms/agentd/manager/internal/httpfront"
	"microvms/agentd/manager/internal/manifest"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/manager/internal/socket"
	"microvms/agentd/manager/settings"
	"microvms/agentd/trace"
)

// DefaultShutdownWait bounds each step of a shutdown: the end of the runs, and
// then the delivery of what connections still have to hear.
const DefaultShutdownWait = 5 * time.Second

// DefaultPermits is the pool when Config.Permits is 0: one run with modules.
const DefaultPermits = settings.DefaultNondetCost

// Config holds everything that a Manager is given. Executors is required; the
// zero value of the rest serves with its defaults.
type Config struct {
	Log      *slog.Logger   // nil: slog.Default()
	Clock    trace.Clock    // nil: the system's. Socket deadlines always follow the system clock
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none

	// BootID returns the number that names this process to clients; it is called
	// once. nil: a random one.
	BootID func() uint64

	// Executors is the directory of executors: <Executors>/<name>/bin/genvm.
	Executors string
	// ManifestPath is the YAML file from which major versions and patterns are
	// resolved; empty: only literal versions are.
	ManifestPath string
	// Environ is the environment of executors and modules; nil: this process's.
	Environ []string

	Permits    int // the pool; 0: DefaultPermits
	SyncCost   int // permits of a run without modules; 0: 4
	NondetCost int // permits of a run with modules; 0: 8

	Retention       time.Duration // life of an ended run that nobody acks; 0: 5 minutes, negative: none
	Linger          time.Duration // wait for output after an executor's exit; 0: 5 s, negative: none
	ShutdownWait    time.Duration // 0: DefaultShutdownWait
	MaxMessageBytes int64         // of a client's message; 0: 64 MiB

	// Modules holds the argument lists of the modules' programs, by "llm" and
	// "web"; without one, the module cannot be started.
	Modules map[string][]string
	// StrictResults validates what executors report; otherwise it is opaque.
	StrictResults bool
	// KeepMethod leaves the key "method" of a run's calldata as it is; otherwise
	// it becomes "".
	KeepMethod bool

	// Level is the level of Log, for the route that changes it; nil: it is fixed.
	Level *slog.LevelVar
	// DetectVersion finds the major version that a contract's code asks for; nil:
	// the route says that nothing could.
	DetectVersion func(ctx context.Context, code []byte, at time.Time) (uint32, error)
	// VMErrors describes errors of the virtual machine by name.
	VMErrors map[string]string

	// Waits owns the waits for children. nil: the manager waits only for its own
	// children, by pid, as a library must.
	Waits *execution.Waits
}

// Manager serves the protocol. Its methods are safe for concurrent use.
type Manager struct {
	config   Config
	bootID   uint64
	modules  *executor.Modules
	launcher *executor.Launcher
	table    *runs.Table
	sockets  *socket.Server
	front    *httpfront.Front
	http     *http.Server

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	stopping  bool

	stop sync.Once
	done chan struct{} // closed when the shutdown is complete
	err  error         // of the shutdown; read after done
}

// New returns a Manager that does not serve yet. Release it with Shutdown. It
// fails on a manifest that cannot be read and on costs that no permits could
// pay.
func New(c Config) (*Manager, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	store, err := c.manifest()
	if err != nil {
		return nil, err
	}
	m := &Manager{config: c, bootID: c.BootID(), listeners: map[net.Listener]struct{}{}, done: make(chan struct{})}
	m.modules = executor.NewModules(executor.ModulesConfig{
		Programs: c.Modules, Environ: c.Environ, Clock: c.Clock, Log: c.Log, Waits: c.Waits,
	})
	m.table = runs.New(runs.Config{
		Clock: c.Clock, Recorder: c.Recorder, Gate: c.Gate, Log: c.Log, Waits: c.Waits,
		Permits: c.Permits, Retention: c.Retention, Linger: c.Linger,
	})
	m.launcher = executor.New(executor.Config{
		Executors: c.Executors, Manifest: store, Modules: m.modules, NextID: m.table.NewID,
		StrictResults: c.StrictResults, KeepMethod: c.KeepMethod, Environ: c.Environ,
		Clock: c.Clock, Log: c.Log, Waits: c.Waits, Linger: c.Linger,
	})
	m.sockets, err = socket.New(socket.Config{
		Log: c.Log, Recorder: c.Recorder, Gate: c.Gate, Table: m.table, Spec: m.spec,
		BootID: m.bootID, MaxMessageBytes: c.MaxMessageBytes,
	})
	if err != nil {
		return nil, errors.Join(err, m.table.Shutdown(context.Background()), m.release(context.Background()))
	}
	m.front = httpfront.New(m.frontConfig(store))
	m.http = m.server()
	return m, nil
}

// setDefaults fills in the defaults and judges what no default could mend.
func (c *Config) setDefaults() error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	if c.BootID == nil {
		c.BootID = randomID
	}
	if c.Waits == nil {
		c.Waits = execution.NewWaits()
	}
	c.Permits = cmp.Or(c.Permits, DefaultPermits)
	c.SyncCost = cmp.Or(c.SyncCost, settings.DefaultSyncCost)
	c.NondetCost = cmp.Or(c.NondetCost, settings.DefaultNondetCost)
	c.ShutdownWait = cmp.Or(c.ShutdownWait, DefaultShutdownWait)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, msp.MaxMessageBytes)
	switch {
	case c.Executors == "":
		return errors.New("cannot start a manager without a directory of executors: set Config.Executors")
	case c.SyncCost < 1 || c.NondetCost < 1:
		return fmt.Errorf("cannot use costs of %d and %d permits: both must be at least 1", c.SyncCost, c.NondetCost)
	}
	// A pool in which the dearest run does not fit would hold that run for ever.
	c.Permits = max(c.Permits, c.SyncCost, c.NondetCost)
	return nil
}

// randomID returns a boot id. MGR-25: random over its whole range, so that a
// client that kept an id of the process before knows that its runs are gone.
func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// manifest reads the manifest, nil without one.
// CheckManifest returns why New would not take the manifest at path, or nil.
func CheckManifest(path string) error {
	_, err := manifest.Read(path)
	return err
}

func (c *Config) manifest() (*manifest.Store, error) {
	if c.ManifestPath == "" {
		return nil, nil
	}
	return manifest.Open(c.ManifestPath)
}

func (m *Manager) frontConfig(store *manifest.Store) httpfront.Config {
	c := httpfront.Config{
		Log: m.config.Log, Clock: m.config.Clock, Socket: m.sockets, Table: m.table, Spec: m.spec, Modules: m.modules,
		SyncCost: m.config.SyncCost, NondetCost: m.config.NondetCost,
		DetectVersion: m.config.DetectVersion, VMErrors: m.config.VMErrors,
		MaxMessageBytes: m.config.MaxMessageBytes,
	}
	if m.config.Level != nil {
		c.SetLevel = m.config.Level.Set
	}
	if store != nil {
		c.ReloadManifest = store.Reload
	}
	return c
}

// BootID names this process to clients.
func (m *Manager) BootID() uint64 { return m.bootID }
