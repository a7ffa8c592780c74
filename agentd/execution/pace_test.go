package execution

import (
	"fmt"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// With a pace a reader that keeps reading loses nothing, however small the
// ring is beside what the child writes at full speed.
func TestPacedReaderLosesNothing(t *testing.T) {
	t.Attr("requirement", "OUT-21")
	pace := &Pace{BytesPerSecond: 1 << 10, Patience: time.Hour} // no scheduler is slow enough to spend it
	r := newRegistry(t, Config{Pace: pace, Capture: Capture{RingBytes: 64 << 10}})
	e := start(t, r, "x", withStdin("read go; head -c 4000000 /dev/zero"))
	first, second := e.Subscribe(0), e.Subscribe(0)
	done := make(chan collected, 2)
	for _, reader := range []*Reader{first, second} {
		go func() { done <- readAll(t, reader) }()
	}
	letGo(t, e)
	for range 2 {
		if got := <-done; got.gaps != 0 || len(got.text[Stdout]) != 4000000 {
			t.Errorf("a paced reader got %d bytes and lost %d", len(got.text[Stdout]), got.gaps)
		}
	}
}

func letGo(t *testing.T, e *Exec) {
	t.Helper()
	if _, err := e.WriteStdin(t.Context(), []byte("go\n"), false); err != nil {
		t.Fatal(err)
	}
}

// A reader that takes nothing holds the command up for its patience, once; then
// it is outrun like any other. A later reader beyond the first few gets none.
func TestPaceWaitsOnce(t *testing.T) {
	t.Attr("requirement", "OUT-17")
	clock, rec := newStepClock(), &recorder{}
	e := holding(t, Config{Clock: clock, Recorder: rec, Capture: Capture{RingBytes: 10}, Pace: &Pace{BytesPerSecond: 10, Patience: time.Second}})
	dead := e.Subscribe(0)
	defer dead.Close()
	e.publish(Stdout, []byte("0123456789")) // fits
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range 50 {
			e.publish(Stdout, fmt.Appendf(nil, "%04d", i))
		}
	}()
	clock.pending(t, time.Second)
	if n := rec.count(trace.OutputPublish); n != 1 {
		t.Errorf("%d publications while the reader has patience, want 1", n)
	}
	clock.Advance(time.Second)
	await(t, published, "the rest, which waits for nobody")
	if got := show(next(t, dead)); got != "gap[0,200)" {
		t.Errorf("the dead reader gets %s", got)
	}
	for range pacedReaders {
		e.Subscribe(210).Close()
	}
	late := e.Subscribe(210)
	defer late.Close()
	e.publish(Stdout, []byte("0123456789"))
	e.publish(Stdout, []byte("0123456789")) // would hang if it waited: the clock stands
	if got := show(next(t, late)); got != "gap[210,220)" {
		t.Errorf("the late reader gets %s", got)
	}
}

// A reader that leaves sets the publisher free at once.
func TestPaceEndsWithTheReader(t *testing.T) {
	clock := newStepClock()
	e := holding(t, Config{Clock: clock, Capture: Capture{RingBytes: 10}, Pace: &Pace{BytesPerSecond: 10, Patience: time.Second}})
	dead := e.Subscribe(0)
	published := make(chan struct{})
	go func() {
		defer close(published)
		e.publish(Stdout, []byte("0123456789"))
		e.publish(Stdout, []byte("0"))
	}()
	clock.pending(t, time.Second)
	dead.Close()
	await(t, published, "the publication")
}
