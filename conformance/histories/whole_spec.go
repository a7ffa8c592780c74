package histories

import (
	"slices"

	"microvms/model/bootstrap"
	"microvms/model/execution"
)

// wholeExecs names the exec ids of a history that is judged whole.
var wholeExecs = [bootstrap.MaxExecs]string{"x1", "x2"}

// wholeState is the daemon of a history that is judged whole: the bootstrap
// model's state, and each exec in the atomic form of the execution models.
type wholeState struct {
	Boot  bootstrap.State
	Execs [bootstrap.MaxExecs]execState
}

// whole is the sequential specification.
type wholeSpec struct {
	boot  bootstrap.Config
	execs [bootstrap.MaxExecs]execSpec
}

// wholeSpecification judges bootstrap and execs together, on a fresh daemon.
func wholeSpecification(h *History) specification[wholeState] {
	w := wholeSpec{boot: bootstrap.Config{LogCap: bootstrap.LogSize}}
	for i, id := range wholeExecs {
		var ops []*Operation
		for k := range h.Operations {
			if h.Operations[k].Exec == id {
				ops = append(ops, &h.Operations[k])
			}
		}
		w.execs[i] = newExecSpec(childOf(ops), h.Ring)
	}
	return specification[wholeState]{silent: w.silent, apply: w.apply}
}

func (w *wholeSpec) apply(s wholeState, e entry) []wholeState {
	switch e.Kind {
	case Hook:
		return w.hook(s, e)
	case Health, Procs:
		if !w.observed(&s, e) {
			return nil
		}
		return []wholeState{s}
	}
	return w.control(s, e)
}

// silent returns the states that one silent step of one exec leads to.
func (w *wholeSpec) silent(s wholeState) []wholeState {
	var out []wholeState
	for i := range s.Execs {
		for _, x := range w.execs[i].silent(s.Execs[i]) {
			to := s
			to.Execs[i] = x
			out = append(out, to)
		}
	}
	return out
}

// hook is a run hook in its two halves: it enters the log, and it is decided. They act on different objects.
func (w *wholeSpec) hook(s wholeState, e entry) []wholeState {
	if e.half == first {
		s.Boot, _ = w.boot.Apply(s.Boot, bootstrap.Request{Kind: bootstrap.HookRecord, Hook: bootstrap.Run})
		return []wholeState{s}
	}
	next, answer := w.boot.Apply(s.Boot, bootstrap.Request{Kind: bootstrap.HookEffect, Hook: bootstrap.Run, Payload: payload(e.Operation)})
	if e.Known() && e.Answer.Status != answer.Outcome.Status() {
		return nil
	}
	s.Boot = next
	return []wholeState{s}
}

func payload(o *Operation) bootstrap.Payload {
	switch {
	case o.Token == HarnessToken && o.Env == 1:
		return bootstrap.HarnessFirst
	case o.Token == HarnessToken:
		return bootstrap.HarnessSecond
	case o.Env == 1:
		return bootstrap.AttackerFirst
	}
	return bootstrap.AttackerSecond
}

// control is a control request: the bearer is judged, and an authorized request is the exec's.
func (w *wholeSpec) control(s wholeState, e entry) []wholeState {
	i := slices.Index(wholeExecs[:], e.Exec)
	if e.half == second {
		return w.killAnswer(s, i, e)
	}
	request := bootstrap.Request{Kind: bootstrap.ControlCall, Bearer: bearer(e.Token), Op: bootstrap.Read, Exec: uint8(i)}
	if e.Kind == Start && w.execs[i].refused == nil {
		request.Op = bootstrap.Start
	}
	next, answer := w.boot.Apply(s.Boot, request)
	refused := answer.Outcome == bootstrap.Unauthorized || answer.Outcome == bootstrap.Unavailable
	switch {
	case refused && e.Known() && e.Answer.Status != answer.Outcome.Status():
		return nil
	case refused:
		return []wholeState{s}
	case e.Known() && (e.Answer.Status == 401 || e.Answer.Status == 503):
		return nil
	}
	s.Boot = next
	return w.exec(s, i, e)
}

// exec is an authorized request to exec i.
func (w *wholeSpec) exec(s wholeState, i int, e entry) []wholeState {
	x := w.execs[i]
	x.greet = greeting(&s.Boot, i)
	var out []wholeState
	for _, after := range x.apply(s.Execs[i], e) {
		to := s
		to.Execs[i] = after
		out = append(out, to)
	}
	return out
}

// killAnswer is the second half of a kill. A refused kill has none: its first half was the whole of it.
func (w *wholeSpec) killAnswer(s wholeState, i int, e entry) []wholeState {
	if e.Answer.Status == 401 || e.Answer.Status == 503 {
		return []wholeState{s}
	}
	return w.exec(s, i, e)
}

// greeting is what the child of exec i prints: the launch environment that it was started with.
func greeting(s *bootstrap.State, i int) string {
	env, registered := s.Saw(i)
	if !registered {
		return ""
	}
	return [...]string{bootstrap.NoEnv: "env", bootstrap.First: "env1", bootstrap.Second: "env2"}[env]
}

func bearer(token string) bootstrap.Token {
	if token == HarnessToken {
		return bootstrap.Harness
	}
	return bootstrap.Attacker
}

// observed holds a read of the daemon to the state. Health reads its facts one after another, so each has its own
// place in the order.
func (w *wholeSpec) observed(s *wholeState, e entry) bool {
	_, health := w.boot.Apply(s.Boot, bootstrap.Request{Kind: bootstrap.HealthCall})
	a := e.Answer
	if e.Kind == Procs {
		next, answer := w.boot.Apply(s.Boot, bootstrap.Request{Kind: bootstrap.ControlCall, Bearer: bearer(e.Token), Op: bootstrap.Read})
		if next != s.Boot {
			return false
		}
		if answer.Outcome == bootstrap.Unauthorized || answer.Outcome == bootstrap.Unavailable {
			return a.Status == answer.Outcome.Status()
		}
		return a.Status == 200 && slices.Equal(a.IDs, w.registered(s))
	}
	switch e.half {
	case readsToken:
		return a.Status == 200 && a.Bootstrapped == health.Bootstrapped
	case readsLog:
		return a.Hooks == int(health.Logged)+int(health.Dropped)
	}
	return a.Execs == len(w.registered(s)) && a.Busy == w.busy(s)
}

func (w *wholeSpec) registered(s *wholeState) []string {
	var ids []string
	for i, id := range wholeExecs {
		if w.execs[i].atomic.Poll(s.Execs[i].Object).Answer == execution.OK {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *wholeSpec) busy(s *wholeState) bool {
	for i := range s.Execs {
		seen := w.execs[i].atomic.Poll(s.Execs[i].Object)
		if seen.Answer == execution.OK && seen.Phase == execution.Running {
			return true
		}
	}
	return false
}
