package execution

import "microvms/model"

type outputProperty = model.Property[OutputState]

// span is the set of units [from, to).
func span(from, to uint8) uint8 {
	var set uint8
	for u := from; u < to; u++ {
		set |= 1 << u
	}
	return set
}

// readers lifts a predicate of one reader to a state.
func readers(all bool, f func(s OutputState, x Reader) bool) func(s OutputState) bool {
	return func(s OutputState) bool {
		for _, x := range s.Reader {
			if f(s, x) != all {
				return !all
			}
		}
		return all
	}
}

// outPair and outRule are pair and rule for this model.
func outPair(p outputProperty, witness string, seen func(s OutputState) bool) []outputProperty {
	return []outputProperty{p.When(seen).WitnessedBy(witness), model.Sometimes(witness, seen, p.Requirements...)}
}

type outputJudge = func(from OutputState, a model.Action, to OutputState) bool

func outRule(name, witness string, ids []uint16, when, then outputJudge, requirements ...string) []outputProperty {
	seen := func(from OutputState, a model.Action, to OutputState) bool {
		for _, id := range ids {
			if a.ID == id {
				return when(from, a, to)
			}
		}
		return false
	}
	holds := func(from OutputState, a model.Action, to OutputState) bool {
		return !seen(from, a, to) || then(from, a, to)
	}
	return []outputProperty{
		model.AlwaysStep(name, holds, requirements...).WhenStep(seen).WitnessedBy(witness),
		model.SometimesStep(witness, seen, requirements...),
	}
}

func (o output) properties() []outputProperty {
	props := o.readerProperties()
	if !o.c.Settled {
		props = append(props, o.eventProperties()...)
		props = append(props, o.storeSteps()...)
	}
	props = append(props, o.storeProperties()...)
	if o.c.Liveness {
		props = append(props, o.liveness()...)
	}
	return props
}

// readerProperties speak about what a client has received in all.
func (o output) readerProperties() []outputProperty {
	received := readers(false, func(_ OutputState, x Reader) bool { return x.Got != 0 })
	props := outPair(model.Always("outputs and gaps cover the offsets from the attach to the cursor once",
		readers(true, func(_ OutputState, x Reader) bool {
			return x.Got|x.Gaps == span(x.Start, x.Want) && x.Got&x.Gaps == 0 && x.Twice == 0
		}), "OUT-4", "OUT-6"), "a reader receives output", received)
	witness := "a reader comes to the end"
	if o.c.Readers > 1 {
		witness = "two readers come to the end"
	}
	props = append(props, outPair(model.Always("every reader that came to the end got everything from its offset on",
		readers(true, func(s OutputState, x Reader) bool {
			return x.Phase != Done || x.Got|x.Gaps == span(x.Start, s.Published)
		}), "OUT-8", "OUT-13"), witness, func(s OutputState) bool {
		last := s.Reader[o.c.Readers-1]
		return s.Reader[0].Phase == Done && last.Phase == Done && s.Reader[0].Got|last.Got != 0
	})...)
	props = append(props, outPair(model.Always("a reader gets one exit event and then nothing, and none when it is cut",
		readers(true, func(_ OutputState, x Reader) bool { return (x.Exits == 1) == (x.Phase == Done) && x.Exits <= 1 }), "OUT-8"),
		"a reader gets the exit event", readers(false, func(_ OutputState, x Reader) bool { return x.Phase == Done }))...)
	past := readers(false, func(s OutputState, x Reader) bool { return x.Phase == Attached && x.Start > s.Published })
	for _, offset := range o.c.Offsets {
		if offset > 0 {
			return append(props, outPair(model.Always("a reader past the output gets none",
				readers(true, func(_ OutputState, x Reader) bool { return (x.Got|x.Gaps)&span(0, x.Start) == 0 }), "OUT-20"),
				"a reader waits past the output", past)...)
		}
	}
	return props
}

// eventProperties speak about single events.
func (o output) eventProperties() []outputProperty {
	always := func(OutputState, model.Action, OutputState) bool { return true }
	client := func(s OutputState, a model.Action) Reader { return s.Reader[a.Arg[0]] }
	props := outRule("an output event starts at the cursor", "an output event is sent", []uint16{StreamDeliver}, always,
		func(from OutputState, a model.Action, to OutputState) bool {
			return client(to, a).Want == client(from, a).Want+1 && client(from, a).Want >= client(from, a).Start
		}, "OUT-5", "OUT-6")
	if o.c.Ring < o.c.Units {
		props = append(props, outRule("a gap event covers what left the ring and nothing else", "a gap event is sent", []uint16{StreamGap}, always,
			func(from OutputState, a model.Action, to OutputState) bool {
				x, y := client(from, a), client(to, a)
				return x.Want < from.Low && y.Want == from.Low && y.Gaps == x.Gaps|span(x.Want, from.Low)
			}, "OUT-7")...)
	}
	props = append(props, outRule("the exit event follows the last output", "an exit event is sent", []uint16{StreamExit}, always,
		func(from OutputState, a model.Action, _ OutputState) bool {
			return from.Phase >= Exited && client(from, a).Want >= from.Published
		}, "OUT-8", "OUT-18")...)
	if o.c.Acks {
		props = append(props, outRule("an acked exec is streamed like an exited one", "an acked exec is streamed",
			[]uint16{StreamDeliver, StreamGap},
			func(from OutputState, _ model.Action, _ OutputState) bool { return from.Phase == Acked },
			func(from OutputState, a model.Action, _ OutputState) bool {
				return a.ID == StreamDeliver || client(from, a).Want+o.c.Ring < from.Published
			}, "OUT-11")...)
	}
	return props
}

