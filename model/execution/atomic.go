package execution

// The atomic form: one exec id as a client sees it, one request a step. It is
// made of the rule of the group model and of the stdin model, so a history of
// the real daemon is judged by what was checked, not by a second description.
//
// What the daemon and the child do by themselves are silent steps between the
// requests: a judge lets them happen where they can. A kill is two steps, its
// arrival and its answer, because kills that meet share one escalation and its
// answer.

// Program is what the child does, as far as a client can see it: the world's
// part of the atomic form. It prints units of output, each whole.
type Program struct {
	Greets uint8 // units that it prints at its start
	Echoes bool  // it asks for stdin and prints one unit for each unit that it reads
	Ends   Ending
}

// Ending says when a child ends by itself.
type Ending uint8

const (
	EndsSoon  Ending = iota // at any moment after its last unit
	EndsAtEOF               // once it has read the end of file
	EndsNever               // only by a signal
)

// MaxKills is the number of kill requests that one object can tell apart.
const MaxKills = 32

// Object is one exec id in the atomic form. It is comparable.
type Object struct {
	Exec      Exec  // of the group model
	Requested bool  // of the stdin model: the start asked for a pipe
	Open      bool  // of the stdin model: the daemon holds the write end
	Accepted  uint8 // units that the pipe took

	// The output lies in [Least, Most] units: what some client saw already, and what the child can have printed. While
	// the child lives, Most follows Accepted; a client that sees the result settles both.
	Least, Most uint8

	// Kill requests by number: those that share the escalation under way, and those that it answered.
	Joined, Signalled, NotSignalled, Unknown uint32
}

// Atomic is the sequential specification of one exec id whose child runs Program.
type Atomic struct{ Program Program }

// atomicGroup is the rule of the group model for one id whose starts are plain and whose processes do not fork.
var atomicGroup = group{GroupConfig{IDs: 1, MaxLives: 1, Kinds: []Kind{Plain}, Kills: true}}

// atomicStdin is the rule of the stdin model for one writer at a time: a request in the atomic form has its turn.
var atomicStdin = stdin{StdinConfig{Writers: 1, Requests: 1, Units: 1, Pipe: MaxOffered, Ends: true}}

// Silent appends the states to which the daemon or the child can go by itself, one step each.
func (a Atomic) Silent(s Object, out []Object) []Object {
	group := GroupState{Exec: [MaxIDs]Exec{s.Exec}}
	for _, next := range atomicGroup.daemon(group, 0, nil) {
		to := s
		to.Exec = next.State.Exec[0]
		if next.Action.ID == GroupGone {
			to.answerKills(atomicGroup.answer(group, next.Action))
		}
		if next.Action.ID == ExecExit {
			to.Open = false
		}
		out = append(out, to)
		// A child that is about to end by itself may do so although the signal was sent while it still lived.
		if next.Action.ID == GroupTerm && a.mayEnd(s) {
			to.Exec.Leader = EndedItself
			out = append(out, a.ended(to))
		}
	}
	if a.mayEnd(s) {
		to := s
		to.Exec.Leader = EndedItself
		out = append(out, a.ended(to))
	}
	return out
}

// mayEnd reports whether the child may end by itself now.
func (a Atomic) mayEnd(s Object) bool {
	if s.Exec.Leader != LeaderAlive {
		return false
	}
	return a.Program.Ends == EndsSoon || a.Program.Ends == EndsAtEOF && s.Requested && !s.Open
}

// ended is s after the child ended by itself: all that it had to print is printed.
func (a Atomic) ended(s Object) Object {
	s.Least = s.Most
	return s
}

func (s *Object) answerKills(a Answer) {
	if a == Signalled {
		s.Signalled |= s.Joined
	} else {
		s.NotSignalled |= s.Joined
	}
	s.Joined = 0
}

// Start is a start request: an absent id gets its child, a known one is answered and nothing else.
func (a Atomic) Start(s Object) (Object, Answer) {
	if known(s.Exec) {
		return s, OK
	}
	s.Exec, _ = atomicGroup.start(s.Exec, Plain)
	atomicGroup.spawn(&s.Exec)
	s.Requested, s.Open = a.Program.Echoes, a.Program.Echoes
	s.Least, s.Most = 0, a.Program.Greets
	return s, OK
}

