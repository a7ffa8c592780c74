package execution

import "microvms/model"

// Answer is how a request is answered.
type Answer uint8

// The answers. None means that the request is not answered by this step.
const (
	None Answer = iota
	OK
	UnknownExec  // 404 unknown_exec
	StillRunning // 409 still_running
	AlreadyAcked // 409 already_acked
	SpawnFailed  // 500 spawn_failed
	Signalled    // 200, killed is true
	NotSignalled // 200, killed is false
)

var answerNames = [...]string{
	"none", "ok", "unknown_exec", "still_running", "already_acked", "spawn_failed", "killed", "not killed",
}

// String returns the answer's name.
func (a Answer) String() string { return answerNames[a] }

// answer returns what the step a out of s answers, and to whom it does. A start
// that finds its id absent is answered by the spawn or the refusal, a kill by
// the end of its escalation.
func (g group) answer(s GroupState, a model.Action) Answer {
	e := s.Exec[a.Arg[0]]
	switch a.ID {
	case ExecStart:
		if known(e) {
			return OK
		}
	case ExecSpawn:
		return OK
	case ExecRefuse:
		return SpawnFailed
	case ExecPoll:
		if !known(e) {
			return UnknownExec
		}
		return OK
	case ExecKill:
		if !known(e) && g.c.Deviation == UnknownKilled {
			return NotSignalled
		}
		if !known(e) || g.c.Deviation == KillRefusedAfterExit && e.Phase != Running {
			return UnknownExec
		}
	case ExecAck:
		return g.ackAnswer(e)
	case GroupGone:
		if Cause(a.Arg[1]) == ByKill {
			return g.killAnswer(e)
		}
	}
	return None
}

func (g group) ackAnswer(e Exec) Answer {
	switch {
	case !known(e):
		return UnknownExec
	case e.Phase == Acked && g.c.Deviation != AckRepeats:
		return AlreadyAcked
	case e.Phase == Running && g.c.Deviation != AckWhileRunning:
		return StillRunning
	}
	return OK
}

func (g group) killAnswer(e Exec) Answer {
	if e.Stage[ByKill] == Due && g.c.Deviation != KilledAlways {
		return NotSignalled
	}
	return Signalled
}

// Status is the exit status of a result, as the poll shows it.
type Status struct {
	HasCode bool // exit_code is a number; otherwise it is null
	Code    uint8
	Signal  uint8 // 0: null
}

// status is the published status of an exec whose leader ended.
func (g group) status(e Exec) Status {
	var signal uint8
	switch e.Leader {
	case EndedByTerm:
		signal = 15
	case EndedByKill:
		signal = 9
	default:
		return Status{HasCode: true}
	}
	if g.c.Deviation == SignalAsCode {
		return Status{HasCode: true, Code: 128 + signal}
	}
	return Status{Signal: signal}
}

// shows reports whether a poll shows the result.
func (g group) shows(e Exec) bool {
	return e.Phase == Exited || g.c.Deviation == ResultAfterAck && e.Phase == Acked
}

// busy is the health field: some exec has no terminal marker yet.
func (g group) busy(s GroupState) bool {
	for _, e := range s.Exec {
		switch {
		case e.Phase == Running, e.Phase == Exited && g.c.Deviation == BusyUntilAck:
			return true
		}
	}
	return false
}

// execs is the health field: registered records in any phase.
func (g group) execs(s GroupState) int {
	n := 0
	for _, e := range s.Exec {
		if known(e) && (g.c.Deviation != CountRunning || e.Phase == Running) {
			n++
		}
	}
	return n
}

// childExited is the procs field: the terminal marker.
func (g group) childExited(e Exec) bool {
	return e.Phase >= Exited || g.c.Deviation == MarkerAtReap && e.Reaped
}

// lists reports which processes the procs entry shows.
func (g group) lists(e Exec) (leader, member bool) {
	leader = e.Leader == LeaderAlive || g.c.Deviation == ListZombies && e.Leader >= EndedItself && !e.Reaped
	member = e.Member == InGroup || g.c.Deviation == ListEscaped && e.Member == Escaped
	return leader, member
}

// ExecView is what the routes and the kernel show of one exec id.
type ExecView struct {
	Phase       Phase // Absent: poll answers 404 and procs has no entry
	HasResult   bool  // the poll shows a result: Status, TimedOut and Writers
	Status      Status
	TimedOut    bool
	Writers     bool
	ChildExited bool
	Reap        bool
	Leader      bool // its pid is listed, and alive
	Member      bool // its pid is listed
	MemberAlive bool // in the group or not
}

// GroupView is the observable projection of a state of the group model.
type GroupView struct {
	Exec  [MaxIDs]ExecView
	Busy  bool
	Execs int
}

// View returns what a specified daemon in state s shows.
func View(s GroupState) GroupView {
	g := group{}
	v := GroupView{Busy: g.busy(s), Execs: g.execs(s)}
	for i, e := range s.Exec {
		x := &v.Exec[i]
		x.MemberAlive = e.Member == InGroup || e.Member == Escaped
		if !known(e) {
			continue
		}
		x.Phase, x.ChildExited, x.Reap = e.Phase, g.childExited(e), e.Kind&ReapGroup != 0
		x.Leader, x.Member = g.lists(e)
		if g.shows(e) {
			x.HasResult, x.Status, x.TimedOut, x.Writers = true, g.status(e), e.TimedOut, e.Writers
		}
	}
	return v
}

// GroupAnswer returns what the step a out of s answers under the specified rule.
func GroupAnswer(s GroupState, a model.Action) Answer { return group{}.answer(s, a) }

// TimerCount counts the timers of each sort that are pending.
type TimerCount struct{ Deadline, Grace, Linger, Retention int }

// PendingTimers returns the timers that a specified daemon in state s has set.
func PendingTimers(s GroupState) TimerCount {
	var n TimerCount
	for _, e := range s.Exec {
		if e.Deadline == Armed {
			n.Deadline++
		}
		for _, stage := range e.Stage {
			if stage == Grace {
				n.Grace++
			}
		}
		if e.Phase == Running && supervised(e) && pipeOpen(e) && e.Linger == Unset {
			n.Linger++
		}
		if e.Phase == Acked {
			n.Retention++
		}
	}
	return n
}
