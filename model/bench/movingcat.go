package bench

import (
	"strconv"

	"microvms/model"
)

// MovingCatState is a state of [MovingCat].
type MovingCatState struct {
	Cat      uint8 // box that the cat is in, from 1
	Observed uint8 // box that is opened
	Left     uint8 // 1: the search moves left
}

// MovingCat is the puzzle of a cat that moves to a neighbouring box every night
// while one box is opened every day: sweeping to and fro over all but the outer
// boxes (3 to 255), each turn opening the last box twice, always finds it. All
// states are initial.
//
// Source: tlaplus/Examples, specifications/Moving_Cat_Puzzle/Cat.tla,
// CatEvenBoxes.cfg (6) and CatOddBoxes.cfg (5).
func MovingCat(boxes uint8) model.Model[MovingCatState] {
	if boxes < 3 {
		panic("bench: internal error: the cat needs at least three boxes")
	}
	return model.Model[MovingCatState]{
		Name:    "MovingCat",
		Config:  strconv.Itoa(int(boxes)),
		Actions: []model.ActionInfo{{Name: "Next", Params: []string{"cat"}}},
		Init: func(out []MovingCatState) []MovingCatState {
			for cat := uint8(1); cat <= boxes; cat++ {
				for observed := uint8(2); observed < boxes; observed++ {
					out = append(out, MovingCatState{cat, observed, 0}, MovingCatState{cat, observed, 1})
				}
			}
			return out
		},
		Next: func(s MovingCatState, out []model.Step[MovingCatState]) []model.Step[MovingCatState] {
			to := s
			switch {
			case s.Left == 1 && s.Observed > 2:
				to.Observed--
			case s.Left == 0 && s.Observed < boxes-1:
				to.Observed++
			default:
				to.Left = 1 - s.Left
			}
			if s.Cat > 1 {
				to.Cat = s.Cat - 1
				out = append(out, model.Step[MovingCatState]{Action: model.Act(0, to.Cat), State: to})
			}
			if s.Cat < boxes {
				to.Cat = s.Cat + 1
				out = append(out, model.Step[MovingCatState]{Action: model.Act(0, to.Cat), State: to})
			}
			return out
		},
		Properties: []model.Property[MovingCatState]{
			model.Eventually("Victory: the cat is found", func(s MovingCatState) bool { return s.Cat == s.Observed }),
		},
		Fairness: []model.Fairness{model.Weak("Next", 0)},
	}
}
