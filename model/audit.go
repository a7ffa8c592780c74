package model

import (
	"fmt"
	"slices"
)

// An auditor looks again at some states: those of low number and then a sample,
// the same ones in every run. It finds what makes a search meaningless:
// functions that depend on more than their argument, fingerprints that do not
// tell states apart, symmetries that are none.
type auditor[S comparable] struct {
	again, more []Step[S]
}

const (
	auditFirst = 256 // states that are all looked at, and then one in
	auditEvery = 1024
	// A wrong symmetry hides violations, so many more are looked at.
	symmetryFirst = 1 << 14
	symmetryEvery = 16
)

// due reports whether state number n is looked at.
func (a *auditor[S]) due(n uint32) bool {
	return n < auditFirst || n%symmetryEvery == 0 || n < symmetryFirst
}

// state looks at s again.
func (a *auditor[S]) state(w *worker[S], s *S, n uint32, steps []Step[S]) {
	if n < auditFirst || n%auditEvery == 0 {
		w.doing = inNext
		if msg := a.pure(w.s, s); msg != "" {
			w.blame(&fault{at: n, refusal: msg})
			return
		}
	}
	if w.s.m.Symmetry != nil {
		w.doing = inSymmetry
		// CHECK-5: at each state that is kept, because a wrong symmetry hides violations in silence.
		if msg := a.symmetric(w.s, s, n); msg != "" {
			w.blame(&fault{at: n, refusal: msg})
		}
	}
}

// pure compares two calls of Next and two fingerprints.
func (a *auditor[S]) pure(s *search[S], st *S) string {
	m := s.m
	a.again = m.Next(*st, a.again[:0])
	a.more = m.Next(*st, a.more[:0])
	// CHECK-13: a graph that changes while it is searched has no counts.
	if !slices.Equal(a.again, a.more) {
		if sameSteps(a.again, a.more) {
			return "Next gave the same steps in two orders; their order is part of the model: range over arrays or sorted keys, never over a map"
		}
		return "Next gave two different lists of steps for one state; it must depend on its argument only: no clock, no random source, no shared variable"
	}
	if m.Fingerprint == nil {
		return ""
	}
	other := new(S)
	*other = *st
	if m.Fingerprint(st) != m.Fingerprint(other) {
		return "Fingerprint gave two values for one state; it must depend on the state's value only, not on its address or a seed"
	}
	for i := range a.again {
		for k := range i {
			x, y := &a.again[i].State, &a.again[k].State
			if *x != *y && m.Fingerprint(x) == m.Fingerprint(y) {
				return fmt.Sprintf("Fingerprint gave the same value for two different successors, by %s and by %s; it must use every field (or leave it out: the default uses all bytes)",
					m.ActionString(a.again[k].Action), m.ActionString(a.again[i].Action))
			}
		}
	}
	return ""
}

// sameSteps reports whether a and b hold the same steps in any order.
func sameSteps[S comparable](a, b []Step[S]) bool {
	count := map[Step[S]]int{}
	for _, st := range a {
		count[st]++
	}
	for _, st := range b {
		count[st]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return len(a) == len(b)
}

func equalStates[S comparable](a, b []S) bool { return slices.Equal(a, b) }
