package agentd_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
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
		c.Limits.MaxConnections, c.Limits.EvictionGrace = 3, time.Millisecond
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

// TestRequestsOnTheirWayAreNotLost connects far more clients at once than there
// are slots, most of which long streams hold. Every one of them is answered:
// they queue, and none makes room for another.
func TestRequestsOnTheirWayAreNotLost(t *testing.T) {
	t.Attr("requirement", "XPORT-30")
	d := booted(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.EvictionGrace = 4, time.Hour
	})
	d.startExec("s", map[string]any{"stdin": true}, "cat")
	d.http.CloseIdleConnections()
	for range 3 {
		p := d.dial()
		p.send("GET /v1/exec/s/stream HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n\r\n")
		if _, err := p.br.Peek(1); err != nil {
			t.Fatalf("stream: %v", err)
		}
	}
	const clients = 40
	got := make(chan error, clients)
	for range clients {
		go func() {
			c, err := net.Dial("tcp", d.addr)
			if err != nil {
				got <- err
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(failsafe))
			io.WriteString(c, "GET /v1/health HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(c)
			if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
				err = fmt.Errorf("answer %.40q", answer)
			}
			got <- err
		}()
	}
	for range clients {
		if err := <-got; err != nil {
			t.Errorf("a client that queues: %v", err)
		}
	}
}

// TestBusyConnectionIsAskedToEnd keeps the only slot busy with requests on one
// connection while a newcomer waits: the answer announces the close, so that
// neither is starved or cut.
func TestBusyConnectionIsAskedToEnd(t *testing.T) {
	t.Attr("requirement", "XPORT-32")
	d := start(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.EvictionGrace = 1, time.Hour
	})
	busy := d.dial()
	busy.alive()
	newcomer := d.dial()
	newcomer.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
	for closing := false; !closing; { // until the newcomer is seen to wait
		busy.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
		r := busy.read("GET")
		if closing = r.close; r.status != 200 {
			t.Fatalf("the busy connection: %v", r)
		}
	}
	if r := newcomer.read("GET"); r.status != 200 {
		t.Errorf("the newcomer: %v", r)
	}
}

// waits is a Recorder that tells when a newcomer begins to wait for a slot.
type waits chan struct{}

func (w waits) Record(e trace.Event) {
	if e.Action == trace.ConnWait {
		w <- struct{}{}
	}
}

// TestUpgradeUnderContention upgrades a connection while a newcomer waits: the
// end that other answers announce would take the upgrade away.
func TestUpgradeUnderContention(t *testing.T) {
	t.Attr("requirement", "XPORT-32")
	t.Attr("requirement", "TUNNEL-1")
	gate, waiting := newParker(), make(waits, 10)
	d := booted(t, func(c *agentd.Config) {
		c.Limits.MaxConnections, c.Limits.EvictionGrace, c.Gate = 1, time.Hour, gate
		c.Recorder = waiting
	})
	d.http.CloseIdleConnections()
	tunnel := d.dial()
	tunnel.send("GET /v1/tcp?port=1 HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token +
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n")
	upgrade := <-gate.arrived
	for len(waiting) > 0 { // the tunnel itself may have waited for the harness's connection
		<-waiting
	}
	d.dial()
	<-waiting
	close(upgrade)
	r, err := http.ReadResponse(tunnel.br, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
		t.Errorf("the upgrade: %v (%v)", r, err)
	}
}

// TestUnfinishedBodiesMakeRoom fills every slot with bodies that do not come
// and answers that nobody reads. Newcomers are served long before any deadline
// of theirs, and what was cut had no effect.
func TestUnfinishedBodiesMakeRoom(t *testing.T) {
	t.Attr("requirement", "XPORT-31")
	const slots = 4
	start := "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
	body := `{"exec_id":"cut","command":["true"]}`
	for name, input := range map[string]string{
		"hook bodies":       "POST " + hookAt + "run HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
		"control bodies":    start + "Authorization: Bearer " + token + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(body)+9, body),
		"refused bodies":    start + "Authorization: Bearer wrong\r\nContent-Length: 90\r\n\r\n{",
		"answers to nobody": strings.Repeat("GET /v1/schema HTTP/1.1\r\nHost: d\r\n\r\n", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			d := booted(t, func(c *agentd.Config) {
				l := &c.Limits
				l.MaxConnections, l.EvictionGrace = slots, 5*time.Millisecond
				l.HookBodyTimeout, l.BodyStallTimeout, l.DrainTimeout, l.WriteTimeout = time.Hour, time.Hour, time.Hour, time.Hour
			})
			d.http.CloseIdleConnections()
			for range slots {
				p := d.dial()
				go p.send(input)
			}
			for range 2 * slots {
				p := d.dial()
				p.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
				if r := p.read("GET"); r.status != 200 {
					t.Errorf("a newcomer: %v", r)
				}
			}
			if r := d.get("/v1/exec/cut"); r.code() != api.UnknownExec {
				t.Errorf("a start that made room: %v, want no effect", r)
			}
		})
	}
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

// TestShutdownCutsWhatNeverEnds stops the daemon with a stream that waits and a
// request that a gate holds: both end once the grace has passed, the stream
// without an exit event.
func TestShutdownCutsWhatNeverEnds(t *testing.T) {
	t.Attr("requirement", "XPORT-16")
	t.Attr("requirement", "XPORT-28")
	t.Attr("requirement", "PROG-14")
	gate := newParker()
	d := booted(t, func(c *agentd.Config) { c.Limits.ShutdownGrace, c.Gate = 20*time.Millisecond, gate })
	go func() { close(<-gate.arrived); close(<-gate.arrived) }()
	d.startExec("s", map[string]any{"stdin": true}, "cat")
	stream := d.dial()
	stream.send("GET /v1/exec/s/stream HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n\r\n")
	resp, err := http.ReadResponse(stream.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := d.dial()
	p.send(procsRequest)
	<-gate.arrived
	if err := d.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if got := p.ended(); got != "" {
		t.Errorf("the held request got %q, want a close", got)
	}
	if rest, err := io.ReadAll(resp.Body); err == nil || strings.Contains(string(rest), "exit") {
		t.Errorf("the stream ended with %q (%v), want it cut without an exit event", rest, err)
	}
}
