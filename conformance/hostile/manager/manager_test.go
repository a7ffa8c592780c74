package manager

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	door "microvms/agentd/manager"
	"microvms/conformance/hostile"
	"microvms/conformance/process"
)

// built is where commands were built; empty while they were not.
var built string

var commands = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "hostile-commands-")
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
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Most of the rows wait more than they work; the largest need half a GiB each.
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// programs returns the manager's command and the demonstration executor.
func programs(t *testing.T) (command, program string) {
	t.Helper()
	out, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	return out["agentd"], out["executor"]
}

// commandKnobs ask the command for less than the facts do where more of the same
// would only take longer; conform asks for all of it.
var commandKnobs = Knobs{LineBytes: 64 << 20, Lines: 50_000, Turns: 1000, Pages: 1000, Limit: time.Minute}

// insideKnobs are for the manager inside the test, which the race detector slows
// down.
var insideKnobs = Knobs{
	MaxMessage: 1 << 20, Linger: 200 * time.Millisecond, Limit: 30 * time.Second,
	LineBytes: 16 << 20, Lines: 10_000, Flood: 2000, Turns: 400, Pages: 200,
}

// asCommand starts the command for one row.
func asCommand(t *testing.T, permits int) Target {
	t.Helper()
	command, program := programs(t)
	p, err := Start(t.Context(), command, program, permits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("the manager did not end well: %v", err)
		}
	})
	return Target{Network: "tcp", Address: p.Address, PID: p.PID(), Executors: p.Executors(), Log: p.Log, Knobs: commandKnobs}
}

// logged is a log that is read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}

// inside runs a manager in this process until the end of the test.
func inside(t *testing.T) Target {
	t.Helper()
	_, program := programs(t)
	dir := t.TempDir()
	if err := Install(dir, Executor, program); err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	m, err := door.New(door.Config{
		Log:       slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Executors: dir, Environ: []string{"PATH=/usr/bin:/bin"}, Permits: 64, SyncCost: 1, NondetCost: 1,
		Linger: insideKnobs.Linger, MaxMessageBytes: insideKnobs.MaxMessage,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		if err := m.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return Target{
		Network: "tcp", Address: l.Addr().String(), PID: os.Getpid(), Inside: true, Executors: dir, Log: log.Bytes, Knobs: insideKnobs,
	}
}

// TestCommand plays every row against the command, each against a process of its
// own, so that what one leaves behind is not taken for another's.
func TestCommand(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.ID, func(t *testing.T) {
			claim(t, row)
			t.Parallel()
			judge(t, Run(t.Context(), asCommand(t, 64), row))
		})
	}
}

// TestInside plays the rows against a manager in this process, one after another,
// because goroutines are counted; under the race detector when that is on.
func TestInside(t *testing.T) {
	for _, row := range Rows() {
		if row.Waits {
			continue // for a deadline that the command's row waits for, too
		}
		t.Run(row.ID, func(t *testing.T) {
			claim(t, row)
			judge(t, Run(t.Context(), inside(t), row))
		})
	}
}

func claim(t *testing.T, row Row) {
	t.Helper()
	for _, id := range row.Requirements {
		t.Attr("requirement", id)
	}
}

func judge(t *testing.T, res hostile.Result) {
	t.Helper()
	for _, s := range res.Skipped {
		t.Logf("not played: %s: %s", s.Case, s.Reason)
	}
	for _, n := range res.Notes {
		t.Log(n)
	}
	for _, u := range res.Unseen {
		t.Errorf("not looked at: %s", u)
	}
	if res.Failed() {
		t.Error(res.String())
	}
	t.Logf("%d cases in %.1f s", res.Cases, res.Seconds)
}

// TestRowsAreWhole holds the catalogue to its own form.
func TestRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Rows() {
		if row.ID == "" || seen[row.ID] || row.Name == "" || row.Expect == "" || len(row.Requirements) == 0 || len(row.Cases) == 0 {
			t.Errorf("row %q lacks something or is there twice", row.ID)
		}
		seen[row.ID] = true
		names := map[string]bool{}
		for _, c := range row.Cases {
			if c.Name == "" || names[c.Name] || c.Do == nil {
				t.Errorf("%s: case %q lacks something or is there twice", row.ID, c.Name)
			}
			names[c.Name] = true
		}
	}
	for _, id := range strings.Fields("W4 W5 W6 W8 M1 M2 M3 M4 M5 M6 X1 X2 X3 X4 X5") {
		if !seen[id] {
			t.Errorf("row %s is missing", id)
		}
	}
}
