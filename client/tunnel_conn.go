package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/tunnel"
)

// plainChunk is how much of a plain tunnel goes into one frame.
const plainChunk = 65536

// closeWait bounds how long Close waits for what Write has in hand and for the
// daemon to answer.
const closeWait = 5 * time.Second

// Tunnel is one TCP connection to the guest. It is a net.Conn, safe for
// concurrent use, with three differences: there is no half-close, since the
// first side to end closes the whole tunnel; after a Write has timed out the
// tunnel is broken, as with crypto/tls; and Outcome says how it ended, which
// io.EOF alone cannot.
//
//	open ─▶ closed | truncated | closed unproven | refused | failed
type Tunnel struct {
	owner   *Session
	ws      *websocket.Conn
	port    uint16
	session *tunnel.Session // nil for a plain tunnel

	chunks chan []byte   // from the pump; closed at its end
	unread chan struct{} // the pump offers a token while it has a chunk that nobody takes
	ended  chan struct{} // closed once outcome is set
	pumped chan struct{} // closed when the pump has ended

	readDeadline, writeDeadline *connDeadline
	reading, writing            chan struct{} // semaphores of one
	rest                        []byte        // of the last chunk; guarded by reading
	sealed                      []byte        // guarded by writing

	mu      sync.Mutex
	outcome TunnelOutcome
	ending  bool // Close decides how it ended, whatever the pump sees meanwhile
	closed  bool // by Close
	local   chan struct{}
	detach  func() bool
}

var _ net.Conn = (*Tunnel)(nil)

func newTunnel(s *Session, ws *websocket.Conn, port uint16) *Tunnel {
	return &Tunnel{
		owner: s, ws: ws, port: port,
		chunks: make(chan []byte), unread: make(chan struct{}), ended: make(chan struct{}), pumped: make(chan struct{}), local: make(chan struct{}),
		readDeadline: newConnDeadline(), writeDeadline: newConnDeadline(),
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1),
	}
}

// start runs the pump. TUNNEL-14: it belongs to the session, so that no tunnel
// outlives it. It reports false when the session was closed.
func (t *Tunnel) start() bool {
	if !t.owner.goCall(t.pump) {
		return false
	}
	stop := context.AfterFunc(t.owner.closing, func() {
		t.finish(TunnelOutcome{End: TunnelFailed, Err: errSessionClosed()})
		t.ws.CloseNow()
	})
	t.mu.Lock()
	t.detach = stop
	t.mu.Unlock()
	return true
}

// finish sets the outcome. The first one stays.
func (t *Tunnel) finish(o TunnelOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finishLocked(o)
}

func (t *Tunnel) finishLocked(o TunnelOutcome) {
	if t.outcome.End == TunnelOpen && !t.ending {
		t.outcome = o
		close(t.ended)
	}
}

// beginEnd makes this side the first to end. It reports false when the far end
// was. After it the far end's answer, which may overtake what Close has left to
// do, no longer decides.
func (t *Tunnel) beginEnd() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = t.outcome.End == TunnelOpen
	return t.ending
}

// settle sets the outcome after beginEnd.
func (t *Tunnel) settle(o TunnelOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = false // under one lock with the outcome, or the pump could come between
	t.finishLocked(o)
}

// Outcome says how the tunnel ended, with End TunnelOpen while it has not.
func (t *Tunnel) Outcome() TunnelOutcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcome
}

// Done is closed when the tunnel has ended. Bytes that arrived before may be
// left to read.
func (t *Tunnel) Done() <-chan struct{} { return t.ended }

