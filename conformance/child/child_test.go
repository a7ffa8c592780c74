package child

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	RunIfAsked()
	os.Exit(m.Run())
}

// start starts a child outside any daemon, in a group of its own.
func start(t *testing.T, c *Controller, name string, stdin io.Reader, stdout io.Writer) (*exec.Cmd, *Process) {
	t.Helper()
	argv, err := Command(c.Socket(), name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	for name, value := range Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := c.Await(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != cmd.Process.Pid {
		t.Fatalf("the child says pid %d, it is %d", p.PID, cmd.Process.Pid)
	}
	return cmd, p
}

func listen(t *testing.T) *Controller {
	t.Helper()
	c, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestChildObeys takes one child through every command.
func TestChildObeys(t *testing.T) {
	c := listen(t)
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd, p := start(t, c, "leader", in, &out)
	in.Close()
	ctx := t.Context()
	if err := p.Write(ctx, "stdout", []byte("one\n")); err != nil {
		t.Error(err)
	}
	if n, err := p.Number(ctx, "pipesize", "4096"); err != nil || n != 4096 {
		t.Errorf("pipe size %d, %v", n, err)
	}
	feed.WriteString("hello")
	if n, err := p.Number(ctx, "available"); err != nil || n != 5 {
		t.Errorf("available %d, %v", n, err)
	}
	if data, ended, err := p.Read(ctx, 3); string(data) != "hel" || ended || err != nil {
		t.Errorf("read %q, ended %v, %v", data, ended, err)
	}
	if n, err := p.Number(ctx, "hungup"); err != nil || n != 0 {
		t.Errorf("an open pipe is hung up: %d, %v", n, err)
	}
	feed.Close()
	if n, err := p.Number(ctx, "hungup"); err != nil || n != 1 {
		t.Errorf("a closed pipe is not hung up: %d, %v", n, err)
	}
	if data, ended, err := p.Read(ctx, 3); string(data) != "lo" || !ended || err != nil {
		t.Errorf("read %q, ended %v, %v", data, ended, err)
	}
	if _, err := p.Do(ctx, "dance"); err == nil {
		t.Error("an unknown command was obeyed")
	}
	if err := p.Exit(ctx, 3); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 3 || out.String() != "one\n" || p.Alive() {
		t.Errorf("exit code %d, output %q, alive %v", code, out.String(), p.Alive())
	}
}

// TestMembersStayOrEscape lets a leader fork two members and one of them
// escape, signals the group, and looks who is left. The one that ignores
// SIGTERM and the one that escaped must be.
func TestMembersStayOrEscape(t *testing.T) {
	c := listen(t)
	cmd, leader := start(t, c, "leader", nil, nil)
	ctx := t.Context()
	members := map[string]*Process{}
	for _, name := range []string{"stays", "ignores", "escapes"} {
		if _, err := leader.Do(ctx, "fork", name); err != nil {
			t.Fatal(err)
		}
		var err error
		if members[name], err = c.Await(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := members["ignores"].Do(ctx, "ignore"); err != nil {
		t.Error(err)
	}
	if _, err := members["escapes"].Do(ctx, "escape"); err != nil {
		t.Error(err)
	}
	syscall.Kill(-leader.PID, syscall.SIGTERM)
	for _, p := range []*Process{leader, members["stays"]} {
		if err := p.AwaitEnd(ctx); err != nil {
			t.Error(err)
		}
	}
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("the leader ended with %v", status)
	}
	for _, name := range []string{"ignores", "escapes"} {
		if _, err := members[name].Do(ctx, "close"); err != nil || !members[name].Alive() {
			t.Errorf("%s does not live on: %v", name, err)
		}
	}
	if err := members["ignores"].End(ctx); err != nil {
		t.Error(err)
	}
}
