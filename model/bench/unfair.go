package bench

import (
	"slices"

	"microvms/model"
)

// unfairCases returns the ports that have liveness properties with nothing
// fair, so that any behaviour may stutter for ever and each of those properties
// is violated, and two in which weak fairness is not enough.
func unfairCases() []model.Case {
	return []model.Case{
		unfair("moving-cat-6-unfair", MovingCat(6), map[string]int{"Victory: the cat is found": 0}),
		unfair("coffee-can-20-unfair", CoffeeCan(20), map[string]int{
			"EventuallyTerminates":                   0,
			"TerminationHypothesis: even ends black": 0,
			"TerminationHypothesis: odd ends white":  0,
		}),
		unfair("ewd840-3-unfair", EWD840(3), map[string]int{"Liveness: termination is detected in the end": 0}),
		unfair("sync-termination-detection-4-unfair", SyncTerminationDetection(4), map[string]int{"Liveness: termination is detected in the end": 0}),
		unfair("async-termination-detection-4-unfair", AsyncTerminationDetection(), map[string]int{"Live: termination is detected in the end": 0}),
		unfair("dining-philosophers-5-unfair", DiningPhilosophers(), map[string]int{
			"NobodyStarves: philosopher 0": 0,
			"NobodyStarves: philosopher 1": 0,
			"NobodyStarves: philosopher 2": 0,
			"NobodyStarves: philosopher 3": 0,
			"NobodyStarves: philosopher 4": 0,
		}),
		unfair("readers-writers-3-unfair", ReadersWriters(), map[string]int{
			"Liveness: actor reads 0 again and again":          0,
			"Liveness: actor writes 0 again and again":         0,
			"Liveness: actor does not read 0 again and again":  2,
			"Liveness: actor does not write 0 again and again": 2,
			"Liveness: actor reads 1 again and again":          0,
			"Liveness: actor writes 1 again and again":         0,
			"Liveness: actor does not read 1 again and again":  2,
			"Liveness: actor does not write 1 again and again": 2,
			"Liveness: actor reads 2 again and again":          0,
			"Liveness: actor writes 2 again and again":         0,
			"Liveness: actor does not read 2 again and again":  2,
			"Liveness: actor does not write 2 again and again": 2,
		}),
		unfair("peterson-2-unfair", Peterson(), map[string]int{"process 0 enters in the end": 1, "process 1 enters in the end": 1}),
		unfair("alternating-bit-2-2-unfair", AlternatingBit(), map[string]int{"SentLeadsToRcvd: value 0": 1, "SentLeadsToRcvd: value 1": 1}),
		unfair("ab-correctness-2-unfair", ABCorrectness(), map[string]int{"the sender is acknowledged again and again": 1}),
		unfair("token-ring-6-unfair", TokenRing(), map[string]int{"Stabilization: a single token in the end": 0}),
		unfair("chang-roberts-3-unfair", ChangRoberts(), map[string]int{"Liveness: an initiator wins in the end": 0}),
		unfair("chameneos-2-3-unfair", Chameneos(2, 3), map[string]int{"all fade": 0}),
		unfair("prisoners-4-unfair", Prisoners(), map[string]int{"Liveness: the counter can say so": 0}),
		unfair("simple-allocator-3-2-unfair", SimpleAllocator(true), map[string]int{
			"ClientsWillReturn: client 0":             2,
			"InfOftenSatisfied: client 0":             1,
			"ClientsWillObtain: client 0, resource 0": 1,
			"ClientsWillObtain: client 0, resource 1": 1,
			"ClientsWillReturn: client 1":             2,
			"InfOftenSatisfied: client 1":             1,
			"ClientsWillObtain: client 1, resource 0": 1,
			"ClientsWillObtain: client 1, resource 1": 1,
			"ClientsWillReturn: client 2":             2,
			"InfOftenSatisfied: client 2":             1,
			"ClientsWillObtain: client 2, resource 0": 1,
			"ClientsWillObtain: client 2, resource 1": 1,
		}),
		weakened("alternating-bit-2-2-weak", AlternatingBit(), map[string]int{"SentLeadsToRcvd: value 0": 7, "SentLeadsToRcvd: value 1": 7}),
		weakened("simple-allocator-3-2-weak", SimpleAllocator(true), map[string]int{
			"InfOftenSatisfied: client 0":             4,
			"ClientsWillObtain: client 0, resource 0": 4,
			"ClientsWillObtain: client 0, resource 1": 4,
			"InfOftenSatisfied: client 1":             4,
			"ClientsWillObtain: client 1, resource 0": 4,
			"ClientsWillObtain: client 1, resource 1": 4,
			"InfOftenSatisfied: client 2":             4,
			"ClientsWillObtain: client 2, resource 0": 4,
			"ClientsWillObtain: client 2, resource 1": 4,
		}),
	}
}

// unfair makes the case of a model without its fairness.
func unfair[S comparable](name string, m model.Model[S], violated map[string]int) model.Case {
	m.Config, m.Fairness = name, nil
	return model.NewCase(name, func() model.Model[S] { return m }, model.Expect{Violated: violated, Deviation: "nothing is fair"})
}

// weakened makes the case of a model whose strong fairness is only weak.
func weakened[S comparable](name string, m model.Model[S], violated map[string]int) model.Case {
	m.Config, m.Fairness = name, slices.Clone(m.Fairness)
	for i := range m.Fairness {
		m.Fairness[i].Strong = false
	}
	return model.NewCase(name, func() model.Model[S] { return m }, model.Expect{Violated: violated, Deviation: "fairness is weak where strong is needed"})
}
