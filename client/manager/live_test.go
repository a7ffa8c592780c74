package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api/msp"
	"microvms/client"
	"microvms/client/daemontest"
)

// live starts a real manager with the demonstration executor.
func live(t *testing.T) (*daemontest.Manager, *Session) {
	t.Helper()
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	s, err := NewSession(m.Socket, WithRetry(client.Retry{Delays: []time.Duration{10 * time.Millisecond}, Reconnects: 500}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return m, s
}

// demo asks the demonstration executor for steps.
func demo(token string, steps ...string) *msp.RunRequest {
	r := request(token)
	r.Selector = msp.Selector{IsVersion: true, Version: daemontest.Executor}
	r.DebugMode, r.ExtraArgs, r.Timestamp = msp.DebugSafeUnbounded, steps, msp.At(time.Now())
	return r
}

// TestLive drives the real manager: runs beside each other, artifacts over many
// pages, repeats by token, cancel, ack and status.
func TestLive(t *testing.T) {
	t.Attr("requirement", "MCLIENT-3")
	t.Attr("requirement", "MCLIENT-5")
	t.Attr("requirement", "MCLIENT-14")
	t.Attr("requirement", "MCLIENT-23")
	m, s := live(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			ctx := testContext(t)
			run, err := s.Run(ctx, demo(fmt.Sprint("t", i), "stdout-bytes=700000", fmt.Sprint("exit=", i)))
			if err != nil {
				t.Error(err)
				return
			}
			again, err := s.Run(ctx, demo(fmt.Sprint("t", i), "exit=99"))
			if err != nil || again.ID() != run.ID() {
				t.Errorf("the repeat of %v: %v", run.ID(), err)
			}
			for _, reader := range []*Follower{run, again} {
				if got := kinds(t, reader.Next); !cmp.Equal(got, []string{"started", "finished", "EOF"}) {
					t.Errorf("run %v has the events %q", run.ID(), got)
				}
			}
			joined, err := s.Attach(ctx, run.ID())
			if err != nil {
				t.Error(err)
				return
			}
			end, err := joined.Wait(ctx)
			if err != nil || end.Finished == nil || *end.Finished.ExitCode != int64(i) || end.Finished.Sizes.Stdout != 700_000 {
				t.Errorf("run %v ended as %+v, %v", run.ID(), end, err)
			}
			if n, err := io.Copy(io.Discard, run.Open(ctx, msp.Stdout)); err != nil || n != 700_000 {
				t.Errorf("run %v has %d bytes of output, %v", run.ID(), n, err)
			}
			if err := run.Ack(ctx); err != nil {
				t.Error(err)
			}
			if err := run.Ack(ctx); !errors.Is(err, ErrUnknownID) {
				t.Errorf("a second ack of %v: %v", run.ID(), err)
			}
		})
	}
	all.Wait()
	status, err := ReadStatus(testContext(t), m.Socket)
	if err != nil || len(status.Runs) != 0 || status.Permits.Free != 8 {
		t.Errorf("at the end the manager says %+v, %v", status, err)
	}
	c, err := s.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.runs) != 0 || len(c.calls) != 0 {
		t.Errorf("the client keeps %d runs and %d calls", len(c.runs), len(c.calls))
	}
}

// TestLiveRestart kills the manager under runs that wait, queued ones included:
// nobody hangs, and everybody learns that the boot is another.
func TestLiveRestart(t *testing.T) {
	t.Attr("requirement", "MCLIENT-4")
	t.Attr("requirement", "MCLIENT-9")
	m, s := live(t)
	var waiting sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(6)
	for i := range 6 { // of which the permits allow two
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run, err := s.Run(ctx, demo(fmt.Sprint("t", i), "hang"))
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			_, err = run.Wait(ctx)
			var restarted *RestartedError
			if !errors.As(err, &restarted) || restarted.Was != run.ID().Boot || restarted.Now == restarted.Was {
				t.Errorf("the wait for %v: %v", run.ID(), err)
			}
		})
	}
	ready.Wait()
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	run, err := s.Run(testContext(t), demo("t0"))
	if err != nil {
		t.Fatal(err)
	}
	if end, err := run.Wait(testContext(t)); err != nil || end.Finished == nil || end.Finished.Cause != msp.Exited {
		t.Errorf("a run of the new boot: %+v, %v", end, err)
	}
}

// TestLiveShutdown ends the manager in order: each run is told its end first.
func TestLiveShutdown(t *testing.T) {
	t.Attr("requirement", "MCLIENT-5")
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(testContext(t), m.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run, err := c.Run(testContext(t), demo("t", "hang"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := run.Next(testContext(t)); err != nil || e.Started == nil {
		t.Errorf("the first event: %v", err)
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	if e, err := run.Next(testContext(t)); err != nil || e.Finished == nil || e.Finished.Cause != msp.Shutdown {
		t.Errorf("the last event is %+v, %v", e, err)
	}
	<-c.Done()
	if _, err := c.Attach(testContext(t), run.ID()); !errors.Is(err, ErrLost) {
		t.Errorf("a call after the end: %v", err)
	}
}
