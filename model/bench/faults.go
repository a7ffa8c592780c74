package bench

import (
	"slices"

	"microvms/model"
)

// faultCases returns the ports with a fault planted in each, so that every
// property of the suite is seen violated: exactly the named ones, by
// counterexamples of exactly these lengths.
func faultCases() []model.Case {
	cases := transactionFaults()
	cases = append(cases, puzzleFaults()...)
	cases = append(cases, terminationFaults()...)
	cases = append(cases, lockFaults()...)
	cases = append(cases, channelFaults()...)
	cases = append(cases, otherFaults()...)
	return append(cases, unfairCases()...)
}

// plant makes the case of a model with one more action, Fault, enabled where
// fault says so.
func plant[S comparable](name, deviation string, m model.Model[S], violated map[string]int, fault func(s *S) bool) model.Case {
	next, id := m.Next, uint16(len(m.Actions))
	m.Config = name
	m.Actions = append(slices.Clone(m.Actions), model.ActionInfo{Name: "Fault"})
	m.Next = func(s S, out []model.Step[S]) []model.Step[S] {
		out = next(s, out)
		if fault(&s) {
			out = append(out, model.Step[S]{Action: model.Act(id), State: s})
		}
		return out
	}
	return model.NewCase(name, func() model.Model[S] { return m }, model.Expect{Violated: violated, Deviation: deviation})
}

// safety returns m without its liveness properties, for faults after which they
// say nothing of interest.
func safety[S comparable](m model.Model[S]) model.Model[S] {
	m.Properties = slices.DeleteFunc(slices.Clone(m.Properties), func(p model.Property[S]) bool { return live(p) })
	return m
}

func live[S comparable](p model.Property[S]) bool {
	return p.Kind == model.KindEventually || p.Kind == model.KindLeadsTo
}

const consistency = "no manager commits while another has aborted"

func transactionFaults() []model.Case {
	return []model.Case{
		plant("transaction-commit-3-late-abort", "a manager aborts after another has committed", TransactionCommit(3),
			map[string]int{consistency: 5},
			func(s *CommitState) bool {
				s.RM[0] = managerAborted
				return s.RM[1] == managerCommitted
			}),
		plant("two-phase-commit-3-late-abort", "a prepared manager aborts by itself", TwoPhaseCommit(3),
			map[string]int{consistency: 9, "every step is a step of TransactionCommit": 9},
			func(s *TwoPhaseState) bool {
				fires := s.RM[0]&twoPhaseManager == managerPrepared
				s.RM[0] |= managerAborted
				return fires
			}),
	}
}

func puzzleFaults() []model.Case {
	return []model.Case{
		plant("die-hard-overflow", "the big jug holds six litres", DieHard(false),
			map[string]int{"TypeOK": 2},
			func(s *DieHardState) bool { s.Big++; return s.Big == 6 }),
		plant("missionaries-and-cannibals-swim", "a missionary swims across", MissionariesAndCannibals(false),
			map[string]int{"both banks are safe": 1},
			func(s *RiverState) bool {
				fires := s.East == missionaries|cannibals
				s.East &^= 1
				return fires
			}),
		plant("coffee-can-10-empty", "the last black bean is taken out", CoffeeCan(10),
			// An empty can has an even number of white beans and never ends black.
			map[string]int{"TypeInvariant": 1, "TerminationHypothesis: even ends black": 1},
			func(s *CoffeeCanState) bool {
				fires := *s == CoffeeCanState{Black: 1}
				s.Black = 0
				return fires
			}),
		plant("coffee-can-10-paint", "the last white bean is painted black", CoffeeCan(10),
			map[string]int{"MonotonicDecrease": 1, "LoopInvariant: the parity of white beans stays": 1},
			func(s *CoffeeCanState) bool {
				fires := *s == CoffeeCanState{White: 1}
				*s = CoffeeCanState{Black: 1}
				return fires
			}),
		plant("prisoners-4-guess", "the counter guesses", Prisoners(),
			map[string]int{"Safety: whoever says so is right": 2},
			func(s *PrisonersState) bool {
				fires := s.Count == 1
				s.Count = 2 * otherPrisoners
				return fires
			}),
	}
}

func terminationFaults() []model.Case {
	small := EWD998()
	small.Constraint = func(s EWD998State) bool {
		return max(s.Counter[0], s.Counter[1], s.Counter[2], int8(s.Pending[0]), int8(s.Pending[1])) <= 1
	}
	return []model.Case{
		plant("ewd840-3-white-sender", "a message to a higher node blackens nobody", EWD840(3),
			map[string]int{
				"TerminationDetection": 5, "the initial states are those of SyncTerminationDetection": 5,
				"every step is a step of SyncTerminationDetection": 5,
			},
			func(s *EWD840State) bool {
				fires := s.Active&1 == 1
				s.Active |= 1 << 2
				return fires
			}),
		plant("sync-termination-detection-4-awake", "a node wakes up after termination was detected", SyncTerminationDetection(4),
			map[string]int{"TDCorrect": 1, "Quiescence": 1},
			func(s *SyncTerminationState) bool {
				fires := s.Active == 0 && s.Detected == 1
				s.Active = 1
				return fires
			}),
		plant("async-termination-detection-4-message", "a message comes from nowhere", AsyncTerminationDetection(),
			map[string]int{"Safe": 1, "Quiescence": 1, "Live: termination is detected in the end": 3},
			func(s *AsyncTerminationState) bool {
				fires := s.quiet()
				s.Pending[0] = 1
				return fires
			}),
		plant("ewd998-3-loss", "a message is lost", small,
			map[string]int{"Inv: counters count the pending messages": 2},
			func(s *EWD998State) bool {
				fires := s.Pending[2] == 1
				s.Pending[2] = 0
				return fires
			}),
		plant("ewd998-3-white-receiver", "the receiver of a message stays white", small,
			map[string]int{"TerminationDetection": 8},
			func(s *EWD998State) bool {
				fires := s.Pending[1] == 1
				s.Pending[1], s.Counter[1], s.Active = 0, s.Counter[1]-1, s.Active|1<<1
				return fires
			}),
	}
}

