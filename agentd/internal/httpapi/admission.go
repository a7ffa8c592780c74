package httpapi

import (
	"net"
	"sync"
	"time"

	"microvms/agentd/internal/limits"
)

// admission is the listener that admits at most MaxConnections at once.
//
//	accepted ──▶ waiting for a header ──▶ serving ──▶ waiting for a header ─▶ …
//	                  │ header deadline,     │ cut, refused, done
//	                  │ evicted              │
//	                  └──────▶ closed ◀──────┘
//
// At the cap, the connection that has waited longest for its header is closed
// for the newcomer; while all are serving, the newcomer waits. So slow senders
// of headers cannot keep good requests out, and no request under way is cut.
type admission struct {
	net.Listener
	limits  limits.Limits
	version string
	debug   func(msg string, args ...any)

	mu      sync.Mutex
	conns   map[*conn]struct{}
	stopped bool
	serial  uint64
	changed chan struct{} // made by a newcomer that waits, closed when a slot or a victim may be there
	closed  chan struct{}
	once    sync.Once
}

func newAdmission(l net.Listener, lim limits.Limits, version string, debug func(string, ...any)) *admission {
	return &admission{
		Listener: l, limits: lim, version: version, debug: debug,
		conns: map[*conn]struct{}{}, closed: make(chan struct{}),
	}
}

// Accept returns the next admitted connection.
func (a *admission) Accept() (net.Conn, error) {
	nc, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, admission: a}
	for {
		a.mu.Lock()
		if a.stopped {
			a.mu.Unlock()
			nc.Close()
			return nil, net.ErrClosed
		}
		// XPORT-4: counted under one lock, streams for their whole life.
		if len(a.conns) < a.limits.MaxConnections {
			a.serial++
			c.serial = a.serial
			a.conns[c] = struct{}{}
			c.waitHeaderLocked(time.Now())
			a.mu.Unlock()
			return c, nil
		}
		victim := a.oldestWaitingLocked()
		changed := make(chan struct{})
		if victim == nil {
			a.changed = changed
		} else {
			victim.evicted = true
			delete(a.conns, victim)
		}
		a.mu.Unlock()
		if victim != nil {
			// XPORT-5: closed, not answered: it has not asked anything yet.
			victim.Conn.Close()
			a.debug("connection closed for a newcomer", "connections", a.limits.MaxConnections)
			continue
		}
		select {
		case <-changed:
		case <-a.closed:
			nc.Close()
			return nil, net.ErrClosed
		}
	}
}

// oldestWaitingLocked picks the connection to close for a newcomer: the one
// without a complete header that has waited longest, those that never sent a
// request before those that are idle between requests.
func (a *admission) oldestWaitingLocked() *conn {
	var oldest *conn
	older := func(x, y *conn) bool {
		if x.served != y.served {
			return y.served
		}
		if !x.since.Equal(y.since) {
			return x.since.Before(y.since)
		}
		return x.serial < y.serial
	}
	for c := range a.conns {
		if !c.serving && (oldest == nil || older(c, oldest)) {
			oldest = c
		}
	}
	return oldest
}

// notifyLocked wakes a newcomer that waits for a slot or a victim.
func (a *admission) notifyLocked() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// Close stops accepting and closes the connections that wait for a header:
// nothing was asked on them.
func (a *admission) Close() error {
	err := a.Listener.Close()
	a.once.Do(func() { close(a.closed) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for c := range a.conns {
		if !c.serving {
			c.evicted = true
			c.Conn.Close()
		}
	}
	return err
}
