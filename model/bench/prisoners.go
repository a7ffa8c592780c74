package bench

import (
	"strconv"

	"microvms/model"
)

// otherPrisoners is the number of prisoners beside the counter.
const otherPrisoners = 3

// PrisonersState is a state of [Prisoners].
type PrisonersState struct {
	SwitchA, SwitchB uint8 // 1: up
	Times            [otherPrisoners]uint8
	Count            uint8
}

const (
	prisonersOther uint16 = iota
	prisonersCounter
)

// Prisoners is the puzzle of four prisoners, led at random to a room with two
// switches whose positions nobody knows, until one of them can tell that all
// have been there: each lifts switch A twice, and the counter counts.
//
// Source: tlaplus/Examples, specifications/Prisoners/Prisoners.tla.
func Prisoners() model.Model[PrisonersState] {
	done := func(s PrisonersState) bool { return s.Count == 2*otherPrisoners }
	m := model.Model[PrisonersState]{
		Name:    "Prisoners",
		Config:  strconv.Itoa(otherPrisoners + 1),
		Actions: []model.ActionInfo{prisonersOther: {Name: "NonCounterStep", Params: []string{"p"}}, prisonersCounter: {Name: "CounterStep"}},
		Init: func(out []PrisonersState) []PrisonersState {
			return append(out, PrisonersState{}, PrisonersState{SwitchA: 1}, PrisonersState{SwitchB: 1}, PrisonersState{SwitchA: 1, SwitchB: 1})
		},
		Next: func(s PrisonersState, out []model.Step[PrisonersState]) []model.Step[PrisonersState] {
			for p := range uint8(otherPrisoners) {
				to := s
				if s.SwitchA == 0 && s.Times[p] < 2 {
					to.SwitchA = 1
					to.Times[p]++
				} else {
					to.SwitchB = 1 - s.SwitchB
				}
				out = append(out, model.Step[PrisonersState]{Action: model.Act(prisonersOther, p), State: to})
			}
			to := s
			if s.SwitchA == 1 {
				to.SwitchA = 0
				to.Count++
			} else {
				to.SwitchB = 1 - s.SwitchB
			}
			return append(out, model.Step[PrisonersState]{Action: model.Act(prisonersCounter), State: to})
		},
		Properties: []model.Property[PrisonersState]{
			model.Always("Safety: whoever says so is right", func(s PrisonersState) bool {
				return !done(s) || s.Times[0] > 0 && s.Times[1] > 0 && s.Times[2] > 0
			}).When(done),
			model.Eventually("Liveness: the counter can say so", done),
		},
		Fairness: []model.Fairness{model.Weak("CounterStep", prisonersCounter)},
	}
	for p := range uint8(otherPrisoners) {
		m.Fairness = append(m.Fairness, weakOf("NonCounterStep", prisonersOther, p))
	}
	return m
}
