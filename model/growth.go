package model

import (
	"sync"
	"sync/atomic"
)

// growthGate stops all workers of a level so that one of them can grow the table.
type growthGate struct {
	mu       sync.Mutex
	again    *sync.Cond
	active   int // workers in the level
	waiting  int // of them, those that stand at the gate
	round    int
	wanted   atomic.Bool
	reserved atomic.Uint64 // slots that are filled or promised

	tableBytes atomic.Uint64
}

func (g *growthGate) init() { g.again = sync.NewCond(&g.mu) }

func (g *growthGate) enter(workers int) { g.active = workers }

// makeRoom promises w at least need slots, growing the table when it must. It
// returns false when the run must stop.
func (s *search[S]) makeRoom(w *worker[S], need uint64) bool {
	if !s.shared {
		used := s.distinct()
		if s.table.limit < used+need && !s.grow(used+need) {
			return false
		}
		w.room = s.table.limit - used
		return true
	}
	g := &s.gate
	for s.stop.Load() == 0 {
		if !g.wanted.Load() {
			if w.room >= need {
				return true
			}
			quota := max(need, min(4096, uint64(len(s.table.slots))/64))
			if g.reserved.Add(quota) <= s.table.limit {
				w.room += quota
				return true
			}
			g.reserved.Add(-quota)
		}
		s.wait(need)
	}
	return false
}

// wait stands at the gate until the table has grown. The last to arrive grows it.
func (s *search[S]) wait(need uint64) {
	g := &s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted.Store(true)
	g.waiting++
	if g.waiting == g.active {
		s.growLocked(need)
		return
	}
	for round := g.round; round == g.round; {
		g.again.Wait()
	}
}

// leave tells that a worker has finished the level: the others must not wait
// for it.
func (s *search[S]) leave() {
	g := &s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	if g.waiting > 0 && g.waiting == g.active {
		s.growLocked(1)
	}
}

func (s *search[S]) growLocked(need uint64) {
	g := &s.gate
	used := s.distinct()
	s.grow(used + max(need, 4096)*uint64(len(s.workers)))
	for _, w := range s.workers {
		w.room = 0
	}
	g.reserved.Store(used)
	g.wanted.Store(false)
	g.waiting = 0
	g.round++
	g.again.Broadcast()
}

// grow makes the table hold at least entries. Small tables grow eightfold, since
// copying them is cheap.
func (s *search[S]) grow(entries uint64) bool {
	old := s.table
	more := uint(1)
	if len(old.slots) < 1<<14 {
		more = 3
	}
	for old.limit<<more < entries {
		more++
	}
	after := old.bytes() << more
	if max := s.o.MaxBytes; max > 0 && s.bytes()+after > max && len(old.slots) >= 1<<14 {
		s.stop.CompareAndSwap(0, int32(stopMemory))
		return false
	}
	s.meter.peakAt(s.bytes() + after)
	old.used = entries
	t := old.grown(more, len(s.workers))
	if t == nil {
		s.stop.CompareAndSwap(0, int32(stopMemory))
		return false
	}
	if s.shared && s.graph != nil {
		for i := range s.parts {
			s.parts[i].move(old, t)
		}
	}
	s.table = t
	s.gate.tableBytes.Store(t.bytes())
	old.free()
	return true
}
