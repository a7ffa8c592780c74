package execution

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// ready waits until the command's output holds text.
func ready(t testing.TB, e *Exec, text string) {
	t.Helper()
	r := e.Subscribe(0)
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got strings.Builder
	for !strings.Contains(got.String(), text) {
		ev, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("%q did not appear, only %q: %v", text, got.String(), err)
		}
		got.Write(ev.Data)
	}
}

// killing starts a kill and returns its outcome's channel.
func killing(e *Exec) (done chan struct{}, signalled *bool) {
	done, signalled = make(chan struct{}), new(bool)
	go func() {
		defer close(done)
		*signalled, _ = e.Kill(context.Background())
	}()
	return done, signalled
}

const (
	// An ignored signal stays ignored over an exec.
	stubborn = `trap '' TERM; echo up; exec sleep 1000`
	// survivor leaves a member behind that ignores SIGTERM and holds the pipes.
	survivor = `(trap '' TERM; echo up; exec sleep 1000) & exit 0`
)

func withStdin(script string) *Command {
	c := sh(script)
	c.Stdin = true
	return c
}

// SIGTERM ends a plain command, and the result says so.
func TestKillTerminates(t *testing.T) {
	t.Attr("requirement", "KILL-1")
	t.Attr("requirement", "KILL-2")
	t.Attr("requirement", "KILL-13")
	t.Attr("requirement", "EXEC-33")
	e := start(t, newRegistry(t, Config{}), "x", withStdin("echo up; read x"))
	ready(t, e, "up\n")
	signalled, err := e.Kill(context.Background())
	if err != nil || !signalled {
		t.Errorf("Kill = %v, %v; want true", signalled, err)
	}
	if r := finished(t, e); status(r) != "signal 15" || r.Cause != CauseKilled || r.TimedOut {
		t.Errorf("result = %s, cause %v", status(r), r.Cause)
	}
	if signalled, err := e.Kill(context.Background()); err != nil || signalled {
		t.Errorf("a kill of nothing = %v, %v; want false", signalled, err)
	}
}

// A leader that ignores SIGTERM gets SIGKILL when the grace has passed, not
// before.
func TestKillEscalatesAfterGrace(t *testing.T) {
	t.Attr("requirement", "KILL-3")
	clock, rec := newStepClock(), &recorder{}
	e := start(t, newRegistry(t, Config{Clock: clock, Recorder: rec}), "x", withStdin(stubborn))
	ready(t, e, "up\n")
	done, signalled := killing(e)
	clock.pending(t, DefaultKillGrace)
	clock.Advance(DefaultKillGrace - time.Millisecond)
	clock.pending(t, DefaultScanInterval) // the look that the step caused has ended
	if rec.count(trace.GroupKill) != 0 {
		t.Error("SIGKILL before the grace had passed")
	}
	clock.Advance(time.Millisecond)
	clock.run(t, DefaultScanInterval, done)
	if !*signalled || status(finished(t, e)) != "signal 9" {
		t.Errorf("signalled %v, %s", *signalled, status(finished(t, e)))
	}
	want := []trace.Action{trace.ExecKill, trace.GroupTerm, trace.GraceExpire, trace.GroupKill, trace.GroupGone}
	if got := rec.actions(want...); !slices.Equal(got, want) {
		t.Errorf("actions = %v, want %v", got, want)
	}
}

// A kill reaches the members that outlived the leader: while the command
// lingers, after its exit and after its ack; and it does not end when the
// leader has.
func TestKillReachesSurvivors(t *testing.T) {
	t.Attr("requirement", "KILL-6")
	t.Attr("requirement", "KILL-14")
	for _, when := range []string{"lingering", "exited", "acked"} {
		for _, proof := range []string{"handle", "start time"} {
			t.Run(when+" by "+proof, func(t *testing.T) {
				clock, rec := newStepClock(), &recorder{}
				waits := NewWaits()
				waits.noPidfd = proof == "start time"
				e := start(t, newRegistry(t, Config{Clock: clock, Recorder: rec, Waits: waits}), "x", withStdin(survivor))
				ready(t, e, "up\n")
				clock.pending(t, DefaultLinger)
				if when != "lingering" {
					clock.Advance(DefaultLinger)
					if r := finished(t, e); !r.WritersMayBeAlive {
						t.Error("writers_may_be_alive is false with a survivor")
					}
				}
				if when == "acked" {
					if _, err := e.Ack(); err != nil {
						t.Fatal(err)
					}
				}
				if g := e.Group(); len(g.Pids) != 1 || g.ChildExited != (when != "lingering") {
					t.Fatalf("group = %+v, want one survivor", g)
				}
				done, signalled := killing(e)
				clock.pending(t, DefaultKillGrace)
				clock.Advance(DefaultKillGrace)
				clock.run(t, DefaultScanInterval, done)
				if g := e.Group(); !*signalled || len(g.Pids) != 0 || rec.count(trace.GroupKill) != 1 {
					t.Errorf("signalled %v, left %v, %d kills", *signalled, g.Pids, rec.count(trace.GroupKill))
				}
			})
		}
	}
}

