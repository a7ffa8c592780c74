package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/client"
	msclient "microvms/client/manager"
	"microvms/conformance/hostile"
)

// The load under which the manager is killed.
const (
	restartClients = 16
	restartRuns    = 60 // that each client sees the ending of
	restartKills   = 3
	restartHangs   = 3 // every third run hangs until it is cancelled
)

// tally is what the clients saw.
type tally struct {
	ended, lost atomic.Int64

	mu    sync.Mutex
	boots map[uint64]bool
	runs  map[msclient.RunID]int // terminal events
}

// follow starts runs on a session until it saw the endings of enough of them.
// What the death of a manager took must be said to be that.
func (l *tally) follow(ctx context.Context, s *msclient.Session, who int) error {
	for i, seen := 0, 0; seen < restartRuns; i++ {
		r := trivialRun()
		if i%restartHangs == 0 {
			r = run("hang")
		}
		token := fmt.Sprintf("%d-%d", who, i)
		r.Token = &token
		ended, err := l.one(ctx, s, r)
		switch {
		case err == nil && ended:
			seen++
			l.ended.Add(1)
		case errors.Is(err, msclient.ErrRestarted):
			l.lost.Add(1)
		default:
			return fmt.Errorf("client %d, run %d: %w", who, i, err)
		}
	}
	return nil
}

// one follows one run to its terminal event and acks it.
func (l *tally) one(ctx context.Context, s *msclient.Session, r *msp.RunRequest) (bool, error) {
	f, err := s.Run(ctx, r)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	l.boots[f.ID().Boot] = true
	l.mu.Unlock()
	if len(r.ExtraArgs) > 0 {
		if err := f.Cancel(ctx); err != nil {
			return false, err
		}
	}
	ev, err := f.Wait(ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	l.runs[f.ID()]++
	n := l.runs[f.ID()]
	l.mu.Unlock()
	if n != 1 || ev.Finished == nil {
		return false, fmt.Errorf("ending %d of %v is %s", n, f.ID(), ev.Kind())
	}
	// By the session, which waits for the next manager and learns that the run is
	// gone; the follower would make one try.
	return true, s.Ack(ctx, f.ID())
}

// TestKilledUnderLoad kills the manager in the middle of a load and starts it
// again at the same address, three times: the clients learn it by the boot id,
// none hangs, and no executor of a killed manager survives, those that hang
// included.
func TestKilledUnderLoad(t *testing.T) {
	for _, id := range []string{"MGR-18", "MGR-25", "MGR-26", "MCLIENT-4", "MCLIENT-9", "MCLIENT-10"} {
		t.Attr("requirement", id)
	}
	command, program := programs(t)
	dir := t.TempDir()
	start := func() *Process {
		p, err := StartIn(t.Context(), dir, command, program, 8)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := start()
	installTrivial(t, p.Executors())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l := &tally{boots: map[uint64]bool{}, runs: map[msclient.RunID]int{}}
	var clients sync.WaitGroup
	errs := make([]error, restartClients)
	for i := range restartClients {
		clients.Go(func() {
			retry := client.Retry{Delays: []time.Duration{5 * time.Millisecond}, Reconnects: 10_000}
			s, err := msclient.NewSession("unix:"+filepath.Join(dir, "s"), msclient.WithRetry(retry))
			if err != nil {
				errs[i] = err
				return
			}
			defer s.Close()
			errs[i] = l.follow(ctx, s, i)
		})
	}
	hanging := hangElsewhere(ctx, t, p)
	for k := range restartKills {
		due := int64((k + 1) * restartClients * restartRuns / (restartKills + 1))
		if err := hostile.Await(ctx, "the load goes on", func() (bool, error) { return l.ended.Load() >= due, nil }); err != nil {
			t.Fatal(errors.Join(append(errs, err)...))
		}
		orphans(ctx, t, p)
		p = start()
	}
	clients.Wait()
	hanging()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d runs ended, %d were lost with %d managers, %d boots were seen", l.ended.Load(), l.lost.Load(), restartKills, len(l.boots))
	if len(l.boots) != restartKills+1 {
		t.Errorf("%d boots were seen, %d there were", len(l.boots), restartKills+1)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("the last manager did not end well: %v", err)
	}
}

// orphans kills a manager and waits until no process of its executors is left.
func orphans(ctx context.Context, t *testing.T, p *Process) {
	t.Helper()
	p.Kill()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := hostile.Await(ctx, "no executor is left", func() (bool, error) { return countPrograms(p.Executors()) == 0, nil }); err != nil {
		left := programsBelow(p.Executors())
		t.Errorf("%d executors outlived their manager: %v", len(left), err)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // nobody else would
		}
	}
}

// hangElsewhere starts runs that hang and that nobody cancels, and returns how to
// see that their clients were told.
func hangElsewhere(ctx context.Context, t *testing.T, p *Process) func() {
	t.Helper()
	pr := newProbe(Target{Network: "unix", Address: p.Address, Knobs: Knobs{}.withDefaults()})
	c, err := pr.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := c.start(run("hang")); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		if ev, err := c.event(); err != nil || ev.Started == nil {
			t.Fatalf("the run did not start: %v", err)
		}
	}
	if countPrograms(p.Executors()) < 4 {
		t.Error("the hanging executors are not seen: their end could not be")
	}
	return func() {
		defer c.Close()
		if err := c.dropped(); err != nil {
			t.Errorf("a client of the killed manager: %v", err)
		}
	}
}
