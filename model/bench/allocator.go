package bench

import (
	"strconv"

	"microvms/model"
)

const (
	allocatorClients   = 3
	allocatorResources = 2
)

// AllocatorState is a state of [SimpleAllocator]; resources are bits.
type AllocatorState struct {
	Unsat [allocatorClients]uint8 // requested and not granted yet
	Alloc [allocatorClients]uint8 // granted
}

const (
	allocatorRequest uint16 = iota
	allocatorAllocate
	allocatorReturn
)

// SimpleAllocator manages two resources for three clients. With strong fairness
// of allocation, every client obtains what it asked for; with weak fairness
// only (strong false), one can be passed over for ever.
//
// Source: Merz, The Specification Language TLA+, 2008; tlaplus/Examples,
// specifications/allocator/SimpleAllocator.tla.
func SimpleAllocator(strong bool) model.Model[AllocatorState] {
	m := model.Model[AllocatorState]{
		Name:   "SimpleAllocator",
		Config: "strong",
		Actions: []model.ActionInfo{
			allocatorRequest:  {Name: "Request", Params: []string{"client", "resources"}},
			allocatorAllocate: {Name: "Allocate", Params: []string{"client", "resources"}},
			allocatorReturn:   {Name: "Return", Params: []string{"client", "resources", "all"}},
		},
		Init: func(out []AllocatorState) []AllocatorState { return append(out, AllocatorState{}) },
		Next: AllocatorState.next,
		Properties: []model.Property[AllocatorState]{
			model.Always("ResourceMutex", func(s AllocatorState) bool {
				return s.Alloc[0]&s.Alloc[1] == 0 && s.Alloc[0]&s.Alloc[2] == 0 && s.Alloc[1]&s.Alloc[2] == 0
			}),
		},
	}
	if !strong {
		m.Config = "weak"
	}
	for client := range uint8(allocatorClients) {
		name := " client " + strconv.Itoa(int(client))
		m.Fairness = append(m.Fairness,
			// Weak fairness of Return(c, alloc[c]): of giving back everything.
			model.Fairness{Name: "Return:" + name, Match: func(a model.Action) bool {
				return a.ID == allocatorReturn && a.Arg[0] == client && a.Arg[2] == 1
			}},
			model.Fairness{Name: "Allocate:" + name, Strong: strong, Match: func(a model.Action) bool {
				return a.ID == allocatorAllocate && a.Arg[0] == client
			}})
		m.Properties = append(m.Properties,
			model.LeadsTo("ClientsWillReturn:"+name, func(s AllocatorState) bool { return s.Unsat[client] == 0 },
				func(s AllocatorState) bool { return s.Alloc[client] == 0 }),
			infinitelyOften("InfOftenSatisfied:"+name, func(s AllocatorState) bool { return s.Unsat[client] == 0 }))
		for resource := range uint8(allocatorResources) {
			m.Properties = append(m.Properties, model.LeadsTo("ClientsWillObtain:"+name+", resource "+strconv.Itoa(int(resource)),
				func(s AllocatorState) bool { return s.Unsat[client]>>resource&1 == 1 },
				func(s AllocatorState) bool { return s.Alloc[client]>>resource&1 == 1 }))
		}
	}
	return m
}

func (s AllocatorState) next(out []model.Step[AllocatorState]) []model.Step[AllocatorState] {
	const everything = uint8(1)<<allocatorResources - 1
	available := everything &^ (s.Alloc[0] | s.Alloc[1] | s.Alloc[2])
	for client := range uint8(allocatorClients) {
		for set := uint8(1); set <= everything; set++ {
			if s.Unsat[client] == 0 && s.Alloc[client] == 0 {
				to := s
				to.Unsat[client] = set
				out = append(out, model.Step[AllocatorState]{Action: model.Act(allocatorRequest, client, set), State: to})
			}
			if set&^(available&s.Unsat[client]) == 0 {
				to := s
				to.Alloc[client] |= set
				to.Unsat[client] &^= set
				out = append(out, model.Step[AllocatorState]{Action: model.Act(allocatorAllocate, client, set), State: to})
			}
			if set&^s.Alloc[client] == 0 {
				to := s
				to.Alloc[client] &^= set
				out = append(out, model.Step[AllocatorState]{Action: model.Act(allocatorReturn, client, set, flag(to.Alloc[client] == 0)), State: to})
			}
		}
	}
	return out
}
