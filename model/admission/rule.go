package admission

// wait begins the wait for the next header.
func (s *State) wait(i uint8, served bool) {
	s.Conns[i] = Conn{Phase: Waiting, Served: served, Since: s.last() + 1}
}

// keep begins another wait, within a request.
func (s *State) keep(i uint8, p Phase) {
	c := &s.Conns[i]
	*c = Conn{Phase: p, Served: c.Served, Ending: c.Ending, Since: s.last() + 1}
}

// close ends a connection, and gives its slot back.
func (c *Config) close(s *State, i uint8) {
	if !(c.Deviation == LeakOnUpgrade || c.Deviation == UpgradeUncounted) || s.Conns[i].Phase != Tunnel {
		s.Slots--
	}
	if s.Asked == i+1 {
		s.Asked = 0
	}
	s.Conns[i] = Conn{}
}

// rank orders what makes room: what never proved to be anybody first, then what
// is idle between requests, then an upload that stalls.
func (c *Config) rank(conn Conn) uint8 {
	switch {
	case conn.Phase == Uploading && c.Deviation != UploadFirst:
		return 2
	case (conn.Phase == Waiting || conn.Phase == Arrived) && conn.Served:
		return 1
	}
	return 0
}

// makesRoom reports whether a connection can be closed for a newcomer.
func (c *Config) makesRoom(conn Conn) bool {
	switch {
	case conn.Phase == Serving && c.Deviation == ServingClosed, conn.Phase.Complete() && c.Deviation == CompleteClosed:
		return true
	case !conn.Phase.Keeps(),
		c.Deviation == BodiesStay && (conn.Phase == HookBody || conn.Phase == Draining || conn.Phase == Uploading),
		c.Deviation == AnswersStay && conn.Phase == Sending:
		return false
	}
	return conn.Ripe || c.Deviation == GraceIgnored
}

// victim returns the connection to close for a newcomer, MaxConns when there is
// none.
func (c *Config) victim(s *State) uint8 {
	best := uint8(MaxConns)
	for i, conn := range s.Conns {
		if c.makesRoom(conn) && (best == MaxConns || c.before(conn, s.Conns[best])) {
			best = uint8(i)
		}
	}
	return best
}

func (c *Config) before(x, y Conn) bool {
	rx, ry := c.rank(x), c.rank(y)
	switch {
	case c.Deviation == NewestClosed:
		return x.Since > y.Since
	case rx != ry:
		return (rx < ry) != (c.Deviation == IdleFirst)
	}
	return x.Since < y.Since
}

// admit lets in those that wait for a slot, first come first served, each at
// the cost of a connection that keeps the daemon waiting when no slot is free.
// One whose request lies in the socket is asked, and goes on: until the daemon
// has read the request, it asks no other.
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
		if s.Slots < c.Cap || c.Deviation == CapIgnored {
			s.Slots++
			s.Asked = 0
			s.wait(newcomer, false)
			continue
		}
		if s.Asked != 0 {
			return
		}
		victim := c.victim(s)
		switch {
		case victim == MaxConns || c.Deviation == NewcomerWaits:
			return
		case s.Conns[victim].Phase == Arrived && c.Deviation != UnreadClosed:
			s.Asked = victim + 1
			return
		}
		c.close(s, victim)
	}
}

// announce is the moment at which the head of an answer is written: while a
// newcomer waits, it announces the end of the connection.
func (c *Config) announce(s *State, i uint8) {
	s.Conns[i].Ending = s.any(Backlog) && c.Deviation != EndUnannounced
}

// answered ends a request whose answer is out.
func (c *Config) answered(s *State, i uint8) Status {
	status := NoStatus
	if s.Conns[i].Phase == Sending {
		status = OK
	}
	if s.Conns[i].Ending {
		c.close(s, i)
	} else {
		s.wait(i, true)
	}
	return status
}

