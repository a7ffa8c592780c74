package execution

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// orphans reaps the children that were handed to this process by the kernel:
// those of PID 1 and of a child subreaper.
type orphans struct {
	wake  chan os.Signal
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
	table procReader
	self  int
}

// NewReaper makes an owner that also reaps orphans, by pid, and never one of
// its own children. The command uses it when it is PID 1 or a child subreaper;
// a library must not, since it would collect its host's children.
func NewReaper() *Waits {
	w := NewWaits()
	w.orphans = &orphans{
		wake: make(chan os.Signal, 1), stop: make(chan struct{}), done: make(chan struct{}),
		table: procFS{"/proc"}, self: os.Getpid(),
	}
	signal.Notify(w.orphans.wake, syscall.SIGCHLD)
	w.orphans.kick() // orphans may have come before the signal was watched
	go w.reapOrphans()
	return w
}

// Close ends the reaping of orphans. Waits for own children stay possible.
func (w *Waits) Close() {
	o := w.orphans
	if o == nil {
		return
	}
	o.once.Do(func() { close(o.stop) })
	<-o.done
}

func (o *orphans) kick() {
	if o == nil {
		return
	}
	select {
	case o.wake <- syscall.SIGCHLD:
	default: // one look to come sees everything before it
	}
}

func (w *Waits) reapOrphans() {
	o := w.orphans
	defer close(o.done)
	defer signal.Stop(o.wake)
	for {
		select {
		case <-o.stop:
			return
		case <-o.wake:
			w.reapRound()
		}
	}
}

// reapRound reaps every orphan that has ended. The kernel shows one zombie at
// a time; when that is a child of our own, which its owner will collect in its
// own time, the others are found in the process table.
func (w *Waits) reapRound() {
	for {
		pid := peekZombie()
		if pid == 0 {
			return
		}
		if !w.reapOrphan(pid) {
			break
		}
	}
	all, err := w.orphans.table.pids()
	if err != nil {
		return
	}
	for _, pid := range all {
		p, err := w.orphans.table.stat(pid)
		if err == nil && p.ppid == w.orphans.self && p.dead() {
			w.reapOrphan(pid)
		}
	}
}

// peekZombie returns a child that has ended, without collecting it; 0: none.
func peekZombie() int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Signo != int32(unix.SIGCHLD) {
			return 0
		}
		return infoPid(&info)
	}
}

// reapOrphan collects pid unless it is a child of our own. No fork is under
// way meanwhile, so a child that nobody entered yet cannot be mistaken.
func (w *Waits) reapOrphan(pid int) bool {
	w.fork.Lock()
	defer w.fork.Unlock()
	if w.owns(pid) {
		return false // WAIT-2: the status belongs to the exec
	}
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // WAIT-1: by pid, never -1
	return err == nil && got == pid
}
