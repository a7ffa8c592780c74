package execution

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// statLine builds a line as the kernel prints it.
func statLine(pid int, name string, state byte, ppid, pgrp, session, threads int, start uint64) string {
	return fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 %d 0 %d 4096 1 18446744073709551615 1 1\n",
		pid, name, string([]byte{state}), ppid, pgrp, session, threads, start)
}

// The fields are found behind any name that a process may give itself.
func TestParseStat(t *testing.T) {
	for _, name := range []string{
		"sh", "", ")", "a) R 1 1 1", "(", "((a)", "with space", "new\nline", ") Z 1 2 3 4 5\n6 (", "\xff\x00", strings.Repeat("n", 64),
	} {
		want := process{pid: 42, state: 'S', ppid: 7, pgrp: 41, session: 40, threads: 3, start: 98765432109}
		got, err := parseStat([]byte(statLine(42, name, 'S', 7, 41, 40, 3, 98765432109)))
		if err != nil || got != want {
			t.Errorf("name %q: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// What is no stat line is an error, never a process.
func TestParseStatRefuses(t *testing.T) {
	good := statLine(42, "sh", 'S', 7, 41, 40, 3, 9)
	for name, line := range map[string]string{
		"empty": "", "no name": "42 S 1 1 1", "name not closed": "42 (sh S 1", "name not opened": "42 sh) S 1",
		"no pid": "(sh) S 1 1 1", "pid is a word": strings.Replace(good, "42", "x2", 1), "pid 0": strings.Replace(good, "42", "0", 1),
		"cut short": good[:20], "cut before start": good[:strings.Index(good, " 9 4096")], "two letters of state": strings.Replace(good, " S ", " SS ", 1),
		"group is a word": strings.Replace(good, " 41 ", " x ", 1), "start is negative": strings.Replace(good, " 9 4096", " -9 4096", 1),
		"double space": strings.Replace(good, " 41 ", "  41 ", 1),
	} {
		if p, err := parseStat([]byte(line)); !errors.Is(err, errStat) {
			t.Errorf("%s: %+v, %v; want errStat", name, p, err)
		}
	}
}

// FuzzParseStat: no input panics, and a line that is read is read the same
// after it was printed again with another name.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine(1, "a) b\n(c", 'Z', 0, 1, 1, 2, 3)))
	f.Add([]byte("1 (x) S 1"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseStat(line)
		if err != nil {
			if p != (process{}) {
				t.Fatalf("an error with a process: %+v", p)
			}
			return
		}
		again, err := parseStat([]byte(statLine(p.pid, ") R 1 1 1\n(", p.state, p.ppid, p.pgrp, p.session, p.threads, p.start)))
		if err != nil || again != p {
			t.Fatalf("%+v printed and read again: %+v, %v", p, again, err)
		}
	})
}

// The mounted proc file system agrees with what the process knows of itself.
func TestProcFSReadsSelf(t *testing.T) {
	table := procFS{"/proc"}
	p, err := table.stat(os.Getpid())
	if err != nil || p.pid != os.Getpid() || p.ppid != os.Getppid() || p.start == 0 || !p.live(table) {
		t.Errorf("stat of self = %+v, %v", p, err)
	}
	pids, err := table.pids()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for i, pid := range pids {
		found = found || pid == os.Getpid()
		if i > 0 && pids[i-1] >= pid {
			t.Fatalf("pids are not ascending at %d", pid)
		}
	}
	if !found {
		t.Error("self is not listed")
	}
	if _, err := table.stat(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of nobody = %v, want fs.ErrNotExist", err)
	}
	if !table.liveThread(os.Getpid()) || table.liveThread(1<<30) {
		t.Error("liveThread is wrong about self or about nobody")
	}
}

// A zombie is dead unless a thread of it lives; the states past a zombie are
// dead as well.
func TestProcessLive(t *testing.T) {
	t.Attr("requirement", "KILL-7")
	t.Attr("requirement", "KILL-8")
	for _, c := range []struct {
		state   byte
		threads int
		live    bool // what liveThread says
		want    bool
	}{
		{'R', 1, false, true}, {'S', 1, false, true}, {'D', 1, false, true}, {'T', 1, false, true}, {'t', 1, false, true},
		{'Z', 1, true, false}, {'Z', 2, true, true}, {'Z', 2, false, false}, {'X', 1, true, false}, {'x', 1, true, false},
	} {
		p := process{pid: 9, state: c.state, threads: c.threads}
		if got := p.live(fakeTable{anyThread: c.live}); got != c.want {
			t.Errorf("state %c, %d threads, live thread %v: live = %v, want %v", c.state, c.threads, c.live, got, c.want)
		}
	}
}

// fakeTable is a process table made up by a test.
type fakeTable struct {
	processes []process // ascending by pid
	anyThread bool      // answer of liveThread
}

func (f fakeTable) pids() ([]int, error) {
	var pids []int
	for _, p := range f.processes {
		pids = append(pids, p.pid)
	}
	return pids, nil
}

func (f fakeTable) stat(pid int) (process, error) {
	for _, p := range f.processes {
		if p.pid == pid {
			return p, nil
		}
	}
	return process{}, fs.ErrNotExist
}

func (f fakeTable) liveThread(int) bool { return f.anyThread }

func (f fakeTable) threads(int) (bool, error) { return f.anyThread, nil }