func lockFaults() []model.Case {
	return []model.Case{
		plant("readers-writers-3-barge", "a writer enters beside a reader", safety(ReadersWriters()),
			map[string]int{"Safety: no reader beside a writer": 3},
			func(s *ReadersWritersState) bool {
				fires := s.Readers == 1 && s.Writers == 0
				s.Writers = 2
				return fires
			}),
		plant("peterson-2-barge", "a process enters without waiting", Peterson(),
			map[string]int{"mutual exclusion": 8},
			func(s *PetersonState) bool {
				fires := s.At[0] == petersonWait
				s.At[0] = petersonCritical
				return fires
			}),
		plant("dining-philosophers-5-fingers", "a philosopher eats without forks", safety(DiningPhilosophers()),
			map[string]int{"ExclusiveAccess: neighbours do not eat together": 5},
			func(s *PhilosophersState) bool {
				fires := s.At[0] == philosopherLoop
				s.At[0] = philosopherEat
				return fires
			}),
		plant("simple-allocator-3-2-twice", "a resource is granted twice", SimpleAllocator(true),
			map[string]int{"ResourceMutex": 5},
			func(s *AllocatorState) bool {
				fires := s.Alloc[0] == 1 && s.Alloc[1] == 2
				s.Alloc[1] = 3
				return fires
			}),
		plant("lamport-mutex-3-barge", "a process enters beside another", LamportMutex(3),
			// The second may ask again before its first messages are read.
			map[string]int{"Mutex": 10, "BoundedNetwork": 16},
			func(s *LamportMutexState) bool {
				fires := s.Crit == 1 && s.Req[1][1] != 0 && s.Network[1] == [mutexProcesses]uint32{}
				s.Crit = 3
				return fires
			}),
	}
}

func channelFaults() []model.Case {
	return []model.Case{
		plant("inner-fifo-3-3-damage", "a message is damaged in the buffer", InnerFIFO(3, 3),
			map[string]int{"TypeInvariant": 3},
			func(s *FIFOState) bool {
				fires := s.Queue[0] == 3
				s.Queue[0] = 4
				return fires
			}),
		overtaking(),
		plant("alternating-bit-2-2-damage", "the value received changes", AlternatingBit(),
			map[string]int{"every step is a step of ABCorrectness": 2},
			func(s *AlternatingBitState) bool {
				fires := s.RBit != s.SBit
				s.Rcvd = 1 - s.Rcvd
				return fires
			}),
		plant("tcp-2-vanish", "an established peer forgets the connection", TCP(),
			map[string]int{"Inv: with empty queues, one is established if the other is": 4},
			func(s *TCPState) bool {
				fires := s.Conn[0] == tcpEstablished && s.Network[0][0] == 0
				s.Conn[0] = tcpClosed
				return fires
			}),
		plant("ping-pong-3-skip", "an actor counts twice", PingPong(3, false),
			map[string]int{"delta within 1": 1},
			func(s *PingPongState) bool {
				fires := s.Count[0] == s.Count[1]
				s.Count[0] += 2
				return fires
			}),
	}
}

// overtaking is the buffer whose second message leaves before the first.
func overtaking() model.Case {
	const name = "inner-fifo-3-3-overtake"
	m := InnerFIFO(3, 3)
	next := m.Next
	m.Config = name
	m.Next = func(s FIFOState, out []model.Step[FIFOState]) []model.Step[FIFOState] {
		out = next(s, out)
		for i := range out {
			if out[i].Action.ID == fifoBufSend && s.Queue[1] != 0 {
				out[i].State.Out.Val, out[i].State.Queue[0] = s.Queue[1]-1, s.Queue[0]
			}
		}
		return out
	}
	return model.NewCase(name, func() model.Model[FIFOState] { return m }, model.Expect{
		Violated: map[string]int{"the oldest message leaves first": 5}, Deviation: "the second message leaves before the first",
	})
}

func otherFaults() []model.Case {
	return []model.Case{
		plant("token-ring-6-disturbed", "a counter changes after stabilization", TokenRing(),
			map[string]int{"a single token stays single": 1},
			func(s *TokenRingState) bool {
				fires := s.uniqueToken()
				s.C[2] = (s.C[2] + 1) % tokenRingNodes
				return fires
			}),
		plant("chang-roberts-3-usurper", "a node declares itself the winner", ChangRoberts(),
			map[string]int{"Correctness: the winner is the initiator of the lowest identity": 1},
			func(s *ChangRobertsState) bool {
				fires := s.Initiator == 3
				s.Status[1] = electionWon
				return fires
			}),
		plant("chameneos-2-3-miscount", "a creature counts a meeting too many", Chameneos(2, 3),
			map[string]int{"SumMet: everybody's meetings add up": 3},
			func(s *ChameneosState) bool {
				fires := s.Meetings == 1
				s.Met[0] = 2
				return fires
			}),
		plant("single-copy-register-2-stale", "the server answers a read with the first value", SingleCopyRegister(2),
			map[string]int{"linearizable": 4},
			func(s *RegisterState) bool {
				fires := s.Phase[0] == registerGet
				s.Phase[0], s.Got[0] = registerGetOK, 0
				return fires
			}),
	}
}
