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
