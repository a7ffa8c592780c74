package microvmtest

import (
	"context"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"microvms/agentd/api"
)

// exec is one registered command.
type exec struct {
	id        string
	pid       uint32
	startedAt time.Time
	reap      bool
	wantStdin bool
	out       *output
	stdin     *input
	process   *Process
	cancel    context.CancelFunc
	done      chan struct{} // closed at the end

	mu      sync.Mutex
	acked   bool
	timed   bool         // the deadline passed
	outcome *api.Outcome // set once, before done is closed
}

func (e *exec) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// run starts the program and the deadline.
func (s *Server) run(e *exec, program Program, timeout time.Duration) {
	exit := make(chan Exit, 1)
	go func() { exit <- program(e.process) }()
	go func() {
		var timer <-chan time.Time
		if timeout > 0 {
			t := time.NewTimer(timeout)
			defer t.Stop()
			timer = t.C
		}
		for {
			select {
			case x := <-exit:
				e.finish(x)
				return
			case <-e.process.Context.Done(): // SIGKILL, or SIGTERM without a trap
				e.finish(Exit{Signal: e.signal()})
				return
			case <-timer:
				e.mu.Lock()
				e.timed = true
				e.mu.Unlock()
				timer = nil
				go s.terminate(context.Background(), e)
			}
		}
	}()
}

// signal says what ended a process whose context is over.
func (e *exec) signal() int {
	if e.process.traps.Load() {
		return int(syscall.SIGKILL)
	}
	return int(syscall.SIGTERM)
}

// finish publishes the outcome, once.
func (e *exec) finish(x Exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcome != nil {
		return
	}
	e.out.close() // first, so that the record and the stream hold the same bytes
	o := e.out.outcome()
	if x.Signal != 0 {
		o.Signal = new(int32(x.Signal))
	} else {
		o.ExitCode = new(int32(x.Code))
	}
	o.TimedOut, o.WritersMayBeAlive = e.timed, x.WritersMayBeAlive
	e.outcome = o
	e.stdin.close()
	e.cancel()
	close(e.done)
}

// terminate sends SIGTERM and, after the grace, SIGKILL. It returns when the
// command has ended or ctx is over, and reports whether it was alive.
func (s *Server) terminate(ctx context.Context, e *exec) bool {
	if e.ended() {
		return false
	}
	e.mu.Lock()
	select {
	case <-e.process.term:
	default:
		close(e.process.term)
	}
	e.mu.Unlock()
	if !e.process.traps.Load() {
		e.cancel()
	}
	grace := time.NewTimer(s.KillGrace)
	defer grace.Stop()
	select {
	case <-e.done:
		return true
	case <-grace.C:
		e.cancel()
	case <-ctx.Done():
		return true
	}
	<-e.done
	return true
}

// record is the body of a poll, or of an ack when acking.
func (e *exec) record(acking bool) api.PollResponse {
	body := api.PollResponse{ExecID: e.id, Phase: api.PhaseRunning}
	switch {
	case acking:
		body.Phase, body.Outcome = api.PhaseAcked, e.outcome
	case e.acked:
		body.Phase = api.PhaseAcked
	case e.outcome != nil:
		body.Phase, body.Outcome = api.PhaseExited, e.outcome
	}
	return body
}

func (e *exec) group() api.ProcGroup {
	g := api.ProcGroup{ExecID: e.id, Pgid: &e.pid, StartedAt: uint64(e.startedAt.Unix()), ChildExited: e.ended(),
		Reap: e.reap, Pids: []uint32{}}
	if !g.ChildExited {
		g.Pids = append(g.Pids, e.pid)
	}
	return g
}

func (s *Server) poll(w http.ResponseWriter, r *http.Request) {
	if e := s.find(w, r); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		answer(w, e.record(false))
	}
}

func (s *Server) ack(w http.ResponseWriter, r *http.Request) {
	e := s.find(w, r)
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.outcome == nil:
		refuse(w, api.StillRunning, e.id)
	case e.acked:
		refuse(w, api.AlreadyAcked, e.id)
	default:
		e.acked = true
		answer(w, e.record(true))
	}
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request) {
	if e := s.find(w, r); e != nil {
		answer(w, api.KillResponse{ExecID: e.id, Killed: s.terminate(r.Context(), e)})
	}
}

// input is a command's stdin: a pipe whose writes can time out.
type input struct {
	mu     sync.Mutex
	r      *io.PipeReader
	w      *io.PipeWriter
	closed bool
}

func (in *input) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.w.Close()
	in.r.Close()
}
