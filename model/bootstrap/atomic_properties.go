package bootstrap

import "microvms/model"

// atomicProperties states the requirements of whole requests. Each property is
// an implication over one request: the case it speaks about and what it demands
// of the answer and the next state.
func (c *Config) atomicProperties() []property {
	var out []property
	rule := func(name string, when func(from State, r Request) bool, demand demand, requirements ...string) {
		applies := func(from State, a action, _ State) bool { return when(from, RequestOf(a)) }
		out = append(out, model.AlwaysStep(name, func(from State, a action, to State) bool {
			return !applies(from, a, to) || demand(from, to, atomicOutcome(a))
		}, requirements...).WhenStep(applies))
	}
	brings := func(r Request) bool { return r.Kind == HookCall && r.Payload.Token() != NoToken }
	control := func(r Request) bool { return r.Kind == ControlCall }
	same := func(status int) demand {
		return func(from, to State, o Outcome) bool {
			return sameBoot(from, to) && from.Execs == to.Execs && o.Status() == status
		}
	}
	rule("a control request before bootstrap is answered 503 and changes nothing",
		func(from State, r Request) bool { return control(r) && from.Token == NoToken }, same(503), "AGENTD-1")
	out = append(out, model.AlwaysStep("a first bootstrap installs its token and environment and answers 200", func(from State, a action, to State) bool {
		r := RequestOf(a)
		return !brings(r) || from.Token != NoToken || to.Token == r.Payload.Token() && to.Env == r.Payload.Env() && atomicOutcome(a).Status() == 200
	}, "AGENTD-2", "HOOK-11").WhenStep(func(from State, a action, _ State) bool { return brings(RequestOf(a)) && from.Token == NoToken }))
	rule("a conflicting bootstrap is answered 409 and changes nothing",
		func(from State, r Request) bool {
			return brings(r) && from.Token != NoToken && r.Payload.Token() != from.Token
		}, same(409), "AGENTD-3", "HOOK-9")
	rule("a repeated bootstrap is answered 200 and changes nothing",
		func(from State, r Request) bool {
			return brings(r) && from.Token != NoToken && r.Payload.Token() == from.Token
		}, same(200), "AGENTD-4", "HOOK-12")
	rule("a control request with another token is answered 401 and changes nothing",
		func(from State, r Request) bool {
			return control(r) && from.Token != NoToken && r.Bearer != from.Token && r.Bearer != NoToken
		}, same(401), "AGENTD-5")
	rule("a control request with the installed token is accepted",
		func(from State, r Request) bool { return control(r) && from.Token != NoToken && r.Bearer == from.Token },
		func(_, _ State, o Outcome) bool { return o == Served || o == NotFound }, "AGENTD-6")
	c.atomicHookRules(rule, same)
	return append(out, model.Always("a child saw the winner's environment", func(s State) bool {
		for exec := range c.Execs {
			if env, registered := s.Saw(exec); registered && (env != s.Env || env == NoEnv) {
				return false
			}
		}
		return true
	}, "HOOK-11").When(func(s State) bool { return s.Registered() > 0 }))
}

type (
	demand     func(from, to State, o Outcome) bool
	atomicRule func(name string, when func(from State, r Request) bool, demand demand, requirements ...string)
)

// atomicHookRules states the rules that need more than the smallest
// configuration, where it has what they speak about.
func (c *Config) atomicHookRules(rule atomicRule, same func(status int) demand) {
	if c.presents(NoToken) {
		rule("a control request without a token is answered 401 and changes nothing",
			func(from State, r Request) bool {
				return r.Kind == ControlCall && from.Token != NoToken && r.Bearer == NoToken
			}, same(401), "AUTHZ-2")
	}
	if c.carries(Malformed) {
		rule("a malformed bootstrap is answered 400 and changes nothing",
			func(_ State, r Request) bool { return r.Kind == HookCall && r.Payload == Malformed }, same(400), "HOOK-5", "HOOK-9")
	}
	if c.carries(Oversized) {
		rule("an oversized bootstrap is answered 413 and changes nothing",
			func(_ State, r Request) bool { return r.Kind == HookCall && r.Payload == Oversized }, same(413), "HOOK-9")
	}
	if len(c.Hooks) > 0 {
		rule("a hook other than run is answered 200 and changes nothing",
			func(_ State, r Request) bool { return r.Kind == HookCall && r.Hook != Run }, same(200), "HOOK-3")
	}
	if c.calls(Terminate) {
		rule("a terminate hook leaves the daemon open to the client",
			func(from State, r Request) bool {
				return r.Kind == HookCall && r.Hook == Terminate && from.Token != NoToken
			},
			func(from, to State, _ Outcome) bool { return sameBoot(from, to) }, "HOOK-4")
	}
	rule("each hook request is recorded or counted once",
		func(_ State, r Request) bool { return r.Kind == HookCall },
		func(from, to State, _ Outcome) bool { return to.Logged+to.Dropped == from.Logged+from.Dropped+1 }, "HOOK-1")
	if c.MaxHooks > c.LogCap {
		rule("a full log keeps its entries and counts",
			func(from State, r Request) bool { return r.Kind == HookCall && int(from.Logged) == c.LogCap },
			func(from, to State, _ Outcome) bool { return to.Log == from.Log && to.Dropped == from.Dropped+1 }, "HOOK-2")
	}
}

func atomicOutcome(a action) Outcome {
	if a.ID == HookRequestAction {
		return Outcome(a.Arg[2])
	}
	return Outcome(a.Arg[3])
}
