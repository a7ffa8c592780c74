package manager

import "microvms/model"

// about is the case of a request of one of the kinds, under the current boot,
// for a run as f says.
func about(f func(r RunState) bool, ids ...uint16) stepCase {
	return func(from State, a model.Action, to State) bool {
		for _, id := range ids {
			if a.ID != id {
				continue
			}
			run := a.Arg[0]
			if id == ActAttach {
				run = a.Arg[1]
				if a.Arg[2] != 0 {
					return false
				}
			}
			return f(from.Runs[run])
		}
		return false
	}
}

// answered is the case of that answer; same: and nothing changes.
func (c *Config) answered(want Answer, same bool) stepCase {
	return func(from State, a model.Action, to State) bool {
		return c.Answer(from, a) == want && (!same || from == to)
	}
}

func over(r RunState) bool { return r.over() }

// resultRules: MGR-R1, and what is read.
func (c *Config) resultRules() []property {
	return []property{
		always(true, "a finished run's result can be read",
			c.someRun(func(r RunState) bool { return r.Phase == Finished }),
			c.everyRun(func(r RunState) bool { return r.Phase != Finished || r.Kept }), "MGR-22", "MGR-29"),
		onStep(true, "artifacts are read of finished runs only",
			about(func(r RunState) bool { return true }, ActRead),
			func(from State, a model.Action, to State) bool {
				finished := from.Runs[a.Arg[0]].Phase == Finished
				return from == to && (c.Answer(from, a) == Data) == finished && (finished || c.Answer(from, a) == UnknownID)
			}, "MGR-22", "MGR-29"),
	}
}

// releaseRules: MGR-R2, and what an ack, an expiry and an unknown id are
// answered.
func (c *Config) releaseRules() []property {
	return []property{
		always(true, "a run is released only after its terminal event",
			c.someRun(func(r RunState) bool { return r.Phase == Released }),
			c.everyRun(func(r RunState) bool { return r.Phase != Released || r.Published == 1 }), "MGR-20"),
		onStep(true, "a released run is an unknown id",
			about(func(r RunState) bool { return r.Phase == Released }, ActAttach, ActCancel, ActAck, ActRead),
			c.answered(UnknownID, true), "MGR-19"),
		onStep(true, "an id that was never given is unknown",
			about(func(r RunState) bool { return r.Phase == Absent }, ActAttach), c.answered(UnknownID, true), "MGR-19"),
		onStep(true, "an ack before the end is refused and changes nothing",
			about(func(r RunState) bool { return r.live() }, ActAck), c.answered(NotFinished, true), "MGR-20"),
		onStep(true, "an ack after the end releases the run",
			about(over, ActAck), func(from State, a model.Action, to State) bool {
				return c.Answer(from, a) == Accepted && to.Runs[a.Arg[0]].Phase == Released
			}, "MGR-20"),
		onStep(!c.NoTime, "an expiry releases the run",
			about(over, ActExpire), func(from State, a model.Action, to State) bool {
				return to.Runs[a.Arg[0]].Phase == Released
			}, "MGR-23"),
		onStep(true, "unread events survive the release, subscriptions do not",
			about(over, ActAck, ActExpire), func(from State, a model.Action, to State) bool {
				for n := range from.Conns[:c.Conns] {
					if from.Conns[n].Out != to.Conns[n].Out || to.Conns[n].View[a.Arg[0]].Sub != Unsubscribed {
						return false
					}
				}
				return true
			}, "MGR-21"),
	}
}

// askRules are the answers for known runs.
func (c *Config) askRules() []property {
	return []property{
		onStep(true, "a cancel of a run that has not ended is answered at once",
			about(func(r RunState) bool { return r.live() }, ActCancel), c.answered(Accepted, false), "MGR-14"),
		onStep(true, "a cancel of an ended run is answered like any other",
			about(over, ActCancel), c.answered(Accepted, true), "MGR-27"),
		onStep(true, "an attach to a known run is answered with its latest event",
			about(func(r RunState) bool { return r.known() }, ActAttach), func(from State, a model.Action, to State) bool {
				k, r := &to.Conns[a.Arg[0]], &from.Runs[a.Arg[1]]
				want := SnapshotQueued
				switch {
				case r.over():
					want = SnapshotEnded
				case r.Phase >= Running:
					want = SnapshotStarted
				}
				return c.Answer(from, a) == Snapshot && c.replied(k, want, a.Arg[1])
			}, "MGR-17"),
	}
}
