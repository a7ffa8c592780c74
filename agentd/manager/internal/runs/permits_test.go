package runs

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// phasesOf lists the phases of the known runs by id.
func phasesOf(w *world) []Phase {
	var all []Phase
	for _, s := range w.table.Status() {
		all = append(all, s.Phase)
	}
	return all
}

// Permits go by the order of acceptance: a run that needs more than there is
// holds back those behind it, also where there is enough for them.
func TestPermitsAreFIFO(t *testing.T) {
	t.Attr("requirement", "MGR-9")
	w := newWorld(t, Config{Permits: 4})
	conns := []*conn{newConn(), newConn(), newConn(), newConn()}
	first, a := w.run(conns[0], order{permits: 3})
	conns[0].hears(t, "id 1", "started 1")
	w.permits(1)
	big, b := w.run(conns[1], order{permits: 4})
	small, c := w.run(conns[2], order{permits: 1})
	last, d := w.run(conns[3], order{permits: 1})
	a.obey(t, "exit 0")
	conns[1].hears(t, "id 2", "started 2")
	if got := phasesOf(w); got[2] != PhaseQueued || got[3] != PhaseQueued {
		t.Errorf("phases %v beside the big run", got)
	}
	w.permits(0)
	b.obey(t, "exit 0")
	conns[2].hears(t, "id 3", "started 3")
	conns[3].hears(t, "id 4", "started 4")
	w.permits(2)
	c.obey(t, "exit 0")
	d.obey(t, "exit 0")
	for _, id := range []ID{first, big, small, last} {
		w.wait(id)
	}
	w.permits(4)
	var granted []uint64
	for _, e := range w.rec.events {
		if e.Action == trace.RunGrant {
			granted = append(granted, e.Run)
		}
	}
	if !slices.Equal(granted, []uint64{1, 2, 3, 4}) {
		t.Errorf("granted in the order %v", granted)
	}
}

// Every way out of a grant gives the permits back once: the exit, while the
// output is still drained; a spawn that fails; a stop before the spawn.
func TestPermitsComeBack(t *testing.T) {
	t.Attr("requirement", "MGR-10")
	t.Run("exit", func(t *testing.T) {
		w := newWorld(t, Config{Permits: 2}, trace.RunFinish)
		id, ch := w.run(nil, order{permits: 2})
		waiting := newConn()
		next, other := w.run(waiting, order{permits: 2})
		ch.obey(t, "exit 0")
		waiting.hears(t, "id 2", "started 2") // although the first one still drains
		if got := phasesOf(w)[0]; got != PhaseRunning {
			t.Errorf("the first run is %v", got)
		}
		w.permits(0)
		w.gate.open(trace.RunFinish)
		w.wait(id)
		w.permits(0) // the end gives nothing back a second time
		other.obey(t, "exit 0")
		w.wait(next)
		w.permits(2)
	})
	t.Run("spawn failure", func(t *testing.T) {
		w := newWorld(t, Config{Permits: 2}, trace.RunSpawnFail)
		ch := newChild(t)
		ch.path = "/nonexistent"
		c := newConn()
		id, _ := w.run(c, order{permits: 2, child: ch})
		w.gate.arrived(t, trace.RunSpawnFail, id)
		w.permits(0)
		w.gate.open(trace.RunSpawnFail)
		if ev := w.wait(id); ev.Kind != EventFailedToStart {
			t.Errorf("ended as %s", show(ev))
		}
		w.permits(2)
	})
	t.Run("abort", func(t *testing.T) {
		w := newWorld(t, Config{Permits: 2}, trace.RunSpawn, trace.RunAbort)
		id, ch := w.run(nil, order{permits: 2})
		w.gate.arrived(t, trace.RunSpawn, id)
		if err := w.cancel(id); err != nil {
			t.Fatal(err)
		}
		w.gate.arrived(t, trace.RunAbort, id)
		w.permits(0)
		w.gate.open(trace.RunAbort)
		w.wait(id)
		w.permits(2)
		w.end()
		if got := ch.calls(); got != "[false] 1" {
			t.Errorf("calls %s", got)
		}
	})
	t.Run("leaving the queue", func(t *testing.T) {
		w := newWorld(t, Config{Permits: 2})
		_, ch := w.run(nil, order{permits: 1})
		big, _ := w.run(nil, order{permits: 2})
		c := newConn()
		small, other := w.run(c, order{permits: 1})
		if err := w.cancel(big); err != nil {
			t.Fatal(err)
		}
		c.hears(t, "id 3", "started 3") // nobody is before it any more
		ch.obey(t, "exit 0")
		other.obey(t, "exit 0")
		w.wait(small)
		w.wait(1)
		w.permits(2)
	})
}

