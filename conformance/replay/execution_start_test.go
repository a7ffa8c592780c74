package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/conformance/process"
)

// The test binary is also the program of the children.
func init() { child.RunIfAsked() }

// execInProcess returns a starter of this repository's daemon in the test
// process, with timers that the driver fires and a gate that it opens.
func execInProcess() ExecStarter {
	return func(_ context.Context, o ExecOptions) (*ExecDaemon, error) {
		d := &ExecDaemon{Daemon: &Daemon{Recorder: NewRecorder()}, Timers: NewTimers(epoch)}
		config := agentd.Config{
			Version: "replay", Log: slog.New(slog.DiscardHandler), Clock: d.Timers, Recorder: d.Recorder,
			Environ: []string{"PATH=/usr/bin:/bin"},
			Limits: agentd.Limits{
				HeaderTimeout: time.Hour, WriteTimeout: time.Hour, SSEKeepalive: -1, ShutdownGrace: -1,
				OutputLinger: SpanLinger, KillGrace: SpanGrace, ExecTTL: SpanRetention, ScanInterval: SpanScan, StdinWriteTimeout: SpanStdin,
				StreamBufferBytes: o.Ring, MaxOutputBytes: o.Head,
			},
		}
		var off atomic.Bool
		d.PoweredOff = off.Load
		config.MayPowerOff = func() bool { return true }
		config.PowerOff = func() error { off.Store(true); return nil }
		if o.Hold != nil {
			d.Gate = NewGate(o.Hold)
			config.Gate = d.Gate
		}
		return d, d.serve(config)
	}
}

// execAsBinary returns a starter of the daemon's command, which tells its
// transitions through a pipe. Its linger and retention outlast every test.
func execAsBinary(t *testing.T) ExecStarter {
	t.Helper()
	binary, err := daemonBinary()
	if err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, o ExecOptions) (*ExecDaemon, error) {
		return startBinary(binary, map[string]int{
			"AGENTD_STREAM_BUFFER_BYTES": o.Ring, "AGENTD_MAX_OUTPUT_BYTES": o.Head,
			"AGENTD_OUTPUT_LINGER_SECS": 3600, "AGENTD_EXEC_TTL_SECS": 3600,
		})
	}
}

// startBinary starts the command with some numbers in its environment, zero
// being left out.
func startBinary(binary string, numbers map[string]int) (*ExecDaemon, error) {
	events, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := process.Options{Args: []string{"--trace", "/dev/fd/3"}, ExtraFiles: []*os.File{told}}
	for name, n := range numbers {
		if n != 0 {
			o.Env = append(o.Env, name+"="+strconv.Itoa(n))
		}
	}
	p, err := process.Start(context.Background(), binary, o)
	told.Close()
	if err != nil {
		events.Close()
		return nil, err
	}
	recorder := NewRecorder()
	ended := make(chan error, 1)
	go func() {
		defer events.Close()
		ended <- readTrace(events, recorder)
	}()
	d := &Daemon{URL: p.URL(), Recorder: recorder}
	d.Stop = func() error { return errors.Join(p.Stop(), <-ended) }
	return &ExecDaemon{Daemon: d}, nil
}

// readTrace enters the transitions that a daemon tells into a recorder.
func readTrace(from io.Reader, into *Recorder) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var line struct {
			Action  trace.Action
			Request uint64
			Exec    string
			Reader  uint64
			Attrs   map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("cannot read a told transition: %w", err)
		}
		e := trace.Event{Point: trace.Point{Action: line.Action, Request: line.Request, Exec: line.Exec, Reader: line.Reader}}
		for key, value := range line.Attrs {
			if n, ok := value.(float64); ok {
				value = int64(n)
			}
			e.Attrs = append(e.Attrs, trace.Attr{Key: key, Value: value})
		}
		into.Record(e)
	}
	return lines.Err()
}

// execInRealTime returns a starter of the daemon's command with the shortest
// spans that its environment allows; grace and stdin timeout are the wire's.
func execInRealTime(t *testing.T) ExecStarter {
	t.Helper()
	binary, err := daemonBinary()
	if err != nil {
		t.Fatal(err)
	}
	return func(context.Context, ExecOptions) (*ExecDaemon, error) {
		d, err := startBinary(binary, map[string]int{"AGENTD_OUTPUT_LINGER_SECS": 1, "AGENTD_EXEC_TTL_SECS": 1})
		if err == nil {
			d.Real, d.Deadline = true, time.Second
		}
		return d, err
	}
}

// untold returns a starter of the same daemons that tells none of their
// transitions: what any daemon can be judged by.
func untold(start ExecStarter) ExecStarter {
	return func(ctx context.Context, o ExecOptions) (*ExecDaemon, error) {
		d, err := start(ctx, o)
		if err == nil {
			d.Recorder = nil
		}
		return d, err
	}
}
