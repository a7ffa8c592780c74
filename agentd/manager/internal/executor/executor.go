// Package executor turns the request of a run into its process (manager facts,
// sections 3, 4.4 to 4.6 and 8): which program, with which arguments,
// descriptors and input; the host connection that the manager itself serves;
// the log pipe; nested runs; and the modules that a run may use. The table of
// package runs decides when the process starts and how it ends.
//
// An executor's descriptors, in the order of their numbers: 3 the log pipe, 4
// the socket of host 1, and where modules are needed 5 the LLM module and 6 the
// web module. All are made at the spawn, so a run that waits for its permits
// holds none.
//
// A client may not name a descriptor as host 0: fd://N would be one of the
// manager's, or of another run.
package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/execution"
	"microvms/agentd/manager/internal/manifest"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// DefaultMaxResultBytes is the largest result, and the largest envelope of a
// nested run, that is read. It leaves room for the rest of the finished event
// within the 64 MiB that clients receive in one message by default.
const DefaultMaxResultBytes = 63 << 20

// Config is what a Launcher is given.
type Config struct {
	Executors string          // directory of executors: <Executors>/<name>/bin/genvm
	Manifest  *manifest.Store // nil: only literal versions resolve
	Modules   *Modules        // nil: none runs
	// NextID takes the number of a nested run.
	NextID func() runs.ID
	// StrictResults validates what an executor reports (manager facts, section
	// 8); otherwise it is opaque.
	StrictResults bool
	// KeepMethod leaves the key "method" in a run's calldata; otherwise it
	// becomes "" (manager facts, section 3.1).
	KeepMethod bool
	// MaxResultBytes is the largest result; 0: DefaultMaxResultBytes.
	MaxResultBytes int64

	Environ []string         // of each executor; nil: this process's
	Clock   trace.Clock      // nil: the system's
	Log     *slog.Logger     // nil: slog.Default()
	Waits   *execution.Waits // who waits for children; nil: an owner of the launcher's own
	Linger  time.Duration    // wait for a nested run's channels after its exit; 0: 5 s, negative: none
}

// Launcher prepares runs. All methods are safe for concurrent use.
type Launcher struct {
	cfg    Config
	nested *execution.Registry

	// base ends at Close: then every channel is closed.
	base   context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines that read channels
}

// New returns a Launcher. Release it with Close.
func New(c Config) *Launcher {
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Waits == nil {
		c.Waits = execution.NewWaits()
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	c.MaxResultBytes = cmp.Or(c.MaxResultBytes, DefaultMaxResultBytes)
	kill := execution.KillAtOnce()
	l := &Launcher{cfg: c, nested: execution.New(execution.Config{
		Clock: c.Clock, Log: c.Log, Waits: c.Waits,
		Linger: c.Linger, Kill: &kill, AckLeaves: execution.AckRemoves, KillOnClose: true,
		StdinTimeout: -1, MaxStdinWrite: -1,
	})}
	l.cfg.Linger = max(cmp.Or(c.Linger, execution.DefaultLinger), 0)
	l.base, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends what is left: nested runs, and the reading of logs that somebody
// outside the runs' groups still holds. The table must be shut down before.
func (l *Launcher) Close(ctx context.Context) error {
	err := l.nested.Close(ctx)
	l.cancel()
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot end the reading of executors: %w", context.Cause(ctx))
	}
}

// ModulesMissing returns the error with which a run that needs modules is
// refused while they do not run, nil when it may go on. Clients know the error
// by its text, "modules are required but not running", and retry.
func (l *Launcher) ModulesMissing(req *msp.RunRequest) error {
	if !req.NeedsModules() {
		return nil
	}
	return l.cfg.Modules.missing()
}

// Prepare validates the request and resolves its executor. Its error is the
// text of failed_to_start. It keeps what a nested
// run takes over from the request, and neither its calldata nor its code.
func (l *Launcher) Prepare(_ context.Context, id runs.ID, req *msp.RunRequest) (*runs.Prepared, error) {
	// EXECUTOR-2: a number in the request would name a descriptor of the
	// manager or of whatever else it passes on.
	if strings.HasPrefix(req.Host, "fd://") {
		return nil, fmt.Errorf("cannot use host %q: a descriptor cannot be named by a client; use unix://PATH or HOST:PORT", req.Host)
	}
	data := req.ExecutionData()
	if !l.cfg.KeepMethod {
		data.Calldata = rewriteMethod(data.Calldata)
	}
	p := &process{launcher: l, id: id, request: req, data: data}
	if req.NeedsModules() {
		if err := l.cfg.Modules.missing(); err != nil {
			return nil, err
		}
		var err error
		if p.about, err = readHostData(req.HostData); err != nil {
			return nil, err
		}
	}
	if err := p.build(); err != nil {
		return nil, err
	}
	input := p.input
	p.forget()
	return &runs.Prepared{
		// EXECUTOR-15: the table writes it beside the readers, and then the end.
		Command: p.command, Input: input, Version: p.name,
		Spawned: p.spawned, Finish: p.finish, Close: p.close,
	}, nil
}

// program is the path of an executor's program. Whether it is there is the
// spawn's to find out.
//
// EXECUTOR-17: a look before the spawn could be outdated at the spawn.
func (l *Launcher) program(name string) string {
	return filepath.Join(l.cfg.Executors, name, "bin", "genvm")
}
