package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// An acked record lives for the retention, which its ack starts, and one that
// is not acked for ever. A collected id is unknown and can be used again.
func TestRetention(t *testing.T) {
	for _, req := range []string{"EXEC-24", "EXEC-25", "EXEC-26", "EXEC-27", "EXEC-28", "EXEC-29", "OUT-11"} {
		t.Attr("requirement", req)
	}
	clock, rec := newStepClock(), &recorder{}
	r := newRegistry(t, Config{Clock: clock, Recorder: rec})
	acked := start(t, r, "acked", sh("echo one"))
	kept := start(t, r, "kept", sh("echo two"))
	finished(t, acked)
	finished(t, kept)
	clock.Advance(DefaultRetention) // before the ack: it must not count
	if _, err := acked.Ack(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(DefaultRetention - time.Second)
	if _, ok := r.Lookup(key("acked")); !ok {
		t.Fatal("collected before the retention had passed")
	}
	if got := readAll(t, acked.Subscribe(0)); got.text[Stdout] != "one\n" {
		t.Errorf("the ring after the ack holds %q", got.text[Stdout])
	}
	late := acked.Subscribe(0)
	defer late.Close()
	clock.Advance(time.Second)
	for rec.count(trace.ExecCollect) == 0 {
		next(t, kept.Subscribe(0)) // any step of the core: the collector runs beside
	}
	if _, ok := r.Lookup(key("acked")); ok {
		t.Error("found after its collection")
	}
	if n, busy := r.Counts(); n != 1 || busy {
		t.Errorf("Counts = %d, %v; want 1, false", n, busy)
	}
	if got := show(next(t, late)); got != "stdout@0:one\n" {
		t.Errorf("a reader attached before the collection gets %s", got)
	}
	again := start(t, r, "acked", sh("echo three"))
	if res := finished(t, again); string(res.Stdout) != "three\n" {
		t.Errorf("the id's second life printed %q", res.Stdout)
	}
	clock.Advance(100 * DefaultRetention)
	if res := finished(t, kept); string(res.Stdout) != "two\n" {
		t.Errorf("the unacked result is %q", res.Stdout)
	}
}

// With the manager's policies a record ends by its own age, and an ack removes
// it at once.
func TestRetentionOfTheManager(t *testing.T) {
	clock, rec := newStepClock(), &recorder{}
	r := newRegistry(t, Config{Clock: clock, Recorder: rec, RetainFrom: RetainFromExit, AckLeaves: AckRemoves, Retention: time.Minute})
	a, b := start(t, r, "a", sh("true")), start(t, r, "b", sh("true"))
	finished(t, a)
	finished(t, b)
	if _, err := a.Ack(); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup(key("a")); ok {
		t.Error("found after its ack")
	}
	clock.pending(t, time.Minute)
	clock.Advance(time.Minute)
	for rec.count(trace.ExecCollect) < 2 {
		_ = b.Poll()
	}
	if n, _ := r.Counts(); n != 0 {
		t.Errorf("%d records left", n)
	}
}

// All is sorted by the order of starts, Counts tells busy exactly until the
// terminal marker, and neither waits for a command whose end is held back.
func TestAllAndCounts(t *testing.T) {
	t.Attr("requirement", "HEALTH-3")
	t.Attr("requirement", "HEALTH-4")
	t.Attr("requirement", "HEALTH-6")
	t.Attr("requirement", "PROC-3")
	gate := newGate(trace.ExecExit)
	r := newRegistry(t, Config{Gate: gate})
	var execs []*Exec
	for i := range 12 {
		execs = append(execs, start(t, r, fmt.Sprint(i), sh("true")))
	}
	gate.arrived(t, trace.ExecExit)
	for i, e := range r.All() {
		if e != execs[i] || e.Key() != key(fmt.Sprint(i)) {
			t.Fatalf("All()[%d] = %v", i, e.Key())
		}
		if e.Group().ChildExited {
			t.Error("child_exited before the terminal marker")
		}
	}
	if n, busy := r.Counts(); n != 12 || !busy {
		t.Errorf("Counts = %d, %v; want 12, true", n, busy)
	}
	gate.open(trace.ExecExit)
	for _, e := range execs {
		finished(t, e)
		if g := e.Group(); !g.ChildExited || g.Pgid == nil || g.Pids == nil || len(g.Pids) != 0 {
			t.Errorf("group after the end = %+v", g)
		}
	}
	if n, busy := r.Counts(); n != 12 || busy {
		t.Errorf("Counts = %d, %v; want 12, false", n, busy)
	}
}

// Close ends readers, starts and kills with ErrClosed, and with KillOnClose it
// publishes the results of what it killed.
func TestClose(t *testing.T) {
	for _, kill := range []bool{false, true} {
		r := New(Config{KillOnClose: kill})
		e := start(t, r, "x", withStdin("trap '' TERM; echo up; read x"))
		ready(t, e, "up\n")
		reader := e.Subscribe(0)
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Start(context.Background(), key("y"), given(sh("true"))); err != ErrClosed {
			t.Errorf("Start after Close = %v", err)
		}
		if _, err := e.Kill(context.Background()); err != ErrClosed {
			t.Errorf("Kill after Close = %v", err)
		}
		if !kill {
			continue
		}
		res := finished(t, e)
		if status(res) != "signal 9" || res.Cause != CauseShutdown {
			t.Errorf("result = %s, cause %v", status(res), res.Cause)
		}
		var last StreamEvent
		for {
			ev, err := reader.Next(context.Background())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last = ev
		}
		if last.Kind != Exit {
			t.Errorf("the stream ended with %s", show(last))
		}
	}
}

// A start that is called off decides nothing for those that wait, one that
// fails decides for all, and a panic in prepare leaves no reservation.
func TestStartOutcomeIsShared(t *testing.T) {
	t.Attr("requirement", "EXEC-3")
	t.Attr("requirement", "EXEC-5")
	no := errors.New("no")
	for _, c := range []struct {
		name  string
		first func(context.Context, context.CancelFunc) (*Command, error)
		want  error
	}{
		{"fails", func(context.Context, context.CancelFunc) (*Command, error) { return nil, no }, no},
		{"is called off", func(ctx context.Context, cancel context.CancelFunc) (*Command, error) {
			cancel()
			return nil, ctx.Err()
		}, nil},
		{"panics", func(context.Context, context.CancelFunc) (*Command, error) { panic("planted") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t, Config{})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			in, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(over)
				defer func() { _ = recover() }()
				_, _, _ = r.Start(ctx, key("x"), func(ctx context.Context) (*Command, error) {
					close(in)
					<-goOn
					return c.first(ctx, cancel)
				})
			}()
			<-in
			got := make(chan error, 1)
			waits := make(chan struct{})
			go func() {
				ctx := &watchedContext{Context: context.Background(), asked: func() { close(waits) }}
				e, _, err := r.Start(ctx, key("x"), given(sh("true")))
				if err == nil {
					<-e.Done()
				}
				got <- err
			}()
			if n, busy := r.Counts(); n != 0 || busy {
				t.Errorf("a reservation is counted: %d, %v", n, busy)
			}
			await(t, waits, "the second start's wait for the outcome")
			close(goOn)
			if err := <-got; !errors.Is(err, c.want) {
				t.Errorf("the second start = %v, want %v", err, c.want)
			}
			<-over
		})
	}
}

// watchedContext tells when somebody first waits for its end.
type watchedContext struct {
	context.Context
	asked func()
	once  sync.Once
}

func (c *watchedContext) Done() <-chan struct{} {
	c.once.Do(c.asked)
	return c.Context.Done()
}
