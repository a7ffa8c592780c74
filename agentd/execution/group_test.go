package execution

import (
	"slices"
	"syscall"
	"testing"
)

// fakeGroup is a group whose kernel is a made-up table.
func fakeGroup(table *fakeTable, sent *[]syscall.Signal) *group {
	return &group{
		id: 100, table: table,
		kill: func(id int, sig syscall.Signal) error {
			if !slices.ContainsFunc(table.processes, func(p process) bool { return p.pgrp == id }) {
				return syscall.ESRCH
			}
			if sig != 0 {
				*sent = append(*sent, sig)
			}
			return nil
		},
	}
}

func (g *group) signalNow(sig syscall.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pids, err := g.lookLocked()
	if err != nil {
		return false
	}
	sent, _ := g.sendLocked(pids, sig, false)
	return sent
}

// After the leader was collected, a signal goes out only where a member proves
// by its start time that the number is still ours. Each case is a process
// table at the leader's end, and one at the time of the signal; no kernel
// handle helps.
func TestGroupSignalNeedsProof(t *testing.T) {
	t.Attr("requirement", "KILL-9")
	t.Attr("requirement", "KILL-12")
	const reaped = 500
	leader := process{pid: 100, state: 'Z', pgrp: 100, session: 7, threads: 1, start: 10}
	member := process{pid: 101, state: 'S', pgrp: 100, session: 7, threads: 1, start: 20}
	child := func(pid int, session int, start uint64) process {
		return process{pid: pid, state: 'S', pgrp: 100, session: session, threads: 1, start: start}
	}
	for _, c := range []struct {
		name       string
		atEnd, now []process
		want       bool
		pids       []int
	}{
		{"nobody is left", []process{leader}, nil, false, nil},
		{"the recorded member", []process{leader, member}, []process{member}, true, []int{101}},
		{"the member's pid, another process", []process{leader, member}, []process{child(101, 9, 600)}, false, nil},
		{"a stranger took the number", []process{leader}, []process{child(100, 9, 700), child(102, 9, 701)}, false, nil},
		{"a stranger of our session took the number", []process{leader}, []process{child(100, 7, 700)}, false, nil},
		{"started in the tick of the reaping", []process{leader}, []process{child(102, 7, reaped)}, false, nil},
		{"of our session and older than the reaping", []process{leader}, []process{child(102, 7, reaped-1)}, true, []int{102}},
		{"older, but of another session", []process{leader}, []process{child(102, 9, reaped-1)}, false, nil},
		{"a member beside a later child of it", []process{leader, member}, []process{member, child(150, 7, 900)}, true, []int{101, 150}},
		{"the member left the group", []process{leader, member}, []process{{pid: 101, state: 'S', pgrp: 101, session: 101, threads: 1, start: 20}}, false, nil},
		{"only a zombie proves it", []process{leader, member}, []process{{pid: 101, state: 'Z', pgrp: 100, session: 7, threads: 1, start: 20}, child(150, 7, 900)}, true, []int{150}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := &fakeTable{processes: c.atEnd}
			var sent []syscall.Signal
			g := fakeGroup(table, &sent)
			g.pinLocked()
			g.collected, g.reaped = true, reaped
			table.processes = c.now
			pids, err := g.members()
			if err != nil || !slices.Equal(pids, c.pids) {
				t.Errorf("members = %v, %v; want %v", pids, err, c.pids)
			}
			if got := g.signalNow(syscall.SIGTERM); got != c.want || len(sent) != btoi(c.want) {
				t.Errorf("signalled = %v, sent %v; want %v", got, sent, c.want)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Proof is handed on: a child that was forked after the leader's end is proven
// by the member that was there with it at an earlier look, and proves the group
// when that member is gone.
func TestGroupProofIsHandedOn(t *testing.T) {
	t.Attr("requirement", "KILL-9")
	leader := process{pid: 100, state: 'Z', pgrp: 100, session: 7, start: 10}
	first := process{pid: 101, state: 'S', pgrp: 100, session: 7, start: 20}
	second := process{pid: 102, state: 'S', pgrp: 100, session: 7, start: 900}
	table := &fakeTable{processes: []process{leader, first}}
	var sent []syscall.Signal
	g := fakeGroup(table, &sent)
	g.pinLocked()
	g.collected, g.reaped = true, 500
	table.processes = []process{first, second}
	if pids, _ := g.members(); !slices.Equal(pids, []int{101, 102}) {
		t.Fatalf("members = %v, want both", pids)
	}
	table.processes = []process{second}
	if !g.signalNow(syscall.SIGTERM) {
		t.Error("the second member, seen beside the first, was not signalled")
	}
}

// An empty group is gone for ever: a later group of the same number is not
// even looked at.
func TestGroupGoneForEver(t *testing.T) {
	t.Attr("requirement", "KILL-12")
	table := &fakeTable{processes: []process{{pid: 100, state: 'Z', pgrp: 100, session: 7, start: 10}}}
	var sent []syscall.Signal
	g := fakeGroup(table, &sent)
	g.pinLocked()
	g.collected, g.reaped = true, 500
	table.processes = nil
	g.settle()
	table.processes = []process{{pid: 100, state: 'S', pgrp: 100, session: 7, start: 20}} // would be proof by its start
	if pids, _ := g.members(); pids != nil || g.signalNow(syscall.SIGKILL) || len(sent) != 0 {
		t.Errorf("members = %v, sent %v; want none", pids, sent)
	}
}

// The numbers that kill(2) reads as "my own group" and "everybody" are never
// passed to it.
func TestKillGroupRefusesSpecialNumbers(t *testing.T) {
	t.Attr("requirement", "KILL-12")
	for _, id := range []int{1, 0, -1, -7} {
		if err := killGroup(id, 0); err != syscall.ESRCH {
			t.Errorf("killGroup(%d) = %v, want ESRCH", id, err)
		}
	}
}
