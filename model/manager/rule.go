package manager

// What the manager does with runs. Everything here is pure: a function changes
// the state that it is given a pointer to.

// publish tells the subscribers of a run.
func (c *Config) publish(s *State, run uint8, i Item) {
	for n := range s.Conns[:c.Conns] {
		conn := &s.Conns[n]
		v := &conn.View[run]
		if !conn.Up || (v.Sub != Subscribed && v.Sub != Doubled) {
			continue
		}
		c.tell(conn, v, i)
		if v.Sub == Doubled {
			conn.push(i)
		}
		if i.Kind() == EndedEvent && c.Deviation != TerminalTwice {
			v.Sub = Told
		}
	}
}

// tell puts an event into an outbox, and it is owed from then on.
func (c *Config) tell(conn *Conn, v *View, i Item) {
	if i.Kind() == StartedEvent {
		v.StartOwed = true
	} else {
		v.EndsOwed = 1
		if c.Deviation == TerminalLost && conn.Len > 0 {
			return
		}
	}
	if last := conn.Len - 1; c.Deviation == Coalesced && conn.Len > 0 && i.Kind() == EndedEvent &&
		conn.Out[last] == item(StartedEvent, i.Run(), 0) {
		conn.Out[last] = i
		return
	}
	conn.push(i)
}

// accept registers a run and puts it at the end of the queue.
func (c *Config) accept(s *State, run, token uint8, kind Kind) {
	s.Runs[run] = RunState{Phase: Queued, Token: token, Kind: kind}
}

// finish publishes the ending of a run that was accepted as valid.
func (c *Config) finish(s *State, run uint8, cause Cause) {
	r := &s.Runs[run]
	r.Phase, r.Cause, r.Kept = Finished, cause, true
	r.Published = min(r.Published+1, 2)
	c.publish(s, run, item(EndedEvent, run, r.end()))
}

// fail publishes that a run never had an executor.
func (c *Config) fail(s *State, run uint8) {
	r := &s.Runs[run]
	r.Phase = Failed
	r.Published = min(r.Published+1, 2)
	c.publish(s, run, item(EndedEvent, run, FailedToStart))
}

// giveBack returns a run's permits.
func giveBack(s *State, run uint8) {
	s.Free += s.Runs[run].Held
	s.Runs[run].Held = 0
}

// grantable reports whether a run is at the head of the queue and its permits
// are free. A run that is not validated yet stands in the queue like any other.
func (c *Config) grantable(s *State, run uint8) bool {
	r := &s.Runs[run]
	if r.Phase != Queued || r.Kind == Invalid || s.Free < cost(r.Kind) {
		return false
	}
	for i := range s.Runs[:run] {
		if s.Runs[i].Phase == Queued && c.Deviation != SmallOvertakes {
			return false
		}
	}
	return true
}

func (c *Config) grant(s *State, run uint8) {
	r := &s.Runs[run]
	r.Phase, r.Held, r.HeldEver = Granted, cost(r.Kind), true
	s.Free -= r.Held
}

// spawnable reports whether the run may get its executor.
func (c *Config) spawnable(r *RunState) bool {
	return r.Phase == Granted && (r.Cause == NoCause || c.Deviation == NoRecheck)
}

func (c *Config) spawnOk(s *State, run uint8) {
	r := &s.Runs[run]
	r.Phase = Running
	if r.Cause != NoCause {
		r.Phase = Stopping
	}
	r.Spawned = min(r.Spawned+1, 2)
	if c.Deviation == StartedLate {
		return
	}
	c.publish(s, run, item(StartedEvent, run, 0))
}

func (c *Config) spawnFail(s *State, run uint8) {
	s.Runs[run].SpawnFailed = true
	if c.Deviation == LeakOnSpawnFail {
		s.Runs[run].Held = 0
	}
	giveBack(s, run)
	if c.Deviation == SpawnFailIsExit {
		c.finish(s, run, ByExit)
		return
	}
	c.fail(s, run)
}

// abort ends a run that was stopped between its permits and its executor.
func (c *Config) abort(s *State, run uint8) {
	if c.Deviation != LeakOnAbort {
		giveBack(s, run)
	}
	c.finish(s, run, s.Runs[run].Cause)
}

// exit is the executor's end: its permits are free before anything is drained.
func (c *Config) exit(s *State, run uint8) {
	r := &s.Runs[run]
	if r.Phase == Running || c.Deviation == LastCauseWins {
		r.Cause = ByExit
	}
	if r.First == NoCause {
		r.First = ByExit
	}
	r.Phase = Draining
	switch c.Deviation {
	case LeakOnExit:
	case GivenBackTwice:
		s.Free += r.Held
		giveBack(s, run)
	case HeldWhileDraining: // until the outputs are drained
	default:
		giveBack(s, run)
	}
}

