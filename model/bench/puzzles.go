package bench

import (
	"strconv"

	"microvms/model"
)

// DieHardState is a state of [DieHard]: the litres in each jug.
type DieHardState struct {
	Small uint8 // 0 to 3
	Big   uint8 // 0 to 5
}

// DieHard is the puzzle of measuring four litres with jugs of three and five.
// As a puzzle, the property "NotSolved" claims that it cannot be done, so that
// its counterexample is the solution; otherwise the whole graph is explored.
//
// Source: tlaplus/Examples, specifications/DieHard/DieHard.tla.
func DieHard(puzzle bool) model.Model[DieHardState] {
	m := model.Model[DieHardState]{
		Name:   "DieHard",
		Config: "full",
		Actions: []model.ActionInfo{
			{Name: "FillSmallJug"}, {Name: "FillBigJug"}, {Name: "EmptySmallJug"},
			{Name: "EmptyBigJug"}, {Name: "SmallToBig"}, {Name: "BigToSmall"},
		},
		Init: func(out []DieHardState) []DieHardState { return append(out, DieHardState{}) },
		Next: func(s DieHardState, out []model.Step[DieHardState]) []model.Step[DieHardState] {
			toBig, toSmall := min(s.Small, 5-s.Big), min(s.Big, 3-s.Small)
			for id, to := range [...]DieHardState{
				{3, s.Big}, {s.Small, 5}, {0, s.Big}, {s.Small, 0},
				{s.Small - toBig, s.Big + toBig}, {s.Small + toSmall, s.Big - toSmall},
			} {
				out = append(out, model.Step[DieHardState]{Action: model.Act(uint16(id)), State: to})
			}
			return out
		},
		Properties: []model.Property[DieHardState]{
			model.Always("TypeOK", func(s DieHardState) bool { return s.Small <= 3 && s.Big <= 5 }),
		},
	}
	solved := func(s DieHardState) bool { return s.Big == 4 }
	return asPuzzle(m, puzzle, "NotSolved", solved)
}

// asPuzzle adds the goal to m: as an invariant that denies it, or as a witness.
func asPuzzle[S comparable](m model.Model[S], puzzle bool, denial string, solved func(S) bool) model.Model[S] {
	if puzzle {
		m.Config = "puzzle"
		m.Properties = append(m.Properties, model.Always(denial, func(s S) bool { return !solved(s) }))
		return m
	}
	m.Properties = append(m.Properties, model.Sometimes("the puzzle is solved", solved))
	return m
}

// RiverState is a state of [MissionariesAndCannibals]. In East, bits 0 to 2 are
// the missionaries and bits 3 to 5 the cannibals on the east bank.
type RiverState struct {
	East uint8
	Boat uint8 // 0 east, 1 west
}

const (
	missionaries uint8 = 0b000111
	cannibals    uint8 = 0b111000
)

// MissionariesAndCannibals is the puzzle of taking three missionaries and three
// cannibals, each an individual, across a river in a boat for two, with the
// cannibals never outnumbering the missionaries they stand with.
//
// Source: tlaplus/Examples,
// specifications/MissionariesAndCannibals/MissionariesAndCannibals.tla.
func MissionariesAndCannibals(puzzle bool) model.Model[RiverState] {
	// safe counts the disjuncts of IsSafe that hold: no missionary on the bank, or enough of them.
	safe := func(group uint8) int {
		return int(flag(group&^cannibals == 0)) + int(flag(popcount(group&cannibals) <= popcount(group&missionaries)))
	}
	m := model.Model[RiverState]{
		Name:    "MissionariesAndCannibals",
		Config:  "full",
		Actions: []model.ActionInfo{{Name: "Move", Params: []string{"people"}}},
		Init:    func(out []RiverState) []RiverState { return append(out, RiverState{East: missionaries | cannibals}) },
		Next: func(s RiverState, out []model.Step[RiverState]) []model.Step[RiverState] {
			here := s.East
			if s.Boat == 1 {
				here = (missionaries | cannibals) &^ s.East
			}
			for group := uint8(1); group <= missionaries|cannibals; group++ {
				if group&^here != 0 || popcount(group) > 2 {
					continue
				}
				to := RiverState{East: s.East ^ group, Boat: 1 - s.Boat}
				for range safe(to.East) * safe((missionaries|cannibals)&^to.East) {
					out = append(out, model.Step[RiverState]{Action: model.Act(0, group), State: to})
				}
			}
			return out
		},
		Properties: []model.Property[RiverState]{
			model.Always("both banks are safe", func(s RiverState) bool { return safe(s.East) > 0 && safe((missionaries|cannibals)&^s.East) > 0 }),
		},
	}
	return asPuzzle(m, puzzle, "Solution", func(s RiverState) bool { return s.East == 0 })
}

// maxDisks is the largest number of disks that [TowerOfHanoi] accepts.
const maxDisks = 8

// HanoiState is a state of [TowerOfHanoi]: the tower, 0 to 2, on which each
// disk lies, the smallest disk first.
type HanoiState struct {
	Tower [maxDisks]uint8
}

// TowerOfHanoi is the puzzle of moving n disks (1 to 8) from the first of three
// towers to the last. Any placement of the disks is reachable: 3^n states. Its
// graph is the Hanoi graph, whose 3(3^n-1)/2 edges are moves both ways, and the
// shortest solution has 2^n-1 moves.
//
// Source: tlaplus/Examples, specifications/tower_of_hanoi/Hanoi.tla.
func TowerOfHanoi(n int, puzzle bool) model.Model[HanoiState] {
	if n < 1 || n > maxDisks {
		panic("bench: internal error: the number of disks must be between 1 and " + strconv.Itoa(maxDisks))
	}
	m := model.Model[HanoiState]{
		Name:    "TowerOfHanoi",
		Config:  "full",
		Actions: []model.ActionInfo{{Name: "Move", Params: []string{"disk", "to"}}},
		Init:    func(out []HanoiState) []HanoiState { return append(out, HanoiState{}) },
		Next: func(s HanoiState, out []model.Step[HanoiState]) []model.Step[HanoiState] {
			var covered [3]bool // a smaller disk lies on the tower
			for disk := range n {
				from := s.Tower[disk]
				for to := range uint8(3) {
					if to == from || covered[from] || covered[to] {
						continue
					}
					moved := s
					moved.Tower[disk] = to
					out = append(out, model.Step[HanoiState]{Action: model.Act(0, uint8(disk), to), State: moved})
				}
				covered[from] = true
			}
			return out
		},
	}
	m = asPuzzle(m, puzzle, "NotSolved", func(s HanoiState) bool {
		for disk := range n {
			if s.Tower[disk] != 2 {
				return false
			}
		}
		return true
	})
	m.Config += "-" + strconv.Itoa(n)
	return m
}

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
