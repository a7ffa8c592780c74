package agentd_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/trace"
)

// failsafe bounds a wait that only ends in time when the daemon is right. It is
// no measure: nothing is judged by it when the daemon is right.
const failsafe = 20 * time.Second

// eof waits, at most for the failsafe, for the daemon to close the connection.
func (p *peer) eof() bool {
	p.SetReadDeadline(time.Now().Add(failsafe))
	_, err := p.br.ReadByte()
	return err != nil && !strings.Contains(err.Error(), "timeout")
}

// TestOldestSilentConnectionMakesRoom fills every slot with connections that
// send no complete header. A newcomer is served, and what it cost is the
// connection that waited longest, silent or slow.
func TestOldestSilentConnectionMakesRoom(t *testing.T) {
	t.Attr("requirement", "XPORT-4")
	t.Attr("requirement", "XPORT-5")
	d := start(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.HeaderTimeout = 3, time.Hour
	})
	var slow [3]*peer
	for i := range slow {
		slow[i] = d.dial()
		slow[i].send("GET /v1/health HTTP/1.1\r\nHost")
	}
	for i := range 6 {
		p := d.dial()
		p.alive()
		if i < 3 && !slow[i].eof() {
			t.Fatalf("newcomer %d is served and slow connection %d lives on", i, i)
		}
	}
}

// TestIdleConnectionMakesRoomAfterSilentOnes checks who goes first: a
// connection that never asked anything before one that is idle between
// requests.
func TestIdleConnectionMakesRoomAfterSilentOnes(t *testing.T) {
	t.Attr("requirement", "XPORT-5")
	d := start(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.HeaderTimeout = 2, time.Hour
	})
	idle := d.dial()
	idle.alive()
	silent := d.dial()
	d.dial().alive()
	if !silent.eof() {
		t.Fatal("the silent connection lives on")
	}
	idle.alive()
}

// parker is a Gate that parks bearer requests until each is let go.
type parker struct {
	arrived chan chan struct{} // what to close to let the request go
}

func newParker() *parker { return &parker{make(chan chan struct{}, 100)} }

func (p *parker) Pass(ctx context.Context, at trace.Point) error {
	if at.Action != trace.ControlServe {
		return nil
	}
	leave := make(chan struct{})
	p.arrived <- leave
	select {
	case <-leave:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const procsRequest = "GET /v1/procs HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n\r\n"

// TestNewcomerWaitsWhileAllAreServed fills every slot with requests under way.
// None is cut; the newcomer is answered once one of them is finished, at the
// cost of that now idle connection, so the cap holds at every moment.
func TestNewcomerWaitsWhileAllAreServed(t *testing.T) {
	t.Attr("requirement", "XPORT-4")
	gate := newParker()
	d := booted(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.HeaderTimeout, c.Gate = 2, time.Hour, gate
	})
	d.http.CloseIdleConnections()
	var busy [2]*peer
	var leave [2]chan struct{}
	for i := range busy {
		busy[i] = d.dial()
		busy[i].send(procsRequest)
		leave[i] = <-gate.arrived
	}
	newcomer := d.dial()
	newcomer.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
	close(leave[1])
	if r := busy[1].read("GET"); r.status != 200 {
		t.Errorf("the finished request: %v", r)
	}
	if r := newcomer.read("GET"); r.status != 200 {
		t.Errorf("the newcomer: %v", r)
	}
	if !busy[1].eof() {
		t.Error("three connections are open where two are admitted")
	}
	close(leave[0])
	if r := busy[0].read("GET"); r.status != 200 {
		t.Errorf("the request that was under way all the time: %v", r)
	}
}

// TestHeaderDeadline checks that silence, half a header, and silence after an
// answer each end the connection without an answer.
func TestHeaderDeadline(t *testing.T) {
	t.Attr("requirement", "XPORT-6")
	d := start(t, func(c *agentd.Config) { c.Limits.HeaderTimeout = 30 * time.Millisecond })
	for _, text := range []string{"", "G", "GET /v1/health HTTP/1.1\r\nHost: d\r\n"} {
		p := d.dial()
		p.send(text)
		if got := p.ended(); got != "" {
			t.Errorf("after %q: %q, want a silent close", text, got)
		}
	}
	p := d.dial()
	p.alive()
	if !p.eof() {
		t.Error("an idle connection outlives the header deadline")
	}
}

// TestDeadlineDoesNotCutARequest keeps a request in its handler for much
// longer than the header deadline.
func TestDeadlineDoesNotCutARequest(t *testing.T) {
	t.Attr("requirement", "XPORT-6")
	d := booted(t, func(c *agentd.Config) { c.Limits.HeaderTimeout = 20 * time.Millisecond })
	d.startExec("s", nil, "sleep", "0.2")
	if events := d.wait("s"); events[len(events)-1].name != "exit" {
		t.Errorf("events %v, want an exit event", events)
	}
}

// TestShutdownFinishesRequestsInFlight stops the daemon with a request under
// way: no new connection is accepted, the request is answered.
func TestShutdownFinishesRequestsInFlight(t *testing.T) {
	t.Attr("requirement", "XPORT-16")
	gate := newParker()
	d := booted(t, func(c *agentd.Config) { c.Gate = gate })
	p, silent := d.dial(), d.dial()
	p.send(procsRequest)
	leave := <-gate.arrived
	done := make(chan error, 1)
	go func() { done <- d.Shutdown(context.Background()) }()
	if !silent.eof() { // closed by the shutdown, so the listener is closed too
		t.Error("a connection that asks nothing outlives the shutdown")
	}
	if resp, err := http.Get("http://" + d.addr + "/v1/health"); err == nil {
		resp.Body.Close()
		t.Error("a connection is accepted after the shutdown began")
	}
	close(leave)
	if r := p.read("GET"); r.status != 200 {
		t.Errorf("the request in flight: %v", r)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestShutdownCutsWhatNeverEnds stops the daemon with a stream that waits: it
// ends without an exit event once the grace has passed, and so does a request
// that a gate holds.
func TestShutdownCutsWhatNeverEnds(t *testing.T) {
	t.Attr("requirement", "XPORT-16")
	t.Attr("requirement", "XPORT-28")
	gate := newParker()
	d := booted(t, func(c *agentd.Config) { c.Limits.ShutdownGrace, c.Gate = 20*time.Millisecond, gate })
	p := d.dial()
	p.send(procsRequest)
	<-gate.arrived
	if err := d.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if got := p.ended(); got != "" {
		t.Errorf("the held request got %q, want a close", got)
	}
}
