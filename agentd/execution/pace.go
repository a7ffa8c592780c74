package execution

import (
	"time"
)

// Pace lets the publisher of output wait, within bounds, for a reader that the
// ring is about to outrun. The wait is paid from the reader's credit: a reader
// has Patience of it when it attaches, and earns a second for BytesPerSecond
// bytes that it takes, up to Patience. So a reader that takes nothing costs
// the command Patience once in its life, a quick one loses no byte however
// quick the child is, and the slowest that is waited for slows the command to
// BytesPerSecond; who is slower loses bytes, as without a pace.
//
// Only the first pacedReaders readers of a command get credit for attaching,
// so readers that come and go cannot hold it up for ever.
type Pace struct {
	BytesPerSecond int
	Patience       time.Duration
}

// DefaultPace is a pace that local readers keep up with and that no remote one
// can use to hold a command up.
func DefaultPace() *Pace { return &Pace{BytesPerSecond: 64 << 20, Patience: 100 * time.Millisecond} }

const pacedReaders = 16

// attachLocked gives a new reader its credit.
func (e *Exec) attachLocked(r *Reader) {
	p := e.reg.cfg.Pace
	if p == nil {
		return
	}
	if r.serial <= pacedReaders {
		r.credit = p.Patience
	}
	e.attached = append(e.attached, r)
}

// earnLocked credits a reader for n bytes taken, and lets a publisher that
// waits look again.
func (r *Reader) earnLocked(n int) {
	p := r.e.reg.cfg.Pace
	if p == nil {
		return
	}
	earned := time.Duration(float64(n) / float64(p.BytesPerSecond) * float64(time.Second))
	r.credit = min(p.Patience, r.credit+earned)
	r.e.progressLocked()
}

func (e *Exec) progressLocked() {
	if e.progress != nil {
		close(e.progress)
		e.progress = nil
	}
}

// pace waits until n more bytes outrun no reader that has credit.
func (e *Exec) pace(n int) {
	if e.reg.cfg.Pace == nil {
		return
	}
	var slow []*Reader
	for {
		e.mu.Lock()
		var credit time.Duration
		slow, credit = e.slowLocked(slow[:0], n)
		if credit <= 0 {
			e.mu.Unlock()
			return
		}
		if e.progress == nil {
			e.progress = make(chan struct{})
		}
		progress := e.progress
		e.mu.Unlock()
		spent, closed := e.waitProgress(progress, credit)
		if closed {
			return
		}
		e.mu.Lock()
		for _, r := range slow {
			r.credit = max(0, r.credit-spent)
		}
		e.mu.Unlock()
	}
}

// slowLocked lists the readers with credit that n more bytes would outrun, and
// the largest credit of them. Who was outrun already is not waited for.
func (e *Exec) slowLocked(slow []*Reader, n int) ([]*Reader, time.Duration) {
	var credit time.Duration
	ring := &e.store.ring
	if e.phase != PhaseRunning {
		return slow, 0
	}
	after := ring.total + uint64(n)
	for _, r := range e.attached {
		outrun := r.cursor >= ring.start() && r.cursor < after && after-r.cursor > uint64(ring.limit)
		if outrun && r.credit > 0 {
			slow = append(slow, r)
			credit = max(credit, r.credit)
		}
	}
	return slow, credit
}

// waitProgress waits until a reader took something, the credit is used up or
// the registry closes, and says what was spent.
func (e *Exec) waitProgress(progress chan struct{}, credit time.Duration) (spent time.Duration, closed bool) {
	clock := e.reg.cfg.Clock
	from := clock.Now()
	expired := make(chan struct{})
	timer := clock.AfterFunc(credit, func() { close(expired) })
	defer timer.Stop()
	select {
	case <-progress:
		return clock.Now().Sub(from), false
	case <-expired:
		return credit, false
	case <-e.reg.base.Done():
		return 0, true
	}
}
