package execution

import "microvms/model"

type outputStep = model.Step[OutputState]

func (o output) next(s OutputState, out []outputStep) []outputStep {
	first := len(out)
	out = o.outside(s, out)
	if !o.c.Settled {
		return o.inside(s, out)
	}
	for i := first; i < len(out); i++ {
		out[i].State = o.settle(out[i].State)
	}
	return out
}

// settle takes the daemon's steps until none is left: publications first, so
// that a reader lags only where it was not attached.
func (o output) settle(s OutputState) OutputState {
	var buf [8]outputStep
	for {
		steps := o.inside(s, buf[:0])
		if len(steps) == 0 {
			return s
		}
		s = steps[0].State
	}
}

// outside appends what processes and clients do, and the timer.
func (o output) outside(s OutputState, out []outputStep) []outputStep {
	add := func(action model.Action, f func(s *OutputState)) {
		to := s
		f(&to)
		out = append(out, step(action, to))
	}
	writer := !s.LeaderGone || s.Holder
	switch {
	case writer && s.Phase == Running && s.Linger == Unset && s.Written < o.c.Units && s.Written-s.Published < o.c.Unread:
		add(model.Act(ChildWrite), func(s *OutputState) { s.Written++ })
	case s.Holder && s.Phase >= Exited && o.c.Deviation == PublishAfterExit && s.Written < o.c.Units:
		add(model.Act(ChildWrite), func(s *OutputState) { s.Written++ })
	case s.Holder && s.Phase >= Exited:
		add(model.Act(ChildWrite), func(*OutputState) {}) // it is drained, so that the writer goes on, and dropped
	}
	if !s.LeaderGone {
		add(model.Act(WriterLead), func(s *OutputState) { s.LeaderGone = true })
		if o.c.Holder && !s.Holder {
			add(model.Act(WriterFork), func(s *OutputState) { s.Holder = true })
		}
	}
	if s.Holder && s.LeaderGone {
		add(model.Act(WriterExit), func(s *OutputState) { s.Holder = false })
	}
	if s.LeaderGone && s.Holder && s.Phase == Running && s.Linger == Unset && s.Written == s.Published &&
		o.c.Deviation != LingerForever {
		add(model.Act(OutputLinger), func(s *OutputState) { s.Linger = Fired })
	}
	if o.c.Acks {
		add(model.Act(OutputAck), o.ack)
	}
	if o.c.Polls {
		add(model.Act(OutputPoll), func(s *OutputState) {
			if o.c.Deviation == PollConsumes {
				s.Head = [2]uint8{}
			}
		})
	}
	for r := range uint8(o.c.Readers) {
		out = o.client(s, r, out)
	}
	return out
}

func (o output) ack(s *OutputState) {
	if s.Phase != Exited {
		return
	}
	s.Phase = Acked
	if o.c.Deviation == AckDropsRing {
		s.Low = s.Published
	}
}

// client appends what one reader's client does.
func (o output) client(s OutputState, r uint8, out []outputStep) []outputStep {
	switch s.Reader[r].Phase {
	case Detached:
		for _, offset := range o.c.Offsets {
			out = append(out, step(model.Act(StreamAttach, r, offset), o.attach(s, r, offset)))
		}
	case Cut:
		want := s.Reader[r].Want
		out = append(out, step(model.Act(StreamAttach, r, want), o.attach(s, r, want)))
	case Snapshotted:
		to := s
		to.Reader[r].Phase, to.Reader[r].Jump = Attached, s.Published
		out = append(out, step(model.Act(StreamSubscribe, r), to))
	case Attached:
		if o.c.Cuts {
			out = append(out, step(model.Act(StreamDetach, r), o.detach(s, r)))
		}
	}
	return out
}

// attach takes the snapshot and the subscription in one step, so no byte falls
// between the two.
func (o output) attach(s OutputState, r, offset uint8) OutputState {
	x := &s.Reader[r]
	again := x.Phase == Cut
	if !again {
		x.Start, x.Want = offset, offset
	}
	x.Phase, x.Next = Attached, offset
	switch d := o.c.Deviation; {
	case d == ResumeFromZero && again:
		x.Next = 0
	case d == ResumeAtEnd && again:
		x.Next = s.Published
	case d == FutureIsNow && offset > s.Published:
		x.Next = s.Published
	case d == AttachTrims && offset <= s.Published:
		s.Low = max(s.Low, offset)
	case d == SplitAttach && offset <= s.Published:
		x.Phase, x.SnapEnd, x.Jump = Snapshotted, s.Published, 0
	}
	return s
}

func (o output) detach(s OutputState, r uint8) OutputState {
	s.Reader[r].Phase, s.Reader[r].Next = Cut, 0
	s.Reader[r].SnapEnd, s.Reader[r].Jump = 0, 0
	if o.c.Deviation == CutReadsAsExit {
		s.Reader[r].Exits = min(s.Reader[r].Exits+1, 2)
	}
	if o.c.Deviation == DetachKills {
		s.LeaderGone = true
	}
	return s
}

