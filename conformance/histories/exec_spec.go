package histories

import (
	"strconv"

	"microvms/model/execution"
)

// maxUnits is the number of stdin requests that one exec's history can hold.
const maxUnits = 64

// execState is one exec in the atomic form of the execution models, and the
// order in which its stdin requests were taken: the models count units, the
// history also knows which.
type execState struct {
	Object execution.Object
	Order  [maxUnits]uint8
}

// execSpec is the sequential specification of one exec.
type execSpec struct {
	atomic  execution.Atomic
	refused *Answer // what every start of it is refused with; nil where it starts
	ring    uint64
	greet   string // "" where it is not known before: the launch environment is then judged elsewhere
}

// newExecSpec returns the specification of an exec that runs child on a daemon that keeps ring bytes of output.
func newExecSpec(child Child, ring uint64) execSpec {
	p := execution.Program{Greets: 1}
	switch child {
	case Echo:
		p.Echoes, p.Ends = true, execution.EndsAtEOF
	case Sleeper:
		p.Ends = execution.EndsNever
	}
	refusals := map[Child]*Answer{Broken: {Status: 500, Code: "spawn_failed"}, Nobody: {Status: 400, Code: "unknown_user"}}
	return execSpec{atomic: execution.Atomic{Program: p}, refused: refusals[child], ring: ring}
}

// execSpecification judges one exec by itself, on a daemon that is bootstrapped.
func execSpecification(child Child, ring uint64, greet string) specification[execState] {
	x := newExecSpec(child, ring)
	x.greet = greet
	return specification[execState]{init: execState{}, silent: x.silent, apply: x.apply}
}

// silent returns the states that one silent step leads to.
func (x execSpec) silent(s execState) []execState {
	var out []execState
	for _, next := range x.atomic.Silent(s.Object, nil) {
		to := s
		to.Object = next
		out = append(out, to)
	}
	return out
}

// apply returns the states after an operation that was answered as recorded, none when the rule answers otherwise.
func (x execSpec) apply(s execState, e entry) []execState {
	switch e.Kind {
	case Start:
		return x.start(s, e)
	case Poll:
		return x.result(s, x.atomic.Poll(s.Object), e.Answer)
	case Ack:
		next, seen := x.atomic.Ack(s.Object)
		to := s
		to.Object = next
		return x.result(to, seen, e.Answer)
	case Kill:
		return x.kill(s, e)
	case Stdin:
		return x.stdin(s, e)
	case Stream:
		return x.stream(s, e)
	}
	return nil
}

func (x execSpec) start(s execState, e entry) []execState {
	if x.refused != nil {
		if e.Known() && !e.Answer.is(x.refused.Status, x.refused.Code) {
			return nil
		}
		return []execState{s}
	}
	// EXEC-4: a name is looked at only for an id that is not known.
	known := x.atomic.Poll(s.Object).Answer == execution.OK
	switch {
	case e.Known() && e.Answer.is(400, "unknown_user"):
		// Such a start has no effect, its own name being refused or that of the start that it waited for.
		if known || e.User != UnknownUser && !e.shares {
			return nil
		}
		return []execState{s}
	case e.User == UnknownUser && !known:
		if e.Known() {
			return nil
		}
		return []execState{s}
	case e.Known() && (e.Answer.Status != 200 || e.Answer.Phase != "running"):
		return nil
	}
	started := s
	started.Object, _ = x.atomic.Start(s.Object)
	if !e.Known() && e.shares && !known {
		return []execState{started, s} // nobody knows whether it got the other one's refusal
	}
	return []execState{started}
}

func (x execSpec) kill(s execState, e entry) []execState {
	if e.half == first {
		s.Object = x.atomic.Kill(s.Object, e.number)
		return []execState{s}
	}
	next, answer, ok := x.atomic.KillAnswer(s.Object, e.number)
	if !ok || !matches(e.Answer, answer) || answer == execution.Signalled != e.Answer.Killed {
		return nil
	}
	s.Object = next
	return []execState{s}
}

func (x execSpec) stdin(s execState, e entry) []execState {
	units := uint8(1)
	if e.EOF {
		units = 0
	}
	next, answer, in := x.atomic.Write(s.Object, units, e.EOF)
	if next.Accepted > s.Object.Accepted {
		s.Order[s.Object.Accepted] = textNumber(e.Text)
	}
	s.Object = next
	if !e.Known() {
		return []execState{s}
	}
	ok := matches(e.Answer, answer)
	if answer == execution.OK {
		switch in {
		case execution.StdinOK:
			ok = e.Answer.Status == 200 && (e.EOF || e.Answer.Written == len(e.Text)+1)
		case execution.StdinAbsent:
			ok = e.Answer.is(409, "stdin_not_requested")
		case execution.StdinGone:
			ok = e.Answer.is(410, "stdin_closed")
		default:
			ok = false
		}
	}
	if !ok {
		return nil
	}
	return []execState{s}
}

