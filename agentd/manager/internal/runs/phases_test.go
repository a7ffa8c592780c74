package runs

import (
	"context"
	"errors"
	"slices"
	"testing"

	"microvms/agentd/trace"
)

// brought is a run that was brought into a phase.
type brought struct {
	id    ID
	conn  *conn
	child *child
	then  func() // lets it go on
}

// phases bring a run into each phase of the table of manager facts, section
// 5.1, on a table with one permit.
var phases = map[string]func(w *world) brought{
	"never existed": func(*world) brought { return brought{id: 999, conn: newConn()} },
	"acked": func(w *world) brought {
		b := ended(w)
		if err := w.ack(b.id); err != nil {
			w.t.Fatal(err)
		}
		return b
	},
	"expired": func(w *world) brought {
		b := ended(w)
		w.clock.advance(DefaultRetention)
		return b
	},
	"queued": func(w *world) brought {
		_, blocker := w.run(nil, order{})
		b := brought{conn: newConn()}
		b.id, b.child = w.run(b.conn, order{})
		b.then = func() { blocker.obey(w.t, "exit 0") }
		return b
	},
	"granted": func(w *world) brought {
		w.gate.shutOn(trace.RunSpawn)
		b := brought{conn: newConn()}
		b.id, b.child = w.run(b.conn, order{})
		w.gate.arrived(w.t, trace.RunSpawn, b.id)
		b.then = func() { w.gate.open(trace.RunSpawn) }
		return b
	},
	"running": running,
	"draining": func(w *world) brought {
		w.gate.shutOn(trace.RunFinish)
		b := running(w)
		b.child.obey(w.t, "exit 0")
		w.gate.arrived(w.t, trace.RunFinish, b.id)
		b.then = func() { w.gate.open(trace.RunFinish) }
		return b
	},
	"finished": ended,
	"failed": func(w *world) brought {
		b := brought{conn: newConn(), then: func() {}}
		b.id, b.child = w.run(b.conn, order{refuse: errRefused})
		w.wait(b.id)
		return b
	},
}

func running(w *world) brought {
	b := brought{conn: newConn(), then: func() {}}
	b.id, b.child = w.run(b.conn, order{})
	b.conn.hears(w.t, "id 1", "started 1")
	return b
}

func ended(w *world) brought {
	b := running(w)
	b.child.obey(w.t, "printf hi; exit 0")
	w.wait(b.id)
	return b
}

