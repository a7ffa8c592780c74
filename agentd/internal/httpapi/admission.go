package httpapi

import (
	"net"
	"sync"
	"time"

	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
)

// admission is the listener that admits at most MaxConnections at once.
//
//	accepted ──▶ awaiting a header ──▶ serving ◀──▶ awaiting a body, draining, sending
//	                  ▲  │                │
//	                  └──│────────────────┤ answered
//	                     ▼                ▼
//	                   closed ◀─────── lingering
//
// At the cap a newcomer waits for a slot. Connections that have kept the daemon
// waiting for longer than the grace make room for it, the oldest first; see
// evict.go. So peers that are slow on purpose cannot keep good requests out, no
// request under way is cut, and none that has arrived is lost.
type admission struct {
	net.Listener
	limits   limits.Limits
	version  string
	clock    trace.Clock    // of the grace; deadlines of sockets follow the system's
	recorder trace.Recorder // nil: none
	debug    func(msg string, args ...any)

	mu      sync.Mutex
	conns   map[*conn]struct{}
	stopped bool
	serial  uint64
	waiting bool          // a newcomer waits for a slot
	changed chan struct{} // made by a newcomer that waits, closed when a slot or a victim may be there
	asked   *conn         // asked to make room and has not answered yet
	closed  chan struct{}
	once    sync.Once
}

func newAdmission(l net.Listener, lim limits.Limits, version string, clock trace.Clock, debug func(string, ...any)) *admission {
	return &admission{
		Listener: l, limits: lim, version: version, clock: clock, debug: debug,
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
			a.waiting, a.changed = false, nil
			a.spareLocked()
			c.waitHeaderLocked()
			a.mu.Unlock()
			return c, nil
		}
		changed := make(chan struct{})
		a.changed = changed
		ripe, stop := a.lookLocked()
		if !a.waiting {
			a.waiting = true
			if a.recorder != nil {
				a.recorder.Record(trace.Event{Point: trace.Point{Action: trace.ConnWait}})
			}
		}
		a.mu.Unlock()
		on := a.await(changed, ripe)
		stop()
		if !on {
			nc.Close()
			return nil, net.ErrClosed
		}
	}
}

// alarmSlack is how late an alarm may ring.
const alarmSlack = time.Millisecond

// lookLocked asks a connection to make room. When there is none beyond the grace,
// ripe is closed once there may be one, and stop ends the wait for that.
func (a *admission) lookLocked() (ripe <-chan struct{}, stop func()) {
	for {
		now := a.clock.Now()
		due := a.makeRoomLocked(now)
		if due <= 0 {
			return nil, func() {}
		}
		rung := make(chan struct{})
		timer := a.clock.AfterFunc(due, func() { close(rung) })
		// XPORT-31: the clock may have moved since it was read, when the machine stood
		// still or a test moves it, and the alarm would ring as much later.
		if a.clock.Now().Sub(now) < alarmSlack {
			return rung, func() { timer.Stop() }
		}
		timer.Stop()
	}
}

// await waits until something changed or a connection is ripe. It reports false
// when the listener is closed.
func (a *admission) await(changed, ripe <-chan struct{}) bool {
	select {
	case <-changed:
	case <-ripe:
	case <-a.closed:
		return false
	}
	return true
}

// contended reports whether a newcomer waits for a slot.
func (a *admission) contended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
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
		if c.phase == awaitingHeader {
			c.evicted = true
			c.Conn.Close()
		}
	}
	return err
}
