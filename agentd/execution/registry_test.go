package execution

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain serves as the helper child too: the test binary starts itself with
// a verb in the environment (child_test.go).
func TestMain(m *testing.M) {
	if verb := os.Getenv("EXECUTION_HELPER"); verb != "" {
		os.Exit(helper(verb))
	}
	goleak.VerifyTestMain(m)
}

// newRegistry makes a registry that is closed, and checked to close, at the
// test's end.
func newRegistry(t testing.TB, c Config) *Registry {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := New(c)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("cannot close the registry: %v", err)
		}
	})
	return r
}

func sh(script string) *Command {
	return &Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/local/bin:/bin:/usr/bin"}}
}

func given(c *Command) func(context.Context) (*Command, error) {
	return func(context.Context) (*Command, error) { return c, nil }
}

func key(id string) Key { return Key{Namespace: "test", ID: id} }

// start starts a command that must be new.
func start(t testing.TB, r *Registry, id string, c *Command) *Exec {
	t.Helper()
	e, created, err := r.Start(context.Background(), key(id), given(c))
	if err != nil || !created {
		t.Fatalf("Start(%q) = created %v, %v; want a new exec", id, created, err)
	}
	t.Cleanup(func() { e.signalGroup(syscall.SIGKILL, byKill) }) // not Kill: the clock may stand still
	return e
}

// finished waits for the terminal marker and returns the result.
func finished(t testing.TB, e *Exec) Result {
	t.Helper()
	await(t, e.Done(), "the terminal marker")
	s := e.Poll()
	if s.Phase != PhaseExited || s.Result == nil {
		t.Fatalf("phase after Done = %v, result %v; want exited with a result", s.Phase, s.Result)
	}
	return *s.Result
}

// await waits for an event that must come. The limit only turns a hang into a
// failure.
func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come", what)
	}
}

func status(r Result) string {
	switch {
	case r.ExitCode != nil:
		return "exit " + strconv.Itoa(*r.ExitCode)
	case r.Signal != nil:
		return "signal " + strconv.Itoa(*r.Signal)
	}
	return "unknown"
}

// A command's exit code or signal, its two streams and its total come back
// exactly, and an empty environment is empty.
func TestExecResult(t *testing.T) {
	t.Attr("requirement", "EXEC-22")
	t.Attr("requirement", "EXEC-33")
	for _, c := range []struct{ name, script, status, stdout, stderr string }{
		{"code 0", "true", "exit 0", "", ""},
		{"code 7", "exit 7", "exit 7", "", ""},
		{"signal", "kill -9 $$", "signal 9", "", ""},
		{"both streams", "echo out; echo err >&2", "exit 0", "out\n", "err\n"},
		{"environment", "/usr/bin/env", "exit 0", "PATH=/usr/local/bin:/bin:/usr/bin\nPWD=/\n", ""},
		{"stdin is empty", "cat; echo end", "exit 0", "end\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := sh(c.script)
			cmd.Dir = "/"
			r := finished(t, start(t, newRegistry(t, Config{}), "x", cmd))
			if got := status(r); got != c.status {
				t.Errorf("status = %s, want %s", got, c.status)
			}
			if got := string(r.Stdout); c.name != "environment" && got != c.stdout {
				t.Errorf("stdout = %q, want %q", got, c.stdout)
			}
			if got := string(r.Stderr); got != c.stderr {
				t.Errorf("stderr = %q, want %q", got, c.stderr)
			}
			if r.Truncated || r.TimedOut || r.WritersMayBeAlive || r.Cause != CauseExited {
				t.Errorf("result = %+v, want a plain exit", r)
			}
			if r.Total != uint64(len(r.Stdout)+len(r.Stderr)) {
				t.Errorf("total = %d, want %d", r.Total, len(r.Stdout)+len(r.Stderr))
			}
		})
	}
}

// Any number of concurrent starts of one key give one child; every caller
// gets the same exec and one is told that it created it.
func TestExecStartIsIdempotent(t *testing.T) {
	t.Attr("requirement", "EXEC-1")
	t.Attr("requirement", "EXEC-3")
	r := newRegistry(t, Config{})
	var prepared, created atomic.Int32
	var wg sync.WaitGroup
	execs := make([]*Exec, 64)
	for i := range execs {
		wg.Go(func() {
			e, mine, err := r.Start(context.Background(), key("one"), func(context.Context) (*Command, error) {
				prepared.Add(1)
				return sh("echo $$"), nil
			})
			if err != nil {
				t.Errorf("Start: %v", err)
			}
			if mine {
				created.Add(1)
			}
			execs[i] = e
		})
	}
	wg.Wait()
	if prepared.Load() != 1 || created.Load() != 1 {
		t.Errorf("prepared %d times, created %d times; want 1 and 1", prepared.Load(), created.Load())
	}
	for _, e := range execs {
		if e != execs[0] {
			t.Fatal("two starts of one key got two execs")
		}
	}
	finished(t, execs[0])
	if e, again, err := r.Start(context.Background(), key("one"), nil); e != execs[0] || again || err != nil {
		t.Errorf("a start after the exit = %v, %v, %v; want the known exec", e, again, err)
	}
}

