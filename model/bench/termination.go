package bench

import (
	"math/bits"
	"strconv"

	"microvms/model"
)

// maxRing is the largest number of nodes in the termination detection models.
const maxRing = 7

// EWD840State is a state of [EWD840]; nodes are bits.
type EWD840State struct {
	Active     uint8 // nodes that compute
	Black      uint8 // nodes that are black
	TokenPos   uint8 // node that holds the token
	TokenBlack uint8 // 1: the token is black
}

const (
	ewd840Initiate uint16 = iota
	ewd840Pass
	ewd840Send
	ewd840Deactivate
)

// EWD840 is Dijkstra's algorithm for detecting the termination of n processes
// (2 to 7) on a ring, with synchronous messages. It refines
// [SyncTerminationDetection].
//
// Source: tlaplus/Examples, specifications/ewd840/EWD840.tla.
func EWD840(n int) model.Model[EWD840State] {
	checkRing(n)
	nodes := uint8(1)<<n - 1
	view := func(s EWD840State) SyncTerminationState { return SyncTerminationState{s.Active, flag(s.detected())} }
	quiet := func(s EWD840State) bool { return s.Active == 0 }
	return model.Model[EWD840State]{
		Name:   "EWD840",
		Config: strconv.Itoa(n),
		Actions: []model.ActionInfo{
			ewd840Initiate:   {Name: "InitiateProbe"},
			ewd840Pass:       {Name: "PassToken", Params: []string{"i"}},
			ewd840Send:       {Name: "SendMsg", Params: []string{"i", "j"}},
			ewd840Deactivate: {Name: "Deactivate", Params: []string{"i"}},
		},
		Init: func(out []EWD840State) []EWD840State {
			for active := uint8(0); active <= nodes; active++ {
				for black := uint8(0); black <= nodes; black++ {
					for pos := range uint8(n) {
						out = append(out, EWD840State{active, black, pos, 1})
					}
				}
			}
			return out
		},
		Next: func(s EWD840State, out []model.Step[EWD840State]) []model.Step[EWD840State] { return s.next(n, out) },
		Properties: []model.Property[EWD840State]{
			model.Always("TerminationDetection", func(s EWD840State) bool { return !s.detected() || quiet(s) }).When(EWD840State.detected),
			model.Always("the initial states are those of SyncTerminationDetection", func(s EWD840State) bool {
				return view(s).Detected == 0 || view(s).Active == 0
			}),
			model.AlwaysStep("every step is a step of SyncTerminationDetection", func(from EWD840State, _ model.Action, to EWD840State) bool {
				return refinesSyncTermination(n, view(from), view(to))
			}),
			model.Sometimes("termination is detected", EWD840State.detected),
			model.LeadsTo("Liveness: termination is detected in the end", quiet, EWD840State.detected),
		},
		Fairness: []model.Fairness{model.Weak("System", ewd840Initiate, ewd840Pass)},
	}
}

func (s EWD840State) detected() bool {
	return s.TokenPos == 0 && s.TokenBlack == 0 && s.Black&1 == 0 && s.Active&1 == 0
}

func (s EWD840State) next(n int, out []model.Step[EWD840State]) []model.Step[EWD840State] {
	step := func(to EWD840State, id uint16, args ...uint8) {
		out = append(out, model.Step[EWD840State]{Action: model.Act(id, args...), State: to})
	}
	for range disjuncts(s.TokenPos == 0, s.TokenBlack == 1, s.Black&1 == 1) {
		step(EWD840State{s.Active, s.Black &^ 1, uint8(n - 1), 0}, ewd840Initiate)
	}
	i := s.TokenPos
	for range disjuncts(i != 0, s.Active>>i&1 == 0, s.Black>>i&1 == 1, s.TokenBlack == 1) {
		step(EWD840State{s.Active, s.Black &^ (1 << i), i - 1, s.TokenBlack | s.Black>>i&1}, ewd840Pass, i)
	}
	for i := range uint8(n) {
		if s.Active>>i&1 == 0 {
			continue
		}
		for j := range uint8(n) {
			if j == i {
				continue
			}
			to := s
			to.Active |= 1 << j
			if j > i {
				to.Black |= 1 << i
			}
			step(to, ewd840Send, i, j)
		}
		to := s
		to.Active &^= 1 << i
		step(to, ewd840Deactivate, i)
	}
	return out
}

