package manager

import "microvms/model"

type property = model.Property[State]

// properties states M12's rules. Each names its case; where a configuration
// cannot reach the case, the property is stated without it, since it would be
// vacuous there.
func (c *Config) properties() []property {
	var ps []property
	ps = append(ps, c.endings()...)
	ps = append(ps, c.permitRules()...)
	ps = append(ps, c.stops()...)
	ps = append(ps, c.identities()...)
	ps = append(ps, c.connectionRules()...)
	ps = append(ps, c.resultRules()...)
	ps = append(ps, c.releaseRules()...)
	ps = append(ps, c.askRules()...)
	ps = append(ps, c.lifeRules()...)
	if c.Liveness {
		ps = append(ps, c.liveness()...)
	}
	return append(ps, c.witnesses()...)
}

// always is an invariant about the states in which when is true.
func always(reachable bool, name string, when, holds func(s State) bool, ids ...string) property {
	p := model.Always(name, func(s State) bool { return !when(s) || holds(s) }, ids...)
	if reachable {
		return p.When(when)
	}
	return p
}

type stepCase = func(from State, a model.Action, to State) bool

// onStep is a property of the transitions for which when is true.
func onStep(reachable bool, name string, when, holds stepCase, ids ...string) property {
	p := model.AlwaysStep(name, func(from State, a model.Action, to State) bool { return !when(from, a, to) || holds(from, a, to) }, ids...)
	if reachable {
		return p.WhenStep(when)
	}
	return p
}

// anyRun reports whether a run is as f says.
func (c *Config) anyRun(s *State, f func(r RunState) bool) bool {
	for i := range s.Runs[:c.Runs] {
		if f(s.Runs[i]) {
			return true
		}
	}
	return false
}

// everyRun is the state predicate that each run is as f says.
func (c *Config) everyRun(f func(r RunState) bool) func(s State) bool {
	return func(s State) bool { return !c.anyRun(&s, func(r RunState) bool { return !f(r) }) }
}

// someRun is the state predicate that some run is as f says.
func (c *Config) someRun(f func(r RunState) bool) func(s State) bool {
	return func(s State) bool { return c.anyRun(&s, f) }
}

// everyView is the state predicate that each connection that is up stands to
// each run as f says.
func (c *Config) everyView(f func(k Conn, v View, r RunState, run uint8) bool) func(s State) bool {
	return func(s State) bool {
		for n := range s.Conns[:c.Conns] {
			k := s.Conns[n]
			for i := range c.Runs {
				if k.Up && !f(k, k.View[i], s.Runs[i], i) {
					return false
				}
			}
		}
		return true
	}
}

func not(f func(s State) bool) func(s State) bool { return func(s State) bool { return !f(s) } }

// endings: exactly one terminal event a run and subscriber (MGR-T1…T3), in order
// (MGR-O1).
func (c *Config) endings() []property {
	owed := not(c.everyView(func(k Conn, v View, r RunState, i uint8) bool {
		return v.EndsOwed == 0 && v.Ends == 0 && k.queued(i) == 0
	}))
	settledBy := not(c.everyView(func(_ Conn, v View, r RunState, _ uint8) bool {
		return !r.over() || v.Sub == Unsubscribed || v.Sub == Between
	}))
	return []property{
		// MGR-T1.
		always(true, "a run has one terminal event, when it has ended",
			c.someRun(func(r RunState) bool { return r.Published > 0 || r.over() || r.Phase == Released }),
			c.everyRun(func(r RunState) bool {
				return r.Published <= 1 && (r.over() || r.Phase == Released) == (r.Published == 1)
			}), "MGR-6"),
		// MGR-T2.
		always(true, "each subscriber gets the terminal event that it is owed, once", owed,
			c.everyView(func(k Conn, v View, _ RunState, i uint8) bool { return v.Ends+k.queued(i) == v.EndsOwed }),
			"MGR-4", "MGR-6", "MGR-17"),
		// MGR-T3.
		always(true, "who is subscribed to an ended run is told how it ended", settledBy,
			c.everyView(func(k Conn, v View, r RunState, i uint8) bool {
				return !r.over() || v.Sub == Unsubscribed || v.Sub == Between || v.EndsOwed > 0 || v.Snapshot || k.holds(SnapshotEnded, i)
			}), "MGR-4", "MGR-17"),
		always(!c.Eager, "an ending is told as it was",
			not(c.everyView(func(k Conn, _ View, r RunState, i uint8) bool { return !r.over() || !k.tells(i) })),
			c.everyView(func(k Conn, _ View, r RunState, i uint8) bool {
				for _, m := range k.Outbox() {
					if r.over() && m.Run() == i && m.level() == SawEnd && m.End() != r.end() {
						return false
					}
				}
				return true
			}), "MGR-6", "MGR-17"),
		// MGR-O1.
		always(true, "a reply precedes every event of its run, and a start its end",
			not(c.everyView(func(k Conn, v View, _ RunState, _ uint8) bool { return k.Len == 0 && v.Level == Unaware })),
			c.everyView(func(k Conn, v View, _ RunState, i uint8) bool { return inOrder(k, v, i) }),
			"MGR-2", "MGR-8", "MGR-17"),
		always(!c.Eager, "who was subscribed at the start gets the start",
			not(c.everyView(func(_ Conn, v View, _ RunState, _ uint8) bool { return !v.StartOwed })),
			c.everyView(func(k Conn, v View, _ RunState, i uint8) bool { return !v.StartOwed || k.holds(StartedEvent, i) }),
			"MGR-8"),
		onStep(!c.Settled, "a start is published with the spawn",
			func(from State, a model.Action, to State) bool { return a.ID == ActSpawnOk },
			func(from State, a model.Action, to State) bool {
				for n := range from.Conns[:c.Conns] {
					k, v := &to.Conns[n], &from.Conns[n].View[a.Arg[0]]
					if v.Sub == Subscribed && !c.replied(k, StartedEvent, a.Arg[0]) {
						return false
					}
				}
				return true
			}, "MGR-8"),
	}
}

