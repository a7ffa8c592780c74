package model

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// meter holds the figures that progress lines show. Workers add to it once a
// chunk, so that it costs nothing.
type meter struct {
	states, distinct atomic.Uint64
	queue, depth     atomic.Int64
	memory, peak     atomic.Uint64
}

// add tells that a chunk of n states was expanded.
func (m *meter) add(states, distinct uint64, n int) {
	m.states.Add(states)
	m.distinct.Add(distinct)
	m.queue.Add(int64(distinct) - int64(n))
}

// level tells that a level is done and how many states the next one has.
func (m *meter) level(depth, queue int, bytes uint64) {
	m.depth.Store(int64(depth))
	m.queue.Store(int64(queue))
	m.memory.Store(bytes)
	m.peakAt(bytes)
}

// peakAt raises the peak.
func (m *meter) peakAt(bytes uint64) {
	for {
		old := m.peak.Load()
		if bytes <= old || m.peak.CompareAndSwap(old, bytes) {
			return
		}
	}
}

// watch writes a line a second to w until the returned function is called.
func (m *meter) watch(w io.Writer, name string) (stop func()) {
	if w == nil {
		return func() {}
	}
	start := time.Now()
	tick := time.NewTicker(time.Second)
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		defer tick.Stop()
		var before uint64
		at := start
		for {
			select {
			case <-end:
				return
			// CHECK-24: by a goroutine of its own, so that a long level is no silence.
			case now := <-tick.C:
				before = m.line(w, name, now.Sub(start), now.Sub(at), before)
				at = now
			}
		}
	})
	return func() {
		close(end)
		done.Wait()
	}
}

// line writes one line; before is the number of states at the last one, since
// ago. It returns the number of states.
func (m *meter) line(w io.Writer, name string, elapsed, since time.Duration, before uint64) uint64 {
	states := m.states.Load()
	rate := float64(states-before) / since.Seconds()
	fmt.Fprintf(w, "%s: %4.0fs  states %s  distinct %s  depth %d  queue %s  %s states/s  memory %s\n", name, elapsed.Seconds(),
		group(states), group(m.distinct.Load()), m.depth.Load(), group(uint64(max(m.queue.Load(), 0))), group(uint64(rate)), byteCount(m.memory.Load()))
	return states
}

// Summary is the last line of a run: "states=… distinct=… depth=… seconds=…".
func (r *Report) Summary() string {
	return fmt.Sprintf("states=%d distinct=%d depth=%d seconds=%.3f", r.States, r.Distinct, r.Depth, r.Timing.Seconds)
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// group renders n with thousands apart: 1,234,567.
func group(n uint64) string {
	s := itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// byteCount renders bytes in the largest binary unit that keeps three digits.
func byteCount(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return itoa(n) + " B"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + units[i]
}
