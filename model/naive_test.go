package model

// tiny is a random transition system small enough for a reference that tries
// everything. A state is a number below n; sets of states are bit sets.
type tiny struct {
	n           int
	init        []uint8
	steps       [8][]tinyStep
	always      uint8 // states in which the invariant holds
	bad         [4]uint8
	sometimes   uint8
	eventually  uint8
	from, to    uint8
	constraint  uint8
	cutAction   int // an action that the action constraint forbids, -1 for none
	fairness    []tinyFair
	constrained bool
}

type tinyStep struct{ action, to uint8 }

type tinyFair struct {
	strong  bool
	actions uint8
}

type tinyState struct{ N uint8 }

func has(set uint8, n uint8) bool { return set>>n&1 != 0 }

// model returns the system as the checker sees it.
func (y *tiny) model() Model[tinyState] {
	m := Model[tinyState]{
		Name: "tiny", Actions: []ActionInfo{{Name: "A"}, {Name: "B"}, {Name: "C"}}, MayBeDead: []string{"A", "B", "C"},
		Init: func(out []tinyState) []tinyState {
			for _, n := range y.init {
				out = append(out, tinyState{n})
			}
			return out
		},
		Next: func(s tinyState, out []Step[tinyState]) []Step[tinyState] {
			for _, st := range y.steps[s.N] {
				out = append(out, Step[tinyState]{Action{ID: uint16(st.action)}, tinyState{st.to}})
			}
			return out
		},
		Properties: []Property[tinyState]{
			Always("always", func(s tinyState) bool { return has(y.always, s.N) }),
			AlwaysStep("step", func(from tinyState, a Action, to tinyState) bool { return !has(y.bad[a.ID], from.N^to.N) }),
			Sometimes("sometimes", func(s tinyState) bool { return has(y.sometimes, s.N) }),
			Eventually("eventually", func(s tinyState) bool { return has(y.eventually, s.N) }),
			LeadsTo("leads-to", func(s tinyState) bool { return has(y.from, s.N) }, func(s tinyState) bool { return has(y.to, s.N) }),
		},
		CheckDeadlock: true,
	}
	if y.constrained {
		m.Constraint = func(s tinyState) bool { return has(y.constraint, s.N) }
	}
	if y.cutAction >= 0 {
		m.ActionConstraint = func(from tinyState, st Step[tinyState]) bool { return int(st.Action.ID) != y.cutAction }
	}
	for _, f := range y.fairness {
		m.Fairness = append(m.Fairness, Fairness{Strong: f.strong, Match: func(a Action) bool { return has(f.actions, uint8(a.ID)) }})
	}
	return m
}

// reference is what a search with a map and a slice finds.
type reference struct {
	distinct, states, transitions uint64
	depth                         int
	always, step, sometimes       int // length of the shortest example, -1 for none
	deadlock                      int
	eventually, leadsTo           bool // violated
}

func (y *tiny) inside(n uint8) bool       { return !y.constrained || has(y.constraint, n) }
func (y *tiny) followed(st tinyStep) bool { return int(st.action) != y.cutAction }

func shortest(to *int, n int) {
	if *to < 0 || n < *to {
		*to = n
	}
}

func (y *tiny) reference() reference {
	r := reference{always: -1, step: -1, sometimes: -1, deadlock: -1}
	depth := map[uint8]int{}
	var queue []uint8
	meet := func(n uint8, d int) {
		if !has(y.always, n) {
			shortest(&r.always, d-1)
		}
		if has(y.sometimes, n) {
			shortest(&r.sometimes, d-1)
		}
		if _, met := depth[n]; !met && y.inside(n) {
			depth[n] = d
			r.depth = d
			queue = append(queue, n)
		}
	}
	for _, n := range y.init {
		r.states++
		meet(n, 1)
	}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		if len(y.steps[n]) == 0 {
			shortest(&r.deadlock, depth[n]-1)
		}
		seen := map[tinyStep]bool{}
		for _, st := range y.steps[n] {
			r.states++
			if !y.followed(st) {
				continue
			}
			if has(y.bad[st.action], n^st.to) {
				shortest(&r.step, depth[n])
			}
			meet(st.to, depth[n]+1)
			if y.inside(st.to) && !seen[st] {
				seen[st] = true
				r.transitions++
			}
		}
	}
	r.distinct = uint64(len(depth))
	var reached, initial uint8
	for n := range depth {
		reached |= 1 << n
	}
	for _, n := range y.init {
		initial |= 1 << n
	}
	r.eventually = y.violated(reached, initial&reached&^y.eventually, y.eventually)
	r.leadsTo = y.violated(reached, reached&y.from&^y.to, y.to)
	return r
}

// violated tries every set of states that a behaviour could stay in for ever.
func (y *tiny) violated(reached, begins, to uint8) bool {
	if begins == 0 {
		return false
	}
	waiting := y.closure(begins, reached&^to)
	for set := uint8(1); set != 0; set++ {
		if set&^waiting == 0 && y.strong(set) && y.fair(set) {
			return true
		}
	}
	return false
}

// closure returns the states that from leads to inside within.
func (y *tiny) closure(from, within uint8) uint8 {
	set := from & within
	for {
		next := set
		for n := range uint8(8) {
			if has(set, n) {
				for _, st := range y.steps[n] {
					if y.followed(st) {
						next |= 1 << st.to & within
					}
				}
			}
		}
		if next == set {
			return set
		}
		set = next
	}
}

// strong reports whether each state of set reaches each other one inside it.
func (y *tiny) strong(set uint8) bool {
	for n := range uint8(8) {
		if has(set, n) && y.closure(1<<n, set) != set {
			return false
		}
	}
	return true
}

// fair reports whether a behaviour that takes every step inside set again and
// again keeps every assumption.
func (y *tiny) fair(set uint8) bool {
	for _, f := range y.fairness {
		all, some, taken := true, false, false
		for n := range uint8(8) {
			if !has(set, n) {
				continue
			}
			enabled := false
			for _, st := range y.steps[n] {
				if st.to != n && has(f.actions, st.action) {
					enabled = true
					taken = taken || has(set, st.to) && y.followed(st)
				}
			}
			all = all && enabled
			some = some || enabled
		}
		if !taken && (f.strong && some || all) {
			return false
		}
	}
	return true
}
