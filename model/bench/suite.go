// Package bench holds ports of published models whose counts others have
// published, so that the checker can be tested against the outside world.
//
// A port follows the published text action by action, and its counts must agree
// exactly: distinct states, and states generated (initial states and every
// successor, before any constraint). Where the original is TLA+, a disjunction
// in the guard of an action is a choice, as it is for TLC: the port appends one
// step for each disjunct that holds, and a step that changes nothing is a step.
//
// Sources are named as in tlaplus/Examples and stateright; "checker facts"
// cites the fact sheet of this project in which measured counts are recorded.
package bench

import (
	"strconv"

	"microvms/model"
)

// Published is one row of [Table]: a case whose expectation others have
// published.
type Published struct {
	model.Case
	// Source says where the counts are published, and which of them are not but
	// were computed here by the naive search.
	Source string
}

// Big says that a check generates more than a million states, which is too many
// for a run under the race detector.
func (p Published) Big() bool { return p.Expect().States > 1_000_000 }

// Suite returns the cases of [Table], and beside them ports with a planted
// fault or without their fairness, so that some case violates each property.
func Suite() model.Suite {
	s := model.Suite{Name: "bench", Summary: "Ports of published models whose counts others have published."}
	for _, row := range Table() {
		s.Cases = append(s.Cases, row.Case)
	}
	s.Cases = append(s.Cases, faultCases()...)
	return s
}

// Table returns every port with the counts that a check must find. The caller
// owns the slice.
func Table() []Published {
	rows := transactionRows()
	rows = append(rows, puzzleRows()...)
	rows = append(rows, distributedRows()...)
	rows = append(rows, concurrentRows()...)
	return append(rows, staterightRows()...)
}

// row makes a row of the table.
func row[S comparable](name, source string, build func() model.Model[S], distinct, states uint64, depth int) Published {
	return violated(name, source, build, distinct, states, depth, nil)
}

// violated makes a row whose properties are violated as violations says.
func violated[S comparable](name, source string, build func() model.Model[S], distinct, states uint64, depth int, violations map[string]int) Published {
	named := func() model.Model[S] {
		m := build()
		m.Config = name
		return m
	}
	return Published{model.NewCase(name, named, model.Expect{Distinct: distinct, States: states, Depth: depth, Violated: violations}), source}
}

func transactionRows() []Published {
	const examples = "tlaplus/Examples, specifications/transaction_commit"
	rows := []Published{
		row("transaction-commit-3", examples+"/TCommit.cfg", func() model.Model[CommitState] { return TransactionCommit(3) }, 34, 94, 7),
	}
	for _, r := range []struct {
		managers         int
		source           string
		distinct, states uint64
		depth            int
	}{
		{3, "stateright, examples/2pc.rs; " + examples + "/TwoPhase.cfg", 288, 1_146, 11},
		{4, "computed by the naive search", 1_568, 8_258, 14},
		{5, "stateright, examples/2pc.rs", 8_832, 58_146, 17},
		{6, "computed by the naive search", 50_816, 402_306, 20},
		{7, "checker facts, section 1.1, row 3: stateright and TLC", 296_448, 2_744_706, 23},
		{8, "checker facts, section 1.1, row 4: stateright, TLC, SPIN and Rumur", 1_745_408, 18_507_778, 26},
		{9, "checker facts, section 1.1, row 5: stateright, SPIN and Rumur", 10_340_352, 123_558_402, 29},
	} {
		rows = append(rows, row("two-phase-commit-"+strconv.Itoa(r.managers), r.source,
			func() model.Model[TwoPhaseState] { return TwoPhaseCommit(r.managers) }, r.distinct, r.states, r.depth))
	}
	for i, r := range [...]struct{ orbits, states uint64 }{
		{80, 318}, {166, 869}, {314, 2_048}, {553, 4_328}, {920, 8_410}, {1_461, 15_287}, {2_232, 26_316}, {3_300, 43_298},
	} {
		// The depth is that of the whole space: a renaming shortens no path.
		rows = append(rows, row("symmetric-two-phase-commit-"+strconv.Itoa(i+3), "checker facts, section 1.3; depth by the naive search",
			func() model.Model[TwoPhaseState] { return SymmetricTwoPhaseCommit(i + 3) }, r.orbits, r.states, 11+3*i))
	}
	return rows
}

