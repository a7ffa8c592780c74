package model

import (
	"context"
	"strconv"
	"testing"
)

// randomTiny draws a system. Every feature is on in a part of them.
func randomTiny(r *random) *tiny {
	bit := func(n int) bool { return r.below(n) == 0 }
	y := &tiny{n: 1 + r.below(8), always: 0xff, cutAction: -1, eventually: uint8(r.next()), from: uint8(r.next()), to: uint8(r.next() & r.next())}
	if bit(2) {
		y.eventually &= uint8(r.next())
	}
	for k := 1 + r.below(2); k > 0; k-- {
		y.init = append(y.init, uint8(r.below(y.n)))
	}
	density := 1 + r.below(4)
	for n := range y.n {
		for k := r.below(density + 1); k > 0; k-- {
			y.steps[n] = append(y.steps[n], tinyStep{uint8(r.below(3)), uint8(r.below(y.n))})
		}
	}
	if bit(2) {
		y.always = uint8(r.next() | r.next())
	}
	if bit(3) {
		y.bad[r.below(3)] = uint8(r.next() & r.next())
	}
	y.sometimes = uint8(r.next() & r.next())
	if bit(4) {
		y.constrained, y.constraint = true, uint8(r.next()|r.next())
	}
	if bit(6) {
		y.cutAction = r.below(3)
	}
	for k := r.below(4); k > 0; k-- {
		y.fairness = append(y.fairness, tinyFair{bit(2), uint8(1 + r.below(7))})
	}
	return y
}

func lengthOf(r *Report, name string) int {
	for _, p := range r.Properties {
		if p.Name == name && p.Path != nil {
			return p.Path.Len()
		}
	}
	return -1
}

func verdictIn(r *Report, name string) Verdict {
	for _, p := range r.Properties {
		if p.Name == name {
			return p.Verdict
		}
	}
	return ""
}

// TestAgreesWithReference compares the engine with a map and a slice, and its
// liveness with a reference that tries every set of states (CHECK-4, CHECK-17).
func TestAgreesWithReference(t *testing.T) {
	t.Attr("requirement", "CHECK-17")
	live := [2][2]int{}
	for i := range randomSystems {
		r := random(i)
		y := randomTiny(&r)
		o := Options{Workers: 1 + i%3, Exact: i%5 == 0, parallelMin: 1 + i%4}
		got, err := Check(context.Background(), y.model(), o)
		if err != nil {
			t.Fatalf("system %d: %v", i, err)
		}
		want := y.reference()
		have := reference{
			distinct: got.Distinct, states: got.States, transitions: got.Transitions, depth: got.Depth,
			always: lengthOf(got, "always"), step: lengthOf(got, "step"), sometimes: lengthOf(got, "sometimes"), deadlock: lengthOf(got, deadlockName),
			eventually: verdictIn(got, "eventually") == Violated, leadsTo: verdictIn(got, "leads-to") == Violated,
		}
		if have != want {
			t.Fatalf("system %d: %+v\nengine    %+v\nreference %+v", i, y, have, want)
		}
		if msg := y.checkPaths(got); msg != "" {
			t.Fatalf("system %d: %+v\n%s", i, y, msg)
		}
		for k, v := range []bool{want.eventually, want.leadsTo} {
			if v {
				live[k][1]++
			} else {
				live[k][0]++
			}
		}
	}
	// The comparison means nothing if one verdict hardly occurs.
	for k, c := range live {
		if c[0] < randomSystems/10 || c[1] < randomSystems/10 {
			t.Fatalf("liveness property %d: %d hold and %d are violated of %d systems", k, c[0], c[1], randomSystems)
		}
	}
}

// checkPaths follows every path of a report on the system.
func (y *tiny) checkPaths(r *Report) string {
	for _, p := range r.Properties {
		if p.Path == nil {
			continue
		}
		walk, actions := y.follow(p.Path)
		if walk == nil {
			return p.Name + ": the path does not replay"
		}
		last := walk[len(walk)-1]
		ok := true
		switch p.Name {
		case "always":
			ok = !has(y.always, last)
		case "sometimes":
			ok = has(y.sometimes, last)
		case "step":
			ok = len(walk) > 1 && has(y.bad[actions[len(actions)-1]], walk[len(walk)-2]^last)
		case "eventually":
			ok = y.checkLasso(p.Path, walk, actions, 0, y.eventually)
		case "leads-to":
			ok = false
			for k, n := range walk {
				ok = ok || has(y.from, n) && y.checkLasso(p.Path, walk, actions, k, y.to)
			}
		}
		if !ok {
			return p.Name + ": the path shows no violation"
		}
	}
	return ""
}

// follow returns the states and actions of a path, or nothing when it is none of the system.
func (y *tiny) follow(p *Path) ([]uint8, []uint8) {
	var walk, actions []uint8
	for i, st := range p.Steps {
		n, _ := strconv.Atoi(st.State[0].Value)
		walk = append(walk, uint8(n))
		if i == 0 {
			continue
		}
		a := st.Action[0] - 'A'
		actions = append(actions, a)
		found := false
		for _, x := range y.steps[walk[i-1]] {
			found = found || x == tinyStep{a, uint8(n)} && y.followed(x)
		}
		if !found {
			return nil, nil
		}
	}
	for _, n := range y.init {
		if n == walk[0] {
			return walk, actions
		}
	}
	return nil, nil
}

// checkLasso reports whether nothing from walk[from] on is in to, and the cycle
// keeps every assumption.
func (y *tiny) checkLasso(p *Path, walk, actions []uint8, from int, to uint8) bool {
	loop := p.Loop
	if loop == len(walk) {
		loop = len(walk) - 1
	}
	if loop < 0 || walk[loop] != walk[len(walk)-1] {
		return false
	}
	for _, n := range walk[min(from, loop):] {
		if has(to, n) {
			return false
		}
	}
	for _, f := range y.fairness {
		all, some, taken := true, false, false
		for k := loop; k < len(walk); k++ {
			enabled := false
			for _, st := range y.steps[walk[k]] {
				enabled = enabled || st.to != walk[k] && has(f.actions, st.action)
			}
			all, some = all && enabled, some || enabled
			taken = taken || k > loop && walk[k] != walk[k-1] && has(f.actions, actions[k-1])
		}
		if !taken && (f.strong && some || all) {
			return false
		}
	}
	return true
}
