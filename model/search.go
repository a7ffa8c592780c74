package model

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// search is one breadth-first run. Levels are expanded one after the other:
// small ones by one worker, large ones by all, which claim chunks. The number of
// a state is its place in the order of a sequential search, whoever finds it.
type search[S comparable] struct {
	m     *Model[S]
	o     Options
	judge *judge[S]

	table *table
	exact map[S]uint64 // in exact mode, instead of table: the slot's ref, with the own number
	pool  *slabPool[S]
	graph *liveGraph // nil unless a property needs it

	workers []*worker[S]
	total   tally
	done    []bool // by property: judged in an earlier level

	raw     []S           // the initial states as Init gave them, by number
	outside []S           // what Init gave, for findings outside the constraint
	parents pages[uint32] // by number: the ref of its parent
	level   []segment[S]
	first   uint32 // number of the level's first state
	next    uint32 // number of the next state to be numbered
	depth   int

	special bool // the model has constraints, step properties or a symmetry
	shared  bool // several workers run

	stop   atomic.Int32 // a stopCause
	claims atomic.Int64
	meter  meter
	gate   growthGate
	chunks []chunk
	outs   []output[S]
	parts  []graphPart
	bound  string // the bound that ended the search, if any
}

// stopCause says why workers must stop in the middle of a level.
type stopCause int32

const (
	stopContext stopCause = 1 + iota
	stopMemory
	stopNumbers
)

// defaultParallelMin is the size of a level from which several workers are worth
// their start.
const defaultParallelMin = 4096

func newSearch[S comparable](m *Model[S], o Options) *search[S] {
	var zero S
	s := &search[S]{m: m, o: o, judge: newJudge(m), pool: newSlabPool[S](unsafe.Sizeof(zero)), total: newTally(len(m.Actions), len(m.Properties)), done: make([]bool, len(m.Properties)+1)}
	if s.o.parallelMin <= 0 {
		s.o.parallelMin = defaultParallelMin
	}
	n := o.Workers
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	// CHECK-20: whole states are the keys, so that none is lost to another.
	if o.Exact {
		n, s.exact = 1, map[S]uint64{}
	} else {
		s.table = newTable(firstTableBits)
	}
	if len(s.judge.live) > 0 {
		s.graph = newLiveGraph(m.Fairness)
	}
	s.special = m.ActionConstraint != nil || m.Constraint != nil || m.Symmetry != nil || len(s.judge.steps) > 0
	for range n {
		s.workers = append(s.workers, newWorker(s))
	}
	s.gate.init()
	return s
}

func (s *search[S]) free() {
	if s.table != nil {
		s.table.free()
	}
}

// fingerprint hashes a state by the model's function or the default one.
func (s *search[S]) fingerprint(p *S) uint64 {
	if f := s.m.Fingerprint; f != nil {
		return spread(f(p))
	}
	return hashState(p)
}

// run explores until the space or a bound is exhausted. It returns an error for
// a model that is refused or panics.
func (s *search[S]) run(ctx context.Context) error {
	if ctx.Done() != nil {
		if ctx.Err() != nil {
			s.stop.Store(int32(stopContext))
		}
		defer context.AfterFunc(ctx, func() { s.stop.CompareAndSwap(0, int32(stopContext)) })()
	}
	if err := s.start(); err != nil {
		return err
	}
	for len(s.level) > 0 {
		// CHECK-1: level by level, so that the first finding is one of the nearest.
		s.depth++
		if s.bounded(ctx) {
			s.lookAtFrontier()
			return s.check()
		}
		s.expandLevel()
		s.mergeLevel()
		if err := s.check(); err != nil {
			return err
		}
		if s.stop.Load() != 0 {
			s.bound = s.stopReason(ctx)
			return nil
		}
		// CHECK-25: after the whole level, so that what is found is the same for any number of workers.
		if s.o.StopAtFirst && s.violated() {
			s.bound = "stopped at the first violation"
			return nil
		}
	}
	return nil
}

// bounded reports whether the next level must not be expanded. It is asked
// between levels, so that the answer is the same for any number of workers.
func (s *search[S]) bounded(ctx context.Context) bool {
	switch {
	case s.o.MaxDepth > 0 && s.depth >= s.o.MaxDepth:
		s.bound = "depth bound " + itoa(uint64(s.o.MaxDepth)) + " reached"
	case s.o.MaxStates > 0 && s.distinct() >= s.o.MaxStates:
		s.bound = "state bound " + itoa(s.o.MaxStates) + " reached"
	case s.stop.Load() != 0:
		s.bound = s.stopReason(ctx)
	}
	return s.bound != ""
}

