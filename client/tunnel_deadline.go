package client

import (
	"context"
	"os"
	"sync"
	"time"
)

// connDeadline is one deadline of a net.Conn as a context that ends when it
// passes. It is safe for concurrent use.
type connDeadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newConnDeadline() *connDeadline {
	d := &connDeadline{}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	return d
}

// set moves the deadline; zero means none. It also applies to what waits now.
func (d *connDeadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A timer that has fired may have its call still before it. That call ends the
	// context it was made for, which then must not be the new deadline's.
	fired := d.timer != nil && !d.timer.Stop()
	d.timer = nil
	if fired || d.ctx.Err() != nil {
		d.ctx, d.cancel = context.WithCancelCause(context.Background())
	}
	if at.IsZero() {
		return
	}
	cancel := d.cancel
	if wait := time.Until(at); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { cancel(os.ErrDeadlineExceeded) })
		return
	}
	cancel(os.ErrDeadlineExceeded)
}

// now returns the context of what begins now.
func (d *connDeadline) now() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// stop ends the deadline's timer.
func (d *connDeadline) stop() { d.set(time.Time{}) }
