package execution

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Waits owns every wait for a child of this process. It waits by pid (WAIT-3),
// so a host of this package keeps its own children's statuses. A second waiter, of
// os/exec or of wait4(-1), would steal statuses from it, so whatever shares
// the process starts its children by [Waits.Start]. All methods are safe for
// concurrent use.
type Waits struct {
	// fork is held for reading while a child is created and entered in own,
	// and for writing while an orphan is judged: a zombie that is not in own
	// under the write lock is none of ours.
	fork sync.RWMutex
	// creating is held while a child's pipes are made, the child is created and
	// its ends are closed here: see spawned.create. The runtime lets one fork
	// run at a time anyway.
	creating sync.Mutex
	mu       sync.Mutex
	own      map[int]struct{} // children not collected yet
	oom      *oomScore

	orphans *orphans // nil: not a reaper
	noPidfd bool     // tests: as if the kernel had no pidfd
}

// NewWaits makes an owner that waits only for its own children.
//
// WAIT-3: by pid, because a wait for any child would steal a host's statuses.
func NewWaits() *Waits { return &Waits{own: map[int]struct{}{}} }

// Process is a child that was started and not collected yet.
type Process struct {
	Pid   int
	waits *Waits
	pidfd *os.File // nil without pidfd support
	group int      // a second descriptor of the same pidfd, for its group; -1: none
}

// Status is how a child ended. Exactly one of the two says so, or neither
// when the status could not be had.
type Status struct {
	ExitCode int // -1 when a signal ended it
	Signal   int // 0 when it exited
	Known    bool
}

// Start creates a child. attr.Sys is not modified. No descriptor beyond
// attr.Files reaches it.
func (w *Waits) Start(path string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	w.creating.Lock()
	defer w.creating.Unlock()
	return w.start(path, argv, attr)
}

// start is Start for those that hold creating.
func (w *Waits) start(path string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	fd := -1
	a := *attr
	sys := syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	sys.PidFD = &fd
	a.Sys = &sys
	if a.Env == nil {
		a.Env = []string{} // EXEC-14: nil would hand over the daemon's environment
	}

	w.fork.RLock()
	closeOnExec()              // WAIT-4: whatever the daemon inherited, or opened since the last fork
	leave := w.oom.enterFork() // WAIT-7: the child copies the score of this moment
	pid, err := syscall.ForkExec(path, argv, &a)
	leave()
	if err == nil {
		w.mu.Lock()
		w.own[pid] = struct{}{}
		w.mu.Unlock()
	}
	w.fork.RUnlock()
	if err != nil {
		return nil, err
	}
	p := &Process{Pid: pid, waits: w, group: -1}
	if w.noPidfd && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	if fd >= 0 {
		p.openPidfd(fd)
	}
	return p, nil
}

// openPidfd gives one descriptor to the runtime's poller, so that a waiting
// child costs a parked goroutine and no thread, and keeps one for the group.
func (p *Process) openPidfd(fd int) {
	if second, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		p.group = second
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return
	}
	p.pidfd = os.NewFile(uintptr(fd), "pidfd")
}

// closeOnExec marks every descriptor that the daemon itself inherited; Go
// marks those it opens. Only kernels before 5.11 lack the call, and there the
// command's start is the place.
func closeOnExec() {
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
}

// Exited blocks until the child has ended or ctx is done. It leaves the status
// to Collect, so the pid stays the child's.
func (p *Process) Exited(ctx context.Context) error {
	if p.pidfd == nil {
		return p.exitedByPid(ctx)
	}
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot wait for pid %d: %w", p.Pid, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.pidfd.Close() })
	defer stop()
	var waitErr error
	err = conn.Read(func(uintptr) bool {
		var ended bool
		ended, waitErr = p.ended(unix.WNOHANG)
		return ended || waitErr != nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // the poller does not take the descriptor
		return p.exitedByPid(ctx)
	}
	return waitErr
}

// exitedByPid waits in a thread of its own. Without a pidfd that wait cannot
// be called off, so its goroutine lasts until the child ends.
func (p *Process) exitedByPid(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		_, err := p.ended(0)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ended asks whether the child has ended, without collecting its status.
func (p *Process) ended(options int) (bool, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("cannot wait for pid %d: %w", p.Pid, err)
		}
		return info.Signo == int32(unix.SIGCHLD), nil
	}
}

// Collect takes the status of a child that has ended, and with it gives the
// pid back to the kernel. It does not block.
func (p *Process) Collect() Status {
	w := p.waits
	var ws syscall.WaitStatus
	var pid int
	var err error
	// One step under the lock: between the wait and the removal the kernel may
	// give the pid to a new child, whose entry must not be the one removed.
	w.mu.Lock()
	for {
		pid, err = syscall.Wait4(p.Pid, &ws, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if pid != 0 {
		delete(w.own, p.Pid)
	}
	w.mu.Unlock()
	w.orphans.kick() // behind our own zombie an orphan may have waited
	if err != nil || pid != p.Pid {
		return Status{ExitCode: -1}
	}
	if ws.Signaled() {
		return Status{ExitCode: -1, Signal: int(ws.Signal()), Known: true}
	}
	return Status{ExitCode: ws.ExitStatus(), Known: true}
}

// Wait is Exited and Collect.
func (p *Process) Wait(ctx context.Context) (Status, error) {
	if err := p.Exited(ctx); err != nil {
		return Status{ExitCode: -1}, err
	}
	return p.Collect(), nil
}

// takeGroup hands over the descriptor by which the child's group is signalled.
func (p *Process) takeGroup() int {
	fd := p.group
	p.group = -1
	return fd
}

// Release closes the descriptors of the child. It neither ends nor collects it.
func (p *Process) Release() {
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
	if p.group >= 0 {
		unix.Close(p.group)
		p.group = -1
	}
}

// owns says whether pid is a child that was not collected yet.
func (w *Waits) owns(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.own[pid]
	return ok
}

// infoPid reads si_pid, which unix.Siginfo leaves in its blank fields: on
// 64-bit Linux it stands behind three ints and four bytes of padding.
func infoPid(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}
