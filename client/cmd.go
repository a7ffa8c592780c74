package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"microvms/agentd/api"
)

// Cmd is a command on the daemon's side, to be used as an os/exec Cmd is: set
// fields, then Run, Output, or Start and Wait, once. Make one by
// [Session.Command].
//
// Ending the context stops the waiting; the command goes on unless
// KillOnCancel is set.
type Cmd struct {
	// Args is the argument vector, the program first. A bare program name is
	// looked up on the PATH of Env.
	Args []string
	// Shell runs Args, joined by newlines, as a script of /bin/sh; ShellName
	// names another shell.
	Shell     bool
	ShellName string
	// ID is the exec id. Empty: a fresh one. A stable one makes Start safe to
	// repeat. It is set by Start.
	ID string
	// Dir is the working directory; empty means the daemon's own.
	Dir string
	// Env holds "key=value" entries; the last of a key wins. Unlike in os/exec
	// nil does not mean this process's environment: the command gets the launch
	// environment of its VM and these entries.
	Env []string
	// Stdin feeds the command's input; nil means /dev/null. Wait does not wait
	// for a Read of it that is still blocked when the command has ended.
	Stdin io.Reader
	// Stdout and Stderr receive the output, written by one goroutine in the
	// order of the exec's offsets; so the two may be the same writer.
	Stdout, Stderr io.Writer
	// User and Group are those to run as; nil means the daemon's default.
	User, Group *api.NameOrID
	// Timeout is the daemon's deadline for the command, 0 none. The daemon keeps
	// it even when this client is gone.
	Timeout time.Duration
	// InheritImageEnv puts the image's environment below the other layers.
	InheritImageEnv bool
	// ReapGroup ends what the command left behind in its process group.
	ReapGroup bool
	// KillOnCancel kills the command when the context ends. The kill is sent in
	// the background; Session.Close waits for it.
	KillOnCancel bool

	// ProcessState tells how the command ended. It is set by Wait.
	ProcessState *ProcessState

	session   *Session
	ctx       context.Context
	started   bool
	waited    bool
	done      chan struct{} // closed when followed is set
	followed  *completion
	err       error
	writeErr  error
	stdinErr  chan error // capacity 1; receives when the copy of Stdin ends
	stdinPipe *io.PipeReader
}

// Command prepares to run the program name with args. Nothing is sent yet.
func (s *Session) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{session: s, ctx: ctx, Args: append([]string{name}, args...)}
}

// String shows the arguments, for humans.
func (c *Cmd) String() string { return strings.Join(c.Args, " ") }

// StdinPipe returns a writer that feeds the command's input. Close it to end
// the input. Call it before Start.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.started {
		return nil, invalidArg("StdinPipe: the input is set already, or the command is started")
	}
	r, w := io.Pipe()
	c.Stdin, c.stdinPipe = r, r
	return w, nil
}

// Start starts the command and the copying of its input and output. Errors are
// those of [Session.Start].
func (c *Cmd) Start() error {
	if c.started {
		return invalidArg("the command was started before; a Cmd runs once")
	}
	req, err := c.request()
	if err != nil {
		return err
	}
	if c.ID, err = c.session.Start(c.ctx, req); err != nil {
		return err
	}
	c.started, c.done = true, make(chan struct{})
	ctx, cancel := context.WithCancelCause(c.ctx)
	if c.Stdin != nil {
		c.stdinErr = make(chan error, 1)
		go c.feed(ctx, cancel)
	}
	ok := c.session.goCall(func() {
		c.follow(ctx)
		cancel(nil)
		close(c.done)
		// After done, so that Wait returns at once; here, so that Close waits.
		if c.err != nil && c.ctx.Err() != nil && c.KillOnCancel {
			c.session.killDetached(c.ID)
		}
	})
	if !ok {
		cancel(nil)
		return errSessionClosed()
	}
	return nil
}

// request builds the start request from the fields.
func (c *Cmd) request() (api.StartRequest, error) {
	req := api.StartRequest{ExecID: c.ID, Command: c.Args, Stdin: c.Stdin != nil, User: c.User, Group: c.Group,
		ReapGroupOnExit: c.ReapGroup, InheritImageEnv: c.InheritImageEnv}
	if len(c.Args) == 0 || (c.Args[0] == "" && !c.Shell && c.ShellName == "") {
		return req, invalidArg("the command names no program")
	}
	req.Shell = api.Shell{On: c.Shell && c.ShellName == "", Name: c.ShellName, IsNamed: c.ShellName != ""}
	if c.Dir != "" {
		req.Cwd = &c.Dir
	}
	if c.Timeout < 0 {
		return req, invalidArg("timeout of %s: must not be negative", c.Timeout)
	}
	if c.Timeout > 0 {
		sec := c.Timeout.Seconds()
		req.TimeoutSec = &sec
	}
	for _, entry := range c.Env {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return req, invalidArg("environment: an entry is not of the form key=value")
		}
		if req.Env == nil {
			req.Env = make(map[string]string, len(c.Env))
		}
		req.Env[key] = value
	}
	return req, nil
}

