package socket

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
)

// message is a request with a number of its own: the header's id.
func request(frame string, id uint64) string {
	b := []byte(unhex(frame))
	binary.BigEndian.PutUint64(b[2:], id)
	return string(b)
}

// fill sends requests for pages that nobody reads, until a page has no room, and
// returns the connection and a function that waits for the sender's end. What
// waits then is more than the kernel takes, so the writer stays in a page.
func (s *served) fill(ws *websocket.Conn, d *tableDouble) (*conn, func()) {
	d.page = strings.Repeat("x", 4<<20)
	full := make(chan *conn, 1)
	d.before = func(string) {
		for _, c := range s.all() {
			if _, n := c.queue.lengths(); n == artifactBound-1 {
				select {
				case full <- c:
				default:
				}
			}
		}
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for id := uint64(1); id <= 100; id++ {
			if ws.Write(context.Background(), websocket.MessageBinary, []byte(request(vArtifact, id))) != nil {
				return
			}
		}
	}()
	return <-full, func() { <-sent }
}

// all returns the open connections.
func (s *served) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// TestSlowReaderIsThrottled asks for far more than a connection holds without
// reading an answer. No request may be handled above the bounds, and when the
// client reads at last, every answer is there in order.
func TestSlowReaderIsThrottled(t *testing.T) {
	t.Attr("requirement", "SOCKET-16")
	t.Attr("requirement", "SOCKET-23")
	for name, c := range map[string]struct {
		frame string
		bound int
	}{"control": {vAttach, controlBound}, "artifact": {vArtifact, artifactBound}} {
		t.Run(name, func(t *testing.T) {
			// All in all more than the kernel keeps for a socket, and then the bound.
			asked := uint64(c.bound + 300)
			var most atomic.Int64
			full := make(chan struct{}, 1)
			s, d := scripted(t, nil)
			d.page = strings.Repeat("x", 64<<10)
			d.snapshot = runs.Event{Kind: runs.EventFailedToStart, ID: 1, Error: d.page}
			d.before = func(string) {
				control, artifact := s.all()[0].queue.lengths()
				waits := max(control, artifact)
				most.Store(max(most.Load(), int64(waits)))
				if waits == c.bound-1 {
					select {
					case full <- struct{}{}:
					default:
					}
				}
			}
			ws := s.dial()
			sent := make(chan error, 1)
			go func() {
				var err error
				for id := uint64(1); id <= asked && err == nil; id++ {
					err = ws.Write(context.Background(), websocket.MessageBinary, []byte(request(c.frame, id)))
				}
				sent <- err
			}()
			<-full
			for id := uint64(1); id <= asked; id++ {
				h, _, err := msp.ParseHeader(s.read(ws))
				if err != nil || h.Request != id {
					t.Fatalf("answer %d has header %+v, %v", id, h, err)
				}
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if most.Load() != int64(c.bound-1) {
				t.Errorf("a request was handled with %d messages waiting, the bound is %d", most.Load(), c.bound)
			}
		})
	}
}

// TestControlOvertakesPages fills the artifact queue of a client that does not
// read, and then delivers events from another goroutine, as the table does: the
// pages that had left the queue come first, and no other ahead of the events.
func TestControlOvertakesPages(t *testing.T) {
	t.Attr("requirement", "SOCKET-14")
	t.Attr("requirement", "SOCKET-17")
	s, d := scripted(t, nil)
	ws := s.dial()
	c, wait := s.fill(ws, d)
	const events = 1000
	c.queue.mu.Lock() // so that the count and the events are of one moment
	left := len(d.take()) - len(c.queue.artifact)
	for id := range runs.ID(events - 1) {
		c.queue.control = append(c.queue.control, item{event: &runs.Event{Kind: runs.EventStarted, ID: id + 1}})
	}
	c.queue.mu.Unlock()
	c.Deliver(runs.Event{Kind: runs.EventStarted, ID: events}) // the reader waits for room; this must not
	pages := 0
	for n := uint64(0); n < events; {
		b := s.read(ws) // not before all is queued, so the writer is still in its page
		if h, _, _ := msp.ParseHeader(b); h.Method != msp.MethodEvent {
			pages++
			continue
		}
		var ev msp.Event
		decode(t, b, &ev)
		if n++; ev.GenvmID() != n {
			t.Fatalf("event %d is of run %d", n, ev.GenvmID())
		}
	}
	if pages > left {
		t.Errorf("%d pages came ahead of events, and %d had left the queue", pages, left)
	}
	ws.CloseNow()
	wait()
}

// TestArtifactErrorsOvertakePages fails a request for a page behind seven that
// wait: its error comes ahead of them.
func TestArtifactErrorsOvertakePages(t *testing.T) {
	t.Attr("requirement", "SOCKET-25")
	q := newQueue()
	d := &tableDouble{page: "x"}
	s := &Server{config: Config{Table: d}, base: t.Context()}
	c := &conn{server: s, queue: q}
	for id := range uint64(artifactBound - 1) {
		c.judge(false, []byte(request(vArtifact, id+1)))
	}
	d.err = runs.ErrUnknown
	c.judge(false, []byte(request(vArtifact, 8)))
	var e msp.Error
	if h := decode(t, []byte(take(q)), &e); h.Request != 8 || e.Code != msp.CodeUnknownID {
		t.Errorf("the first message answers %d with %v", h.Request, &e)
	}
	if _, n := q.lengths(); n != artifactBound-1 {
		t.Errorf("%d pages wait", n)
	}
}

// TestSlowReaderCostsNobodyElse stops one client's reading with everything
// queued, and serves another meanwhile.
func TestSlowReaderCostsNobodyElse(t *testing.T) {
	t.Attr("requirement", "SOCKET-22")
	s, d := scripted(t, nil)
	slow := s.dial()
	_, wait := s.fill(slow, d)
	other := s.dial()
	for range 1000 {
		s.write(other, unhex(vCancel))
		if got := hex.EncodeToString(s.read(other)); got != vCancelReply {
			t.Fatalf("got %s", got)
		}
	}
	slow.CloseNow()
	wait()
}

// leaving has the writer stand in a page that the client does not read, with
// another page behind it, and then sends a close frame.
func leaving(t *testing.T, wait time.Duration) (*served, *tableDouble, *rest) {
	s, d := scripted(t, func(c *Config, d *tableDouble) {
		d.disconnected = make(chan runs.Subscriber, 2)
		d.page = strings.Repeat("x", 512<<10) // more than the kernel keeps for a unix socket
	})
	s.leaveWait = wait
	c, r := s.rawUnix()
	r.until(hello7)
	page := frame(true, opBinary, unhex(vArtifact))
	io.WriteString(c, page)
	if _, err := r.Peek(1); err != nil { // the page is under way
		t.Fatal(err)
	}
	io.WriteString(c, page+frame(true, opClose, "\x03\xe8"))
	return s, d, r
}

// TestLeaveBehindAPage leaves while a page is under way: the subscriptions are
// dropped before the page is read or given up, and then the client may still
// read that page, no further one, and the answer to its close frame.
func TestLeaveBehindAPage(t *testing.T) {
	t.Attr("requirement", "SOCKET-27")
	t.Attr("requirement", "SOCKET-21")
	s, d, r := leaving(t, time.Hour)
	one := s.all()[0]
	if got := <-d.disconnected; got != runs.Subscriber(one) {
		t.Errorf("disconnected %v", got)
	}
	if !one.queue.over() {
		t.Error("the subscriptions were dropped while events could still be queued")
	}
	got, err := io.ReadAll(r)
	if n := strings.Count(string(got), "total_len"); n != 1 || !strings.HasSuffix(string(got), "\x88\x02\x03\xe8") || err != nil {
		t.Errorf("%d whole pages came, the end is %x, %v", n, got[max(0, len(got)-4):], err)
	}
	s.running.Wait()
	if len(d.disconnected) != 0 {
		t.Error("the table heard of it twice")
	}
}

// TestLeaveWithoutReading leaves while a page is under way and reads nothing: the
// page is given up.
func TestLeaveWithoutReading(t *testing.T) {
	t.Attr("requirement", "SOCKET-27")
	s, d, _ := leaving(t, time.Millisecond)
	<-d.disconnected
	s.running.Wait()
}

// TestMemoryFollowsArrival announces messages of 60 MiB on many connections and
// sends a little of each: what is held is what came.
func TestMemoryFollowsArrival(t *testing.T) {
	t.Attr("requirement", "SOCKET-29")
	s, _ := scripted(t, nil)
	const peers, sent = 50, 100 << 10
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	part := []byte(header(true, opBinary, 60<<20) + strings.Repeat("x", sent))
	var open []net.Conn
	for range peers {
		c, r := s.raw()
		r.until(hello7)
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > peers*(2*sent+128<<10) {
		t.Errorf("%d connections with %d bytes each hold %d bytes", peers, sent, grown)
	}
	for _, c := range open {
		c.Close()
	}
}

// TestRequestsAreServedInOrder sends a burst of requests in one write: the table
// sees them one after another in the order sent, also those that share an id.
func TestRequestsAreServedInOrder(t *testing.T) {
	t.Attr("requirement", "SOCKET-18")
	t.Attr("requirement", "SOCKET-19")
	s, d := scripted(t, nil)
	c, r := s.raw()
	r.until(hello7)
	var burst strings.Builder
	var want []string
	for n := range 300 {
		id := uint64(n/2 + 1)
		kind := []string{vCancel, vAck, vAttach, vRun}[n%4]
		burst.WriteString(frame(true, opBinary, request(kind, id)))
		want = append(want, fmt.Sprint(binary.BigEndian.Uint16([]byte(unhex(kind))), " ", id))
	}
	io.WriteString(c, burst.String())
	var got []string
	for range want {
		head := make([]byte, 2)
		if _, err := io.ReadFull(r, head); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, head[1])
		if _, err := io.ReadFull(r, message); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(binary.BigEndian.Uint16(message), " ", binary.BigEndian.Uint64(message[2:])))
	}
	if !slices.Equal(got, want) {
		t.Errorf("answered %q", got)
	}
	if calls := d.take(); len(calls) != 300 || !slices.Equal(calls[:4], []string{"cancel 1", "ack 1", "attach 1", "run"}) {
		t.Errorf("%d calls, first %q", len(calls), calls[:4])
	}
}
