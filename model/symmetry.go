package model

import "fmt"

// A symmetry is sound when renaming changes nothing that anybody looks at. The
// audit compares, for a representative and each of its images under a generator,
// and for a successor and its representative: what every property, constraint
// and Terminal say, and the multiset of steps (target, fairness, what the step
// properties say). With both, the quotient is a bisimulation, so that liveness
// under fairness carries over too.

// symmetric looks at the representative s, which is state n. It returns what is
// wrong.
func (a *auditor[S]) symmetric(sr *search[S], s *S, n uint32) string {
	sym := sr.m.Symmetry
	if again := sym.Canonical(*s); again != *s {
		return "Symmetry.Canonical is not idempotent: it maps the representative of this state to another state; it must map every state of an orbit to the same one"
	}
	steps := sr.m.Next(*s, a.again[:0])
	a.again = steps
	for i, g := range sym.Generators {
		image := g(*s)
		if image == *s {
			continue
		}
		who := fmt.Sprintf("generator %d", i)
		if sym.Canonical(image) != *s {
			return "Symmetry.Canonical gives this state and its image under " + who + " two representatives; sort by everything that tells the identities apart, not by one field"
		}
		if msg := a.labels(sr, s, &image, who); msg != "" {
			return msg
		}
		if msg := a.steps(sr, s, steps, &image, g, who); msg != "" {
			return msg
		}
	}
	if int(n) < len(sr.raw) {
		if msg := a.representative(sr, &sr.raw[n], s, true); msg != "" {
			return msg
		}
	}
	for i := range steps {
		if msg := a.outside(sr, &steps[i].State); msg != "" {
			return msg
		}
		rep := sym.Canonical(steps[i].State)
		deep := n < auditEvery || i == int(n)%len(steps)
		if msg := a.representative(sr, &steps[i].State, &rep, deep); msg != "" {
			return msg
		}
	}
	return ""
}

// outside looks at a successor outside the constraint, which is never looked at
// as a state: its images must be outside too.
func (a *auditor[S]) outside(sr *search[S], s *S) string {
	if sr.m.Constraint == nil || sr.m.Constraint(*s) {
		return ""
	}
	for i, g := range sr.m.Symmetry.Generators {
		image := g(*s)
		if msg := a.labels(sr, s, &image, fmt.Sprintf("generator %d", i)); msg != "" {
			return msg
		}
	}
	return ""
}

// labels compares what the model's functions say about two states that should
// be alike.
func (a *auditor[S]) labels(sr *search[S], x, y *S, who string) string {
	m := sr.m
	differ := func(f func(S) bool) bool { return f != nil && f(*x) != f(*y) }
	for i := range m.Properties {
		p := &m.Properties[i]
		if differ(p.State) || differ(p.From) || differ(p.To) || differ(p.Antecedent) {
			return fmt.Sprintf("property %q is not the same for a state and its image under %s, so the symmetry would hide states from it; "+
				"say it of all identities, or drop the symmetry", p.Name, who)
		}
	}
	if differ(m.Constraint) {
		return fmt.Sprintf("Constraint is not the same for a state and its image under %s; say it of all identities, or drop the symmetry", who)
	}
	if differ(m.Terminal) {
		return fmt.Sprintf("Terminal is not the same for a state and its image under %s; say it of all identities, or drop the symmetry", who)
	}
	return ""
}

// steps compares the steps of s, permuted by g, with those of its image.
func (a *auditor[S]) steps(sr *search[S], s *S, steps []Step[S], image *S, g func(S) S, who string) string {
	x, y := stepSum{}, stepSum{}
	for i := range steps {
		to := g(steps[i].State)
		addStep(&x, sr, s, &steps[i], &to)
	}
	a.more = sr.m.Next(*image, a.more[:0])
	for i := range a.more {
		addStep(&y, sr, image, &a.more[i], &a.more[i].State)
	}
	return x.differ(y, who)
}

// representative compares a state with its representative.
func (a *auditor[S]) representative(sr *search[S], s, rep *S, deep bool) string {
	if *s == *rep {
		return ""
	}
	const who = "Symmetry.Canonical"
	if sr.m.Symmetry.Canonical(*rep) != *rep {
		return "Symmetry.Canonical is not idempotent: it maps the representative of a successor of this state to another state; it must map every state of an orbit to the same one"
	}
	if msg := a.labels(sr, s, rep, who); msg != "" || !deep {
		return msg
	}
	var sums [2]stepSum
	for i, st := range []*S{s, rep} {
		a.more = sr.m.Next(*st, a.more[:0])
		for k := range a.more {
			to := sr.m.Symmetry.Canonical(a.more[k].State)
			addStep(&sums[i], sr, st, &a.more[k], &to)
		}
	}
	return sums[0].differ(sums[1], who)
}

// stepSum is a fingerprint of a multiset of steps, in parts, so that a
// difference can be named.
type stepSum struct {
	n int

	states, cut, changed, fairness, props uint64
}

// addStep adds a step of from whose target counts as to.
func addStep[S comparable](u *stepSum, sr *search[S], from *S, st *Step[S], to *S) {
	m := sr.m
	h := hashState(to)
	u.n++
	u.states += h
	if m.ActionConstraint != nil && !m.ActionConstraint(*from, *st) {
		u.cut += mix(h, key0)
		return
	}
	if st.State != *from {
		u.changed += mix(h, key1)
	}
	if sr.graph != nil {
		u.fairness += mix(h^key2, sr.graph.maskOf(st.Action)^key3)
	}
	for i := range sr.judge.steps {
		c := &sr.judge.steps[i]
		if c.fn != nil && c.fn(*from, st.Action, st.State) {
			u.props += mix(h, key2+2*uint64(i)+1)
		}
		if c.first != nil && c.first(*from, st.Action, st.State) {
			u.props += mix(h, key3+2*uint64(i))
		}
	}
}

// differ says in what two sums differ that should be the same.
func (u stepSum) differ(v stepSum, who string) string {
	const mend = "; give every identity the same steps, or drop the symmetry"
	switch {
	case u.n != v.n:
		return fmt.Sprintf("Next gives a state %d steps and its image under %s %d: it does not commute with the symmetry%s", u.n, who, v.n, mend)
	case u.states != v.states:
		return fmt.Sprintf("Next leads a state and its image under %s to states that are no images of each other: it does not commute with the symmetry%s", who, mend)
	case u.cut != v.cut:
		return fmt.Sprintf("ActionConstraint is not the same for a step and its image under %s; say it of all identities, or drop the symmetry", who)
	case u.changed != v.changed:
		return fmt.Sprintf("a step changes a state, and its image under %s does not%s", who, mend)
	case u.fairness != v.fairness:
		return fmt.Sprintf("a fairness assumption tells a step from its image under %s, so liveness cannot be judged under this symmetry; "+
			"let one assumption match the action of all identities, or drop the symmetry", who)
	case u.props != v.props:
		return fmt.Sprintf("a step property is not the same for a step and its image under %s; say it of all identities, or drop the symmetry", who)
	}
	return ""
}
