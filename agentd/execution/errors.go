package execution

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors that callers branch on.
var (
	// ErrStillRunning is returned by Exec.Ack before the terminal marker.
	ErrStillRunning = errors.New("exec is still running: poll until it has exited")
	// ErrAlreadyAcked is returned by Exec.Ack when the result was released before.
	ErrAlreadyAcked = errors.New("exec is already acked: its result was released by the first ack")
	// ErrStdinNotRequested is returned by Exec.WriteStdin when the command was
	// started without stdin.
	ErrStdinNotRequested = errors.New("stdin was not requested: start the exec with stdin")
	// ErrStdinClosed is returned by Exec.WriteStdin after an end of file was
	// sent, after the exec has exited, or when no process reads the pipe.
	ErrStdinClosed = errors.New("stdin is closed")
	// ErrStdinTimeout is returned by Exec.WriteStdin when the child did not
	// drain the pipe in time. The pipe stays open; the count says what was taken.
	ErrStdinTimeout = errors.New("stdin write timed out: the child does not read; retry from the written count")
	// ErrStdinTooLarge is returned by Exec.WriteStdin for more bytes than
	// Config.MaxStdinWrite. Nothing was written.
	ErrStdinTooLarge = errors.New("stdin write is too large: split it")
	// ErrClosed is returned once the registry was closed.
	ErrClosed = errors.New("registry is closed")
	// ErrReaderClosed is returned by Reader.Next after Reader.Close.
	ErrReaderClosed = errors.New("reader is closed")
	// ErrKilledBeforeSpawn is returned by Registry.Start when a kill ended the
	// wait for admission: no process was created.
	ErrKilledBeforeSpawn = errors.New("exec was killed before its process was created")
	// ErrInvalidCommand is wrapped by a SpawnError for a command that no kernel
	// call could take: a NUL byte, an environment entry without a name.
	ErrInvalidCommand = errors.New("invalid command")
)

// The stages of a spawn, the values of SpawnError.Op.
const (
	OpArgs       = "argv"       // the argument list, before any call
	OpEnv        = "env"        // the environment, before any call
	OpChdir      = "chdir"      // the working directory
	OpCredential = "credential" // user, group and supplementary groups
	OpPipe       = "pipe"       // the pipes to the child
	OpFork       = "fork"       // the new process
	OpExec       = "exec"       // the program
)

// SpawnError says at which stage a spawn failed and why. Err is a
// syscall.Errno where the kernel refused. It holds no argument, no path and no
// environment value, so it can be logged.
type SpawnError struct {
	Op  string // one of the Op constants
	Err error
}

// Error names the stage, the errno and, where there is something to do, what.
func (e *SpawnError) Error() string {
	var errno syscall.Errno
	if errors.As(e.Err, &errno) {
		return fmt.Sprintf("cannot spawn: %s: %v%s", e.Op, errno, spawnHint(e.Op, errno))
	}
	return fmt.Sprintf("cannot spawn: %s: %v", e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *SpawnError) Unwrap() error { return e.Err }

// Errno returns the kernel's answer, or 0 when the core itself refused.
func (e *SpawnError) Errno() syscall.Errno {
	var errno syscall.Errno
	errors.As(e.Err, &errno)
	return errno
}

func spawnHint(op string, errno syscall.Errno) string {
	switch {
	case errno == syscall.E2BIG:
		return " (E2BIG: one argument or variable holds at most 131072 bytes, all together a quarter of the stack limit; use stdin or a file)"
	case errno == syscall.ENOEXEC:
		return " (ENOEXEC: not a program; a script needs a #! line or a shell)"
	case errno == syscall.ENOENT && op == OpExec:
		return " (ENOENT: the program, or the interpreter that it names, does not exist)"
	case errno == syscall.EAGAIN && op == OpFork:
		return " (EAGAIN: a process limit was reached)"
	case errno == syscall.ELOOP && op == OpChdir:
		return " (ELOOP: a loop of links, or a link into a process's descriptors)"
	}
	return ""
}
