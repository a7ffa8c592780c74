package manager

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/conformance/hostile"
)

// The load. It is played against the command, which has no race detector in any
// build, so that its size is the same with and without; the clients are this
// process.
const (
	loadRuns    = 10_000
	loadConns   = 64
	loadWindow  = 4 // runs in flight on a connection: most of them wait for a permit
	loadPermits = 4
)

// trivial is an executor that does nothing.
const trivial = "true"

// installTrivial puts the machine's true beside the demonstration executor.
func installTrivial(t *testing.T, dir string) {
	t.Helper()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		t.Fatal(err)
	}
	if err := Install(dir, trivial, program); err != nil {
		t.Fatal(err)
	}
}

func trivialRun() *msp.RunRequest {
	r := run()
	r.Selector.Version = trivial
	return r
}

// load runs the trivial executor n times over many connections and holds each
// run to its events.
func load(ctx context.Context, p *probe, n int) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, loadConns)
	for i := range loadConns {
		wg.Go(func() {
			c, err := p.open(ctx)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			errs[i] = c.share(func() bool { return next.Add(1) <= int64(n) })
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// share starts runs while more says so, a window of them at a time, and acks each
// at its end.
func (c *peer) share(more func() bool) error {
	live := map[uint64]bool{} // whether started came, of the runs without an ending
	for open := true; open || len(live) > 0; {
		for open && len(live) < loadWindow {
			if open = more(); !open {
				break
			}
			id, err := c.start(trivialRun())
			if err != nil {
				return err
			}
			if _, known := live[id]; known {
				return fmt.Errorf("run %d was given twice", id)
			}
			live[id] = false
		}
		if len(live) == 0 {
			break
		}
		ev, err := c.event()
		if err != nil {
			return err
		}
		id := ev.GenvmID()
		started, known := live[id]
		switch {
		case !known:
			return fmt.Errorf("run %d ended, and then came %s", id, ev.Kind())
		case ev.Started != nil && !started:
			live[id] = true
		case ev.Finished != nil && started && ev.Finished.ExitCode != nil && *ev.Finished.ExitCode == 0:
			delete(live, id)
			if err := c.ack(id); err != nil {
				return fmt.Errorf("ack of run %d: %w", id, err)
			}
		default:
			return fmt.Errorf("run %d, of which started came: %t, got %s: %+v", id, started, ev.Kind(), ev.Finished)
		}
	}
	return c.quiet()
}

// watchLoad looks at the manager while a load goes on, and returns the most of
// its children that were seen.
func watchLoad(ctx context.Context, p *probe) (most func() int) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan int, 1)
	go func() {
		most := 0
		_ = hostile.Await(ctx, "the end of the load", func() (bool, error) {
			most = max(most, hostile.LookAt(p.PID).Children)
			return false, nil
		})
		done <- most
	}()
	return func() int { cancel(); return <-done }
}

// TestLoad runs a trivial executor 10,000 times over 64 connections: each run has
// its started and exactly one terminal event, no more processes than permits are
// seen at a time, and the second half of the load leaves and needs no more than
// the first.
func TestLoad(t *testing.T) {
	for _, id := range []string{"MGR-1", "MGR-6", "MGR-8", "MGR-10", "SOCKET-19"} {
		t.Attr("requirement", id)
	}
	target := asCommand(t, loadPermits)
	installTrivial(t, target.Executors)
	target.Knobs = target.Knobs.withDefaults()
	p := newProbe(target)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := p.alive(ctx); err != nil {
		t.Fatal(err)
	}
	if err := load(ctx, p, loadRuns/20); err != nil { // what is made once is made
		t.Fatal(err)
	}
	var halves [2]hostile.Usage
	most := watchLoad(ctx, p)
	begin := time.Now()
	for i := range halves {
		hostile.MarkPeak(p.PID)
		if err := load(ctx, p, loadRuns/2); err != nil {
			t.Fatal(err)
		}
		halves[i] = atRest(ctx, t, p)
	}
	took := time.Since(begin)
	children := most()
	t.Logf("%d runs in %v, %.0f/s; at most %d processes at once; after the halves %+v", loadRuns, took, loadRuns/took.Seconds(), children, halves)
	if children == 0 || children > loadPermits {
		t.Errorf("%d processes were seen at once, and there are %d permits", children, loadPermits)
	}
	a, b := halves[0], halves[1]
	if b.Descriptors > a.Descriptors || b.Threads > a.Threads+32 || b.Children > 0 {
		t.Errorf("the second half left %+v, the first one %+v", b, a)
	}
	if b.Peak > a.Peak+16<<20 || b.Peak > 128<<20 {
		t.Errorf("the peak grew from %d to %d bytes", a.Peak, b.Peak)
	}
	s, err := p.status(ctx)
	if err != nil || len(s.Executions) > 0 || s.Permits.Current != s.Permits.Max {
		t.Errorf("after the load: %+v, %v", s, err)
	}
	for _, fault := range hostile.JudgeLog(target.Log()) {
		t.Error(fault)
	}
}

// atRest waits until the manager's connections are closed and its children gone.
func atRest(ctx context.Context, t *testing.T, p *probe) hostile.Usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var u hostile.Usage
	still := 0
	err := hostile.Await(ctx, "the manager is at rest", func() (bool, error) {
		now := hostile.LookAt(p.PID)
		if now.Descriptors != u.Descriptors || now.Children > 0 {
			still = 0
		}
		u = now
		still++
		return still > 10, nil
	})
	if err != nil {
		t.Error(err)
	}
	return u
}
