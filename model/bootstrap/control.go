package bootstrap

import "microvms/model"

// authorizeSteps appends the control requests that may arrive at the free slot.
// Arrival and the judgement of the bearer are one step: nothing of a request
// has an effect before it.
func (c *Config) authorizeSteps(s *State, slot int, out []model.Step[State]) []model.Step[State] {
	for _, bearer := range c.Bearers {
		if bearer == Attacker && !c.attackerActive(s) {
			continue
		}
		for exec := range c.Execs {
			for _, op := range [...]Op{Start, Read} {
				next := c.authorizeRequest(*s, slot, bearer, op, uint8(exec))
				a := model.Act(ControlAuthorize, uint8(slot), uint8(bearer), uint8(op), uint8(exec), uint8(next.Controls[slot].Outcome))
				out = append(out, model.Step[State]{Action: a, State: next})
			}
		}
	}
	return out
}

func (c *Config) authorizeRequest(s State, slot int, bearer Token, op Op, exec uint8) State {
	r := ControlRequest{Outcome: c.authorize(&s, bearer)}
	switch {
	case r.Outcome == Pending:
		r.Phase, r.Op, r.Exec = ControlAuthorized, op, exec
	case c.Deviation == WaitsForBootstrap && r.Outcome == Unavailable:
		r = ControlRequest{Phase: ControlWaiting, Op: op, Exec: exec}
	default:
		r.Phase = ControlAnswering
		if c.Deviation == RefusedStartRuns && op == Start {
			c.serve(&s, op, exec)
		}
	}
	s.Controls[slot] = r
	return s
}

// controlSteps appends what can happen to the control request in one slot.
func (c *Config) controlSteps(s *State, slot int, out []model.Step[State]) []model.Step[State] {
	r := &s.Controls[slot]
	id := uint8(slot)
	switch r.Phase {
	case ControlIdle:
		return out
	case ControlWaiting:
		if s.Token != NoToken {
			next := *s
			next.Controls[slot] = ControlRequest{Phase: ControlAnswering, Outcome: Unavailable, Gone: r.Gone}
			out = append(out, model.Step[State]{Action: model.Act(ControlServe, id, uint8(Unavailable)), State: next})
		}
	case ControlAuthorized:
		next := *s
		outcome := c.serve(&next, r.Op, r.Exec)
		next.Controls[slot] = ControlRequest{Phase: ControlAnswering, Outcome: outcome, Gone: r.Gone}
		out = append(out, model.Step[State]{Action: model.Act(ControlServe, id, uint8(outcome)), State: next})
	case ControlAnswering:
		next := *s
		next.Controls[slot] = ControlRequest{}
		out = append(out, model.Step[State]{Action: model.Act(ControlAnswer, id, uint8(r.Outcome)), State: next})
	}
	if c.Cuts && !r.Gone {
		next := *s
		next.Controls[slot].Gone = true
		out = append(out, model.Step[State]{Action: model.Act(ControlCut, id), State: next})
	}
	return out
}
