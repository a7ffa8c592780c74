package manager

import (
	"slices"

	"microvms/model"
)

// stops: MGR-C1…C3, and what a stop does in each phase.
func (c *Config) stops() []property {
	return append(c.stopsByCause(),
		// MGR-C1.
		always(!c.Settled || c.crowded(), "a run that is stopped in the queue never has a permit",
			c.someRun(func(r RunState) bool { return r.StopQueued }),
			c.everyRun(func(r RunState) bool { return !r.StopQueued || !r.HeldEver }), "MGR-11"),
		// MGR-C2.
		always(!c.Settled || c.crowded(), "a run that is stopped before its spawn has no executor",
			c.someRun(func(r RunState) bool { return r.StopEarly }),
			c.everyRun(func(r RunState) bool { return !r.StopEarly || r.Spawned == 0 }), "MGR-11", "MGR-12"),
		// MGR-C3.
		always(true, "a run ends by the first cause that was accepted",
			c.someRun(func(r RunState) bool { return r.Phase == Finished }),
			c.everyRun(func(r RunState) bool { return r.Phase != Finished || r.Cause != NoCause && r.Cause == r.First }), "MGR-13"),
		always(true, "a run fails to start if it had no executor and no stop",
			c.someRun(func(r RunState) bool { return r.over() }),
			c.everyRun(func(r RunState) bool {
				return !r.over() || (r.Phase == Failed) == (r.Spawned == 0 && (r.First == NoCause || r.First == ByExit))
			}), "MGR-7"),
		always(true, "a run is given one executor",
			c.someRun(func(r RunState) bool { return r.Spawned > 0 }),
			c.everyRun(func(r RunState) bool { return r.Spawned <= 1 }), "MGR-3"),
		onStep(true, "a stop changes nothing once a cause is fixed",
			func(from State, a model.Action, to State) bool { return c.stopped(from, a, fixed) != 0 },
			func(from State, a model.Action, to State) bool {
				return c.each(c.stopped(from, a, fixed), func(i uint8) bool {
					return to.Runs[i] == from.Runs[i]
				}) && (a.ID != ActCancel || to.Conns == from.Conns)
			}, "MGR-13", "MGR-27"),
		onStep(true, "a shutdown stops every run",
			func(from State, a model.Action, to State) bool { return a.ID == ActShutdown && from.unfinished() },
			func(from State, a model.Action, to State) bool {
				return c.everyRun(func(r RunState) bool { return r.Phase != Queued && (!r.live() || r.Cause != NoCause) })(to)
			}, "MGR-24"),
		onStep(!c.Eager, "no run is accepted after a shutdown",
			func(from State, a model.Action, to State) bool { return from.Shut && to.Shut },
			func(from State, a model.Action, to State) bool {
				for i := range from.Runs {
					if from.Runs[i].Phase == Absent && to.Runs[i].Phase != Absent {
						return false
					}
				}
				return true
			}, "MGR-24"),
	)
}

// stopsByCause are the same two rules for each who can stop a run, since a
// requirement of its own stands behind each.
func (c *Config) stopsByCause() []property {
	queued := func(r RunState) bool { return r.Phase == Queued }
	running := func(r RunState) bool { return r.Phase == Running && r.Cause == NoCause }
	granted := func(r RunState) bool { return r.Phase == Granted && r.Cause == NoCause }
	by := func(f func(r RunState) bool, ids ...uint16) stepCase {
		return func(from State, a model.Action, to State) bool {
			return slices.Contains(ids, a.ID) && c.stopped(from, a, f) != 0
		}
	}
	ends := func(from State, a model.Action, to State) bool {
		return c.each(c.stopped(from, a, queued), func(i uint8) bool {
			return to.Runs[i].Phase == Finished && to.Runs[i].Cause == causeOf(a)
		})
	}
	isCause := func(f func(r RunState) bool, phases ...Phase) stepCase {
		return func(from State, a model.Action, to State) bool {
			return c.each(c.stopped(from, a, f), func(i uint8) bool {
				return to.Runs[i].Cause == causeOf(a) && slices.Contains(phases, to.Runs[i].Phase)
			})
		}
	}
	queues, timed := !c.Settled || c.crowded(), !c.NoTime
	return []property{
		onStep(queues, "a cancel ends a queued run at once", by(queued, ActCancel), ends, "MGR-11"),
		onStep(queues && timed, "a deadline ends a queued run at once", by(queued, ActDeadline), ends, "MGR-15"),
		onStep(queues, "a shutdown ends queued runs at once", by(queued, ActShutdown), ends, "MGR-24"),
		onStep(!c.Settled, "a stop between the permits and the spawn is remembered",
			by(granted, ActCancel, ActDeadline, ActShutdown), isCause(granted, Granted), "MGR-12"),
		onStep(true, "a cancel stops a running run", by(running, ActCancel), isCause(running, Stopping, Finished), "MGR-14"),
		onStep(timed, "a deadline stops a running run", by(running, ActDeadline), isCause(running, Stopping, Finished), "MGR-15"),
		onStep(true, "a shutdown stops running runs", by(running, ActShutdown), isCause(running, Stopping, Finished), "MGR-24"),
	}
}

