package execution

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"testing"
	"time"
)

// scriptedTable is a process table that changes from look to look.
type scriptedTable struct {
	looks [][]process
	gone  map[int]error // what stat returns for a listed process, by look*1000+pid
	fails error         // of threads
	turn  int
	fakeTable
}

func (s *scriptedTable) pids() ([]int, error) {
	s.processes = s.looks[min(s.turn, len(s.looks)-1)]
	s.turn++
	return s.fakeTable.pids()
}

func (s *scriptedTable) stat(pid int) (process, error) {
	if err, ok := s.gone[s.turn*1000+pid]; ok {
		return process{}, err
	}
	return s.fakeTable.stat(pid)
}

func (s *scriptedTable) threads(int) (bool, error) { return s.anyThread, s.fails }

// The end of a group is believed only after two looks that agree and saw no
// live member. Each case is what the table shows at two looks.
func TestGroupEndNeedsTwoLooks(t *testing.T) {
	for _, id := range []string{"POWER-3", "POWER-4", "POWER-8"} {
		t.Attr("requirement", id)
	}
	leader := process{pid: 100, state: 'Z', pgrp: 100, session: 7, threads: 1, start: 10}
	member := process{pid: 101, state: 'S', pgrp: 100, session: 7, threads: 1, start: 20}
	dead := process{pid: 101, state: 'Z', pgrp: 100, session: 7, threads: 1, start: 20}
	half := process{pid: 101, state: 'Z', pgrp: 100, session: 7, threads: 2, start: 20}
	other := process{pid: 200, state: 'S', pgrp: 200, session: 9, threads: 1, start: 30}
	joined := process{pid: 200, state: 'Z', pgrp: 100, session: 9, threads: 1, start: 30}
	later := process{pid: 200, state: 'S', pgrp: 200, session: 9, threads: 1, start: 31}
	list := func(p ...process) []process { return p }
	unreadable := errors.New("planted")
	for _, c := range []struct {
		name  string
		table scriptedTable
		want  bool
		err   error
	}{
		{"zombies only, twice", scriptedTable{looks: [][]process{list(leader, dead, other)}}, true, nil},
		{"a live member", scriptedTable{looks: [][]process{list(leader, member)}}, false, nil},
		{"a live member at the second look", scriptedTable{looks: [][]process{list(leader), list(leader, member)}}, false, nil},
		{"a live member at the first look", scriptedTable{looks: [][]process{list(leader, member), list(leader, dead)}}, false, nil},
		{"a zombie with a live thread", scriptedTable{looks: [][]process{list(leader, half)}, fakeTable: fakeTable{anyThread: true}}, false, nil},
		{"a zombie whose threads have ended", scriptedTable{looks: [][]process{list(leader, half)}}, true, nil},
		{"a zombie whose threads vanish", scriptedTable{looks: [][]process{list(leader, half)}, fails: fs.ErrNotExist}, false, nil},
		{"a zombie whose threads are unreadable", scriptedTable{looks: [][]process{list(leader, half)}, fails: unreadable}, false, unreadable},
		{"another process came", scriptedTable{looks: [][]process{list(leader), list(leader, other)}}, false, nil},
		{"another process has the pid", scriptedTable{looks: [][]process{list(leader, other), list(leader, later)}}, false, nil},
		{"another process joined the group", scriptedTable{looks: [][]process{list(leader, other), list(leader, joined)}}, false, nil},
		{"a process vanished at the first look", scriptedTable{looks: [][]process{list(leader, other)}, gone: map[int]error{1200: fs.ErrNotExist}}, false, nil},
		{"a process vanished at both looks", scriptedTable{looks: [][]process{list(leader, other)}, gone: map[int]error{1200: fs.ErrNotExist, 2200: fs.ErrNotExist}}, false, nil},
		{"a process vanished at the second look", scriptedTable{looks: [][]process{list(leader, other)}, gone: map[int]error{2200: fs.ErrNotExist}}, false, nil},
		{"an unreadable record", scriptedTable{looks: [][]process{list(leader, other)}, gone: map[int]error{1200: unreadable}}, false, unreadable},
		{"an unreadable record at the second look", scriptedTable{looks: [][]process{list(leader, other)}, gone: map[int]error{2200: unreadable}}, false, unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &group{id: 100, table: &c.table, kill: func(int, syscall.Signal) error { return nil }}
			got, err := g.endedTwice()
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("ended = %v, %v; want %v, %v", got, err, c.want, c.err)
			}
		})
	}
}

// A group that the kernel knows to be empty, or whose number only strangers
// bear, has ended.
func TestGroupEndOfNobody(t *testing.T) {
	t.Attr("requirement", "POWER-3")
	none := &group{id: 100, table: &fakeTable{}, kill: func(int, syscall.Signal) error { return syscall.ESRCH }}
	if ended, err := none.endedTwice(); !ended || err != nil {
		t.Errorf("an empty group: %v, %v", ended, err)
	}
	stranger := process{pid: 100, state: 'S', pgrp: 100, session: 100, threads: 1, start: 900}
	taken := &group{
		id: 100, collected: true, reaped: 500, session: 7,
		table: &fakeTable{processes: []process{stranger}}, kill: func(int, syscall.Signal) error { return nil },
	}
	if ended, err := taken.endedTwice(); !ended || err != nil {
		t.Errorf("a group whose number a stranger bears: %v, %v", ended, err)
	}
}

// A watch waits for a member that outlives the result, signals nobody, lasts
// beyond the collection of the record, and ends with the member.
func TestWatchGroup(t *testing.T) {
	t.Attr("requirement", "EXEC-37")
	t.Attr("requirement", "POWER-9")
	r := New(Config{Linger: -1, Retention: -1, ScanInterval: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	defer r.Close(context.Background())
	e, _, err := r.Start(t.Context(), key("watched"), given(sh(`trap 'echo signalled >&2' TERM; sleep 1000 >/dev/null 2>&1 &`)))
	if err != nil {
		t.Fatal(err)
	}
	wait := e.WatchGroup()
	ended := make(chan error, 1)
	go func() { ended <- wait(t.Context()) }()
	<-e.Done()
	pids := e.Group().Pids
	if len(pids) != 1 {
		t.Fatalf("members %v, want the sleeper", pids)
	}
	if _, err := e.Ack(); err != nil {
		t.Fatal(err)
	}
	for known := true; known; _, known = r.Lookup(key("watched")) { // until it is collected
	}
	if ok, err := e.group.endedTwice(); ok || err != nil {
		t.Errorf("the group of a collected record counts as ended: %v, %v", ok, err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the watch ended with %v while a member lives", err)
	default:
	}
	if err := syscall.Kill(pids[0], 0); err != nil {
		t.Errorf("the member was signalled: %v", err)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	if e.group.watchers != 0 || !e.group.gone {
		t.Errorf("after the watch: %d watchers, gone %v", e.group.watchers, e.group.gone)
	}
}

// A watch ends with its context and with the registry, and neither counts as
// the group's end.
func TestWatchGroupCalledOff(t *testing.T) {
	r := New(Config{Log: slog.New(slog.DiscardHandler)})
	e, _, err := r.Start(t.Context(), key("w"), given(sh(`exec sleep 1000`)))
	if err != nil {
		t.Fatal(err)
	}
	pid := *e.Group().Pgid
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.WatchGroup()(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	wait := e.WatchGroup()
	ended := make(chan error, 1)
	go func() { ended <- wait(context.Background()) }()
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("after the registry was closed: %v", err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	syscall.Wait4(pid, nil, 0, nil)
}