// inside appends the daemon's own steps.
func (o output) inside(s OutputState, out []outputStep) []outputStep {
	if s.Written > s.Published && o.mayPublish(s) {
		out = append(out, step(model.Act(OutputPublish), o.publish(s)))
	}
	if s.Phase == Running && s.LeaderGone && (!s.Holder || s.Linger == Fired) &&
		(s.Written == s.Published || o.c.Deviation == ExitWithoutFinal) {
		to := s
		to.Phase, to.Total = Exited, s.Published
		if o.c.Deviation == TotalOmitted {
			to.Total = 0
		}
		out = append(out, step(model.Act(OutputExit), to))
	}
	for r := range uint8(o.c.Readers) {
		if s.Reader[r].Phase == Attached || s.Reader[r].Phase == Done && o.c.Deviation == ExitEventTwice && s.Reader[r].Exits < 2 {
			out = o.serve(s, r, out)
		}
	}
	return out
}

// mayPublish reports whether the unit that was read may enter the store. No
// reader is asked.
func (o output) mayPublish(s OutputState) bool {
	if o.c.Deviation == ReaderBlocks {
		for _, x := range s.Reader[:o.c.Readers] {
			if x.Phase == Attached && x.Next < s.Published && x.Next+o.c.Ring <= s.Published {
				return false
			}
		}
	}
	return s.Phase == Running || o.c.Deviation == PublishAfterExit || o.c.Deviation == ExitWithoutFinal
}

// publish enters one unit: the ring keeps the newest, the head the oldest.
func (o output) publish(s OutputState) OutputState {
	unit := s.Published
	s.Published++
	if s.Published > o.c.Ring && o.c.Deviation != RingUnbounded {
		s.Low = max(s.Low, s.Published-o.c.Ring)
	}
	if o.c.Deviation == RingKeepsOldest && s.Published > o.c.Ring {
		s.Low = s.Published
	}
	if s.Head[unit%2] < o.c.Head || o.c.Deviation == HeadKeepsNewest {
		s.Head[unit%2]++
	}
	return s
}

// serve appends the next event of an attached reader: a gap where the ring no
// longer holds its cursor, else the next unit, else the exit.
func (o output) serve(s OutputState, r uint8, out []outputStep) []outputStep {
	x := s.Reader[r]
	if o.c.Deviation == SplitAttach && x.Next == x.SnapEnd && x.Next < x.Jump {
		x.Next = x.Jump
	}
	lost := x.Next < s.Low
	if lost && o.c.Deviation == GapOmitted {
		x.Next, lost = s.Low, false
	}
	if o.c.Deviation == GapWithoutLoss && x.Next < s.Published {
		lost = true
	}
	switch {
	case lost:
		out = append(out, step(model.Act(StreamGap, r), o.gap(s, r, x)))
	case x.Next < s.Published:
		out = append(out, step(model.Act(StreamDeliver, r), o.deliver(s, r, x)))
	case s.Phase >= Exited && o.c.Deviation != ExitEventOmitted:
		out = append(out, step(model.Act(StreamExit, r), end(s, r, x)))
	}
	if o.c.Deviation == ExitEventEarly && s.Phase >= Exited && x.Next < s.Published {
		out = append(out, step(model.Act(StreamExit, r), end(s, r, x)))
	}
	return out
}

func (o output) gap(s OutputState, r uint8, x Reader) OutputState {
	to := s.Low
	if o.c.Deviation == GapWithoutLoss {
		to = s.Published
	}
	for unit := x.Next; unit < to; unit++ {
		x.Gaps |= 1 << unit
	}
	x.Next, x.Want = to, to
	s.Reader[r] = x
	return s
}

func (o output) deliver(s OutputState, r uint8, x Reader) OutputState {
	offset := o.offsetOf(x.Next)
	if x.Got&(1<<offset) != 0 {
		x.Twice |= 1 << offset
	}
	x.Got |= 1 << offset
	x.Next++
	x.Want = offset + 1
	s.Reader[r] = x
	if o.c.Deviation == SharedCursor {
		for other := range s.Reader {
			if s.Reader[other].Phase == Attached {
				s.Reader[other].Next = max(s.Reader[other].Next, x.Next)
			}
		}
	}
	return s
}

// offsetOf is the offset that an event tells for a unit.
func (o output) offsetOf(unit uint8) uint8 {
	if o.c.Deviation == OffsetPerStream {
		return unit / 2
	}
	return unit
}

func end(s OutputState, r uint8, x Reader) OutputState {
	x.Phase, x.Next, x.SnapEnd, x.Jump = Done, 0, 0, 0
	x.Exits = min(x.Exits+1, 2)
	s.Reader[r] = x
	return s
}