// fixed reports whether the run's cause stands, or it has ended.
func fixed(r RunState) bool {
	return r.over() || r.Phase == Draining || (r.Phase == Granted || r.Phase == Stopping) && r.Cause != NoCause
}

// stopped returns, as a bit set, the runs as f says that the action asks to
// stop.
func (c *Config) stopped(s State, a model.Action, f func(r RunState) bool) (set uint8) {
	for i := range c.Runs {
		named := (a.ID == ActCancel || a.ID == ActDeadline) && a.Arg[0] == i || a.ID == ActShutdown
		if named && f(s.Runs[i]) {
			set |= 1 << i
		}
	}
	return set
}

func (c *Config) each(set uint8, f func(i uint8) bool) bool {
	for i := range c.Runs {
		if set&(1<<i) != 0 && !f(i) {
			return false
		}
	}
	return true
}

func causeOf(a model.Action) Cause {
	switch a.ID {
	case ActCancel:
		return ByCancel
	case ActDeadline:
		return ByDeadline
	}
	return ByShutdown
}

// liveness is MGR-T4, over runs and over clients, beside the look at every state
// in which nothing goes on by itself.
func (c *Config) liveness() []property {
	ps := []property{model.LeadsTo("every run comes to its end",
		func(s State) bool { return s.unfinished() },
		func(s State) bool { return !s.unfinished() }, "MGR-6")}
	for i := range c.Conns {
		ps = append(ps, model.LeadsTo([MaxConns]string{
			"a client comes to the end of what it was sent",
			"a second client comes to the end of what it was sent",
		}[i],
			func(s State) bool { return s.Conns[i].Len > 0 },
			func(s State) bool { return s.Conns[i].Len == 0 }, "MGR-6"))
	}
	return ps
}

// idle reports whether nothing goes on by itself: no manager step, no executor,
// no unread message.
func (c *Config) idle(s State) bool {
	var buf [3]step
	for i := range c.Runs {
		if s.Runs[i].Phase == Running || len(c.own(s, i, buf[:0])) > 0 {
			return false
		}
	}
	for i := range s.Conns {
		if s.Conns[i].Len > 0 {
			return false
		}
	}
	return true
}

// lifeRules: restarts, and rest.
func (c *Config) lifeRules() []property {
	return []property{
		always(true, "where nothing goes on, every run has ended and everything is read",
			func(s State) bool {
				return c.idle(s) && c.anyRun(&s, func(r RunState) bool { return r.Phase != Absent })
			},
			func(s State) bool { return !s.unfinished() }, "MGR-6"),
		onStep(c.Restarts > 0, "a new boot knows no run, and has all permits",
			func(from State, a model.Action, to State) bool { return a.ID == ActRestart },
			func(from State, a model.Action, to State) bool {
				return to.Runs == [MaxRuns]RunState{} && to.Free == c.permits() && !to.Shut
			}, "MGR-25"),
		always(c.Restarts > 0, "no executor outlives its manager",
			func(s State) bool { return s.Boot > 0 },
			func(s State) bool { return s.Orphans == 0 }, "MGR-26"),
	}
}
