package bootstrap

import "microvms/model"

// The actions; the index of each in Model.Actions. They bear the names of the
// daemon's transition points (agentd/trace) where there is one.
const (
	HookReceive         uint16 = iota // (slot, hook, payload) a hook request enters the hook log
	HookDecide                        // (slot, outcome) under the lock: install, replay or conflict
	HookAnswer                        // (slot, outcome) the answer is written
	HookCut                           // (slot) the client vanishes before the answer
	ControlAuthorize                  // (slot, bearer, op, exec, outcome) the bearer is judged; pending means authorized
	ControlServe                      // (slot, outcome) an authorized request runs
	ControlAnswer                     // (slot, outcome) the answer is written
	ControlCut                        // (slot) the client vanishes before the answer
	HookHandlerStart                  // (slot) the workload handler starts
	HookHandlerEnd                    // (slot) the workload handler ended
	HookInstallEnv                    // (slot) only where a deviation writes the environment apart from the token
	HookHandlerDeadline               // (slot) the budget passes: the handler is killed, and its entry says so
)

func (c *Config) actions() []model.ActionInfo {
	outcome := map[string][]string{"outcome": outcomeNames[:]}
	slot := []string{"slot"}
	answered := []string{"slot", "outcome"}
	return []model.ActionInfo{
		HookReceive: {Name: "HookReceive", Params: []string{"slot", "hook", "payload"},
			Values: map[string][]string{"hook": hookNames, "payload": payloadNames}},
		HookDecide: {Name: "HookDecide", Params: answered, Values: outcome},
		HookAnswer: {Name: "HookAnswer", Params: answered, Values: outcome},
		HookCut:    {Name: "HookCut", Params: slot},
		ControlAuthorize: {Name: "ControlAuthorize", Params: []string{"slot", "bearer", "op", "exec", "outcome"},
			Values: map[string][]string{"bearer": tokenNames, "op": opNames, "outcome": outcomeNames[:]}},
		ControlServe:     {Name: "ControlServe", Params: answered, Values: outcome},
		ControlAnswer:    {Name: "ControlAnswer", Params: answered, Values: outcome},
		ControlCut:       {Name: "ControlCut", Params: slot},
		HookHandlerStart: {Name: "HookHandlerStart", Params: slot},
		HookHandlerEnd:   {Name: "HookHandlerEnd", Params: slot},
		HookInstallEnv:   {Name: "HookInstallEnv", Params: slot},

		HookHandlerDeadline: {Name: "HookHandlerDeadline", Params: slot},
	}
}

// mayBeDead lists the actions of features that the configuration leaves out.
func (c *Config) mayBeDead() []string {
	var dead []string
	absent := func(present bool, names ...string) {
		if !present {
			dead = append(dead, names...)
		}
	}
	absent(c.HookSlots > 0, "HookReceive", "HookAnswer")
	absent(c.HookSlots > 0 && len(c.Payloads) > 0, "HookDecide")
	absent(c.ControlSlots > 0, "ControlAuthorize", "ControlServe", "ControlAnswer")
	absent(c.Cuts && c.HookSlots > 0, "HookCut")
	absent(c.Cuts && c.ControlSlots > 0, "ControlCut")
	absent(c.Handlers, "HookHandlerStart", "HookHandlerEnd")
	absent(c.Deadlines, "HookHandlerDeadline")
	absent(c.Deviation == TokenThenEnv, "HookInstallEnv")
	return dead
}

// fairness assumes that the daemon goes on with every request that it can go on
// with: the steps of each slot are weakly fair. Clients promise nothing.
func (c *Config) fairness() []model.Fairness {
	var out []model.Fairness
	end := HookHandlerEnd
	if c.Deadlines {
		end = HookHandlerDeadline // a handler may hang: then only the budget ends it
	}
	for slot := range c.HookSlots {
		out = append(out, progress("hook", uint8(slot), HookDecide, HookInstallEnv, HookHandlerStart, end, HookAnswer))
	}
	for slot := range c.ControlSlots {
		out = append(out, progress("control", uint8(slot), ControlAuthorize, ControlServe, ControlAnswer))
	}
	return out
}

func progress(sort string, slot uint8, ids ...uint16) model.Fairness {
	return model.Fairness{
		Name: "the daemon goes on with the " + sort + " request in slot " + string('0'+rune(slot)),
		Match: func(a model.Action) bool {
			if a.Arg[0] != slot {
				return false
			}
			for _, id := range ids {
				if a.ID == id {
					return true
				}
			}
			return false
		},
	}
}
