package bench

import (
	"strconv"

	"microvms/model"
)

// PingPongState is a state of [PingPong]: how far each actor has counted, and
// the messages in the network, a set.
type PingPongState struct {
	Pings uint16 // Ping(i) is in the network
	Pongs uint16 // Pong(i) is in the network
	Count [2]uint8
}

const (
	pingDeliverPing uint16 = iota
	pingDeliverPong
	pingDropPing
	pingDropPong
)

// PingPong is two actors that count by turns up to maxCount (at most 15) over a
// network that delivers a message any number of times and, if lossy, may drop
// it. The constraint keeps both counts within maxCount. A message that its
// receiver ignores makes no step.
//
// Source: stateright, src/actor/model.rs, tests visits_expected_states and
// maintains_fixed_delta_despite_lossy_duplicating_network.
func PingPong(maxCount uint8, lossy bool) model.Model[PingPongState] {
	if maxCount > 14 {
		panic("bench: internal error: the largest count must be at most 14")
	}
	m := model.Model[PingPongState]{
		Name:    "PingPong",
		Config:  "perfect-" + strconv.Itoa(int(maxCount)),
		Actions: []model.ActionInfo{{Name: "DeliverPing", Params: []string{"i"}}, {Name: "DeliverPong", Params: []string{"i"}}},
		Init:    func(out []PingPongState) []PingPongState { return append(out, PingPongState{Pings: 1}) },
		Next: func(s PingPongState, out []model.Step[PingPongState]) []model.Step[PingPongState] {
			return s.next(lossy, out)
		},
		Constraint: func(s PingPongState) bool { return max(s.Count[0], s.Count[1]) <= maxCount },
		Properties: []model.Property[PingPongState]{
			model.Always("delta within 1", func(s PingPongState) bool {
				return max(s.Count[0], s.Count[1])-min(s.Count[0], s.Count[1]) <= 1
			}),
			model.Sometimes("can reach the maximum", func(s PingPongState) bool { return max(s.Count[0], s.Count[1]) == maxCount }),
		},
	}
	if lossy {
		m.Config = "lossy-" + strconv.Itoa(int(maxCount))
		m.Actions = append(m.Actions, model.ActionInfo{Name: "DropPing", Params: []string{"i"}}, model.ActionInfo{Name: "DropPong", Params: []string{"i"}})
	}
	return m
}

// next: actor 0 serves with Ping(0) and answers Pong(i) with Ping(i+1); actor 1
// answers Ping(i) with Pong(i); each ignores what is not its turn.
func (s PingPongState) next(lossy bool, out []model.Step[PingPongState]) []model.Step[PingPongState] {
	step := func(to PingPongState, id uint16, i uint8) {
		out = append(out, model.Step[PingPongState]{Action: model.Act(id, i), State: to})
	}
	for i := range uint8(16) {
		if s.Pings>>i&1 == 1 {
			if s.Count[1] == i {
				to := s
				to.Count[1]++
				to.Pongs |= 1 << i
				step(to, pingDeliverPing, i)
			}
			if lossy {
				to := s
				to.Pings &^= 1 << i
				step(to, pingDropPing, i)
			}
		}
		if s.Pongs>>i&1 == 1 {
			if s.Count[0] == i {
				to := s
				to.Count[0]++
				to.Pings |= 1 << (i + 1)
				step(to, pingDeliverPong, i)
			}
			if lossy {
				to := s
				to.Pongs &^= 1 << i
				step(to, pingDropPong, i)
			}
		}
	}
	return out
}

// EquationState is a state of [LinearEquation]: a guess.
type EquationState struct{ X, Y uint8 }

// LinearEquation searches x and y with ax+by=c modulo 256 by adding one to
// either: all 65,536 guesses when there is no solution, and the shortest path
// to one when there is.
//
// Source: stateright, src/test_util.rs (linear_equation_solver) and
// src/checker/bfs.rs.
func LinearEquation(a, b, c uint8) model.Model[EquationState] {
	return model.Model[EquationState]{
		Name:    "LinearEquation",
		Config:  strconv.Itoa(int(a)) + "-" + strconv.Itoa(int(b)) + "-" + strconv.Itoa(int(c)),
		Actions: []model.ActionInfo{{Name: "IncreaseX"}, {Name: "IncreaseY"}},
		Init:    func(out []EquationState) []EquationState { return append(out, EquationState{}) },
		Next: func(s EquationState, out []model.Step[EquationState]) []model.Step[EquationState] {
			return append(out,
				model.Step[EquationState]{Action: model.Act(0), State: EquationState{s.X + 1, s.Y}},
				model.Step[EquationState]{Action: model.Act(1), State: EquationState{s.X, s.Y + 1}})
		},
		Properties: []model.Property[EquationState]{
			model.Sometimes("solvable", func(s EquationState) bool { return a*s.X+b*s.Y == c }),
		},
	}
}

// ProcessesState is a state of [TwoProcesses]: loading, running or paused.
type ProcessesState struct{ Process [2]uint8 }

// TwoProcesses is two processes that load and then run and pause, as they are
// or declared interchangeable: 9 states, or 6.
//
// Source: stateright, src/checker/dfs.rs, test can_apply_symmetry_reduction.
func TwoProcesses(symmetric bool) model.Model[ProcessesState] {
	m := model.Model[ProcessesState]{
		Name:    "TwoProcesses",
		Config:  "plain",
		Actions: []model.ActionInfo{{Name: "Run", Params: []string{"process"}}, {Name: "Pause", Params: []string{"process"}}},
		Init:    func(out []ProcessesState) []ProcessesState { return append(out, ProcessesState{}) },
		Next: func(s ProcessesState, out []model.Step[ProcessesState]) []model.Step[ProcessesState] {
			for p := range uint8(2) {
				to, id := s, uint16(0)
				to.Process[p] = 1
				if s.Process[p] == 1 {
					to.Process[p], id = 2, 1
				}
				out = append(out, model.Step[ProcessesState]{Action: model.Act(id, p), State: to})
			}
			return out
		},
		Properties: []model.Property[ProcessesState]{
			model.Sometimes("both run", func(s ProcessesState) bool { return s.Process == [2]uint8{1, 1} }),
		},
	}
	if symmetric {
		swap := func(s ProcessesState) ProcessesState { return ProcessesState{[2]uint8{s.Process[1], s.Process[0]}} }
		m.Config = "symmetric"
		m.Symmetry = &model.Symmetry[ProcessesState]{
			Canonical: func(s ProcessesState) ProcessesState {
				if s.Process[0] > s.Process[1] {
					return swap(s)
				}
				return s
			},
			Generators: []func(ProcessesState) ProcessesState{swap},
		}
	}
	return m
}
