package bench

import (
	"strconv"

	"microvms/model"
)

// MaxManagers is the largest number of resource managers that [TwoPhaseCommit]
// and [TransactionCommit] accept.
const MaxManagers = 10

// The states of a resource manager, as TCommit and TwoPhase name them.
const (
	managerWorking uint8 = iota
	managerPrepared
	managerCommitted
	managerAborted
)

var managerNames = []string{"working", "prepared", "committed", "aborted"}

// CommitState is a state of [TransactionCommit]: the state of each manager.
type CommitState struct {
	RM [MaxManagers]uint8
}

// The actions of TransactionCommit.
const (
	commitPrepare uint16 = iota
	commitCommit
	commitAbort
)

// TransactionCommit is the abstract commit protocol of n managers (2 to
// [MaxManagers]): what two-phase commit refines.
//
// Source: tlaplus/Examples, specifications/transaction_commit/TCommit.tla.
func TransactionCommit(n int) model.Model[CommitState] {
	checkManagers(n)
	return model.Model[CommitState]{
		Name:   "TransactionCommit",
		Config: strconv.Itoa(n),
		Actions: []model.ActionInfo{
			commitPrepare: {Name: "Prepare", Params: []string{"rm"}},
			commitCommit:  {Name: "DecideCommit", Params: []string{"rm"}},
			commitAbort:   {Name: "DecideAbort", Params: []string{"rm"}},
		},
		Init: func(out []CommitState) []CommitState { return append(out, CommitState{}) },
		Next: func(s CommitState, out []model.Step[CommitState]) []model.Step[CommitState] {
			for rm := range n {
				for id := commitPrepare; id <= commitAbort; id++ {
					if to, ok := s.decide(n, rm, id); ok {
						out = append(out, model.Step[CommitState]{Action: model.Act(id, uint8(rm)), State: to})
					}
				}
			}
			return out
		},
		Properties: []model.Property[CommitState]{
			model.Always("no manager commits while another has aborted", func(s CommitState) bool { return consistent(s.RM) }),
			model.Sometimes("all managers commit", func(s CommitState) bool { return all(s.RM, n, managerCommitted) }),
			model.Sometimes("all managers abort", func(s CommitState) bool { return all(s.RM, n, managerAborted) }),
		},
		Fields: func(s CommitState) []model.Field { return managerFields(s.RM, n) },
	}
}

// decide returns the state after action id of one manager, if it is enabled.
func (s CommitState) decide(n, rm int, id uint16) (CommitState, bool) {
	canCommit, notCommitted := true, true
	for i := range n {
		canCommit = canCommit && (s.RM[i] == managerPrepared || s.RM[i] == managerCommitted)
		notCommitted = notCommitted && s.RM[i] != managerCommitted
	}
	own := s.RM[rm]
	switch {
	case id == commitPrepare && own == managerWorking:
		s.RM[rm] = managerPrepared
	case id == commitCommit && own == managerPrepared && canCommit:
		s.RM[rm] = managerCommitted
	case id == commitAbort && own <= managerPrepared && notCommitted:
		s.RM[rm] = managerAborted
	default:
		return s, false
	}
	return s, true
}

// TwoPhaseState is a state of [TwoPhaseCommit]. Each manager is one byte, its
// state in the low two bits beside the two facts that the transaction manager
// and the network keep about it, so that sorting the bytes is an exact
// canonical form under permutation of the managers.
type TwoPhaseState struct {
	RM   [MaxManagers]uint8 // manager state | twoPhaseHeard | twoPhaseSent
	TM   uint8              // 0 undecided, 1 committed, 2 aborted
	Msgs uint8              // twoPhaseCommitMsg | twoPhaseAbortMsg
}

const (
	twoPhaseManager uint8 = 3 // mask of the manager's own state
	twoPhaseHeard   uint8 = 4 // the transaction manager has it in tmPrepared
	twoPhaseSent    uint8 = 8 // its Prepared message is in msgs

	twoPhaseCommitMsg uint8 = 1
	twoPhaseAbortMsg  uint8 = 2
)

// The actions of TwoPhaseCommit.
const (
	twoPhaseTMCommit uint16 = iota
	twoPhaseTMAbort
	twoPhaseTMReceive
	twoPhasePrepare
	twoPhaseChooseAbort
	twoPhaseReceiveCommit
	twoPhaseReceiveAbort
)

