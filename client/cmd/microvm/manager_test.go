package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"microvms/client/daemontest"
	"microvms/client/manager"
)

// TestManagerScripts runs testdata/manager against the real manager with the
// demonstration executor. Each script has its own, whose socket is in the
// environment; `restart` kills it and starts another at the same place.
func TestManagerScripts(t *testing.T) {
	for _, id := range []string{"MCLIENT-31", "MCLIENT-32", "MCLIENT-33", "MCLIENT-34", "MCLIENT-36", "MCLIENT-37", "MCLIENT-38", "MCLIENT-39"} {
		t.Attr("requirement", id)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/manager",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			m, err := daemontest.StartManager()
			if err != nil {
				return err
			}
			env.Defer(func() { m.Stop() })
			env.Values[daemonKey{}] = m
			env.Setenv("MICROVM_MANAGER", m.Socket)
			env.Setenv("SOCKET", m.Socket)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "restart": func(ts *testscript.TestScript, _ bool, _ []string) {
			ts.Check(ts.Value(daemonKey{}).(*daemontest.Manager).Restart())
		}, "setfrom": setFrom},
	})
}

// setFrom puts the trimmed text of a file into the environment.
func setFrom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setfrom NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// managerApp is an app that reaches m.
func managerApp(m *daemontest.Manager, stdout, stderr *bytes.Buffer) *app {
	return newApp(strings.NewReader(""), stdout, stderr, func(name string) string {
		return map[string]string{"MICROVM_MANAGER": m.Socket}[name]
	})
}

// TestManagerInterrupts leaves a run with the first Ctrl-C, and ends it with the
// second.
func TestManagerInterrupts(t *testing.T) {
	t.Attr("requirement", "MCLIENT-35")
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	session, err := manager.NewSession(m.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for signals := 1; signals <= 2; signals++ {
		var stdout, stderr bytes.Buffer
		a := managerApp(m, &stdout, &stderr)
		interrupts := make(chan os.Signal, 2)
		a.interrupts = interrupts
		a.stderr.w = writerFunc(func(p []byte) (int, error) {
			if strings.Contains(string(p), ": started") {
				for range signals {
					interrupts <- os.Interrupt
				}
			}
			return stderr.Write(p)
		})
		code := a.run(t.Context(), []string{"manager", "run", "--json", "--version", "demo", "--", "hang"})
		var env errorEnvelope
		if err := json.Unmarshal(stdout.Bytes(), &env); err != nil || code != 11 || env.Data["cancelled"] != (signals == 2) {
			t.Fatalf("%d signals: code %d, %+v, %v", signals, code, env, err)
		}
		if !strings.Contains(stderr.String(), "goes on; Ctrl-C again within 1s ends it") {
			t.Errorf("%d signals: stderr %q", signals, stderr.String())
		}
		id, err := manager.ParseRunID(env.Data["runId"].(string))
		if err != nil {
			t.Fatal(err)
		}
		run, err := session.Attach(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if signals == 1 {
			if e, err := run.Next(t.Context()); err != nil || e.Started == nil {
				t.Errorf("after one signal the run is %v, %v", e, err)
			}
			if err := run.Cancel(t.Context()); err != nil {
				t.Errorf("cannot cancel: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if e, err := run.Wait(ctx); err != nil || e.Finished == nil || e.Finished.Cause != "cancelled" {
			t.Errorf("after %d signals the run ended as %v, %v", signals, e, err)
		}
		cancel()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestManagerEnvelopes compares the keys of each command's envelope with the
// registry.
func TestManagerEnvelopes(t *testing.T) {
	t.Attr("requirement", "CLI-26")
	t.Attr("requirement", "MCLIENT-31")
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	file := filepath.Join(t.TempDir(), "out")
	seen := map[string]bool{}
	for _, line := range []string{"run --keep --version demo -- stdout=x", "run --detach --version demo", "attach 1", "attach 1 --no-wait", "artifact 1 stdout",
		"artifact 1 stdout --output " + file, "cancel 1", "ack 1", "status"} {
		var stdout, stderr bytes.Buffer
		words := strings.Fields("manager --json --dense " + line)
		managerApp(m, &stdout, &stderr).run(t.Context(), words)
		kind, keys := dataKeys(t, lastLine(stdout.String()))
		name := "manager " + strings.Fields(line)[0]
		i := slices.IndexFunc(registry, func(e entry) bool { return e.Name == name })
		if kind != registry[i].ResponseType || !slices.Equal(keys, registry[i].ResponseKeys) {
			t.Errorf("%s: %s has %q, the registry says %s %q", line, kind, keys, registry[i].ResponseType, registry[i].ResponseKeys)
		}
		seen[name] = true
	}
	for _, e := range registry {
		if strings.HasPrefix(e.Name, "manager ") && !seen[e.Name] {
			t.Errorf("no envelope of %s was looked at", e.Name)
		}
	}
}

// TestManagerOutputs prints what a run wrote, to where it wrote it.
func TestManagerOutputs(t *testing.T) {
	t.Attr("requirement", "MCLIENT-32")
	t.Attr("requirement", "MCLIENT-34")
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	for _, tc := range []struct{ steps, stdout, stderr string }{
		{"", "", ""},
		{"stdout=one", "one", ""},
		{"stderr=two", "", "two"},
		{"stdout=one stderr=two", "one", "two"},
		{"stdout-hex=00ff0a", "\x00\xff\n", ""},
		{"stdout-bytes=300000", strings.Repeat("abcdefghijklmnopqrstuvwxyz", 11539)[:300000], ""},
	} {
		var stdout, stderr bytes.Buffer
		line := append(strings.Fields("manager run --quiet --debug-mode safe-unbounded --version demo --"), strings.Fields(tc.steps)...)
		if code := managerApp(m, &stdout, &stderr).run(t.Context(), line); code != 0 || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
			t.Errorf("%q: code %d, stdout %.80q, stderr %.80q", tc.steps, code, stdout.String(), stderr.String())
		}
	}
}
