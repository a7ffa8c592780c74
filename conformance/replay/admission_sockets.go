package replay

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Sockets is a listener whose connections keep real bytes and ends, but whose
// long deadlines stand still until their owner lets one pass, so that a deadline
// is a step like any other and nothing waits for time. Its owner can also keep
// what has arrived from being read, as a busy scheduler would, and what is
// written from being taken, as a client that does not read would. All methods
// are safe for concurrent use.
type Sockets struct {
	net.Listener

	mu      sync.Mutex
	byPeer  map[string]*socket
	open    int // connections that got a read deadline, which is how admission begins, and are not closed
	most    int
	changed chan struct{}
}

// NewSockets wraps a listener.
func NewSockets(l net.Listener) *Sockets {
	return &Sockets{Listener: l, byPeer: map[string]*socket{}, changed: make(chan struct{})}
}

// shortDeadline is what passes by itself: the deadlines in the past by which a
// server interrupts a read, and the wait for a peer to close.
const shortDeadline = time.Minute

var longAgo = time.Unix(1, 0)

// Accept returns the next connection.
func (s *Sockets) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k := &socket{Conn: c, all: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPeer[c.RemoteAddr().String()] = k
	s.notifyLocked()
	return k, nil
}

// Most returns the largest number of connections that were admitted at once.
func (s *Sockets) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *Sockets) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the connection of a peer satisfies ready. It is nil until it
// is accepted.
func (s *Sockets) await(ctx context.Context, peer string, ready func(k *socket) bool) (*socket, error) {
	for {
		s.mu.Lock()
		k, changed := s.byPeer[peer], s.changed
		ok := ready(k)
		s.mu.Unlock()
		if ok {
			return k, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// socket is one connection. Its fields are guarded by Sockets.mu.
type socket struct {
	net.Conn
	all      *Sockets
	admitted bool
	closed   bool

	held   time.Duration // the read deadline that stands still, in whole hours; 0 for none
	due    time.Time     // its moment
	passed time.Time     // the moment of the last one that was let pass: what is due before it has passed, too
	over   bool          // the read deadline has passed
	spared int           // how often the daemon took a passed read deadline back

	deaf    bool // nothing is read
	parked  bool // a read waits for that to end
	reading bool // a read waits for bytes
	taken   int  // bytes that were read

	stalled  bool          // nothing is written
	writing  bool          // a write waits
	writeFor time.Duration // the write deadline, in whole hours
	late     bool          // it has passed
}

// SetReadDeadline holds a long deadline, and sets any other.
func (k *socket) SetReadDeadline(t time.Time) error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if !k.admitted && !k.closed {
		k.admitted = true
		k.all.open++
		k.all.most = max(k.all.most, k.all.open)
	}
	was := k.over
	k.held, k.over = 0, false
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0, left > shortDeadline && !t.After(k.passed):
		k.over, t = true, longAgo
	case left > shortDeadline:
		k.held, k.due, t = left.Round(time.Hour), t, time.Time{}
	}
	if was && !k.over {
		k.spared++
	}
	k.all.notifyLocked()
	if k.deaf {
		t = longAgo // no read may get to the bytes
	}
	return k.Conn.SetReadDeadline(t)
}

// SetWriteDeadline holds a long deadline, and sets any other.
func (k *socket) SetWriteDeadline(t time.Time) error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.writeFor = 0
	if left := time.Until(t); left > shortDeadline {
		k.writeFor, t = left.Round(time.Hour), time.Time{}
	}
	k.all.notifyLocked()
	return k.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both.
func (k *socket) SetDeadline(t time.Time) error {
	return errors.Join(k.SetReadDeadline(t), k.SetWriteDeadline(t))
}

// Read reads, unless the socket is deaf.
func (k *socket) Read(p []byte) (int, error) {
	for {
		if err := k.wait(func() bool { return !k.deaf || k.over }); err != nil {
			return 0, err
		}
		n, err := k.Conn.Read(p)
		k.all.mu.Lock()
		again := k.deaf && !k.over && errors.Is(err, os.ErrDeadlineExceeded)
		k.taken += n
		k.reading = false
		k.all.notifyLocked()
		k.all.mu.Unlock()
		if !again {
			return n, err
		}
	}
}

// wait notes a read, and waits until it may go on.
func (k *socket) wait(ready func() bool) error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.reading = true
	k.all.notifyLocked()
	for !k.closed && !ready() {
		if !k.parked {
			k.parked = true
			k.all.notifyLocked()
		}
		k.sleepLocked()
	}
	k.parked = false
	if k.closed {
		return net.ErrClosed
	}
	return nil
}

func (k *socket) sleepLocked() {
	changed := k.all.changed
	k.all.mu.Unlock()
	<-changed
	k.all.mu.Lock()
}

// Write writes, once the socket is not stalled.
func (k *socket) Write(p []byte) (int, error) {
	k.all.mu.Lock()
	k.writing = true
	k.all.notifyLocked()
	for k.stalled && !k.closed && !k.late {
		k.sleepLocked()
	}
	k.writing = false
	late := k.late
	k.all.notifyLocked()
	k.all.mu.Unlock()
	if late {
		return 0, os.ErrDeadlineExceeded
	}
	return k.Conn.Write(p)
}

// SyscallConn lets the daemon ask how much has arrived.
func (k *socket) SyscallConn() (syscall.RawConn, error) {
	return k.Conn.(syscall.Conn).SyscallConn()
}

// CloseWrite shuts the write side.
func (k *socket) CloseWrite() error {
	return k.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Close closes the connection.
func (k *socket) Close() error {
	err := k.Conn.Close()
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if !k.closed {
		k.closed = true
		if k.admitted {
			k.all.open--
		}
		k.all.notifyLocked()
	}
	return err
}

// expire lets the deadline pass that is held: of a write that waits, or of reads.
func (k *socket) expire() error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	defer k.all.notifyLocked()
	if k.stalled && k.writing {
		k.late = true
		return nil
	}
	if k.held == 0 {
		return errors.New("the daemon holds no deadline over the connection")
	}
	k.held, k.passed, k.over = 0, k.due, true
	return k.Conn.SetReadDeadline(longAgo)
}

// deafen keeps what arrives from being read, until hear. It has done so once a
// read is parked.
func (k *socket) deafen() error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.deaf = true
	k.all.notifyLocked()
	return k.Conn.SetReadDeadline(longAgo) // whoever reads already is sent round
}

// hear lets be read what has arrived.
func (k *socket) hear() error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.deaf = false
	k.all.notifyLocked()
	if k.over {
		return nil
	}
	return k.Conn.SetReadDeadline(time.Time{})
}

// stall keeps what is written, until flow.
func (k *socket) stall(on bool) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.stalled = on
	k.all.notifyLocked()
}
