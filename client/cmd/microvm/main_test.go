package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"microvms/client/daemontest"
)

// tests removes the daemon's binary once all tests have run.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer daemontest.Remove()
	return m.M.Run()
}

// TestMain lets the test binary be the command: scripts run it as a process.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"microvm": main})
}

// TestScripts runs testdata/script against the real daemon. Each script has its
// own, whose endpoint and token are in the environment; `exits CODE COMMAND…`
// asserts an exact exit code, -1 meaning death by a signal.
func TestScripts(t *testing.T) {
	for _, id := range []string{"CLI-3", "CLI-4", "CLI-7", "CLI-8", "CLI-9", "CLI-10", "CLI-11", "CLI-12", "CLI-13", "CLI-14", "CLI-15",
		"CLI-17", "CLI-18", "CLI-19", "CLI-20", "CLI-22", "CLI-23", "CLI-27", "CLI-28", "CLI-29",
		"CLI-30", "CLI-31", "CLI-32", "CLI-34", "CLI-36", "CLI-37", "CLI-38", "CLI-39", "CLI-41", "CLI-49"} {
		t.Attr("requirement", id)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup:               setupScript,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "bootstrap": bootstrap},
	})
}

type daemonKey struct{}

func setupScript(env *testscript.Env) error {
	d, err := daemontest.Start()
	if err != nil {
		return err
	}
	env.Defer(func() { d.Stop() })
	env.Values[daemonKey{}] = d
	env.Setenv("MICROVM_ENDPOINT", d.Endpoint)
	env.Setenv("ENDPOINT", d.Endpoint)
	env.Setenv("MICROVM_AGENT_TOKEN", daemontest.Token)
	env.Setenv("TOKEN", daemontest.Token)
	return nil
}

// bootstrap installs the token; PATH is the launch environment.
func bootstrap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: bootstrap")
	}
	d := ts.Value(daemonKey{}).(*daemontest.Daemon)
	ts.Check(d.Bootstrap(map[string]string{"PATH": os.Getenv("PATH")}))
}

// exits runs a command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("cannot run: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
