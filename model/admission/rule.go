package admission

// wait begins the wait for the next header.
func (s *State) wait(i uint8, served bool) {
	s.Conns[i] = Conn{Phase: Waiting, Served: served, Since: s.last() + 1}
}

// close ends a connection, and gives its slot back.
func (c *Config) close(s *State, i uint8) {
	if !(c.Deviation == LeakOnUpgrade || c.Deviation == UpgradeUncounted) || s.Conns[i].Phase != Tunnel {
		s.Slots--
	}
	s.Conns[i] = Conn{}
}

// oldest returns the connection to close for a newcomer: of those without a
// complete header the one that has waited longest, those that were never
// answered first. It returns MaxConns when there is none.
func (c *Config) oldest(s *State) uint8 {
	best := uint8(MaxConns)
	for i, conn := range s.Conns {
		if conn.Phase != Waiting && (c.Deviation != ServingClosed || conn.Phase != Serving) {
			continue
		}
		if best == MaxConns || c.before(conn, s.Conns[best]) {
			best = uint8(i)
		}
	}
	return best
}

func (c *Config) before(x, y Conn) bool {
	switch {
	case c.Deviation == NewestClosed:
		return x.Since > y.Since
	case c.Deviation == IdleFirst && x.Served != y.Served:
		return x.Served
	case x.Served != y.Served:
		return y.Served
	}
	return x.Since < y.Since
}

// admit lets in those that wait for a slot, first come first served, each at
// the cost of a connection that asks nothing when no slot is free.
func (c *Config) admit(s *State) {
	defer s.renumber()
	for {
		newcomer := uint8(MaxConns)
		for i, conn := range s.Conns {
			if conn.Phase == Backlog && (newcomer == MaxConns || conn.Since < s.Conns[newcomer].Since) {
				newcomer = uint8(i)
			}
		}
		if newcomer == MaxConns {
			return
		}
		if s.Slots >= c.Cap && c.Deviation != CapIgnored {
			victim := c.oldest(s)
			if victim == MaxConns || c.Deviation == NewcomerWaits {
				return
			}
			c.close(s, victim)
			continue
		}
		s.Slots++
		s.wait(newcomer, false)
	}
}

// request takes a complete header and returns what is answered at once.
func (c *Config) request(s *State, i uint8, k Kind) Status {
	conn := &s.Conns[i]
	under := func(p Phase) { *conn = Conn{Phase: p, Served: conn.Served} }
	switch k {
	case Control:
		under(Serving)
		return NoStatus
	case Upgrade:
		under(Tunnel)
		if c.Deviation == UpgradeUncounted {
			s.Slots--
		}
		return Switching
	case Hook:
		under(HookBody)
		return NoStatus
	case Refused:
		if c.Deviation == BodyBeforeJudgement {
			under(Unjudged)
			return NoStatus
		}
		under(Draining)
		return Unauthorized
	case Declared:
		if c.Deviation == DrainUnbounded {
			under(Draining)
			conn.Got = DrainCap
			return Unauthorized
		}
		c.close(s, i) // told by the length: nothing is read
		return Unauthorized
	case TooLarge:
		if c.Deviation == LargeRead {
			under(Draining)
			return NoStatus
		}
		c.close(s, i)
		return TooMuch
	}
	s.wait(i, true)
	return OK
}

func (c *Config) finish(s *State, i uint8) Status {
	if s.Conns[i].Phase == Gone {
		c.close(s, i)
		return NoStatus
	}
	s.wait(i, true)
	return OK
}

// piece reads one piece of a body.
func (c *Config) piece(s *State, i uint8) Status {
	conn := &s.Conns[i]
	conn.Got++
	switch conn.Phase {
	case HookBody:
		if conn.Got > HookCap && c.Deviation != HookUncapped {
			c.close(s, i)
			return TooMuch
		}
	case Draining:
		if c.Deviation == BodyHeld {
			conn.Held = conn.Got
		}
		if conn.Got >= DrainCap && c.Deviation != DrainUnbounded {
			c.close(s, i)
		}
	case Unjudged:
		conn.Held = conn.Got
	}
	return NoStatus
}

// bodyEnd is the end of a body.
func (c *Config) bodyEnd(s *State, i uint8) Status {
	status := NoStatus
	switch s.Conns[i].Phase {
	case HookBody:
		status = OK
	case Unjudged:
		status = Unauthorized
	}
	s.wait(i, true)
	return status
}

// timed reports whether the daemon holds a deadline over a connection.
func (c *Config) timed(conn Conn) bool {
	switch conn.Phase {
	case Waiting:
		return !conn.Served || c.Deviation != IdleUntimed
	case HookBody:
		return c.Deviation != HookUntimed
	case Draining:
		return c.Deviation != DrainUntimed
	}
	return false
}

func (c *Config) deadline(s *State, i uint8) Status {
	phase := s.Conns[i].Phase
	switch {
	case phase == HookBody && c.Deviation == LateHookKept,
		phase == Draining && c.Deviation == IncompleteKept:
		s.wait(i, true)
	default:
		c.close(s, i)
	}
	switch {
	case phase == HookBody:
		return Timeout
	case phase == Waiting && c.Deviation == SilenceAnswered:
		return Timeout
	}
	return NoStatus
}

// clientClose is noticed at once by what reads; a handler is not cut short.
func (c *Config) clientClose(s *State, i uint8) {
	if s.Conns[i].Phase == Serving {
		s.Conns[i] = Conn{Phase: Gone}
		return
	}
	c.close(s, i)
}
