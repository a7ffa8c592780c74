package model

import (
	"sync"
	"sync/atomic"
)

// settle puts the states that several workers found in the order of a
// sequential search. A state stands on the list of each chunk that lowered its
// parent; it stays only on the one whose parent is in the table now, which is
// the lowest. Lists of chunks are in order, and so are the chunks.
func (s *search[S]) settle() {
	s.each(len(s.outs), func(i int) {
		// CHECK-2: the lowest parent stays, whichever worker found the state.
		for k := range s.outs[i].segs {
			s.filter(&s.outs[i].segs[k])
		}
	})
	if s.graph != nil {
		s.number()
		s.each(len(s.parts), func(i int) { s.parts[i].resolve(s.table) })
		for i := range s.parts {
			s.graph.take(&s.parts[i])
			s.graph.give(s.parts[i])
		}
	}
	s.take(s.outs)
}

// each calls f(0) … f(n-1) on all workers' goroutines. The functions call no
// function of the model but Fingerprint.
func (s *search[S]) each(n int, f func(i int)) {
	var claims atomic.Int64
	var wg sync.WaitGroup
	for _, w := range s.workers {
		wg.Go(func() {
			w.doing = inFingerprint
			w.guard(func() {
				for k := int(claims.Add(1)) - 1; k < n; k = int(claims.Add(1)) - 1 {
					f(k)
				}
			})
		})
	}
	wg.Wait()
}

const filterBatch = 64

// filter keeps the states of g whose parent won.
func (s *search[S]) filter(g *segment[S]) {
	t := s.table
	states, parents := g.states(), g.parents()
	kept := 0
	var fps [filterBatch]uint64
	var refs [filterBatch]uint64
	for len(states) > 0 {
		n := min(len(states), filterBatch)
		for i := range n {
			fps[i] = s.fingerprint(&states[i])
		}
		for i := range n {
			e := &t.slots[fps[i]>>(t.shift&63)]
			if refs[i] = e.ref; e.fp != fps[i] {
				refs[i] = 0
			}
		}
		for i := range n {
			ref := refs[i]
			if ref == 0 {
				k, _ := t.find(fps[i])
				ref = t.slots[k].ref
			}
			if uint32(ref) == parents[i] {
				g.slab.states[g.from+kept], g.slab.parents[g.from+kept] = states[i], parents[i]
				kept++
			}
		}
		states, parents = states[n:], parents[n:]
	}
	g.n = kept
}

// number writes the numbers of the new states into their slots.
func (s *search[S]) number() {
	firsts := make([]uint32, len(s.outs))
	n := s.next
	for i := range s.outs {
		firsts[i] = n
		n += uint32(levelSize(s.outs[i].segs))
	}
	s.each(len(s.outs), func(i int) {
		n := firsts[i]
		for _, g := range s.outs[i].segs {
			states := g.states()
			for k := range states {
				j, _ := s.table.find(s.fingerprint(&states[k]))
				s.table.slots[j].ref |= uint64(n+1) << 32
				n++
			}
		}
	})
}
