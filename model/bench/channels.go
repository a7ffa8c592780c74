package bench

import (
	"strconv"

	"microvms/model"
)

// fifoMaxQueue is the longest queue that [InnerFIFO] can hold.
const fifoMaxQueue = 4

// Channel is an asynchronous channel: a value, and the two bits of its
// handshake, equal when the receiver is done.
type Channel struct {
	Val uint8
	Rdy uint8
	Ack uint8
}

// FIFOState is a state of [InnerFIFO].
type FIFOState struct {
	In, Out Channel
	Queue   [fifoMaxQueue]uint8 // message+1, oldest first; 0 ends it
}

const (
	fifoSend uint16 = iota
	fifoBufReceive
	fifoBufSend
	fifoReceive
)

// InnerFIFO is a buffer between two channels, with a number of messages to send
// and its queue constrained to qLen (at most 3).
//
// Source: Lamport, Specifying Systems, chapter 4; tlaplus/Examples,
// specifications/SpecifyingSystems/FIFO/InnerFIFO.tla, MCInnerFIFO.cfg.
func InnerFIFO(messages uint8, qLen int) model.Model[FIFOState] {
	if qLen >= fifoMaxQueue {
		panic("bench: internal error: the queue must be shorter than " + strconv.Itoa(fifoMaxQueue))
	}
	return model.Model[FIFOState]{
		Name:   "InnerFIFO",
		Config: strconv.Itoa(int(messages)) + "-" + strconv.Itoa(qLen),
		Actions: []model.ActionInfo{
			fifoSend:       {Name: "SSend", Params: []string{"message"}},
			fifoBufReceive: {Name: "BufRcv"},
			fifoBufSend:    {Name: "BufSend"},
			fifoReceive:    {Name: "RRcv"},
		},
		Init: func(out []FIFOState) []FIFOState {
			for i := range messages {
				for j := range messages {
					for bit := range uint8(4) {
						in, o := bit&1, bit>>1
						out = append(out, FIFOState{In: Channel{i, in, in}, Out: Channel{j, o, o}})
					}
				}
			}
			return out
		},
		Next: func(s FIFOState, out []model.Step[FIFOState]) []model.Step[FIFOState] { return s.next(messages, out) },
		Constraint: func(s FIFOState) bool {
			return s.Queue[qLen] == 0
		},
		Properties: []model.Property[FIFOState]{
			model.Always("TypeInvariant", func(s FIFOState) bool {
				for _, queued := range s.Queue {
					if queued > messages {
						return false
					}
				}
				return s.In.Val < messages && s.Out.Val < messages
			}),
			model.AlwaysStep("the oldest message leaves first", func(from FIFOState, a model.Action, to FIFOState) bool {
				return a.ID != fifoBufSend || to.Out.Val+1 == from.Queue[0]
			}).WhenStep(func(_ FIFOState, a model.Action, _ FIFOState) bool { return a.ID == fifoBufSend }),
		},
	}
}

func (s FIFOState) next(messages uint8, out []model.Step[FIFOState]) []model.Step[FIFOState] {
	step := func(to FIFOState, id uint16, args ...uint8) {
		out = append(out, model.Step[FIFOState]{Action: model.Act(id, args...), State: to})
	}
	if s.In.Rdy == s.In.Ack {
		for message := range messages {
			to := s
			to.In.Val, to.In.Rdy = message, 1-s.In.Rdy
			step(to, fifoSend, message)
		}
	} else {
		to := s
		to.In.Ack = 1 - s.In.Ack
		n := 0
		for s.Queue[n] != 0 {
			n++
		}
		to.Queue[n] = s.In.Val + 1
		step(to, fifoBufReceive)
	}
	if s.Out.Rdy == s.Out.Ack {
		if s.Queue[0] != 0 {
			to := s
			to.Out.Val, to.Out.Rdy = s.Queue[0]-1, 1-s.Out.Rdy
			copy(to.Queue[:], s.Queue[1:])
			to.Queue[fifoMaxQueue-1] = 0
			step(to, fifoBufSend)
		}
	} else {
		to := s
		to.Out.Ack = 1 - s.Out.Ack
		step(to, fifoReceive)
	}
	return out
}

