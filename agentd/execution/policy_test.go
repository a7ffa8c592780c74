package execution

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// permits is an Admission of n permits.
type permits struct{ free chan struct{} }

func newPermits(n int) *permits {
	p := &permits{free: make(chan struct{}, n)}
	for range n {
		p.free <- struct{}{}
	}
	return p
}

func (p *permits) Acquire(ctx context.Context, _ Key, _ *Command) (func(), error) {
	select {
	case <-p.free:
		return func() { p.free <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A command that waits for a permit can be found, is busy and queued, takes no
// permit when it is killed there, and then never has a process. Permits come
// back at the end of a command and after a spawn that failed.
func TestAdmission(t *testing.T) {
	p := newPermits(1)
	r := newRegistry(t, Config{Admission: p, RegisterRefusals: true})
	first := start(t, r, "first", withStdin("cat"))
	for _, end := range []string{"kill", "permit"} {
		got := make(chan error, 1)
		go func() {
			_, _, err := r.Start(context.Background(), key(end), given(sh("true")))
			got <- err
		}()
		var e *Exec
		for ok := false; !ok; {
			e, ok = r.Lookup(key(end))
		}
		if s := e.Poll(); s.Phase != PhaseQueued || s.Result != nil {
			t.Errorf("phase = %v", s.Phase)
		}
		if g := e.Group(); g.Pgid != nil || len(g.Pids) != 0 {
			t.Errorf("group of a queued command = %+v", g)
		}
		if _, err := e.Ack(); err != ErrStillRunning {
			t.Errorf("Ack of a queued command = %v", err)
		}
		if end == "kill" {
			if signalled, err := e.Kill(context.Background()); signalled || err != nil {
				t.Errorf("Kill = %v, %v", signalled, err)
			}
			if err := <-got; !errors.Is(err, ErrKilledBeforeSpawn) {
				t.Errorf("Start = %v", err)
			}
			if res := finished(t, e); res.Cause != CauseKilled || res.Refusal == nil || res.ExitCode != nil {
				t.Errorf("result = %+v", res)
			}
			continue
		}
		finish(t, first)
		if err := <-got; err != nil {
			t.Errorf("Start after the permit came back = %v", err)
		}
		finished(t, e)
	}
	_, created, err := r.Start(context.Background(), key("bad"), given(&Command{Path: "/nonexistent", Args: []string{"x"}}))
	if err == nil || !created {
		t.Errorf("a refused start = %v, %v; want it registered", created, err)
	}
	finished(t, start(t, r, "last", sh("true"))) // the permit came back
}

// With RegisterRefusals a refusal is a record like any other: it is found, has
// its reason, is acked and collected; a retry finds it.
func TestRegisterRefusals(t *testing.T) {
	clock := newStepClock()
	r := newRegistry(t, Config{RegisterRefusals: true, RetainFrom: RetainFromExit, Clock: clock, Retention: time.Minute})
	bad := &Command{Path: "/nonexistent", Args: []string{"x"}}
	e, created, err := r.Start(context.Background(), key("x"), given(bad))
	if e == nil || !created || err == nil {
		t.Fatalf("Start = %v, %v, %v", e, created, err)
	}
	res := finished(t, e)
	var spawnErr *SpawnError
	if res.Cause != CauseRefused || !errors.As(res.Refusal, &spawnErr) || spawnErr.Op != OpExec {
		t.Errorf("result = %+v", res)
	}
	if got := readAll(t, e.Subscribe(0)); got.exit.Cause != CauseRefused {
		t.Errorf("stream = %+v", got)
	}
	if again, created, err := r.Start(context.Background(), key("x"), given(sh("true"))); again != e || created || err != nil {
		t.Errorf("a retry = %v, %v, %v; want the refusal's record", again, created, err)
	}
	if signalled, err := e.Kill(context.Background()); signalled || err != nil {
		t.Errorf("Kill = %v, %v", signalled, err)
	}
	clock.Advance(time.Minute)
	for ok := true; ok; {
		_, ok = r.Lookup(key("x"))
	}
	if n, busy := r.Counts(); n != 0 || busy {
		t.Errorf("Counts = %d, %v", n, busy)
	}
}

// Each fork happens under the children's score, and between forks the daemon
// has its own; a score that the kernel refuses is logged once and left.
func TestOOMScoreAroundForks(t *testing.T) {
	t.Attr("requirement", "WAIT-7")
	file := filepath.Join(t.TempDir(), "score")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	score := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	w := NewWaits()
	if err := w.setOOMScoreAdj(file, OOMScoreAdj{Own: -500, Child: 1000}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer w.oom.file.Close()
	if got := score(); got != "-500" {
		t.Errorf("the daemon's score = %q", got)
	}
	first, second := w.oom.enterFork(), w.oom.enterFork()
	if got := score(); got != "1000" {
		t.Errorf("the score at a fork = %q", got)
	}
	first()
	if got := score(); got != "1000" {
		t.Errorf("the score with a fork still under way = %q", got)
	}
	second()
	if got := score(); got != "-500" {
		t.Errorf("the score after the forks = %q", got)
	}
	var log strings.Builder
	w.oom.log, w.oom.file = slog.New(slog.NewTextHandler(&log, nil)), readOnly(t, file)
	for range 3 {
		w.oom.enterFork()()
	}
	if n := strings.Count(log.String(), "oom"); n != 1 {
		t.Errorf("%d log lines about a refused score, want 1", n)
	}
}

func readOnly(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// With a real kernel: a daemon whose score is raised (which needs no right)
// gives its children the one from before.
func TestOOMScoreOfARealChild(t *testing.T) {
	t.Attr("requirement", "WAIT-7")
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may give a child a lower score than its own")
	}
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWaits()
	if err := w.SetOOMScoreAdj(OOMScoreAdj{Own: 900, Child: 123}, slog.New(slog.DiscardHandler)); err != nil {
		t.Skipf("no oom score here: %v", err)
	}
	defer w.oom.file.Close()
	defer func() {
		if err := os.WriteFile("/proc/self/oom_score_adj", before, 0); err != nil {
			t.Errorf("the test's own score cannot be given back: %v", err)
		}
	}()
	res := finished(t, start(t, newRegistry(t, Config{Waits: w}), "x", helperCommand("score")))
	if string(res.Stdout) != "123\n" {
		t.Errorf("the child's score = %q, want 123", res.Stdout)
	}
	if own, _ := os.ReadFile("/proc/self/oom_score_adj"); string(own) != "900\n" {
		t.Errorf("the daemon's score afterwards = %q, want 900", own)
	}
}

// Every point of one command's life is passed before it is recorded, and
// carries the exec and the request in whose name it happens.
func TestPointsOfALife(t *testing.T) {
	rec := &recorder{}
	g := newGate()
	clock := newStepClock()
	r := newRegistry(t, Config{Recorder: rec, Gate: g, Clock: clock})
	ctx := WithRequest(context.Background(), 7)
	e, _, err := r.Start(ctx, key("x"), given(sh("echo hello")))
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, e.Subscribe(0))
	finished(t, e)
	if _, err := e.AckContext(ctx); err != nil {
		t.Fatal(err)
	}
	clock.Advance(DefaultRetention)
	for rec.count(trace.ExecCollect) == 0 {
		_ = e.Poll()
	}
	for _, a := range []trace.Action{
		trace.ExecStart, trace.ExecSpawn, trace.LeaderReap, trace.OutputPublish, trace.OutputEOF, trace.ExecExit,
		trace.ExecAck, trace.ExecCollect, trace.StreamAttach, trace.StreamDeliver, trace.StreamExit, trace.StreamDetach,
	} {
		if n := rec.count(a); n == 0 || g.count(a) < n {
			t.Errorf("%s was recorded %d times and passed %d times", a, n, g.count(a))
		}
	}
	for _, ev := range rec.events {
		byRequest := ev.Action == trace.ExecStart || ev.Action == trace.ExecSpawn || ev.Action == trace.ExecAck
		if ev.Exec != "x" || byRequest != (ev.Request == 7) || (ev.Reader == 1) != strings.HasPrefix(string(ev.Action), "Stream") {
			t.Errorf("event %+v has the wrong point", ev)
		}
	}
}
