package socket

import (
	"sync"

	"microvms/agentd/manager/internal/runs"
)

// The bounds of the two writer queues, in messages (manager facts, section 2.2).
const (
	controlBound  = 256
	artifactBound = 8
)

// item is one message that waits to be written. Most are encoded when they are
// made; what tells of a run when its turn comes, because it is queued under the
// run table's lock and may carry a result of any size.
type item struct {
	frame   []byte
	event   *runs.Event // nil: frame is the message
	request uint64      // id of the request that asked for the event; 0: it is sent by itself
	asked   uint64      // serial number of that request on its connection
}

// queue holds what one connection's writer has to write: the newest unanswered
// ping first, then control messages in order, then artifact pages in order.
//
// The bounds throttle whoever asks, and never the run table: a request waits for
// room before it is read, and what it then adds is added without waiting. Events
// come on top; their number is bounded by the subscriptions that the requests made.
type queue struct {
	mu       sync.Mutex
	changed  sync.Cond
	control  []item
	artifact []item
	pong     []byte // payload of the newest ping, nil: none
	draining bool   // the writer ends with a close frame once all is written
	ended    bool   // nothing is written any more
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

// add queues a control message. It never blocks; after the end it does nothing.
func (q *queue) add(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		// SOCKET-17: appended whatever the length, because an event that waited
		// here would hold the run table, and one that was dropped would be an ending lost.
		q.control = append(q.control, i)
		q.changed.Broadcast()
	}
}

// addArtifact queues a page behind all control messages.
func (q *queue) addArtifact(frame []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.artifact = append(q.artifact, item{frame: frame})
		q.changed.Broadcast()
	}
}

// answerPing queues a pong. A ping that comes before the pong is written takes
// its place (RFC 6455, section 5.5.3), so pings cannot pile up.
func (q *queue) answerPing(payload []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pong = append(make([]byte, 0, len(payload)+2), payload...)
	q.changed.Broadcast()
}

// waitControl blocks until a control message has room. It reports false once
// the connection has ended or drains.
func (q *queue) waitControl() bool {
	return q.wait(func() bool { return len(q.control) < controlBound })
}

// waitArtifact blocks until a page has room. It reports false once the
// connection has ended or drains.
func (q *queue) waitArtifact() bool {
	return q.wait(func() bool { return len(q.artifact) < artifactBound })
}

func (q *queue) wait(room func() bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !room() && !q.ended && !q.draining {
		q.changed.Wait()
	}
	return !q.ended && !q.draining
}

// what says what next returned.
type what uint8

const (
	nothing what = iota // the connection has ended
	aPong
	aMessage
	aClose // all is written: the close frame is due
)

// next blocks until there is something to write. before is called without the
// lock ahead of the removal of what tells of a run, taken under the lock after it.
func (q *queue) next(before func(item) bool, taken func(item)) (what, item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.ended:
			return nothing, item{}
		case q.pong != nil:
			// SOCKET-20: ahead of all that waits, because a probe asks about the
			// connection and not about its queue.
			i := item{frame: q.pong}
			q.pong = nil
			return aPong, i
		case len(q.control) > 0 && q.control[0].event != nil:
			i, ok := q.nextEventLocked(before, taken)
			if !ok {
				return nothing, item{}
			}
			return aMessage, i
		case len(q.control) > 0:
			// SOCKET-14: control before artifacts at every choice, so that an ending
			// waits for one page at most.
			return aMessage, q.takeLocked(&q.control)
		case len(q.artifact) > 0:
			return aMessage, q.takeLocked(&q.artifact)
		case q.draining:
			return aClose, item{}
		default:
			q.changed.Wait()
		}
	}
}

// nextEventLocked removes the event at the head of the control queue, with the
// gate before and the recorder after. It reports false when the connection ended
// at the gate.
func (q *queue) nextEventLocked(before func(item) bool, taken func(item)) (item, bool) {
	i := q.control[0]
	q.mu.Unlock()
	ok := before(i)
	q.mu.Lock()
	if !ok || q.ended {
		return item{}, false
	}
	q.takeLocked(&q.control)
	taken(i)
	return i, true
}

func (q *queue) takeLocked(from *[]item) item {
	i := (*from)[0]
	(*from)[0] = item{}
	*from = (*from)[1:]
	if len(*from) == 0 {
		*from = nil // the array held what was written
	}
	q.changed.Broadcast()
	return i
}

// drain asks the writer to write what is queued, and then a close frame.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining = true
	q.changed.Broadcast()
}

// end drops what is queued and wakes everybody who waits. The first call, and
// no other, calls then, under the lock.
func (q *queue) end(then func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended, q.control, q.artifact, q.pong = true, nil, nil, nil
		then()
		q.changed.Broadcast()
	}
}

// lengths returns how much waits.
func (q *queue) lengths() (control, artifact int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.control), len(q.artifact)
}

// over reports whether the connection has ended.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// stopped reports whether the connection has ended or drains.
func (q *queue) stopped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended || q.draining
}