func puzzleRows() []Published {
	const (
		dieHard = "tlaplus/Examples, specifications/DieHard/DieHard.cfg"
		river   = "tlaplus/Examples, specifications/MissionariesAndCannibals/MissionariesAndCannibals.cfg"
		hanoi   = "tlaplus/Examples, specifications/tower_of_hanoi/Hanoi.cfg (31 moves); 3^5 states and 3(3^5-1) moves are the Hanoi graph's; depth by the naive search"
		cat     = "tlaplus/Examples, specifications/Moving_Cat_Puzzle"
		can     = "tlaplus/Examples, specifications/CoffeeCan"
	)
	return []Published{
		row("die-hard", dieHard+", without NotSolved", func() model.Model[DieHardState] { return DieHard(false) }, 16, 97, 8),
		violated("die-hard-puzzle", dieHard, func() model.Model[DieHardState] { return DieHard(true) }, 16, 97, 8, map[string]int{"NotSolved": 6}),
		row("missionaries-and-cannibals", river+", without Solution", func() model.Model[RiverState] { return MissionariesAndCannibals(false) }, 64, 283, 13),
		violated("missionaries-and-cannibals-puzzle", river, func() model.Model[RiverState] { return MissionariesAndCannibals(true) }, 64, 283, 13, map[string]int{"Solution": 11}),
		row("tower-of-hanoi-5", hanoi, func() model.Model[HanoiState] { return TowerOfHanoi(5, false) }, 243, 727, 32),
		violated("tower-of-hanoi-5-puzzle", hanoi, func() model.Model[HanoiState] { return TowerOfHanoi(5, true) }, 243, 727, 32, map[string]int{"NotSolved": 31}),
		row("moving-cat-6", cat+"/CatEvenBoxes.cfg", func() model.Model[MovingCatState] { return MovingCat(6) }, 48, 128, 1),
		row("moving-cat-5", cat+"/CatOddBoxes.cfg", func() model.Model[MovingCatState] { return MovingCat(5) }, 30, 78, 1),
		row("coffee-can-100", can+"/CoffeeCan100Beans.cfg", func() model.Model[CoffeeCanState] { return CoffeeCan(100) }, 5_150, 20_002, 1),
		row("coffee-can-1000", can+"/CoffeeCan1000Beans.cfg", func() model.Model[CoffeeCanState] { return CoffeeCan(1000) }, 501_500, 2_000_002, 1),
		row("coffee-can-3000", can+"/CoffeeCan3000Beans.cfg; generated by 2N^2+2, which the other two follow", func() model.Model[CoffeeCanState] { return CoffeeCan(3000) }, 4_504_500, 18_000_002, 1),
	}
}

func distributedRows() []Published {
	const examples = "tlaplus/Examples, specifications/"
	return []Published{
		row("ewd840-3", examples+"ewd840/EWD840.cfg (depth with one worker, checker facts, section 1.2)", func() model.Model[EWD840State] { return EWD840(3) }, 302, 2_001, 9),
		row("sync-termination-detection-7", examples+"ewd840/SyncTerminationDetection.cfg", func() model.Model[SyncTerminationState] { return SyncTerminationDetection(7) }, 129, 3_722, 1),
		row("async-termination-detection-4", examples+"ewd998/AsyncTerminationDetection.cfg", AsyncTerminationDetection, 4_097, 53_271, 14),
		row("ewd998-3", examples+"ewd998/EWD998Small.cfg", EWD998, 1_520_618, 11_238_019, 59),
		row("lamport-mutex-3", examples+"lamport_mutex/MCLamportMutex.cfg", func() model.Model[LamportMutexState] { return LamportMutex(6) }, 724_274, 2_729_079, 61),
		row("token-ring-6", examples+"ewd426/TokenRing.cfg", TokenRing, 46_656, 248_832, 1),
		row("chang-roberts-3", examples+"chang_roberts/MCChangRoberts.cfg", ChangRoberts, 137, 227, 10),
		row("inner-fifo-3-3", examples+"SpecifyingSystems/FIFO/MCInnerFIFO.cfg", func() model.Model[FIFOState] { return InnerFIFO(3, 3) }, 3_864, 9_660, 11),
		row("alternating-bit-2-2", examples+"SpecifyingSystems/TLC/MCAlternatingBit.cfg", AlternatingBit, 240, 1_392, 10),
		row("ab-correctness-2", examples+"SpecifyingSystems/TLC/ABCorrectness.cfg", ABCorrectness, 20, 36, 3),
		row("tcp-2", examples+"tcp/MCtcp.cfg", TCP, 1_182, 6_322, 14),
	}
}

