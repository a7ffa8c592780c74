package bootstrap

import (
	"slices"

	"microvms/model"
)

// carries reports whether run hooks may carry the payload.
func (c *Config) carries(p Payload) bool {
	return slices.Contains(c.Payloads, p)
}

// calls reports whether a hook other than run is called.
func (c *Config) calls(h Hook) bool { return slices.Contains(c.Hooks, h) }

// presents reports whether control requests may present the bearer.
func (c *Config) presents(t Token) bool {
	return slices.Contains(c.Bearers, t)
}

// witnesses returns the cases that a configuration must reach, so that a
// property cannot pass for want of them. In particular the attacker has to try
// everything that it may try, and to be refused (models facts, section 6.1).
func (c *Config) witnesses() []property {
	var out []property
	step := func(when bool, name string, taken func(from State, a action, to State) bool, requirements ...string) {
		if when {
			out = append(out, model.SometimesStep(name, taken, requirements...))
		}
	}
	state := func(when bool, name string, reached func(s State) bool, requirements ...string) {
		if when {
			out = append(out, model.Sometimes(name, reached, requirements...))
		}
	}
	if c.HookSlots > 0 && len(c.Payloads) > 0 {
		c.bootstrapWitnesses(step, state)
	}
	if c.HookSlots > 0 {
		c.logWitnesses(step, state)
	}
	if c.ControlSlots > 0 {
		c.controlWitnesses(step, state)
	}
	if c.Handlers {
		c.handlerWitnesses(step, state)
	}
	step(c.Cuts, "a client vanishes while its request is in flight", func(_ State, a action, _ State) bool {
		return a.ID == HookCut || a.ID == ControlCut
	})
	return out
}

type (
	addStep  func(when bool, name string, taken func(from State, a action, to State) bool, requirements ...string)
	addState func(when bool, name string, reached func(s State) bool, requirements ...string)
)

func (c *Config) bootstrapWitnesses(step addStep, state addState) {
	// decides builds the predicate "a run hook with this payload is decided with this outcome while that token is installed".
	decides := func(installed Token, p Payload, o Outcome) func(from State, a action, to State) bool {
		return func(from State, a action, to State) bool {
			got, ok := decided(from, a)
			return ok && got == p && from.Token == installed && outcomeOf(to, a) == o
		}
	}
	twice := c.MaxHooks > 1
	second := c.carries(HarnessSecond)
	step(true, "the platform bootstraps the daemon", decides(NoToken, HarnessFirst, Installed), "AGENTD-2")
	step(twice, "an identical bootstrap is repeated", decides(Harness, HarnessFirst, Replayed), "AGENTD-4")
	step(second, "the platform bootstraps the daemon with the second environment", decides(NoToken, HarnessSecond, Installed), "AGENTD-2")
	step(second, "a bootstrap is repeated with another environment", func(from State, a action, to State) bool {
		p, ok := brings(from, a)
		return ok && p.Token() == from.Token && p.Env() != from.Env && outcomeOf(to, a) == Replayed
	}, "AGENTD-4", "HOOK-12")
	step(c.carries(AttackerFirst), "another token is refused", decides(Harness, AttackerFirst, Conflict), "AGENTD-3")
	step(c.carries(AttackerSecond), "another token with the other environment is refused", decides(Harness, AttackerSecond, Conflict), "AGENTD-3")
	step(c.AttackerFromStart, "an attacker bootstraps the daemon", decides(NoToken, AttackerFirst, Installed))
	step(c.AttackerFromStart, "the platform is refused after an attacker's bootstrap", decides(Attacker, HarnessFirst, Conflict))
	step(c.carries(Malformed), "a malformed bootstrap is refused", decides(NoToken, Malformed, BadRequest), "HOOK-9")
	step(c.carries(Malformed), "a malformed bootstrap is refused after bootstrap", decides(Harness, Malformed, BadRequest), "HOOK-9")
	step(c.carries(Oversized), "an oversized bootstrap is refused", decides(NoToken, Oversized, TooLarge), "HOOK-9")
	state(c.HookSlots > 1, "two bootstraps are undecided at once", func(s State) bool {
		return s.Token == NoToken && s.Hooks[0].Payload.Token() != NoToken && s.Hooks[1].Payload.Token() != NoToken
	}, "AGENTD-2")
	step(c.HookSlots > 1, "the loser of a race is decided while the winner is unanswered", func(from State, a action, to State) bool {
		if a.ID != HookDecide || outcomeOf(to, a) != Replayed {
			return false
		}
		return from.Hooks[1-a.Arg[0]].Outcome == Installed
	}, "AGENTD-4", "HOOK-11")
	step(c.Cuts && c.HookSlots > 1, "a bootstrap is retried after its first answer was lost", func(from State, a action, to State) bool {
		if a.ID != HookDecide || outcomeOf(to, a) != Replayed {
			return false
		}
		other := from.Hooks[1-a.Arg[0]]
		return other.Outcome == Installed && other.Gone
	}, "AGENTD-4")
	step(c.Cuts, "a bootstrap is installed although its client vanished", func(from State, a action, to State) bool {
		return a.ID == HookDecide && from.Hooks[a.Arg[0]].Gone && outcomeOf(to, a) == Installed
	}, "AGENTD-2")
}

