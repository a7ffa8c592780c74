package manager_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager"
	"microvms/agentd/trace"
)

// produce starts a run with n bytes of output and returns it when it has ended.
func (p *peer) produce(n int) uint64 {
	p.t.Helper()
	id := p.run(command(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", n)))
	p.ends(id)
	return id
}

// TestBulkBesideControl has one client ask for 10,000 pages while another
// starts and acks runs on a connection of its own: every page and every ending
// arrives (hostile input facts, row W8).
func TestBulkBesideControl(t *testing.T) {
	t.Attr("requirement", "SOCKET-22")
	t.Attr("requirement", "SOCKET-19")
	s := start(t, nil)
	bulk, control := s.dial(), s.dial()
	const pages, length = 10_000, 16 << 10
	id := bulk.produce(length * 8)
	sent := make(chan error, 1)
	go func() {
		for n := range uint64(pages) {
			r := msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: msp.Stdout, Offset: n % 8 * length, MaxLen: length}}
			b, err := r.Message(1000 + n)
			if err == nil {
				err = bulk.ws.Write(context.Background(), websocket.MessageBinary, b)
			}
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	read := make(chan error, 1)
	go func() {
		for n := range uint64(pages) {
			_, b, err := bulk.ws.Read(context.Background())
			if err != nil {
				read <- err
				return
			}
			h, payload, err := msp.ParseHeader(b)
			var page msp.ArtifactReply
			if err == nil {
				err = calldata.Unmarshal(payload, &page)
			}
			if err != nil || h.Request != 1000+n || page.TotalLen != length*8 || len(page.Data) != length {
				read <- fmt.Errorf("page %d: header %+v, %d of %d bytes, %v", n, h, len(page.Data), page.TotalLen, err)
				return
			}
		}
		read <- nil
	}()
	runs := 0
	for done := false; !done || runs < 10; runs++ {
		run := control.run(command("true"))
		control.ends(run)
		control.ask(&msp.Request{Ack: &msp.Target{GenvmID: run}}, &msp.Empty{})
		select {
		case err := <-read:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs beside %d pages", runs, pages)
}

// TestRunsBesideAStoppedReader has one client ask for pages and read none: its
// own later requests wait, and another client's runs do not.
func TestRunsBesideAStoppedReader(t *testing.T) {
	t.Attr("requirement", "SOCKET-22")
	s := start(t, nil)
	stopped, other := s.dial(), s.dial()
	id := stopped.produce(1 << 20)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := uint64(1); n <= 10_000; n++ {
			r := msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: msp.Stdout, MaxLen: msp.ChunkBytes}}
			b, err := r.Message(n)
			if err != nil || stopped.ws.Write(context.Background(), websocket.MessageBinary, b) != nil {
				return
			}
		}
	}()
	for range 20 {
		other.ends(other.run(command("true")))
	}
	stopped.ws.CloseNow()
	<-sent
}

// stuck is a gate that no event passes.
type stuck chan struct{}

// Pass parks events until the connections are cut.
func (s stuck) Pass(ctx context.Context, p trace.Point) error {
	if p.Action != trace.ConnDeliver {
		return nil
	}
	close(s)
	<-ctx.Done()
	return ctx.Err()
}

// TestShutdownCutsAStoppedConnection ends a manager while an event cannot leave:
// the shutdown returns, and the client sees no close frame.
func TestShutdownCutsAStoppedConnection(t *testing.T) {
	t.Attr("requirement", "ADMIN-34")
	parked := make(stuck)
	s := start(t, func(c *manager.Config) { c.ShutdownWait, c.Gate = 100*time.Millisecond, parked })
	p := s.dial()
	p.run(command("true"))
	<-parked
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if code := p.closed(); code != -1 {
		t.Errorf("closed with %v", code)
	}
}

// TestNothingIsLeftOpen runs programs over many connections that end in every
// way, and counts descriptors.
func TestNothingIsLeftOpen(t *testing.T) {
	t.Attr("requirement", "SOCKET-21")
	s := start(t, func(c *manager.Config) { c.MaxMessageBytes = 1000 })
	p := s.dial()
	p.produce(10) // what is made once is made
	before := descriptors(t)
	for n := range 30 {
		q := s.dial()
		id := q.run(command("true"))
		switch n % 3 {
		case 0:
			q.ends(id)
			q.ws.Close(websocket.StatusNormalClosure, "")
		case 1:
			q.ws.CloseNow() // in the middle of the run
		case 2:
			q.ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 1001))
			q.closed()
			q.ws.CloseNow()
		}
		var reply msp.AttachReply
		p.ask(&msp.Request{Attach: &msp.Attach{BootID: bootID, GenvmID: id}}, &reply)
		if !reply.Snapshot.Terminal() {
			p.ends(id)
		}
	}
	p.ws.Close(websocket.StatusNormalClosure, "")
	// The manager's side of a connection ends a moment after the client's. The
	// shutdown waits for that.
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
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
