package bootstrap

import "microvms/model"

func (c *Config) logProperties() []property {
	received := func(_ State, a action, _ State) bool { return a.ID == HookReceive }
	full := func(from State, a action, _ State) bool {
		return a.ID == HookReceive && int(from.Logged) == c.LogCap
	}
	if c.HookSlots == 0 {
		return nil
	}
	out := []property{
		model.AlwaysStep("each hook request is recorded or counted once, on receipt", func(from State, a action, to State) bool {
			total := int(to.Logged) + int(to.Dropped) - int(from.Logged) - int(from.Dropped)
			if a.ID == HookReceive {
				return total == 1
			}
			return total == 0 && from.Log == to.Log
		}, "HOOK-1").WhenStep(received).WitnessedBy("a hook request is kept in the log"),
		model.AlwaysStep("a kept request is the log's last entry", func(from State, a action, to State) bool {
			if a.ID != HookReceive || to.Logged != from.Logged+1 {
				return true
			}
			return to.LogEntry(int(to.Logged)-1) == Hook(a.Arg[1])
		}, "HOOK-1").WhenStep(func(from State, a action, to State) bool { return a.ID == HookReceive && to.Logged == from.Logged+1 }).
			WitnessedBy("a hook request is kept in the log"),
	}
	if c.overflows() {
		out = append(out,
			model.AlwaysStep("the log keeps its entries", func(from State, a action, to State) bool {
				if to.Logged < from.Logged {
					return false
				}
				for i := range int(from.Logged) {
					if from.LogEntry(i) != to.LogEntry(i) {
						return false
					}
				}
				return true
			}, "HOOK-2").WhenStep(full).WitnessedBy("the hook log is full and a request is dropped"),
			model.Always("the log holds at most its cap", func(s State) bool { return int(s.Logged) <= c.LogCap }, "HOOK-2").
				When(func(s State) bool { return int(s.Logged) == c.LogCap }).WitnessedBy("the hook log is full and a request is dropped"),
		)
	}
	if len(c.Hooks) > 0 {
		other := func(_ State, a action, _ State) bool { return a.ID == HookReceive && Hook(a.Arg[1]) != Run }
		out = append(out, model.AlwaysStep("a hook other than run is answered 200 in every state", func(from State, a action, to State) bool {
			return !other(from, a, to) || outcomeOf(to, a).Status() == 200
		}, "HOOK-3").WhenStep(other).WitnessedBy("a hook other than run is answered before bootstrap"))
	}
	if c.calls(Terminate) {
		terminates := func(from State, a action, _ State) bool {
			return a.ID == HookReceive && Hook(a.Arg[1]) == Terminate && from.Token != NoToken
		}
		out = append(out, model.AlwaysStep("a terminate hook leaves the daemon open to the client", func(from State, a action, to State) bool {
			return !terminates(from, a, to) || sameBoot(from, to)
		}, "HOOK-4").WhenStep(terminates).WitnessedBy("a hook other than run is answered after bootstrap"))
	}
	return out
}

// overflows: more hook requests arrive in a behaviour than the log holds.
func (c *Config) overflows() bool { return c.MaxHooks > c.LogCap }

// ownsHandler says whether the request in a slot is owed a run of its handler:
// it was kept, and it is the winning bootstrap or another handled hook.
func ownsHandler(r *HookRequest) bool {
	return r.Kept && r.Hook.Handled() && (r.Outcome == Installed || r.Outcome == Acknowledged)
}

