package bootstrap

import "microvms/model"

// receiveSteps appends the hook requests that may arrive at the free slot.
func (c *Config) receiveSteps(s *State, slot int, out []model.Step[State]) []model.Step[State] {
	for _, p := range c.Payloads {
		if p.Token() == Attacker && !c.attackerActive(s) {
			continue
		}
		out = append(out, model.Step[State]{Action: model.Act(HookReceive, uint8(slot), uint8(Run), uint8(p)), State: c.receive(*s, slot, Run, p)})
	}
	for _, h := range c.Hooks {
		out = append(out, model.Step[State]{Action: model.Act(HookReceive, uint8(slot), uint8(h), uint8(NoPayload)), State: c.receive(*s, slot, h, NoPayload)})
	}
	return out
}

// receive records the request before anything of it is read; only a run hook
// has something left to decide then.
func (c *Config) receive(s State, slot int, h Hook, p Payload) State {
	kept := false
	if !c.recordsLater() {
		kept = c.record(&s, h)
	}
	r := HookRequest{Phase: HookReceived, Payload: p}
	if c.Handlers {
		r.Hook = h
	}
	if c.Handlers || c.Deviation == DroppedHookIgnored {
		r.Kept = kept
	}
	if c.Deviation == CheckThenAct && p.Token() != NoToken {
		r.Read = s.Token
	}
	if h != Run {
		if c.recordsLater() {
			c.record(&s, h)
		}
		r.Outcome = c.acknowledge(&s, h)
		r.Phase = c.afterDecision(h, r.Outcome, kept)
		c.disturb(&s, h, &r)
	}
	s.Hooks[slot] = r
	return s
}

// disturb plants what a hook may do to a handler that runs, and that to it.
func (c *Config) disturb(s *State, h Hook, r *HookRequest) {
	switch {
	case c.Deviation == TerminateCutsHandler && h == Terminate:
		for i := range s.Hooks {
			if s.Hooks[i].Phase == HandlerRunning {
				s.Hooks[i].Phase, s.Hooks[i].Sees = HookAnswering, 0
			}
		}
	case c.Deviation == SuspendSkipsHandler && h == Suspend && handlerRuns(s):
		r.Phase = HookAnswering
	}
}

func (c *Config) afterDecision(h Hook, o Outcome, kept bool) HookPhase {
	if c.handlerDue(h, o, kept) {
		return HandlerDue
	}
	return HookAnswering
}

// hookSteps appends what can happen to the hook request in one slot.
func (c *Config) hookSteps(s *State, slot int, out []model.Step[State]) []model.Step[State] {
	r := &s.Hooks[slot]
	id := uint8(slot)
	switch r.Phase {
	case HookIdle:
		return out
	case HookReceived:
		if c.Deviation != VanishedHoldsLock || !vanishedBeforeDecision(s) {
			next := c.decideRequest(*s, slot)
			out = append(out, model.Step[State]{Action: model.Act(HookDecide, id, uint8(next.Hooks[slot].Outcome)), State: next})
		}
	case HookHalfInstalled:
		next := *s
		next.Env = r.Payload.Env()
		next.Hooks[slot].Payload = NoPayload
		next.Hooks[slot].Phase = HookAnswering
		out = append(out, model.Step[State]{Action: model.Act(HookInstallEnv, id), State: next})
	case HandlerDue:
		if !handlerRuns(s) || c.Deviation == HandlersConcurrent {
			out = append(out, model.Step[State]{Action: model.Act(HookHandlerStart, id), State: c.startHandler(*s, slot)})
		}
		if c.Deviation == AnswerBeforeHandler {
			out = c.answerHook(s, slot, out)
		}
	case HandlerRunning:
		out = append(out, model.Step[State]{Action: model.Act(HookHandlerEnd, id), State: c.endHandler(*s, slot)})
		if c.Deadlines && c.Deviation != HandlerUnbounded {
			out = append(out, model.Step[State]{Action: model.Act(HookHandlerDeadline, id), State: c.expireHandler(*s, slot)})
		}
	case HookAnswering:
		if c.Deviation != ConflictNeverAnswered || r.Outcome != Conflict {
			out = c.answerHook(s, slot, out)
		}
	}
	if c.Cuts && !r.Gone {
		next := *s
		next.Hooks[slot].Gone = true
		if c.Deviation == CutRollsBack && r.Outcome == Installed {
			next.Token, next.Env = NoToken, NoEnv
		}
		out = append(out, model.Step[State]{Action: model.Act(HookCut, id), State: next})
	}
	return out
}

func vanishedBeforeDecision(s *State) bool {
	for i := range s.Hooks {
		if s.Hooks[i].Phase == HookReceived && s.Hooks[i].Gone {
			return true
		}
	}
	return false
}

func handlerRuns(s *State) bool {
	for i := range s.Hooks {
		if s.Hooks[i].Phase == HandlerRunning {
			return true
		}
	}
	return false
}

// decideRequest is the one step under the lock. Whether the client still waits
// makes no difference.
func (c *Config) decideRequest(s State, slot int) State {
	r := &s.Hooks[slot]
	read := s.Token
	if c.Deviation == CheckThenAct {
		read = r.Read
	}
	payload := r.Payload
	if c.Deviation == DroppedHookIgnored && !r.Kept {
		r.Outcome = Replayed
	} else {
		r.Outcome = c.decide(&s, payload, read)
	}
	c.recordLate(&s, payload, r.Outcome)
	r.Read = NoToken
	r.Payload = NoPayload
	r.Phase = c.afterDecision(Run, r.Outcome, r.Kept)
	if c.Deviation == TokenThenEnv && r.Outcome == Installed {
		r.Phase, r.Payload = HookHalfInstalled, payload
	}
	if c.Deviation == DroppedHookIgnored {
		r.Kept = false
	}
	return s
}

// recordsLater: the request is recorded only after it was parsed or decided.
func (c *Config) recordsLater() bool {
	return c.Deviation == LogAfterParse || c.Deviation == LogAfterDecision
}

func (c *Config) recordLate(s *State, p Payload, o Outcome) {
	switch {
	case c.Deviation == LogAfterParse && p.Token() != NoToken:
		c.record(s, Run)
	case c.Deviation == LogAfterDecision && o.Status() == 200:
		c.record(s, Run)
	}
}

func (c *Config) startHandler(s State, slot int) State {
	r := &s.Hooks[slot]
	r.Phase = HandlerRunning
	r.Runs++
	r.Sees = c.handlerSees(&s)
	if r.Hook == Run {
		s.RunHandlers++
	}
	return s
}

func (c *Config) endHandler(s State, slot int) State {
	r := &s.Hooks[slot]
	r.Phase = HookAnswering
	r.Sees = 0
	if c.Deviation == HandlerTwice && r.Runs < 2 {
		r.Phase = HandlerDue
	}
	return s
}

// expireHandler ends a handler at the end of its budget.
func (c *Config) expireHandler(s State, slot int) State {
	r := &s.Hooks[slot]
	r.Phase = HookAnswering
	r.Sees = 0
	if c.Deviation != DeadlineHidden {
		s.Expired++
	}
	return s
}

// answerHook ends the request. The answer of a request whose client vanished
// goes nowhere.
func (c *Config) answerHook(s *State, slot int, out []model.Step[State]) []model.Step[State] {
	next := *s
	next.Hooks[slot] = HookRequest{}
	return append(out, model.Step[State]{Action: model.Act(HookAnswer, uint8(slot), uint8(s.Hooks[slot].Outcome)), State: next})
}
