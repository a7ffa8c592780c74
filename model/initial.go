package model

// start finds the initial states, which are level 1.
func (s *search[S]) start() (err error) {
	w := s.workers[0]
	w.doing, w.at = inInit, noState
	defer func() {
		if r := recover(); r != nil {
			err = w.panicked(r).error(s)
		}
	}()
	inits := s.m.Init(nil)
	if again := s.m.Init(nil); !equalStates(inits, again) {
		return refuse(s.m.Name, "Init gave two different lists; it must depend on nothing, and must not range over a map")
	}
	w.states += uint64(len(inits))
	var out output[S]
	w.fill.open(&out)
	for i := range inits {
		st := inits[i]
		w.doing = inConstraint
		if s.m.Constraint != nil && !s.m.Constraint(st) {
			w.doing = inState
			s.judge.state(&st, &w.tally, s.done, finding{from: uint32(i), kind: foundInit, step: -1})
			continue
		}
		if s.m.Symmetry != nil {
			w.doing = inCanonical
			st = s.m.Symmetry.Canonical(st)
		}
		w.doing = inFingerprint
		if s.insertInitial(w, &st) {
			s.raw = append(s.raw, inits[i])
			w.fill.add(&st, refInitial)
		}
	}
	w.fill.close()
	s.outside = inits
	s.total.merge(&w.tally)
	s.take([]output[S]{out})
	if len(inits) == 0 {
		return refuse(s.m.Name, "Init gave no state, so that every property would hold of nothing")
	}
	return nil
}

func (s *search[S]) insertInitial(w *worker[S], st *S) bool {
	if s.exact != nil {
		if _, met := s.exact[*st]; met {
			return false
		}
		s.exact[*st] = refInitial | uint64(s.next+1)<<32
	} else {
		fp := s.fingerprint(st)
		if w.room == 0 && !s.makeRoom(w, 1) {
			return false
		}
		ref := uint64(refInitial)
		if s.graph != nil {
			ref |= uint64(s.next+1) << 32
		}
		if _, added := s.table.insertAlone(fp, ref); !added {
			return false
		}
		w.room--
	}
	w.inserted++
	s.next++
	return true
}

// lookAtFrontier judges the states of the last level without expanding them.
func (s *search[S]) lookAtFrontier() {
	w := s.workers[0]
	n := s.first
	w.guard(func() {
		for _, g := range s.level {
			for i := range g.states() {
				w.at = n
				w.look(&g.states()[i], n)
				n++
			}
		}
	})
	s.total.merge(&w.tally)
}