// A start that fails registers nothing, and the next one has its own turn.
func TestExecStartFailureRegistersNothing(t *testing.T) {
	t.Attr("requirement", "EXEC-5")
	t.Attr("requirement", "EXEC-6")
	r := newRegistry(t, Config{})
	no := errors.New("no such user")
	for _, prepare := range []func(context.Context) (*Command, error){
		func(context.Context) (*Command, error) { return nil, no },
		given(&Command{Path: "/nonexistent", Args: []string{"x"}}),
	} {
		if e, created, err := r.Start(context.Background(), key("x"), prepare); e != nil || created || err == nil {
			t.Errorf("Start = %v, %v, %v; want an error alone", e, created, err)
		}
		if _, ok := r.Lookup(key("x")); ok {
			t.Error("a failed start can be looked up")
		}
		if n, busy := r.Counts(); n != 0 || busy {
			t.Errorf("Counts = %d, %v; want 0, false", n, busy)
		}
	}
	finished(t, start(t, r, "x", sh("true")))
}

// A reader gets every byte once, in order, then the exit; one that attaches
// later gets the same.
func TestStreamDeliversEverything(t *testing.T) {
	t.Attr("requirement", "OUT-6")
	t.Attr("requirement", "OUT-8")
	e := start(t, newRegistry(t, Config{}), "x", sh("i=0; while [ $i -lt 200 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done"))
	live := readAll(t, e.Subscribe(0))
	late := readAll(t, e.Subscribe(0))
	res := finished(t, e)
	for name, got := range map[string]collected{"live": live, "late": late} {
		if got.text[Stdout] != string(res.Stdout) || got.text[Stderr] != string(res.Stderr) || got.gaps != 0 {
			t.Errorf("%s reader differs from the result", name)
		}
		if got.exit.Total != res.Total || status(*got.exit) != "exit 0" {
			t.Errorf("%s reader's exit = %+v", name, got.exit)
		}
	}
}

type collected struct {
	text [2]string
	gaps uint64 // bytes lost
	exit *Result
}

// readAll reads to the end and checks that the events tile the offsets.
func readAll(t testing.TB, r *Reader) (c collected) {
	t.Helper()
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at, first := uint64(0), true
	var text [2]strings.Builder
	for {
		ev, err := r.Next(ctx)
		if err == io.EOF {
			c.text = [2]string{text[Stdout].String(), text[Stderr].String()}
			return c
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if first {
			at, first = ev.Offset, false
		}
		if ev.Offset != at || ev.Kind == Output && ev.To != at+uint64(len(ev.Data)) || len(ev.Data) > DefaultReadUnit {
			t.Fatalf("event %+v does not continue at %d", ev, at)
		}
		at = ev.To
		switch ev.Kind {
		case Output:
			text[ev.Stream].Write(ev.Data)
		case Gap:
			c.gaps += ev.To - ev.Offset
		case Exit:
			c.exit = ev.Result
		}
	}
}

// Ack gives the result once and refuses otherwise.
func TestExecAck(t *testing.T) {
	t.Attr("requirement", "EXEC-24")
	t.Attr("requirement", "EXEC-25")
	t.Attr("requirement", "EXEC-26")
	t.Attr("requirement", "OUT-11")
	r := newRegistry(t, Config{})
	cmd := sh("read x; echo done")
	cmd.Stdin = true
	e := start(t, r, "x", cmd)
	if _, err := e.Ack(); !errors.Is(err, ErrStillRunning) {
		t.Errorf("Ack while running = %v, want ErrStillRunning", err)
	}
	if _, err := e.WriteStdin(context.Background(), []byte("go\n"), false); err != nil {
		t.Fatal(err)
	}
	finished(t, e)
	res, err := e.Ack()
	if err != nil || string(res.Stdout) != "done\n" {
		t.Errorf("Ack = %q, %v", res.Stdout, err)
	}
	if _, err := e.Ack(); !errors.Is(err, ErrAlreadyAcked) {
		t.Errorf("second Ack = %v, want ErrAlreadyAcked", err)
	}
	if s := e.Poll(); s.Phase != PhaseAcked || s.Result != nil {
		t.Errorf("Poll after ack = %v", s)
	}
	if got := readAll(t, e.Subscribe(0)); got.text[Stdout] != "done\n" {
		t.Errorf("stream after ack = %q, want the ring's content", got.text[Stdout])
	}
}