// SyncTerminationState is a state of [SyncTerminationDetection].
type SyncTerminationState struct {
	Active   uint8 // nodes that compute, one bit each
	Detected uint8 // 1: termination was announced
}

const (
	syncTerminate uint16 = iota
	syncWakeup
	syncDetect
)

// SyncTerminationDetection says what detecting the termination of n processes
// (2 to 7) with synchronous messages means. All its states are initial.
//
// Source: tlaplus/Examples,
// specifications/ewd840/SyncTerminationDetection.tla.
func SyncTerminationDetection(n int) model.Model[SyncTerminationState] {
	checkRing(n)
	quiet := func(s SyncTerminationState) bool { return s.Active == 0 }
	detected := func(s SyncTerminationState) bool { return s.Detected == 1 }
	return model.Model[SyncTerminationState]{
		Name:   "SyncTerminationDetection",
		Config: strconv.Itoa(n),
		Actions: []model.ActionInfo{
			syncTerminate: {Name: "Terminate", Params: []string{"i", "detected"}},
			syncWakeup:    {Name: "Wakeup", Params: []string{"i", "j"}},
			syncDetect:    {Name: "DetectTermination"},
		},
		Init: func(out []SyncTerminationState) []SyncTerminationState {
			out = append(out, SyncTerminationState{0, 0}, SyncTerminationState{0, 1})
			for active := uint8(1); active < 1<<n; active++ {
				out = append(out, SyncTerminationState{active, 0})
			}
			return out
		},
		Next: func(s SyncTerminationState, out []model.Step[SyncTerminationState]) []model.Step[SyncTerminationState] {
			return s.next(n, out)
		},
		Properties: []model.Property[SyncTerminationState]{
			model.Always("TDCorrect", func(s SyncTerminationState) bool { return !detected(s) || quiet(s) }).When(detected),
			model.AlwaysStep("Quiescence", func(from SyncTerminationState, _ model.Action, to SyncTerminationState) bool {
				return !quiet(from) || quiet(to)
			}),
			model.LeadsTo("Liveness: termination is detected in the end", quiet, detected),
		},
		Fairness: []model.Fairness{model.Weak("DetectTermination", syncDetect)},
	}
}

func (s SyncTerminationState) next(n int, out []model.Step[SyncTerminationState]) []model.Step[SyncTerminationState] {
	step := func(to SyncTerminationState, id uint16, args ...uint8) {
		out = append(out, model.Step[SyncTerminationState]{Action: model.Act(id, args...), State: to})
	}
	if s.Active == 0 {
		step(SyncTerminationState{0, 1}, syncDetect)
	}
	for i := range uint8(n) {
		if s.Active>>i&1 == 0 {
			continue
		}
		rest := s.Active &^ (1 << i)
		step(SyncTerminationState{rest, s.Detected}, syncTerminate, i, s.Detected)
		if rest == 0 && s.Detected == 0 {
			step(SyncTerminationState{rest, 1}, syncTerminate, i, 1)
		}
		for j := range uint8(n) {
			step(SyncTerminationState{s.Active | 1<<j, s.Detected}, syncWakeup, i, j)
		}
	}
	return out
}

// refinesSyncTermination says whether a step is one of
// SyncTerminationDetection, or changes nothing that it knows of.
func refinesSyncTermination(n int, from, to SyncTerminationState) bool {
	if from == to {
		return true
	}
	for _, step := range from.next(n, nil) {
		if step.State == to {
			return true
		}
	}
	return false
}

// disjuncts returns how many of the disjuncts hold if the guard does, and 0
// otherwise: the number of times that an action with this guard is enabled.
func disjuncts(guard bool, disjuncts ...bool) int {
	n := 0
	for _, holds := range disjuncts {
		if guard && holds {
			n++
		}
	}
	return n
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func popcount(set uint8) int { return bits.OnesCount8(set) }

func checkRing(n int) {
	if n < 2 || n > maxRing {
		panic("bench: internal error: the number of nodes must be between 2 and " + strconv.Itoa(maxRing))
	}
}
