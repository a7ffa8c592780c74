package execution

import (
	"context"
	"syscall"
	"testing"
)

// A child of our own that has ended is not reaped as an orphan, and its status
// is there when its owner comes for it; afterwards the pid is nobody's.
func TestReaperLeavesOwnChildren(t *testing.T) {
	t.Attr("requirement", "WAIT-2")
	for _, noPidfd := range []bool{false, true} {
		w := NewWaits()
		w.noPidfd = noPidfd
		p, err := w.Start("/bin/sh", []string{"sh", "-c", "exit 3"}, &syscall.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Exited(context.Background()); err != nil {
			t.Fatal(err)
		}
		if w.reapOrphan(p.Pid) {
			t.Error("an own child was reaped as an orphan")
		}
		if s := p.Collect(); !s.Known || s.ExitCode != 3 {
			t.Errorf("status = %+v, want exit code 3", s)
		}
		if s := p.Collect(); s.Known || w.owns(p.Pid) {
			t.Errorf("a second collection = %+v", s)
		}
		p.Release()
	}
}

// Without the reaper's mode a host's own child is nobody's but the host's.
func TestWaitsLeavesForeignChildren(t *testing.T) {
	t.Attr("requirement", "WAIT-3")
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 4"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, Config{})
	for i := range 20 {
		finished(t, start(t, r, string(rune('a'+i)), sh("exit 0")))
	}
	var ws syscall.WaitStatus
	if got, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || got != pid || ws.ExitStatus() != 4 {
		t.Errorf("the host's child = %d, %v, exit %d", got, err, ws.ExitStatus())
	}
}

// A wait ends with its context, and the child can be waited for again.
func TestExitedContext(t *testing.T) {
	w := NewWaits()
	p, err := w.Start("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Exited(ctx); err != context.Canceled {
		t.Errorf("Exited with an ended context = %v", err)
	}
	if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Wait(context.Background()); err != nil || s.Signal != 9 || !s.Known {
		t.Errorf("Wait = %+v, %v", s, err)
	}
}
