package bench

import (
	"strconv"

	"microvms/model"
)

// asyncNodes is the number of nodes of [AsyncTerminationDetection].
const asyncNodes = 4

// AsyncTerminationState is a state of [AsyncTerminationDetection].
type AsyncTerminationState struct {
	Active   uint8             // nodes that compute, one bit each
	Pending  [asyncNodes]uint8 // messages on their way to each node
	Detected uint8             // 1: termination was announced
}

const (
	asyncTerminate uint16 = iota
	asyncSend
	asyncWakeup
	asyncDetect
)

// AsyncTerminationDetection says what detecting the termination of four
// processes with asynchronous messages means. The constraint keeps at most
// three messages pending to each node.
//
// Source: tlaplus/Examples,
// specifications/ewd998/AsyncTerminationDetection.tla.
func AsyncTerminationDetection() model.Model[AsyncTerminationState] {
	detected := func(s AsyncTerminationState) bool { return s.Detected == 1 }
	return model.Model[AsyncTerminationState]{
		Name:   "AsyncTerminationDetection",
		Config: strconv.Itoa(asyncNodes),
		Actions: []model.ActionInfo{
			asyncTerminate: {Name: "Terminate", Params: []string{"i", "detected"}},
			asyncSend:      {Name: "SendMsg", Params: []string{"i", "j"}},
			asyncWakeup:    {Name: "Wakeup", Params: []string{"i"}},
			asyncDetect:    {Name: "DetectTermination"},
		},
		Init: asyncInit,
		Next: AsyncTerminationState.next,
		Constraint: func(s AsyncTerminationState) bool {
			for _, pending := range s.Pending {
				if pending > 3 {
					return false
				}
			}
			return true
		},
		Properties: []model.Property[AsyncTerminationState]{
			model.Always("Safe", func(s AsyncTerminationState) bool { return !detected(s) || s.quiet() }).When(detected),
			model.AlwaysStep("Quiescence", func(from AsyncTerminationState, _ model.Action, to AsyncTerminationState) bool {
				return !from.quiet() || to.quiet()
			}),
			model.LeadsTo("Live: termination is detected in the end", AsyncTerminationState.quiet, detected),
		},
		Fairness: []model.Fairness{model.Weak("DetectTermination", asyncDetect)},
	}
}

func asyncInit(out []AsyncTerminationState) []AsyncTerminationState {
	for active := uint8(0); active < 1<<asyncNodes; active++ {
		s := AsyncTerminationState{Active: active}
		out = append(out, s)
		if s.quiet() {
			s.Detected = 1
			out = append(out, s)
		}
	}
	return out
}

// quiet says that no node computes and no message is on its way.
func (s AsyncTerminationState) quiet() bool {
	return s.Active == 0 && s.Pending == [asyncNodes]uint8{}
}

func (s AsyncTerminationState) next(out []model.Step[AsyncTerminationState]) []model.Step[AsyncTerminationState] {
	step := func(to AsyncTerminationState, id uint16, args ...uint8) {
		out = append(out, model.Step[AsyncTerminationState]{Action: model.Act(id, args...), State: to})
	}
	if s.quiet() {
		to := s
		to.Detected = 1
		step(to, asyncDetect)
	}
	for i := range uint8(asyncNodes) {
		if s.Active>>i&1 == 1 {
			to := s
			to.Active &^= 1 << i
			step(to, asyncTerminate, i, s.Detected)
			if to.quiet() && s.Detected == 0 {
				to.Detected = 1
				step(to, asyncTerminate, i, 1)
			}
			for j := range uint8(asyncNodes) {
				to := s
				to.Pending[j]++
				step(to, asyncSend, i, j)
			}
		}
		if s.Pending[i] > 0 {
			to := s
			to.Pending[i]--
			to.Active |= 1 << i
			step(to, asyncWakeup, i)
		}
	}
	return out
}

// ewd998Nodes is the number of nodes of [EWD998].
const ewd998Nodes = 3

// EWD998State is a state of [EWD998].
type EWD998State struct {
	Active     uint8              // nodes that compute, one bit each
	Black      uint8              // nodes that are black
	Pending    [ewd998Nodes]uint8 // messages on their way to each node
	Counter    [ewd998Nodes]int8  // messages sent less messages received
	TokenPos   uint8              // node that holds the token
	TokenSum   int8               // sum of the counters that the token has seen
	TokenBlack uint8              // 1: the token is black
}