// result holds a poll's or an ack's answer to what the rule shows; the text of a result settles how much was printed.
func (x execSpec) result(s execState, seen execution.Seen, a *Answer) []execState {
	if a == nil {
		return []execState{s}
	}
	if seen.Answer != execution.OK {
		if !matches(a, seen.Answer) {
			return nil
		}
		return []execState{s}
	}
	if a.Status != 200 || a.Phase != phaseWord(seen.Phase) || a.Outcome != seen.HasResult {
		return nil
	}
	if !seen.HasResult {
		return []execState{s}
	}
	if !sameStatus(seen.Status, a) {
		return nil
	}
	return x.saw(s, 0, a.Stdout, true)
}

func (x execSpec) stream(s execState, e entry) []execState {
	a := e.Answer
	if a.Status != 200 {
		if x.atomic.Poll(s.Object).Answer == execution.OK || !matches(a, execution.UnknownExec) {
			return nil
		}
		return []execState{s}
	}
	if x.atomic.Poll(s.Object).Answer != execution.OK {
		return nil
	}
	from := e.Offset
	if a.Lost > 0 {
		// The gap ends where the ring begins: as many bytes as it keeps were there behind it.
		units := (a.Lost + x.ring) / Unit
		next, ok := x.atomic.Read(s.Object, uint8(units), false)
		if !ok {
			return nil
		}
		s.Object, from = next, a.Lost
	}
	if a.Exited {
		status, ok := x.atomic.ExitStatus(s.Object)
		if !ok || !sameStatus(status, a) || a.Total != from+uint64(len(a.Bytes)) && a.Total > from {
			return nil
		}
		next, ok := x.atomic.Settle(s.Object, uint8(a.Total/Unit))
		if !ok {
			return nil
		}
		s.Object = next
	}
	if a.Bytes == "" {
		return []execState{s}
	}
	return x.saw(s, from, a.Bytes, false)
}

// saw holds bytes from an offset on to the exec's output; whole says that they are all of it.
func (x execSpec) saw(s execState, from uint64, bytes string, whole bool) []execState {
	end := from + uint64(len(bytes))
	if end%Unit != 0 {
		return nil // units are printed and read whole
	}
	next, ok := x.atomic.Read(s.Object, uint8(end/Unit), whole)
	if !ok {
		return nil
	}
	s.Object = next
	for i := from; i < end; i++ {
		unit := x.greet
		if n := i / Unit; n > 0 {
			unit = textOf(s.Order[n-1])
		}
		if unit != "" && unit[i%Unit] != bytes[i-from] {
			return nil
		}
	}
	return []execState{s}
}

// textNumber and textOf map the text of a stdin request, "w012", to its number and back.
func textNumber(text string) uint8 {
	n, err := strconv.Atoi(text[1:])
	if err != nil || n <= 0 || n > 255 {
		panic("histories: internal error: a unit is called " + strconv.Quote(text))
	}
	return uint8(n)
}

func textOf(number uint8) string {
	digits := strconv.Itoa(int(number))
	return "w000"[:Unit-len(digits)] + digits
}

func (a *Answer) is(status int, code string) bool { return a.Status == status && a.Code == code }

// matches reports whether an answer carries the wire's status and code for the rule's (wire facts, section 2).
func matches(a *Answer, rule execution.Answer) bool {
	switch rule {
	case execution.OK, execution.Signalled, execution.NotSignalled:
		return a.Status == 200
	case execution.UnknownExec:
		return a.is(404, "unknown_exec")
	case execution.StillRunning:
		return a.is(409, "still_running")
	case execution.AlreadyAcked:
		return a.is(409, "already_acked")
	}
	return false
}

func phaseWord(p execution.Phase) string {
	switch p {
	case execution.Exited:
		return "exited"
	case execution.Acked:
		return "acked"
	}
	return "running"
}

// sameStatus compares how the exec ended; a child that ends by itself exits with ExitCode.
func sameStatus(rule execution.Status, a *Answer) bool {
	if a.TimedOut {
		return false // no exec of a history has a deadline
	}
	if rule.HasCode {
		return a.ExitCode != nil && *a.ExitCode == ExitCode && a.Signal == nil
	}
	return a.ExitCode == nil && a.Signal != nil && *a.Signal == int32(rule.Signal)
}
