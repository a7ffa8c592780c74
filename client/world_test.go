package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"microvms/agentd/api"
	"microvms/client/microvmtest"
)

// fate is how a command ends if nobody interferes (models facts, M5).
type fate struct {
	name     string
	outcome  api.Outcome // once it has ended
	ends     bool        // before the client's deadline, if the world lets it
	wantCode int         // by BIND-6, if no client kill signalled
}

// fates are the eight of M5. The one that outlives the deadline ends by the
// client's kill.
var fates = []fate{
	{"Exits0", api.Outcome{ExitCode: new(int32(0))}, true, 0},
	{"Exits3", api.Outcome{ExitCode: new(int32(3))}, true, 3},
	{"DiesKILL", api.Outcome{Signal: new(int32(9))}, true, 137},
	{"DiesSEGV", api.Outcome{Signal: new(int32(11))}, true, 139},
	{"DeadlineTERM", api.Outcome{Signal: new(int32(15)), TimedOut: true}, true, 124},
	{"DeadlineKILL", api.Outcome{Signal: new(int32(9)), TimedOut: true}, true, 124},
	{"DeadlineExit0", api.Outcome{ExitCode: new(int32(0)), TimedOut: true}, true, 124},
	{"Outlives", api.Outcome{Signal: new(int32(9))}, false, 137},
}

// world is one daemon whose every answer is chosen beforehand.
type world struct {
	choices

	mu     sync.Mutex
	log    []string // the requests, in order
	killed bool
	acked  bool
}

// choices are what a world decides beforehand.
type choices struct {
	fate      fate
	sink      bool
	truncated bool
	start     string // ok, failed
	stream    string // exit, cut, silent (with a sink)
	exitAck   string // ok, failed, lost: the ack after the exit event
	wait      string // done, fatal, deadline
	kill      string // Signalled, AlreadyGone, Failed
	grace     string // ok, failed, silent: the ack after the kill
}

func (w *choices) String() string {
	return fmt.Sprintf("%s sink=%t truncated=%t start=%s stream=%s exitAck=%s wait=%s kill=%s grace=%s",
		w.fate.name, w.sink, w.truncated, w.start, w.stream, w.exitAck, w.wait, w.kill, w.grace)
}

// server is a daemon that answers as the world says.
func (w *world) server() *microvmtest.Server {
	s := microvmtest.New()
	s.Intercept = func(rw http.ResponseWriter, r *http.Request, _ http.Handler) { w.serve(rw, r) }
	return s
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	op := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if op == "x-1" {
		op = "poll"
	}
	w.mu.Lock()
	w.log = append(w.log, op)
	w.mu.Unlock()
	switch op {
	case "start":
		w.reply(rw, w.start == "ok", api.StartResponse{ExecID: "x-1", Phase: api.PhaseRunning})
	case "stream":
		w.serveStream(rw, r)
	case "poll":
		w.servePoll(rw)
	case "ack":
		w.serveAck(rw)
	case "kill":
		w.mu.Lock()
		w.killed = true
		w.mu.Unlock()
		w.reply(rw, w.kill != "Failed", api.KillResponse{ExecID: "x-1", Killed: w.kill == "Signalled"})
	}
}

func (w *world) serveStream(rw http.ResponseWriter, r *http.Request) {
	rw.WriteHeader(http.StatusOK)
	fmt.Fprint(rw, "event: output\ndata: {\"offset\":0,\"stream\":\"stdout\",\"output\":\"aGk=\"}\n\n")
	switch {
	case w.stream == "silent":
		<-r.Context().Done()
	case w.stream == "exit", w.acked:
		o := w.outcome()
		data, _ := json.Marshal(api.ExitEvent{ExitCode: o.ExitCode, Signal: o.Signal, TimedOut: o.TimedOut, Truncated: o.Truncated, Offset: 2})
		fmt.Fprintf(rw, "event: exit\ndata: %s\n\n", data)
	}
}

func (w *world) outcome() *api.Outcome {
	o := w.fate.outcome
	o.Stdout, o.Truncated = "hi", w.truncated
	return &o
}

func (w *world) servePoll(rw http.ResponseWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := api.PollResponse{ExecID: "x-1", Phase: api.PhaseRunning}
	exited := api.PollResponse{ExecID: "x-1", Phase: api.PhaseExited, Outcome: w.outcome()}
	switch {
	case w.acked:
		w.reply(rw, true, api.PollResponse{ExecID: "x-1", Phase: api.PhaseAcked})
	case w.killed && w.grace == "failed", !w.killed && w.wait == "fatal":
		rw.WriteHeader(http.StatusNotFound)
	case w.killed && w.grace == "silent", !w.killed && w.wait == "deadline":
		w.reply(rw, true, running)
	default:
		w.reply(rw, true, exited)
	}
}

func (w *world) serveAck(rw http.ResponseWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.count("ack") == 1
	if first && !w.killed && w.sink && w.stream == "exit" && w.exitAck != "ok" {
		w.acked = w.exitAck == "lost" // done, but the answer does not arrive
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.acked = true
	w.reply(rw, true, api.PollResponse{ExecID: "x-1", Phase: api.PhaseAcked, Outcome: w.outcome()})
}

func (w *world) reply(rw http.ResponseWriter, ok bool, body any) {
	if !ok {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	json.NewEncoder(rw).Encode(body)
}

// count is the number of requests of one kind; the caller holds the lock or the
// world is at rest.
func (w *world) count(op string) (n int) {
	for _, o := range w.log {
		if o == op {
			n++
		}
	}
	return n
}

// allChoices enumerates every fate with every choice that can matter in it.
func allChoices() (all []choices) {
	for _, f := range fates {
		for _, sink := range []bool{false, true} {
			for _, truncated := range []bool{false, true} {
				base := choices{fate: f, sink: sink, truncated: truncated, start: "ok"}
				failed := base
				failed.start = "failed"
				all = append(all, failed)
				for _, w := range streamChoices(base) {
					all = append(all, waitChoices(w)...)
				}
			}
		}
	}
	return all
}

func streamChoices(w choices) (out []choices) {
	if !w.sink {
		return []choices{w}
	}
	for _, choice := range []string{"exit ok", "exit failed", "exit lost", "cut", "silent"} {
		next := w
		next.stream, next.exitAck, _ = strings.Cut(choice, " ")
		if next.stream != "exit" || w.fate.ends {
			out = append(out, next)
		}
	}
	return out
}

// waits says whether the run comes to waiting; without it, only a silent stream
// leads on, to the deadline.
func (w *choices) waits() bool {
	return w.start == "ok" && (!w.sink || w.stream == "cut" || w.exitAck == "failed")
}

func waitChoices(w choices) (out []choices) {
	if !w.waits() && w.stream != "silent" {
		return []choices{w}
	}
	choices := []string{"done", "fatal", "deadline"}
	if w.stream == "silent" {
		choices = []string{"deadline"}
	}
	for _, wait := range choices {
		next := w
		next.wait = wait
		switch {
		case wait == "done" && !w.fate.ends:
		case wait != "deadline":
			out = append(out, next)
		default:
			for _, kill := range []string{"Signalled", "AlreadyGone", "Failed"} {
				for _, grace := range []string{"ok", "failed", "silent"} {
					end := next
					end.kill, end.grace = kill, grace
					out = append(out, end)
				}
			}
		}
	}
	return out
}