const (
	ewd998Initiate uint16 = iota
	ewd998Pass
	ewd998Send
	ewd998Receive
	ewd998Deactivate
)

// EWD998 is Safra's algorithm for detecting the termination of three processes
// on a ring with asynchronous messages. The constraint bounds counters and
// pending messages at 3 and the token's sum at 9.
//
// Source: tlaplus/Examples, specifications/ewd998/EWD998.tla and
// EWD998Small.cfg.
func EWD998() model.Model[EWD998State] {
	return model.Model[EWD998State]{
		Name:   "EWD998",
		Config: "small",
		Actions: []model.ActionInfo{
			ewd998Initiate:   {Name: "InitiateProbe"},
			ewd998Pass:       {Name: "PassToken", Params: []string{"i"}},
			ewd998Send:       {Name: "SendMsg", Params: []string{"i", "j"}},
			ewd998Receive:    {Name: "RecvMsg", Params: []string{"i"}},
			ewd998Deactivate: {Name: "Deactivate", Params: []string{"i"}},
		},
		Init: func(out []EWD998State) []EWD998State {
			for active := uint8(0); active < 1<<ewd998Nodes; active++ {
				for black := uint8(0); black < 1<<ewd998Nodes; black++ {
					for pos := range uint8(ewd998Nodes) {
						out = append(out, EWD998State{Active: active, Black: black, TokenPos: pos, TokenBlack: 1})
					}
				}
			}
			return out
		},
		Next: EWD998State.next,
		Constraint: func(s EWD998State) bool {
			for i := range ewd998Nodes {
				if s.Counter[i] > 3 || s.Pending[i] > 3 {
					return false
				}
			}
			return s.TokenSum <= 9
		},
		Properties: []model.Property[EWD998State]{
			model.Always("TerminationDetection", func(s EWD998State) bool {
				return !s.detected() || s.Active == 0 && s.Pending == [ewd998Nodes]uint8{}
			}).When(EWD998State.detected),
			model.Always("Inv: counters count the pending messages", EWD998State.balanced),
			model.Sometimes("termination is detected", EWD998State.detected),
		},
	}
}

func (s EWD998State) detected() bool {
	return s.TokenPos == 0 && s.TokenBlack == 0 && s.TokenSum+s.Counter[0] == 0 && s.Black&1 == 0 && s.Active&1 == 0 && s.Pending[0] == 0
}

func (s EWD998State) balanced() bool {
	pending, counters := 0, 0
	for i := range ewd998Nodes {
		pending += int(s.Pending[i])
		counters += int(s.Counter[i])
	}
	return pending == counters
}

func (s EWD998State) next(out []model.Step[EWD998State]) []model.Step[EWD998State] {
	step := func(to EWD998State, id uint16, args ...uint8) {
		out = append(out, model.Step[EWD998State]{Action: model.Act(id, args...), State: to})
	}
	for range disjuncts(s.TokenPos == 0, s.TokenBlack == 1, s.Black&1 == 1, s.Counter[0]+s.TokenSum > 0) {
		to := s
		to.TokenPos, to.TokenSum, to.TokenBlack = ewd998Nodes-1, 0, 0
		to.Black &^= 1
		step(to, ewd998Initiate)
	}
	if i := s.TokenPos; i != 0 && s.Active>>i&1 == 0 {
		to := s
		to.TokenPos, to.TokenSum, to.TokenBlack = i-1, s.TokenSum+s.Counter[i], s.TokenBlack|s.Black>>i&1
		to.Black &^= 1 << i
		step(to, ewd998Pass, i)
	}
	for i := range uint8(ewd998Nodes) {
		if s.Active>>i&1 == 1 {
			for j := range uint8(ewd998Nodes) {
				if j == i {
					continue
				}
				to := s
				to.Counter[i]++
				to.Pending[j]++
				step(to, ewd998Send, i, j)
			}
			to := s
			to.Active &^= 1 << i
			step(to, ewd998Deactivate, i)
		}
		if s.Pending[i] > 0 {
			to := s
			to.Pending[i]--
			to.Counter[i]--
			to.Black |= 1 << i
			to.Active |= 1 << i
			step(to, ewd998Receive, i)
		}
	}
	return out
}