// pump reads messages one ahead of Read. Of its two buffers one is being read
// while the other is being filled: Read takes a chunk only when it is done with
// the one before.
func (t *Tunnel) pump() {
	defer close(t.pumped)
	defer close(t.chunks)
	var buffers [2][]byte
	for i := range buffers {
		buffers[i] = make([]byte, tunnel.MaxRecord+1)
	}
	read := t.plainReader()
	if t.session != nil {
		read = t.verifiedReader()
	}
	for turn := 0; ; turn++ {
		data, o := read(buffers[turn%2])
		if o != nil {
			t.finish(*o)
			if o.End == TunnelFailed {
				t.ws.CloseNow() // a frame that does not authenticate gets no answer
			}
			return
		}
		if len(data) == 0 {
			turn--
			continue
		}
		t.hand(data)
	}
}

// hand gives a chunk to the next Read.
func (t *Tunnel) hand(data []byte) {
	for {
		select {
		case t.chunks <- data:
		case t.unread <- struct{}{}:
			continue
		case <-t.local: // nobody reads any more: the rest is dropped
		case <-t.owner.closing.Done():
		}
		return
	}
}

// verifiedReader returns a function that reads one record.
func (t *Tunnel) verifiedReader() func(buf []byte) ([]byte, *TunnelOutcome) {
	record := make([]byte, tunnel.MaxRecord+1)
	return func(buf []byte) ([]byte, *TunnelOutcome) {
		kind, n, err := readMessage(context.Background(), t.ws, record)
		if err != nil {
			o := t.judgeEnd(err)
			return nil, &o
		}
		if kind != websocket.MessageBinary {
			return nil, &TunnelOutcome{End: TunnelFailed, Err: tunnelFailed("cannot go on with the tunnel", errTextFrame)}
		}
		data, end, err := t.session.Open(buf[:0], record[:n])
		switch {
		case err != nil:
			// BIND-24: never delivered, and nothing after it.
			return nil, &TunnelOutcome{End: TunnelFailed, Err: tunnelFailed("cannot go on with the tunnel", err)}
		case end:
			return nil, &TunnelOutcome{End: TunnelClosed}
		}
		return data, nil
	}
}

// plainReader returns a function that reads a piece of a frame.
func (t *Tunnel) plainReader() func(buf []byte) ([]byte, *TunnelOutcome) {
	var frame io.Reader
	return func(buf []byte) ([]byte, *TunnelOutcome) {
		var err error
		if frame == nil {
			if _, frame, err = t.ws.Reader(context.Background()); err != nil {
				o := t.judgeEnd(err)
				return nil, &o
			}
		}
		n, err := frame.Read(buf)
		switch {
		case err == io.EOF:
			frame = nil
		case err != nil:
			o := t.judgeEnd(err)
			return nil, &o
		}
		return buf[:n], nil
	}
}

// Read reads bytes of the guest. After the last one it returns io.EOF for a
// tunnel that was closed, proven or not, and the outcome's error otherwise:
// errors.Is(err, ErrTruncated) for a tunnel that may be missing bytes.
func (t *Tunnel) Read(p []byte) (int, error) {
	deadline := t.readDeadline.now()
	select {
	case t.reading <- struct{}{}:
		defer func() { <-t.reading }()
	case <-deadline.Done():
		return 0, os.ErrDeadlineExceeded
	}
	if deadline.Err() != nil {
		return 0, os.ErrDeadlineExceeded
	}
	if len(t.rest) == 0 && len(p) > 0 {
		select {
		case <-t.local:
			return 0, net.ErrClosed
		default:
		}
		select {
		case chunk, ok := <-t.chunks:
			if !ok {
				return 0, t.Outcome().readError()
			}
			t.rest = chunk
		case <-t.local:
			return 0, net.ErrClosed
		case <-deadline.Done():
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write sends bytes to the guest. It returns when they are handed to the
// transport, which says nothing about the guest.
func (t *Tunnel) Write(p []byte) (n int, err error) {
	ctx := t.writeDeadline.now()
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return 0, os.ErrDeadlineExceeded
	case <-t.local:
		return 0, net.ErrClosed
	}
	for len(p) > 0 {
		if o := t.Outcome(); o.End != TunnelOpen {
			return n, o.writeError()
		}
		size := min(len(p), plainChunk)
		out := p[:size]
		if t.session != nil {
			size = min(len(p), tunnel.MaxChunk)
			if t.sealed, err = t.session.Seal(t.sealed[:0], p[:size]); err != nil {
				return n, tunnelFailed("cannot go on with the tunnel", err)
			}
			out = t.sealed
		}
		if err := t.ws.Write(ctx, websocket.MessageBinary, out); err != nil {
			return n, t.writeFailed(ctx, err)
		}
		n, p = n+size, p[size:]
	}
	return n, nil
}

// Close ends the tunnel and with it the guest's connection. A verified tunnel
// proves to the guest's daemon that nothing is missing. Bytes of the guest that
// were not read are dropped. Close waits for the daemon's answer for at most a
// few seconds; after it no goroutine of the tunnel is left.
func (t *Tunnel) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return net.ErrClosed
	}
	t.closed = true
	close(t.local)
	detach := t.detach
	t.mu.Unlock()
	defer detach()
	defer t.readDeadline.stop()
	defer t.writeDeadline.stop()
	err := t.end()
	<-t.pumped
	return err
}

