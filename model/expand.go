package model

import "unsafe"

// A worker expands states in blocks: all successors of a block are generated,
// then hashed, then the home slot of each is read (those cache misses overlap,
// which is what makes large tables fast: checker facts, section 3.2), and only
// then are they inserted.
const (
	blockStates = 32
	blockSteps  = 96
)

// what a step is, decided before it is inserted.
const (
	stepFollow    = 1 << iota // its target belongs to the graph
	stepChanged               // its target differs from its source
	stepCut                   // the action constraint is false
	stepDuplicate             // the same action and target came before
)

type worker[S comparable] struct {
	s *search[S]
	tally
	fill filler[S]

	steps []Step[S] // of the block
	flags []uint8   // by step
	fps   []uint64
	home  []uint64 // the first word of each step's home slot
	ends  [blockStates]int32
	same  stepSet

	room     uint64 // slots that this worker may still fill
	inserted uint64
	part     *graphPart // where edges go, in runs that keep a graph

	at    uint32 // the state being worked on, for the report of a panic
	doing activity
	fault *fault // the lowest one
	audit auditor[S]

	marks   [blockStates]uint64 // by state of the block, in runs that keep a graph
	masks   [blockStates]uint64
	classes classCache
}

// activity is the model's function that a worker runs, for the report of a panic.
type activity uint8

const (
	inState activity = iota
	inNext
	inTerminal
	inActionConstraint
	inStep
	inConstraint
	inCanonical
	inFingerprint
	inLiveness
	inInit
	inSymmetry
)

func (a activity) String() string {
	return [...]string{"a state property", "Next", "Terminal", "ActionConstraint", "a step property", "Constraint", "Symmetry.Canonical", "Fingerprint",
		"a liveness property", "Init", "a function that the symmetry check called on a permuted state"}[a]
}

func newWorker[S comparable](s *search[S]) *worker[S] {
	w := &worker[S]{s: s, tally: newTally(len(s.m.Actions), len(s.m.Properties))}
	w.fill.pool = s.pool
	return w
}

// expand works through states, the first of which has the given number. It
// returns false when the run must stop.
func (w *worker[S]) expand(states []S, first uint32, alone bool) bool {
	for len(states) > 0 {
		n := w.generate(states, first)
		if !w.prepare() {
			return false
		}
		switch {
		case w.s.exact != nil:
			w.insertExact(n, first)
		case alone:
			w.insertAlone(n, first)
		default:
			w.insertShared(n, first)
		}
		states, first = states[n:], first+uint32(n)
	}
	return true
}

// generate judges states and lists their successors until the block is full. It
// returns the number of states in the block.
func (w *worker[S]) generate(states []S, first uint32) int {
	// CHECK-30: the room of the last block is used again.
	w.steps, w.flags, w.fps = w.steps[:0], w.flags[:0], w.fps[:0]
	n := 0
	for n < len(states) && n < blockStates && len(w.steps) < blockSteps {
		s := &states[n]
		w.at = first + uint32(n)
		w.look(s, w.at)
		lo := len(w.steps)
		w.next(s)
		w.states += uint64(len(w.steps) - lo)
		w.consider(s, lo)
		w.ends[n] = int32(len(w.steps))
		if w.part != nil {
			w.label(n, s, lo)
		}
		if w.audit.due(w.at) {
			w.audit.state(w, s, w.at, w.steps[lo:])
		}
		n++
	}
	return n
}

// look judges the properties of a state.
func (w *worker[S]) look(s *S, number uint32) {
	w.doing = inState
	w.s.judge.state(s, &w.tally, w.s.done, finding{len: w.s.depth - 1, from: number, kind: foundState, step: -1})
}

// next appends the successors of s to w.steps. Next gets an empty slice with
// the spare room of w.steps, so that a model that ignores what it is given still
// does no harm.
func (w *worker[S]) next(s *S) {
	w.doing = inNext
	lo := len(w.steps)
	got := w.s.m.Next(*s, w.steps[lo:lo])
	if len(got) == 0 {
		w.doing = inTerminal
		w.terminal++
		if w.s.judge.stuck(s) && !w.s.done[len(w.s.m.Properties)] {
			w.note(len(w.s.m.Properties), finding{len: w.s.depth - 1, from: w.at, kind: foundState, step: -1})
		}
		return
	}
	if cap(w.steps)-lo >= len(got) && unsafe.SliceData(got) == unsafe.SliceData(w.steps[lo:cap(w.steps)]) {
		w.steps = w.steps[:lo+len(got)]
		return
	}
	w.steps = append(w.steps, got...)
}

// consider counts, judges, constrains and hashes the steps of s from index lo.
func (w *worker[S]) consider(s *S, lo int) {
	m, sr := w.s.m, w.s
	w.same.reset(len(w.steps) - lo)
	w.doing = inFingerprint
	for i := lo; i < len(w.steps); i++ {
		st := &w.steps[i]
		var flag uint8
		if st.State != *s {
			flag = stepChanged
		}
		if sr.special {
			flag |= w.special(s, st, i-lo, flag)
		} else {
			flag |= stepFollow
		}
		fp := sr.fingerprint(&st.State)
		id := int(st.Action.ID)
		if id >= len(m.Actions) {
			id = len(m.Actions)
			w.stray++
		}
		act := st.Action.bitsOf()
		if w.same.add((fp ^ act*key1) * key3 >> 7) {
			if flag&stepCut == 0 {
				w.taken[id]++
				if flag&stepChanged != 0 {
					w.changed[id]++
				}
			}
			if flag&stepFollow != 0 {
				w.transitions++
			}
		}
		w.flags = append(w.flags, flag)
		w.fps = append(w.fps, fp)
	}
	w.countEnabled(lo)
}

