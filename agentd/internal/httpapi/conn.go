package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"microvms/agentd/api"
)

// lingerTime bounds how long a connection with unread input stays half-closed
// after its last answer, so that the answer is read before a reset arrives.
const lingerTime = 500 * time.Millisecond

// writePiece is how much of an answer has one write deadline.
const writePiece = 256 << 10

// filePiece is how much of a file has one write deadline.
const filePiece = 1 << 20

// conn is an admitted connection. Between net/http and the socket it does what
// net/http cannot: it answers bytes that are no HTTP at once, adds the version
// header to the answers that net/http writes by itself, holds one deadline over
// the wait for a header, gives each piece of an answer its own write deadline
// and closes without cutting off the answer.
type conn struct {
	net.Conn
	admission *admission
	serial    uint64

	// Guarded by admission.mu.
	phase    phase
	served   bool      // it has answered before
	since    time.Time // when the phase began
	headerBy time.Time // deadline of a wait for a header
	readBy   time.Time // the read deadline in force, but for a question to make room
	released bool
	evicted  bool // closed for a newcomer
	woken    bool // a read was, or will be, woken by a question and not by its deadline
	open     bool // what it is answered with needed no credential

	judged  bool        // the first byte was looked at; only the reading goroutine uses it
	handler atomic.Bool // a handler owns the answer: net/http writes nothing of its own
	linger  atomic.Bool // input may be unread at the close
	halved  atomic.Bool // the write side is shut
	expired atomic.Bool // the header deadline passed
	tunnel  atomic.Bool // upgraded: a caller that reads slowly is waited for

	corked  bool   // only the handler's goroutine uses these two
	pending []byte // written while corked
}

// waitHeaderLocked begins a wait for a header. Callers hold admission.mu.
func (c *conn) waitHeaderLocked() {
	c.phase, c.since, c.open = awaitingHeader, c.admission.clock.Now(), true
	c.headerBy = time.Now().Add(c.admission.limits.HeaderTimeout)
	c.setReadDeadlineLocked(c.headerBy)
}

// headerRead is called when net/http has read a header, whole or not, and before
// it reads anything else.
func (c *conn) headerRead() {
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	if !c.evicted {
		// XPORT-30: here and not in the handler, because net/http begins to watch
		// for the end of input before that, and its read would settle a question
		// as if nothing had arrived.
		c.answeredLocked()
		c.phase = serving
	}
}

// beginServing is called when a complete header has arrived. It reports false
// when the connection was closed for a newcomer before that: the request must
// then have no effect, since its answer is lost for certain.
func (c *conn) beginServing() bool {
	c.handler.Store(true)
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	if c.evicted {
		return false
	}
	c.answeredLocked()
	c.phase, c.served = serving, true
	c.setReadDeadlineLocked(time.Time{})
	return true
}

// beginWaiting is called when an answer is finished and the next header is due.
func (c *conn) beginWaiting() {
	c.handler.Store(false)
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.waitHeaderLocked()
	c.admission.notifyLocked()
}

// SetReadDeadline never extends the wait for a header: net/http has one
// deadline for the idle time and another for the header, here both share one.
// Within a body, no deadline means that its end was read.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	if c.phase == awaitingHeader && (t.IsZero() || t.After(c.headerBy)) {
		t = c.headerBy
	} else if t.IsZero() {
		c.bodyEndedLocked()
	}
	return c.setReadDeadlineLocked(t)
}

// setReadDeadlineLocked sets the deadline, or keeps it for later while the
// connection is asked to make room. Callers hold admission.mu.
func (c *conn) setReadDeadlineLocked(t time.Time) error {
	c.readBy = t
	if c.admission.asked == c {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// authorized is called when the request's credential was accepted: its answer
// is the owner's and not closed for a newcomer.
func (c *conn) authorized() {
	if c == nil {
		return
	}
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.open = false
}

// Read reads, and answers a connection whose first byte cannot begin an HTTP
// request: net/http would wait for a newline that a TLS peer never sends.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	again, err := c.readOn(n, err)
	for again {
		n, err = c.Conn.Read(p)
		again, err = c.readOn(n, err)
	}
	if n > 0 && !c.judged {
		c.judged = true
		// XPORT-11: by the first byte, because a TLS peer sends no newline and does not close.
		if !tokenByte(p[0]) {
			c.admission.debug("connection does not speak http", "first_byte", int(p[0]))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: "+api.MediaText+
				"\r\nConnection: close\r\n\r\n400 Bad Request")
			c.lingerNow()
			return 0, io.EOF
		}
	}
	if err != nil && !c.handler.Load() && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errEvicted)) {
		c.expired.Store(true)
	}
	return n, err
}

