package model

import (
	"sync"
	"sync/atomic"
)

// slab holds states of one level and the refs of their parents. Segments of
// several chunks may share a slab; it goes back to its pool when the last of
// them has been expanded, so that two levels together need little more memory
// than their states.
type slab[S comparable] struct {
	states  []S
	parents []uint32
	users   atomic.Int32
}

// segment is a run of a slab. The segments of a level, in order, are the level.
type segment[S comparable] struct {
	slab *slab[S]
	from int
	n    int
}

func (g segment[S]) states() []S       { return g.slab.states[g.from : g.from+g.n] }
func (g segment[S]) parents() []uint32 { return g.slab.parents[g.from : g.from+g.n] }

// slabPool hands out slabs. Safe for concurrent use.
type slabPool[S comparable] struct {
	mu   sync.Mutex
	free []*slab[S]
	// full is the capacity of a pooled slab; the first ones of a run are smaller, so that a tiny model costs little.
	full  int
	next  int
	bytes atomic.Int64
	size  int // bytes a state, with its parent
}

func newSlabPool[S comparable](stateBytes uintptr) *slabPool[S] {
	size := int(stateBytes) + 4
	return &slabPool[S]{full: min(max(1<<16/size, 64), 2048), next: 16, size: size}
}

// get returns an empty slab with one user: the one that fills it.
func (p *slabPool[S]) get() *slab[S] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := len(p.free); k > 0 {
		b := p.free[k-1]
		p.free = p.free[:k-1]
		b.users.Store(1)
		return b
	}
	n := min(p.next, p.full)
	p.next = min(p.next*4, p.full)
	p.bytes.Add(int64(n * p.size))
	b := &slab[S]{states: make([]S, 0, n), parents: make([]uint32, 0, n)}
	b.users.Store(1)
	return b
}

// done tells that one user needs b no more.
func (p *slabPool[S]) done(b *slab[S]) {
	if b.users.Add(-1) > 0 {
		return
	}
	if cap(b.states) < p.full {
		p.bytes.Add(-int64(cap(b.states) * p.size))
		return
	}
	b.states, b.parents = b.states[:0], b.parents[:0]
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// output is the list of new states that one chunk gave, in order.
type output[S comparable] struct {
	segs []segment[S]
	n    int
}

// filler appends states to slabs for one worker. It keeps its open slab from
// chunk to chunk.
type filler[S comparable] struct {
	pool *slabPool[S]
	slab *slab[S]
	out  *output[S]
}

// open makes the filler write to out from now on.
func (f *filler[S]) open(out *output[S]) { f.out = out }

func (f *filler[S]) add(s *S, ref uint32) {
	b := f.slab
	if b == nil || len(b.states) == cap(b.states) {
		if b != nil {
			f.pool.done(b)
		}
		b = f.pool.get()
		f.slab = b
	}
	at := len(b.states)
	b.states = append(b.states, *s)
	b.parents = append(b.parents, ref)
	out := f.out
	out.n++
	if k := len(out.segs); k > 0 {
		if last := &out.segs[k-1]; last.slab == b && last.from+last.n == at {
			last.n++
			return
		}
	}
	b.users.Add(1)
	out.segs = append(out.segs, segment[S]{slab: b, from: at, n: 1})
}

// close gives up the open slab at the end of a level.
func (f *filler[S]) close() {
	if f.slab != nil {
		f.pool.done(f.slab)
		f.slab = nil
	}
	f.out = nil
}

// chunk is a run of segments that one worker expands.
type chunk struct {
	from, to int    // segments
	first    uint32 // number of its first state
	n        int    // states
}

// chunksOf groups whole segments into chunks of at least size states.
func chunksOf[S comparable](segs []segment[S], first uint32, size int, out []chunk) []chunk {
	out = out[:0]
	for i := 0; i < len(segs); {
		c := chunk{from: i, first: first}
		for i < len(segs) && c.n < size {
			c.n += segs[i].n
			i++
		}
		c.to = i
		first += uint32(c.n)
		out = append(out, c)
	}
	return out
}

// pages is a list that never copies its elements when it grows, so that its
// peak memory is its size. Elements hold no pointers.
type pages[T any] struct {
	page [][]T
	n    uint64
}

const (
	pageBits = 15
	pageMask = 1<<pageBits - 1
)

func (p *pages[T]) at(i uint64) T { return p.page[i>>pageBits][i&pageMask] }

// tail returns the page that takes the next element, with room for one.
func (p *pages[T]) tail() *[]T {
	k := int(p.n >> pageBits)
	if k == len(p.page) {
		var first []T
		if k > 0 {
			first = make([]T, 0, 1<<pageBits)
		}
		p.page = append(p.page, first)
	}
	return &p.page[k]
}

func (p *pages[T]) push(v T) {
	t := p.tail()
	*t = append(*t, v)
	p.n++
}

func (p *pages[T]) pushAll(vs []T) {
	for len(vs) > 0 {
		t := p.tail()
		k := min(len(vs), 1<<pageBits-len(*t))
		*t = append(*t, vs[:k]...)
		p.n += uint64(k)
		vs = vs[k:]
	}
}

// search returns the first index whose element is not less, in a list that ascends.
func searchPages(p *pages[uint32], v uint32) uint64 {
	lo, hi := uint64(0), p.n
	for lo < hi {
		mid := lo + (hi-lo)/2
		if p.at(mid) < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
