package client_test

import (
	"sync"
	"testing"
	"time"

	"microvms/client"
	"microvms/client/microvmtest"
)

// stepClock is a clock that only the test moves.
type stepClock struct {
	asked chan time.Duration // each duration that something waits for

	mu     sync.Mutex
	now    time.Time
	timers []*stepTimer
}

type stepTimer struct {
	clock   *stepClock
	at      time.Time
	f       func()
	pending bool
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) AfterFunc(d time.Duration, f func()) client.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &stepTimer{clock: c, at: c.now.Add(d), f: f, pending: true}
	c.timers = append(c.timers, t)
	c.asked <- d
	return t
}

func (t *stepTimer) Stop() bool { return t.set(false, 0) }

func (t *stepTimer) Reset(d time.Duration) bool { return t.set(true, d) }

func (t *stepTimer) set(pending bool, d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.pending
	t.pending, t.at = pending, t.clock.now.Add(d)
	return was
}

// advance moves the clock and fires what is due.
func (c *stepClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		if t.pending && !t.at.After(c.now) {
			t.pending = false
			go t.f()
		}
	}
}

// The session's time is the injected clock's alone: reconnects and the idle
// timeout happen when that clock says so, whatever the wall clock does.
func TestInjectedClock(t *testing.T) {
	t.Attr("requirement", "CLIENT-22")
	clock := &stepClock{asked: make(chan time.Duration, 100), now: time.Unix(0, 0)}
	script := &script{bodies: []string{out(0, "a"), "500", out(1, "b") + "silent", exit(2)}}
	srv := microvmtest.New()
	srv.Intercept = script.serve
	s := srv.Session(t, client.WithClock(clock))
	var got []string
	done, received := make(chan error), make(chan string, 2)
	go func() {
		var last error
		for ev, err := range s.Stream(t.Context(), "x", client.StreamOptions{}).All() {
			if o, ok := ev.(*client.Output); ok {
				got = append(got, string(o.Data))
				received <- string(o.Data)
			}
			last = err
		}
		done <- last
	}()
	for _, step := range []time.Duration{60 * time.Second, 250 * time.Millisecond, 60 * time.Second, 500 * time.Millisecond, 60 * time.Second} {
		if asked := <-clock.asked; asked != step {
			t.Fatalf("waits for %s, want %s", asked, step)
		}
		if step != 60*time.Second {
			clock.advance(step)
		}
	}
	for range 2 {
		<-received
	}
	// The third stream is silent after its output: only its idle timeout, which
	// may be set anew at any moment, ends it.
	for reconnecting := false; !reconnecting; {
		select {
		case asked := <-clock.asked:
			if reconnecting = true; asked != time.Second {
				t.Fatalf("waits for %s, want 1s", asked)
			}
		default:
			clock.advance(time.Minute)
		}
	}
	clock.advance(time.Second)
	if err := <-done; err != nil || len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("received %q, error %v", got, err)
	}
}
