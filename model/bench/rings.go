package bench

import (
	"slices"
	"strconv"

	"microvms/model"
)

// tokenRingNodes is the number of nodes, and of values, of [TokenRing].
const tokenRingNodes = 6

// TokenRingState is a state of [TokenRing]: the counter of each node.
type TokenRingState struct {
	C [tokenRingNodes]uint8
}

// TokenRing is Dijkstra's self-stabilising token ring of six nodes with six
// values: from any state it comes to a single token and keeps it.
//
// Source: tlaplus/Examples, specifications/ewd426/TokenRing.tla.
func TokenRing() model.Model[TokenRingState] {
	return model.Model[TokenRingState]{
		Name:    "TokenRing",
		Config:  strconv.Itoa(tokenRingNodes),
		Actions: []model.ActionInfo{{Name: "CreateToken"}, {Name: "PassToken", Params: []string{"i"}}},
		Init: func(out []TokenRingState) []TokenRingState {
			var s TokenRingState
			for {
				out = append(out, s)
				i := 0
				for i < tokenRingNodes && s.C[i] == tokenRingNodes-1 {
					s.C[i] = 0
					i++
				}
				if i == tokenRingNodes {
					return out
				}
				s.C[i]++
			}
		},
		Next: func(s TokenRingState, out []model.Step[TokenRingState]) []model.Step[TokenRingState] {
			if s.C[0] == s.C[tokenRingNodes-1] {
				to := s
				to.C[0] = (s.C[tokenRingNodes-1] + 1) % tokenRingNodes
				out = append(out, model.Step[TokenRingState]{Action: model.Act(0), State: to})
			}
			for i := 1; i < tokenRingNodes; i++ {
				if s.C[i] != s.C[i-1] {
					to := s
					to.C[i] = s.C[i-1]
					out = append(out, model.Step[TokenRingState]{Action: model.Act(1, uint8(i)), State: to})
				}
			}
			return out
		},
		Properties: []model.Property[TokenRingState]{
			// Together these two are TLA+'s <>[]UniqueToken.
			model.Eventually("Stabilization: a single token in the end", TokenRingState.uniqueToken),
			model.AlwaysStep("a single token stays single", func(from TokenRingState, _ model.Action, to TokenRingState) bool {
				return !from.uniqueToken() || to.uniqueToken()
			}),
		},
		Fairness: []model.Fairness{model.Weak("Next", 0, 1)},
	}
}

func (s TokenRingState) uniqueToken() bool {
	tokens := 0
	if s.C[0] == s.C[tokenRingNodes-1] {
		tokens++
	}
	for i := 1; i < tokenRingNodes; i++ {
		if s.C[i] != s.C[i-1] {
			tokens++
		}
	}
	return tokens == 1
}

// electionNodes is the number of nodes of [ChangRoberts].
const electionNodes = 3

// ChangRobertsState is a state of [ChangRoberts].
type ChangRobertsState struct {
	Msgs      [electionNodes]uint8 // identities waiting at each node, one bit each
	Status    [electionNodes]uint8 // electionCandidate, electionLost, electionWon
	Initiator uint8                // nodes that start an election, one bit each
	Started   uint8                // nodes past their first step
}

const (
	electionCandidate uint8 = iota
	electionLost
	electionWon
)

// ChangRoberts is leader election on a unidirectional ring of three nodes; any
// of them may start it.
//
// Source: tlaplus/Examples, specifications/chang_roberts/chang_roberts.tla.
func ChangRoberts() model.Model[ChangRobertsState] {
	m := model.Model[ChangRobertsState]{
		Name:    "ChangRoberts",
		Config:  strconv.Itoa(electionNodes),
		Actions: []model.ActionInfo{{Name: "Start", Params: []string{"node"}}, {Name: "Receive", Params: []string{"node", "id"}}},
		Init: func(out []ChangRobertsState) []ChangRobertsState {
			for initiator := range uint8(1 << electionNodes) {
				out = append(out, ChangRobertsState{Initiator: initiator})
			}
			return out
		},
		Next: ChangRobertsState.next,
		Properties: []model.Property[ChangRobertsState]{
			model.Always("Correctness: the winner is the initiator of the lowest identity", func(s ChangRobertsState) bool {
				for node := range electionNodes {
					if s.Status[node] == electionWon && uint8(1)<<node != s.Initiator&-s.Initiator {
						return false
					}
				}
				return true
			}).When(func(s ChangRobertsState) bool { return slices.Contains(s.Status[:], electionWon) }),
			model.LeadsTo("Liveness: an initiator wins in the end", func(s ChangRobertsState) bool { return s.Initiator != 0 },
				func(s ChangRobertsState) bool { return slices.Contains(s.Status[:], electionWon) }),
		},
	}
	for node := range uint8(electionNodes) {
		m.Fairness = append(m.Fairness, model.Fairness{Name: "node " + strconv.Itoa(int(node)), Match: func(a model.Action) bool { return a.Arg[0] == node }})
	}
	return m
}

func (s ChangRobertsState) next(out []model.Step[ChangRobertsState]) []model.Step[ChangRobertsState] {
	for node := range uint8(electionNodes) {
		succ := (node + 1) % electionNodes
		if s.Started>>node&1 == 0 {
			to := s
			to.Started |= 1 << node
			if s.Initiator>>node&1 == 1 {
				to.Msgs[succ] |= 1 << node
			} else {
				to.Status[node] = electionLost
			}
			out = append(out, model.Step[ChangRobertsState]{Action: model.Act(0, node), State: to})
			continue
		}
		for id := range uint8(electionNodes) {
			if s.Msgs[node]>>id&1 == 0 {
				continue
			}
			to := s
			to.Msgs[node] &^= 1 << id
			switch {
			case s.Status[node] == electionLost:
				to.Msgs[succ] |= 1 << id
			case id < node:
				to.Status[node] = electionLost
				to.Msgs[succ] |= 1 << id
			case id == node:
				to.Status[node] = electionWon
			}
			out = append(out, model.Step[ChangRobertsState]{Action: model.Act(1, node, id), State: to})
		}
	}
	return out
}
