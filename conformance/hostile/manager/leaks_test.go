package manager

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"microvms/conformance/hostile"
)

// TestADeafManagerTurnsRowsRed holds the rows about frames and connections against
// one that goes on reading after whatever violation.
func TestADeafManagerTurnsRowsRed(t *testing.T) {
	t.Parallel()
	honest := asCommand(t, 64)
	deafOne := liar(t, honest, lie{handle: deaf(honest.Address)})
	deafOne.Knobs = Knobs{Limit: time.Second}.withDefaults()
	p := newProbe(deafOne)
	for _, row := range []Row{
		rowByID(t, "M3", "not masked", "reserved bit 1", "a continuation of nothing", "close code 999", "a good close", "a ping between fragments"),
		rowByID(t, "W5", "the limit and 1 announced", "text"),
		rowByID(t, "M6", "500 heads without an end"),
	} {
		var res hostile.Result
		play(t.Context(), p, row, &res)
		if len(res.Failures) != len(row.Cases) {
			t.Errorf("row %s: %d of %d cases are red: %v", row.ID, len(res.Failures), len(row.Cases), res.Failures)
		}
	}
}

// TestLeaksTurnARowRed has a row leave behind each thing that is counted.
func TestLeaksTurnARowRed(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside bool
		do     func(t *testing.T) func(context.Context, *probe) error
		fault  string
	}{
		{"a connection", false, func(t *testing.T) func(context.Context, *probe) error {
			return func(_ context.Context, p *probe) error {
				c, err := p.open(t.Context()) // beyond the case
				if err == nil {
					t.Cleanup(func() { c.Close() })
				}
				return err
			}
		}, "descriptors: "},
		{"an executor", false, func(t *testing.T) func(context.Context, *probe) error {
			return func(_ context.Context, p *probe) error {
				if err := Install(p.Executors, "sleep", "/bin/sleep"); err != nil {
					return err
				}
				cmd := exec.Command(filepath.Join(p.Executors, "sleep", "bin", "genvm"), "1000")
				if err := cmd.Start(); err != nil {
					return err
				}
				t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
				return nil
			}
		}, "executors: "},
		{"a goroutine", true, func(t *testing.T) func(context.Context, *probe) error {
			return func(context.Context, *probe) error {
				left := make(chan struct{})
				t.Cleanup(func() { close(left) })
				go func() { <-left }()
				return nil
			}
		}, "goroutines: "},
		{"memory", false, func(*testing.T) func(context.Context, *probe) error {
			return withMax(exactly)
		}, "memory: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := func(t *testing.T) Target { return asCommand(t, 64) }
			if c.inside {
				start = inside
			}
			target := start(t)
			target.Knobs.Settle = time.Second
			row := Row{ID: "X", Name: "a leak", Ceiling: func(Knobs) int64 { return 16 << 20 }, Cases: []Case{{c.name, c.do(t)}}}
			res := Run(t.Context(), target, row)
			if !strings.Contains(strings.Join(res.Failures, "\n"), c.fault) {
				t.Errorf("the leak was not found: %v", res.String())
			}
			row.Cases[0].Do = with((*peer).serves)
			if res := Run(t.Context(), target, row); res.Failed() {
				t.Errorf("without the leak: %v", res.String())
			}
		})
	}
}

// TestAStatusThatTellsOfLeftRunsTurnsARowRed shows a run that cannot be released,
// a permit that does not come back, and a manager that dies.
func TestAStatusThatTellsOfLeftRunsTurnsARowRed(t *testing.T) {
	t.Parallel()
	honest := asCommand(t, 64)
	honest.Knobs = Knobs{Settle: time.Second, Linger: time.Millisecond}
	var now atomic.Value
	now.Store("")
	target := liar(t, honest, lie{handle: func(w http.ResponseWriter, r *http.Request) bool {
		told := now.Load().(string)
		if told == "" || r.URL.Path != "/status" {
			return told == "dead"
		}
		_, _ = w.Write([]byte(told))
		return true
	}})
	for name, told := range map[string]string{
		"a run":    `{"permits":{"current":64,"max":64},"executions":{"999":{}}}`,
		"a permit": `{"permits":{"current":63,"max":64},"executions":{}}`,
		"death":    "dead",
	} {
		now.Store("")
		row := Row{ID: "X", Name: name, Cases: []Case{{name, func(context.Context, *probe) error { now.Store(told); return nil }}}}
		res := Run(t.Context(), target, row)
		want := "runs: "
		if name == "death" {
			want = "after the row: "
		}
		if !strings.Contains(strings.Join(res.Failures, "\n"), want) {
			t.Errorf("%s was not found: %v", name, res.String())
		}
		if told != "dead" && !json.Valid([]byte(told)) {
			t.Errorf("%s: the lie is no status", name)
		}
	}
}

// TestWhatIsNotSeenIsSaid plays a row against an endpoint of which nothing is
// known, one that has no case, and one whose log holds bytes of a peer.
func TestWhatIsNotSeenIsSaid(t *testing.T) {
	t.Parallel()
	target := asCommand(t, 64)
	target.PID, target.Executors, target.Log = 0, "", nil
	row := Row{ID: "X", Cases: []Case{{"a cancel", with((*peer).serves)}}}
	if res := Run(t.Context(), target, row); res.Failed() || len(res.Unseen) != 3 {
		t.Errorf("an endpoint alone: %v, not looked at: %q", res.String(), res.Unseen)
	}
	target.Log = func() []byte { return []byte("{}\n\x1b[2J\n") }
	read := false
	first := target.Log
	target.Log = func() []byte {
		if !read {
			read = true
			return nil
		}
		return first()
	}
	if res := Run(t.Context(), target, row); !strings.Contains(strings.Join(res.Failures, "\n"), "raw byte") {
		t.Errorf("a log with bytes of a peer: %v", res.String())
	}
	row.Cases = nil
	if res := Run(t.Context(), target, row); !res.Failed() {
		t.Errorf("a row without a case: %v", res.String())
	}
}

// TestPromptIsJudged holds a span to the knob.
func TestPromptIsJudged(t *testing.T) {
	p := newProbe(Target{Knobs: Knobs{Prompt: time.Millisecond}})
	if err := p.prompt("x", []time.Duration{time.Microsecond, time.Second}); err == nil {
		t.Error("a reply of a second is prompt")
	}
	if err := p.prompt("x", []time.Duration{time.Microsecond}); err != nil {
		t.Error(err)
	}
}