func concurrentRows() []Published {
	const examples = "tlaplus/Examples, specifications/"
	return []Published{
		row("dining-philosophers-5", examples+"DiningPhilosophers/DiningPhilosophers.cfg", DiningPhilosophers, 67, 336, 29),
		row("readers-writers-3", examples+"ReadersWriters/MC.cfg", ReadersWriters, 21_527, 59_674, 13),
		row("peterson-2", examples+"locks_auxiliary_vars/Peterson.cfg", Peterson, 42, 77, 11),
		row("chameneos-4-4", examples+"Chameneos/Chameneos.cfg", func() model.Model[ChameneosState] { return Chameneos(4, 4) }, 34_534, 104_697, 13),
		row("prisoners-4", examples+"Prisoners/Prisoners.cfg", Prisoners, 214, 860, 14),
		row("simple-allocator-3-2", examples+"allocator/SimpleAllocator.cfg", func() model.Model[AllocatorState] { return SimpleAllocator(true) }, 400, 1_633, 6),
	}
}

// staterightRows are the ports from stateright.
func staterightRows() []Published {
	const (
		actor  = "stateright, src/actor/model.rs (distinct); generated and depth by the naive search"
		dfs    = "stateright, src/checker/dfs.rs (distinct); generated and depth by the naive search"
		linear = "stateright, src/checker/bfs.rs (distinct); two successors a state, and the farthest guess is 510 steps away"
	)
	return []Published{
		row("single-copy-register-2", "stateright, examples/single-copy-register.rs", func() model.Model[RegisterState] { return SingleCopyRegister(2) }, 93, 121, 9),
		row("single-copy-register-3", "checker facts, section 1.1, row 14: stateright", func() model.Model[RegisterState] { return SingleCopyRegister(3) }, 4_243, 6_778, 13),
		row("single-copy-register-4", "stateright, pull request 42; checker facts, section 1.1, row 14", func() model.Model[RegisterState] { return SingleCopyRegister(4) }, 400_233, 731_789, 17),
		row("ping-pong-1-lossy", actor, func() model.Model[PingPongState] { return PingPong(1, true) }, 14, 25, 6),
		row("ping-pong-5-lossy", actor, func() model.Model[PingPongState] { return PingPong(5, true) }, 4_094, 22_529, 22),
		row("ping-pong-5-perfect", actor, func() model.Model[PingPongState] { return PingPong(5, false) }, 11, 12, 11),
		violated("linear-equation-2-4-7", linear, func() model.Model[EquationState] { return LinearEquation(2, 4, 7) }, 65_536, 131_073, 511, map[string]int{"solvable": -1}),
		row("linear-equation-2-10-14", linear, func() model.Model[EquationState] { return LinearEquation(2, 10, 14) }, 65_536, 131_073, 511),
		row("two-processes", dfs, func() model.Model[ProcessesState] { return TwoProcesses(false) }, 9, 19, 5),
		row("two-processes-symmetric", dfs, func() model.Model[ProcessesState] { return TwoProcesses(true) }, 6, 13, 5),
	}
}
