package replay

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTimersFireInAnyOrder fires the later of two timers first, and checks that
// the time never runs backwards and that a stopped timer never fires.
func TestTimersFireInAnyOrder(t *testing.T) {
	c := NewTimers(epoch)
	fired := make(chan string, 4)
	c.AfterFunc(2*time.Second, func() { fired <- "short" })
	c.AfterFunc(5*time.Second, func() { fired <- "long" })
	stopped := c.AfterFunc(3*time.Second, func() { fired <- "stopped" })
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop does not report whether the timer was pending")
	}
	for _, step := range []struct {
		span time.Duration
		name string
		now  time.Duration
	}{{5 * time.Second, "long", 5 * time.Second}, {2 * time.Second, "short", 5 * time.Second}} {
		if err := c.Fire(t.Context(), step.span); err != nil {
			t.Fatal(err)
		}
		if got := <-fired; got != step.name || !c.Now().Equal(epoch.Add(step.now)) {
			t.Errorf("fired %s at %v, want %s at %v", got, c.Now().Sub(epoch), step.name, step.now)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Fire(ctx, 3*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("a timer that is not set was fired: %v", err)
	}
	c.AfterFunc(0, func() { fired <- "due" })
	if got := <-fired; got != "due" {
		t.Errorf("fired %s", got)
	}
}

// TestTimersKnowEachOther finds timers of one span by the order of their
// creation, and keeps firing those of another.
func TestTimersKnowEachOther(t *testing.T) {
	c := NewTimers(epoch)
	fired := make(chan int, 2)
	for n := range 2 {
		c.AfterFunc(time.Second, func() { fired <- n })
	}
	first, err := c.Next(t.Context(), time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Next(t.Context(), time.Second, first)
	if err != nil || second != c.Last() {
		t.Fatalf("second timer %d, last %d: %v", second, c.Last(), err)
	}
	if err := c.FireSerial(t.Context(), second); err != nil || <-fired != 1 {
		t.Errorf("the second timer did not fire: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	again := 0
	var tick func()
	tick = func() {
		if again++; again == 3 {
			stop()
			return
		}
		c.AfterFunc(time.Minute, tick)
	}
	c.AfterFunc(time.Minute, tick)
	go func() { c.Keep(ctx, time.Minute); close(kept) }()
	<-kept
	if again != 3 {
		t.Errorf("kept firing %d times, want 3", again)
	}
}

// TestTimersAreCounted waits for a set of timers by their spans, and tells what
// is set instead.
func TestTimersAreCounted(t *testing.T) {
	c := NewTimers(epoch)
	go c.AfterFunc(time.Second, func() {})
	c.AfterFunc(time.Hour, func() {})
	if err := c.Counts(t.Context(), map[time.Duration]int{time.Second: 1, time.Minute: 0}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, want := range []map[time.Duration]int{{time.Second: 0}, {time.Minute: 1}, {time.Hour: 2}} {
		if err := c.Counts(ctx, want); !errors.Is(err, context.Canceled) {
			t.Errorf("counted %v: %v", want, err)
		}
	}
}
