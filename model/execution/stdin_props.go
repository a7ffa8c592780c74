package execution

import "microvms/model"

type stdinProperty = model.Property[StdinState]

type stdinJudge = func(from StdinState, a model.Action, to StdinState) bool

func inPair(p stdinProperty, witness string, seen func(s StdinState) bool) []stdinProperty {
	return []stdinProperty{p.When(seen).WitnessedBy(witness), model.Sometimes(witness, seen, p.Requirements...)}
}

func inRule(name, witness string, when, then stdinJudge, requirements ...string) []stdinProperty {
	holds := func(from StdinState, a model.Action, to StdinState) bool {
		return !when(from, a, to) || then(from, a, to)
	}
	return []stdinProperty{
		model.AlwaysStep(name, holds, requirements...).WhenStep(when).WitnessedBy(witness),
		model.SometimesStep(witness, when, requirements...),
	}
}

// answered is the case "the step answers this writer's request in that way".
func answered(from StdinState, a model.Action, to StdinState, how StdinAnswer) bool {
	if a.ID > StdinTimeout {
		return false
	}
	w := a.Arg[0]
	fresh := from.Writer[w].Step != WriterIdle || a.ID == StdinWrite
	return fresh && to.Writer[w].Step == WriterIdle && to.Writer[w].Answer == how
}

func (i stdin) properties() []stdinProperty {
	props := i.requestProperties()
	props = append(props, i.pipeProperties()...)
	if i.c.Refused {
		props = append(props, i.absentProperties()...)
	}
	if i.c.Liveness {
		props = append(props, i.liveness()...)
	}
	return props
}

// requestProperties speak about answers.
func (i stdin) requestProperties() []stdinProperty {
	props := inRule("a request to a closed pipe is refused as closed", "a request comes to a closed pipe",
		func(from StdinState, a model.Action, _ StdinState) bool {
			return a.ID == StdinWrite && from.Requested && !from.Open
		},
		func(from StdinState, a model.Action, to StdinState) bool {
			return answered(from, a, to, StdinGone) && from.Entered == to.Entered
		}, "STDIN-6")
	props = append(props, inPair(model.Always("a request answered 200 was written whole, and says so", func(s StdinState) bool {
		for _, x := range s.Writer {
			if x.Answer == StdinOK && (x.Told != x.Units || s.sentOf(x.Request) != x.Units) {
				return false
			}
		}
		return true
	}, "STDIN-10"), "a request is answered 200", func(s StdinState) bool { return s.Writer[0].Answer == StdinOK })...)
	if !i.c.Settled {
		props = append(props, inRule("a write that nobody reads is refused, and the pipe is dropped", "a write meets a broken pipe",
			func(from StdinState, a model.Action, to StdinState) bool {
				return a.ID == StdinPut && from.LeaderGone && from.Open
			},
			func(from StdinState, a model.Action, to StdinState) bool {
				return answered(from, a, to, StdinGone) && !to.Open
			}, "STDIN-6")...)
	}
	if !i.c.Time {
		return props
	}
	return append(props, inRule("a write that stalls is answered 408, and the pipe stays open", "a write stalls after a part of it",
		func(from StdinState, a model.Action, _ StdinState) bool {
			return a.ID == StdinTimeout && (from.Writer[a.Arg[0]].Taken > 0 || i.c.Pipe != 1)
		},
		func(from StdinState, a model.Action, to StdinState) bool {
			return to.Writer[a.Arg[0]].Answer == StdinStalled && to.Writer[a.Arg[0]].Step == WriterIdle && (to.Open || i.c.Settled && to.asked()) &&
				(from.Entered == to.Entered || i.c.Settled)
		}, "STDIN-7")...)
}

// sentOf counts the units of a request that entered the pipe.
func (s StdinState) sentOf(request uint8) uint8 {
	n := uint8(0)
	for _, u := range s.Sent[:s.Entered] {
		if u.Request == request {
			n++
		}
	}
	return n
}

