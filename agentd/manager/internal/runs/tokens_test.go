package runs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The id is answered while the validation has not even ended, and whatever the
// validation then says.
func TestRunAnswersAtOnce(t *testing.T) {
	t.Attr("requirement", "MGR-1")
	t.Attr("requirement", "MGR-2")
	w := newWorld(t, Config{})
	c, began, end := newConn(), make(chan struct{}), make(chan struct{})
	err := w.table.Run(context.Background(), Spec{Deadline: time.Hour, Prepare: func(context.Context, ID) (*Prepared, error) {
		close(began)
		select {
		case <-end:
		case <-time.After(patience):
			t.Error("the test did not go on")
		}
		return nil, errRefused
	}}, c, func(id ID) { c.add(fmt.Sprint("id ", id)) })
	if err != nil {
		t.Fatal(err)
	}
	c.hears(t, "id 1")
	await(t, began, "the validation")
	if ev := w.table.Status()[0]; ev.Phase != PhaseQueued {
		t.Errorf("phase = %v", ev.Phase)
	}
	close(end)
	c.hears(t, "id 1", "failed_to_start 1: no version matches")
	if id, _ := w.run(nil, order{refuse: errRefused}); id != 2 {
		t.Errorf("the second run is %d", id)
	}
	if nested := w.table.NewID(); nested != 3 {
		t.Errorf("a nested run takes %d", nested)
	}
	if id, _ := w.run(nil, order{refuse: errRefused}); id != 4 {
		t.Errorf("the run after a nested one is %d", id)
	}
}

// What a repeat of a token brings, in each phase of its run and for each
// history of the connection: the reply, and the latest event where the
// connection has not heard of the run.
func TestRepeatedToken(t *testing.T) {
	for _, id := range []string{"MGR-3", "MGR-4", "MGR-6", "MGR-28"} {
		t.Attr("requirement", id)
	}
	for _, c := range []struct{ phase, latest, end string }{
		{"queued", "", "finished 2 cancelled"},
		{"running", "started 2", "finished 2 cancelled"},
		{"draining", "started 2", "finished 2 exited 0"},
		{"finished", "finished 2 exited 0", ""},
		{"failed", "failed_to_start 2: no version matches", ""},
	} {
		t.Run(c.phase, func(t *testing.T) {
			w := newWorld(t, Config{Permits: 1})
			first, own, child := inPhase(t, w, c.phase)
			id := ID(2)
			foreign := newChild(t)
			repeat := func(c *conn) {
				t.Helper()
				if got, _ := w.run(c, order{token: "t", child: foreign}); got != id {
					t.Fatalf("a repeat got id %d", got)
				}
			}
			lines := func(s ...string) []string {
				var all []string
				for _, l := range s {
					if l != "" {
						all = append(all, l)
					}
				}
				return all
			}
			repeat(first)
			first.hears(t, append(own, "id 2")...)

			fresh := newConn()
			repeat(fresh)
			repeat(fresh)
			fresh.hears(t, lines("id 2", c.latest, "id 2")...)

			viaAttach := newConn()
			if err := w.attach(viaAttach, id); err != nil {
				t.Fatal(err)
			}
			repeat(viaAttach)
			snapshot := c.latest
			if snapshot == "" {
				snapshot = "queued 2"
			}
			viaAttach.hears(t, "snapshot "+snapshot, "id 2")

			lost := newConn()
			repeat(lost)
			w.table.Disconnect(context.Background(), lost)
			lost.hears(t, lines("id 2", c.latest)...)

			if err := w.cancel(id); err != nil {
				t.Fatal(err)
			}
			w.gate.openAll()
			w.wait(id)
			first.hears(t, append(own, lines("id 2", c.end)...)...)
			fresh.hears(t, lines("id 2", c.latest, "id 2", c.end)...)
			viaAttach.hears(t, lines("snapshot "+snapshot, "id 2", c.end)...)
			lost.hears(t, lines("id 2", c.latest)...)
			repeat(fresh)
			repeat(viaAttach)
			fresh.hears(t, lines("id 2", c.latest, "id 2", c.end, "id 2")...)
			viaAttach.hears(t, lines("snapshot "+snapshot, "id 2", c.end, "id 2")...)
			if foreign.calls() != "[] 0" {
				t.Errorf("a repeat was prepared: %s", foreign.calls())
			}
			_ = child
		})
	}
}