func (c *Config) handlerProperties() []property {
	starts := func(_ State, a action, _ State) bool { return a.ID == HookHandlerStart }
	answersOwner := func(from State, a action, _ State) bool {
		return a.ID == HookAnswer && ownsHandler(&from.Hooks[a.Arg[0]])
	}
	dropped := func(from State, a action, _ State) bool {
		return a.ID == HookAnswer && from.Hooks[a.Arg[0]].Hook.Handled() && !from.Hooks[a.Arg[0]].Kept
	}
	out := []property{
		model.AlwaysStep("a handler starts for a winning bootstrap or another handled hook only", func(from State, a action, _ State) bool {
			if a.ID != HookHandlerStart {
				return true
			}
			r := from.Hooks[a.Arg[0]]
			return r.Hook.Handled() && (r.Outcome == Installed || r.Outcome == Acknowledged)
		}, "HOOK-13").WhenStep(starts).WitnessedBy("the run handler ran"),
		model.AlwaysStep("a request owed a handler is answered after exactly one run of it", func(from State, a action, to State) bool {
			return !answersOwner(from, a, to) || from.Hooks[a.Arg[0]].Runs == 1
		}, "HOOK-13", "HOOK-22").WhenStep(answersOwner).WitnessedBy("the run handler ran"),
		model.Always("the run handler starts at most once in the life of the VM", func(s State) bool { return s.RunHandlers <= 1 }, "HOOK-13").
			When(func(s State) bool { return s.RunHandlers > 0 }).WitnessedBy("the run handler ran"),
		model.AlwaysStep("a dropped request is answered without a run of its handler", func(from State, a action, to State) bool {
			return !dropped(from, a, to) || from.Hooks[a.Arg[0]].Runs == 0
		}, "HOOK-14").WhenStep(dropped).WitnessedBy("a dropped bootstrap is installed without its handler"),
		model.Always("at most one handler runs at a time", func(s State) bool {
			n := 0
			for _, r := range s.Hooks {
				if r.Phase == HandlerRunning {
					n++
				}
			}
			return n <= 1
		}, "HOOK-15").When(handlerWaits).WitnessedBy("a handler waits for another"),
		model.AlwaysStep("a handler that runs ends by itself or by its budget, whatever hook arrives", func(from State, a action, to State) bool {
			if a.ID == HookHandlerEnd || a.ID == HookHandlerDeadline {
				return true
			}
			for i, r := range from.Hooks {
				if r.Phase == HandlerRunning && to.Hooks[i].Phase != HandlerRunning {
					return false
				}
			}
			return true
		}, "HOOK-15", "HOOK-16").WhenStep(func(from State, a action, _ State) bool {
			return a.ID == HookReceive && handlerRuns(&from)
		}).WitnessedBy("a handler waits for another"),
		model.Always("no handler sees the token", func(s State) bool {
			for _, r := range s.Hooks {
				if r.Sees&tokenBit != 0 {
					return false
				}
			}
			return true
		}, "SECRET-2", "HOOK-23").When(func(s State) bool { return handlerRuns(&s) && s.Token != NoToken }).WitnessedBy("the run handler ran"),
	}
	if c.Deadlines {
		expires := func(_ State, a action, _ State) bool { return a.ID == HookHandlerDeadline }
		out = append(out, model.AlwaysStep("an entry shows a timeout if and only if the budget ended its handler", func(from State, a action, to State) bool {
			if a.ID == HookHandlerDeadline {
				return to.Expired == from.Expired+1
			}
			return to.Expired == from.Expired
		}, "HOOK-16", "HOOK-20").WhenStep(expires).WitnessedBy("a handler's budget passes"))
	}
	return out
}

// handlerWaits: one handler runs while another request's is due, or runs too.
func handlerWaits(s State) bool {
	due := 0
	for _, r := range s.Hooks {
		if r.Phase == HandlerRunning || r.Phase == HandlerDue {
			due++
		}
	}
	return due > 1 && handlerRuns(&s)
}

func (c *Config) livenessProperties() []property {
	var out []property
	ends := []string{"AGENTD-2", "AGENTD-3", "AGENTD-4"}
	if c.Deadlines {
		ends = append(ends, "HOOK-16") // although a handler may hang
	}
	for slot := range c.HookSlots {
		busy := func(s State) bool { return s.Hooks[slot].Phase != HookIdle }
		idle := func(s State) bool { return s.Hooks[slot].Phase == HookIdle }
		out = append(out, model.LeadsTo("each hook request in slot "+string('0'+rune(slot))+" ends", busy, idle, ends...))
	}
	for slot := range c.ControlSlots {
		busy := func(s State) bool { return s.Controls[slot].Phase != ControlIdle }
		idle := func(s State) bool { return s.Controls[slot].Phase == ControlIdle }
		out = append(out, model.LeadsTo("each control request in slot "+string('0'+rune(slot))+" ends", busy, idle, "AGENTD-1", "AGENTD-5", "AGENTD-6"))
	}
	return out
}