// The alternating bit protocol sends one of two data values.
const abData = 2

// AlternatingBitState is a state of [AlternatingBit]. The queues hold one place
// more than the constraint allows, for the states that break it.
type AlternatingBitState struct {
	MsgQ [3]uint8 // 1 + bit + 2*value, oldest first; 0 ends it
	AckQ [3]uint8 // 1 + bit
	ABCorrectnessState
}

// ABCorrectnessState is a state of [ABCorrectness].
type ABCorrectnessState struct {
	SBit, SAck, RBit uint8 // the sender's bit, the last one acknowledged to it, the receiver's bit
	Sent, Rcvd       uint8 // the values last sent and received
}

const (
	abSendNew uint16 = iota
	abResend
	abReceive
	abSendAck
	abReceiveAck
	abLoseMsg
	abLoseAck
)

// AlternatingBit is the alternating bit protocol with two data values over two
// lossy queues of at most two messages. It refines [ABCorrectness].
//
// Source: Lamport, Specifying Systems, chapter 14; tlaplus/Examples,
// specifications/SpecifyingSystems/TLC/AlternatingBit.tla, MCAlternatingBit.cfg.
func AlternatingBit() model.Model[AlternatingBitState] {
	m := model.Model[AlternatingBitState]{
		Name:   "AlternatingBit",
		Config: "2-2",
		Actions: []model.ActionInfo{
			abSendNew: {Name: "SndNewValue", Params: []string{"value"}}, abResend: {Name: "ReSndMsg"},
			abReceive: {Name: "RcvMsg"}, abSendAck: {Name: "SndAck"}, abReceiveAck: {Name: "RcvAck"},
			abLoseMsg: {Name: "LoseMsg", Params: []string{"i"}}, abLoseAck: {Name: "LoseAck", Params: []string{"i"}},
		},
		Init: func(out []AlternatingBitState) []AlternatingBitState {
			for _, s := range abInit(nil) {
				out = append(out, AlternatingBitState{ABCorrectnessState: s})
			}
			return out
		},
		Next:       AlternatingBitState.next,
		Constraint: func(s AlternatingBitState) bool { return s.MsgQ[2] == 0 && s.AckQ[2] == 0 },
		Properties: []model.Property[AlternatingBitState]{
			model.AlwaysStep("every step is a step of ABCorrectness", func(from AlternatingBitState, _ model.Action, to AlternatingBitState) bool {
				return refinesAB(from.ABCorrectnessState, to.ABCorrectnessState)
			}),
		},
		Fairness: []model.Fairness{
			model.Weak("ReSndMsg", abResend), model.Weak("SndAck", abSendAck),
			model.Strong("RcvMsg", abReceive), model.Strong("RcvAck", abReceiveAck),
		},
	}
	for value := range uint8(abData) {
		m.Properties = append(m.Properties, model.LeadsTo("SentLeadsToRcvd: value "+strconv.Itoa(int(value)),
			func(s AlternatingBitState) bool { return s.Sent == value && s.SBit != s.SAck },
			func(s AlternatingBitState) bool { return s.Rcvd == value }))
	}
	return m
}

