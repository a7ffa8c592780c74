package histories

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"microvms/conformance/process"
)

// command is the daemon's command, built once for the tests of this package.
var command string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "histories-")
	if err == nil {
		command, err = process.Build(context.Background(), dir, "microvms/agentd/cmd/agentd")
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// startBinary starts the daemon's command as a process of its own.
func startBinary(ctx context.Context, ring uint64) (string, func() error, error) {
	o := process.Options{}
	if ring > 0 {
		o.Env = append(o.Env, "AGENTD_STREAM_BUFFER_BYTES="+strconv.FormatUint(ring, 10))
	}
	d, err := process.Start(ctx, command, o)
	if err != nil {
		return "", nil, err
	}
	return d.Addr, d.Stop, nil
}

// count returns how many histories to judge: HISTORIES overrides it for a soak.
func count(t *testing.T, standard int) int {
	t.Helper()
	text := os.Getenv("HISTORIES")
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HISTORIES is %q, want a count", text)
	}
	return n
}

func runScope(t *testing.T, scope Scope, histories int) {
	r, err := Run(context.Background(), Config{
		Scope: scope, Histories: count(t, histories), Seed: 1, Workers: runtime.GOMAXPROCS(0), PerDaemon: 25,
		Start: startBinary, FailDir: "../failures",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Write(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 {
		t.Errorf("%d histories were not decided", r.Undecided)
	}
	if r.Operations < 40*r.Histories || r.Overlapping < 3*r.Histories || r.Open == 0 {
		t.Errorf("%d operations, %d overlapping, %d open: a history has at least 40, of which 3 overlap", r.Operations, r.Overlapping, r.Open)
	}
}

// TestWholeHistoriesAreLinearizable races hooks, starts and reads on fresh daemons.
func TestWholeHistoriesAreLinearizable(t *testing.T) { runScope(t, Whole, 400) }

// TestExecHistoriesAreLinearizable races every exec route on bootstrapped daemons.
func TestExecHistoriesAreLinearizable(t *testing.T) { runScope(t, ByExec, 1400) }
