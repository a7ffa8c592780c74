package client

import (
	"context"
	"errors"
	"time"
)

// Clock is a session's only source of time: timeouts, poll intervals,
// reconnect delays. Methods must be safe for concurrent use.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of Clock.AfterFunc. [*time.Timer] is one.
type Timer interface {
	// Stop prevents the call; it reports whether it was still pending.
	Stop() bool
	// Reset makes the call happen d from now; it reports whether it was pending.
	Reset(d time.Duration) bool
}

type systemClock struct{}

func (systemClock) Now() time.Time                            { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// sleep waits for d or for the end of ctx, whose error it then returns.
func sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	woken := make(chan struct{})
	timer := clock.AfterFunc(d, func() { close(woken) })
	defer timer.Stop()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errDeadline is the cause of a context that withTimeout ended. It tells the
// session's own deadline from the caller's.
var errDeadline = errors.New("the client's own deadline passed")

// withTimeout is context.WithTimeoutCause on the injected clock.
func withTimeout(ctx context.Context, clock Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := clock.AfterFunc(d, func() { cancel(errDeadline) })
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
