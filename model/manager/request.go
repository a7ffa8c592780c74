package manager

import "microvms/model"

// What a request does, and what it is answered.

// Answer is what a request is answered.
type Answer uint8

// The answers. NoAnswer is that of an action that is no request.
const (
	NoAnswer      Answer = iota
	Accepted             // {}
	RunID                // the id of the run
	Snapshot             // the latest event
	Data                 // a page of an artifact
	UnknownID            // error unknown_id
	BootMismatch         // error boot_id_mismatch
	NotFinished          // error not_finished
	ShuttingDown         // error internal: no new runs
	answersNumber = iota
)

// String returns the answer as a word.
func (a Answer) String() string {
	return [answersNumber]string{"none", "{}", "run id", "snapshot", "data", "unknown_id", "boot_id_mismatch", "not_finished", "shutting down"}[a]
}

// Answer returns what the action is answered in state s.
func (c *Config) Answer(s State, a model.Action) Answer {
	switch a.ID {
	case ActRun:
		if s.Shut && c.holder(&s, a.Arg[1]) < 0 && c.Deviation != RunsWhileShutting {
			return ShuttingDown
		}
		return RunID
	case ActAttach:
		return c.attachAnswer(&s, a.Arg[1], a.Arg[2])
	case ActCancel:
		r := &s.Runs[a.Arg[0]]
		if r.over() && c.Deviation == EndedIsUnknown || r.Phase == Queued && c.Deviation == LiveIsUnknown {
			return UnknownID
		}
		if r.known() || c.Deviation == ReleasedIsCancelled && r.Phase == Released {
			return Accepted
		}
		return UnknownID
	case ActAck:
		return c.ackAnswer(&s.Runs[a.Arg[0]])
	case ActRead:
		r := &s.Runs[a.Arg[0]]
		switch {
		case r.Phase == Finished && r.Kept, c.Deviation == ReadsUnfinished && r.running(),
			c.Deviation == ReadsFailed && r.Phase == Failed:
			return Data
		}
		return UnknownID
	}
	return NoAnswer
}

func (c *Config) attachAnswer(s *State, run, boot uint8) Answer {
	known := s.Runs[run].known()
	if c.Deviation == IDBeforeBoot && !known {
		return UnknownID
	}
	// The boot is judged before the id, since an id of another boot means nothing here.
	if boot != 0 && c.Deviation != AttachIgnoresBoot {
		return BootMismatch
	}
	if !known && (c.Deviation != FutureAttached || s.Runs[run].Phase != Absent) {
		return UnknownID
	}
	return Snapshot
}

func (c *Config) ackAnswer(r *RunState) Answer {
	switch {
	case !r.known():
		return UnknownID
	case r.over() || c.Deviation == AckAlways || c.Deviation == AckSaysYes:
		return Accepted
	}
	return NotFinished
}

// holder returns the index of the known run that a token names, or -1.
func (c *Config) holder(s *State, token uint8) int {
	if token == 0 || c.Deviation == NoIdempotency {
		return -1
	}
	for i := range s.Runs[:c.Runs] {
		r := &s.Runs[i]
		switch {
		case r.Token != token || r.Phase == Absent:
		case c.Deviation == TokenWhileRunning && !r.live():
		default:
			return i
		}
	}
	return -1
}

// next run's index, or -1 when the bound is reached.
func (c *Config) slot(s *State) int {
	for i := range s.Runs[:c.Runs] {
		p := s.Runs[i].Phase
		if p == Absent || p == Released && c.Deviation == IDReused {
			return i
		}
	}
	return -1
}

// run decides a run request; ok is false when the bound on runs is reached.
func (c *Config) run(s *State, conn, token uint8, kind Kind) (ok bool) {
	k := &s.Conns[conn]
	if i := c.holder(s, token); i >= 0 {
		c.repeat(s, k, uint8(i))
		return true
	}
	i := c.slot(s)
	if i < 0 {
		return false
	}
	run := uint8(i)
	c.accept(s, run, token, kind)
	if c.Deviation == RunUnsubscribed {
		k.push(item(RunReply, run, 0))
		return true
	}
	k.View[run].Sub = Subscribed
	k.push(item(RunReply, run, 0))
	return true
}

// repeat answers a request whose token is known: the same id, and what the
// connection does not know yet.
func (c *Config) repeat(s *State, k *Conn, run uint8) {
	r, v := &s.Runs[run], &k.View[run]
	reply := item(RunReply, run, 0)
	if c.Deviation != EventBeforeReply {
		k.push(reply)
	}
	switch {
	case v.Sub == Unsubscribed && r.over():
		if c.Deviation == RepeatIsSilent {
			v.Sub = Told
			break
		}
		c.tell(k, v, item(EndedEvent, run, r.end()))
		v.Sub = Told
	case v.Sub == Unsubscribed:
		v.Sub = Subscribed
		if r.Phase >= Running {
			c.tell(k, v, item(StartedEvent, run, 0))
		}
	case v.Sub == Told && r.over() && c.Deviation == RepeatResends:
		k.push(item(EndedEvent, run, r.end()))
	}
	if c.Deviation == EventBeforeReply {
		k.push(reply)
	}
}

// attach answers with a snapshot and subscribes, in one step.
func (c *Config) attach(s *State, conn, run, boot uint8) {
	k := &s.Conns[conn]
	r, v := &s.Runs[run], &k.View[run]
	switch {
	case r.over():
		k.push(item(SnapshotEnded, run, r.end()))
		switch {
		case c.Deviation == SnapshotAndEvent:
			k.push(item(EndedEvent, run, r.end()))
			v.Sub = Told
		case v.Sub == Unsubscribed || v.Sub == Between:
			v.Sub = Told
		}
		return
	case r.Phase >= Running && c.Deviation != StaleSnapshot:
		k.push(item(SnapshotStarted, run, 0))
	default:
		k.push(item(SnapshotQueued, run, 0))
	}
	switch {
	case v.Sub == Unsubscribed && c.Deviation == DividedAttach:
		v.Sub = Between
	case v.Sub == Unsubscribed:
		v.Sub, v.Foreign = Subscribed, boot != 0
	case v.Sub == Subscribed && c.Deviation == SecondSubscription:
		v.Sub = Doubled
	}
}

// deliver is the client's reading of its oldest message.
func (c *Config) deliver(s *State, conn uint8) {
	k := &s.Conns[conn]
	i := k.pop()
	v := &k.View[i.Run()]
	v.Level = max(v.Level, i.level())
	switch i.Kind() {
	case StartedEvent:
		v.StartOwed = false
	case EndedEvent:
		v.Ends = min(v.Ends+1, 2)
	case SnapshotEnded:
		v.Snapshot = true
	}
}

// disconnect drops a connection and nothing else.
func (c *Config) disconnect(s *State, conn uint8) {
	k := &s.Conns[conn]
	kept := k.View
	*k = Conn{Drops: k.Drops + 1}
	if c.Deviation == ConnectionRemembered {
		for i := range kept {
			k.View[i].Sub = kept[i].Sub
		}
	}
	if c.Deviation != DisconnectKills {
		return
	}
	for i := range kept {
		if kept[i].Sub == Subscribed {
			c.stop(s, uint8(i), ByCancel)
		}
	}
}