// drained publishes the ending of a run whose executor is gone.
func (c *Config) drained(s *State, run uint8) {
	if c.Deviation == HeldWhileDraining {
		giveBack(s, run)
	}
	if c.Deviation == ExitIsFailure && s.Runs[run].Cause == ByExit {
		c.fail(s, run)
		return
	}
	c.finish(s, run, s.Runs[run].Cause)
	if c.Deviation == StartedLate {
		c.publish(s, run, item(StartedEvent, run, 0))
		for n := range s.Conns[:c.Conns] {
			if conn := &s.Conns[n]; conn.View[run].Sub == Told {
				conn.push(item(StartedEvent, run, 0))
			}
		}
	}
}

// stop asks a run to end. The first cause accepted stands.
func (c *Config) stop(s *State, run uint8, cause Cause) {
	r := &s.Runs[run]
	if !r.live() {
		if c.Deviation == CancelRepublishes && r.over() {
			c.republish(s, run)
		}
		return
	}
	if r.First == NoCause {
		r.First = cause
		r.StopQueued = r.Phase == Queued
		r.StopEarly = r.Phase <= Granted
	}
	switch {
	case r.Phase == Queued && c.Deviation == StopWaitsForPermit:
		if r.Cause == NoCause {
			r.Cause = cause
		}
	case r.Phase == Queued && c.Deviation == DeadlineSparesQueue && cause == ByDeadline:
		r.First, r.StopQueued, r.StopEarly = NoCause, false, false
	case r.Phase == Queued:
		c.finish(s, run, cause)
	case r.Phase == Draining:
		if c.Deviation == StopOverridesExit {
			r.Cause = cause
		}
	case r.Phase == Granted && c.Deviation == StopForgotten:
	case r.Cause == NoCause || c.Deviation == LastCauseWins:
		r.Cause = cause
		if r.Phase == Running {
			r.Phase = Stopping
			if c.Deviation == StopIsExit {
				r.Cause = ByExit
			}
		}
		if c.Deviation == TerminalTwice && r.Phase == Stopping {
			r.Published = 1
			c.publish(s, run, item(EndedEvent, run, End(cause)))
		}
	}
}

// republish is the fault of telling an ending again.
func (c *Config) republish(s *State, run uint8) {
	r := &s.Runs[run]
	r.Published = 2
	for n := range s.Conns[:c.Conns] {
		if conn := &s.Conns[n]; conn.Up && conn.View[run].Sub == Told && !conn.asking() && conn.queued(run) == 0 {
			conn.push(item(EndedEvent, run, r.end()))
		}
	}
}

// shutdown stops every run that has not ended, and no new one is taken.
func (c *Config) shutdown(s *State) {
	s.Shut = true
	for i := range c.Runs {
		if c.Deviation == ShutdownSparesQueue && s.Runs[i].Phase == Queued {
			continue
		}
		c.stop(s, i, ByShutdown)
	}
}

// release forgets a run: its result, its token, its subscriptions. What is
// queued stays queued.
func (c *Config) release(s *State, run uint8) {
	r := &s.Runs[run]
	token := uint8(0)
	if c.Deviation == TokenKept {
		token = r.Token
	}
	free := r.Published == 0
	*r = RunState{Phase: Released, Token: token, Published: r.Published, Held: r.Held}
	if free { // a fault: it had not ended
		giveBack(s, run)
	}
	for n := range s.Conns[:c.Conns] {
		conn := &s.Conns[n]
		if c.Deviation != SubscriptionKept {
			conn.View[run].Sub = Unsubscribed
		}
		if c.Deviation == AckDropsQueued {
			conn.drop(run)
		}
	}
}

// drop is the fault of taking a run's messages out of an outbox.
func (c *Conn) drop(run uint8) {
	var kept Conn
	for _, i := range c.Outbox() {
		if i.Run() != run || i.reply() {
			kept.push(i)
		}
	}
	c.Len, c.Out = kept.Len, kept.Out
}

// restart is the death of the manager and a new one: nothing of the old is
// known, and its executors died with it.
func (c *Config) restart(s State) State {
	n := State{Boot: s.Boot + 1, Free: c.permits()}
	for i := range s.Runs {
		if s.Runs[i].running() && c.Deviation == RestartOrphans {
			n.Orphans = 1
		}
		if c.Deviation == RestartKeepsRuns && s.Runs[i].over() {
			n.Runs[i] = s.Runs[i]
		}
	}
	for i := range s.Conns {
		n.Conns[i].Drops = s.Conns[i].Drops
	}
	return n
}
