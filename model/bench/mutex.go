package bench

import (
	"strconv"

	"microvms/model"
)

// mutexProcesses is the number of processes of [LamportMutex].
const mutexProcesses = 3

// Messages of LamportMutex, five bits each in a channel: the kind in the low
// two, the timestamp of a request in the next three. The oldest is lowest; an
// empty channel is 0.
const (
	mutexRequestMsg uint32 = 1
	mutexAckMsg     uint32 = 2
	mutexReleaseMsg uint32 = 3
	mutexMsgBits           = 5
)

// LamportMutexState is a state of [LamportMutex].
type LamportMutexState struct {
	Network [mutexProcesses][mutexProcesses]uint32 // channel from, to
	Req     [mutexProcesses][mutexProcesses]uint8  // Req[p][q]: clock of q's request as p knows it, 0 none
	Clock   [mutexProcesses]uint8
	Ack     [mutexProcesses]uint8 // who acknowledged the process's request, one bit each
	Crit    uint8                 // processes in the critical section
}

const (
	mutexRequest uint16 = iota
	mutexEnter
	mutexExit
	mutexReceiveRequest
	mutexReceiveAck
	mutexReceiveRelease
)

// LamportMutex is Lamport's distributed mutual exclusion with logical clocks
// over FIFO channels: three processes, clocks constrained to maxClock (at most
// 6, so that a request's timestamp fits three bits).
//
// Source: tlaplus/Examples, specifications/lamport_mutex/LamportMutex.tla and
// MCLamportMutex.cfg (maxClock 6).
func LamportMutex(maxClock uint8) model.Model[LamportMutexState] {
	if maxClock > 6 {
		panic("bench: internal error: the largest clock must be at most 6")
	}
	return model.Model[LamportMutexState]{
		Name:   "LamportMutex",
		Config: strconv.Itoa(int(maxClock)),
		Actions: []model.ActionInfo{
			mutexRequest:        {Name: "Request", Params: []string{"p"}},
			mutexEnter:          {Name: "Enter", Params: []string{"p"}},
			mutexExit:           {Name: "Exit", Params: []string{"p"}},
			mutexReceiveRequest: {Name: "ReceiveRequest", Params: []string{"p", "q"}},
			mutexReceiveAck:     {Name: "ReceiveAck", Params: []string{"p", "q"}},
			mutexReceiveRelease: {Name: "ReceiveRelease", Params: []string{"p", "q"}},
		},
		Init: func(out []LamportMutexState) []LamportMutexState {
			return append(out, LamportMutexState{Clock: [mutexProcesses]uint8{1, 1, 1}})
		},
		Next: LamportMutexState.next,
		Constraint: func(s LamportMutexState) bool {
			for _, clock := range s.Clock {
				if clock > maxClock {
					return false
				}
			}
			return true
		},
		Properties: []model.Property[LamportMutexState]{
			model.Always("Mutex", func(s LamportMutexState) bool { return popcount(s.Crit) <= 1 }).
				When(func(s LamportMutexState) bool { return s.Crit != 0 }),
			model.Always("BoundedNetwork", func(s LamportMutexState) bool {
				for _, row := range s.Network {
					for _, channel := range row {
						if channel>>(3*mutexMsgBits) != 0 {
							return false
						}
					}
				}
				return true
			}),
		},
	}
}

func (s LamportMutexState) next(out []model.Step[LamportMutexState]) []model.Step[LamportMutexState] {
	for p := range uint8(mutexProcesses) {
		if s.Req[p][p] == 0 {
			to := s
			to.Req[p][p] = s.Clock[p]
			to.Ack[p] = 1 << p
			to.broadcast(p, mutexRequestMsg|uint32(s.Clock[p])<<2)
			out = append(out, model.Step[LamportMutexState]{Action: model.Act(mutexRequest, p), State: to})
		}
		if s.mayEnter(p) {
			to := s
			to.Crit |= 1 << p
			out = append(out, model.Step[LamportMutexState]{Action: model.Act(mutexEnter, p), State: to})
		}
		if s.Crit>>p&1 == 1 {
			to := s
			to.Crit &^= 1 << p
			to.Req[p][p], to.Ack[p] = 0, 0
			to.broadcast(p, mutexReleaseMsg)
			out = append(out, model.Step[LamportMutexState]{Action: model.Act(mutexExit, p), State: to})
		}
		for q := range uint8(mutexProcesses) {
			if q != p && s.Network[q][p] != 0 {
				out = append(out, s.receive(p, q))
			}
		}
	}
	return out
}

// mayEnter says whether all have acknowledged p's request and it beats theirs.
func (s LamportMutexState) mayEnter(p uint8) bool {
	if s.Ack[p] != 1<<mutexProcesses-1 {
		return false
	}
	for q := range uint8(mutexProcesses) {
		own, other := s.Req[p][p], s.Req[p][q]
		if q != p && other != 0 && (other < own || other == own && q < p) {
			return false
		}
	}
	return true
}

// receive takes the oldest message from q to p.
func (s LamportMutexState) receive(p, q uint8) model.Step[LamportMutexState] {
	message := s.Network[q][p] & (1<<mutexMsgBits - 1)
	s.Network[q][p] >>= mutexMsgBits
	id := mutexReceiveAck
	switch message & 3 {
	case mutexRequestMsg:
		id = mutexReceiveRequest
		clock := uint8(message >> 2)
		s.Req[p][q] = clock
		s.Clock[p] = max(clock, s.Clock[p]) + 1
		s.Network[p][q] = push(s.Network[p][q], mutexAckMsg)
	case mutexAckMsg:
		s.Ack[p] |= 1 << q
	case mutexReleaseMsg:
		id = mutexReceiveRelease
		s.Req[p][q] = 0
	}
	return model.Step[LamportMutexState]{Action: model.Act(id, p, q), State: s}
}

func (s *LamportMutexState) broadcast(p uint8, message uint32) {
	for q := range s.Network[p] {
		if uint8(q) != p {
			s.Network[p][q] = push(s.Network[p][q], message)
		}
	}
}

// push appends a message of LamportMutex to a channel, which has room for six:
// twice what the property BoundedNetwork claims to be enough.
func push(channel, message uint32) uint32 {
	for shift := 0; shift < 6*mutexMsgBits; shift += mutexMsgBits {
		if channel>>shift == 0 {
			return channel | message<<shift
		}
	}
	panic("bench: internal error: a channel holds more than six messages")
}
