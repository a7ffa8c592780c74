package handlers

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/accounts"
)

// settle bounds the wait for a leader after SIGKILL: it may have left the
// group, and then no signal reached it.
const settle = time.Second

// logged is how much of each output stream enters the log.
const logged = 4096

// Run runs the handler to its end, or to the end of its budget or of ctx, and
// returns what it did. The caller holds the turn.
func (r *Runner) Run(ctx context.Context, h *Handler, launch map[string]string) *api.HandlerOutcome {
	if h.refusal != "" {
		return r.refused(h, h.refusal)
	}
	if _, bad := accounts.BadEntry(launch); bad {
		return r.refused(h, "the launch environment holds an entry that no process can have") // not its name: health needs no bearer
	}
	p, err := r.start(h, launch)
	if err != nil {
		return r.refused(h, "cannot start: "+reason(err))
	}
	o := p.watch(ctx)
	r.Log.Info("hook handler ended", "hook", h.hook, "duration_ms", o.DurationMS, "timed_out", o.TimedOut,
		"exit_code", number(o.ExitCode), "signal", number(o.Signal))
	return o
}

func (r *Runner) refused(h *Handler, why string) *api.HandlerOutcome {
	r.Log.Warn("hook handler did not run", "hook", h.hook, "reason", why)
	return &api.HandlerOutcome{Error: &why}
}

// number is a number for the log, -1 for none.
func number(n *int32) int32 {
	if n == nil {
		return -1
	}
	return *n
}

// running is a handler that was started.
type running struct {
	r       *Runner
	hook    string
	proc    *execution.Process
	out     [2]*os.File
	heads   [2][]byte
	readers sync.WaitGroup
	started time.Time
}

// start creates the process.
func (r *Runner) start(h *Handler, launch map[string]string) (*running, error) {
	p := &running{r: r, hook: h.hook}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	files := []uintptr{null.Fd()}
	for i := range p.out {
		read, write, err := pipe()
		if err != nil {
			p.closeOutput()
			return nil, err
		}
		defer unix.Close(write)
		p.out[i] = read
		files = append(files, uintptr(write))
	}
	p.started = r.Clock.Now()
	// HOOK-18: no credential, so it runs as the daemon does, whatever the
	// default user; a group of its own, so that the budget can end all of it.
	p.proc, err = r.Waits.Start(h.path, []string{h.path}, &syscall.ProcAttr{
		Dir: "/", Env: r.environment(h.hook, launch), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		p.closeOutput()
		return nil, err
	}
	for i := range p.out {
		p.readers.Go(func() { p.heads[i] = drain(p.out[i]) })
	}
	return p, nil
}

// pipe makes a pipe whose reading end is the daemon's.
func pipe() (read *os.File, write int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, 0, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), fds[1], nil
}

func (p *running) closeOutput() {
	for _, f := range p.out {
		if f != nil {
			_ = f.Close()
		}
	}
}

// drain reads to the end of the stream, or until it is closed, and returns its
// first bytes.
func drain(f *os.File) []byte {
	head, _ := io.ReadAll(io.LimitReader(f, logged+1))
	_, _ = io.Copy(io.Discard, f) // HOOK-19: read on, because a handler with a full pipe would stand still
	return head
}

// watch sees the handler to its end and collects it.
func (p *running) watch(ctx context.Context) *api.HandlerOutcome {
	r := p.r
	ended := make(chan error, 1)
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- p.proc.Exited(waiting) }()
	drained := make(chan struct{})
	go func() { p.readers.Wait(); close(drained) }()
	over := make(chan struct{})
	budget := r.Clock.AfterFunc(r.Budget, func() { close(over) })
	defer budget.Stop()

	o := &api.HandlerOutcome{}
	exited := false
	for pending := drained; !exited || pending != nil; {
		select {
		case err := <-ended:
			if exited = true; err != nil {
				r.Log.Error("cannot wait for a hook handler", "hook", p.hook, "err", err)
			}
			continue
		case <-pending:
			pending = nil
			continue
		case <-over:
			// HOOK-16: the budget covers the output too, so that a service
			// which holds a pipe cannot hold the hook.
			o.TimedOut = true
		case <-ctx.Done():
		}
		p.kill()
		break
	}
	o.DurationMS = uint64(max(r.Clock.Now().Sub(p.started), 0) / time.Millisecond)
	p.closeOutput()
	<-drained
	p.collect(ctx, o, ended, exited, stop)
	p.report()
	return o
}

// kill ends the group. The leader is not collected yet, so the number is its
// own. Who left the group is not reached.
func (p *running) kill() {
	if err := syscall.Kill(-p.proc.Pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		p.r.Log.Warn("cannot kill a hook handler", "hook", p.hook, "err", err)
	}
}

// collect takes the leader's status. A leader that outlives SIGKILL left its
// group: it is collected whenever it ends, and its status is not waited for.
func (p *running) collect(ctx context.Context, o *api.HandlerOutcome, ended chan error, exited bool, stop func()) {
	late := make(chan struct{})
	if !exited {
		timer := time.AfterFunc(settle, func() { close(late) })
		defer timer.Stop()
		select {
		case <-ended:
		case <-late:
			p.r.rest.Go(func() {
				select {
				case <-ended:
					p.proc.Collect()
				case <-ctx.Done():
				}
				stop()
				p.proc.Release()
			})
			return
		}
	}
	status := p.proc.Collect()
	stop()
	p.proc.Release()
	switch {
	case !status.Known:
	case status.Signal != 0:
		o.Signal = ptr(int32(status.Signal))
	default:
		o.ExitCode = ptr(int32(status.ExitCode))
	}
}

func ptr(n int32) *int32 { return &n }

// report hands the output to the log, and to nothing else.
func (p *running) report() {
	for i, head := range p.heads {
		if len(head) == 0 {
			continue
		}
		cut := len(head) > logged
		p.r.Log.Info("hook handler wrote", "hook", p.hook, "stream", execution.Stream(i).String(),
			slog.String("text", string(head[:min(len(head), logged)])), "truncated", cut)
	}
}
