package manager

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"microvms/agentd/manager"
	"microvms/agentd/trace"
	"microvms/conformance/process"
	"microvms/conformance/replay"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// built is where commands were built; empty while they were not.
var built string

var commands = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "replay-manager-")
	if err != nil {
		return nil, err
	}
	built = dir
	out := map[string]string{}
	for _, name := range []string{"microvms/agentd/cmd/agentd", "microvms/conformance/cmd/executor"} {
		if out[filepath.Base(name)], err = process.Build(context.Background(), dir, name); err != nil {
			return nil, err
		}
	}
	return out, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// workshop makes a workshop for one test.
func workshop(t *testing.T) *Workshop {
	t.Helper()
	programs, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorkshop(programs["executor"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// environ is what executors and modules inherit. The modules are this test's own
// binary: under the race detector it would sleep for a second at each exit.
var environ = []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}

// inProcess returns a starter of this repository's manager in the test process,
// behind a real listener, with timers that the driver fires. Its Kill is a
// shutdown that waits for nothing: a process can't be killed apart from its test.
func inProcess() Starter {
	return func(_ context.Context, o Options) (*Manager, error) {
		m := &Manager{Recorder: replay.NewRecorder(), Timers: replay.NewTimers(epoch)}
		config := manager.Config{
			Log: slog.New(slog.DiscardHandler), Clock: m.Timers, Recorder: m.Recorder,
			Executors: o.Executors, Environ: environ, Permits: 1, SyncCost: 1, NondetCost: 1,
			Modules:   map[string][]string{},
			Retention: SpanRetention, Linger: SpanLinger, ShutdownWait: time.Hour,
			MaxMessageBytes: int64(o.MaxMessageBytes),
		}
		if o.Permits > 1 {
			// A run with modules takes all.
			config.Permits, config.NondetCost = o.Permits, o.Permits
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			for _, name := range []string{"llm", "web"} {
				config.Modules[name] = []string{self, moduleMarker}
			}
		}
		if o.Hold != nil {
			m.Gate = replay.NewGate(o.Hold)
			config.Gate = m.Gate
		}
		door, err := manager.New(config)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		m.Network, m.Address = "tcp", l.Addr().String()
		ctx, cancel := context.WithCancel(context.Background())
		// Scans for what is left of a group follow one another by this timer.
		go m.Timers.Keep(ctx, 50*time.Millisecond)
		ended := make(chan error, 2)
		go func() { ended <- door.Serve(context.Background(), l) }()
		var once sync.Once
		stop := func(ctx context.Context) {
			once.Do(func() {
				go func() {
					if err := door.Shutdown(ctx); !errors.Is(err, context.Canceled) {
						ended <- err
						return
					}
					ended <- nil
				}()
			})
		}
		m.Stop = func() { stop(context.Background()) }
		m.Kill = func() {
			gone, done := context.WithCancel(context.Background())
			done()
			stop(gone)
		}
		m.Wait = func(ctx context.Context) error {
			defer cancel()
			for range 2 {
				select {
				case err := <-ended:
					if err != nil {
						return err
					}
				case <-ctx.Done():
					return fmt.Errorf("the manager did not end: %w", ctx.Err())
				}
			}
			return nil
		}
		return m, nil
	}
}

// configuration is the binary's: one permit, and spans that outlast every test.
func configuration(o Options) string {
	text := "permits: {total: 1, sync: 1, nondet: 1}\nlog_level: info\n"
	retention := 24 * time.Hour
	if o.Retention > 0 {
		retention = o.Retention
	}
	text += fmt.Sprintf("execution_retention: %dms\n", retention.Milliseconds())
	if o.MaxMessageBytes > 0 {
		text += "max_message_bytes: " + strconv.Itoa(o.MaxMessageBytes) + "\n"
	}
	return text
}

// asBinary returns a starter of the command: a process of its own, on a unix
// socket, that tells its transitions through a pipe.
func asBinary(t *testing.T) Starter {
	t.Helper()
	programs, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, o Options) (*Manager, error) {
		dir, err := os.MkdirTemp("", "manager")
		if err != nil {
			return nil, err
		}
		m, err := startBinary(programs["agentd"], dir, o)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return m, nil
	}
}

// inRealTime returns a starter of the same command whose runs ask for a deadline,
// or whose retention is short.
func inRealTime(t *testing.T, deadline, retention time.Duration) Starter {
	t.Helper()
	start := asBinary(t)
	return func(ctx context.Context, o Options) (*Manager, error) {
		o.Retention = retention
		m, err := start(ctx, o)
		if err == nil {
			m.Deadline = deadline
		}
		return m, err
	}
}

func startBinary(binary, dir string, o Options) (*Manager, error) {
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(configuration(o)), 0o600); err != nil {
		return nil, err
	}
	events, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m := &Manager{Network: "unix", Address: filepath.Join(dir, "s"), Recorder: replay.NewRecorder()}
	cmd := exec.Command(binary, "manager", "--socket", m.Address, "--config", config, "--executors", o.Executors, "--trace", "/dev/fd/3")
	cmd.Env = environ
	cmd.ExtraFiles = []*os.File{told}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	told.Close()
	if err != nil {
		events.Close()
		return nil, err
	}
	read := make(chan error, 1)
	go func() {
		defer events.Close()
		read <- readTrace(events, m.Recorder)
	}()
	log := bufio.NewReader(out)
	if err := listening(log); err != nil {
		cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait(), <-read, errors.New(stderr.String()))
	}
	killed := false
	m.Stop = sync.OnceFunc(func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	m.Kill = func() { killed = true; cmd.Process.Kill() }
	m.Wait = func(ctx context.Context) error {
		defer os.RemoveAll(dir)
		stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		defer stop()
		io.Copy(io.Discard, log)
		err := errors.Join(cmd.Wait(), <-read)
		if killed {
			return nil
		}
		return err
	}
	return m, nil
}

// listening reads a manager's log up to the line that says that it listens.
func listening(log *bufio.Reader) error {
	for {
		line, err := log.ReadBytes('\n')
		var entry struct{ Msg string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the manager's log ended before it listened: %w", err)
		}
	}
}

// readTrace enters the transitions that a manager tells into a recorder.
func readTrace(from io.Reader, into *replay.Recorder) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var line struct {
			Action    trace.Action
			Run, Conn uint64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("cannot read a told transition: %w", err)
		}
		into.Record(trace.Event{Point: trace.Point{Action: line.Action, Run: line.Run, Conn: line.Conn}})
	}
	return lines.Err()
}
