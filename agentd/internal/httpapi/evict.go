package httpapi

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// phase is what a connection is doing, as far as making room is concerned.
type phase int

const (
	awaitingHeader phase = iota // for a first request, or for the next
	serving                     // its handler works: never evicted
	awaitingHook                // for the rest of a body that nobody was asked a credential for
	awaitingBody                // for the next bytes of an authorized request's body
	draining                    // answered; reads the rest of a refused body
	sending                     // an answer that needed no credential to a peer that may not read
	lingering                   // answered; waits for the peer to close
)

// errEvicted is what a read gets on a connection that made room.
var errEvicted = errors.New("httpapi: the connection made room for a newcomer")

// rank orders what makes room: what never proved to be anybody first, then what
// is idle between requests, then an owner's upload that stalls. It reports false
// for a connection that is not to be closed.
func (c *conn) rank() (rank int, ok bool) {
	switch {
	case c.phase == serving:
		return 0, false
	case c.phase == awaitingBody:
		return 2, true
	case c.phase == awaitingHeader && c.served:
		return 1, true
	}
	return 0, true
}

// makeRoomLocked asks the connection that has kept the daemon waiting longest,
// beyond the grace, to make room. When there is none, it returns how long it is
// until there may be one, 0 for not before something changes.
func (a *admission) makeRoomLocked(now time.Time) (due time.Duration) {
	if a.asked != nil {
		return 0 // it answers at once, whatever it answers
	}
	var oldest *conn
	for c := range a.conns {
		if _, ok := c.rank(); !ok {
			continue
		}
		// XPORT-30: younger than the grace: its request may be on its way.
		if left := a.limits.EvictionGrace - now.Sub(c.since); left > 0 {
			if due == 0 || left < due {
				due = left
			}
			continue
		}
		if oldest == nil || older(c, oldest) {
			oldest = c
		}
	}
	if oldest == nil {
		return due
	}
	// XPORT-5: the oldest, so that who came to hold slots loses them first.
	oldest.askLocked()
	return 0
}

// older orders connections for making room: by rank, by the begin of the wait,
// by arrival.
func older(x, y *conn) bool {
	rx, _ := x.rank()
	ry, _ := y.rank()
	if rx != ry {
		return rx < ry
	}
	if !x.since.Equal(y.since) {
		return x.since.Before(y.since)
	}
	return x.serial < y.serial
}

// askLocked asks the connection to make room. One that is read from is woken,
// and its reader decides: only there is it certain that nothing has arrived.
func (c *conn) askLocked() {
	if c.phase == sending || c.phase == lingering {
		c.concedeLocked()
		return
	}
	c.admission.asked, c.woken = c, true
	c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// spareLocked takes back the question whether a connection makes room.
func (a *admission) spareLocked() {
	if c := a.asked; c != nil {
		a.asked = nil
		c.Conn.SetReadDeadline(c.readBy)
	}
}

// answeredLocked takes the question back and lets the newcomer ask another:
// something arrived on c, or it went on by itself.
func (c *conn) answeredLocked() {
	if c.admission.asked == c {
		c.admission.spareLocked()
		c.admission.notifyLocked()
	}
}

// concedeLocked closes the connection and gives its slot away.
func (c *conn) concedeLocked() {
	c.evicted = true
	c.Conn.Close()
	c.releaseLocked()
	c.admission.debug("connection closed for a newcomer", "connections", c.admission.limits.MaxConnections)
}

// releaseLocked frees the slot, once.
func (c *conn) releaseLocked() {
	if c.released {
		return
	}
	c.released = true
	delete(c.admission.conns, c)
	if c.admission.asked == c {
		c.admission.asked = nil
	}
	c.admission.notifyLocked()
}

// readOn judges the end of one read of the socket. It reports true when the
// read is to be made again: it was woken by a question that is settled.
func (c *conn) readOn(n int, err error) (again bool, result error) {
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	switch {
	case n > 0:
		if c.phase == awaitingBody {
			c.since = c.admission.clock.Now() // an upload that moves is not stalled
		}
		c.answeredLocked()
	case c.evicted:
		return false, errEvicted
	case !errors.Is(err, os.ErrDeadlineExceeded):
	case !c.woken: // by nobody, so it is the read's own deadline
	default:
		return c.settleLocked()
	}
	return false, err
}

// settleLocked answers the question for which a read was woken.
func (c *conn) settleLocked() (again bool, err error) {
	c.woken = false
	switch {
	case c.admission.asked != c:
		return true, nil
	case unread(c.Conn) > 0:
		// XPORT-30: it arrived before the question was settled, so it is read.
		c.Conn.SetReadDeadline(c.readBy)
		return true, nil
	}
	// XPORT-5: closed, not answered: nothing of it is in force.
	c.concedeLocked()
	return false, errEvicted
}

// bodyEndedLocked ends a wait for bytes of a body: its end was read.
//
// net/http reads it in the handler's goroutine, and there lifts the read deadline
// before it begins to watch the connection, in another one, for the end of input.
// So this comes before that watch, whose read would settle a question as if the
// body did not come, and before the handler is told of the end.
func (c *conn) bodyEndedLocked() {
	switch c.phase {
	case awaitingHook, awaitingBody, draining:
		// XPORT-31: under one lock with the question: whichever comes first, holds.
		c.answeredLocked()
		c.phase = serving
	}
}

// enter begins a phase of a request under way, at whose end leave restores the
// former one. leave reports false when the connection made room meanwhile.
func (c *conn) enter(p phase) (leave func() bool) {
	if c == nil {
		return func() bool { return true }
	}
	a := c.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	c.answeredLocked()
	formerly, since := c.phase, c.since
	c.phase, c.since = p, a.clock.Now()
	a.notifyLocked()
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		c.answeredLocked()
		c.phase, c.since = formerly, since
		return !c.evicted
	}
}

// unread returns how many bytes have arrived and were not read, 0 where that
// cannot be told.
func unread(nc any) (n int) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil {
			n = 0
		}
	})
	return n
}
