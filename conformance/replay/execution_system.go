package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/model"
)

// ExecOptions are what a driver of an execution model asks of the daemon that is
// started for it. Sizes are in bytes; zero means the wire's own.
type ExecOptions struct {
	// Hold selects the points at which the daemon is parked; nil means none.
	Hold func(p trace.Point) bool
	Ring int // the replay window of a stream
	Head int // what the result keeps of each stream
}

// ExecDaemon is a running daemon. Timers is nil where its time passes by
// itself, Recorder where it does not tell its transitions.
type ExecDaemon struct {
	*Daemon
	Timers *Timers
	// Real says that its time passes by itself and that its spans are short, so that the driver waits for a timer
	// instead of firing it. Deadline is then the timeout_sec of timed starts.
	Real     bool
	Deadline time.Duration
	// PoweredOff says whether the daemon has powered its machine off; nil where it cannot.
	PoweredOff func() bool
}

// ExecStarter starts a fresh daemon whose timers have the spans below.
type ExecStarter func(ctx context.Context, o ExecOptions) (*ExecDaemon, error)

// The spans of the timers. They differ from each other, so that a driver knows
// a timer by its span.
const (
	SpanDeadline  = 100 * time.Second // of a start that sets timeout_sec
	SpanLinger    = 5 * time.Second
	SpanGrace     = 10 * time.Second
	SpanRetention = 900 * time.Second
	SpanScan      = 50 * time.Millisecond
	SpanStdin     = 7 * time.Second
)

// execSystem is a daemon with children, as the drivers of the execution models
// see it.
type execSystem struct {
	daemon   *ExecDaemon
	wire     *wire
	children *child.Controller
	bearer   string

	seen     map[uint64]bool // events that were waited for
	requests sync.WaitGroup  // that are answered later
	end      context.CancelFunc
	ctx      context.Context // of those requests
}