func (c *Config) logWitnesses(step addStep, _ addState) {
	step(true, "a hook request is kept in the log", func(from State, a action, to State) bool {
		return a.ID == HookReceive && to.Logged > from.Logged
	}, "HOOK-1")
	step(c.overflows(), "the hook log is full and a request is dropped", func(from State, a action, to State) bool {
		return a.ID == HookReceive && int(from.Logged) == c.LogCap && to.Dropped > from.Dropped
	}, "HOOK-2")
	step(c.carries(Malformed), "a malformed bootstrap is kept in the log", func(from State, a action, to State) bool {
		return a.ID == HookReceive && Payload(a.Arg[2]) == Malformed && to.Logged > from.Logged
	}, "HOOK-1")
	step(len(c.Payloads) > 0 && c.overflows() && (c.carries(Malformed) || len(c.Hooks) > 0), "a dropped bootstrap is still decided", func(from State, a action, to State) bool {
		return a.ID == HookDecide && from.Dropped > 0 && outcomeOf(to, a) == Installed && from.Hooks[1-a.Arg[0]].Phase == HookIdle
	}, "HOOK-2", "AGENTD-2")
	step(len(c.Hooks) > 0, "a hook other than run is answered before bootstrap", func(from State, a action, _ State) bool {
		return a.ID == HookAnswer && Outcome(a.Arg[1]) == Acknowledged && from.Token == NoToken
	}, "HOOK-3")
	step(len(c.Hooks) > 0 && len(c.Payloads) > 0, "a hook other than run is answered after bootstrap", func(from State, a action, _ State) bool {
		return a.ID == HookAnswer && Outcome(a.Arg[1]) == Acknowledged && from.Token != NoToken
	}, "HOOK-3")
}