func (s AlternatingBitState) next(out []model.Step[AlternatingBitState]) []model.Step[AlternatingBitState] {
	step := func(to AlternatingBitState, id uint16, args ...uint8) {
		out = append(out, model.Step[AlternatingBitState]{Action: model.Act(id, args...), State: to})
	}
	if s.SBit == s.SAck {
		for value := range uint8(abData) {
			to := s
			to.Sent, to.SBit = value, 1-s.SBit
			to.MsgQ = appended(s.MsgQ, 1+to.SBit+2*value)
			step(to, abSendNew, value)
		}
	} else {
		to := s
		to.MsgQ = appended(s.MsgQ, 1+s.SBit+2*s.Sent)
		step(to, abResend)
	}
	if head := s.MsgQ[0]; head != 0 {
		to := s
		to.MsgQ = removed(s.MsgQ, 0)
		to.RBit, to.Rcvd = (head-1)&1, (head-1)>>1
		step(to, abReceive)
	}
	to := s
	to.AckQ = appended(s.AckQ, 1+s.RBit)
	step(to, abSendAck)
	if head := s.AckQ[0]; head != 0 {
		to := s
		to.AckQ = removed(s.AckQ, 0)
		to.SAck = head - 1
		step(to, abReceiveAck)
	}
	for i := range uint8(len(s.MsgQ)) {
		if s.MsgQ[i] != 0 {
			to := s
			to.MsgQ = removed(s.MsgQ, i)
			step(to, abLoseMsg, i)
		}
		if s.AckQ[i] != 0 {
			to := s
			to.AckQ = removed(s.AckQ, i)
			step(to, abLoseAck, i)
		}
	}
	return out
}

// ABCorrectness says what the alternating bit protocol must do, with two data
// values and no queues.
//
// Source: Lamport, Specifying Systems, chapter 14; tlaplus/Examples,
// specifications/SpecifyingSystems/TLC/ABCorrectness.tla.
func ABCorrectness() model.Model[ABCorrectnessState] {
	return model.Model[ABCorrectnessState]{
		Name:    "ABCorrectness",
		Config:  strconv.Itoa(abData),
		Actions: []model.ActionInfo{{Name: "CSndNewValue", Params: []string{"value"}}, {Name: "CRcvMsg"}, {Name: "CRcvAck"}},
		Init:    abInit,
		Next:    ABCorrectnessState.next,
		Properties: []model.Property[ABCorrectnessState]{
			infinitelyOften("the sender is acknowledged again and again", func(s ABCorrectnessState) bool { return s.SBit == s.SAck }),
		},
		Fairness: []model.Fairness{model.Weak("CRcvMsg", 1), model.Weak("CRcvAck", 2)},
	}
}

func (s ABCorrectnessState) next(out []model.Step[ABCorrectnessState]) []model.Step[ABCorrectnessState] {
	if s.SBit == s.SAck {
		for value := range uint8(abData) {
			to := s
			to.Sent, to.SBit = value, 1-s.SBit
			out = append(out, model.Step[ABCorrectnessState]{Action: model.Act(0, value), State: to})
		}
	}
	if s.RBit != s.SBit {
		to := s
		to.RBit, to.Rcvd = s.SBit, s.Sent
		out = append(out, model.Step[ABCorrectnessState]{Action: model.Act(1), State: to})
	}
	if s.RBit != s.SAck {
		to := s
		to.SAck = s.RBit
		out = append(out, model.Step[ABCorrectnessState]{Action: model.Act(2), State: to})
	}
	return out
}

func abInit(out []ABCorrectnessState) []ABCorrectnessState {
	for bit := range uint8(2) {
		for sent := range uint8(abData) {
			for received := range uint8(abData) {
				out = append(out, ABCorrectnessState{SBit: bit, SAck: bit, RBit: bit, Sent: sent, Rcvd: received})
			}
		}
	}
	return out
}

func refinesAB(from, to ABCorrectnessState) bool {
	if from == to {
		return true
	}
	for _, step := range from.next(nil) {
		if step.State == to {
			return true
		}
	}
	return false
}

// appended returns queue with value at its end.
func appended(queue [3]uint8, value uint8) [3]uint8 {
	for i := range queue {
		if queue[i] == 0 {
			queue[i] = value
			return queue
		}
	}
	panic("bench: internal error: a queue outside the constraint was extended")
}

// removed returns queue without its element i.
func removed(queue [3]uint8, i uint8) [3]uint8 {
	copy(queue[i:], queue[i+1:])
	queue[len(queue)-1] = 0
	return queue
}