// Write writes with a deadline for each piece. Outside a handler the bytes are
// an answer of net/http's own, which gets the version header.
func (c *conn) Write(p []byte) (int, error) {
	if !c.handler.Load() {
		if c.expired.Load() {
			// XPORT-6: closed, not answered. net/http takes the half of a
			// request line that came in time for a whole one.
			return 0, os.ErrDeadlineExceeded
		}
		c.linger.Store(true)
		if _, err := c.write(withVersion(p, c.admission.version)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if c.corked {
		c.pending = append(c.pending, p...)
		return len(p), nil
	}
	return c.write(p)
}

// cork collects what is written until uncork: net/http's chunked encoding
// takes three system calls for one write and flush.
func (c *conn) cork() { c.corked = true }

// uncork writes what was collected.
func (c *conn) uncork() error {
	c.corked = false
	if len(c.pending) == 0 {
		return nil
	}
	_, err := c.write(c.pending)
	c.pending = c.pending[:0]
	return err
}

func (c *conn) write(p []byte) (written int, err error) {
	// XPORT-31: an answer that anybody can ask for is not worth a slot to nobody's reader.
	if c.needsNoCredential() {
		leave := c.enter(sending)
		defer leave()
	}
	for {
		piece := p[written:min(len(p), written+writePiece)]
		if !c.tunnel.Load() {
			// XPORT-27: a deadline for each piece, so that a slow peer is served and a dead one cut.
			c.Conn.SetWriteDeadline(time.Now().Add(c.admission.limits.WriteTimeout))
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// ReadFrom lets the kernel move a file to the socket (sendfile), with a write
// deadline for each piece. net/http calls it for a body of declared length.
func (c *conn) ReadFrom(r io.Reader) (moved int64, err error) {
	socket, ok := c.Conn.(io.ReaderFrom)
	limited, bounded := r.(*io.LimitedReader)
	if !ok || !bounded || !c.handler.Load() || c.corked {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for limited.N > 0 {
		c.Conn.SetWriteDeadline(time.Now().Add(c.admission.limits.WriteTimeout))
		n, err := socket.ReadFrom(&io.LimitedReader{R: limited.R, N: min(limited.N, filePiece)})
		moved += n
		limited.N -= n
		if err != nil || n == 0 {
			return moved, err
		}
	}
	return moved, nil
}

// needsNoCredential reports whether anybody could have asked for what is
// written now, so that a peer that does not read it may be closed.
func (c *conn) needsNoCredential() bool {
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	return c.open
}

// withVersion puts the version header behind the status line of an answer.
func withVersion(answer []byte, version string) []byte {
	end := bytes.Index(answer, []byte("\r\n"))
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) || end < 0 {
		return answer
	}
	out := make([]byte, 0, len(answer)+len(api.HeaderVersion)+len(version)+4)
	out = append(out, answer[:end+2]...)
	out = append(out, api.HeaderVersion+": "+version+"\r\n"...)
	return append(out, answer[end+2:]...)
}

// CloseWrite shuts the write side.
func (c *conn) CloseWrite() error {
	c.halved.Store(true)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and frees its slot.
func (c *conn) Close() error {
	if c.linger.Load() && !c.halved.Load() {
		c.lingerNow()
	}
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	// XPORT-5: closed and released at once, because a newcomer who came in
	// between would cost another connection its place although a slot is free.
	err := c.Conn.Close()
	c.releaseLocked()
	return err
}

// lingerNow shuts the write side and waits, within bounds of time and bytes,
// for the peer to close. A close with unread input would send a reset, and a
// reset may overtake the answer at the peer.
func (c *conn) lingerNow() {
	leave := c.enter(lingering)
	defer leave()
	c.CloseWrite()
	until := time.Now().Add(lingerTime)
	c.Conn.SetReadDeadline(until)
	n, err := io.CopyN(io.Discard, c.Conn, c.admission.limits.MaxDrainBytes)
	if err == nil && n == c.admission.limits.MaxDrainBytes {
		// The peer still sends: nothing more is read, but it gets the rest of
		// the time to read the answer.
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.admission.closed:
		}
	}
}

// tokenByte reports whether b may begin a request: a character of an HTTP
// method (RFC 9110, section 5.6.2).
func tokenByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
}

// connOf returns the admitted connection that a request came in on.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

type connKey struct{}
