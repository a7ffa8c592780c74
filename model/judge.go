package model

// judge evaluates a model's properties on states and steps. It is shared by all
// searches, read-only, and made once.
type judge[S comparable] struct {
	m        *Model[S]
	states   []stateCheck[S]
	steps    []stepCheck[S]
	live     []int // indexes of the liveness properties
	deadlock bool
}

type stateCheck[S comparable] struct {
	p     int
	want  bool // found when the function gives this: false for always, true for sometimes
	fn    func(S) bool
	first func(S) bool // the antecedent
}

type stepCheck[S comparable] struct {
	p     int
	want  bool
	fn    func(S, Action, S) bool
	first func(S, Action, S) bool
}

func newJudge[S comparable](m *Model[S]) *judge[S] {
	j := &judge[S]{m: m, deadlock: m.Terminal != nil || m.CheckDeadlock}
	for i, p := range m.Properties {
		switch p.Kind {
		case KindAlways, KindSometimes:
			j.states = append(j.states, stateCheck[S]{p: i, want: p.Kind == KindSometimes, fn: p.State, first: p.Antecedent})
		case KindStep, KindSometimesStep:
			j.steps = append(j.steps, stepCheck[S]{p: i, want: p.Kind == KindSometimesStep, fn: p.Step, first: p.StepAntecedent})
			if p.Antecedent != nil {
				j.states = append(j.states, stateCheck[S]{p: i, first: p.Antecedent})
			}
		case KindEventually, KindLeadsTo:
			j.live = append(j.live, i)
			first := p.Antecedent
			if first == nil {
				first = p.From
			}
			if first != nil {
				j.states = append(j.states, stateCheck[S]{p: i, first: first})
			}
		}
		if p.Kind == KindAlways && p.StepAntecedent != nil {
			j.steps = append(j.steps, stepCheck[S]{p: i, first: p.StepAntecedent})
		}
	}
	return j
}

// hasAntecedent reports whether property p speaks about a case.
func hasAntecedent[S comparable](p *Property[S]) bool {
	return p.Antecedent != nil || p.StepAntecedent != nil || p.From != nil
}

// state judges s. where is the finding to note, without its property.
func (j *judge[S]) state(s *S, t *tally, done []bool, where finding) {
	for i := range j.states {
		c := &j.states[i]
		if c.first != nil && c.first(*s) {
			t.antecedents[c.p]++
		}
		if c.fn != nil && !done[c.p] && c.fn(*s) == c.want {
			t.note(c.p, where)
		}
	}
}

// step judges one step.
func (j *judge[S]) step(from *S, st *Step[S], t *tally, done []bool, where finding) {
	for i := range j.steps {
		c := &j.steps[i]
		if c.first != nil && c.first(*from, st.Action, st.State) {
			t.antecedents[c.p]++
		}
		if c.fn != nil && !done[c.p] && c.fn(*from, st.Action, st.State) == c.want {
			t.note(c.p, where)
		}
	}
}

// stuck reports whether s, which has no successors, is a deadlock.
func (j *judge[S]) stuck(s *S) bool {
	return j.deadlock && (j.m.Terminal == nil || !j.m.Terminal(*s))
}

// marks returns, for each liveness property, two bits: whether s is a state in
// which it begins to wait (From, and not yet To), and whether To holds.
func (j *judge[S]) marks(s *S, initial bool) uint64 {
	var bits uint64
	for i, p := range j.live {
		prop := &j.m.Properties[p]
		var begins, ends bool
		if prop.Kind == KindEventually {
			ends = prop.State(*s)
			begins = initial && !ends
		} else {
			ends = prop.To(*s)
			begins = !ends && prop.From(*s)
		}
		if begins {
			bits |= 1 << (2 * i)
		}
		if ends {
			bits |= 2 << (2 * i)
		}
	}
	return bits
}

// maxLive is the number of liveness properties that marks has bits for.
const maxLive = 32
