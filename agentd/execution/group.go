package execution

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Why no signal reaches a stranger.
//
// A command's group has the number of its leader. The kernel gives a number
// out again only when no process has it as its pid, its group or its session.
// So the number is ours
//
//	(a) while the leader is not collected, a zombie included, and
//	(b) after that, for as long as one member of the group is left.
//
// A signal is sent under the group's lock, and the leader is collected under
// the same lock, so (a) cannot end between the look and the signal. After it,
// (b) must be shown before each signal:
//
//   - Where the kernel can signal the group of a pidfd (Linux 6.9), the
//     leader's pidfd, kept from the spawn, names the old group itself, not its
//     number: signal 0 to it answers ESRCH when the group is empty, and no
//     signal sent through it can reach a group that took the number later.
//   - Elsewhere a member proves the group. Before the leader is collected, and
//     at each later proof, the members are recorded with their start times. A
//     process that has a recorded pid, the recorded start time and still our
//     group number is the same process, so the group never was empty, so the
//     number is ours; with it all other processes of that number are members
//     too. A member not recorded counts when it is of the leader's session and
//     started before the leader was collected: the number was ours then, and a
//     process enters another's group only within its session. If nobody
//     proves the group, the signal is refused: signalled is false.
//
// Without the pidfd there is a moment between the proof and kill(2) in which
// the last member may exit and the number be given out again; it takes one
// whole turn of the pid counter in that moment. With the pidfd there is none.

// member identifies a process for ever: a pid is given out again, a pid with
// its start time is not.
type member struct {
	pid   int
	start uint64
}

// group is the process group of a command.
type group struct {
	id    int // pid of the leader; 0: none, the command never had a process
	table procReader
	kill  func(id int, sig syscall.Signal) error // killGroup; tests put a table's in its place

	// mu may be held while the process table is read, so it is not the exec's
	// lock; where both are held, mu was taken first.
	mu        sync.Mutex
	handle    *groupHandle
	collected bool // the leader's status was collected: (a) is over
	gone      bool // nothing is left, for ever: an empty group cannot be entered
	watchers  int  // who waits for its end: a collected record keeps its group for them

	session int      // the leader's session
	known   []member // proven members, from the last look
	reaped  uint64   // clock ticks after boot when the leader was collected
}

// members is lookLocked for those who only read.
func (g *group) members() ([]int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lookLocked()
}

// lookLocked lists the live members, ascending. Where nobody proves that the
// group is ours it lists none: a stranger is never listed.
func (g *group) lookLocked() (pids []int, err error) {
	if g.id == 0 || g.gone {
		return nil, nil
	}
	if g.collected && g.empty() {
		g.endLocked()
		return nil, nil
	}
	all, err := g.table.pids()
	if err != nil {
		return nil, err
	}
	var found []member
	proven := !g.collected // KILL-9, KILL-12: after that, somebody has to prove it
	for _, pid := range all {
		p, err := g.table.stat(pid)
		if err != nil || p.pgrp != g.id {
			continue
		}
		m := member{p.pid, p.start}
		found = append(found, m)
		proven = proven || g.proves(m, p)
		if p.live(g.table) { // PROC-2: the table is ascending
			pids = append(pids, pid)
		}
	}
	// The handle saw the old group before the listing. If it still sees it
	// now, the group existed all the while, and the listing is of our group.
	if !proven && g.handle.probe() == groupPresent {
		proven = true
	}
	if !proven {
		return nil, nil
	}
	g.known = found
	return pids, nil
}

// proves says whether a process that has our group number shows that the
// number is still ours (see above).
func (g *group) proves(m member, p process) bool {
	for _, k := range g.known {
		if k == m {
			return true
		}
	}
	return p.session == g.session && g.session != 0 && m.start < g.reaped
}

// empty says whether no process has our group number, or the handle knows
// that the old group has ended. It costs one call and never lists processes.
func (g *group) empty() bool {
	switch g.handle.probe() {
	case groupPresent:
		return false
	case groupAbsent:
		return true
	}
	// ESRCH is a proof of absence; success would be none of presence, since it
	// counts zombies and strangers (wire facts, section 16).
	return errors.Is(g.kill(g.id, 0), syscall.ESRCH)
}

// sendLocked sends sig to the members that lookLocked has just listed, and
// says whether one received it.
func (g *group) sendLocked(pids []int, sig syscall.Signal, leaderOnly bool) (bool, error) {
	var err error
	switch {
	case len(pids) == 0:
		return false, nil
	case leaderOnly:
		if g.collected || !slices.Contains(pids, g.id) {
			return false, nil
		}
		err = syscall.Kill(g.id, sig)
	default:
		err = g.handle.signal(sig)
		if errors.Is(err, errNoGroupSignal) {
			err = g.kill(g.id, sig)
		}
	}
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// pinLocked records who is in the group while the leader still holds its number. It
// is called right before the leader is collected, and lists the processes only
// where the handle cannot tell the group afterwards.
func (g *group) pinLocked() {
	if g.handle.probe() != groupUnknown {
		return
	}
	if p, err := g.table.stat(g.id); err == nil {
		g.session = p.session
	}
	_, _ = g.lookLocked() // a table that cannot be read proves nothing later: signals are refused
}

// settle closes the handle of a group that is known to be empty, so that a
// finished command keeps no descriptor.
func (g *group) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.collected && !g.gone && g.empty() {
		g.endLocked()
	}
}

// end is endLocked for those that do not hold the lock.
func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked()
}

// forget is end for a record that was collected, unless somebody waits for the
// group's end.
func (g *group) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watchers == 0 {
		g.endLocked()
	}
}

// endLocked lets go of the group: nothing is left to signal, or nobody will.
func (g *group) endLocked() {
	g.gone = true
	g.handle.close()
	g.known = nil
}

// killGroup is kill(2) of a whole group. It is never called with 0 or 1: those
// would mean the daemon's own group, or everything.
func killGroup(id int, sig syscall.Signal) error {
	if id <= 1 {
		return syscall.ESRCH
	}
	return syscall.Kill(-id, sig)
}

// bootTicks is the present time in the unit of a process's start time: clock
// ticks, of which Linux reports 100 a second to user space on every platform
// that Go supports.
func bootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(time.Duration(ts.Nano()) / (10 * time.Millisecond))
}

// groupHandle signals the group of a leader by the leader's pidfd. A nil
// handle knows nothing.
type groupHandle struct{ fd int }

type presence uint8

const (
	groupUnknown presence = iota // the kernel cannot tell
	groupPresent
	groupAbsent
)

// errNoGroupSignal is returned where the kernel has no signal to a pidfd's group.
var errNoGroupSignal = errors.New("no group signal by pidfd")

// noGroupSignal remembers that the kernel refused the flag.
var noGroupSignal atomic.Bool

func (h *groupHandle) signal(sig syscall.Signal) error {
	if h == nil || h.fd < 0 || noGroupSignal.Load() {
		return errNoGroupSignal
	}
	err := unix.PidfdSendSignal(h.fd, sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if err == unix.EINVAL || err == unix.ENOSYS {
		noGroupSignal.Store(true)
		return errNoGroupSignal
	}
	return err
}

func (h *groupHandle) probe() presence {
	switch err := h.signal(0); {
	case err == nil || errors.Is(err, syscall.EPERM):
		return groupPresent
	case errors.Is(err, syscall.ESRCH):
		return groupAbsent
	}
	return groupUnknown
}

func (h *groupHandle) close() {
	if h != nil && h.fd >= 0 {
		unix.Close(h.fd)
		h.fd = -1
	}
}