// storeSteps speak about publication and exit.
func (o output) storeSteps() []outputProperty {
	always := func(OutputState, model.Action, OutputState) bool { return true }
	props := outRule("the exit follows the last byte", "an exit is published", []uint16{OutputExit}, always,
		func(from OutputState, _ model.Action, _ OutputState) bool { return from.Written == from.Published }, "OUT-18")
	return append(props, outRule("nothing is published after the exit", "output is published", []uint16{OutputPublish}, always,
		func(from OutputState, _ model.Action, _ OutputState) bool { return from.Phase == Running }, "OUT-18", "EXEC-23")...)
}

// storeProperties speak about what the daemon keeps.
func (o output) storeProperties() []outputProperty {
	requests := []uint16{StreamAttach, StreamSubscribe, StreamDetach}
	attends := func(from OutputState, a model.Action, _ OutputState) bool {
		return a.ID != StreamDetach || from.Phase == Running
	}
	untouched := func(from OutputState, _ model.Action, to OutputState) bool {
		from.Reader = to.Reader
		return from == to
	}
	props := outRule("a reader that comes or goes changes nothing", "a reader comes or goes", requests, attends, untouched, "OUT-12", "EXEC-35")
	if o.c.Polls {
		props = append(props, outRule("a poll leaves the result whole", "a result with output is polled", []uint16{OutputPoll},
			func(from OutputState, _ model.Action, _ OutputState) bool { return from.Head != [2]uint8{} },
			untouched, "EXEC-21", "EXEC-27")...)
	}
	props = append(props, outPair(model.Always("the ring keeps the newest output up to its size", func(s OutputState) bool {
		return s.Low == s.Published-min(s.Published, o.c.Ring)
	}, "OUT-10"), "output leaves the ring", func(s OutputState) bool { return s.Published > o.c.Ring })...)
	if o.c.Acks {
		props = append(props, outPair(model.Always("an acked exec keeps its ring", func(s OutputState) bool {
			return s.Phase != Acked || s.Low == s.Published-min(s.Published, o.c.Ring)
		}, "OUT-11"), "an exec with output is acked", func(s OutputState) bool { return s.Phase == Acked && s.Published > 0 })...)
	}
	kept := func(s OutputState, stream uint8) uint8 { return min((s.Published+1-stream)/2, o.c.Head) }
	props = append(props, outPair(model.Always("the result keeps the first output of each stream up to its cap", func(s OutputState) bool {
		return s.Head[0] == kept(s, 0) && s.Head[1] == kept(s, 1)
	}, "EXEC-22"), "a stream exceeds its cap", func(s OutputState) bool { return (s.Published+1)/2 > o.c.Head })...)
	props = append(props, outPair(model.Always("an exit tells the total", func(s OutputState) bool {
		return s.Phase < Exited || s.Total == s.Published
	}, "OUT-8"), "an exec with output exits", func(s OutputState) bool { return s.Phase >= Exited && s.Published > 0 })...)
	if o.c.Settled {
		return props
	}
	return append(props, outPair(model.Always("a publication waits for no reader", func(s OutputState) bool {
		return s.Phase != Running || s.Written == s.Published || o.mayPublish(s)
	}, "OUT-17"), "output waits beside a reader that lags", func(s OutputState) bool {
		return s.Written > s.Published && readers(false, func(s OutputState, x Reader) bool { return x.Phase == Attached && x.Next < s.Low })(s)
	})...)
}

// fairness assumes that the daemon goes on; clients and processes need not.
func (o output) fairness() []model.Fairness {
	var all []model.Fairness
	for _, id := range []uint16{OutputPublish, OutputExit, OutputLinger} {
		all = append(all, model.Weak(outputActionNames[id], id))
	}
	for r := range uint8(o.c.Readers) {
		all = append(all, model.Fairness{Name: "serving reader " + string('0'+rune(r)), Match: func(a model.Action) bool {
			return a.ID >= StreamDeliver && a.ID <= StreamExit && a.Arg[0] == r
		}})
	}
	return all
}

func (o output) liveness() []outputProperty {
	props := []outputProperty{
		model.LeadsTo("what is written is published",
			func(s OutputState) bool { return s.Written > s.Published && s.Phase == Running },
			func(s OutputState) bool { return s.Written == s.Published }, "OUT-17", "OUT-18"),
		model.LeadsTo("the leader's end leads to the exit, if its processes stop writing",
			func(s OutputState) bool { return s.LeaderGone },
			func(s OutputState) bool { return s.Phase >= Exited }, "EXEC-19"),
	}
	for r := range o.c.Readers {
		props = append(props, model.LeadsTo("a reader of an exited exec gets the exit event or is cut (reader "+string('0'+rune(r))+")",
			func(s OutputState) bool { return s.Phase >= Exited && s.Reader[r].Phase == Attached },
			func(s OutputState) bool { return s.Reader[r].Phase != Attached }, "OUT-8", "OUT-17"))
	}
	return props
}