// TwoPhaseCommit is two-phase commit with n resource managers (2 to
// [MaxManagers]), one transaction manager and a network that never loses what
// was sent. One property is that it refines [TransactionCommit].
//
// Sources: tlaplus/Examples, specifications/transaction_commit/TwoPhase.tla
// (3 managers); stateright, examples/2pc.rs (3 and 5 managers) and its
// bench.sh; the other sizes are measured, checker facts, section 1.1.
func TwoPhaseCommit(n int) model.Model[TwoPhaseState] {
	checkManagers(n)
	return model.Model[TwoPhaseState]{
		Name:   "TwoPhaseCommit",
		Config: strconv.Itoa(n),
		Actions: []model.ActionInfo{
			twoPhaseTMCommit:      {Name: "TMCommit"},
			twoPhaseTMAbort:       {Name: "TMAbort"},
			twoPhaseTMReceive:     {Name: "TMRcvPrepared", Params: []string{"rm"}},
			twoPhasePrepare:       {Name: "RMPrepare", Params: []string{"rm"}},
			twoPhaseChooseAbort:   {Name: "RMChooseToAbort", Params: []string{"rm"}},
			twoPhaseReceiveCommit: {Name: "RMRcvCommitMsg", Params: []string{"rm"}},
			twoPhaseReceiveAbort:  {Name: "RMRcvAbortMsg", Params: []string{"rm"}},
		},
		Init: func(out []TwoPhaseState) []TwoPhaseState { return append(out, TwoPhaseState{}) },
		Next: func(s TwoPhaseState, out []model.Step[TwoPhaseState]) []model.Step[TwoPhaseState] {
			return s.next(n, out)
		},
		Properties: []model.Property[TwoPhaseState]{
			model.Always("no manager commits while another has aborted", func(s TwoPhaseState) bool { return consistent(s.managers()) }),
			model.AlwaysStep("every step is a step of TransactionCommit", func(from TwoPhaseState, _ model.Action, to TwoPhaseState) bool {
				return refinesCommit(n, CommitState{from.managers()}, CommitState{to.managers()})
			}),
			model.Sometimes("all managers commit", func(s TwoPhaseState) bool { return all(s.managers(), n, managerCommitted) }),
			model.Sometimes("all managers abort", func(s TwoPhaseState) bool { return all(s.managers(), n, managerAborted) }),
		},
		Fields: func(s TwoPhaseState) []model.Field { return s.fields(n) },
	}
}

// SymmetricTwoPhaseCommit is [TwoPhaseCommit] with its managers declared
// interchangeable: the counts are those of orbits.
//
// Source: checker facts, section 1.3 (TLC SYMMETRY, Rumur scalarsets and a
// sort-based canonical form agree).
func SymmetricTwoPhaseCommit(n int) model.Model[TwoPhaseState] {
	m := TwoPhaseCommit(n)
	m.Name = "SymmetricTwoPhaseCommit"
	symmetry := model.Symmetry[TwoPhaseState]{Canonical: func(s TwoPhaseState) TwoPhaseState {
		for i := 1; i < n; i++ {
			for j := i; j > 0 && s.RM[j-1] > s.RM[j]; j-- {
				s.RM[j-1], s.RM[j] = s.RM[j], s.RM[j-1]
			}
		}
		return s
	}}
	// A transposition and a rotation generate every permutation: two images to check for each state, where adjacent
	// transpositions would be n-1.
	symmetry.Generators = []func(TwoPhaseState) TwoPhaseState{
		func(s TwoPhaseState) TwoPhaseState {
			s.RM[0], s.RM[1] = s.RM[1], s.RM[0]
			return s
		},
		func(s TwoPhaseState) TwoPhaseState {
			first := s.RM[0]
			copy(s.RM[:n], s.RM[1:n])
			s.RM[n-1] = first
			return s
		},
	}
	m.Symmetry = &symmetry
	return m
}

