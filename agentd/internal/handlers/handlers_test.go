package handlers

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// TestMain makes this binary the handler that leaves its group.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HANDLER_LEAVES"); dir != "" {
		leave(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// leave moves the process into its parent's group, says so, and waits.
func leave(dir string) {
	group, err := syscall.Getpgid(os.Getppid())
	if err == nil {
		err = syscall.Setpgid(0, group)
	}
	word := "left"
	if err != nil {
		word = err.Error()
	}
	if os.WriteFile(filepath.Join(dir, "up"), []byte(word), 0o600) == nil {
		_, _ = os.ReadFile(filepath.Join(dir, "go"))
	}
}

// manual is a clock whose one timer the test fires.
type manual struct {
	trace.System
	armed chan func()
}

func (m *manual) AfterFunc(_ time.Duration, f func()) trace.Timer {
	m.armed <- f
	return m
}

func (m *manual) Stop() bool { return false }

func runner(t *testing.T, environ ...string) (*Runner, *manual) {
	t.Helper()
	clock := &manual{armed: make(chan func(), 1)}
	return New(Config{
		Dir: t.TempDir(), Budget: time.Second, Environ: environ, Clock: clock,
		Waits: execution.NewWaits(), Log: slog.New(slog.DiscardHandler),
	}), clock
}

// A turn is had by one, and the wait for it ends with the context.
func TestTurn(t *testing.T) {
	t.Attr("requirement", "HOOK-15")
	r, _ := runner(t)
	release, err := r.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Acquire(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a second turn beside the first: %v", err)
	}
	release()
	if _, err := r.Acquire(t.Context()); err != nil {
		t.Errorf("the turn after the first: %v", err)
	}
}

// Only four hooks have handlers, and no directory means none.
func TestFind(t *testing.T) {
	t.Attr("requirement", "HOOK-22")
	r, _ := runner(t)
	for _, hook := range api.Hooks() {
		if r.Find(hook) != nil {
			t.Errorf("%s has a handler in an empty directory", hook)
		}
		if err := os.WriteFile(filepath.Join(r.Dir, hook), nil, 0o700); err != nil {
			t.Fatal(err)
		}
		want := hook != api.HookReady && hook != api.HookValidate
		if got := r.Find(hook) != nil; got != want {
			t.Errorf("%s has a handler: %v, want %v", hook, got, want)
		}
	}
	if (&Runner{}).Find(api.HookRun) != nil {
		t.Error("a handler was found without a directory")
	}
}

// A leader that left its group is not killed at the end of the budget and does
// not hold the hook; it is collected whenever it ends.
func TestLeaderThatLeft(t *testing.T) {
	t.Attr("requirement", "HOOK-16")
	marks := t.TempDir()
	for _, name := range []string{"up", "go"} {
		if err := syscall.Mkfifo(filepath.Join(marks, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, clock := runner(t, "HANDLER_LEAVES="+marks, "GOCOVERDIR="+t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(r.Dir, api.HookRun)); err != nil {
		t.Fatal(err)
	}
	outcome := make(chan *api.HandlerOutcome, 1)
	go func() { outcome <- r.Run(t.Context(), r.Find(api.HookRun), nil) }()
	if word, err := os.ReadFile(filepath.Join(marks, "up")); err != nil || string(word) != "left" {
		t.Fatalf("the leader says %q, %v", word, err)
	}
	(<-clock.armed)()
	if o := <-outcome; !o.TimedOut || o.ExitCode != nil || o.Signal != nil || o.Error != nil {
		t.Errorf("outcome %+v", o)
	}
	if err := os.WriteFile(filepath.Join(marks, "go"), []byte("go"), 0o600); err != nil { // waits for the leader, which lives
		t.Fatal(err)
	}
	r.Wait()
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("the leader was not collected: %v", err)
	}
}