// Kills that meet share one escalation: one SIGTERM, one SIGKILL, the same
// answer. A kill whose context ends stops waiting, and the escalation goes on.
func TestKillsShareOneEscalation(t *testing.T) {
	t.Attr("requirement", "KILL-15")
	clock, rec := newStepClock(), &recorder{}
	e := start(t, newRegistry(t, Config{Clock: clock, Recorder: rec}), "x", withStdin(stubborn))
	ready(t, e, "up\n")
	ctx, cancel := context.WithCancel(context.Background())
	gaveUp := make(chan error)
	go func() {
		_, err := e.Kill(ctx)
		gaveUp <- err
	}()
	clock.pending(t, DefaultKillGrace)
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("a kill called off = %v, want context.Canceled", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if signalled, err := e.Kill(context.Background()); err != nil || !signalled {
				t.Errorf("Kill = %v, %v; want true", signalled, err)
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	for rec.count(trace.ExecKill) < 9 {
		clock.pending(t, DefaultScanInterval)
	}
	clock.Advance(DefaultKillGrace)
	clock.run(t, DefaultScanInterval, all)
	if term, kill := rec.count(trace.GroupTerm), rec.count(trace.GroupKill); term != 1 || kill != 1 {
		t.Errorf("%d SIGTERM and %d SIGKILL, want one of each", term, kill)
	}
}

// At the deadline the group is escalated against, the result says timed_out
// beside the raw status, and reap_group_on_exit does not escalate again.
func TestDeadline(t *testing.T) {
	t.Attr("requirement", "EXEC-31")
	t.Attr("requirement", "EXEC-32")
	t.Attr("requirement", "KILL-11")
	for _, c := range []struct{ name, script, status string }{
		{"dies of it", "echo up; read x", "signal 15"},
		{"exits 0 on SIGTERM", "trap 'exit 0' TERM; echo up; while :; do read x; done", "exit 0"},
		{"ignores it", stubborn, "signal 9"},
		{"leaves a member that ignores it", `(trap '' TERM; echo up; exec sleep 1000) & wait`, "signal 15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, rec := newStepClock(), &recorder{}
			cmd := withStdin(c.script)
			cmd.Timeout, cmd.ReapGroup = 3*time.Second, true
			e := start(t, newRegistry(t, Config{Clock: clock, Recorder: rec}), "x", cmd)
			ready(t, e, "up\n")
			clock.Advance(3 * time.Second)
			if strings.Contains(c.script, "trap ''") {
				clock.pending(t, DefaultKillGrace)
				clock.run(t, time.Second, e.Done())
			}
			r := finished(t, e)
			if status(r) != c.status || !r.TimedOut || r.Cause != CauseDeadline {
				t.Errorf("result = %s, timed out %v, cause %v", status(r), r.TimedOut, r.Cause)
			}
			if n := rec.count(trace.GroupTerm); n != 1 {
				t.Errorf("%d SIGTERM, want 1", n)
			}
		})
	}
}

// The deadline is over once the leader has ended: a linger is not a timeout.
func TestDeadlineStopsAtLeaderExit(t *testing.T) {
	t.Attr("requirement", "EXEC-40")
	clock := newStepClock()
	cmd := withStdin(survivor)
	cmd.Timeout = time.Second
	e := start(t, newRegistry(t, Config{Clock: clock}), "x", cmd)
	ready(t, e, "up\n")
	clock.pending(t, DefaultLinger)
	if slices.Contains(clock.Spans(), time.Second) {
		t.Error("the deadline is still armed in the linger")
	}
	clock.Advance(DefaultLinger)
	if r := finished(t, e); r.TimedOut || status(r) != "exit 0" {
		t.Errorf("result = %s, timed out %v", status(r), r.TimedOut)
	}
	done, _ := killing(e)
	clock.pending(t, DefaultKillGrace)
	clock.Advance(DefaultKillGrace)
	clock.run(t, DefaultScanInterval, done)
}

// With reap_group_on_exit what the leader left is ended before the linger, so
// the pipes end and no writer is alive.
func TestReapBeforeLinger(t *testing.T) {
	t.Attr("requirement", "KILL-10")
	clock, rec := newStepClock(), &recorder{}
	cmd := withStdin(survivor)
	cmd.ReapGroup = true
	e := start(t, newRegistry(t, Config{Clock: clock, Recorder: rec}), "x", cmd)
	clock.pending(t, DefaultKillGrace)
	if slices.Contains(clock.Spans(), DefaultLinger) {
		t.Error("the linger runs during the reap")
	}
	clock.Advance(DefaultKillGrace)
	clock.run(t, DefaultScanInterval, e.Done())
	if r := finished(t, e); r.WritersMayBeAlive || status(r) != "exit 0" || r.Cause != CauseExited {
		t.Errorf("result = %+v", r)
	}
	want := []trace.Action{trace.LeaderReap, trace.GroupTerm, trace.GroupGone, trace.ExecExit}
	if got := rec.actions(want...); !slices.Equal(got, want) {
		t.Errorf("actions = %v, want %v", got, want)
	}
}

// A member that was left as a zombie ends an escalation: PID 1 of a VM may
// never reap it. The leader itself stays one while its reaping is held back.
func TestZombiesEndAnEscalation(t *testing.T) {
	t.Attr("requirement", "KILL-4")
	t.Attr("requirement", "KILL-7")
	clock := newStepClock()
	gate := newGate(trace.LeaderReap)
	e := start(t, newRegistry(t, Config{Clock: clock, Gate: gate}), "x", withStdin("echo up; read x"))
	ready(t, e, "up\n")
	done, signalled := killing(e)
	gate.arrived(t, trace.LeaderReap)
	clock.run(t, DefaultScanInterval, done) // well within the grace
	if !*signalled {
		t.Error("the kill signalled nobody")
	}
	if g := e.Group(); len(g.Pids) != 0 || g.ChildExited {
		t.Errorf("group = %+v; want no live member and no exit", g)
	}
	gate.open(trace.LeaderReap)
	finished(t, e)
}

// A stopped member is ended by SIGKILL.
func TestKillEndsStoppedMembers(t *testing.T) {
	t.Attr("requirement", "KILL-3")
	clock := newStepClock()
	e := start(t, newRegistry(t, Config{Clock: clock}), "x", withStdin("echo up; kill -STOP $$; read x"))
	stopped(t, e)
	done, _ := killing(e)
	clock.pending(t, DefaultKillGrace)
	clock.Advance(DefaultKillGrace)
	clock.run(t, DefaultScanInterval, done)
	if s := status(finished(t, e)); s != "signal 9" {
		t.Errorf("status = %s", s)
	}
}

// A zombie leader whose other threads run on is a live member: it is listed,
// and a kill ends it.
func TestZombieLeaderWithLiveThread(t *testing.T) {
	t.Attr("requirement", "KILL-8")
	t.Attr("requirement", "PROC-2")
	e := start(t, newRegistry(t, Config{}), "x", helperCommand("headless"))
	ready(t, e, "headless\n")
	table := procFS{"/proc"}
	for { // the thread that ended its leader said so just before
		p, err := table.stat(e.group.id)
		if err != nil {
			t.Fatal(err)
		}
		if p.state == 'Z' {
			break
		}
	}
	if g := e.Group(); !slices.Equal(g.Pids, []int{*g.Pgid}) || e.Poll().Phase != PhaseRunning {
		t.Errorf("group = %+v, phase %v; want the leader alone, running", g, e.Poll().Phase)
	}
	if signalled, err := e.Kill(context.Background()); err != nil || !signalled {
		t.Errorf("Kill = %v, %v", signalled, err)
	}
	if g := e.Group(); len(g.Pids) != 0 {
		t.Errorf("left after the kill: %v", g.Pids)
	}
	finished(t, e)
}

// A kill plan of the manager's kind is one SIGKILL at once, to the leader only.
func TestKillPlanOfOneSignal(t *testing.T) {
	rec := &recorder{}
	plan := KillAtOnce()
	plan.LeaderOnly = true
	cmd := withStdin(stubborn)
	cmd.Kill = &plan
	e := start(t, newRegistry(t, Config{Recorder: rec}), "x", cmd)
	ready(t, e, "up\n")
	if signalled, err := e.Kill(context.Background()); err != nil || !signalled {
		t.Errorf("Kill = %v, %v", signalled, err)
	}
	if r := finished(t, e); status(r) != "signal 9" || rec.count(trace.GroupTerm) != 0 {
		t.Errorf("status %s, %d SIGTERM", status(r), rec.count(trace.GroupTerm))
	}
	if syscall.Kill(e.group.id, 0) == nil {
		t.Error("the leader was not collected")
	}
}
