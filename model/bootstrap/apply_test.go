package bootstrap

import (
	"testing"

	"microvms/model"
)

// TestAtomicFormIsTheInterleavedForm takes, in every state between requests,
// each request whole through the steps of the interleaved form and compares
// state and outcome with [Config.Apply]. The judge is tested with a deviation
// that only the interleaved form knows.
func TestAtomicFormIsTheInterleavedForm(t *testing.T) {
	c := Sequential()
	c.Execs, c.MaxHooks, c.LogCap = 1, 3, 2
	if n, bad := compareForms(t, c, c); n < 1000 || bad != 0 {
		t.Errorf("%d requests compared, %d differ", n, bad)
	}
	deviant := c
	deviant.Deviation = LogAfterDecision
	if _, bad := compareForms(t, c, deviant); bad == 0 {
		t.Error("a daemon that records only accepted requests was not noticed")
	}
}

func compareForms(t *testing.T, atomic, split Config) (compared, differ int) {
	t.Helper()
	g, err := model.Explore(t.Context(), NewAtomic(atomic), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g.Edges {
		from, r := g.States[e.From], RequestOf(e.Action)
		want, answer := atomic.Apply(from, r)
		got, outcome := alone(split, from, r)
		compared++
		if got != want || outcome != answer.Outcome {
			differ++
		}
	}
	return compared, differ
}

// alone takes one request through the interleaved form while nothing else
// moves, and returns the outcome in its answer.
func alone(c Config, s State, r Request) (State, Outcome) {
	arrives := func(a model.Action) bool {
		if r.Kind == HookCall {
			return a.ID == HookReceive && Hook(a.Arg[1]) == r.Hook && Payload(a.Arg[2]) == r.Payload
		}
		return a.ID == ControlAuthorize && Token(a.Arg[1]) == r.Bearer && Op(a.Arg[2]) == r.Op && a.Arg[3] == r.Exec
	}
	goesOn := func(a model.Action) bool {
		switch a.ID {
		case HookDecide, HookAnswer, ControlServe, ControlAnswer:
			return true
		}
		return false
	}
	take := func(wanted func(model.Action) bool) (model.Action, bool) {
		for _, st := range c.next(s, nil) {
			if wanted(st.Action) {
				s = st.State
				return st.Action, true
			}
		}
		return model.Action{}, false
	}
	if _, ok := take(arrives); !ok {
		return s, Pending
	}
	outcome := Pending
	for {
		a, ok := take(goesOn)
		if !ok {
			return s, outcome
		}
		outcome = Outcome(a.Arg[1])
	}
}

// TestHistoryForm checks that the two halves of a hook request, taken one after
// the other, are the whole, and that a health read changes nothing.
func TestHistoryForm(t *testing.T) {
	c := HookLog()
	g, err := model.Explore(t.Context(), NewAtomic(c), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g.Edges {
		r := RequestOf(e.Action)
		if r.Kind != HookCall {
			continue
		}
		want, answer := c.Apply(g.States[e.From], r)
		half, rest := r, r
		half.Kind, rest.Kind = HookRecord, HookEffect
		mid, _ := c.Apply(g.States[e.From], half)
		got, second := c.Apply(mid, rest)
		if got != want || second != answer {
			t.Fatalf("halves of %+v differ from the whole", r)
		}
		if after, h := c.Apply(got, Request{Kind: HealthCall}); after != got || int(h.Logged) != len(got.Entries()) || h.Bootstrapped != (got.Token != NoToken) {
			t.Fatalf("health of %+v is %+v", got, h)
		}
	}
}

// TestInitialState pins the initial state, which no step property can see.
func TestInitialState(t *testing.T) {
	for _, c := range Configs() {
		if init := New(c).Init(nil); len(init) != 1 || init[0] != (State{}) {
			t.Errorf("configuration %q starts in %+v", c.Name, init)
		}
	}
}