// countEnabled counts each action once for the state whose steps begin at lo.
func (w *worker[S]) countEnabled(lo int) {
	steps := w.steps[lo:]
	var seen uint64
	for i := range steps {
		id := min(int(steps[i].Action.ID), len(w.enabled)-1)
		if id < 64 {
			if seen>>id&1 == 0 {
				seen |= 1 << id
				w.enabled[id]++
			}
			continue
		}
		first := true
		for k := range i {
			if int(steps[k].Action.ID) == id {
				first = false
				break
			}
		}
		if first {
			w.enabled[id]++
		}
	}
}

// special does what only some models need: constraints, step properties,
// symmetry. It replaces the target by its representative.
func (w *worker[S]) special(s *S, st *Step[S], index int, changed uint8) uint8 {
	m, sr := w.s.m, w.s
	if m.ActionConstraint != nil {
		w.doing = inActionConstraint
		if !m.ActionConstraint(*s, *st) {
			return stepCut
		}
	}
	where := finding{len: sr.depth, from: w.at, kind: foundStep, step: index}
	w.doing = inStep
	sr.judge.step(s, st, &w.tally, sr.done, where)
	if m.Constraint != nil {
		w.doing = inConstraint
		if !m.Constraint(st.State) {
			// Generated and judged, not counted and not expanded.
			where.kind = foundOutside
			w.doing = inState
			sr.judge.state(&st.State, &w.tally, sr.done, where)
			return 0
		}
	}
	if m.Symmetry != nil {
		w.doing = inCanonical
		st.State = m.Symmetry.Canonical(st.State)
	}
	return stepFollow
}

// prepare makes room in the table for the block and starts the reads of all
// home slots.
func (w *worker[S]) prepare() bool {
	if w.s.exact != nil {
		return w.s.stop.Load() == 0
	}
	if need := uint64(len(w.fps)); w.room < need && !w.s.makeRoom(w, need) {
		return false
	}
	t := w.s.table
	if cap(w.home) < len(w.fps) {
		w.home = make([]uint64, 2*len(w.fps))
	}
	home := w.home[:len(w.fps)]
	if w.s.shared {
		loadShared(t, w.fps, home)
		return true
	}
	slots, shift := t.slots, t.shift
	for i, fp := range w.fps {
		home[i] = slots[fp>>(shift&63)].fp
	}
	return true
}

// insertAlone inserts the block when no other worker runs: new states are
// numbered at once.
func (w *worker[S]) insertAlone(n int, first uint32) {
	s, t := w.s, w.s.table
	k := 0
	for b := range n {
		ref := uint64(first) + uint64(b) + refOffset
		for end := int(w.ends[b]); k < end; k++ {
			if w.flags[k]&stepFollow == 0 {
				continue
			}
			fp := w.fps[k]
			if w.home[k] == fp && w.part == nil {
				continue
			}
			r := ref
			if w.part != nil {
				r |= uint64(s.next+1) << 32
			}
			i, added := t.insertAlone(fp, r)
			if added {
				w.fill.add(&w.steps[k].State, uint32(ref))
				s.next++
				w.room--
				w.inserted++
			}
			if w.part != nil {
				w.edge(k, uint32(t.slots[i].ref>>32)-1)
			}
		}
		if w.part != nil {
			w.endState(b)
		}
	}
}

// insertShared inserts the block beside other workers.
func (w *worker[S]) insertShared(n int, first uint32) {
	t := w.s.table
	k := 0
	for b := range n {
		ref := uint64(first) + uint64(b) + refOffset
		for end := int(w.ends[b]); k < end; k++ {
			if w.flags[k]&stepFollow == 0 {
				continue
			}
			i, claimed, added := t.insert(w.fps[k], ref)
			if claimed {
				w.fill.add(&w.steps[k].State, uint32(ref))
			}
			if added {
				w.room--
				w.inserted++
			}
			if w.part != nil {
				w.edge(k, uint32(i)) // a slot: numbers are known when the level is settled
			}
		}
		if w.part != nil {
			w.endState(b)
		}
	}
}

// insertExact inserts the block into the exact set.
func (w *worker[S]) insertExact(n int, first uint32) {
	s := w.s
	k := 0
	for b := range n {
		ref := first + uint32(b) + refOffset
		for end := int(w.ends[b]); k < end; k++ {
			if w.flags[k]&stepFollow == 0 {
				continue
			}
			old, met := s.exact[w.steps[k].State]
			if !met {
				old = uint64(ref) | uint64(s.next+1)<<32
				s.exact[w.steps[k].State] = old
				w.fill.add(&w.steps[k].State, ref)
				s.next++
				w.inserted++
			}
			if w.part != nil {
				w.edge(k, uint32(old>>32)-1)
			}
		}
		if w.part != nil {
			w.endState(b)
		}
	}
}
