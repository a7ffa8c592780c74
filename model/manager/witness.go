package manager

import "microvms/model"

// witnesses are the cases that a configuration must reach for its pass to mean
// anything.
func (c *Config) witnesses() []property {
	var ps []property
	state := func(reachable bool, name string, f func(s State) bool, ids ...string) {
		if reachable {
			ps = append(ps, model.Sometimes(name, f, ids...))
		}
	}
	taken := func(reachable bool, name string, f stepCase, ids ...string) {
		if reachable {
			ps = append(ps, model.SometimesStep(name, f, ids...))
		}
	}
	in := func(id uint16, phase Phase, cause Cause) stepCase {
		return func(from State, a model.Action, _ State) bool {
			r := &from.Runs[a.Arg[0]]
			return a.ID == id && r.Phase == phase && r.Cause == cause
		}
	}
	held := !c.Settled // what nothing but a held manager shows
	taken(held || c.crowded(), "a queued run is cancelled", in(ActCancel, Queued, NoCause), "MGR-11")
	taken(held, "a cancel after the permits and before the spawn", in(ActCancel, Granted, NoCause), "MGR-12")
	taken(true, "a running run is cancelled", in(ActCancel, Running, NoCause), "MGR-14")
	taken(held, "a cancel after the exit", in(ActCancel, Draining, ByExit), "MGR-13")
	taken(held, "an exit after the cancel", in(ActExecutorExit, Stopping, ByCancel), "MGR-13")
	taken(!c.NoTime, "a deadline while running", in(ActDeadline, Running, NoCause), "MGR-15")
	taken(!c.NoTime && (held || c.crowded()), "a deadline in the queue", in(ActDeadline, Queued, NoCause), "MGR-15")
	taken(true, "a shutdown while running", func(from State, a model.Action, _ State) bool {
		return a.ID == ActShutdown && c.anyRun(&from, func(r RunState) bool { return r.Phase == Running })
	}, "MGR-24")
	state(c.crowded(), "a run is queued behind held permits", func(s State) bool { return s.Free == 0 && c.waiting(&s) }, "MGR-9")
	state(c.hasBig(), "a small run is queued behind a big one", func(s State) bool {
		return s.Free == 1 && s.Runs[1].Phase == Queued && s.Runs[1].Kind == Big && s.Runs[2].Phase == Queued && s.Runs[2].Kind == Plain
	}, "MGR-9")
	state(c.Conns > 1, "two connections read one terminal event", func(s State) bool {
		return s.Conns[0].View[0].Ends > 0 && s.Conns[1].View[0].Ends > 0
	}, "MGR-6")
	state(c.Conns > 1 || c.Disconnects > 0, "an ending is learned from a snapshot alone", func(s State) bool {
		return c.someConn(&s, func(k Conn) bool { return k.View[0].Snapshot && k.View[0].Ends == 0 })
	}, "MGR-17")
	state(c.Disconnects > 0, "a client that was cut off learns the ending", func(s State) bool {
		return c.someConn(&s, func(k Conn) bool { return k.Drops > 0 && k.View[0].Level == SawEnd })
	}, "MGR-16", "MGR-17")
	state(c.Restarts > 0, "an id is given again by another boot", func(s State) bool {
		return s.Boot > 0 && s.Runs[0].Phase != Absent
	}, "MGR-25")
	state(c.Runs > 1 && c.hasToken(), "a token is used again after its release", func(s State) bool {
		return s.Runs[0].Phase == Released && s.Runs[1].Token != 0
	}, "MGR-5")
	taken(c.hasToken() && (c.Conns > 1 || c.Disconnects > 0), "a repeat tells the ending", func(from State, a model.Action, to State) bool {
		return a.ID == ActRun && from.Conns[a.Arg[0]].View[0].Sub == Unsubscribed && to.Conns[a.Arg[0]].View[0].Sub == Told
	}, "MGR-4")
	taken(!c.Eager, "a terminal event is read after the release", func(from State, a model.Action, to State) bool {
		return a.ID == ActDeliver && from.Conns[a.Arg[0]].Out[0].Kind() == EndedEvent &&
			from.Runs[from.Conns[a.Arg[0]].Out[0].Run()].Phase == Released
	}, "MGR-21")
	return ps
}
