package model

import (
	"sync"
	"sync/atomic"
)

// liveGraph is the reachable graph as liveness needs it: for each state its
// marks (see judge.marks), the fairness assumptions that its changing steps
// enable, and its edges, each with the class of its action. Edges that change
// nothing are left out: every state may stutter anyway.
type liveGraph struct {
	first   pages[uint64] // index of each state's first edge; one more at the end
	to      pages[uint32]
	class   pages[uint16]
	marks   pages[uint64]
	enabled pages[uint64]

	fairness []Fairness
	bytes    atomic.Uint64

	mu      sync.Mutex
	classes []uint64          // the assumptions that an action of each class belongs to
	classOf map[uint64]uint16 // the inverse
	spare   []graphPart
}

func newLiveGraph(fs []Fairness) *liveGraph {
	g := &liveGraph{fairness: fs, classOf: map[uint64]uint16{}}
	g.first.push(0)
	return g
}

// states is the number of expanded states.
func (g *liveGraph) states() uint64 { return g.marks.n }

// intern returns the class of actions that belong to exactly these assumptions.
func (g *liveGraph) intern(mask uint64) uint16 {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.classOf[mask]
	if !ok {
		c = uint16(len(g.classes))
		g.classes = append(g.classes, mask)
		g.classOf[mask] = c
	}
	return c
}

// maskOf returns the fairness assumptions that a belongs to.
func (g *liveGraph) maskOf(a Action) (mask uint64) {
	for i := range g.fairness {
		if g.fairness[i].Match(a) {
			mask |= 1 << i
		}
	}
	return mask
}

// graphPart is the graph of one chunk, on its way into the whole.
type graphPart struct {
	degree  []uint32
	marks   []uint64
	enabled []uint64
	to      []uint32 // numbers, or slots until resolve
	class   []uint16
	ended   int // edges of ended states
}

// take appends p, which is the next in order, and empties it.
func (g *liveGraph) take(p *graphPart) {
	n := g.to.n
	for _, d := range p.degree {
		n += uint64(d)
		g.first.push(n)
	}
	g.to.pushAll(p.to[:p.ended])
	g.class.pushAll(p.class[:p.ended])
	g.marks.pushAll(p.marks)
	g.enabled.pushAll(p.enabled)
	g.bytes.Store(24*g.marks.n + 6*g.to.n)
	p.degree, p.marks, p.enabled, p.to, p.class, p.ended = p.degree[:0], p.marks[:0], p.enabled[:0], p.to[:0], p.class[:0], 0
}

// borrow returns an empty part; give takes it back.
func (g *liveGraph) borrow() graphPart {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := len(g.spare); k > 0 {
		p := g.spare[k-1]
		g.spare = g.spare[:k-1]
		return p
	}
	return graphPart{}
}

func (g *liveGraph) give(p graphPart) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare = append(g.spare, p)
}

// move rewrites slots of one table as slots of the next.
func (p *graphPart) move(from, to *table) {
	for i, k := range p.to {
		j, _ := to.find(from.slots[k].fp)
		p.to[i] = uint32(j)
	}
}

// resolve rewrites slots as the numbers of their states.
func (p *graphPart) resolve(t *table) {
	for i, k := range p.to {
		p.to[i] = uint32(t.slots[k].ref>>32) - 1
	}
}

// classCache remembers the class of actions for one worker.
type classCache struct {
	entries [256]struct {
		action uint64
		class  uint16
		mask   uint64
		known  bool
	}
}

// label notes the marks and the enabled assumptions of the state whose steps
// begin at lo.
func (w *worker[S]) label(n int, s *S, lo int) {
	w.doing = inLiveness
	w.marks[n] = w.s.judge.marks(s, int(w.at) < len(w.s.raw))
	var mask uint64
	if len(w.s.graph.fairness) > 0 {
		for i := lo; i < len(w.steps); i++ {
			if w.flags[i]&stepChanged != 0 {
				_, m := w.class(w.steps[i].Action)
				mask |= m
			}
		}
	}
	w.masks[n] = mask
}

// class returns the class of a and its assumptions.
func (w *worker[S]) class(a Action) (uint16, uint64) {
	key := a.bitsOf()
	e := &w.classes.entries[key*key3>>56]
	if !e.known || e.action != key {
		mask := w.s.graph.maskOf(a)
		e.action, e.mask, e.class, e.known = key, mask, w.s.graph.intern(mask), true
	}
	return e.class, e.mask
}

// edge notes step k, which leads to a state or a slot.
func (w *worker[S]) edge(k int, to uint32) {
	if w.flags[k]&stepChanged == 0 {
		return
	}
	c, _ := w.class(w.steps[k].Action)
	w.part.to = append(w.part.to, to)
	w.part.class = append(w.part.class, c)
}

// endState notes that all edges of the block's state n are there.
func (w *worker[S]) endState(n int) {
	p := w.part
	p.degree = append(p.degree, uint32(len(p.to)-p.ended))
	p.ended = len(p.to)
	p.marks = append(p.marks, w.marks[n])
	p.enabled = append(p.enabled, w.masks[n])
}
