package bootstrap

import (
	"microvms/model"
)

type (
	property = model.Property[State]
	action   = model.Action
)

// properties returns what must hold of a configuration. A property about a
// feature that the configuration leaves out would be vacuous, so it is stated
// only where the feature is.
func (c *Config) properties() []property {
	var out []property
	if len(c.Payloads) > 0 && c.HookSlots > 0 {
		out = append(out, c.bootstrapProperties()...)
	}
	if c.ControlSlots > 0 {
		out = append(out, c.controlProperties()...)
	}
	out = append(out, c.logProperties()...)
	if c.Handlers {
		out = append(out, c.handlerProperties()...)
	}
	if c.Cuts {
		out = append(out, cutProperty().WitnessedBy("a client vanishes while its request is in flight"))
	}
	if c.Liveness {
		out = append(out, c.livenessProperties()...)
	}
	if c.Deviation != Specified {
		// Witnesses guard a pass against being vacuous. A planted fault is not meant to pass, and makes many of them
		// unreachable.
		for i := range out {
			out[i].Witness = ""
		}
		return out
	}
	return append(out, c.witnesses()...)
}

// decided reports whether the step is the decision of a run hook, and returns
// what it carried.
func decided(from State, a action) (Payload, bool) {
	if a.ID != HookDecide {
		return NoPayload, false
	}
	return from.Hooks[a.Arg[0]].Payload, true
}

// brings reports whether the step decides a run hook that brings a token.
func brings(from State, a action) (Payload, bool) {
	p, ok := decided(from, a)
	return p, ok && p.Token() != NoToken
}

func sameBoot(from, to State) bool { return from.Token == to.Token && from.Env == to.Env }

func outcomeOf(to State, a action) Outcome { return to.Hooks[a.Arg[0]].Outcome }

func (c *Config) bootstrapProperties() []property {
	first := func(from State, a action, _ State) bool {
		_, ok := brings(from, a)
		return ok && from.Token == NoToken
	}
	repeated := func(from State, a action, _ State) bool {
		p, ok := brings(from, a)
		return ok && from.Token != NoToken && p.Token() == from.Token
	}
	conflicting := func(from State, a action, _ State) bool {
		p, ok := brings(from, a)
		return ok && from.Token != NoToken && p.Token() != from.Token
	}
	refusedByShape := func(from State, a action, _ State) bool {
		p, ok := decided(from, a)
		return ok && p.Token() == NoToken
	}
	out := []property{
		model.AlwaysStep("a first bootstrap installs its token and environment and answers 200", func(from State, a action, to State) bool {
			p, ok := brings(from, a)
			if !ok || from.Token != NoToken {
				return true
			}
			return to.Token == p.Token() && to.Env == p.Env() && outcomeOf(to, a).Status() == 200
		}, "AGENTD-2", "HOOK-11").WhenStep(first).WitnessedBy("the platform bootstraps the daemon"),
		model.AlwaysStep("token and environment change only in one install out of nothing", func(from State, a action, to State) bool {
			if sameBoot(from, to) {
				return true
			}
			return a.ID == HookDecide && from.Token == NoToken && from.Env == NoEnv && to.Token != NoToken && to.Env != NoEnv
		}, "AGENTD-3", "HOOK-11").WhenStep(func(from State, _ action, to State) bool { return !sameBoot(from, to) }).
			WitnessedBy("the platform bootstraps the daemon"),
		model.Always("an environment is installed if and only if a token is", func(s State) bool {
			return (s.Token == NoToken) == (s.Env == NoEnv)
		}, "HOOK-11").When(func(s State) bool { return s.Token != NoToken }).WitnessedBy("the platform bootstraps the daemon"),
	}
	if c.MaxHooks > 1 {
		out = append(out, model.AlwaysStep("a repeated bootstrap is answered 200 and changes nothing", func(from State, a action, to State) bool {
			return !repeated(from, a, to) || sameBoot(from, to) && outcomeOf(to, a).Status() == 200
		}, "AGENTD-4", "HOOK-12").WhenStep(repeated).WitnessedBy("an identical bootstrap is repeated"))
	}
	if c.carries(AttackerFirst) {
		out = append(out, model.AlwaysStep("a conflicting bootstrap is answered 409 and changes nothing", func(from State, a action, to State) bool {
			return !conflicting(from, a, to) || sameBoot(from, to) && outcomeOf(to, a).Status() == 409
		}, "AGENTD-3", "HOOK-9").WhenStep(conflicting).WitnessedBy("another token is refused"))
	}
	if c.carries(Malformed) || c.carries(Oversized) {
		out = append(out, model.AlwaysStep("a bootstrap of the wrong shape is answered 400 or 413 and changes nothing", func(from State, a action, to State) bool {
			if !refusedByShape(from, a, to) {
				return true
			}
			want := 400
			if p, _ := decided(from, a); p == Oversized {
				want = 413
			}
			return sameBoot(from, to) && outcomeOf(to, a).Status() == want
		}, "HOOK-5", "HOOK-9").WhenStep(refusedByShape).WitnessedBy("a malformed bootstrap is refused"))
	}
	return out
}

