package runs

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// gone waits until a process has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	end := time.Now().Add(10 * time.Second)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			t.Fatal(err)
		case n == 0:
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			t.Errorf("a process outlived its run")
		}
		return
	}
}

// How a run with a process ends, by what the process does: always finished, with
// the code or, by a signal, without. Not even an input that nobody takes, or a
// stdin that is closed, makes it a refusal.
func TestEndings(t *testing.T) {
	t.Attr("requirement", "MGR-7")
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	for _, c := range []struct {
		line, ending   string
		stdout, stderr int
	}{
		{"exit 0", "finished 1 exited 0", 0, 0},
		{"exit 255", "finished 1 exited 255", 0, 0},
		{"kill -9 $$", "finished 1 exited", 0, 0},
		{"kill -TERM $$", "finished 1 exited", 0, 0},
		{"exec <&-; exit 4", "finished 1 exited 4", 0, 0},
		{"printf hello; printf hi >&2; exit 1", "finished 1 exited 1", 5, 2},
		// More output than a pipe holds, before the input is read.
		{"head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; cat", "finished 1 exited 0", 300000 + len(big), 300000},
	} {
		t.Run(c.line, func(t *testing.T) {
			w := newWorld(t, Config{})
			ch := newChild(t)
			ch.input, ch.version = big, "v1.2.3"
			ch.finish = func(context.Context) Report {
				return Report{Consumed: []byte{0}, Log: []byte("a log\n"), VersionMajor: 1, VersionMinor: 2}
			}
			id, _ := w.run(nil, order{child: ch})
			ch.obey(t, c.line)
			ev := w.wait(id)
			if show(ev) != c.ending {
				t.Errorf("ended as %q, want %q", show(ev), c.ending)
			}
			want := [3]uint64{uint64(c.stdout), uint64(c.stderr), 6}
			if f := ev.Finished; f.Sizes != want || string(f.Report.Consumed) != "\x00" || f.Report.VersionMinor != 2 {
				t.Errorf("finished = %+v, want sizes %v", f, want)
			}
			for i, f := range Fields {
				if total, _, err := w.table.Artifact(context.Background(), id, f, 0, 0); total != want[i] || err != nil {
					t.Errorf("%s has %d bytes, %v; the event says %d", f, total, err, want[i])
				}
			}
			if s := w.table.Status()[0]; s.Version != "v1.2.3" || s.StartedAt.IsZero() || !s.FinishedAt.Equal(ev.Finished.FinishedAt) {
				t.Errorf("status = %+v", s)
			}
			w.end()
			if got := ch.calls(); got != "[true] 1" {
				t.Errorf("calls %s", got)
			}
		})
	}
}

// What had no process and no stop failed to start: a refused validation, a
// command that no kernel takes, a program that is not there.
func TestFailedToStart(t *testing.T) {
	t.Attr("requirement", "MGR-7")
	for _, c := range []struct {
		name, text, calls string
		refuse            error
		path              string
		steps             trace.Action
	}{
		{"validation", "no version matches", "[] 0", errRefused, "", trace.RunReject},
		{"command", "cannot spawn: argv: invalid command: the program path holds a NUL byte", "[false] 1", nil, "/a\x00b", trace.RunReject},
		{"program", "cannot spawn: exec: no such file or directory (ENOENT: the program, or the interpreter that it names, does not exist)", "[false] 1", nil, "/nonexistent", trace.RunSpawnFail},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			ch := newChild(t)
			ch.path = c.path
			own := newConn()
			id, _ := w.run(own, order{child: ch, refuse: c.refuse})
			w.wait(id)
			own.hears(t, "id 1", "failed_to_start 1: "+c.text)
			if steps := w.rec.of(id); steps[len(steps)-1] != c.steps {
				t.Errorf("transitions %v", steps)
			}
			w.permits(1)
			w.end()
			if got := ch.calls(); got != c.calls {
				t.Errorf("calls %s", got)
			}
		})
	}
}

// A survivor that holds the pipes holds up the end for the linger, and is killed
// after it; the report's channels have the same time.
func TestSurvivors(t *testing.T) {
	t.Attr("requirement", "MGR-30")
	w := newWorld(t, Config{})
	ch := newChild(t)
	ch.capture.HeadBytes = 100
	ch.finish = func(ctx context.Context) Report {
		<-ctx.Done()
		return Report{Log: []byte("late")}
	}
	own := newConn()
	id, _ := w.run(own, order{child: ch})
	ch.obey(t, `trap "" TERM HUP; sh -c 'echo $$ >&4; exec sleep 600' & exit 0`)
	survivor := ch.number(t)
	w.clock.pending(t, execution.DefaultLinger, 2)
	own.hears(t, "id 1", "started 1")
	w.permits(1) // the exit was observed, since the report was asked for
	w.clock.advance(execution.DefaultLinger)
	own.hears(t, "id 1", "started 1", "finished 1 exited 0")
	gone(t, survivor)
	if got, err := w.read(id, GenvmLog); got != "late" || err != nil {
		t.Errorf("log = %q, %v", got, err)
	}
}

// What is kept of the output follows the capture plan; what begins inside a
// character loses the rest of that character, and nothing else is touched.
func TestCapturePlan(t *testing.T) {
	t.Attr("requirement", "MGR-22")
	tail := func(n int) execution.Capture { return execution.Capture{HeadBytes: -1, TailBytes: n} }
	for _, c := range []struct {
		name, line, want string
		capture          execution.Capture
	}{
		{"nothing", `printf hello`, "", execution.Capture{Discard: true}},
		{"everything", `printf hello`, "hello", execution.Capture{HeadBytes: math.MaxInt}},
		{"the newest", `printf hello`, "llo", tail(3)},
		{"exactly the cap", `printf '\251\303\251\303\251'`, "\xa9éé", tail(5)},
		{"two bytes, cut in the middle", `printf 'a\303\251\303\251\303\251'`, "éé", tail(5)},
		{"four bytes, cut after the first", `printf 'a\360\237\230\200b'`, "b", tail(4)},
		{"a boundary", `printf 'a\303\251'`, "é", tail(2)},
		{"no text at all", `printf '\200\200\200\200\200\200'`, "\x80\x80", tail(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			ch := newChild(t)
			ch.capture = c.capture
			id, _ := w.run(nil, order{child: ch})
			ch.obey(t, c.line)
			w.wait(id)
			if got, err := w.read(id, Stdout); got != c.want || err != nil {
				t.Errorf("stdout = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// The registry of the core keeps nothing of a run that has ended, and no
// descriptor stays open.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t, Config{Permits: 4})
	warm, ch := w.run(nil, order{})
	ch.obey(t, "exit 0")
	w.wait(warm)
	before := descriptors(t)
	for range 25 {
		id, ch := w.run(nil, order{})
		ch.obey(t, "printf x; exit 0")
		w.wait(id)
		if err := w.ack(id); err != nil {
			t.Fatal(err)
		}
		ch.close()
	}
	w.end()
	if n, _ := w.table.reg.Counts(); n != 0 {
		t.Errorf("%d commands are registered", n)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
