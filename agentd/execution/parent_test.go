package execution

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// daemonOfOne is a daemon with one child: it prints the pid and waits to be
// killed.
func daemonOfOne() int {
	r := New(Config{})
	c := &Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exec sleep 600"}, DieWithParent: true}
	e, _, err := r.Start(context.Background(), Key{ID: "x"}, given(c))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(*e.Group().Pgid)
	<-e.Done()
	return 0
}

// A child with DieWithParent does not outlive a daemon that is killed with
// SIGKILL. The test holds the child by a descriptor, so no number can deceive it.
func TestDieWithParent(t *testing.T) {
	t.Attr("requirement", "MGR-26")
	daemon := exec.Command("/proc/self/exe")
	daemon.Env = []string{"EXECUTION_HELPER=daemon"}
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon named no child: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer func() { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }()
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed, and says so
	if n, err := pollRead(fd, 10*time.Second); n != 1 || err != nil {
		t.Errorf("the child outlived its daemon: %v", err)
	}
}

// pollRead waits until fd is readable, at most for limit.
func pollRead(fd int, limit time.Duration) (int, error) {
	end := time.Now().Add(limit)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// The end of the thread that called Start does not end a child with
// DieWithParent, although the kernel's death signal follows threads.
func TestDieWithParentIgnoresThreads(t *testing.T) {
	t.Attr("requirement", "MGR-26")
	r := newRegistry(t, Config{})
	c := withStdin("cat")
	c.DieWithParent = true
	var e *Exec
	for e == nil {
		tid, started := make(chan int), make(chan *Exec)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			id := unix.Gettid()
			tid <- id
			if id == os.Getpid() {
				return // the main thread would be kept
			}
			e, _, err := r.Start(context.Background(), key("x"), given(c))
			if err != nil {
				t.Error(err)
			}
			started <- e
		}()
		id := <-tid
		if id == os.Getpid() {
			continue
		}
		if e = <-started; e == nil {
			t.FailNow()
		}
		for path := "/proc/self/task/" + strconv.Itoa(id); ; runtime.Gosched() {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				break
			}
		}
	}
	if res := finish(t, e); res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("result = %+v; want exit code 0", res)
	}
}

// Exited is closed at the leader's exit, while a member of its group still
// holds the pipes and the command counts as running.
func TestExited(t *testing.T) {
	clock := newStepClock()
	r := newRegistry(t, Config{Clock: clock})
	e := start(t, r, "x", withStdin("sleep 600 & exec true"))
	await(t, e.Exited(), "the leader's exit")
	if s := e.Poll(); s.Phase != PhaseRunning {
		t.Errorf("phase at the leader's exit = %v", s.Phase)
	}
	clock.pending(t, DefaultLinger)
	clock.Advance(DefaultLinger)
	finished(t, e)
	done, _ := killing(e)
	clock.run(t, DefaultScanInterval, done)
}

// Missing counts what each stream lost, by itself.
func TestMissing(t *testing.T) {
	r := newRegistry(t, Config{Capture: Capture{HeadBytes: -1, TailBytes: 4}})
	e := start(t, r, "x", sh("printf 123456; printf 1234 >&2"))
	res := finished(t, e)
	if string(res.Stdout) != "3456" || string(res.Stderr) != "1234" || res.Missing != [2]uint64{2, 0} {
		t.Errorf("stdout %q, stderr %q, missing %v", res.Stdout, res.Stderr, res.Missing)
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// With CutPipes a survivor that holds the pipes costs no descriptor after the
// terminal marker.
func TestCutPipes(t *testing.T) {
	clock, log := newStepClock(), new(syncBuffer)
	r := newRegistry(t, Config{Clock: clock, Log: slog.New(slog.NewTextHandler(log, nil))})
	c := withStdin("sleep 600 & exec true")
	c.CutPipes = true
	e := start(t, r, "x", c)
	clock.pending(t, DefaultLinger)
	clock.Advance(DefaultLinger)
	if res := finished(t, e); !res.WritersMayBeAlive {
		t.Error("the pipes ended by themselves")
	}
	for open, end := 1, time.Now().Add(10*time.Second); open > 0 && time.Now().Before(end); runtime.Gosched() {
		e.mu.Lock()
		open = e.open
		e.mu.Unlock()
	}
	e.mu.Lock()
	if e.open > 0 {
		t.Errorf("%d pipes are open", e.open)
	}
	e.mu.Unlock()
	if text := log.String(); strings.Contains(text, "ERROR") {
		t.Errorf("the log takes it for a failure: %s", text)
	}
	if g := e.Group(); len(g.Pids) == 0 {
		t.Error("the survivor has ended: nothing was shown")
	}
	done, _ := killing(e)
	clock.run(t, DefaultScanInterval, done)
}
