package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"microvms/agentd/calldata"
)

// TestMain makes this binary the command itself when it is asked to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (strings.HasPrefix(os.Args[1], "--log-fd=") || os.Args[1] == memberWord) {
		main()
	}
	os.Exit(m.Run())
}

// child is one run of the command, with the manager's ends of its descriptors.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	log, host1     *os.File
}

// start runs the command as a manager would, with the steps and execution data.
func start(t *testing.T, host string, input []byte, steps ...string) *child {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "host 1")
	c := &child{log: r, host1: os.NewFile(uintptr(pair[0]), "host 1")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(self, append(append([]string{"--log-fd=3", "run"}, steps...),
		"--host", host, "--permissions", "wscn", "--genvm-id=7", "--debug-mode", "safe", "--host", "fd://4")...)
	c.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = bytes.NewReader(input), &c.stdout, &c.stderr
	c.cmd.ExtraFiles = []*os.File{w, theirs}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	theirs.Close()
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait(); r.Close(); c.host1.Close() })
	return c
}

// end waits for the end and returns the exit code.
func (c *child) end() int {
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func (c *child) read(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c.host1, b); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}

func TestExecutorSendsTheSmallestResult(t *testing.T) {
	c := start(t, "unix:///h", nil, "stdout=hi", "stderr-bytes=30", "log={}", "log-lines=2")
	if got, want := c.read(t, 5+len(smallestResult)), "0648010000"+hex.EncodeToString(smallestResult); got != want {
		t.Errorf("host 1 got %s, want %s", got, want)
	}
	c.host1.Write([]byte{0})
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, &c.stderr)
	}
	log, _ := io.ReadAll(c.log)
	if got, want := c.stdout.String(), "hi"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got, want := c.stderr.String(), "abcdefghijklmnopqrstuvwxyzabcd"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if got, want := string(log), "{}\n{\"n\":1,\"level\":\"debug\"}\n{\"n\":2,\"level\":\"debug\"}\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if err := calldata.Valid(smallestResult[1:]); err != nil {
		t.Error(err)
	}
}

func TestExecutorAsksHostOne(t *testing.T) {
	c := start(t, "unix:///h", nil, "resolve="+strings.Repeat("00", 22), "nested=0102", "raw=ff", "result=none")
	if got, want := c.read(t, 23), "07"+strings.Repeat("00", 22); got != want {
		t.Errorf("resolve sent %s, want %s", got, want)
	}
	c.host1.Write([]byte{0, 1, 0, 0, 0, 0})
	if got, want := c.read(t, 7), "08020000000102"; got != want {
		t.Errorf("run_nested sent %s, want %s", got, want)
	}
	c.host1.Write([]byte{1, 0, 0, 0, 6})
	if got := c.read(t, 1); got != "ff" {
		t.Errorf("raw sent %s", got)
	}
	if code := c.end(); code != 0 || c.stdout.String() != "00\n06\n" {
		t.Errorf("exit code %d, stdout %q", code, &c.stdout)
	}
}

func TestExecutorEndsAsItsStepsSay(t *testing.T) {
	for step, want := range map[string]int{"exit=9": 9, "signal=9": -1, "nonsense": exitStep, "recv=x": exitStep, "stdin=later": exitStep} {
		if code := start(t, "unix:///h", nil, "stdout=x", step).end(); code != want {
			t.Errorf("step %q: exit code %d, want %d", step, code, want)
		}
	}
	var errs bytes.Buffer
	for _, argv := range [][]string{{"x"}, {"x", "--log-fd=1", "run"}, {"x", "--log-fd=3", "serve"}, {"x", "--log-fd=3", "run", "--nonsense=1"}, {"x", "--log-fd=3", "run", "--host"}} {
		if code := run(argv, strings.NewReader(""), io.Discard, &errs); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", argv, code, exitUsage)
		}
	}
	var out bytes.Buffer
	if code := run([]string{"x", "--help"}, nil, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "run-nested") && !strings.Contains(out.String(), "run_nested") {
		t.Errorf("help: exit code %d, text %q", code, &out)
	}
}

// TestHelpNamesEachStep holds the help text to the table of steps.
func TestHelpNamesEachStep(t *testing.T) {
	for word := range takers {
		if word != "write" && !strings.Contains(usage, word) {
			t.Errorf("the help text does not name the step %q", word)
		}
	}
}

func TestExecutorSaysHello(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	input, err := calldata.Marshal(map[string]any{"host_hello_data": []any{[]byte("hello"), []byte{}}})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, "unix://"+l.Addr().String(), input, "stdin=print", "dial", "exit=0")
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello" {
		t.Errorf("host 0 got %q, error %v", said, err)
	}
	if code := c.end(); code != 0 || strings.TrimSpace(c.stdout.String()) != hex.EncodeToString(input) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &c.stdout, &c.stderr)
	}
}

// TestExecutorObeysAControlSocket steps a leader and a member that it forked.
func TestExecutorObeysAControlSocket(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := start(t, "unix:///h", nil, "control="+l.Addr().String()+",lead")
	lead := accept(t, l, "lead")
	if got := lead("env=NOTHING"); got != "ok" {
		t.Errorf("an empty variable: %q", got)
	}
	if got := lead("write stdout aGk="); got != "ok" {
		t.Errorf("write: %q", got)
	}
	group := lead("group")
	lead("fork=" + l.Addr().String() + ",member")
	member := accept(t, l, "member")
	if got := member("group"); got != group {
		t.Errorf("the member is of group %q, the leader of %q", got, group)
	}
	if got := member("log=from the member"); got != "ok" {
		t.Errorf("log: %q", got)
	}
	lead("fork-escaped=" + l.Addr().String() + ",far")
	far := accept(t, l, "far")
	if got := far("group"); got == group {
		t.Errorf("the escaped one is still of group %q", got)
	}
	if got := lead("nonsense"); !strings.HasPrefix(got, "error ") {
		t.Errorf("an unknown step: %q", got)
	}
	for _, end := range []func(string) string{member, far, lead} {
		end("exit 4")
	}
	if code := c.end(); code != 4 {
		t.Errorf("exit code %d, want 4; stderr %q", code, &c.stderr)
	}
	if log, _ := io.ReadAll(c.log); string(log) != "from the member\n" {
		t.Errorf("log %q", log)
	}
}

// accept takes one greeting and returns how to give that process a step.
func accept(t *testing.T, l net.Listener, name string) func(step string) string {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	replies := bufio.NewReader(conn)
	hello, err := replies.ReadString('\n')
	if err != nil || !strings.HasSuffix(hello, " "+name+"\n") {
		t.Fatalf("greeting %q, error %v", hello, err)
	}
	return func(step string) string {
		fmt.Fprintln(conn, step)
		line, _ := replies.ReadString('\n')
		return strings.TrimSuffix(line, "\n")
	}
}