// pipeProperties speak about what the child reads.
func (i stdin) pipeProperties() []stdinProperty {
	two := func(s StdinState) bool {
		for n := 1; n < int(s.Entered); n++ {
			if s.Sent[n].Request != s.Sent[n-1].Request {
				return true
			}
		}
		return false
	}
	props := inPair(model.Always("the units of a request are together and in order", func(s StdinState) bool {
		for n := 1; n < int(s.Entered); n++ {
			before, unit := s.Sent[n-1], s.Sent[n]
			if unit != (Unit{before.Request, before.Index + 1}) && unit.Index != 0 {
				return false
			}
		}
		return true
	}, "STDIN-3"), "the units of two requests are in the pipe", two)
	closes := func(from StdinState, _ model.Action, to StdinState) bool { return from.Open && !to.Open }
	props = append(props, inRule("the pipe is closed by an explicit end of file, by a broken pipe or by the exit", "the pipe is closed",
		closes, func(from StdinState, a model.Action, to StdinState) bool {
			// In a settled space the end of a request is part of the step that made it possible.
			asked := to.asked()
			return asked || from.LeaderGone || to.LeaderGone
		}, "STDIN-4")...)
	if i.c.Ends {
		props = append(props, inRule("an end of file follows the data of its request", "a request with data ends the input",
			func(from StdinState, a model.Action, to StdinState) bool { return closes(from, a, to) && to.asked() },
			func(_ StdinState, _ model.Action, to StdinState) bool {
				for _, x := range to.Writer {
					if x.EOF && x.Step == WriterIdle && x.Answer == StdinOK && to.sentOf(x.Request) == x.Units {
						return true
					}
				}
				return to.LeaderGone
			}, "STDIN-5")...)
	}
	return append(props, inPair(model.Always("the exit closes the pipe",
		func(s StdinState) bool { return s.Phase < Exited || !s.Open }, "STDIN-4", "STDIN-6"),
		"an exec with stdin exits", func(s StdinState) bool { return s.Phase == Exited && s.Requested })...)
}

// asked reports whether some request asked for the end of file and was not
// refused or timed out.
func (s StdinState) asked() bool {
	for _, x := range s.Writer {
		if x.EOF && (x.Step != WriterIdle || x.Answer == StdinOK) {
			return true
		}
	}
	return false
}

// absentProperties speak about an exec without stdin.
func (i stdin) absentProperties() []stdinProperty {
	props := inRule("a request for an exec without stdin is refused", "a request comes to an exec without stdin",
		func(from StdinState, a model.Action, _ StdinState) bool { return a.ID == StdinWrite && !from.Requested },
		func(from StdinState, a model.Action, to StdinState) bool {
			return answered(from, a, to, StdinAbsent) && to.Entered == 0
		}, "STDIN-2")
	return append(props, inPair(model.Always("a child without stdin reads the end at once",
		func(s StdinState) bool { return !s.Foreign && (s.Requested || s.Read == 0) }, "STDIN-1"),
		"a child without stdin reads the end", func(s StdinState) bool { return !s.Requested && (s.SawEOF || s.Foreign) })...)
}

func (i stdin) fairness() []model.Fairness {
	var all []model.Fairness
	for w := range uint8(i.c.Writers) {
		for _, id := range []uint16{StdinLock, StdinPut, StdinDone, StdinTimeout} {
			all = append(all, model.Fairness{
				Name:   stdinActionNames[id] + " of writer " + string('0'+rune(w)),
				Strong: id == StdinLock, // a turn that is free again and again is had
				Match:  func(a model.Action) bool { return a.ID == id && a.Arg[0] == w },
			})
		}
	}
	return append(all, model.Weak("ExecExit", StdinExit))
}

func (i stdin) liveness() []stdinProperty {
	var props []stdinProperty
	for w := range i.c.Writers {
		props = append(props, model.LeadsTo("a stdin request is answered (writer "+string('0'+rune(w))+")",
			func(s StdinState) bool { return s.Writer[w].Step != WriterIdle },
			func(s StdinState) bool { return s.Writer[w].Step == WriterIdle }, "STDIN-7"))
	}
	return props
}
