package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/manifest"
	"microvms/agentd/manager/internal/runs"
)

// executors is a directory with the demonstration executor as demo and v0.3.7.
var executors string

// TestMain builds the demonstration executor, so that what is tested is what a
// manager starts. As a module's program this binary runs itself.
func TestMain(m *testing.M) {
	if kind := os.Getenv("TEST_MODULE"); kind != "" {
		os.Exit(moduleProgram(kind))
	}
	os.Exit(withExecutors(m.Run))
}

func withExecutors(run func() int) int {
	dir, err := os.MkdirTemp("", "executors")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	executors = dir
	program := filepath.Join(dir, "demo", "bin", "genvm")
	build := exec.Command("go", "build", "-o", program, "microvms/conformance/cmd/executor")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the demonstration executor: %v\n", err)
		return 1
	}
	if err := os.Symlink("demo", filepath.Join(dir, "v0.3.7")); err != nil {
		panic(err)
	}
	return run()
}

// newLauncher returns a launcher of the demonstration executor.
func newLauncher(t *testing.T, change func(*Config)) *Launcher {
	t.Helper()
	var last atomic.Uint64
	last.Store(100)
	c := Config{
		Executors: executors, Log: slog.New(slog.DiscardHandler),
		NextID: func() runs.ID { return runs.ID(last.Add(1)) },
	}
	if change != nil {
		change(&c)
	}
	l := New(c)
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// manifestOf is a store of a manifest with this text.
func manifestOf(t *testing.T, text string) *manifest.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := manifest.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request is a run request for the demonstration executor with these steps.
func request(steps ...string) *msp.RunRequest {
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: "demo"}
	r.IsSync = true
	r.Host = "unix:///h"
	r.HostData = "{}"
	r.Timestamp = msp.At(time.Date(2024, 11, 26, 6, 42, 42, 0, time.UTC))
	r.InitialTimeUnits = 12
	r.DebugMode = msp.DebugSafe
	r.ExtraArgs = steps
	return r
}

// outcome is what became of a run.
type outcome struct {
	*runs.Finished
	stdout, stderr, log string
	failed              string // the text of failed_to_start
}

// table is a run table with subscribers that take events as they come.
type table struct {
	t *testing.T
	*runs.Table
}

func newTable(t *testing.T) *table {
	t.Helper()
	tab := runs.New(runs.Config{Permits: 64, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := tab.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &table{t, tab}
}

// start accepts a run.
func (tab *table) start(l *Launcher, req *msp.RunRequest) runs.ID {
	tab.t.Helper()
	var id runs.ID
	err := tab.Run(tab.t.Context(), runs.Spec{Deadline: time.Hour, Permits: 1, Prepare: func(ctx context.Context, id runs.ID) (*runs.Prepared, error) {
		return l.Prepare(ctx, id, req)
	}}, nil, func(got runs.ID) { id = got })
	if err != nil {
		tab.t.Fatal(err)
	}
	return id
}

// end waits for the end of a run and reads everything of it.
func (tab *table) end(id runs.ID) outcome {
	tab.t.Helper()
	ev, err := tab.Wait(tab.t.Context(), id, func(ev runs.Event) bool { return ev.Kind.Terminal() })
	if err != nil {
		tab.t.Fatal(err)
	}
	o := outcome{Finished: ev.Finished, failed: ev.Error}
	if ev.Finished == nil {
		return o
	}
	for field, to := range map[runs.Field]*string{runs.Stdout: &o.stdout, runs.Stderr: &o.stderr, runs.GenvmLog: &o.log} {
		for {
			total, data, err := tab.Artifact(tab.t.Context(), id, field, uint64(len(*to)), runs.PageBytes)
			if err != nil {
				tab.t.Fatal(err)
			}
			*to += string(data)
			if uint64(len(*to)) == total {
				break
			}
		}
	}
	return o
}

// run takes a request to its end.
func run(t *testing.T, l *Launcher, req *msp.RunRequest) outcome {
	t.Helper()
	tab := newTable(t)
	return tab.end(tab.start(l, req))
}

// exit is the exit code in words.
func (o outcome) exit() string {
	switch {
	case o.Finished == nil:
		return "failed to start: " + o.failed
	case o.ExitCode == nil:
		return o.Cause.String() + " by signal"
	}
	return o.Cause.String() + " " + strconv.FormatInt(*o.ExitCode, 10)
}

// driver is a control socket for executors and their members.
type driver struct {
	t *testing.T
	l net.Listener
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &driver{t, l}
}

// step is the step that brings an executor here.
func (d *driver) step(word, name string) string {
	return word + "=" + d.l.Addr().String() + "," + name
}

// stepped is a process at the driver.
type stepped struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
	pid   int
	name  string
}

// accept takes one greeting.
func (d *driver) accept() *stepped {
	d.t.Helper()
	conn, err := d.l.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	s := &stepped{t: d.t, conn: conn, lines: bufio.NewReader(conn)}
	line, err := s.lines.ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "hello %d %s", &s.pid, &s.name); err != nil || scanErr != nil {
		d.t.Fatalf("greeting %q, error %v", line, err)
	}
	return s
}

// do takes one step and returns its answer.
func (s *stepped) do(step string) string {
	s.t.Helper()
	fmt.Fprintln(s.conn, step)
	line, err := s.lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ok") {
		s.t.Fatalf("step %q: answer %q, error %v", step, line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "ok"))
}

// tell gives a step that is not answered.
func (s *stepped) tell(step string) { fmt.Fprintln(s.conn, step) }

// awaitEnd waits for the process's end of the control socket.
func (s *stepped) awaitEnd() {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, s.lines); err != nil && !strings.Contains(err.Error(), "reset") {
		s.t.Fatal(err)
	}
}

// records are the lines of a log artifact, each decoded.
func records(t *testing.T, log string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(log) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// encode is the calldata of a value.
func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := calldata.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hangingExecutor makes an executor that takes its steps from the driver,
// whatever it is told, and returns its name.
func hangingExecutor(t *testing.T, d *driver) string {
	t.Helper()
	name := "hanging-" + strconv.Itoa(os.Getpid()) + strings.ReplaceAll(t.Name(), "/", "-")
	bin := filepath.Join(executors, name, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nlog=$1; run=$2; shift 2\nexec %q \"$log\" \"$run\" %q \"$@\"\n",
		filepath.Join(executors, "demo", "bin", "genvm"), d.step("control", "nested"))
	// Before anything is spawned: a file that a child which was just forked
	// holds open for writing cannot be run.
	if err := os.WriteFile(filepath.Join(bin, "genvm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Join(executors, name)) })
	return name
}