// holds reports whether a message of that kind about the run is unread.
func (k *Conn) holds(kind ItemKind, run uint8) bool {
	for _, i := range k.Out[:k.Len] {
		if i.Kind() == kind && i.Run() == run {
			return true
		}
	}
	return false
}

// tells reports whether an unread message tells of the run's ending.
func (k *Conn) tells(run uint8) bool { return k.holds(EndedEvent, run) || k.holds(SnapshotEnded, run) }

// inOrder walks through what the client has read and will read of a run.
func inOrder(k Conn, v View, run uint8) bool {
	level := v.Level
	for _, i := range k.Out[:k.Len] {
		if i.Run() != run {
			continue
		}
		switch i.Kind() {
		case StartedEvent:
			if level != Introduced {
				return false
			}
		case EndedEvent:
			if level == Unaware {
				return false
			}
		case SnapshotQueued, SnapshotStarted, SnapshotEnded:
			if i.level() < level {
				return false
			}
		}
		level = max(level, i.level())
	}
	return true
}

// permitRules: MGR-P1, and the queue's order.
func (c *Config) permitRules() []property {
	return []property{
		always(true, "free and held permits are all permits",
			c.someRun(func(r RunState) bool { return r.HeldEver }),
			func(s State) bool {
				sum := s.Free
				for i := range s.Runs {
					sum += s.Runs[i].Held
				}
				return sum == c.permits()
			}, "MGR-9"),
		always(true, "a run without an executor to come holds no permit",
			c.someRun(func(r RunState) bool { return r.HeldEver && (r.Phase == Draining || r.over()) || r.Phase == Released }),
			c.everyRun(func(r RunState) bool { return r.Held == 0 || r.Phase == Granted || r.running() }), "MGR-10"),
		onStep(c.crowded() && (c.Runs > 2 || !c.Settled), "permits go out in the order of the requests",
			func(from State, _ model.Action, to State) bool {
				return c.firstGranted(from, to) >= 0 && c.waiting(&to)
			},
			func(from State, _ model.Action, to State) bool {
				for i := range c.firstGranted(from, to) {
					if to.Runs[i].Phase == Queued {
						return false
					}
				}
				return true
			}, "MGR-9"),
	}
}

// firstGranted returns the last run that got its permits in the step, or -1.
func (c *Config) firstGranted(from, to State) int {
	for i := int(c.Runs) - 1; i >= 0; i-- {
		if from.Runs[i].Phase <= Queued && to.Runs[i].HeldEver {
			return i
		}
	}
	return -1
}

// waiting reports whether a valid run is queued.
func (c *Config) waiting(s *State) bool {
	return c.anyRun(s, func(r RunState) bool { return r.Phase == Queued && r.Kind != Invalid })
}
