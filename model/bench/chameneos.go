package bench

import (
	"fmt"

	"microvms/model"
)

// maxChameneos is the largest number of creatures in [Chameneos].
const maxChameneos = 4

// ChameneosState is a state of [Chameneos].
type ChameneosState struct {
	Color    [maxChameneos]uint8 // 0 to 2, or chameneosFaded
	Met      [maxChameneos]uint8 // meetings that each took part in
	Place    uint8               // who waits at the meeting place, from 1; 0 nobody
	Meetings uint8
}

const chameneosFaded uint8 = 3

const (
	chameneosEnter uint16 = iota
	chameneosFade
	chameneosMeet
)

// Chameneos is the symmetric cooperation of creatures (2 to 4) that meet in
// pairs and take on the complement of their colours, until a number of meetings
// after which they fade. All colourings are initial.
//
// Sources: Kaiser and Pradat-Peyre, Chameneos, a concurrency game for Java, Ada
// and others, 2003; tlaplus/Examples, specifications/Chameneos/Chameneos.tla.
func Chameneos(meetings, creatures uint8) model.Model[ChameneosState] {
	if creatures < 2 || creatures > maxChameneos {
		panic("bench: internal error: the number of creatures must be between 2 and 4")
	}
	faded := func(s ChameneosState) bool {
		for c := range creatures {
			if s.Color[c] != chameneosFaded {
				return false
			}
		}
		return true
	}
	return model.Model[ChameneosState]{
		Name:   "Chameneos",
		Config: fmt.Sprintf("%d-%d", meetings, creatures),
		Actions: []model.ActionInfo{
			chameneosEnter: {Name: "Enter", Params: []string{"c"}},
			chameneosFade:  {Name: "Fade", Params: []string{"c"}},
			chameneosMeet:  {Name: "Meet", Params: []string{"c"}},
		},
		Init: func(out []ChameneosState) []ChameneosState {
			colorings := 1
			for range creatures {
				colorings *= 3
			}
			for coloring := range colorings {
				var s ChameneosState
				for c := range creatures {
					s.Color[c] = uint8(coloring % 3)
					coloring /= 3
				}
				out = append(out, s)
			}
			return out
		},
		Next: func(s ChameneosState, out []model.Step[ChameneosState]) []model.Step[ChameneosState] {
			for c := range creatures {
				if s.Color[c] == chameneosFaded || s.Place == c+1 {
					continue
				}
				to, id := s, chameneosMeet
				switch {
				case s.Place != 0:
					to.meet(c, s.Place-1)
				case s.Meetings < meetings:
					to.Place, id = c+1, chameneosEnter
				default:
					to.Color[c], id = chameneosFaded, chameneosFade
				}
				out = append(out, model.Step[ChameneosState]{Action: model.Act(id, c), State: to})
			}
			return out
		},
		CheckDeadlock: true,
		Terminal:      faded,
		Properties: []model.Property[ChameneosState]{
			model.Always("SumMet: everybody's meetings add up", func(s ChameneosState) bool {
				sum := uint8(0)
				for _, met := range s.Met {
					sum += met
				}
				return sum == 2*s.Meetings
			}),
			model.Eventually("all fade", faded),
		},
		Fairness: []model.Fairness{model.Weak("Next", chameneosEnter, chameneosFade, chameneosMeet)},
	}
}

// meet changes the colours of two creatures to their complement: their own if
// they have the same, the third otherwise.
func (s *ChameneosState) meet(a, b uint8) {
	if s.Color[a] != s.Color[b] {
		s.Color[a] = 3 - s.Color[a] - s.Color[b]
		s.Color[b] = s.Color[a]
	}
	s.Met[a]++
	s.Met[b]++
	s.Place = 0
	s.Meetings++
}
