package model

import (
	"sync"
	"sync/atomic"
)

// slot is one entry of the visited table. fp is 0 when it is empty. ref tells
// the state's parent in its low half: 1 for an initial state, else the parent's
// number + 2, and 0 while the inserting worker has not written yet. In runs that
// keep a graph the high half is the state's own number + 1, once its level is
// settled.
//
// The parent of lowest number wins (a compare-and-swap minimum), so that it is a
// function of the model alone (checker facts, section 3.3). An older state is
// never changed: its parent has a lower number than any state of this level.
type slot struct{ fp, ref uint64 }

const (
	refInitial = 1
	refOffset  = 2
	maxNumber  = 1<<32 - 4 // states that the low half can name
)

// table is an open-addressing hash table with linear probing; the index is the
// top bits of the fingerprint. It never deletes.
type table struct {
	slots []slot
	shift uint
	mask  uint64
	used  uint64 // entries, exact between levels
	limit uint64 // entries at which it must grow
	freed func()
}

const firstTableBits = 8

// newTable returns an empty table, or nil when there is no memory for it.
func newTable(logSlots uint) *table {
	t := &table{shift: 64 - logSlots, mask: 1<<logSlots - 1}
	t.limit = (t.mask + 1) / 4 * 3
	if t.slots, t.freed = mapSlots(1 << logSlots); t.slots == nil {
		return nil
	}
	return t
}

func (t *table) bytes() uint64 { return uint64(len(t.slots)) * 16 }

func (t *table) free() {
	if t.freed != nil {
		t.freed()
		t.slots, t.freed = nil, nil
	}
}

// find returns the index of fp's slot and whether it is there.
func (t *table) find(fp uint64) (uint64, bool) {
	for i := fp >> t.shift; ; i = (i + 1) & t.mask {
		switch t.slots[i].fp {
		case fp:
			return i, true
		case 0:
			return i, false
		}
	}
}

// insertAlone adds fp while no other worker runs.
func (t *table) insertAlone(fp, ref uint64) (i uint64, added bool) {
	for i = fp >> t.shift; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		if s.fp == fp {
			return i, false
		}
		if s.fp == 0 {
			*s = slot{fp, ref}
			return i, true
		}
	}
}

// insert adds fp or lowers its parent. claimed tells that ref now stands in the
// slot, so that the caller must put the state on its list; added that the slot
// was empty.
func (t *table) insert(fp, ref uint64) (i uint64, claimed, added bool) {
	for i = fp >> t.shift; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		v := atomic.LoadUint64(&s.fp)
		if v == 0 {
			if atomic.CompareAndSwapUint64(&s.fp, 0, fp) {
				return i, s.lower(ref), true
			}
			v = atomic.LoadUint64(&s.fp)
		}
		if v == fp {
			return i, s.lower(ref), false
		}
	}
}

// lower keeps the smaller parent, unless the state is of an earlier level.
func (s *slot) lower(ref uint64) bool {
	for {
		old := atomic.LoadUint64(&s.ref)
		if old != 0 && (old>>32 != 0 || old <= ref) {
			return false
		}
		if atomic.CompareAndSwapUint64(&s.ref, old, ref) {
			return true
		}
	}
}

// grown returns a table of 2^more times the slots with t's entries, copied by
// as many goroutines as workers says, or nil without memory. t stays as it is.
func (t *table) grown(more uint, workers int) *table {
	n := newTable(64 - t.shift + more)
	if n == nil {
		return nil
	}
	n.used = t.used
	if workers <= 1 || len(t.slots) < 1<<16 {
		n.copyFrom(t.slots, false)
		return n
	}
	var wg sync.WaitGroup
	part := len(t.slots) / workers
	for w := range workers {
		from, to := w*part, (w+1)*part
		if w == workers-1 {
			to = len(t.slots)
		}
		wg.Go(func() { n.copyFrom(t.slots[from:to], true) })
	}
	wg.Wait()
	return n
}

func (t *table) copyFrom(from []slot, shared bool) {
	for k := range from {
		e := from[k]
		if e.fp == 0 {
			continue
		}
		for i := e.fp >> t.shift; ; i = (i + 1) & t.mask {
			s := &t.slots[i]
			if !shared {
				if s.fp == 0 {
					*s = e
					break
				}
			} else if atomic.LoadUint64(&s.fp) == 0 && atomic.CompareAndSwapUint64(&s.fp, 0, e.fp) {
				s.ref = e.ref
				break
			}
		}
	}
}

// loadShared reads the home slots of fps while other workers insert.
func loadShared(t *table, fps, home []uint64) {
	for i, fp := range fps {
		home[i] = atomic.LoadUint64(&t.slots[fp>>(t.shift&63)].fp)
	}
}