func (s TwoPhaseState) next(n int, out []model.Step[TwoPhaseState]) []model.Step[TwoPhaseState] {
	if s.TM == 0 {
		heard := 0
		for rm := range n {
			if s.RM[rm]&twoPhaseHeard != 0 {
				heard++
			}
			if s.RM[rm]&twoPhaseSent != 0 {
				to := s
				to.RM[rm] |= twoPhaseHeard
				out = append(out, model.Step[TwoPhaseState]{Action: model.Action{ID: twoPhaseTMReceive, Arg: [model.MaxArgs]uint8{uint8(rm)}}, State: to})
			}
		}
		if heard == n {
			to := s
			to.TM, to.Msgs = 1, s.Msgs|twoPhaseCommitMsg
			out = append(out, model.Step[TwoPhaseState]{Action: model.Action{ID: twoPhaseTMCommit}, State: to})
		}
		to := s
		to.TM, to.Msgs = 2, s.Msgs|twoPhaseAbortMsg
		out = append(out, model.Step[TwoPhaseState]{Action: model.Action{ID: twoPhaseTMAbort}, State: to})
	}
	for rm := range n {
		if s.RM[rm]&twoPhaseManager == managerWorking {
			out = s.set(out, twoPhasePrepare, rm, managerPrepared|twoPhaseSent)
			out = s.set(out, twoPhaseChooseAbort, rm, managerAborted)
		}
		if s.Msgs&twoPhaseCommitMsg != 0 {
			out = s.set(out, twoPhaseReceiveCommit, rm, managerCommitted)
		}
		if s.Msgs&twoPhaseAbortMsg != 0 {
			out = s.set(out, twoPhaseReceiveAbort, rm, managerAborted)
		}
	}
	return out
}

// set appends the step in which one manager moves to a state, keeping what is
// known of it elsewhere.
func (s TwoPhaseState) set(out []model.Step[TwoPhaseState], id uint16, rm int, value uint8) []model.Step[TwoPhaseState] {
	s.RM[rm] = s.RM[rm]&^twoPhaseManager | value
	return append(out, model.Step[TwoPhaseState]{Action: model.Action{ID: id, Arg: [model.MaxArgs]uint8{uint8(rm)}}, State: s})
}

// managers returns the part of the state that TransactionCommit has too.
func (s TwoPhaseState) managers() (rm [MaxManagers]uint8) {
	for i := range s.RM {
		rm[i] = s.RM[i] & twoPhaseManager
	}
	return rm
}

func (s TwoPhaseState) fields(n int) []model.Field {
	fields := managerFields(s.managers(), n)
	heard, msgs := "", ""
	for rm := range n {
		if s.RM[rm]&twoPhaseHeard != 0 {
			heard += " " + strconv.Itoa(rm)
		}
		if s.RM[rm]&twoPhaseSent != 0 {
			msgs += " Prepared(" + strconv.Itoa(rm) + ")"
		}
	}
	if s.Msgs&twoPhaseCommitMsg != 0 {
		msgs += " Commit"
	}
	if s.Msgs&twoPhaseAbortMsg != 0 {
		msgs += " Abort"
	}
	return append(fields,
		model.Field{Name: "tmState", Value: []string{"init", "committed", "aborted"}[s.TM]},
		model.Field{Name: "tmPrepared", Value: "{" + heard + " }"},
		model.Field{Name: "msgs", Value: "{" + msgs + " }"})
}

// refinesCommit says whether the managers' states moved as TransactionCommit
// allows, or not at all.
func refinesCommit(n int, from, to CommitState) bool {
	for rm := range n {
		if from.RM[rm] == to.RM[rm] {
			continue
		}
		for id := commitPrepare; id <= commitAbort; id++ {
			if got, ok := from.decide(n, rm, id); ok && got == to {
				return true
			}
		}
		return false // a step of TransactionCommit moves one manager only
	}
	return true
}

func consistent(rm [MaxManagers]uint8) bool {
	const both = 1<<managerCommitted | 1<<managerAborted
	met := uint8(0)
	for _, state := range rm {
		met |= 1 << state
	}
	return met&both != both
}

func all(rm [MaxManagers]uint8, n int, state uint8) bool {
	for i := range n {
		if rm[i] != state {
			return false
		}
	}
	return true
}

func managerFields(rm [MaxManagers]uint8, n int) []model.Field {
	fields := make([]model.Field, n)
	for i := range n {
		fields[i] = model.Field{Name: "rmState[" + strconv.Itoa(i) + "]", Value: managerNames[rm[i]]}
	}
	return fields
}

func checkManagers(n int) {
	if n < 2 || n > MaxManagers {
		panic("bench: internal error: the number of managers must be between 2 and " + strconv.Itoa(MaxManagers))
	}
}
