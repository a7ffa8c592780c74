package runs

import (
	"context"
	"slices"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// A stop that is accepted between the permit and the spawn keeps the process
// from being created.
func TestStopAfterThePermit(t *testing.T) {
	t.Attr("requirement", "MGR-12")
	t.Attr("requirement", "MGR-7")
	for name, stop := range map[string]func(*world, ID){
		"cancelled": func(w *world, id ID) { _ = w.cancel(id) },
		"deadline":  func(w *world, _ ID) { w.clock.advance(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{}, trace.RunSpawn)
			c := newConn()
			id, ch := w.run(c, order{})
			w.gate.arrived(t, trace.RunSpawn, id)
			stop(w, id)
			w.gate.open(trace.RunSpawn)
			w.wait(id)
			c.hears(t, "id 1", "finished 1 "+name)
			want := []trace.Action{trace.RunAccept, trace.RunGrant, trace.RunStop, trace.RunAbort}
			if got := w.rec.of(id); !slices.Equal(got, want) {
				t.Errorf("transitions %v, want %v", got, want)
			}
			w.end()
			if got := ch.calls(); got != "[false] 1" {
				t.Errorf("calls %s", got)
			}
		})
	}
}

// While a process is being created no stop is accepted: it waits for the
// outcome, or is called off by its own context.
func TestStopDuringTheSpawn(t *testing.T) {
	t.Attr("requirement", "MGR-12")
	t.Attr("requirement", "MGR-7")
	for _, path := range []string{"", "/nonexistent"} {
		w := newWorld(t, Config{})
		c, ch := newConn(), newChild(t)
		ch.path = path
		came, let := ch.held()
		id, _ := w.run(c, order{child: ch})
		await(t, came, "the spawn")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.table.Cancel(ctx, id); err != context.Canceled {
			t.Errorf("Cancel = %v; it did not wait for the spawn", err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- w.cancel(id) }()
		close(let)
		if err := <-stopped; err != nil {
			t.Errorf("Cancel = %v", err)
		}
		w.wait(id)
		steps := w.rec.of(id)
		stop := slices.Index(steps, trace.RunStop)
		if spawn := slices.Index(steps, trace.RunSpawn); path == "" && (spawn < 0 || spawn > stop) {
			t.Errorf("transitions %v", steps)
		}
		if heard := c.heard(); path == "" {
			c.hears(t, "id 1", "started 1", "finished 1 cancelled")
		} else if last := heard[len(heard)-1]; len(heard) != 2 || (slices.Contains(steps, trace.RunAbort) != (last == "finished 1 cancelled")) {
			// Without a process, either may have been first.
			t.Errorf("heard %q after %v", heard, steps)
		}
	}
}

// The first cause wins, whoever comes second: stops among each other, and a
// stop and an exit in either order.
func TestFirstCauseWins(t *testing.T) {
	t.Attr("requirement", "MGR-13")
	t.Attr("requirement", "MGR-27")
	t.Run("cancel, then deadline", func(t *testing.T) {
		w := newWorld(t, Config{}, trace.RunExit)
		b := running(w)
		_ = w.cancel(b.id)
		w.gate.arrived(t, trace.RunExit, b.id)
		w.clock.advance(time.Hour)
		w.gate.open(trace.RunExit)
		w.wait(b.id)
		b.conn.hears(t, "id 1", "started 1", "finished 1 cancelled")
	})
	t.Run("deadline, then cancel", func(t *testing.T) {
		w := newWorld(t, Config{}, trace.RunExit)
		b := running(w)
		w.clock.advance(time.Hour)
		w.gate.arrived(t, trace.RunExit, b.id)
		for range 2 {
			if err := w.cancel(b.id); err != nil {
				t.Errorf("Cancel = %v", err)
			}
		}
		w.gate.open(trace.RunExit)
		w.wait(b.id)
		b.conn.hears(t, "id 1", "started 1", "finished 1 deadline")
	})
	t.Run("exit, then cancel", func(t *testing.T) {
		w := newWorld(t, Config{}, trace.RunFinish)
		b := running(w)
		b.child.obey(t, "exit 5")
		w.gate.arrived(t, trace.RunFinish, b.id)
		if err := w.cancel(b.id); err != nil {
			t.Errorf("Cancel = %v", err)
		}
		w.gate.open(trace.RunFinish)
		w.wait(b.id)
		b.conn.hears(t, "id 1", "started 1", "finished 1 exited 5")
	})
	t.Run("cancel, then exit is observed", func(t *testing.T) {
		w := newWorld(t, Config{}, trace.RunExit)
		b := running(w)
		b.child.obey(t, "exit 5")
		w.gate.arrived(t, trace.RunExit, b.id) // it has exited, and nobody knows
		if err := w.cancel(b.id); err != nil {
			t.Errorf("Cancel = %v", err)
		}
		w.gate.open(trace.RunExit)
		w.wait(b.id)
		b.conn.hears(t, "id 1", "started 1", "finished 1 cancelled 5")
	})
	t.Run("cancel after the end", func(t *testing.T) {
		w := newWorld(t, Config{})
		b := ended(w)
		if err := w.cancel(b.id); err != nil {
			t.Errorf("Cancel = %v", err)
		}
		w.end()
		b.conn.hears(t, "id 1", "started 1", "finished 1 exited 0")
	})
}

// A cancel kills the whole group, also members that ignore what can be ignored,
// and does not wait for it.
func TestCancelKillsTheGroup(t *testing.T) {
	t.Attr("requirement", "MGR-14")
	w := newWorld(t, Config{}, trace.RunExit)
	b := brought{conn: newConn()}
	b.child = newChild(t)
	b.child.capture.HeadBytes = 100
	b.id, _ = w.run(b.conn, order{child: b.child})
	b.child.obey(t, `trap "" TERM HUP INT; sh -c 'trap "" TERM HUP INT; echo $$ >&4; exec sleep 600' & wait`)
	member := b.child.number(t)
	if err := w.cancel(b.id); err != nil {
		t.Fatal(err)
	}
	b.conn.hears(t, "id 1", "started 1") // the reply did not wait for the end
	w.gate.arrived(t, trace.RunExit, b.id)
	gone(t, member)
	w.gate.open(trace.RunExit)
	b.conn.hears(t, "id 1", "started 1", "finished 1 cancelled")
}

// The deadline counts from the acceptance: a run that waited in the queue has
// less time left, and one that still waits ends there, without a process.
func TestDeadline(t *testing.T) {
	t.Attr("requirement", "MGR-15")
	w := newWorld(t, Config{Permits: 1, Retention: 24 * time.Hour})
	conns := []*conn{newConn(), newConn(), newConn()}
	_, first := w.run(conns[0], order{})
	conns[0].hears(t, "id 1", "started 1")
	w.clock.advance(time.Minute)
	w.run(conns[1], order{deadline: 30 * time.Minute})
	_, third := w.run(conns[2], order{deadline: 10 * time.Minute})
	w.clock.advance(10 * time.Minute)
	conns[2].hears(t, "id 3", "finished 3 deadline")
	first.obey(t, "exit 0")
	conns[1].hears(t, "id 2", "started 2")
	w.clock.advance(20*time.Minute - time.Millisecond)
	if got := phasesOf(w)[1]; got != PhaseRunning {
		t.Errorf("a millisecond before its deadline the run is %v", got)
	}
	w.clock.advance(time.Millisecond)
	conns[1].hears(t, "id 2", "started 2", "finished 2 deadline")
	conns[0].hears(t, "id 1", "started 1", "finished 1 exited 0")
	w.end()
	if got := third.calls(); got != "[false] 1" && got != "[] 0" {
		t.Errorf("calls %s", got)
	}
}

// The deadline is capped, and one of zero ends the run at once.
func TestDeadlineBounds(t *testing.T) {
	t.Attr("requirement", "MGR-15")
	w := newWorld(t, Config{})
	c := newConn()
	w.run(c, order{deadline: 1 << 62})
	w.run(nil, order{deadline: -time.Second})
	status := w.table.Status()
	if got := status[0].Deadline.Sub(status[0].AcceptedAt); got != 24*time.Hour {
		t.Errorf("the cap is %v", got)
	}
	c.hears(t, "id 1", "started 1")
	w.clock.advance(0)
	if ev := w.wait(2); ev.Finished == nil || ev.Finished.Cause != CauseDeadline {
		t.Errorf("ended as %s", show(ev))
	}
	w.clock.advance(24 * time.Hour)
	c.hears(t, "id 1", "started 1", "finished 1 deadline")
}

// A run that is stopped in the queue takes no permit, even where one comes free
// in the same moment.
func TestStopInTheQueue(t *testing.T) {
	t.Attr("requirement", "MGR-11")
	w := newWorld(t, Config{Permits: 1}, trace.RunGrant)
	w.gate.open(trace.RunGrant)
	_, first := w.run(nil, order{})
	w.wait1(t, 1)
	w.gate.shutOn(trace.RunGrant)
	c := newConn()
	id, ch := w.run(c, order{})
	first.obey(t, "exit 0")
	w.gate.arrived(t, trace.RunGrant, id) // the permit is there, and not taken yet
	w.table.mu.Lock()
	r := w.table.runs[id]
	w.table.mu.Unlock()
	if err := w.cancel(id); err != nil {
		t.Fatal(err)
	}
	c.hears(t, "id 2", "finished 2 cancelled")
	if granted, err := w.table.tryGrant(r); granted || err != errStopped {
		t.Errorf("granted = %v, %v, although it ended", granted, err)
	}
	w.gate.open(trace.RunGrant)
	w.wait(1)
	w.end()
	want := []trace.Action{trace.RunAccept, trace.RunStop}
	if got := w.rec.of(id); !slices.Equal(got, want) {
		t.Errorf("transitions %v, want %v", got, want)
	}
	c.hears(t, "id 2", "finished 2 cancelled")
	if got := ch.calls(); got != "[false] 1" {
		t.Errorf("calls %s", got)
	}
	w.permits(1)
}
