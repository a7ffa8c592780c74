package manager

import "microvms/model"

type step = model.Step[State]

// next appends every enabled step of s: requests, then what the manager does by
// itself, time, and the clients' reading.
func (c *Config) next(s State, out []step) []step {
	first := len(out)
	out = c.requests(s, out)
	for i := range c.Runs {
		if s.Runs[i].Phase == Running {
			out = append(out, c.with(s, model.Act(ActExecutorExit, i), func(s *State) { c.exit(s, i) }))
		}
		if !c.Settled {
			out = c.own(s, i, out)
		}
		if !c.NoTime {
			out = c.time(s, i, out)
		}
	}
	out = c.connections(s, out)
	if !s.Shut {
		out = append(out, c.with(s, model.Act(ActShutdown), c.shutdown))
	}
	if s.Boot < c.Restarts {
		out = append(out, step{Action: model.Act(ActRestart), State: c.restart(s)})
	}
	if c.Settled {
		out = c.settleAll(out, first)
	}
	if c.Eager {
		for i := range out[first:] {
			c.readAll(&out[first+i].State)
		}
	}
	return out
}

// readAll has every client read what it was sent.
func (c *Config) readAll(s *State) {
	for n := range c.Conns {
		for s.Conns[n].Len > 0 {
			c.deliver(s, n)
		}
	}
}

// with is one step: the action, and s after the change.
func (c *Config) with(s State, a model.Action, change func(s *State)) step {
	change(&s)
	return step{Action: a, State: s}
}

// requests appends what clients ask.
func (c *Config) requests(s State, out []step) []step {
	if s.Closing() {
		return out
	}
	for n := range c.Conns {
		if k := &s.Conns[n]; k.Up && !k.asking() {
			out = c.ask(s, n, out)
		}
		for i := range c.Runs {
			if s.Conns[n].View[i].Sub == Between && s.Runs[i].known() {
				out = append(out, c.with(s, model.Act(ActSubscribe, n, i), func(s *State) { s.Conns[n].View[i].Sub = Subscribed }))
			}
		}
	}
	for i := range c.Runs {
		if s.Runs[i].Phase == Absent {
			continue // an id that was never given is asked for once, by Attach
		}
		out = append(out,
			c.with(s, model.Act(ActCancel, i), func(n *State) {
				if c.Answer(s, model.Act(ActCancel, i)) == Accepted {
					c.stop(n, i, ByCancel)
				}
			}),
			c.with(s, model.Act(ActAck, i), func(n *State) {
				over := s.Runs[i].over() && c.Deviation != AckForgotten
				if c.Answer(s, model.Act(ActAck, i)) == Accepted && (over || c.Deviation == AckAlways) {
					c.release(n, i)
				}
			}),
			c.with(s, model.Act(ActRead, i), func(n *State) {
				if c.Deviation == ReadDestroys {
					n.Runs[i].Kept = false
				}
			}))
	}
	return out
}

// ask appends the requests of one connection that subscribe it.
func (c *Config) ask(s State, conn uint8, out []step) []step {
	for _, token := range c.Tokens {
		for _, kind := range c.kinds() {
			a := model.Act(ActRun, conn, token, uint8(kind))
			if c.Answer(s, a) != RunID {
				out = append(out, step{Action: a, State: s})
				continue
			}
			n := s
			if c.run(&n, conn, token, kind) {
				out = append(out, step{Action: a, State: n})
			}
		}
	}
	for i := range c.Runs {
		for boot := range min(s.Boot, 1) + 1 {
			a := model.Act(ActAttach, conn, i, boot)
			n := s
			if c.Answer(s, a) == Snapshot {
				c.attach(&n, conn, i, boot)
			}
			out = append(out, step{Action: a, State: n})
		}
		if s.Runs[i].Phase == Absent {
			break // one id that was never given is enough
		}
	}
	return out
}

// own appends what the manager does by itself with one run.
func (c *Config) own(s State, run uint8, out []step) []step {
	r := &s.Runs[run]
	add := func(id uint16, change func(s *State, run uint8)) {
		out = append(out, c.with(s, model.Act(id, run), func(s *State) { change(s, run) }))
	}
	switch {
	case r.Phase == Queued && r.Kind == Invalid:
		add(ActReject, c.fail)
	case c.grantable(&s, run):
		add(ActGrant, c.grant)
	case r.Phase == Granted:
		if c.spawnable(r) {
			add(ActSpawnOk, c.spawnOk)
			add(ActSpawnFail, c.spawnFail)
		}
		if r.Cause != NoCause && c.Deviation != NeverAborts {
			add(ActAbortSpawn, c.abort)
		}
	case r.Phase == Running && c.Deviation == SpawnTwice && r.Spawned < 2:
		add(ActSpawnOk, c.spawnOk)
	case r.Phase == Stopping:
		add(ActExecutorExit, c.exit)
	case r.Phase == Draining:
		add(ActFinish, c.drained)
	}
	return out
}

// settleAll lets the manager do all that it can after each of the steps from
// first on. An act can end in more than one way, since a spawn can.
func (c *Config) settleAll(out []step, first int) []step {
	acts := append([]step(nil), out[first:]...)
	out = out[:first]
	for _, a := range acts {
		out = c.settle(a, out)
	}
	return out
}

func (c *Config) settle(a step, out []step) []step {
	var buf [3]step
	for i := range c.Runs {
		steps := c.own(a.State, i, buf[:0])
		if len(steps) == 0 {
			continue
		}
		for _, next := range steps {
			out = c.settle(step{Action: a.Action, State: next.State}, out)
		}
		return out
	}
	return append(out, a)
}

// time appends what passes by itself.
func (c *Config) time(s State, run uint8, out []step) []step {
	r := &s.Runs[run]
	switch {
	case r.Phase >= Queued && r.Phase <= Running && r.Cause == NoCause: // a later one finds its run stopped and does nothing
		out = append(out, c.with(s, model.Act(ActDeadline, run), func(s *State) { c.stop(s, run, ByDeadline) }))
	case r.over() && !s.Closing():
		out = append(out, c.with(s, model.Act(ActExpire, run), func(s *State) {
			if c.Deviation != ExpiryForgotten {
				c.release(s, run)
			}
		}))
	}
	return out
}

// connections appends what becomes of the connections.
func (c *Config) connections(s State, out []step) []step {
	for n := range c.Conns {
		k := &s.Conns[n]
		switch {
		case k.Up && k.Len > 0 && c.Deviation == WriterStalls && s.Runs[k.Out[0].Run()].Phase == Released:
		case k.Up && k.Len > 0:
			out = append(out, c.with(s, model.Act(ActDeliver, n), func(s *State) { c.deliver(s, n) }))
		case !k.Up && !s.Shut:
			out = append(out, c.with(s, model.Act(ActReconnect, n), func(s *State) { s.Conns[n].Up = true }))
		}
		if k.Up && k.Drops < c.Disconnects {
			out = append(out, c.with(s, model.Act(ActDisconnect, n), func(s *State) { c.disconnect(s, n) }))
		}
	}
	return out
}