func (c *Config) controlProperties() []property {
	authorizes := func(a action) bool { return a.ID == ControlAuthorize }
	before := func(from State, a action, _ State) bool { return authorizes(a) && from.Token == NoToken }
	wrong := func(from State, a action, _ State) bool {
		return authorizes(a) && from.Token != NoToken && bearer(a) != from.Token && bearer(a) != NoToken
	}
	absent := func(from State, a action, _ State) bool {
		return authorizes(a) && from.Token != NoToken && bearer(a) == NoToken
	}
	right := func(from State, a action, _ State) bool {
		return authorizes(a) && from.Token != NoToken && bearer(a) == from.Token
	}
	refused := func(to State, a action, status int) bool {
		r := to.Controls[a.Arg[0]]
		return r.Phase == ControlAnswering && r.Outcome.Status() == status
	}
	out := []property{
		model.AlwaysStep("a control request before bootstrap is answered 503", func(from State, a action, to State) bool {
			return !before(from, a, to) || refused(to, a, 503)
		}, "AGENTD-1").WhenStep(before).WitnessedBy("a control request before bootstrap is refused"),
		model.AlwaysStep("a control request with the installed token is accepted", func(from State, a action, to State) bool {
			return !right(from, a, to) || to.Controls[a.Arg[0]].Phase == ControlAuthorized
		}, "AGENTD-6").WhenStep(right).WitnessedBy("the client's start is served"),
	}
	if c.presents(Attacker) {
		out = append(out, model.AlwaysStep("a control request with another token is answered 401", func(from State, a action, to State) bool {
			return !wrong(from, a, to) || refused(to, a, 401)
		}, "AGENTD-5").WhenStep(wrong).WitnessedBy("an attacker's start is refused after bootstrap"))
		out = append(out, model.AlwaysStep("the attacker is never authorized", func(from State, a action, to State) bool {
			return !authorizes(a) || bearer(a) != Attacker || to.Controls[a.Arg[0]].Phase != ControlAuthorized
		}, "AUTHZ-9").WhenStep(func(_ State, a action, _ State) bool { return authorizes(a) && bearer(a) == Attacker }).
			WitnessedBy("an attacker's start is refused after bootstrap"))
	}
	if c.presents(NoToken) {
		out = append(out, model.AlwaysStep("a control request without a token is answered 401", func(from State, a action, to State) bool {
			return !absent(from, a, to) || refused(to, a, 401)
		}, "AUTHZ-2").WhenStep(absent).WitnessedBy("a request without a token is refused after bootstrap"))
	}
	return append(out, c.servedProperties()...)
}

// servedProperties state what authorized requests do, and that nothing else does
// it.
func (c *Config) servedProperties() []property {
	return []property{
		model.AlwaysStep("an exec is registered once, by an authorized start that is served", func(from State, a action, to State) bool {
			if from.Execs == to.Execs {
				return true
			}
			r := from.Controls[a.Arg[0]]
			if a.ID != ControlServe || r.Phase != ControlAuthorized || r.Op != Start || from.Execs[r.Exec] != 0 {
				return false
			}
			from.Execs[r.Exec] = to.Execs[r.Exec]
			return from.Execs == to.Execs
		}, "AGENTD-1", "AGENTD-5").WhenStep(func(from State, _ action, to State) bool { return from.Execs != to.Execs }).
			WitnessedBy("the client's start is served"),
		model.AlwaysStep("a served read is answered by whether the exec is registered", func(from State, a action, to State) bool {
			if !servesRead(from, a) {
				return true
			}
			want := 404
			if _, registered := from.Saw(int(from.Controls[a.Arg[0]].Exec)); registered {
				want = 200
			}
			return to.Controls[a.Arg[0]].Outcome.Status() == want
		}, "AGENTD-6").WhenStep(func(from State, a action, _ State) bool { return servesRead(from, a) }).WitnessedBy("the client's read finds the exec"),
		model.Always("a child saw the winner's environment", func(s State) bool {
			for exec := range c.Execs {
				if env, registered := s.Saw(exec); registered && (env != s.Env || env == NoEnv) {
					return false
				}
			}
			return true
		}, "HOOK-11", "HOOK-12").When(func(s State) bool { return s.Registered() > 0 }).WitnessedBy("the client's start is served"),
		model.Always("no child saw the token", func(s State) bool {
			for exec := range c.Execs {
				if s.SawToken(exec) {
					return false
				}
			}
			return true
		}, "SECRET-2").When(func(s State) bool { return s.Registered() > 0 }).WitnessedBy("the client's start is served"),
	}
}

func bearer(a action) Token { return Token(a.Arg[1]) }

func servesRead(from State, a action) bool {
	if a.ID != ControlServe {
		return false
	}
	r := from.Controls[a.Arg[0]]
	return r.Phase == ControlAuthorized && r.Op == Read
}

// servesStart reports whether the step serves a start.
func servesStart(from State, a action) bool {
	if a.ID != ControlServe {
		return false
	}
	r := from.Controls[a.Arg[0]]
	return r.Phase == ControlAuthorized && r.Op == Start
}

// cutProperty: disconnects touch nothing but the request's own slot.
func cutProperty() property {
	cut := func(_ State, a action, _ State) bool { return a.ID == HookCut || a.ID == ControlCut }
	return model.AlwaysStep("a client that vanishes changes nothing", func(from State, a action, to State) bool {
		switch a.ID {
		case HookCut:
			from.Hooks[a.Arg[0]].Gone = true
		case ControlCut:
			from.Controls[a.Arg[0]].Gone = true
		default:
			return true
		}
		return from == to
	}, "EXEC-35").WhenStep(cut)
}