// A change of the pool never waits: a lowering takes effect as permits come
// back, a raise lets the queue on. A run that costs more than there is takes
// all.
func TestSetPermits(t *testing.T) {
	t.Attr("requirement", "MGR-9")
	w := newWorld(t, Config{Permits: 4})
	pool := func(total, free int) {
		t.Helper()
		if gotTotal, gotFree := w.table.Permits(); gotTotal != total || gotFree != free {
			t.Errorf("permits %d, %d free; want %d, %d", gotTotal, gotFree, total, free)
		}
	}
	set := func(n int) {
		t.Helper()
		if err := w.table.SetPermits(context.Background(), n); err != nil {
			t.Error(err)
		}
	}
	c := []*conn{newConn(), newConn(), newConn(), newConn()}
	_, a := w.run(c[0], order{permits: 3})
	c[0].hears(t, "id 1", "started 1")
	set(2)
	pool(2, 0)
	_, b := w.run(c[1], order{permits: 1})
	set(4)
	c[1].hears(t, "id 2", "started 2")
	pool(4, 0)
	set(1)
	a.obey(t, "exit 0")
	w.wait(1)
	pool(1, 0)
	_, huge := w.run(c[2], order{permits: 100})
	b.obey(t, "exit 0")
	c[2].hears(t, "id 3", "started 3")
	pool(1, 0)
	set(3)
	pool(3, 2)
	huge.obey(t, "exit 0")
	w.wait(3)
	pool(3, 3)
	if err := w.table.SetPermits(context.Background(), 0); err == nil {
		t.Error("0 permits were set")
	}
	pool(3, 3)
}

// What was free when the run's turn came may be gone when it takes it.
func TestGrantIsLookedAtAgain(t *testing.T) {
	t.Attr("requirement", "MGR-9")
	w := newWorld(t, Config{Permits: 2})
	_, a := w.run(nil, order{})
	w.wait1(t, 1)
	w.gate.shutOn(trace.RunGrant)
	id, b := w.run(nil, order{})
	w.gate.arrived(t, trace.RunGrant, id)
	if err := w.table.SetPermits(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	w.table.mu.Lock()
	r := w.table.runs[id]
	w.table.mu.Unlock()
	if granted, err := w.table.tryGrant(r); granted || err != nil {
		t.Errorf("granted = %v, %v, with no permit free", granted, err)
	}
	w.gate.open(trace.RunGrant)
	a.obey(t, "exit 0")
	w.wait1(t, id)
	w.permits(0)
	b.obey(t, "exit 0")
	w.wait(id)
	w.permits(1)
}

// Only the runs at the head of the queue are prepared, in the order of their
// acceptance; what leaves the queue makes room.
func TestWindow(t *testing.T) {
	t.Attr("requirement", "MGR-9")
	w := newWorld(t, Config{Permits: 1, Window: 2})
	_, blocker := w.run(nil, order{})
	w.wait1(t, 1)
	var prepared atomic.Int64
	came := make(chan ID, 10)
	request := func() {
		err := w.table.Run(context.Background(), Spec{Deadline: time.Hour, Prepare: func(_ context.Context, id ID) (*Prepared, error) {
			prepared.Add(1)
			came <- id
			return newChild(t).prepared(), nil
		}}, nil, func(ID) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // runs 2 to 6
		request()
	}
	first := []ID{<-came, <-came}
	slices.Sort(first)
	if !slices.Equal(first, []ID{2, 3}) || prepared.Load() != 2 {
		t.Errorf("prepared %v, %d in all", first, prepared.Load())
	}
	if err := w.cancel(6); err != nil { // behind the window
		t.Fatal(err)
	}
	if err := w.cancel(2); err != nil {
		t.Fatal(err)
	}
	if id := <-came; id != 4 {
		t.Errorf("then %d was prepared", id)
	}
	blocker.obey(t, "exit 0")
	if id := <-came; id != 5 {
		t.Errorf("then %d was prepared", id)
	}
	if n := prepared.Load(); n != 4 {
		t.Errorf("%d runs were prepared", n)
	}
}

// wait1 waits until the run has started.
func (w *world) wait1(t testing.TB, id ID) {
	t.Helper()
	if _, err := w.table.Wait(context.Background(), id, func(ev Event) bool { return ev.Kind != EventQueued }); err != nil {
		t.Fatal(err)
	}
}
