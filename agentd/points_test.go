package agentd_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"microvms/agentd"
	"microvms/agentd/trace"
)

// recorder keeps what the HTTP front reports, as text.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Record(e trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := fmt.Sprintf("%d %s", e.Request, e.Action)
	if e.Exec != "" {
		line += " " + e.Exec
	}
	for _, a := range e.Attrs {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	r.lines = append(r.lines, line)
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.lines = nil }()
	return r.lines
}

// TestPoints checks which transitions the HTTP front reports, in order, with
// the serial number of the request and the facts that a model needs.
func TestPoints(t *testing.T) {
	t.Attr("requirement", "HOOK-1")
	rec := &recorder{}
	d := start(t, func(c *agentd.Config) { c.Recorder = rec; c.Limits.HookLogEntries = 2 })
	for _, c := range []struct {
		do   func()
		want []string
	}{
		{func() { d.get("/v1/procs") }, []string{"1 ControlAuthorize verdict=closed", "1 ControlAnswer status=503"}},
		{func() { d.post(hookAt+"run", "bad") }, []string{"2 HookReceive hook=run kept=true", "2 HookAnswer status=400"}},
		{func() { d.bootstrap(nil) }, []string{"3 HookReceive hook=run kept=true", "3 HookDecide decision=install", "3 HookAnswer status=200"}},
		{func() { d.bootstrap(nil) }, []string{"4 HookReceive hook=run kept=false", "4 HookDecide decision=replay", "4 HookAnswer status=200"}},
		{func() { d.post(hookAt+"run", envelope(map[string]string{"agent_token": "x"})) },
			[]string{"5 HookReceive hook=run kept=false", "5 HookDecide decision=conflict", "5 HookAnswer status=409"}},
		{func() { d.with("GET", "/v1/procs", "", nil) }, []string{"6 ControlAuthorize verdict=unauthorized", "6 ControlAnswer status=401"}},
		{func() { d.get("/v1/procs") }, []string{"7 ControlAuthorize verdict=authorized", "7 ControlServe", "7 ControlAnswer status=200"}},
		{func() { d.call("PUT", "/v1/procs", "") }, []string{"8 ControlAuthorize verdict=authorized", "8 ControlAnswer status=405"}},
		{func() { d.get("/v1/health") }, nil},
		{func() { d.get("/nothing") }, nil},
		{func() { d.get("/v1/exec/e%201") }, []string{"11 ControlAuthorize verdict=authorized", "11 ControlServe e 1", "11 ControlAnswer status=404"}},
		{func() { d.post(hookAt+"ready", "") }, []string{"12 HookReceive hook=ready kept=false", "12 HookAnswer status=200"}},
	} {
		c.do()
		// A short answer leaves net/http's buffer only after it was recorded.
		if got := rec.take(); !slices.Equal(got, c.want) {
			t.Errorf("recorded %q, want %q", got, c.want)
		}
	}
}

// TestGateParksBeforeTheTransition holds a bootstrap before its decision: a
// second one decides first, and the held one meets its token.
func TestGateParksBeforeTheTransition(t *testing.T) {
	t.Attr("requirement", "AGENTD-3")
	gate := &holdFirst{at: trace.HookDecide, held: make(chan struct{}), let: make(chan struct{})}
	d := start(t, func(c *agentd.Config) { c.Gate = gate })
	first := make(chan reply, 1)
	go func() { first <- d.post(hookAt+"run", envelope(map[string]string{"agent_token": "held"})) }()
	<-gate.held
	if h := d.health(); h.Bootstrapped || len(h.Hooks) != 1 {
		t.Errorf("while the hook is held: %+v", h)
	}
	d.bootstrap(nil)
	close(gate.let)
	if r := <-first; r.status != 409 {
		t.Errorf("the held hook: %v, want 409", r)
	}
}

// holdFirst is a Gate that holds the first request at one transition.
type holdFirst struct {
	at   trace.Action
	used atomic.Bool
	held chan struct{}
	let  chan struct{}
}

func (g *holdFirst) Pass(ctx context.Context, p trace.Point) error {
	if p.Action != g.at {
		return nil
	}
	if !g.used.CompareAndSwap(false, true) {
		return nil
	}
	close(g.held)
	select {
	case <-g.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