// Seen is what a poll, an ack or an exit event shows.
type Seen struct {
	Answer    Answer
	Phase     Phase
	HasResult bool
	Status    Status
}

// Poll is a poll: it reads.
func (a Atomic) Poll(s Object) Seen {
	if !known(s.Exec) {
		return Seen{Answer: UnknownExec}
	}
	return a.seen(s, OK)
}

// Ack is an acknowledgement: it shows the result for the last time.
func (a Atomic) Ack(s Object) (Object, Seen) {
	answer := atomicGroup.ackAnswer(s.Exec)
	if answer != OK {
		return s, Seen{Answer: answer}
	}
	seen := a.seen(s, OK)
	atomicGroup.ack(&s.Exec)
	seen.Phase = s.Exec.Phase
	return s, seen
}

func (a Atomic) seen(s Object, answer Answer) Seen {
	v := Seen{Answer: answer, Phase: s.Exec.Phase, HasResult: atomicGroup.shows(s.Exec)}
	if v.HasResult {
		v.Status = a.status(s)
	}
	return v
}

// status is the published status; a program exits with a code of its own.
func (a Atomic) status(s Object) Status { return atomicGroup.status(s.Exec) }

// Kill is the arrival of kill request k: it begins an escalation or joins the one under way.
func (a Atomic) Kill(s Object, k uint8) Object {
	bit := uint32(1) << k
	if !known(s.Exec) {
		s.Unknown |= bit
		return s
	}
	if s.Exec.Stage[ByKill] == Idle {
		atomicGroup.kill(&s.Exec)
	}
	s.Joined |= bit
	return s
}

// KillAnswer is the answer to kill request k; ok is false while it has none.
func (a Atomic) KillAnswer(s Object, k uint8) (next Object, answer Answer, ok bool) {
	bit := uint32(1) << k
	switch {
	case s.Unknown&bit != 0:
		answer = UnknownExec
	case s.Signalled&bit != 0:
		answer = Signalled
	case s.NotSignalled&bit != 0:
		answer = NotSignalled
	default:
		return s, None, false
	}
	s.Unknown, s.Signalled, s.NotSignalled = s.Unknown&^bit, s.Signalled&^bit, s.NotSignalled&^bit
	return s, answer, true
}

// Write is a stdin request of units (0 or 1), with or without the end of file. An absent id is answered UnknownExec.
func (a Atomic) Write(s Object, units uint8, eof bool) (Object, Answer, StdinAnswer) {
	if !known(s.Exec) {
		return s, UnknownExec, NoStdinAnswer
	}
	in := StdinState{Requested: s.Requested, Open: s.Open, Phase: s.Exec.Phase, LeaderGone: s.Exec.Leader != LeaderAlive}
	in = atomicStdin.request(in, 0, units, eof)
	for in.Writer[0].Step != WriterIdle {
		// The exit is a step of its own here: only what the request itself does is taken.
		in = atomicStdin.inside(in, nil)[0].State
	}
	s.Open = in.Open
	if in.Entered > 0 {
		s.Accepted++
		s.Most++
	}
	return s, OK, in.Writer[0].Answer
}

// Read is what a reader of the output saw: units in all, and the exit event or not. ok is false when the exec cannot
// have shown that.
func (a Atomic) Read(s Object, units uint8, exit bool) (Object, bool) {
	if units > s.Most || exit && (s.Exec.Phase < Exited || units < s.Least) {
		return s, false
	}
	s.Least = max(s.Least, units)
	if exit {
		s.Most = units
	}
	return s, true
}

// Settle is what a client saw as the whole output of an exec that has ended.
func (a Atomic) Settle(s Object, units uint8) (Object, bool) { return a.Read(s, units, true) }

// ExitStatus is the status that an exit event or a result shows; ok is false before the exit.
func (a Atomic) ExitStatus(s Object) (Status, bool) { return a.status(s), s.Exec.Phase >= Exited }
