package runs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/execution"
)

// managerOfOne is a manager with one run, whose process names itself on the
// manager's stdout.
func managerOfOne() int {
	table := New(Config{})
	err := table.Run(context.Background(), Spec{Deadline: time.Hour, Prepare: func(context.Context, ID) (*Prepared, error) {
		return &Prepared{Command: &execution.Command{
			Path: "/bin/sh", Args: []string{"sh", "-c", "echo $$ >&3; exec sleep 600"}, Env: []string{"PATH=/bin:/usr/bin"},
			Descriptors: []execution.Descriptor{{File: os.Stdout}},
		}}, nil
	}}, nil, func(ID) {})
	if err != nil {
		return 1
	}
	ev, err := table.Wait(context.Background(), 1, func(ev Event) bool { return ev.Kind.Terminal() })
	fmt.Fprintln(os.Stderr, show(ev), err)
	return 1
}

// A manager that is killed with SIGKILL takes its executors with it.
func TestExecutorsDieWithTheManager(t *testing.T) {
	t.Attr("requirement", "MGR-26")
	manager := exec.Command("/proc/self/exe")
	manager.Env = []string{"RUNS_HELPER=manager"}
	out, err := manager.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the manager named no executor: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = manager.Wait() // it was killed, and says so
	gone(t, pid)
}

// A process that left its group outlives the run, since no signal may reach it,
// but it costs the manager no descriptor.
func TestLeaverCostsNoDescriptor(t *testing.T) {
	t.Attr("requirement", "MGR-30")
	w := newWorld(t, Config{})
	warm, ch := w.run(nil, order{})
	ch.obey(t, "exit 0")
	w.wait(warm)
	ch.close()
	before := descriptors(t)
	id, ch := w.run(nil, order{})
	ch.obey(t, `setsid sh -c 'echo $$ >&4; exec sleep 600 4>&-' & exit 0`)
	leaver := ch.number(t)
	defer func() { _ = unix.Kill(leaver, unix.SIGKILL) }()
	w.clock.pending(t, execution.DefaultLinger, 1)
	w.clock.advance(execution.DefaultLinger)
	w.wait(id)
	ch.close()
	for end := time.Now().Add(10 * time.Second); descriptors(t) > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors, %d before", descriptors(t), before)
		}
	}
	if err := unix.Kill(leaver, 0); err != nil {
		t.Errorf("the process that left is gone: %v; nothing was shown", err)
	}
}