// inPhase brings run 2, with the token t, into a phase, and returns its
// connection with what that heard.
func inPhase(t *testing.T, w *world, phase string) (*conn, []string, *child) {
	t.Helper()
	_, blocker := w.run(nil, order{})
	c := newConn()
	o := order{token: "t"}
	if phase == "failed" {
		o.refuse = errRefused
	}
	id, child := w.run(c, o)
	if phase == "queued" {
		return c, []string{"id 2"}, child
	}
	blocker.obey(t, "exit 0")
	switch phase {
	case "failed":
		w.wait(id)
		return c, []string{"id 2", "failed_to_start 2: no version matches"}, child
	case "draining":
		w.wait(1)
		w.gate.shutOn("RunFinish")
		child.obey(t, "exit 0")
		w.gate.arrived(t, "RunFinish", id)
	case "finished":
		child.obey(t, "exit 0")
		w.wait(id)
		return c, []string{"id 2", "started 2", "finished 2 exited 0"}, child
	}
	c.hears(t, "id 2", "started 2")
	return c, []string{"id 2", "started 2"}, child
}

// A token is free once its run was acked or has expired, and no earlier. An
// empty token is a token; no token is none.
func TestTokenIsReleased(t *testing.T) {
	t.Attr("requirement", "MGR-5")
	t.Attr("requirement", "MGR-3")
	for name, release := range map[string]func(*world, ID){
		"ack":    func(w *world, id ID) { _ = w.ack(id) },
		"expiry": func(w *world, _ ID) { w.clock.advance(DefaultRetention) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			for round := range ID(3) {
				id, _ := w.run(nil, order{token: "t", refuse: errRefused})
				w.wait(id)
				if again, _ := w.run(nil, order{token: "t", refuse: errRefused}); id != round+1 || again != id {
					t.Errorf("round %d: ids %d and %d", round, id, again)
				}
				release(w, id)
			}
		})
	}
	w := newWorld(t, Config{})
	s := Spec{Token: new(string), Deadline: time.Hour, Prepare: func(context.Context, ID) (*Prepared, error) { return nil, errRefused }}
	for range 2 {
		if err := w.table.Run(context.Background(), s, nil, func(id ID) {
			if id != 1 {
				t.Errorf("the empty token got id %d", id)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if id, _ := w.run(nil, order{refuse: errRefused}); id != 2 {
		t.Errorf("a run without a token got id %d", id)
	}
	if id, _ := w.run(nil, order{refuse: errRefused}); id != 3 {
		t.Errorf("a second run without a token got id %d", id)
	}
}

// Of many requests with one token at one time, one starts a process and all get
// its id, each before its events.
func TestTokenUnderContention(t *testing.T) {
	t.Attr("requirement", "MGR-3")
	t.Attr("requirement", "MGR-28")
	w := newWorld(t, Config{Permits: 8})
	ch := newChild(t)
	var prepared atomic.Int64
	token := "t"
	conns := make([]*conn, 32)
	var wg sync.WaitGroup
	for i := range conns {
		conns[i] = newConn()
		wg.Go(func() {
			err := w.table.Run(context.Background(), Spec{Token: &token, Deadline: time.Hour, Permits: 1,
				Prepare: func(context.Context, ID) (*Prepared, error) {
					prepared.Add(1)
					return ch.prepared(), nil
				}}, conns[i], func(id ID) { conns[i].add(fmt.Sprint("id ", id)) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ch.obey(t, "exit 0")
	w.wait(1)
	for i, c := range conns {
		c.mu.Lock()
		heard := strings.Join(c.got, ", ")
		c.mu.Unlock()
		if heard != "id 1, started 1, finished 1 exited 0" {
			t.Errorf("connection %d heard %q", i, heard)
		}
	}
	if n := prepared.Load(); n != 1 {
		t.Errorf("%d requests were prepared", n)
	}
}
