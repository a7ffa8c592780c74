package bench

import (
	"strconv"

	"microvms/model"
)

// CoffeeCanState is a state of [CoffeeCan]: the beans in the can.
type CoffeeCanState struct {
	Black uint16
	White uint16
}

const (
	canSameBlack uint16 = iota
	canSameWhite
	canDifferent
	canTermination
)

// CoffeeCan is the coffee can problem with at most maxBeans beans (1 to
// 10,000): pick two, put a black one back if they match and the white one if
// they do not, until one bean is left, whose colour the first count of white
// beans decides. Every can is initial: N(N+1)/2+N states, of which a can of
// black and white beans has three successors and the last bean stutters:
// 2N^2+2 generated.
//
// Sources: Gries, The Science of Programming, 1981; tlaplus/Examples,
// specifications/CoffeeCan/CoffeeCan.tla, CoffeeCan100Beans.cfg,
// CoffeeCan1000Beans.cfg and CoffeeCan3000Beans.cfg.
func CoffeeCan(maxBeans uint16) model.Model[CoffeeCanState] {
	if maxBeans < 1 || maxBeans > 10_000 {
		panic("bench: internal error: the number of beans must be between 1 and 10000")
	}
	beans := func(s CoffeeCanState) uint16 { return s.Black + s.White }
	return model.Model[CoffeeCanState]{
		Name:   "CoffeeCan",
		Config: strconv.Itoa(int(maxBeans)),
		Actions: []model.ActionInfo{
			canSameBlack: {Name: "PickSameColorBlack"}, canSameWhite: {Name: "PickSameColorWhite"},
			canDifferent: {Name: "PickDifferentColor"}, canTermination: {Name: "Termination"},
		},
		Init: func(out []CoffeeCanState) []CoffeeCanState {
			for total := uint16(1); total <= maxBeans; total++ {
				for black := uint16(0); black <= total; black++ {
					out = append(out, CoffeeCanState{black, total - black})
				}
			}
			return out
		},
		Next: func(s CoffeeCanState, out []model.Step[CoffeeCanState]) []model.Step[CoffeeCanState] {
			if s.Black >= 2 {
				out = append(out, model.Step[CoffeeCanState]{Action: model.Action{ID: canSameBlack}, State: CoffeeCanState{s.Black - 1, s.White}})
			}
			if s.White >= 2 {
				out = append(out, model.Step[CoffeeCanState]{Action: model.Action{ID: canSameWhite}, State: CoffeeCanState{s.Black + 1, s.White - 2}})
			}
			if s.Black >= 1 && s.White >= 1 {
				out = append(out, model.Step[CoffeeCanState]{Action: model.Action{ID: canDifferent}, State: CoffeeCanState{s.Black - 1, s.White}})
			}
			if beans(s) == 1 {
				out = append(out, model.Step[CoffeeCanState]{Action: model.Action{ID: canTermination}, State: s})
			}
			return out
		},
		Properties: []model.Property[CoffeeCanState]{
			model.Always("TypeInvariant", func(s CoffeeCanState) bool { return beans(s) >= 1 && beans(s) <= maxBeans }),
			model.AlwaysStep("MonotonicDecrease", func(from CoffeeCanState, a model.Action, to CoffeeCanState) bool {
				return beans(to) < beans(from) || a.ID == canTermination
			}),
			model.AlwaysStep("LoopInvariant: the parity of white beans stays", func(from CoffeeCanState, _ model.Action, to CoffeeCanState) bool {
				return from.White%2 == to.White%2
			}),
			model.Eventually("EventuallyTerminates", func(s CoffeeCanState) bool { return beans(s) == 1 }),
			model.LeadsTo("TerminationHypothesis: even ends black", func(s CoffeeCanState) bool { return s.White%2 == 0 },
				func(s CoffeeCanState) bool { return s == CoffeeCanState{Black: 1} }),
			model.LeadsTo("TerminationHypothesis: odd ends white", func(s CoffeeCanState) bool { return s.White%2 == 1 },
				func(s CoffeeCanState) bool { return s == CoffeeCanState{White: 1} }),
		},
		Fairness: []model.Fairness{model.Weak("Next", canSameBlack, canSameWhite, canDifferent, canTermination)},
	}
}
