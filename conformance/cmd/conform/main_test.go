package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/conformance/child"
	"microvms/conformance/process"
	"microvms/conformance/replay"
)

// The test binary is also the program of the children.
func init() { child.RunIfAsked() }

func conform(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	t.Attr("requirement", "CONF-5")
	t.Attr("requirement", "CONF-6")
	for _, tc := range []struct {
		args  []string
		code  int
		words string
	}{
		{[]string{"--help"}, exitHolds, "Exit codes"},
		{[]string{"--version"}, exitHolds, "conform " + version},
		{nil, exitUsage, "either --daemon or --endpoint"},
		{[]string{"--daemon", "x", "--endpoint", "http://h"}, exitUsage, "either --daemon or --endpoint"},
		{[]string{"--endpoint", "h:1", "--agent-token", "t"}, exitUsage, "http://HOST:PORT"},
		{[]string{"--endpoint", "http://h:1"}, exitUsage, "--agent-token"},
		{[]string{"--daemon", "x", "--reset", "y"}, exitUsage, "--reset goes with --endpoint"},
		{[]string{"--daemon", "x", "--only", "dreams"}, exitUsage, "the parts are"},
		{[]string{"--daemon", "x", "--histories", "0"}, exitUsage, "at least 1"},
		{[]string{"--manager", "x"}, exitUsage, "--manager and --executor go together"},
		{[]string{"--manager", "x", "--executor", "y", "--daemon", "z"}, exitUsage, "--manager goes with neither"},
		{[]string{"--manager", "/no/such", "--executor", "/no/such"}, exitUsage, "cannot start the manager"},
		{[]string{"--never"}, exitUsage, "unknown flag"},
	} {
		t.Setenv("MICROVM_AGENT_TOKEN", "")
		code, stdout, stderr := conform(t, tc.args...)
		if code != tc.code || !strings.Contains(stdout+stderr, tc.words) {
			t.Errorf("conform %v: exit %d with %q, want %d with %q", tc.args, code, stdout+stderr, tc.code, tc.words)
		}
	}
}

// TestReportThatIsLost: a report that nobody can have read is no pass.
func TestReportThatIsLost(t *testing.T) {
	t.Attr("requirement", "CONF-6")
	full, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0) // no write succeeds
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var stderr strings.Builder
	code := run(t.Context(), []string{"--endpoint", server.URL, "--agent-token", "t", "--only", "replay"}, full, &stderr)
	if code != exitInconclusive || !strings.Contains(stderr.String(), "cannot write the report") {
		t.Errorf("exit %d with %q", code, stderr.String())
	}
}

// TestARealDaemonHolds judges this repository's daemon as a stranger would: as a command.
func TestARealDaemonHolds(t *testing.T) {
	t.Attr("requirement", "CONF-4")
	t.Attr("requirement", "CONF-6")
	binary, err := process.Build(t.Context(), t.TempDir(), "microvms/agentd/cmd/agentd")
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := conform(t, "--daemon", binary, "--only", "histories", "--histories", "4", "--failures", t.TempDir())
	if code != exitHolds || !strings.Contains(out, "4 held, 0 violated") {
		t.Errorf("exit %d:\n%s", code, out)
	}

	d, err := process.Start(t.Context(), binary, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	if err := install(t.Context(), d.URL()); err != nil {
		t.Fatal(err)
	}
	code, out, _ = conform(t, "--endpoint", d.URL(), "--agent-token", ownToken, "--only", "replay,histories", "--histories", "4", "--failures", t.TempDir())
	if code != exitHolds || !strings.Contains(out, "1 held, 0 violated, 0 inconclusive, 4 left out") {
		t.Errorf("with an endpoint: exit %d:\n%s", code, out)
	}
}

// TestAnotherServerIsViolated judges a server that agrees to everything.
func TestAnotherServerIsViolated(t *testing.T) {
	t.Attr("requirement", "CONF-6")
	agrees := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"exec_id": "x", "phase": "running", "killed": true})
	})
	server := httptest.NewServer(agrees)
	defer server.Close()
	code, out, _ := conform(t, "--endpoint", server.URL, "--agent-token", "t", "--only", "histories", "--histories", "3", "--failures", t.TempDir())
	if code != exitViolated {
		t.Errorf("exit %d:\n%s", code, out)
	}
	// Everything but the replays is left out, and those cannot run: looking at nothing is no pass.
	code, out, _ = conform(t, "--endpoint", server.URL, "--agent-token", "t", "--only", "replay")
	if code != exitViolated || !strings.Contains(out, "0 held") {
		t.Errorf("a run that looks at nothing: exit %d:\n%s", code, out)
	}
}

// TestWhatIsNoFaultOfTheDaemon: a wrong path, address or token, and an interrupt, are said to be that.
func TestWhatIsNoFaultOfTheDaemon(t *testing.T) {
	t.Attr("requirement", "CONF-9")
	binary, err := process.Build(t.Context(), t.TempDir(), "microvms/agentd/cmd/agentd")
	if err != nil {
		t.Fatal(err)
	}
	d, err := process.Start(t.Context(), binary, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	fresh := d.URL()
	gone := httptest.NewServer(http.NotFoundHandler())
	nowhere := gone.URL
	gone.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, tc := range []struct {
		name  string
		args  []string
		words string
	}{
		{"no such command", []string{"--daemon", "/nonexistent/agentd"}, "cannot start the daemon"},
		{"a command that is no daemon", []string{"--daemon", "/bin/true"}, "log ended before it named its address"},
		{"nobody there", []string{"--endpoint", nowhere, "--agent-token", "t"}, "cannot reach the daemon"},
		{"another server", []string{"--endpoint", other.URL, "--agent-token", "t"}, "is this a daemon of wire version 1"},
		{"no token installed", []string{"--endpoint", fresh, "--agent-token", "t"}, "no token is installed"},
		{"a reset that fails", []string{"--endpoint", fresh, "--reset", "exit 3"}, "cannot reset the daemon"},
	} {
		code, out, errs := conform(t, tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.words) || out != "" {
			t.Errorf("%s: exit %d, %q, %q; want %d with %q", tc.name, code, out, errs, exitUsage, tc.words)
		}
	}
	if err := install(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := conform(t, "--endpoint", fresh, "--agent-token", "wrong"); code != exitUsage || !strings.Contains(errs, "not the token that is installed") {
		t.Errorf("a wrong token: exit %d, %q", code, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &report{out: io.Discard}
	c := cli{Daemon: binary, Histories: 1, Failures: t.TempDir()}
	cancel()
	for _, p := range c.parts() {
		p.run(ctx, r)
	}
	if r.counts[violated] > 0 || r.counts[holds] > 0 || r.counts[inconclusive] == 0 {
		t.Errorf("an interrupted run counts %v", r.counts)
	}
}

// TestReset hands a fresh daemon out for each replay and history.
func TestReset(t *testing.T) {
	t.Attr("requirement", "CONF-8")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	marks := filepath.Join(t.TempDir(), "resets")
	c := cli{Endpoint: server.URL, Reset: "echo reset >>" + marks}
	for range 2 {
		d, err := c.startReplay(context.Background(), replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.URL != server.URL {
			t.Errorf("the daemon is at %q, want %q", d.URL, server.URL)
		}
	}
	if b, err := os.ReadFile(marks); err != nil || strings.Count(string(b), "reset") != 2 {
		t.Errorf("the reset command ran %q, %v", b, err)
	}
	c.Reset = "echo no >&2; exit 3"
	if _, err := c.startReplay(context.Background(), replay.Options{}); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("a reset that fails gives %v", err)
	}
}
