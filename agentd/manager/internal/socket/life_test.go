package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// TestShutdownDelivers queues events and shuts down: the client reads all of
// them and then close code 1001, and no further client is served.
func TestShutdownDelivers(t *testing.T) {
	t.Attr("requirement", "SOCKET-24")
	s, d := scripted(t, func(_ *Config, d *tableDouble) { d.disconnected = make(chan runs.Subscriber, 1) })
	ws := s.dial()
	c := s.all()[0]
	s.Stop()
	if status, _ := s.ask(t, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); status != 503 {
		t.Errorf("an upgrade after the stop: status %d", status)
	}
	s.write(ws, unhex(vCancel)) // who is connected is still served
	s.read(ws)
	const events = 500
	for id := range runs.ID(events) {
		c.Deliver(runs.Event{Kind: runs.EventStarted, ID: id + 1})
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for id := uint64(1); id <= events; id++ {
		var ev msp.Event
		if decode(t, s.read(ws), &ev); ev.GenvmID() != id {
			t.Fatalf("event %d is of run %d", id, ev.GenvmID())
		}
	}
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the end: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if got := <-d.disconnected; got != runs.Subscriber(c) {
		t.Errorf("disconnected %v", got)
	}
	if n := s.Conns(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
	c.Deliver(runs.Event{Kind: runs.EventStarted, ID: 1}) // without effect, and without a panic
}

// TestShutdownWhileThrottled shuts down with a reader that waits for room: it is
// let go, and the client gets what waited.
func TestShutdownWhileThrottled(t *testing.T) {
	t.Attr("requirement", "SOCKET-24")
	s, d := scripted(t, nil)
	ws := s.dial()
	_, wait := s.fill(ws, d)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	pages := 0
	for {
		_, _, err := ws.Read(t.Context())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the end: %v", err)
			}
			break
		}
		pages++
	}
	if err := <-ended; err != nil || pages < artifactBound {
		t.Errorf("Shutdown: %v, after %d pages", err, pages)
	}
	wait()
}

// TestShutdownCutsWhoDoesNotRead ends its patience at once.
func TestShutdownCutsWhoDoesNotRead(t *testing.T) {
	t.Attr("requirement", "SOCKET-24")
	s, d := scripted(t, nil)
	ws := s.dial()
	_, wait := s.fill(ws, d)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	for {
		if _, _, err := ws.Read(t.Context()); err != nil {
			if code := websocket.CloseStatus(err); code != -1 {
				t.Errorf("a connection that was cut closed with %v", code)
			}
			break
		}
	}
	wait()
}

// TestEndsAreTold ends connections in each way: the table hears of it once, and
// no event is queued any more.
func TestEndsAreTold(t *testing.T) {
	t.Attr("requirement", "SOCKET-21")
	for name, end := range map[string]func(*websocket.Conn){
		"closed":   func(ws *websocket.Conn) { ws.Close(websocket.StatusNormalClosure, "") },
		"cut":      func(ws *websocket.Conn) { ws.CloseNow() },
		"too long": func(ws *websocket.Conn) { ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 101)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := scripted(t, func(c *Config, d *tableDouble) {
				c.MaxMessageBytes = 100
				d.disconnected = make(chan runs.Subscriber, 2)
			})
			ws := s.dial()
			c := s.all()[0]
			end(ws)
			if got := <-d.disconnected; got != runs.Subscriber(c) {
				t.Errorf("disconnected %v", got)
			}
			c.Deliver(runs.Event{Kind: runs.EventStarted, ID: 1})
			if n, _ := c.queue.lengths(); n != 0 {
				t.Errorf("%d messages wait for nobody", n)
			}
			s.running.Wait()
			if len(d.disconnected) != 0 {
				t.Error("the table heard of it twice")
			}
		})
	}
}

// TestPanicEndsOneRequest panics in the table: the request is answered internal,
// the log names no byte of it, and the connection goes on.
func TestPanicEndsOneRequest(t *testing.T) {
	t.Attr("requirement", "SOCKET-26")
	t.Attr("requirement", "SOCKET-30")
	var log strings.Builder
	s, d := scripted(t, func(c *Config, d *tableDouble) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		d.before = func(call string) {
			if call == "ack 1" {
				panic("secret")
			}
		}
	})
	ws := s.dial()
	s.write(ws, unhex(vAck))
	var e msp.Error
	if h := decode(t, s.read(ws), &e); h != (msp.Header{Request: 4}) || e.Code != msp.CodeInternal || strings.Contains(e.Message, "secret") {
		t.Errorf("answered %+v %v", h, &e)
	}
	s.write(ws, unhex(vCancel))
	if got := string(s.read(ws)); got != unhex(vCancelReply) {
		t.Errorf("then %x", got)
	}
	if !strings.Contains(log.String(), "dispatch.go") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged %s", log.String())
	}
	d.take()
}

