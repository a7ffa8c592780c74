package bench

import (
	"testing"

	"microvms/model"
)

// counts is what the naive search finds.
type counts struct {
	distinct, states uint64
	depth            int
}

// naive explores a model with a map and a slice, exactly and with nothing
// shared with the checker: the second opinion on the counts, and the source of
// those that nobody has published.
func naive[S comparable](m model.Model[S]) (c counts) {
	seen := map[S]bool{}
	var level, next []S
	visit := func(s S) {
		if m.Symmetry != nil {
			s = m.Symmetry.Canonical(s)
		}
		if !seen[s] {
			seen[s] = true
			next = append(next, s)
		}
	}
	for _, s := range m.Init(nil) {
		c.states++
		if m.Constraint == nil || m.Constraint(s) {
			visit(s)
		}
	}
	for len(next) > 0 {
		c.depth++
		level, next = next, nil
		for _, s := range level {
			for _, step := range m.Next(s, nil) {
				c.states++
				if m.Constraint != nil && !m.Constraint(step.State) || m.ActionConstraint != nil && !m.ActionConstraint(s, step) {
					continue
				}
				visit(step.State)
			}
		}
	}
	c.distinct = uint64(len(seen))
	return c
}

// naively lists the models of the rows of up to a million generated states.
func naively() map[string]func() counts {
	out := map[string]func() counts{
		"transaction-commit-3":              func() counts { return naive(TransactionCommit(3)) },
		"two-phase-commit-3":                func() counts { return naive(TwoPhaseCommit(3)) },
		"two-phase-commit-4":                func() counts { return naive(TwoPhaseCommit(4)) },
		"two-phase-commit-5":                func() counts { return naive(TwoPhaseCommit(5)) },
		"two-phase-commit-6":                func() counts { return naive(TwoPhaseCommit(6)) },
		"die-hard":                          func() counts { return naive(DieHard(false)) },
		"die-hard-puzzle":                   func() counts { return naive(DieHard(true)) },
		"missionaries-and-cannibals":        func() counts { return naive(MissionariesAndCannibals(false)) },
		"missionaries-and-cannibals-puzzle": func() counts { return naive(MissionariesAndCannibals(true)) },
		"tower-of-hanoi-5":                  func() counts { return naive(TowerOfHanoi(5, false)) },
		"tower-of-hanoi-5-puzzle":           func() counts { return naive(TowerOfHanoi(5, true)) },
		"moving-cat-6":                      func() counts { return naive(MovingCat(6)) },
		"moving-cat-5":                      func() counts { return naive(MovingCat(5)) },
		"coffee-can-100":                    func() counts { return naive(CoffeeCan(100)) },
		"ewd840-3":                          func() counts { return naive(EWD840(3)) },
		"sync-termination-detection-7":      func() counts { return naive(SyncTerminationDetection(7)) },
		"async-termination-detection-4":     func() counts { return naive(AsyncTerminationDetection()) },
		"token-ring-6":                      func() counts { return naive(TokenRing()) },
		"chang-roberts-3":                   func() counts { return naive(ChangRoberts()) },
		"inner-fifo-3-3":                    func() counts { return naive(InnerFIFO(3, 3)) },
		"alternating-bit-2-2":               func() counts { return naive(AlternatingBit()) },
		"ab-correctness-2":                  func() counts { return naive(ABCorrectness()) },
		"tcp-2":                             func() counts { return naive(TCP()) },
		"dining-philosophers-5":             func() counts { return naive(DiningPhilosophers()) },
		"readers-writers-3":                 func() counts { return naive(ReadersWriters()) },
		"peterson-2":                        func() counts { return naive(Peterson()) },
		"chameneos-4-4":                     func() counts { return naive(Chameneos(4, 4)) },
		"prisoners-4":                       func() counts { return naive(Prisoners()) },
		"simple-allocator-3-2":              func() counts { return naive(SimpleAllocator(true)) },
		"single-copy-register-2":            func() counts { return naive(SingleCopyRegister(2)) },
		"single-copy-register-3":            func() counts { return naive(SingleCopyRegister(3)) },
		"single-copy-register-4":            func() counts { return naive(SingleCopyRegister(4)) },
		"ping-pong-1-lossy":                 func() counts { return naive(PingPong(1, true)) },
		"ping-pong-5-lossy":                 func() counts { return naive(PingPong(5, true)) },
		"ping-pong-5-perfect":               func() counts { return naive(PingPong(5, false)) },
		"linear-equation-2-4-7":             func() counts { return naive(LinearEquation(2, 4, 7)) },
		"linear-equation-2-10-14":           func() counts { return naive(LinearEquation(2, 10, 14)) },
		"two-processes":                     func() counts { return naive(TwoProcesses(false)) },
		"two-processes-symmetric":           func() counts { return naive(TwoProcesses(true)) },
	}
	for i, name := range []string{"3", "4", "5", "6", "7", "8", "9", "10"} {
		out["symmetric-two-phase-commit-"+name] = func() counts { return naive(SymmetricTwoPhaseCommit(i + 3)) }
	}
	return out
}

// TestNaiveSearchAgrees holds the table against the naive search: the pinned
// counts are those of the ports, whatever the checker does.
func TestNaiveSearchAgrees(t *testing.T) {
	t.Attr("requirement", "CHECK-17")
	searches := naively()
	for _, row := range Table() {
		if row.Big() {
			continue
		}
		search := searches[row.Name()]
		if search == nil {
			t.Errorf("%s: the naive search does not know it", row.Name())
			continue
		}
		delete(searches, row.Name())
		e := row.Expect()
		if got, want := search(), (counts{e.Distinct, e.States, e.Depth}); got != want {
			t.Errorf("%s: the naive search finds %+v, the table has %+v", row.Name(), got, want)
		}
	}
	for name := range searches {
		t.Errorf("the table has no row %q", name)
	}
}