// newExecSystem starts a daemon and bootstraps it.
func newExecSystem(ctx context.Context, start ExecStarter, o ExecOptions) (*execSystem, error) {
	children, err := child.Listen()
	if err != nil {
		return nil, err
	}
	d, err := start(ctx, o)
	if err != nil {
		return nil, errors.Join(err, children.Close())
	}
	s := &execSystem{daemon: d, wire: newWire(d.URL), children: children, bearer: "Bearer replay-token", seen: map[uint64]bool{}}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	payload, err := json.Marshal(map[string]any{"microvmId": "replay", "runHookPayload": `{"agent_token":"replay-token"}`})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	a, err := s.wire.call(ctx, s.wire.once, http.MethodPost, api.HookPrefix+"/run", "", api.MediaJSON, string(payload))
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("the run hook was answered %d %s", a.status, a.body)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close ends the children, lets the daemon see that, and ends it.
func (s *execSystem) close() error {
	if s.daemon.Gate != nil {
		s.daemon.Gate.Open()
	}
	err := s.children.Close()
	s.end()
	scan, stop := context.WithCancel(context.Background())
	var scanning sync.WaitGroup
	if s.daemon.Timers != nil {
		scanning.Go(func() { s.daemon.Timers.Keep(scan, SpanScan) }) // escalations see that nobody is left
	}
	s.requests.Wait()
	s.wire.close()
	err = errors.Join(err, s.daemon.Stop())
	stop()
	scanning.Wait()
	return err
}

// path is a route of one exec.
func execRoute(route, exec string) string {
	return strings.Replace(route, "{id}", url.PathEscape(exec), 1)
}

// post sends a request to one route of an exec.
func (s *execSystem) post(ctx context.Context, route, exec, body string) (*answer, error) {
	media := ""
	if body != "" {
		media = api.MediaJSON
	}
	return s.wire.call(ctx, s.wire.once, http.MethodPost, execRoute(route, exec), s.bearer, media, body)
}

// get reads a route with the bearer.
func (s *execSystem) get(ctx context.Context, path string, into any) (*answer, error) {
	a, err := s.wire.call(ctx, s.wire.kept, http.MethodGet, path, s.bearer, "", "")
	if err == nil && a.status == http.StatusOK && into != nil {
		if err = json.Unmarshal(a.body, into); err != nil {
			err = fmt.Errorf("cannot read the answer of %s: %w", path, err)
		}
	}
	return a, err
}

// startBody is a start request whose command is a child called name.
func (s *execSystem) startBody(exec, name string, more map[string]any) (string, error) {
	argv, err := child.Command(s.children.Socket(), name)
	if err != nil {
		return "", err
	}
	body := map[string]any{"exec_id": exec, "command": argv, "env": child.Env}
	for key, value := range more {
		body[key] = value
	}
	data, err := json.Marshal(body)
	return string(data), err
}

// slug is the error of an answer, or "ok".
func (a *answer) slug() string {
	if a.status == http.StatusOK {
		return "ok"
	}
	var body struct{ Error, Detail *string }
	if json.Unmarshal(a.body, &body) != nil || body.Error == nil || body.Detail == nil {
		return fmt.Sprintf("status %d without an error", a.status)
	}
	return *body.Error
}

// slugStatus holds the status that belongs to each error (wire facts, section 2).
var slugStatus = map[string]int{
	"unknown_exec": 404, "spawn_failed": 500, "still_running": 409, "already_acked": 409,
	"stdin_not_requested": 409, "stdin_closed": 410, "stdin_write_timeout": 408,
}

// says compares an answer with the error that the model says; "ok" is 200.
func (a *answer) says(want string) error {
	if got := a.slug(); got != want {
		return fmt.Errorf("answered %d %s, the model says %s", a.status, got, want)
	}
	if status := slugStatus[want]; want != "ok" && a.status != status {
		return fmt.Errorf("%s was answered with status %d, not %d", want, a.status, status)
	}
	return nil
}

// later runs a request that is answered in a step to come.
func (s *execSystem) later(call func(ctx context.Context) (*answer, error)) chan result {
	out := make(chan result, 1)
	s.requests.Go(func() {
		a, err := call(s.ctx)
		out <- result{a, err}
	})
	return out
}

// passes lets the oldest timer of a span fire, or leaves that to time itself.
func (s *execSystem) passes(ctx context.Context, span time.Duration) error {
	switch {
	case s.daemon.Timers != nil:
		return s.daemon.Timers.Fire(ctx, span)
	case s.daemon.Real:
		return nil // what follows is awaited
	}
	return errors.New("time passes by itself in this daemon, and too slowly to wait for: the step cannot be forced")
}

// answered waits for the answer of such a request.
func answered(ctx context.Context, request chan result) (*answer, error) {
	select {
	case r := <-request:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the request was not answered: %w", ctx.Err())
	}
}

// wanted is a transition that the daemon is to record.
type wanted struct {
	action string
	exec   string
	cause  string // of an escalation
	reader uint64 // of a stream
}

func (w wanted) matches(e trace.Event) bool {
	if string(e.Action) != w.action || e.Exec != w.exec || w.reader != 0 && e.Reader != w.reader {
		return false
	}
	return w.cause == "" || slices.ContainsFunc(e.Attrs, func(a trace.Attr) bool { return a.Key == "cause" && a.Value == w.cause })
}

// mark returns the number of the last event so far. Where time passes by itself
// a timer may be over before it is waited for.
func (s *execSystem) mark() uint64 {
	if s.daemon.Recorder == nil || s.daemon.Real {
		return 0
	}
	return uint64(len(s.daemon.Recorder.Events()))
}

// await waits until the daemon has recorded each of the transitions after the
// mark, each event standing for one. A daemon that records nothing is awaited by
// its observation instead.
func (s *execSystem) await(ctx context.Context, mark uint64, want []wanted) ([]trace.Event, error) {
	if s.daemon.Recorder == nil {
		return nil, nil
	}
	if s.daemon.Timers != nil && slices.ContainsFunc(want, func(w wanted) bool { return w.action == string(trace.GroupGone) }) {
		scan, stop := context.WithCancel(ctx)
		defer stop()
		go s.daemon.Timers.Keep(scan, SpanScan)
	}
	var events []trace.Event
	for _, w := range want {
		e, err := s.daemon.Recorder.Await(ctx, mark, func(e trace.Event) bool { return !s.seen[e.Seq] && w.matches(e) })
		if err != nil {
			return nil, fmt.Errorf("the daemon did not record %s %s %s: %w", w.action, w.exec, w.cause, err)
		}
		s.seen[e.Seq] = true
		events = append(events, e)
	}
	return events, nil
}

// settled observes again and again until the system shows what the model says,
// where nothing tells when it has come to rest; the last observation stands when
// the step's time is over. With a recorder one look is enough.
func (s *execSystem) settled(ctx context.Context, want Observation, look func(ctx context.Context) (Observation, error)) (Observation, error) {
	got, err := look(ctx)
	if s.daemon.Recorder != nil {
		return got, err
	}
	var last Observation
	for err == nil && compare(got, want) != "" {
		last = got
		if got, err = look(ctx); err != nil && ctx.Err() != nil {
			return last, nil //nolint:nilerr // the time of the step is over
		}
	}
	return got, err
}

// field is one named value of an observation.
func field(name string, value any) model.Field {
	return model.Field{Name: name, Value: fmt.Sprint(value)}
}
