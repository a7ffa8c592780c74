package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenUnix listens on a unix socket that only this user may connect to. The
// listener removes the socket when it is closed.
func listenUnix(path string) (net.Listener, error) {
	// SETTING-12: nobody else gets through a directory that the manager makes.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the socket: %w", err)
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	// The mask is the process's. Nothing else runs yet that creates files.
	mask := syscall.Umask(0o177)
	// SETTING-17: the package removes the socket when the listener is closed.
	l, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return l, nil
}

// clearSocket removes a socket that nobody listens on. Everything else that is
// in the way is refused.
//
// SETTING-13: a path that was mistyped must not cost a file, nor another
// manager its clients.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on %q: it exists and is no socket; remove it, or give another --socket", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("cannot listen on %q: another process does; end it, or give another --socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether somebody listens on %q: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the socket that was left over: %w", err)
	}
	return nil
}

// errParentEnded is the cause by which parentContext ends.
var errParentEnded = errors.New("the parent process ended")

// parentContext returns a context that ends when the parent process does. The
// kernel tells of that end by the parent's pidfd: nothing is polled, and a
// thread of the parent that ends is not taken for it.
func parentContext(ctx context.Context) (watched context.Context, stop func(), err error) {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil && err != unix.ESRCH {
		return nil, nil, fmt.Errorf("cannot watch the parent process for --die-with-parent: %w", err)
	}
	watched, end := context.WithCancelCause(ctx)
	// SETTING-15: a parent that is gone has left its child to another, whose
	// pidfd would tell nothing.
	if err != nil || os.Getppid() != parent {
		end(errParentEnded)
		if err == nil {
			unix.Close(fd)
		}
		return watched, func() {}, nil
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ended(f) {
			end(errParentEnded)
		}
	}()
	return watched, func() {
		_ = f.Close() // it only watches
		<-done
		end(nil)
	}, nil
}

// ended waits until the process of a pidfd has ended, and reports false when
// the descriptor was closed before.
func ended(pidfd *os.File) bool {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		over = err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
		return over
	})
	return err == nil && over
}