// request takes a complete header and returns what is answered at once.
func (c *Config) request(s *State, i uint8, k Kind) Status {
	if s.Asked == i+1 && c.Deviation != QuestionStays {
		s.Asked = 0 // it has answered
	}
	conn := &s.Conns[i]
	under := func(p Phase) { *conn = Conn{Phase: p, Served: conn.Served} }
	switch k {
	case Control:
		under(Serving)
		return NoStatus
	case Upgrade:
		if c.Deviation == UpgradeEnds && s.any(Backlog) {
			c.close(s, i)
			return Switching
		}
		under(Tunnel)
		if c.Deviation == UpgradeUncounted {
			s.Slots--
		}
		return Switching
	case Hook:
		s.keep(i, HookBody)
		return NoStatus
	case Upload:
		s.keep(i, Uploading)
		return NoStatus
	case Refused:
		if c.Deviation == BodyBeforeJudgement {
			under(Unjudged)
			return NoStatus
		}
		c.announce(s, i)
		s.keep(i, Draining)
		return Unauthorized
	case Declared:
		if c.Deviation == DrainUnbounded {
			c.announce(s, i)
			s.keep(i, Draining)
			conn.Got = DrainCap
			return Unauthorized
		}
		c.close(s, i) // told by the length: nothing is read
		return Unauthorized
	case TooLarge:
		if c.Deviation == LargeRead {
			s.keep(i, Draining)
			return NoStatus
		}
		c.close(s, i)
		return TooMuch
	}
	c.announce(s, i)
	if k == Ignored {
		s.keep(i, Sending)
		return NoStatus
	}
	c.answered(s, i)
	return OK
}

// finish ends a request under way. Its answer is out even where nobody is left to
// read it.
func (c *Config) finish(s *State, i uint8) Status {
	status := OK
	switch s.Conns[i].Phase {
	case Gone:
		c.close(s, i)
		return NoStatus
	case Uploaded:
		status = Malformed
	}
	c.announce(s, i)
	c.answered(s, i)
	return status
}

// piece reads one piece of a body.
func (c *Config) piece(s *State, i uint8) Status {
	conn := &s.Conns[i]
	if conn.Phase == Uploading {
		if c.Deviation != MovingStalls {
			s.keep(i, Uploading) // what moves is not stalled
		}
		return NoStatus
	}
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

// bodyEnd is the end of a body: at once nothing is waited for any more.
func (c *Config) bodyEnd(s *State, i uint8) Status {
	conn := &s.Conns[i]
	switch conn.Phase {
	case HookBody:
		*conn = Conn{Phase: Hooked, Served: conn.Served}
		return NoStatus
	case Uploading:
		*conn = Conn{Phase: Uploaded, Served: conn.Served}
		return NoStatus
	case Unjudged:
		c.announce(s, i)
		c.answered(s, i)
		return Unauthorized
	}
	c.answered(s, i) // after a drain the answer is out
	return NoStatus
}

// timed reports whether the daemon holds a deadline over a connection.
func (c *Config) timed(conn Conn) bool {
	switch conn.Phase {
	case Waiting:
		return !conn.Served || c.Deviation != IdleUntimed
	case HookBody:
		return c.Deviation != HookUntimed
	case Uploading:
		return c.Deviation != UploadUntimed
	case Draining:
		return c.Deviation != DrainUntimed
	case Sending:
		return c.Deviation != AnswerUntimed
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
	case phase == HookBody, phase == Uploading:
		return Timeout
	case phase == Waiting && c.Deviation == SilenceAnswered:
		return Timeout
	}
	return NoStatus
}

// clientClose is noticed at once by what reads; a handler is not cut short.
func (c *Config) clientClose(s *State, i uint8) {
	if phase := s.Conns[i].Phase; phase == Serving || phase.Complete() {
		s.Conns[i] = Conn{Phase: Gone}
		return
	}
	c.close(s, i)
}
