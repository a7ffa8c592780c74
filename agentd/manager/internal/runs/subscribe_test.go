package runs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"microvms/agentd/trace"
)

// An attached connection hears what comes after its snapshot, once, however
// often it attaches; a terminal snapshot is followed by nothing.
func TestAttach(t *testing.T) {
	t.Attr("requirement", "MGR-17")
	t.Attr("requirement", "MGR-6")
	w := newWorld(t, Config{}, trace.RunSpawn)
	own := newConn()
	id, ch := w.run(own, order{token: "h-1"})
	early, late, after := newConn(), newConn(), newConn()
	for range 2 {
		if err := w.attach(early, id); err != nil {
			t.Fatal(err)
		}
	}
	w.gate.open(trace.RunSpawn)
	early.hears(t, "snapshot queued 1", "snapshot queued 1", "started 1")
	for range 2 {
		if err := w.attach(late, id); err != nil {
			t.Fatal(err)
		}
	}
	ch.obey(t, "exit 7")
	w.wait(id)
	for range 2 {
		if err := w.attach(after, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.attach(early, id); err != nil {
		t.Fatal(err)
	}
	w.end()
	own.hears(t, "id 1", "started 1", "finished 1 exited 7")
	early.hears(t, "snapshot queued 1", "snapshot queued 1", "started 1", "finished 1 exited 7", "snapshot finished 1 exited 7")
	late.hears(t, "snapshot started 1", "snapshot started 1", "finished 1 exited 7")
	after.hears(t, "snapshot finished 1 exited 7", "snapshot finished 1 exited 7")
	if err := w.table.Attach(context.Background(), id, nil, func(ev Event) {
		if *ev.Token != "h-1" {
			t.Errorf("token = %q", *ev.Token)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// Whoever attaches while the run ends is told exactly once how it ended: by the
// snapshot or by the event.
func TestAttachRacesTheEnd(t *testing.T) {
	t.Attr("requirement", "MGR-17")
	t.Attr("requirement", "MGR-6")
	w := newWorld(t, Config{Permits: 4})
	for range 20 {
		id, ch := w.run(nil, order{})
		conns := make([]*conn, 16)
		var wg sync.WaitGroup
		for i := range conns {
			conns[i] = newConn()
			wg.Go(func() {
				if err := w.attach(conns[i], id); err != nil {
					t.Error(err)
				}
			})
		}
		ch.obey(t, "exit 0")
		wg.Wait()
		w.wait(id)
		for _, c := range conns {
			endings := 0
			for _, m := range c.heard() {
				if strings.Contains(m, "finished") {
					endings++
				}
			}
			if endings != 1 {
				t.Fatalf("a connection heard %q", c.heard())
			}
		}
	}
}

// A process that ends at once is announced all the same, to everybody who came
// before its spawn, and before its end.
func TestStartedPrecedesTheEnd(t *testing.T) {
	t.Attr("requirement", "MGR-8")
	w := newWorld(t, Config{Permits: 4})
	for range 20 {
		w.gate.shutOn(trace.RunSpawn)
		own, early := newConn(), newConn()
		ch := newChild(t)
		ch.obey(t, "exit 0") // before there is a process
		id, _ := w.run(own, order{child: ch})
		if err := w.attach(early, id); err != nil {
			t.Fatal(err)
		}
		w.gate.open(trace.RunSpawn)
		w.wait(id)
		want := []trace.Action{trace.RunAccept, trace.RunAttach, trace.RunGrant, trace.RunSpawn, trace.RunExit, trace.RunFinish}
		if got := w.rec.of(id); !sameSteps(got, want) {
			t.Fatalf("transitions %v", got)
		}
		for _, c := range []*conn{own, early} {
			heard := c.heard()
			if len(heard) != 3 || !strings.HasPrefix(heard[1], "started") || !strings.HasPrefix(heard[2], "finished") {
				t.Fatalf("heard %q", heard)
			}
		}
	}
}

// sameSteps compares transitions; where the attach falls is left open.
func sameSteps(got, want []trace.Action) bool {
	attach := func(a trace.Action) bool { return a == trace.RunAttach }
	return slices.ContainsFunc(got, attach) &&
		slices.Equal(slices.DeleteFunc(got, attach), slices.DeleteFunc(slices.Clone(want), attach))
}

// A connection that ends takes its subscriptions with it and nothing else: the
// run goes on, others hear of its end, and the one that comes back too.
func TestDisconnect(t *testing.T) {
	t.Attr("requirement", "MGR-16")
	w := newWorld(t, Config{})
	gone, other := newConn(), newConn()
	id, ch := w.run(gone, order{})
	gone.hears(t, "id 1", "started 1")
	if err := w.attach(other, id); err != nil {
		t.Fatal(err)
	}
	before := w.table.Status()[0]
	w.table.Disconnect(context.Background(), gone)
	if after := w.table.Status()[0]; after != before {
		t.Errorf("status %+v, before %+v", after, before)
	}
	ch.obey(t, "exit 0")
	w.wait(id)
	gone.hears(t, "id 1", "started 1")
	other.hears(t, "snapshot started 1", "finished 1 exited 0")
	back := newConn()
	if err := w.attach(back, id); err != nil {
		t.Fatal(err)
	}
	back.hears(t, "snapshot finished 1 exited 0")
	w.table.Disconnect(context.Background(), other)
	w.table.Disconnect(context.Background(), back)
	if n := len(w.table.conns); n != 0 {
		t.Errorf("%d connections are remembered", n)
	}
}

// An ack on one connection takes nothing from another: what was delivered stays
// delivered, and nothing follows.
func TestAckEndsSubscriptions(t *testing.T) {
	t.Attr("requirement", "MGR-21")
	w := newWorld(t, Config{})
	own, other := newConn(), newConn()
	id, ch := w.run(own, order{})
	if err := w.attach(other, id); err != nil {
		t.Fatal(err)
	}
	ch.obey(t, "exit 0")
	w.wait(id)
	if err := w.ack(id); err != nil {
		t.Fatal(err)
	}
	if heard := other.heard(); heard[len(heard)-1] != "finished 1 exited 0" {
		t.Errorf("the other connection heard %q", heard)
	}
	if n := len(w.table.conns); n != 0 {
		t.Errorf("%d connections are remembered", n)
	}
	w.end()
	own.hears(t, "id 1", "started 1", "finished 1 exited 0")
}

// Reads change nothing that another read shows, nor what is waiting.
func TestReadsChangeNothing(t *testing.T) {
	t.Attr("requirement", "MGR-29")
	w := newWorld(t, Config{})
	b := ended(w)
	before, due := w.table.Status()[0], w.clock.count(DefaultRetention)
	for range 3 {
		if got, err := w.read(b.id, Stdout); err != nil || got != "hi" {
			t.Errorf("stdout = %q, %v", got, err)
		}
		if err := w.attach(newConn(), b.id); err != nil {
			t.Error(err)
		}
	}
	if after := w.table.Status()[0]; after != before {
		t.Errorf("status %+v, before %+v", after, before)
	}
	if n := w.clock.count(DefaultRetention); n != due || n != 1 {
		t.Errorf("%d retention timers", n)
	}
	b.conn.hears(t, "id 1", "started 1", "finished 1 exited 0")
}

// Wait returns what the run comes to, also when it was released right after,
// and the errors.
func TestWait(t *testing.T) {
	w := newWorld(t, Config{}, trace.RunSpawn)
	id, ch := w.run(nil, order{})
	ended := make(chan Event, 1)
	go func() {
		ev, err := w.table.Wait(context.Background(), id, func(ev Event) bool { return ev.Kind.Terminal() })
		if err != nil {
			t.Error(err)
		}
		ended <- ev
	}()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.table.Wait(ctx, id, func(Event) bool { return false }); err != context.Canceled {
		t.Errorf("Wait = %v", err)
	}
	w.gate.open(trace.RunSpawn)
	ch.obey(t, "exit 3")
	if ev := <-ended; show(ev) != "finished 1 exited 3" {
		t.Errorf("Wait = %s", show(ev))
	}
	lost := make(chan error, 1)
	go func() {
		_, err := w.table.Wait(context.Background(), id, func(Event) bool { return false })
		lost <- err
	}()
	w.table.mu.Lock()
	for w.table.runs[id].changed == nil {
		w.table.mu.Unlock()
		w.table.mu.Lock()
	}
	w.table.mu.Unlock()
	if err := w.ack(id); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err != ErrUnknown {
		t.Errorf("Wait of a released run = %v", err)
	}
	if _, err := w.table.Wait(context.Background(), id, func(Event) bool { return true }); err != ErrUnknown {
		t.Errorf("Wait of an unknown run = %v", err)
	}
}