func (c *Config) controlWitnesses(step addStep, state addState) {
	// judges builds the predicate "a request with this bearer and operation is judged so while that token is installed".
	judges := func(installed, presented Token, op Op, o Outcome) func(from State, a action, to State) bool {
		return func(from State, a action, _ State) bool {
			return a.ID == ControlAuthorize && from.Token == installed && bearer(a) == presented && Op(a.Arg[2]) == op && Outcome(a.Arg[4]) == o
		}
	}
	attacker := c.presents(Attacker)
	hooks := c.HookSlots > 0
	step(true, "a control request before bootstrap is refused", judges(NoToken, Harness, Start, Unavailable), "AGENTD-1")
	step(attacker, "an attacker's start is refused after bootstrap", judges(Harness, Attacker, Start, Unauthorized), "AGENTD-5")
	step(attacker, "an attacker's read is refused after bootstrap", judges(Harness, Attacker, Read, Unauthorized), "AGENTD-5")
	step(c.AttackerFromStart && attacker, "the client is refused after an attacker's bootstrap", judges(Attacker, Harness, Start, Unauthorized), "AGENTD-5")
	step(c.AttackerFromStart && attacker, "an attacker's request before bootstrap is refused", judges(NoToken, Attacker, Start, Unavailable), "AGENTD-1")
	step(c.presents(NoToken), "a request without a token is refused after bootstrap", judges(Harness, NoToken, Start, Unauthorized), "AUTHZ-2")
	step(true, "the client's start is served", func(from State, a action, to State) bool {
		return servesStart(from, a) && from.Token == Harness && from.Execs != to.Execs
	}, "AGENTD-6")
	step(true, "the client's read finds the exec", func(from State, a action, to State) bool {
		return servesRead(from, a) && to.Controls[a.Arg[0]].Outcome == Served
	}, "AGENTD-6")
	step(true, "the client's read finds no exec", func(from State, a action, to State) bool {
		return servesRead(from, a) && to.Controls[a.Arg[0]].Outcome == NotFound
	}, "AGENTD-6")
	for _, env := range []Env{First, Second} {
		state(c.carries(harnessPayload(env)), "a child saw the "+env.String()+" environment", func(s State) bool {
			got, registered := s.Saw(0)
			return registered && got == env
		}, "HOOK-11")
	}
	step(hooks, "the token is used before the bootstrap's answer", func(from State, a action, _ State) bool {
		return servesStart(from, a) && (from.Hooks[0].Outcome == Installed || from.Hooks[1].Outcome == Installed)
	}, "HOOK-11")
	state(hooks, "a refusal from before bootstrap is answered after it", func(s State) bool {
		return s.Token != NoToken && (s.Controls[0].Outcome == Unavailable || s.Controls[1].Outcome == Unavailable)
	}, "AGENTD-1")
	step(hooks, "a control request is refused while a bootstrap is undecided", func(from State, a action, _ State) bool {
		return a.ID == ControlAuthorize && from.Token == NoToken && Outcome(a.Arg[4]) == Unavailable &&
			(from.Hooks[0].Payload.Token() != NoToken || from.Hooks[1].Payload.Token() != NoToken)
	}, "AGENTD-1")
	step(c.Cuts, "a start is retried after its answer was lost", func(from State, a action, to State) bool {
		if !servesStart(from, a) || from.Execs != to.Execs {
			return false
		}
		return c.ControlSlots < 2 || from.Controls[1-a.Arg[0]].Gone && from.Controls[1-a.Arg[0]].Outcome == Served
	}, "AGENTD-6")
}

func (c *Config) handlerWitnesses(step addStep, state addState) {
	step(true, "the run handler ran", func(from State, a action, _ State) bool {
		return a.ID == HookHandlerEnd && from.Hooks[a.Arg[0]].Hook == Run
	}, "HOOK-13")
	step(len(c.Hooks) > 0, "another hook's handler ran", func(from State, a action, _ State) bool {
		return a.ID == HookHandlerEnd && from.Hooks[a.Arg[0]].Hook != Run
	})
	state(c.HookSlots > 1, "a handler waits for another", handlerWaits, "HOOK-15")
	step(c.Deadlines, "a handler's budget passes", func(_ State, a action, _ State) bool { return a.ID == HookHandlerDeadline }, "HOOK-16")
	state(c.calls(Suspend) && c.HookSlots > 1, "a suspend arrives while the run handler runs", during(Run, Suspend), "HOOK-22")
	state(c.calls(Terminate) && c.HookSlots > 1, "a terminate arrives while the run handler runs", during(Run, Terminate), "HOOK-22")
	step(true, "a dropped bootstrap is installed without its handler", func(from State, a action, _ State) bool {
		r := from.Hooks[a.Arg[0]]
		return a.ID == HookAnswer && r.Outcome == Installed && !r.Kept
	}, "HOOK-14")
	step(c.ControlSlots > 0, "a client's start is served while the run handler runs", func(from State, a action, _ State) bool {
		return servesStart(from, a) && (from.Hooks[0].Phase == HandlerRunning || from.Hooks[1].Phase == HandlerRunning)
	})
}

// during says whether the handler of the first hook runs while a request of the second waits for its own.
func during(running, waiting Hook) func(s State) bool {
	return func(s State) bool {
		for i := range s.Hooks {
			a, b := &s.Hooks[i], &s.Hooks[1-i]
			if a.Phase == HandlerRunning && a.Hook == running && b.Phase == HandlerDue && b.Hook == waiting {
				return true
			}
		}
		return false
	}
}

func harnessPayload(e Env) Payload {
	if e == Second {
		return HarnessSecond
	}
	return HarnessFirst
}
