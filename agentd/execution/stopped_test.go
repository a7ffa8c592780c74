package execution

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stopped waits until a child has stopped itself.
func stopped(t testing.TB, e *Exec) {
	t.Helper()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, e.group.id, &info, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// resume continues a child that stopped itself, not before it has.
func resume(t testing.TB, e *Exec) {
	t.Helper()
	stopped(t, e)
	if err := syscall.Kill(e.group.id, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// full waits until the child's stdin pipe takes no more.
func full(t testing.TB, e *Exec) {
	t.Helper()
	for {
		e.stdin.mu.Lock()
		f := e.stdin.file
		e.stdin.mu.Unlock()
		if f == nil {
			t.Fatal("stdin is closed")
		}
		conn, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		writable := false
		if err := conn.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			n, _ := unix.Poll(fds, 1)
			writable = n > 0
		}); err != nil {
			t.Fatal(err)
		}
		if !writable {
			return
		}
	}
}
