package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/trace"
	"microvms/model"
	"microvms/model/bootstrap"
)

// handlerBudget is the time that the daemon gives a handler by default (wire
// facts, section 3).
const handlerBudget = 20 * time.Second

// BootstrapHandlers is BootstrapGated for an image with handlers: real processes
// that tell the driver when they run and what they see, and that end when it
// says so, or hang.
//
// Its table is that of BootstrapGated and
//
//	HookHandlerStart     let the request go from HookHandlerStart; the handler says that it runs, and what it sees
//	HookHandlerEnd       tell the handler to end; let the request go from HookHandlerEnd
//	HookHandlerDeadline  move the clock by the budget; let the request go from HookHandlerEnd
func BootstrapHandlers(c bootstrap.Config, start Starter) Spec[bootstrap.State] {
	s := BootstrapGated(c, start)
	s.Name = "handlers-" + c.Name
	s.Start = func(ctx context.Context, _ bootstrap.State) (Driver[bootstrap.State], error) {
		d := &handlerDriver{gatedDriver: gatedDriver{driven: map[uint64]bool{}}}
		if err := d.image(); err != nil {
			return nil, errors.Join(err, d.discard())
		}
		var err error
		o := Options{Hold: d.hold, LogSize: c.LogCap, HandlerDir: filepath.Join(d.dir, "hooks.d")}
		if d.system, err = newBootstrapSystem(ctx, start, o, c); err != nil {
			return nil, errors.Join(err, d.discard())
		}
		return d, nil
	}
	project := s.Project
	s.Project = func(t Transition[bootstrap.State]) Observation {
		return append(project(t), model.Field{Name: "expired handlers", Value: strconv.Itoa(int(t.To.Expired))})
	}
	return s
}

// handlerDriver is a gatedDriver with an image. One handler runs at a time, so
// one pair of pipes is enough.
type handlerDriver struct {
	gatedDriver
	dir    string
	up     *os.File // handlers say here that they run
	lines  *bufio.Reader
	goOn   *os.File // and read here that they may end
	finite int      // handlers that were told to end
}

// handlerScript says the hook, the launch environment and how often a token is
// in the environment, and waits.
const handlerScript = `#!/bin/sh
echo "$AGENTD_HOOK ${` + envName + `-none} $(env | grep -c launch-token)" > %[1]s/up
read line < %[1]s/go
`

// image makes the handlers and their pipes.
func (d *handlerDriver) image() (err error) {
	if d.dir, err = os.MkdirTemp("", "replay-image-"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(d.dir, "hooks.d"), 0o755); err != nil {
		return err
	}
	for _, hook := range []bootstrap.Hook{bootstrap.Run, bootstrap.Suspend, bootstrap.Resume, bootstrap.Terminate} {
		if err := writeProgram(filepath.Join(d.dir, "hooks.d", hook.String()), fmt.Sprintf(handlerScript, d.dir)); err != nil {
			return err
		}
	}
	for name, file := range map[string]**os.File{"up": &d.up, "go": &d.goOn} {
		path := filepath.Join(d.dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return err
		}
		// Both ends are open here, so no open of a handler waits and no read of the driver's ends.
		if *file, err = os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
			return err
		}
	}
	d.lines = bufio.NewReader(d.up)
	return nil
}

// writeProgram writes a file that will be executed. While it is open for
// writing no process may be forked: the child would hold it open for a moment,
// and the kernel runs no program that somebody can still write.
func writeProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o755)
}

func (d *handlerDriver) discard() error {
	for _, f := range []*os.File{d.up, d.goOn} {
		if f != nil {
			_ = f.Close()
		}
	}
	return os.RemoveAll(d.dir)
}

// Do takes one step of one request.
func (d *handlerDriver) Do(ctx context.Context, t Transition[bootstrap.State]) error {
	switch t.Action.ID {
	case bootstrap.HookHandlerStart:
		return d.handlerStart(ctx, t)
	case bootstrap.HookHandlerEnd:
		return d.handlerEnd(ctx, t)
	case bootstrap.HookHandlerDeadline:
		return d.handlerDeadline(ctx, t)
	}
	return d.gatedDriver.Do(ctx, t)
}

