package runs

import (
	"context"
	"testing"

	"microvms/agentd/trace"
)

// A shutdown ends each run by what it is: the queued, the granted and the
// running ones with the cause shutdown, the one whose exit was observed as it
// was going to end. Everybody subscribed is told before Shutdown returns, and
// nothing can be started any more.
func TestShutdown(t *testing.T) {
	t.Attr("requirement", "MGR-24")
	w := newWorld(t, Config{Permits: 3}, trace.RunFinish)
	conns := make([]*conn, 6)
	for i := range conns {
		conns[i] = newConn()
	}
	_, draining := w.run(conns[0], order{})
	draining.obey(t, "exit 3")
	w.gate.arrived(t, trace.RunFinish, 1)
	w.run(conns[1], order{})
	conns[1].hears(t, "id 2", "started 2")
	w.gate.shutOn(trace.RunSpawn)
	_, granted := w.run(conns[2], order{})
	w.gate.arrived(t, trace.RunSpawn, 3)
	big, _ := w.run(conns[3], order{permits: 3})
	if got := phasesOf(w)[3]; big != 4 || got != PhaseQueued {
		t.Fatalf("run %d is %v", big, got)
	}
	failed, other := newConn(), newConn()
	if err := w.attach(other, 2); err != nil {
		t.Fatal(err)
	}
	w.gate.open(trace.RunFinish)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.table.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	conns[0].hears(t, "id 1", "started 1", "finished 1 exited 3")
	conns[1].hears(t, "id 2", "started 2", "finished 2 shutdown")
	conns[2].hears(t, "id 3", "finished 3 shutdown")
	conns[3].hears(t, "id 4", "finished 4 shutdown")
	other.hears(t, "snapshot started 2", "finished 2 shutdown")
	if got := granted.calls(); got != "[false] 1" {
		t.Errorf("calls %s", got)
	}
	err := w.table.Run(context.Background(), Spec{}, failed, func(ID) { t.Error("a reply") })
	if err != ErrShuttingDown {
		t.Errorf("Run = %v", err)
	}
	if err := w.table.Shutdown(context.Background()); err != nil {
		t.Errorf("a second Shutdown = %v", err)
	}
	if total, free := w.table.Permits(); total != free {
		t.Errorf("%d of %d permits are free", free, total)
	}
}

// A request that repeats the token of a known run is no new run: it gets the id,
// and the end of the run, while others are refused.
func TestRepeatDuringShutdown(t *testing.T) {
	t.Attr("requirement", "MGR-3")
	t.Attr("requirement", "MGR-4")
	t.Attr("requirement", "MGR-24")
	w := newWorld(t, Config{}, trace.RunFinish)
	first, early, late, other := newConn(), newConn(), newConn(), newConn()
	w.run(first, order{token: "a"})
	first.hears(t, "id 1", "started 1")
	down := make(chan error, 1)
	go func() { down <- w.table.Shutdown(context.Background()) }()
	w.gate.arrived(t, trace.RunFinish, 1) // it was stopped, and its end is not told yet
	w.run(early, order{token: "a"})
	early.hears(t, "id 1", "started 1")
	token := "b"
	for _, s := range []Spec{{}, {Token: &token}} {
		if err := w.table.Run(context.Background(), s, other, func(ID) { t.Error("a reply") }); err != ErrShuttingDown {
			t.Errorf("Run of a new one = %v", err)
		}
	}
	w.gate.open(trace.RunFinish)
	if err := <-down; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	first.hears(t, "id 1", "started 1", "finished 1 shutdown")
	early.hears(t, "id 1", "started 1", "finished 1 shutdown")
	w.run(late, order{token: "a"})
	late.hears(t, "id 1", "finished 1 shutdown")
}

// A shutdown that may not wait tells what is known, and says that it did not
// wait: whether the exit is not observed yet, or the report is not there.
func TestShutdownGivesUp(t *testing.T) {
	t.Attr("requirement", "MGR-24")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Run("exit", func(t *testing.T) {
		w := newWorld(t, Config{}, trace.RunExit)
		b := running(w)
		if err := w.table.Shutdown(ctx); err != context.Canceled {
			t.Errorf("Shutdown = %v", err)
		}
		b.conn.hears(t, "id 1", "started 1", "finished 1 shutdown")
	})
	t.Run("report", func(t *testing.T) {
		w := newWorld(t, Config{})
		c, ch := newConn(), newChild(t)
		asked, let := make(chan struct{}), make(chan struct{})
		ch.finish = func(context.Context) Report {
			close(asked)
			<-let
			return Report{Log: []byte("too late")}
		}
		defer close(let)
		w.run(c, order{child: ch})
		ch.obey(t, "exit 0")
		await(t, asked, "the report")
		if err := w.table.Shutdown(ctx); err != context.Canceled {
			t.Errorf("Shutdown = %v", err)
		}
		c.hears(t, "id 1", "started 1", "finished 1 exited")
	})
}

// A shutdown does not linger for what a process left in its group: the clock
// stands still, and the run ends all the same.
func TestShutdownKillsSurvivors(t *testing.T) {
	t.Attr("requirement", "MGR-24")
	w := newWorld(t, Config{})
	c := newConn()
	_, ch := w.run(c, order{})
	ch.obey(t, `trap "" TERM HUP; sh -c 'echo $$ >&4; exec sleep 600' & exit 0`)
	survivor := ch.number(t)
	w.took(trace.RunExit, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.table.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	c.hears(t, "id 1", "started 1", "finished 1 exited 0")
	gone(t, survivor)
}

// All runs are stopped at one moment. While a process is being created that
// moment has not come, and no run is begun.
func TestShutdownWaitsForTheSpawn(t *testing.T) {
	t.Attr("requirement", "MGR-24")
	t.Attr("requirement", "MGR-12")
	w := newWorld(t, Config{Permits: 2}, trace.RunSpawn)
	table, own, held := w.table, newConn(), newChild(t)
	came, let := held.held()
	first, _ := w.run(own, order{child: held})
	second, ch := w.run(nil, order{})
	w.gate.arrived(t, trace.RunSpawn, second)
	w.gate.release(t, trace.RunSpawn, first)
	await(t, came, "the spawn")
	down := make(chan error, 1)
	go func() { down <- table.Shutdown(context.Background()) }()
	for closing := false; !closing; {
		table.mu.Lock()
		if closing = table.closing; closing {
			if table.runs[first].decided || table.runs[second].decided {
				t.Error("a run was stopped during a spawn")
			}
		}
		table.mu.Unlock()
	}
	w.gate.release(t, trace.RunSpawn, second) // it may not begin now
	close(let)
	if err := <-down; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	own.hears(t, "id 1", "started 1", "finished 1 shutdown")
	if got := ch.calls(); got != "[false] 1" {
		t.Errorf("calls %s", got)
	}
}

// Each table counts its runs from 1: an id means nothing without the boot id of
// its process.
func TestIDsRestart(t *testing.T) {
	t.Attr("requirement", "MGR-25")
	for range 2 {
		w := newWorld(t, Config{})
		for want := ID(1); want < 4; want++ {
			if id, _ := w.run(nil, order{refuse: errRefused}); id != want {
				t.Errorf("id %d, want %d", id, want)
			}
		}
	}
}
