package replay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/conformance/process"
)

// epoch is what the clocks of daemons show first.
var epoch = time.Unix(1_000_000_000, 0)

// inProcess returns a starter of this repository's daemon in the test process,
// behind a real listener, with a gate, a recorder and a clock that stands still.
// wrap, when set, stands between the listener and the world.
func inProcess() Starter {
	return func(_ context.Context, o Options) (*Daemon, error) {
		d := &Daemon{Recorder: NewRecorder(), Clock: NewClock(epoch), LogSize: o.LogSize}
		config := agentd.Config{
			Version: "replay", Log: slog.New(slog.DiscardHandler), Clock: d.Clock, Recorder: d.Recorder,
			Environ: []string{"PATH=/usr/bin:/bin", "AGENTD_SECRET=never-seen"}, HandlerDir: o.HandlerDir,
			// A parked request takes as long as the machine is slow, so that no socket deadline may end a connection meanwhile.
			Limits: agentd.Limits{HookLogEntries: o.LogSize, HeaderTimeout: time.Hour},
		}
		if o.Hold != nil {
			d.Gate = NewGate(o.Hold)
			config.Gate = d.Gate
		}
		return d, d.serve(config)
	}
}

// serve runs this repository's daemon in the test process, behind a real
// listener.
func (d *Daemon) serve(config agentd.Config) error {
	daemon, err := agentd.New(config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- daemon.Serve(context.Background(), l) }()
	d.URL = "http://" + l.Addr().String()
	d.Stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(daemon.Shutdown(ctx), <-served)
	}
	return nil
}

// wireLogSize is the size of the hook log that the binary keeps (wire facts,
// section 3).
const wireLogSize = 64

// buildDir is where the command was built; empty while it was not.
var buildDir string

// daemonBinary builds the command once for all tests of the process.
var daemonBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "replay-agentd-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	return process.Build(context.Background(), dir, "microvms/agentd/cmd/agentd")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// asBinary returns a starter of the daemon's command: a process of its own for
// each path, on a free port that it logs.
func asBinary(t *testing.T) Starter {
	t.Helper()
	binary, err := daemonBinary()
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, _ Options) (*Daemon, error) {
		d, err := process.Start(ctx, binary, process.Options{})
		if err != nil {
			return nil, err
		}
		return &Daemon{URL: d.URL(), LogSize: wireLogSize, Stop: d.Stop}, nil
	}
}
