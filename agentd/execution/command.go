package execution

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Command is what to run. The core takes it as it is: names are resolved, and
// the environment is whole. The caller must not change it after Start.
type Command struct {
	// Path is the program, found by the caller. A relative path is resolved
	// after the change of directory (wire facts, section 7.1).
	Path string
	// Args is the whole argument list, the program's name first.
	Args []string
	// Env is the child's environment, exactly: "NAME=value" entries. Empty
	// means an empty environment, never the daemon's.
	Env []string
	// Dir is the working directory; empty: the daemon's.
	Dir string
	// Credential is the user, group and supplementary groups; nil: the
	// daemon's own.
	Credential *syscall.Credential
	// Stdin asks for a pipe; otherwise the child's stdin is /dev/null.
	Stdin bool
	// Timeout ends the command after this long; 0: never.
	Timeout time.Duration
	// ReapGroup ends what is left of the group once the leader has exited.
	ReapGroup bool
	// DieWithParent has the kernel send SIGKILL to the child when the daemon
	// dies, by whatever signal. It covers the child alone, not what the child
	// forked. When the registry is closed the protection ends, and the child
	// may be killed then.
	DieWithParent bool
	// CutPipes closes the daemon's ends of the pipes at the terminal marker:
	// a process that still writes them gets SIGPIPE and costs no descriptor.
	// Otherwise they are drained to their end.
	CutPipes bool

	// Capture replaces the registry's capture plan; nil: the registry's.
	Capture *Capture
	// Kill replaces the registry's kill plan; nil: the registry's.
	Kill *KillPlan
	// Descriptors become 3, 4, … in the child (manager facts, section 4.5).
	Descriptors []Descriptor
}

// Descriptor is one further descriptor of a child: a file that it inherits, or
// a pipe that it writes and the core drains.
type Descriptor struct {
	// File is inherited. It stays the caller's to close.
	File *os.File
	// Open, when File is nil, makes the file at the spawn, so that a command
	// that waits for admission holds none. No other child is created meanwhile,
	// so it must not block. The core closes the descriptor, which has to be
	// close-on-exec, once the child has its copy or the spawn has failed.
	Open func() (fd int, err error)
	// Sink, when both are nil, receives what the child writes to the pipe, in
	// order, from one goroutine. The command's end waits for its end of file
	// as it does for stdout's, within the linger.
	Sink io.Writer
}

// Validate finds what no kernel call could take: it returns a *SpawnError that
// wraps ErrInvalidCommand and names the field, never a value. Start calls it;
// a front door may call it earlier.
func (c *Command) Validate() error {
	if len(c.Args) == 0 {
		return invalid(OpArgs, "the argument list is empty")
	}
	if strings.IndexByte(c.Path, 0) >= 0 {
		return invalid(OpArgs, "the program path holds a NUL byte")
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return invalid(OpArgs, fmt.Sprintf("argument %d holds a NUL byte", i))
		}
	}
	for i, v := range c.Env {
		if strings.IndexByte(v, 0) >= 0 {
			return invalid(OpEnv, fmt.Sprintf("entry %d holds a NUL byte", i))
		}
		if strings.IndexByte(v, '=') <= 0 {
			return invalid(OpEnv, fmt.Sprintf("entry %d has no name", i))
		}
	}
	if strings.IndexByte(c.Dir, 0) >= 0 {
		return invalid(OpChdir, "the working directory holds a NUL byte")
	}
	for i, d := range c.Descriptors {
		if d.File == nil && d.Open == nil && d.Sink == nil {
			return invalid(OpPipe, fmt.Sprintf("descriptor %d has neither a file nor a sink", i+3))
		}
	}
	return nil
}

func invalid(op, what string) error {
	return &SpawnError{Op: op, Err: fmt.Errorf("%w: %s", ErrInvalidCommand, what)}
}
