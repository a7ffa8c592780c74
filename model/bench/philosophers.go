package bench

import (
	"strconv"

	"microvms/model"
)

// philosophers is the number of philosophers, and of forks, at the table.
const philosophers = 5

// PhilosophersState is a state of [DiningPhilosophers]. Fork p lies between
// philosopher p, whose left fork it is, and philosopher p-1.
type PhilosophersState struct {
	Holder [philosophers]uint8 // who holds each fork
	Clean  uint8               // forks that are clean, one bit each
	Hungry uint8               // philosophers that are hungry, one bit each
	At     [philosophers]uint8 // philosopherLoop, philosopherEat or philosopherThink
}

const (
	philosopherLoop uint8 = iota
	philosopherEat
	philosopherThink
)

// DiningPhilosophers is Chandy and Misra's solution for five philosophers: a
// philosopher hands over each dirty fork cleaned, and eats with two clean ones.
// Every philosopher has exactly one step in each state; a step that changes
// nothing counts as generated.
//
// Source: tlaplus/Examples,
// specifications/DiningPhilosophers/DiningPhilosophers.tla.
func DiningPhilosophers() model.Model[PhilosophersState] {
	m := model.Model[PhilosophersState]{
		Name:    "DiningPhilosophers",
		Config:  strconv.Itoa(philosophers),
		Actions: []model.ActionInfo{{Name: "Loop", Params: []string{"p"}}, {Name: "Eat", Params: []string{"p"}}, {Name: "Think", Params: []string{"p"}}},
		Init: func(out []PhilosophersState) []PhilosophersState {
			s := PhilosophersState{Hungry: 1<<philosophers - 1}
			for fork := range uint8(philosophers) {
				s.Holder[fork] = fork
			}
			// Each fork starts with the neighbour of the lower number; fork 0 lies between the first and the last.
			s.Holder[1] = 0
			return append(out, s)
		},
		Next: func(s PhilosophersState, out []model.Step[PhilosophersState]) []model.Step[PhilosophersState] {
			for p := range uint8(philosophers) {
				out = append(out, model.Step[PhilosophersState]{Action: model.Act(uint16(s.At[p]), p), State: s.step(p)})
			}
			return out
		},
		Properties: []model.Property[PhilosophersState]{
			model.Always("ExclusiveAccess: neighbours do not eat together", func(s PhilosophersState) bool {
				for p := range philosophers {
					if s.At[p] == philosopherEat && s.At[(p+1)%philosophers] == philosopherEat {
						return false
					}
				}
				return true
			}),
		},
	}
	for p := range uint8(philosophers) {
		m.Fairness = append(m.Fairness, model.Fairness{Name: "philosopher " + strconv.Itoa(int(p)), Match: func(a model.Action) bool { return a.Arg[0] == p }})
		m.Properties = append(m.Properties, infinitelyOften("NobodyStarves: philosopher "+strconv.Itoa(int(p)), func(s PhilosophersState) bool { return s.Hungry>>p&1 == 0 }))
	}
	return m
}

// step is the one step of philosopher p.
func (s PhilosophersState) step(p uint8) PhilosophersState {
	left, right := p, (p+1)%philosophers
	switch s.At[p] {
	case philosopherEat:
		s.Hungry &^= 1 << p
		s.Clean &^= 1<<left | 1<<right
		s.At[p] = philosopherLoop
		return s
	case philosopherThink:
		s.Hungry |= 1 << p
		s.At[p] = philosopherLoop
		return s
	}
	switch {
	case s.Holder[left] == p && s.Clean>>left&1 == 0:
		s.Holder[left] = (p + philosophers - 1) % philosophers
		s.Clean |= 1 << left
	case s.Holder[right] == p && s.Clean>>right&1 == 0:
		s.Holder[right] = right
		s.Clean |= 1 << right
	}
	switch {
	case s.Hungry>>p&1 == 0:
		s.At[p] = philosopherThink
	case s.Holder[left] == p && s.Holder[right] == p && s.Clean>>left&1 == 1 && s.Clean>>right&1 == 1:
		s.At[p] = philosopherEat
	}
	return s
}
