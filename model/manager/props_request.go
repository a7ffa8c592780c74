package manager

import "microvms/model"

// identities: MGR-I1, I2, B1.
func (c *Config) identities() []property {
	again := func(from State, a model.Action, to State) bool {
		return a.ID == ActRun && from != to && c.named(&from, a.Arg[1]) >= 0
	}
	fresh := func(from State, a model.Action, to State) bool {
		return a.ID == ActRun && !from.Shut && c.named(&from, a.Arg[1]) < 0
	}
	return []property{
		// MGR-I1.
		always(c.hasToken(), "a token names at most one known run",
			c.someRun(func(r RunState) bool { return r.known() && r.Token != 0 }),
			func(s State) bool {
				n := 0
				for i := range s.Runs {
					if s.Runs[i].known() && s.Runs[i].Token != 0 {
						n++
					}
				}
				return n <= 1
			}, "MGR-3", "MGR-28"),
		// MGR-I2.
		onStep(c.hasToken(), "a repeated token gets the id of its run, and starts nothing", again,
			func(from State, a model.Action, to State) bool {
				i := c.named(&from, a.Arg[1])
				return c.replied(&to.Conns[a.Arg[0]], RunReply, uint8(i)) && to.Runs == from.Runs && to.Free == from.Free
			}, "MGR-3", "MGR-4"),
		onStep(true, "another request gets the next id at once, and is queued", fresh,
			func(from State, a model.Action, to State) bool {
				next := uint8(0)
				for i := range c.Runs {
					if from.Runs[i].Phase != Absent {
						next = i + 1
					}
				}
				if next == MaxRuns {
					return false
				}
				return c.replied(&to.Conns[a.Arg[0]], RunReply, next) && to.Runs[next].Phase != Absent && from.Runs[next].Phase == Absent
			}, "MGR-1", "MGR-5"),
		onStep(true, "a run request subscribes its connection",
			func(from State, a model.Action, to State) bool { return a.ID == ActRun && from != to },
			func(from State, a model.Action, to State) bool {
				k := &to.Conns[a.Arg[0]]
				for i := range c.Runs {
					if k.holds(RunReply, i) && k.View[i].Sub == Unsubscribed {
						return false
					}
				}
				return true
			}, "MGR-2", "MGR-4"),
		always(c.hasToken(), "a token is released with its run",
			c.someRun(func(r RunState) bool { return r.Phase == Released }),
			c.everyRun(func(r RunState) bool { return r.Phase != Released || r.Token == 0 }), "MGR-5"),
		// MGR-B1.
		always(true, "a subscription was made for this boot",
			not(c.everyView(func(_ Conn, v View, _ RunState, _ uint8) bool { return v.Sub == Unsubscribed })),
			c.everyView(func(_ Conn, v View, _ RunState, _ uint8) bool { return v.Sub == Unsubscribed || !v.Foreign }), "MGR-18"),
		onStep(c.Restarts > 0, "an attach under another boot is told so, whatever the id",
			func(from State, a model.Action, to State) bool { return a.ID == ActAttach && a.Arg[2] != 0 },
			func(from State, a model.Action, to State) bool {
				return c.Answer(from, a) == BootMismatch && from == to
			}, "MGR-18"),
	}
}

// named is the known run of a token, or -1: written apart from the rule.
func (c *Config) named(s *State, token uint8) int {
	for i := range s.Runs[:c.Runs] {
		if token != 0 && s.Runs[i].known() && s.Runs[i].Token == token {
			return i
		}
	}
	return -1
}

// connectionRules: MGR-D1.
func (c *Config) connectionRules() []property {
	return []property{
		onStep(c.Disconnects > 0, "a connection that goes or comes changes no run",
			func(from State, a model.Action, to State) bool { return a.ID == ActDisconnect || a.ID == ActReconnect },
			sameRuns, "MGR-16"),
		onStep(true, "reads, attaches and deliveries change no run",
			func(from State, a model.Action, to State) bool {
				return a.ID == ActRead || a.ID == ActAttach || a.ID == ActDeliver
			}, sameRuns, "MGR-29"),
		always(c.Disconnects > 0, "a connection that is down is subscribed to nothing",
			func(s State) bool { return c.someConn(&s, func(k Conn) bool { return !k.Up && k.Drops > 0 }) },
			func(s State) bool {
				return !c.someConn(&s, func(k Conn) bool { return !k.Up && (k.View != [MaxRuns]View{} || k.Len > 0) })
			}, "MGR-16"),
	}
}

// replied reports whether the connection was sent that message: it holds it, or
// has read it at once.
func (c *Config) replied(k *Conn, kind ItemKind, run uint8) bool {
	return k.holds(kind, run) || c.Eager && k.View[run].Level >= item(kind, run, 0).level()
}

func sameRuns(from State, _ model.Action, to State) bool {
	return from.Runs == to.Runs && from.Free == to.Free && from.Shut == to.Shut
}

func (c *Config) someConn(s *State, f func(k Conn) bool) bool {
	for i := range s.Conns[:c.Conns] {
		if f(s.Conns[i]) {
			return true
		}
	}
	return false
}