// feed copies Stdin. It is not among the goroutines that Close waits for,
// because nothing can end a Read of the caller's reader; all else ends with ctx.
//
// A reader that fails ends the input, as in os/exec. A write that fails ends the
// waiting: the command would wait for the rest of its input for ever.
func (c *Cmd) feed(ctx context.Context, stop context.CancelCauseFunc) {
	_, err := c.session.Stdin(ctx, c.ID, c.Stdin)
	if c.stdinPipe != nil {
		c.stdinPipe.CloseWithError(ErrStdinClosed) // later writes fail instead of blocking
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil // follow closed it, because the command has ended
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	c.stdinErr <- err // before the end of the input, which may end the command
	if err != nil && KindOf(err) == KindPrecondition {
		if _, err = c.session.WriteStdin(ctx, c.ID, nil, true); errors.Is(err, ErrStdinClosed) {
			err = nil
		}
	}
	if err != nil {
		stop(err)
	}
}

// follow streams the output to its writers and takes the result.
func (c *Cmd) follow(ctx context.Context) {
	var sink func(*Output) bool
	if c.Stdout != nil || c.Stderr != nil {
		sink = c.write
	}
	c.followed, c.err = c.session.complete(ctx, c.ID, sink)
	if c.stdinPipe != nil {
		c.stdinPipe.CloseWithError(ErrStdinClosed)
	}
}

func (c *Cmd) write(out *Output) bool {
	w := c.Stdout
	if out.Stream == api.StreamStderr {
		w = c.Stderr
	}
	if w == nil {
		return true
	}
	_, c.writeErr = w.Write(out.Data)
	return c.writeErr == nil
}

// Wait waits until the command has ended and its output is written. The error
// is nil when the command exited 0 by itself; [*ExitError] when it did not;
// ErrGap or ErrTruncated, perhaps joined with that, when output is missing;
// otherwise the failure of the waiting, the input or a writer.
func (c *Cmd) Wait() error {
	if !c.started || c.waited {
		return invalidArg("the command was not started, or was waited for before")
	}
	c.waited = true
	<-c.done
	inputErr := c.inputErr()
	if c.err != nil {
		if inputErr != nil && c.ctx.Err() == nil {
			return inputErr // it ended the waiting
		}
		return c.err
	}
	c.ProcessState = &ProcessState{id: c.ID, outcome: *c.followed.outcome}
	var errs []error
	if !c.ProcessState.Success() {
		// CLIENT-28: the form that callers of os/exec know.
		errs = append(errs, &ExitError{ProcessState: c.ProcessState})
	}
	if inputErr != nil {
		errs = append(errs, inputErr)
	}
	if err := c.outputErr(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// inputErr says why the copy of Stdin failed. One that still blocks in a Read is
// of no interest to a command that has ended.
func (c *Cmd) inputErr() error {
	select {
	case err := <-c.stdinErr:
		return err
	default:
		return nil
	}
}

// outputErr says why the writers did not get all of the output.
func (c *Cmd) outputErr() error {
	switch {
	case c.Stdout == nil && c.Stderr == nil:
		return nil
	case c.writeErr != nil:
		return &Error{Kind: KindPrecondition, Message: "cannot write the output", Err: c.writeErr}
	// CLIENT-19: beside the exit status, because a shortened output reads like a whole one.
	case c.followed.gap != nil:
		return gapError(c.followed.gap.From, c.followed.gap.To)
	case !c.followed.exitSeen:
		return &Error{Kind: KindPlatform, Wire: WireOutputGap,
			Message: fmt.Sprintf("output of exec %q was cut off", c.ID), Err: errors.Join(ErrTruncated, c.followed.streamErr)}
	}
	return nil
}

// Run is Start and Wait.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. An [*ExitError]
// carries the beginning of standard error, unless Stderr is set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, invalidArg("Output: Stdout is set already")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *headBuffer
	if c.Stderr == nil {
		stderr = &headBuffer{limit: 32 << 10}
		c.Stderr = stderr
	}
	err := c.Run()
	var exit *ExitError
	if stderr != nil && errors.As(err, &exit) {
		exit.Stderr = stderr.buf
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns both outputs in their order.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, invalidArg("CombinedOutput: Stdout or Stderr is set already")
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err := c.Run()
	return both.Bytes(), err
}

// Kill ends the command as [Session.Kill] does. It fails with
// os.ErrProcessDone when nothing was left to signal.
func (c *Cmd) Kill(ctx context.Context) error {
	if !c.started {
		return invalidArg("the command was not started")
	}
	signalled, err := c.session.Kill(ctx, c.ID)
	if err == nil && !signalled {
		return os.ErrProcessDone
	}
	return err
}

// headBuffer keeps the first limit bytes written to it.
type headBuffer struct {
	buf   []byte
	limit int
}

func (h *headBuffer) Write(p []byte) (int, error) {
	h.buf = append(h.buf, p[:min(len(p), h.limit-len(h.buf))]...)
	return len(p), nil
}