// TestErrorsNameNoValue sends a payload whose value is refused: the error names
// where it is, not what it is.
func TestErrorsNameNoValue(t *testing.T) {
	t.Attr("requirement", "SOCKET-30")
	s, _ := scripted(t, nil)
	ws := s.dial()
	// {cancel: {genvm_id: "secret"}}
	s.write(ws, unhex("00050000000000000003"+"0e0663616e63656c0e0867656e766d5f6964")+"\x34secret")
	var e msp.Error
	if decode(t, s.read(ws), &e); e.Code != msp.CodeMalformedFrame || strings.Contains(e.Message, "secret") || !strings.Contains(e.Message, "genvm_id") {
		t.Errorf("answered %v", &e)
	}
}

// journal records transitions, and can park one.
type journal struct {
	mu     sync.Mutex
	events []trace.Event
	parked chan trace.Point // gets each point of ConnDeliver; nil: nothing is parked
	open   chan struct{}    // lets one through
}

func (j *journal) Record(e trace.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) Pass(ctx context.Context, p trace.Point) error {
	if j.parked == nil || p.Action != trace.ConnDeliver {
		return nil
	}
	j.parked <- p
	select {
	case <-j.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *journal) said() (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		text := fmt.Sprint(e.Action, " run ", e.Run, " conn ", e.Conn)
		for _, a := range e.Attrs {
			text += fmt.Sprint(" ", a.Key, "=", a.Value)
		}
		out = append(out, text)
	}
	return out
}

// TestDeliveriesAreGatedAndRecorded parks an event at the gate, and compares
// what the recorder heard with what the client read.
func TestDeliveriesAreGatedAndRecorded(t *testing.T) {
	t.Attr("requirement", "SOCKET-13")
	j := &journal{parked: make(chan trace.Point), open: make(chan struct{})}
	s, d := scripted(t, func(c *Config, d *tableDouble) {
		c.Recorder, c.Gate = j, j
		d.run = []runs.Event{{Kind: runs.EventStarted, ID: 1}}
		d.snapshot = runs.Event{Kind: runs.EventStarted, ID: 1}
		d.disconnected = make(chan runs.Subscriber, 1)
	})
	ws := s.dial()
	s.write(ws, unhex(vRun))
	s.read(ws) // the reply, which no gate holds
	if p := <-j.parked; p != (trace.Point{Action: trace.ConnDeliver, Run: 1, Conn: 1}) {
		t.Errorf("parked at %+v", p)
	}
	if got := j.said(); len(got) != 0 {
		t.Errorf("recorded before: %q", got)
	}
	j.open <- struct{}{}
	s.read(ws)
	s.write(ws, unhex(vAttach))
	if p := <-j.parked; p.Request != 2 {
		t.Errorf("the snapshot is parked at %+v", p)
	}
	j.open <- struct{}{}
	s.read(ws)
	ws.Close(websocket.StatusNormalClosure, "")
	<-d.disconnected
	want := []string{
		"ConnDeliver run 1 conn 1 event=started snapshot=false",
		"ConnDeliver run 1 conn 1 event=started snapshot=true",
		"ConnClose run 0 conn 1",
	}
	if got := j.said(); !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// TestShutdownOpensTheGate cuts a connection whose writer is parked.
func TestShutdownOpensTheGate(t *testing.T) {
	t.Attr("requirement", "SOCKET-24")
	j := &journal{parked: make(chan trace.Point), open: make(chan struct{})}
	s, _ := scripted(t, func(c *Config, d *tableDouble) {
		c.Gate = j
		d.run = []runs.Event{{Kind: runs.EventStarted, ID: 1}}
	})
	ws := s.dial()
	s.write(ws, unhex(vRun))
	<-j.parked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestConnectionsLeakNoDescriptors opens and ends many connections in several
// ways and counts what is left.
func TestConnectionsLeakNoDescriptors(t *testing.T) {
	t.Attr("requirement", "SOCKET-21")
	s, _ := scripted(t, func(c *Config, _ *tableDouble) { c.MaxMessageBytes = 100 })
	before := descriptors(t)
	for n := range 200 {
		c, r := s.raw()
		r.until(hello7)
		switch n % 4 {
		case 0:
			io.WriteString(c, frame(true, opClose, "\x03\xe8"))
			_, _ = io.ReadAll(r)
		case 1:
			io.WriteString(c, header(true, opBinary, 101))
			_, _ = io.ReadAll(r)
		case 2:
			io.WriteString(c, "\x82\x01x") // not masked
			_, _ = io.ReadAll(r)
		}
		c.Close()
	}
	s.running.Wait()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