func (s *search[S]) expandLevel() {
	for _, w := range s.workers {
		w.room = 0
	}
	size := int(s.next - s.first)
	s.gate.reserved.Store(s.distinct())
	if len(s.workers) > 1 && size >= s.o.parallelMin {
		s.expandShared(size)
		return
	}
	w := s.workers[0]
	s.chunks = chunksOf(s.level, s.first, 1024, s.chunks)
	s.outs = append(s.outs[:0], output[S]{})
	if s.graph != nil {
		s.parts = append(s.parts[:0], s.graph.borrow())
		w.part = &s.parts[0]
	}
	w.fill.open(&s.outs[0])
	for i := range s.chunks {
		w.chunk(&s.chunks[i], true)
		if w.part != nil {
			s.graph.take(w.part)
		}
		if s.stop.Load() != 0 || w.fault != nil {
			break
		}
	}
	w.fill.close()
	if w.part != nil {
		s.graph.give(s.parts[0])
		w.part = nil
	}
	s.take(s.outs)
}

// expandShared lets all workers claim chunks, then puts what they found in order.
func (s *search[S]) expandShared(size int) {
	s.chunks = chunksOf(s.level, s.first, min(max(size/(len(s.workers)*8), 64), 1024), s.chunks)
	s.outs = make([]output[S], len(s.chunks))
	s.parts = nil
	if s.graph != nil {
		s.parts = make([]graphPart, len(s.chunks))
		for i := range s.parts {
			s.parts[i] = s.graph.borrow()
		}
	}
	s.claims.Store(0)
	s.gate.enter(len(s.workers))
	s.shared = true
	var wg sync.WaitGroup
	for _, w := range s.workers {
		wg.Go(func() {
			defer s.leave()
			for s.stop.Load() == 0 {
				k := int(s.claims.Add(1)) - 1
				if k >= len(s.chunks) {
					break
				}
				w.fill.open(&s.outs[k])
				if s.graph != nil {
					w.part = &s.parts[k]
				}
				w.chunk(&s.chunks[k], false)
			}
			w.fill.close()
		})
	}
	wg.Wait()
	s.shared = false
	for _, w := range s.workers {
		w.part = nil
	}
	if s.stop.Load() == 0 {
		s.settle()
	}
}

// chunk expands one chunk and gives its slabs back.
func (w *worker[S]) chunk(c *chunk, alone bool) {
	s := w.s
	first := c.first
	states, inserted := w.states, w.inserted
	w.guard(func() {
		for _, g := range s.level[c.from:c.to] {
			if !w.expand(g.states(), first, alone) {
				return
			}
			first += uint32(g.n)
		}
	})
	for _, g := range s.level[c.from:c.to] {
		s.pool.done(g.slab)
	}
	s.meter.add(w.states-states, w.inserted-inserted, c.n)
	if max := s.o.MaxBytes; max > 0 && s.bytes() > max {
		s.stop.CompareAndSwap(0, int32(stopMemory))
	}
}

// take makes what was found the next level.
func (s *search[S]) take(outs []output[S]) {
	s.first += uint32(levelSize(s.level))
	s.level = s.level[:0]
	for i := range outs {
		for _, g := range outs[i].segs {
			if g.n == 0 {
				s.pool.done(g.slab)
				continue
			}
			s.level = append(s.level, g)
			s.parents.pushAll(g.parents())
		}
	}
	s.next = s.first + uint32(levelSize(s.level))
	s.meter.level(s.depth, int(s.next-s.first), s.bytes())
	if uint64(s.next) > maxNumber/2 && s.distinct() > maxNumber-maxNumber/8 {
		s.stop.CompareAndSwap(0, int32(stopNumbers))
	}
}

func levelSize[S comparable](segs []segment[S]) (n int) {
	for _, g := range segs {
		n += g.n
	}
	return n
}

func (s *search[S]) mergeLevel() {
	for _, w := range s.workers {
		s.total.merge(&w.tally)
	}
	for i, f := range s.total.best {
		s.done[i] = f.found
	}
}

func (s *search[S]) distinct() (n uint64) {
	for _, w := range s.workers {
		n += w.inserted
	}
	return n
}

// bytes is what the search holds.
func (s *search[S]) bytes() uint64 {
	n := uint64(s.pool.bytes.Load()) + 4*s.parents.n
	if s.table != nil {
		n += s.gate.tableBytes.Load()
	} else {
		var zero S
		n += s.meter.distinct.Load() * uint64(unsafe.Sizeof(zero)+16) * 2
	}
	if s.graph != nil {
		n += s.graph.bytes.Load()
	}
	return n
}

// violated reports whether a property that forbids something was found violated.
func (s *search[S]) violated() bool {
	for i, f := range s.total.best {
		if f.found && (i == len(s.m.Properties) || s.m.Properties[i].Kind == KindAlways || s.m.Properties[i].Kind == KindStep) {
			return true
		}
	}
	return false
}

func (s *search[S]) stopReason(ctx context.Context) string {
	switch stopCause(s.stop.Load()) {
	case stopMemory:
		return "memory bound " + byteCount(s.o.MaxBytes) + " reached"
	case stopNumbers:
		return "the engine's limit of distinct states reached"
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "time bound reached"
	}
	return "interrupted"
}