func (d *handlerDriver) handlerStart(ctx context.Context, t Transition[bootstrap.State]) error {
	r := d.hooks[t.Action.Arg[0]]
	if at := r.parked.Point.Action; at != trace.HookHandlerStart {
		return fmt.Errorf("the request stands before %s, the model starts a handler", at)
	}
	r.parked.Release()
	deadline, _ := ctx.Deadline()
	if err := d.up.SetReadDeadline(deadline); err != nil {
		return err
	}
	line, err := d.lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no handler says that it runs: %w", err)
	}
	request := t.To.Hooks[t.Action.Arg[0]]
	env, token := request.Saw()
	want := request.Hook.String() + " " + env.String()
	if token {
		want += " and the token"
	}
	var hook, saw string
	var tokens int
	if _, err := fmt.Sscan(line, &hook, &saw, &tokens); err != nil {
		return fmt.Errorf("the handler said %q: %w", line, err)
	}
	got := hook + " " + saw
	if tokens > 0 {
		got += " and the token"
	}
	if got != want {
		return fmt.Errorf("the handler is that of %q, the model says %q", got, want)
	}
	return nil
}

func (d *handlerDriver) handlerEnd(ctx context.Context, t Transition[bootstrap.State]) error {
	if _, err := d.goOn.WriteString("go\n"); err != nil {
		return err
	}
	d.finite++
	return d.ended(ctx, t)
}

func (d *handlerDriver) handlerDeadline(ctx context.Context, t Transition[bootstrap.State]) error {
	clock := d.system.daemon.Clock
	armed := func(pending []time.Duration) bool {
		for _, p := range pending {
			if p == handlerBudget {
				return true
			}
		}
		return false
	}
	if err := clock.Await(ctx, armed); err != nil {
		return fmt.Errorf("no budget of %v runs: %w", handlerBudget, err)
	}
	clock.Advance(handlerBudget)
	return d.ended(ctx, t)
}

// ended takes the request past the end of its handler and looks at what the
// entries of ended handlers show.
func (d *handlerDriver) ended(ctx context.Context, t Transition[bootstrap.State]) error {
	r := d.hooks[t.Action.Arg[0]]
	if err := d.proceed(ctx, r, trace.HookHandlerEnd); err != nil {
		return err
	}
	if err := d.proceed(ctx, r, trace.HookHandlerStart, trace.HookAnswer); err != nil {
		return err
	}
	h, err := d.system.wire.health(ctx)
	if err != nil {
		return err
	}
	finite := 0
	for _, e := range h.Hooks {
		switch o := e.Handler; {
		case o == nil:
		case o.Error == nil && o.ExitCode != nil && *o.ExitCode == 0 && o.Signal == nil && !o.TimedOut:
			finite++
		case o.Error == nil && o.ExitCode == nil && o.Signal != nil && *o.Signal == int32(syscall.SIGKILL) && o.TimedOut && o.DurationMS == uint64(handlerBudget.Milliseconds()):
		default:
			return fmt.Errorf("the entry of %s shows neither a good end nor a budget that passed", e.Hook)
		}
	}
	if finite != d.finite {
		return fmt.Errorf("%d entries show a good end, %d handlers had one", finite, d.finite)
	}
	return nil
}

// Observe reads the state back.
func (d *handlerDriver) Observe(ctx context.Context, t Transition[bootstrap.State]) (Observation, error) {
	o, err := d.gatedDriver.Observe(ctx, t)
	if err != nil {
		return nil, err
	}
	h, err := d.system.wire.health(ctx)
	if err != nil {
		return nil, err
	}
	expired := 0
	for _, e := range h.Hooks {
		if e.Handler != nil && e.Handler.TimedOut {
			expired++
		}
	}
	return append(o, model.Field{Name: "expired handlers", Value: strconv.Itoa(expired)}), nil
}

// Close lets every handler and every request go and ends the daemon.
func (d *handlerDriver) Close() error {
	_, err := d.goOn.WriteString(strings.Repeat("go\n", bootstrap.MaxSlots))
	return errors.Join(err, d.gatedDriver.Close(), d.discard())
}
