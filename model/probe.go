package model

import "fmt"

// probeStates is how many states are looked at exactly before a search that
// rests on a model's own fingerprints.
const probeStates = 1 << 14

// probeFingerprint explores the first states exactly, keeping them whole, and
// refuses a Fingerprint that gives two of them one value. A function that leaves
// a field out makes the search skip states, and a skipped state can hide a
// violation behind a pass, so it is worth some milliseconds. What panics here
// panics again in the search, which reports it with its path.
//
// CHECK-31: a fingerprint that does not tell states apart is refused, whichever two states it confuses.
func probeFingerprint[S comparable](m *Model[S]) (err error) {
	if m.Fingerprint == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	known := map[uint64]S{}
	var queue []S
	// add keeps a state and returns one that shares its fingerprint.
	add := func(s S) (other S, clash bool) {
		if m.Symmetry != nil {
			s = m.Symmetry.Canonical(s)
		}
		fp := m.Fingerprint(&s)
		old, seen := known[fp]
		if seen {
			return old, old != s
		}
		known[fp] = s
		if m.Constraint == nil || m.Constraint(s) {
			queue = append(queue, s)
		}
		return s, false
	}
	for _, s := range m.Init(nil) {
		if _, clash := add(s); clash {
			return refuse(m.Name, "Fingerprint gave the same value for two different initial states; it must use every field (or leave it out: the default uses all bytes)")
		}
	}
	var steps []Step[S]
	for len(queue) > 0 && len(known) < probeStates {
		from := queue[0]
		queue = queue[1:]
		steps = m.Next(from, steps[:0])
		for _, st := range steps {
			if m.ActionConstraint != nil && !m.ActionConstraint(from, st) {
				continue
			}
			other, clash := add(st.State)
			if !clash {
				continue
			}
			where := "an earlier state"
			if other == from {
				where = "the state before it"
			}
			return refuse(m.Name, "Fingerprint gave the same value for two different states, one reached by %s and %s; it must use every field (or leave it out: the default uses all bytes)%s",
				m.ActionString(st.Action), where, changedFields(m, other, st.State))
		}
	}
	return nil
}

// changedFields names the fields in which two states differ.
func changedFields[S comparable](m *Model[S], a, b S) string {
	x, y := fieldsOf(m, a), fieldsOf(m, b)
	text := ""
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			text += fmt.Sprintf("; they differ in %s", x[i].Name)
		}
	}
	return text
}
