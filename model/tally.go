package model

// finding is the best example (a violation, or a witness) of one property so
// far: the one of the shortest path, then of the lowest state, then of the first
// step. It is a function of the model, not of the schedule.
type finding struct {
	found bool
	len   int    // actions on the path
	from  uint32 // state (or the state that the step leaves); an index of Init when kind is foundInit
	kind  foundKind
	step  int // index in Next(from), for foundStep and foundOutside
}

type foundKind uint8

const (
	foundState   foundKind = iota // state from itself
	foundStep                     // a step of from
	foundOutside                  // the target of a step of from, outside the constraint
	foundInit                     // an initial state outside the constraint
)

func (f finding) less(g finding) bool {
	if f.found != g.found {
		return f.found
	}
	if f.len != g.len {
		return f.len < g.len
	}
	if f.from != g.from {
		return f.from < g.from
	}
	return f.step < g.step
}

// tally counts what one worker saw.
type tally struct {
	states      uint64
	terminal    uint64
	transitions uint64
	stray       uint64 // steps whose action the model does not list
	enabled     []uint64
	taken       []uint64
	changed     []uint64
	antecedents []uint64
	best        []finding // by property; the last one is the deadlock check
}

func newTally(actions, properties int) tally {
	counts := make([]uint64, 3*(actions+1)+properties)
	cut := func(n int) (c []uint64) {
		c, counts = counts[:n:n], counts[n:]
		return c
	}
	return tally{enabled: cut(actions + 1), taken: cut(actions + 1), changed: cut(actions + 1), antecedents: cut(properties), best: make([]finding, properties+1)}
}

// merge adds o to t and clears o.
func (t *tally) merge(o *tally) {
	t.states += o.states
	t.terminal += o.terminal
	t.transitions += o.transitions
	t.stray += o.stray
	o.states, o.terminal, o.transitions, o.stray = 0, 0, 0, 0
	add := func(to, from []uint64) {
		for i, v := range from {
			to[i] += v
			from[i] = 0
		}
	}
	add(t.enabled, o.enabled)
	add(t.taken, o.taken)
	add(t.changed, o.changed)
	add(t.antecedents, o.antecedents)
	for i, f := range o.best {
		if f.less(t.best[i]) {
			t.best[i] = f
		}
		o.best[i] = finding{}
	}
}

// note keeps f when it is better than what property p has.
func (t *tally) note(p int, f finding) {
	f.found = true
	if f.less(t.best[p]) {
		t.best[p] = f
	}
}

// stepSet finds steps that one state offers twice: the same action to the same
// target counts as one transition.
type stepSet struct {
	slots []stepSlot
	mask  uint64
	stamp uint32
}

type stepSlot struct {
	key   uint64
	stamp uint32
}

// reset empties the set and gives it room for n steps.
func (d *stepSet) reset(n int) {
	if d.stamp++; d.stamp == 0 || len(d.slots) < 4*n {
		size := max(64, len(d.slots))
		for size < 4*n {
			size *= 2
		}
		d.slots, d.mask, d.stamp = make([]stepSlot, size), uint64(size-1), 1
	}
}

// add reports whether key is new.
func (d *stepSet) add(key uint64) bool {
	for i := key & d.mask; ; i = (i + 1) & d.mask {
		s := &d.slots[i]
		if s.stamp != d.stamp {
			*s = stepSlot{key, d.stamp}
			return true
		}
		if s.key == key {
			return false
		}
	}
}
