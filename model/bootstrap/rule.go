package bootstrap

// The daemon's rule, one pure function for each moment that matters. A
// deviation is one plausible mistake in one of them; everything else in the
// package (requests, interleaving, properties) is common to the specified rule
// and to every deviation.

// record enters a hook request in the hook log, or counts it once the log is
// full: the earliest requests are kept (wire facts, section 4.1).
func (c *Config) record(s *State, h Hook) (kept bool) {
	if c.Deviation == LogForgetsHook {
		h = Run
	}
	if int(s.Logged) < c.LogCap || c.Deviation == LogUncapped {
		s.setLogEntry(int(s.Logged), h)
		s.Logged++
		return true
	}
	switch c.Deviation {
	case DroppedNotCounted:
		return false
	case LogKeepsNewest:
		for i := 1; i < int(s.Logged); i++ {
			s.setLogEntry(i-1, s.LogEntry(i))
		}
		s.setLogEntry(int(s.Logged)-1, h)
	}
	s.Dropped++
	return false
}

// acknowledge is the outcome of a hook other than run: it never depends on the
// bootstrap state, since ready and validate come before any token exists (wire
// facts, section 4).
func (c *Config) acknowledge(s *State, h Hook) Outcome {
	if c.Deviation == ResumeNeedsToken && h == Resume && s.Token == NoToken {
		return Unavailable
	}
	if c.Deviation == TerminateEndsService && h == Terminate {
		s.Token, s.Env = NoToken, NoEnv
	}
	return Acknowledged
}

// decide is the run hook's decision, made whole under one lock: token and
// environment are installed together or not at all (wire facts, section 4.2).
// read is the token that the decision is based on; the specified rule reads it
// under the same lock.
func (c *Config) decide(s *State, p Payload, read Token) Outcome {
	token := p.Token()
	switch {
	case p == Oversized && c.Deviation != OversizedAs400:
		return TooLarge
	case token == NoToken:
		return c.decideMalformed(s)
	case read == NoToken:
		return c.install(s, p)
	case read == token:
		switch c.Deviation {
		case ReplayReinstallsEnv:
			s.Env = p.Env()
		case ReplayRefused:
			return Conflict
		}
		return Replayed
	}
	switch c.Deviation {
	case SecondTokenAccepted:
		return c.install(s, p)
	case ConflictReplacesEnv:
		s.Env = p.Env()
	case ConflictAnsweredOK:
		return Replayed
	}
	return Conflict
}

func (c *Config) decideMalformed(s *State) Outcome {
	switch c.Deviation {
	case MalformedInstallsEnv:
		s.Env = First
	case MalformedNotFound:
		return NotFound
	}
	return BadRequest
}

func (c *Config) install(s *State, p Payload) Outcome {
	switch c.Deviation {
	case FirstTokenRefused:
		return Conflict
	case TokenThenEnv:
		s.Token = p.Token() // the environment follows in HookInstallEnv
		return Installed
	}
	s.Token, s.Env = p.Token(), p.Env()
	return Installed
}

// handlerDue says whether the workload handler runs for a request: for one that
// was kept in the log and is either the winning bootstrap or one of the other
// handled hooks (wire facts, section 4.3).
func (c *Config) handlerDue(h Hook, o Outcome, kept bool) bool {
	if !c.Handlers || !h.Handled() || !kept && c.Deviation != HandlerForDropped {
		return false
	}
	switch o {
	case Installed, Acknowledged:
		return true
	case Replayed:
		return c.Deviation == HandlerOnReplay
	case Conflict:
		return c.Deviation == HandlerOnConflict
	}
	return false
}

// authorize judges the bearer of a control request. Pending means that the
// request may go on (wire facts, section 1, "auth verdicts").
func (c *Config) authorize(s *State, bearer Token) Outcome {
	if s.Token == NoToken {
		switch c.Deviation {
		case ControlOpenBeforeBootstrap:
			return Pending
		case UnavailableAs401:
			return Unauthorized
		}
		return Unavailable
	}
	matches := bearer == s.Token
	switch c.Deviation {
	case CompareInverted:
		matches = !matches
	case WrongTokenAccepted:
		matches = matches || bearer != NoToken
	case AbsentBearerAccepted:
		matches = matches || bearer == NoToken
	}
	switch {
	case matches:
		return Pending
	case c.Deviation == UnauthorizedAs503:
		return Unavailable
	case c.Deviation == UnauthorizedAs404:
		return NotFound
	}
	return Unauthorized
}

// serve runs an authorized operation. A start is idempotent: the child of a
// known id is not started again.
func (c *Config) serve(s *State, op Op, exec uint8) Outcome {
	known := s.Execs[exec] != 0
	if op == Read {
		switch {
		case known:
			return Served
		case c.Deviation == UnknownExecAs401:
			return Unauthorized
		}
		return NotFound
	}
	if !known || c.Deviation == StartRetriedAfresh {
		s.Execs[exec] = 1 + c.childSees(s)
	}
	return Served
}

// childSees is the environment of a new child: the launch environment, never
// the token.
func (c *Config) childSees(s *State) uint8 {
	v := uint8(s.Env)
	switch c.Deviation {
	case TokenInChildEnv:
		v |= tokenBit
	case StartRetriedAfresh:
		if s.Registered() > 0 {
			v = uint8(NoEnv)
		}
	}
	return v
}

// handlerSees is the environment of a workload handler: the launch environment,
// never the token.
func (c *Config) handlerSees(s *State) uint8 {
	if c.Deviation == TokenInHandlerEnv && s.Token != NoToken {
		return uint8(s.Env) | tokenBit
	}
	return uint8(s.Env)
}
