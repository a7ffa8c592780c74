package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"microvms/client"
	"microvms/client/microvmtest"
)

// interrupted runs a command and interrupts it once begun is closed.
func interrupted(t *testing.T, a *app, begun <-chan struct{}, args ...string) int {
	t.Helper()
	interrupts := make(chan os.Signal, 2)
	a.interrupts = interrupts
	go func() {
		<-begun
		interrupts <- os.Interrupt
	}()
	return a.run(context.Background(), args)
}

// atOnce is a channel that is closed.
func atOnce() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// idleInput is an input that has nothing to say until it is closed.
type idleInput struct {
	begun, closed chan struct{}
}

func (i *idleInput) Read([]byte) (int, error) {
	close(i.begun)
	<-i.closed
	return 0, io.EOF
}

// An interrupt ends each command that waits for its own input.
func TestWaitForInputIsInterrupted(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	for _, line := range []string{"stdin x --data -", "exec -i cat", "exec --stdin --stream cat", "manager run -f -",
		"manager run --major 1 --calldata @-", "cp - vm:/f", "cp --tar - vm:/f"} {
		srv := microvmtest.New()
		var stdout, stderr bytes.Buffer
		a := fakeApp(srv, &stdout, &stderr)
		input := &idleInput{make(chan struct{}), make(chan struct{})}
		a.stdin = input
		if code := interrupted(t, a, input.begun, strings.Fields(line)...); code != 11 || !strings.Contains(stderr.String(), string(client.KindInterrupted)) {
			t.Errorf("%s: code %d, stderr %q", line, code, stderr.String())
		}
		close(input.closed)
		srv.Close()
	}
}

// An interrupt ends the wait for the other end of a pipe, whichever end is opened.
func TestWaitForPipeIsInterrupted(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	for _, line := range []string{"cp PIPE vm:/f", "cp --tar PIPE vm:/f", "cp vm:/f PIPE", "manager run -f PIPE", "manager run --code @PIPE",
		"cost --compare --html PIPE"} {
		pipe := newPipe(t)
		args := strings.Fields(strings.ReplaceAll(line, "PIPE", pipe))
		srv := microvmtest.New()
		var stdout, stderr bytes.Buffer
		a := fakeApp(srv, &stdout, &stderr)
		fakeFile(t, srv, "/f", "content")
		if code := interrupted(t, a, atOnce(), args...); code != 11 || !strings.Contains(stderr.String(), string(client.KindInterrupted)) {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr.String())
		}
		unblock(t, pipe)
		srv.Close()
	}
}

// Whichever end is opened, and when a write waits for the reader, the end of the
// context ends it.
func TestOpenOfPipeEndsWithContext(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	pipe := newPipe(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errSignal)
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		if _, err := openFile(ctx, pipe, flag, 0); client.KindOf(err) != client.KindInterrupted {
			t.Errorf("open with flag %d: %v", flag, err)
		}
	}
	unblock(t, pipe)
	ctx, cancel = context.WithCancelCause(context.Background())
	out := &stuck{make(chan struct{}), make(chan struct{})}
	defer close(out.closed)
	go func() {
		<-out.begun
		cancel(errSignal)
	}()
	if err := copyUntil(ctx, out, strings.NewReader(strings.Repeat("x", 1<<20))); client.KindOf(err) != client.KindInterrupted {
		t.Errorf("write: %v", err)
	}
}

// newPipe makes a named pipe.
func newPipe(t *testing.T) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return pipe
}

// unblock lets an open of a pipe that was left to itself return.
func unblock(t *testing.T, pipe string) {
	t.Helper()
	both, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { both.Close() })
}

func fakeFile(t *testing.T, srv *microvmtest.Server, name, content string) {
	t.Helper()
	s := srv.Session(t)
	defer s.Close()
	if err := s.PutFile(t.Context(), name, strings.NewReader(content), client.PutFileOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A named pipe is read and written as its user means it: the copy is what comes
// through it.
func TestCopyThroughPipe(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	pipe := newPipe(t)
	srv := microvmtest.New()
	defer srv.Close()
	content := strings.Repeat("0123456789", 20_000)
	go func() { _ = os.WriteFile(pipe, []byte(content), 0) }() // the copy tells what went through
	var stderr bytes.Buffer
	if code := fakeApp(srv, io.Discard, &stderr).run(t.Context(), []string{"cp", pipe, "vm:/f"}); code != 0 {
		t.Fatalf("up: code %d, stderr %q", code, stderr.String())
	}
	read := make(chan string, 1)
	go func() {
		b, err := os.ReadFile(pipe)
		if err != nil {
			b = nil
		}
		read <- string(b)
	}()
	if code := fakeApp(srv, io.Discard, &stderr).run(t.Context(), []string{"cp", "vm:/f", pipe}); code != 0 {
		t.Fatalf("down: code %d, stderr %q", code, stderr.String())
	}
	if got := <-read; got != content {
		t.Errorf("%d bytes came through, want %d", len(got), len(content))
	}
}

// A socket is no file: it is refused at once.
func TestCopyOfSocketIsRefused(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	name := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	srv := microvmtest.New()
	defer srv.Close()
	fakeFile(t, srv, "/f", "content")
	for _, args := range [][]string{{"cp", name, "vm:/g"}, {"cp", "vm:/f", name}} {
		var stderr bytes.Buffer
		if code := fakeApp(srv, io.Discard, &stderr).run(t.Context(), args); code != 12 || !strings.Contains(stderr.String(), string(client.KindPrecondition)) {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr.String())
		}
	}
}

// stuck is an output that nobody reads.
type stuck struct {
	begun, closed chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	close(s.begun)
	<-s.closed
	return len(p), nil
}

// An interrupt ends a write that nobody reads: of content, of a stream and of a
// result.
func TestWaitForReaderIsInterrupted(t *testing.T) {
	t.Attr("requirement", "CLI-45")
	for _, line := range []string{"cp vm:/f -", "exec --stream --exec-id s -- say", "health", "exec -- say"} {
		srv := microvmtest.New()
		srv.Programs["say"] = func(p *microvmtest.Process) microvmtest.Exit {
			_, _ = io.WriteString(p.Stdout, "word")
			return microvmtest.Exit{}
		}
		fakeFile(t, srv, "/f", "content")
		out := &stuck{make(chan struct{}), make(chan struct{})}
		var stderr bytes.Buffer
		if code := interrupted(t, fakeApp(srv, out, &stderr), out.begun, strings.Fields(line)...); code != 11 || !strings.Contains(stderr.String(), string(client.KindInterrupted)) {
			t.Errorf("%s: code %d, stderr %q", line, code, stderr.String())
		}
		close(out.closed)
		srv.Close()
	}
}
