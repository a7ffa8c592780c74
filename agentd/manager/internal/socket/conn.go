package socket

import (
	"context"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// conn is one connection.
//
//	upgraded ─▶ serving ─┬─ close frame ─▶ leaving ──┐
//	                     ├─ shutdown ────▶ draining ─┼─▶ ended
//	                     └─ cut, too long, violation ┘
//
// In leaving and later nothing is written but the answer to the close frame; in
// draining no request is handled.
type conn struct {
	server *Server
	serial uint64 // within this process, from 1
	asked  uint64 // requests so far; of the reader
	queue  *queue
	guard  *guard // set under server.mu
	ws     *websocket.Conn

	left sync.Once // the subscriptions are dropped
}

// open upgrades the connection.
func (c *conn) open(w http.ResponseWriter, r *http.Request) (err error) {
	var g *guard
	c.ws, g, err = upgrade(w, r, uint64(c.server.config.MaxMessageBytes), c.leave, c.queue.answerPing)
	if err != nil {
		return err
	}
	if !c.server.attach(c, g) {
		g.Conn.Close()
	}
	return nil
}

// run serves the connection until it ends.
func (c *conn) run() {
	log := c.server.config.Log
	log.Debug("connection opened", "conn", c.serial)
	// SOCKET-1: queued before the reader starts, so that nothing can come ahead.
	c.queue.add(item{frame: c.server.config.hello})
	var writer sync.WaitGroup
	writer.Go(c.write)
	err := c.read()
	if err != nil {
		// SOCKET-28: the library has sent 1002 where the violation has one; what is left
		// of the stream means nothing.
		c.cut()
	}
	writer.Wait()
	c.end()
	// Nothing is left to be said, and everybody has left the library: this frees it.
	c.ws.CloseNow()
	log.Debug("connection closed", "conn", c.serial, "too_long", c.guard.tooLong.Load())
}

// read handles one message after another. It returns nil when the server drains
// its connections, and what ended the connection otherwise.
func (c *conn) read() error {
	for {
		// SOCKET-16: before the next message is read, so that what a client does not
		// read stops what it asks.
		if !c.queue.waitControl() {
			return c.stopped()
		}
		kind, r, err := c.ws.Reader(context.Background())
		if err != nil {
			return err
		}
		text := kind == websocket.MessageText
		var message []byte
		if text {
			_, err = io.Copy(io.Discard, r) // SOCKET-7: what it says does not matter
		} else {
			// SOCKET-29: grows with what arrives, by doubling at most.
			message, err = io.ReadAll(r)
		}
		if err != nil {
			return err
		}
		if c.queue.stopped() {
			return c.stopped()
		}
		// SOCKET-18: in this goroutine, so that one request ends before the next begins.
		c.handle(text, message)
	}
}

// stopped tells the two ways apart in which a queue takes no more.
func (c *conn) stopped() error {
	if c.queue.over() {
		return io.EOF
	}
	return nil
}

// handle serves one message. A panic ends the request and not the connection.
func (c *conn) handle(text bool, message []byte) {
	defer func() {
		if recover() == nil {
			return
		}
		// SOCKET-26: with the stack, which names places only; the panic value may
		// quote the message.
		c.server.config.Log.Error("request handler panicked", "conn", c.serial, "stack", string(debug.Stack()))
		c.panicked(message)
	}()
	c.server.serve(c, text, message)
}

// panicked answers a request whose handler had a defect.
func (c *conn) panicked(message []byte) {
	if h, _, err := msp.ParseHeader(message); err == nil {
		c.fail(h.Request, msp.CodeInternal, "the manager has a defect: this request had no effect that is known")
	}
}

// write writes what is queued until the connection ends.
func (c *conn) write() {
	for {
		kind, i := c.queue.next(c.passDeliver, c.recordDeliver)
		var err error
		switch kind {
		case nothing:
			return
		case aClose:
			// The library waits for the peer's close frame; Shutdown bounds the wait.
			c.ws.Close(websocket.StatusGoingAway, "the manager shuts down")
			return
		case aPong:
			err = c.pong(i.frame)
		case aMessage:
			err = c.message(i)
		}
		if err != nil {
			c.cut()
			return
		}
	}
}

// message writes one message. It takes as long as the peer takes.
func (c *conn) message(i item) error {
	frame := i.frame
	if i.event != nil {
		var err error
		if frame, err = told(i); err != nil {
			// Every event encodes; a client that missed one must not go on.
			c.server.config.Log.Error("event cannot be encoded", "conn", c.serial, "run", uint64(i.event.ID), "err", err)
			return err
		}
	}
	// SOCKET-22: in this connection's own goroutine and without a deadline: a slow
	// peer throttles itself, and is not dropped for it.
	return c.ws.Write(context.Background(), websocket.MessageBinary, frame)
}

// pong writes a pong by itself, between two messages. The one writer besides is
// the library's reader, which writes a close frame, and a write of a socket is
// whole. A payload is at most 125 bytes.
func (c *conn) pong(payload []byte) error {
	_, err := c.guard.Conn.Write(append([]byte{0x80 | opPong, byte(len(payload))}, payload...))
	return err
}

// leave is called by the guard when the peer's close frame arrives: all before
// it was handled.
func (c *conn) leave() {
	// SOCKET-27: before the library answers, which it does behind the message that
	// the writer is at.
	c.end()
	c.guard.Conn.SetWriteDeadline(time.Now().Add(c.server.leaveWait))
}

// cut closes the socket at once, without a close frame.
func (c *conn) cut() {
	c.queue.end(c.recordClose)
	c.guard.Conn.Close()
}

// end drops what is queued and the subscriptions.
func (c *conn) end() {
	// SOCKET-21: the queue first, so that no event is delivered after the end was
	// told.
	c.queue.end(c.recordClose)
	c.left.Do(c.disconnect)
}

// disconnect drops the subscriptions.
func (c *conn) disconnect() {
	c.server.config.Table.Disconnect(runs.WithOrigin(c.server.base, c.serial, 0), c)
}

// Deliver queues an event. The run table calls it under its lock.
func (c *conn) Deliver(ev runs.Event) { c.queue.add(item{event: &ev}) }

func (c *conn) point(i item) trace.Point {
	return trace.Point{Action: trace.ConnDeliver, Run: uint64(i.event.ID), Conn: c.serial, Request: i.asked}
}

func (c *conn) passDeliver(i item) bool { return c.server.pass(c.point(i)) }

func (c *conn) recordDeliver(i item) {
	c.server.record(c.point(i), trace.Attr{Key: "event", Value: i.event.Kind.String()},
		trace.Attr{Key: "snapshot", Value: i.request != 0})
}

func (c *conn) recordClose() {
	c.server.record(trace.Point{Action: trace.ConnClose, Conn: c.serial})
}
