package execution

import "microvms/model"

type stdinStep = model.Step[StdinState]

func (i stdin) next(s StdinState, out []stdinStep) []stdinStep {
	first := len(out)
	out = i.outside(s, out)
	if !i.c.Settled {
		return i.inside(s, out)
	}
	for n := first; n < len(out); n++ {
		out[n].State = i.settle(out[n].State)
	}
	return out
}

func (i stdin) settle(s StdinState) StdinState {
	var buf [4]stdinStep
	for {
		steps := i.inside(s, buf[:0])
		if len(steps) == 0 {
			return s
		}
		s = steps[0].State
	}
}

// outside appends what clients and the child do, and the timer.
func (i stdin) outside(s StdinState, out []stdinStep) []stdinStep {
	for w := range uint8(i.c.Writers) {
		if s.Writer[w].Step != WriterIdle {
			if i.c.Time && i.stalled(s, w) {
				out = append(out, step(model.Act(StdinTimeout, w), i.timeout(s, w)))
			}
			continue
		}
		// Writers are interchangeable, so they are numbered in the order of their first requests.
		if s.Requests >= i.c.Requests || w > 0 && s.Writer[w-1].Request == 0 && s.Requests == 0 {
			continue
		}
		for units := uint8(0); units <= i.c.Units; units++ {
			if units > 0 {
				out = append(out, step(model.Act(StdinWrite, w, units, 0), i.request(s, w, units, false)))
			}
			if i.c.Ends {
				out = append(out, step(model.Act(StdinWrite, w, units, 1), i.request(s, w, units, true)))
			}
		}
	}
	if s.LeaderGone {
		return out
	}
	return i.child(s, out)
}

// child appends what the child does.
func (i stdin) child(s StdinState, out []stdinStep) []stdinStep {
	to := s
	to.LeaderGone = true
	out = append(out, step(model.Act(StdinLeader), to))
	to = s
	switch {
	case s.Read < s.Entered:
		to.Read++
		out = append(out, step(model.Act(ChildRead), to))
	case !s.Requested && i.c.Deviation == InheritStdin:
		to.Foreign = true
		out = append(out, step(model.Act(ChildRead), to))
	case !s.Open && !s.SawEOF:
		to.SawEOF = true
		out = append(out, step(model.Act(ChildEOF), to))
	}
	return out
}

// request judges a request: without a pipe it is refused, to a closed pipe as
// well, and otherwise it queues for its turn.
func (i stdin) request(s StdinState, w, units uint8, eof bool) StdinState {
	s.Requests++
	x := Writer{Request: s.Requests, Units: units, EOF: eof}
	switch {
	case !s.Requested && i.c.Deviation != WriteUnrequested:
		x.Answer = StdinAbsent
	case !s.Requested:
		x.Answer, x.Told = StdinOK, units
		for n := range units {
			s.Sent[s.Entered] = Unit{x.Request, n}
			s.Entered++
		}
	case !s.Open && i.c.Deviation == ClosedReadsOK:
		x.Answer = StdinOK
	case !s.Open:
		x.Answer = StdinGone
	default:
		x.Step = WriterWaits
	}
	s.Writer[w] = x
	return s
}

// full reports whether the pipe takes no further unit.
func (i stdin) full(s StdinState) bool { return s.Entered-s.Read >= i.c.Pipe }

// stalled reports whether a writer waits for the child.
func (i stdin) stalled(s StdinState, w uint8) bool {
	x := s.Writer[w]
	return x.Step == WriterWrites && x.Taken < x.Units && i.full(s) && !s.LeaderGone && s.Open && i.c.Deviation != NoTimeout
}

// timeout ends a stalled request. What was taken stays taken, the pipe stays
// open, no end of file follows.
func (i stdin) timeout(s StdinState, w uint8) StdinState {
	s = i.answer(s, w, StdinStalled)
	switch i.c.Deviation {
	case TimeoutCloses:
		s.Open = false
	case TimeoutReadsOK:
		s.Writer[w].Answer, s.Writer[w].Told = StdinOK, s.Writer[w].Units
	case TimeoutKeepsTurn:
		s.Writer[w].Step = WriterWrites
		s.Writer[w].Taken, s.Writer[w].Units = 0, 0
		s.Writer[w].EOF = false
		s.Writer[w].Request = 0
	}
	return s
}

// answer ends a writer's request.
func (i stdin) answer(s StdinState, w uint8, a StdinAnswer) StdinState {
	x := &s.Writer[w]
	x.Step, x.Answer, x.Told = WriterIdle, a, x.Taken
	return s
}

// inside appends the daemon's own steps.
func (i stdin) inside(s StdinState, out []stdinStep) []stdinStep {
	for w := range uint8(i.c.Writers) {
		switch x := s.Writer[w]; x.Step {
		case WriterWaits:
			if !i.taken(s) {
				out = append(out, step(model.Act(StdinLock, w), i.lock(s, w)))
			}
		case WriterWrites:
			out = i.write(s, w, out)
		}
	}
	if s.LeaderGone && s.Phase == Running {
		to := s
		to.Phase = Exited
		if i.c.Deviation != ExitKeepsOpen {
			to.Open = false
		}
		out = append(out, step(model.Act(StdinExit), to))
	}
	return out
}

// taken reports whether a request has its turn: one at a time, so that two
// requests never mix.
func (i stdin) taken(s StdinState) bool {
	if i.c.Deviation == WritersMix {
		return false
	}
	for _, x := range s.Writer {
		if x.Step == WriterWrites {
			return true
		}
	}
	return false
}

func (i stdin) lock(s StdinState, w uint8) StdinState {
	if !s.Open {
		return i.answer(s, w, StdinGone)
	}
	s.Writer[w].Step = WriterWrites
	if i.c.Deviation == EOFBeforeData && s.Writer[w].EOF {
		s.Open = false
	}
	return s
}

// write appends the next step of the request that has its turn.
func (i stdin) write(s StdinState, w uint8, out []stdinStep) []stdinStep {
	x := s.Writer[w]
	switch {
	case x.Request == 0:
		return out // it keeps its turn; met under a deviation only
	case i.c.Deviation == WrittenOverstated && x.Taken > 0:
		to := i.answer(s, w, StdinOK)
		to.Writer[w].Told = x.Units
		return append(out, step(model.Act(StdinDone, w), to))
	case x.Taken == x.Units:
		return append(out, step(model.Act(StdinDone, w), i.done(s, w)))
	case !s.Open && i.c.Deviation != EOFBeforeData, s.LeaderGone:
		// The exit closed the write end, or nobody reads: either way no byte will ever arrive.
		to := i.answer(s, w, StdinGone)
		if i.c.Deviation != BrokenKeepsOpen {
			to.Open = false
		}
		return append(out, step(model.Act(StdinPut, w), to))
	case !i.full(s):
		to := s
		to.Sent[s.Entered] = Unit{x.Request, x.Taken}
		to.Entered++
		to.Writer[w].Taken++
		return append(out, step(model.Act(StdinPut, w), to))
	}
	return out
}

// done answers a request whose data is in the pipe, and closes the pipe where
// the request says so.
func (i stdin) done(s StdinState, w uint8) StdinState {
	if s.Writer[w].EOF || i.c.Deviation == InferEOF {
		s.Open = false
	}
	return i.answer(s, w, StdinOK)
}