// end says good-bye, or cuts where that is impossible or not due.
func (t *Tunnel) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		// A write hangs, so the caller's bytes are not all out. The cut says so
		// to the guest.
		t.finish(TunnelOutcome{End: TunnelFailed, Err: tunnelFailed("cannot close the tunnel", errors.New("the daemon takes no more bytes"))})
		t.ws.CloseNow()
		return fmt.Errorf("cannot close the tunnel: %w", ctx.Err())
	}
	if !t.beginEnd() {
		t.ws.CloseNow() // the far end was first, or there is nobody to say it to
		return nil
	}
	if t.session != nil {
		record, err := t.session.SealEnd(nil)
		if err == nil {
			// TUNNEL-12: ahead of the close frame, which proves nothing.
			err = t.ws.Write(ctx, websocket.MessageBinary, record)
		}
		if err != nil {
			err = tunnelFailed("cannot end the tunnel's stream", err)
			t.settle(TunnelOutcome{End: TunnelFailed, Err: err})
			t.ws.CloseNow()
			return err
		}
	}
	t.settle(TunnelOutcome{End: TunnelClosed})
	t.ws.Close(websocket.StatusNoStatusRcvd, "")
	return nil
}

// LocalAddr names this end.
func (t *Tunnel) LocalAddr() net.Addr { return tunnelAddr("microvm-client") }

// RemoteAddr names the guest's port.
func (t *Tunnel) RemoteAddr() net.Addr { return tunnelAddr(fmt.Sprintf("127.0.0.1:%d", t.port)) }

// SetDeadline sets both deadlines.
func (t *Tunnel) SetDeadline(at time.Time) error {
	t.readDeadline.set(at)
	t.writeDeadline.set(at)
	return nil
}

// SetReadDeadline sets the deadline of pending and later Reads; zero means none.
func (t *Tunnel) SetReadDeadline(at time.Time) error { t.readDeadline.set(at); return nil }

// SetWriteDeadline sets the deadline of pending and later Writes; zero means
// none. A Write that it cuts short breaks the tunnel.
func (t *Tunnel) SetWriteDeadline(at time.Time) error { t.writeDeadline.set(at); return nil }

// tunnelAddr is an address of a tunnel.
type tunnelAddr string

// Network returns "microvm".
func (tunnelAddr) Network() string { return "microvm" }

// String returns the address.
func (a tunnelAddr) String() string { return string(a) }

// readMessage reads one message into buf. One that fills it is too long.
func readMessage(ctx context.Context, ws *websocket.Conn, buf []byte) (websocket.MessageType, int, error) {
	kind, r, err := ws.Reader(ctx)
	if err != nil {
		return 0, 0, err
	}
	n, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // shorter than the buffer, as it should be
	}
	return kind, n, err
}
