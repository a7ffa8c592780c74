package manager

import "microvms/model"

type wireProperty = model.Property[WireState]

// wireCase is a case of a judged message.
type wireCase = func(m Message) bool

// judged is the property that messages of a case get the verdict of the facts
// and leave the connection open.
func (c *WireConfig) judged(name string, when wireCase, ids ...string) wireProperty {
	of := func(from WireState, a model.Action, to WireState) (Message, bool) {
		switch {
		case a.ID == ActSend && c.Settled:
			return Messages[a.Arg[0]], true
		case a.ID == ActHandle:
			return Messages[from.In[0]], true
		}
		return Message{}, false
	}
	antecedent := func(from WireState, a model.Action, to WireState) bool {
		m, ok := of(from, a, to)
		return ok && !m.TooLong && when(m)
	}
	return model.AlwaysStep(name, func(from WireState, a model.Action, to WireState) bool {
		if !antecedent(from, a, to) {
			return true
		}
		m, _ := of(from, a, to)
		words, id := Verdict(m)
		queue := ControlQueue
		if words == Page {
			queue = PageQueue
		}
		q := &to.Queue[queue]
		if q.Len != from.Queue[queue].Len+1 || to.Queue[1-queue] != from.Queue[1-queue] || to.Phase != WireOpen {
			return false
		}
		last := q.Sent[q.Len-1]
		return last.Words == words && last.ID == id
	}, ids...).WhenStep(antecedent)
}

// properties are the rules of section 2.3 one by one, and those of the queues.
func (c *WireConfig) properties() []wireProperty {
	request := func(m Message) bool { return m.Method >= PlainMethod && m.ID > 0 && !m.Text && !m.Short }
	ps := []wireProperty{
		c.judged("a text message is malformed, whatever it says", func(m Message) bool { return m.Text }, "SOCKET-7"),
		c.judged("a message without a header is malformed, and its id is not read",
			func(m Message) bool { return m.Short && !m.Text }, "SOCKET-8"),
		c.judged("an unknown method is told so, under the id that was sent",
			func(m Message) bool { return m.Method == NoMethod && !m.Text && !m.Short }, "SOCKET-9"),
		c.judged("id 0 is the manager's own",
			func(m Message) bool { return m.Method != NoMethod && m.ID == 0 && !m.Text && !m.Short }, "SOCKET-10"),
		c.judged("what only the manager sends is an unknown method",
			func(m Message) bool { return m.Method == ServerMethod && m.ID > 0 }, "SOCKET-11"),
		c.judged("a payload that does not decode is malformed, under its id",
			func(m Message) bool { return request(m) && m.Payload >= Undecodable }, "SOCKET-15"),
		c.judged("a request gets one reply or one error", func(m Message) bool { return request(m) && m.Payload < Undecodable }, "SOCKET-19"),
		c.judged("a get_artifact that is refused is answered like any other request",
			func(m Message) bool { return request(m) && m.Method == PageMethod && m.Payload == RefusedPayload }, "SOCKET-25"),
		model.AlwaysStep("a message that is too long ends the connection without a close frame",
			func(from WireState, a model.Action, to WireState) bool {
				return !c.long(from, a) || to.Phase == Dropped && to.Queue == [2]WireQueue{}
			}, "SOCKET-12").WhenStep(func(from WireState, a model.Action, _ WireState) bool { return c.long(from, a) }),
		model.Always("each id gets as many answers as are due",
			func(s WireState) bool {
				for id := range s.Owed {
					if s.Phase == WireOpen && s.Answers[id]+s.waiting(uint8(id)) != s.Owed[id] {
						return false
					}
				}
				return true
			}, "SOCKET-19").When(func(s WireState) bool { return s.Owed[1]+s.Owed[2] > 0 }),
		model.Always("the hello comes first", func(s WireState) bool {
			return !s.Early && (s.Heard || s.Phase != WireOpen || s.holdsHello())
		}, "SOCKET-1").When(func(s WireState) bool { return s.Heard }),
		model.AlwaysStep("messages are handled in the order in which they came",
			func(from WireState, a model.Action, to WireState) bool {
				return a.ID != ActHandle || from.InLen < 2 || to.InLen == 0 || to.In[0] == from.In[1]
			}, "SOCKET-18"),
		model.AlwaysStep("a queue is written in its order", func(from WireState, a model.Action, to WireState) bool {
			return a.ID != ActWrite || to.Last[a.Arg[0]] > from.Last[a.Arg[0]]
		}, "SOCKET-13").WhenStep(func(from WireState, a model.Action, _ WireState) bool { return a.ID == ActWrite }),
		model.Always("a page is not written while a control message waits", func(s WireState) bool { return !s.Overtook }, "SOCKET-14"),
		model.Always("pages wait apart", func(s WireState) bool {
			for _, m := range s.Queue[ControlQueue].Messages() {
				if m.Words == Page {
					return false
				}
			}
			return true
		}, "SOCKET-14"),
		model.AlwaysStep("nothing is written to a client that has left",
			func(from WireState, a model.Action, to WireState) bool {
				return a.ID != ActLeave || to.Queue == [2]WireQueue{}
			},
			"SOCKET-21").WhenStep(func(from WireState, a model.Action, _ WireState) bool { return a.ID == ActLeave }),
		model.LeadsTo("what was sent is answered, unless the connection ends",
			func(s WireState) bool { return s.InLen > 0 || s.Queue != [2]WireQueue{} },
			func(s WireState) bool { return s.Phase != WireOpen || s.InLen == 0 && s.Queue == [2]WireQueue{} }, "SOCKET-19"),
	}
	return append(ps, c.witnesses()...)
}

// long reports whether the step judges a message that is too long.
func (c *WireConfig) long(from WireState, a model.Action) bool {
	return a.ID == ActSend && c.Settled && Messages[a.Arg[0]].TooLong || a.ID == ActHandle && Messages[from.In[0]].TooLong
}

// waiting counts the queued answers under an id.
func (s *WireState) waiting(id uint8) uint8 {
	n := uint8(0)
	for i := range s.Queue {
		q := &s.Queue[i]
		for _, m := range q.Sent[:q.Len] {
			if m.Words >= Reply && m.ID == id {
				n++
			}
		}
	}
	return n
}

func (s *WireState) holdsHello() bool {
	q := &s.Queue[ControlQueue]
	for _, m := range q.Sent[:q.Len] {
		if m.Words == Hello {
			return true
		}
	}
	return false
}

func (c *WireConfig) witnesses() []wireProperty {
	ps := []wireProperty{
		model.Sometimes("two requests share an id", func(s WireState) bool { return s.Answers[1] == 2 }, "SOCKET-19"),
		model.Sometimes("a request is answered after an error", func(s WireState) bool {
			return s.Answers[0] == 1 && s.Answers[2] == 1
		}, "SOCKET-7"),
		model.Sometimes("a page and a control message wait", func(s WireState) bool {
			return s.Queue[ControlQueue].Len > 0 && s.Queue[PageQueue].Len > 0
		}),
	}
	if c.Settled {
		return ps
	}
	return append(ps, model.SometimesStep("a later answer overtakes a page", func(from WireState, a model.Action, to WireState) bool {
		return a.ID == ActWrite && a.Arg[0] == ControlQueue && from.Queue[PageQueue].Len > 0 &&
			from.Queue[ControlQueue].Sent[0].Serial > from.Queue[PageQueue].Sent[0].Serial
	}, "SOCKET-14"))
}
