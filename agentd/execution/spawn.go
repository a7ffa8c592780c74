package execution

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawned is a child and the daemon's ends of its pipes.
type spawned struct {
	proc  *Process
	out   [2]*os.File // nil when nothing is captured
	sinks []sinkPipe
	stdin *os.File // nil when not requested
}

type sinkPipe struct {
	read *os.File
	sink io.Writer
}

// spawn creates the process of c. All its errors are *SpawnError.
func spawn(w *Waits, c *Command, capture Capture) (*spawned, error) {
	if err := checkDir(c.Dir); err != nil {
		return nil, err
	}
	var s spawned
	if err := s.create(w, c, capture); err != nil {
		s.close()
		var failed *SpawnError
		if !errors.As(err, &failed) {
			err = &SpawnError{Op: stage(c, err), Err: err}
		}
		return nil, err
	}
	return &s, nil
}

// create makes the pipes and the process, and closes the child's ends.
//
// STDIN-11: no other process is created meanwhile. Between its fork and its
// exec a process holds a copy of every descriptor: with the read end of this
// child's stdin it would keep a pipe alive whose reader is dead, and bytes would
// be accepted that nobody will ever read.
func (s *spawned) create(w *Waits, c *Command, capture Capture) error {
	w.creating.Lock()
	defer w.creating.Unlock()
	files, err := s.open(c, capture)
	defer files.close()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   c.Env,
		Files: files.fds,
		// EXEC-16, EXEC-17: group, ids and directory are set in the child, in
		// this order, before the program starts.
		// The group has the leader's pid as its number from before the exec
		// (wire facts, section 7.1), so no moment exists in which a signal to
		// it would miss the child.
		Sys: &syscall.SysProcAttr{Setpgid: true, Credential: c.Credential},
	}
	if c.DieWithParent {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	s.proc, err = w.start(c.Path, c.Args, attr)
	return err
}

// childFiles are the descriptors of the child by number, and which of them are
// the daemon's to close once the child has its copies.
type childFiles struct {
	fds   []uintptr
	owned []int
}

func (f *childFiles) add(fd int) {
	f.fds = append(f.fds, uintptr(fd))
	f.owned = append(f.owned, fd)
}

func (f *childFiles) close() {
	for _, fd := range f.owned {
		unix.Close(fd)
	}
}

// open makes the pipes. On an error what was opened is in s and in the result.
func (s *spawned) open(c *Command, capture Capture) (f childFiles, err error) {
	if c.Stdin {
		s.stdin, err = f.pipeTo()
	} else {
		err = f.null(unix.O_RDONLY) // STDIN-1: opt-in only
	}
	for i := 0; err == nil && i < len(s.out); i++ {
		if capture.Discard {
			err = f.null(unix.O_WRONLY)
		} else {
			s.out[i], err = f.pipeFrom()
		}
	}
	for i := 0; err == nil && i < len(c.Descriptors); i++ {
		d := c.Descriptors[i]
		if d.File != nil {
			f.fds = append(f.fds, d.File.Fd())
			continue
		}
		if d.Open != nil {
			var fd int
			if fd, err = d.Open(); err == nil {
				f.add(fd)
			}
			continue
		}
		var r *os.File
		if r, err = f.pipeFrom(); err == nil {
			s.sinks = append(s.sinks, sinkPipe{r, d.Sink})
		}
	}
	if err != nil {
		err = &SpawnError{Op: OpPipe, Err: err}
	}
	return f, err
}

func (f *childFiles) null(mode int) error {
	fd, err := unix.Open("/dev/null", mode|unix.O_CLOEXEC, 0)
	if err == nil {
		f.add(fd)
	}
	return err
}

// pipeFrom makes a pipe that the child writes.
func (f *childFiles) pipeFrom() (*os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	f.add(p[1])
	return pollable(p[0])
}

// pipeTo makes a pipe that the child reads.
func (f *childFiles) pipeTo() (*os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	f.add(p[0])
	return pollable(p[1])
}

// pollable takes the daemon's end of a pipe. Only that end becomes
// non-blocking: the child's is a file description of its own.
func pollable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// pipes counts the pipes that the child writes.
func (s *spawned) pipes() int {
	n := len(s.sinks)
	for _, f := range s.out {
		if f != nil {
			n++
		}
	}
	return n
}

// close closes the daemon's ends.
func (s *spawned) close() {
	for _, f := range s.out {
		if f != nil {
			_ = f.Close()
		}
	}
	for _, p := range s.sinks {
		_ = p.read.Close()
	}
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
}

// checkDir refuses a working directory before anything is created. A path
// through a link of /proc/PID (fd, cwd, root) is refused as well: in the
// child, just before the program starts, it would lead into the daemon's own
// descriptors.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.6, or filtered
		fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return &SpawnError{Op: OpChdir, Err: err}
	}
	unix.Close(fd)
	return nil
}

// stage finds out which step of the child failed: the kernel's errno came
// through one pipe for all of them.
func stage(c *Command, err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return OpArgs
	}
	switch errno {
	case syscall.EAGAIN, syscall.ENOSYS:
		return OpFork
	case syscall.EPERM:
		if c.Credential != nil && os.Geteuid() != 0 {
			return OpCredential
		}
	case syscall.EINVAL:
		// 4294967295 is no id: it means "leave as it is" to the kernel.
		if c.Credential != nil && (c.Credential.Uid == ^uint32(0) || c.Credential.Gid == ^uint32(0)) {
			return OpCredential
		}
	case syscall.EACCES, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		if c.Dir != "" && !canEnter(c.Dir, c.Credential) {
			return OpChdir
		}
	}
	return OpExec
}

// canEnter says whether the credential may change into dir. It asks as that
// user, by the file system ids of one thread, which is then thrown away.
func canEnter(dir string, cred *syscall.Credential) bool {
	answer := make(chan bool)
	go func() {
		if cred != nil {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if !cred.NoSetGroups {
				groups := cred.Groups
				var first unsafe.Pointer
				if len(groups) > 0 {
					first = unsafe.Pointer(&groups[0])
				}
				_, _, _ = unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
			}
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(cred.Gid), 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(cred.Uid), 0, 0)
		}
		fd, err := unix.Open(dir+"/.", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		answer <- err == nil
	}()
	return <-answer
}