// Every cell of the phase table: what attach, cancel, ack and get_artifact
// answer, and what the connection that asked for the run hears because of it.
func TestPhaseTable(t *testing.T) {
	for _, id := range []string{"MGR-11", "MGR-12", "MGR-13", "MGR-14", "MGR-19", "MGR-20", "MGR-22", "MGR-27"} {
		t.Attr("requirement", id)
	}
	cells := []struct {
		phase, attach string // "": unknown
		cancel, ack   error
		artifact      error
		heard         []string // before the operation
		cancelled     []string // what a cancel adds
	}{
		{phase: "never existed", cancel: ErrUnknown, ack: ErrUnknown, artifact: ErrUnknown},
		{phase: "acked", cancel: ErrUnknown, ack: ErrUnknown, artifact: ErrUnknown,
			heard: []string{"id 1", "started 1", "finished 1 exited 0"}},
		{phase: "expired", cancel: ErrUnknown, ack: ErrUnknown, artifact: ErrUnknown,
			heard: []string{"id 1", "started 1", "finished 1 exited 0"}},
		{phase: "queued", attach: "queued 2", ack: ErrNotFinished, artifact: ErrUnknown,
			heard: []string{"id 2"}, cancelled: []string{"finished 2 cancelled"}},
		{phase: "granted", attach: "queued 1", ack: ErrNotFinished, artifact: ErrUnknown,
			heard: []string{"id 1"}, cancelled: []string{"finished 1 cancelled"}},
		{phase: "running", attach: "started 1", ack: ErrNotFinished, artifact: ErrUnknown,
			heard: []string{"id 1", "started 1"}, cancelled: []string{"finished 1 cancelled"}},
		{phase: "draining", attach: "started 1", ack: ErrNotFinished, artifact: ErrUnknown,
			heard: []string{"id 1", "started 1"}, cancelled: []string{"finished 1 exited 0"}},
		{phase: "finished", attach: "finished 1 exited 0",
			heard: []string{"id 1", "started 1", "finished 1 exited 0"}},
		{phase: "failed", attach: "failed_to_start 1: no version matches", artifact: ErrUnknown,
			heard: []string{"id 1", "failed_to_start 1: no version matches"}},
	}
	if len(cells) != len(phases) {
		t.Fatalf("%d rows for %d phases", len(cells), len(phases))
	}
	for _, c := range cells {
		in := func(op string, f func(t *testing.T, w *world, b brought)) {
			t.Run(c.phase+"/"+op, func(t *testing.T) {
				w := newWorld(t, Config{Permits: 1})
				b := phases[c.phase](w)
				b.conn.hears(t, c.heard...)
				f(t, w, b)
			})
		}
		in("attach", func(t *testing.T, w *world, b brought) {
			other := newConn()
			switch err := w.attach(other, b.id); {
			case c.attach == "":
				if err != ErrUnknown {
					t.Errorf("Attach = %v", err)
				}
				other.hears(t)
			case err != nil:
				t.Errorf("Attach = %v", err)
			default:
				other.hears(t, "snapshot "+c.attach)
			}
			b.conn.hears(t, c.heard...)
		})
		in("cancel", func(t *testing.T, w *world, b brought) {
			if err := w.cancel(b.id); err != c.cancel {
				t.Errorf("Cancel = %v, want %v", err, c.cancel)
			}
			if b.then != nil {
				b.then()
			}
			all := slices.Concat(c.heard, c.cancelled)
			b.conn.hears(t, all...)
			w.end() // what was going to come has come
			b.conn.hears(t, all...)
		})
		in("ack", func(t *testing.T, w *world, b brought) {
			if err := w.ack(b.id); err != c.ack {
				t.Errorf("Ack = %v, want %v", err, c.ack)
			}
			want := error(nil)
			if c.attach == "" || c.ack == nil {
				want = ErrUnknown
			}
			if err := w.attach(newConn(), b.id); err != want {
				t.Errorf("Attach after the ack = %v, want %v", err, want)
			}
			b.conn.hears(t, c.heard...)
		})
		in("get_artifact", func(t *testing.T, w *world, b brought) {
			got, err := w.read(b.id, Stdout)
			if err != c.artifact || (err == nil && got != "hi") {
				t.Errorf("Artifact = %q, %v, want %v", got, err, c.artifact)
			}
			want := c.artifact
			if want == nil {
				want = ErrField // judged only where there are artifacts
			}
			if _, err = w.read(b.id, "result"); err != want {
				t.Errorf("Artifact of a wrong field = %v, want %v", err, want)
			}
			b.conn.hears(t, c.heard...)
		})
	}
}

// A canceled context ends the wait at each gate, and then nothing happens.
func TestGatesGiveUp(t *testing.T) {
	steps := []trace.Action{trace.RunAccept, trace.RunAttach, trace.RunStop, trace.RunAck, trace.RunRead}
	w := newWorld(t, Config{})
	b := ended(w)
	for _, a := range steps {
		w.gate.shutOn(a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	table, c := w.table, newConn()
	_, _, read := table.Artifact(ctx, b.id, Stdout, 0, 1)
	for i, err := range []error{
		table.Run(ctx, Spec{}, c, func(ID) { t.Error("a reply") }),
		table.Attach(ctx, b.id, c, func(Event) { t.Error("a snapshot") }),
		table.Cancel(ctx, b.id), table.Ack(ctx, b.id), read,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v", steps[i], err)
		}
	}
	if got := len(table.Status()); got != 1 {
		t.Errorf("%d runs are known", got)
	}
}
