package replay

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Sockets is a listener whose connections keep real bytes and ends, but whose
// long read deadlines stand still until their owner lets one pass. So a deadline
// is a step like any other, and nothing waits for time. All methods are safe for
// concurrent use.
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
	held     time.Duration // the deadline that stands still, in whole hours; 0 for none
	due      time.Time     // its moment
	passed   time.Time     // the moment of the last one that was let pass: what is due before it has passed, too
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
	k.held = 0
	switch left := time.Until(t); {
	case t.IsZero() || left <= shortDeadline:
	case t.After(k.passed):
		k.held, k.due, t = left.Round(time.Hour), t, time.Time{}
	default:
		t = longAgo
	}
	k.all.notifyLocked()
	return k.Conn.SetReadDeadline(t)
}

// SetDeadline sets both.
func (k *socket) SetDeadline(t time.Time) error {
	return errors.Join(k.SetReadDeadline(t), k.Conn.SetWriteDeadline(t))
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

// expire lets the deadline pass that is held.
func (k *socket) expire() error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.held == 0 {
		return errors.New("the daemon holds no deadline over the connection")
	}
	k.held, k.passed = 0, k.due
	return k.Conn.SetReadDeadline(longAgo)
}
