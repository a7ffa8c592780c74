package bench

import (
	"strconv"

	"microvms/model"
)

// rwActors is the number of actors of [ReadersWriters].
const rwActors = 3

// ReadersWritersState is a state of [ReadersWriters].
type ReadersWritersState struct {
	Readers uint8               // actors that read, one bit each
	Writers uint8               // actors that write
	Waiting [2 * rwActors]uint8 // requests in order of arrival: actor+1, or actor+1+rwWrite; 0 ends the queue
}

// rwWrite marks a queued request as one to write.
const rwWrite uint8 = 8

const (
	rwTryRead uint16 = iota
	rwTryWrite
	rwReadOrWrite
	rwStop
)

// ReadersWriters is a fair lock for three actors that read together or write
// alone, served in the order of their requests.
//
// Source: tlaplus/Examples,
// specifications/ReadersWriters/ReadersWriters.tla, MC.cfg.
func ReadersWriters() model.Model[ReadersWritersState] {
	m := model.Model[ReadersWritersState]{
		Name:   "ReadersWriters",
		Config: strconv.Itoa(rwActors),
		Actions: []model.ActionInfo{
			rwTryRead:     {Name: "TryRead", Params: []string{"actor"}},
			rwTryWrite:    {Name: "TryWrite", Params: []string{"actor"}},
			rwReadOrWrite: {Name: "ReadOrWrite"},
			rwStop:        {Name: "StopActivity", Params: []string{"actor"}},
		},
		Init: func(out []ReadersWritersState) []ReadersWritersState { return append(out, ReadersWritersState{}) },
		Next: ReadersWritersState.next,
		Properties: []model.Property[ReadersWritersState]{
			model.Always("Safety: no reader beside a writer", func(s ReadersWritersState) bool {
				return !(s.Readers != 0 && s.Writers != 0) && popcount(s.Writers) <= 1
			}),
		},
		Fairness: []model.Fairness{model.Weak("ReadOrWrite", rwReadOrWrite), model.Weak("Stop", rwStop)},
	}
	for actor := range uint8(rwActors) {
		m.Fairness = append(m.Fairness, weakOf("TryRead", rwTryRead, actor), weakOf("TryWrite", rwTryWrite, actor))
		reads := func(s ReadersWritersState) bool { return s.Readers>>actor&1 == 1 }
		writes := func(s ReadersWritersState) bool { return s.Writers>>actor&1 == 1 }
		name := " " + strconv.Itoa(int(actor)) + " again and again"
		m.Properties = append(m.Properties,
			infinitelyOften("Liveness: actor reads"+name, reads),
			infinitelyOften("Liveness: actor writes"+name, writes),
			infinitelyOften("Liveness: actor does not read"+name, func(s ReadersWritersState) bool { return !reads(s) }),
			infinitelyOften("Liveness: actor does not write"+name, func(s ReadersWritersState) bool { return !writes(s) }))
	}
	return m
}

func (s ReadersWritersState) next(out []model.Step[ReadersWritersState]) []model.Step[ReadersWritersState] {
	step := func(to ReadersWritersState, id uint16, args ...uint8) {
		out = append(out, model.Step[ReadersWritersState]{Action: model.Act(id, args...), State: to})
	}
	for actor := range uint8(rwActors) {
		for id, request := range [...]uint8{actor + 1, actor + 1 + rwWrite} {
			to := s
			for i, queued := range s.Waiting {
				if queued == request {
					break
				}
				if queued == 0 {
					to.Waiting[i] = request
					step(to, uint16(id), actor)
					break
				}
			}
		}
		if (s.Readers|s.Writers)>>actor&1 == 1 {
			to := s
			if s.Readers>>actor&1 == 1 {
				to.Readers &^= 1 << actor
			} else {
				to.Writers &^= 1 << actor
			}
			step(to, rwStop, actor)
		}
	}
	if head := s.Waiting[0]; head != 0 && s.Writers == 0 && (head < rwWrite || s.Readers == 0) {
		to := s
		copy(to.Waiting[:], s.Waiting[1:])
		to.Waiting[len(to.Waiting)-1] = 0
		if head < rwWrite {
			to.Readers |= 1 << (head - 1)
		} else {
			to.Writers |= 1 << (head - rwWrite - 1)
		}
		step(to, rwReadOrWrite)
	}
	return out
}

// PetersonState is a state of [Peterson].
type PetersonState struct {
	At   [2]uint8 // petersonRest to petersonLeave
	Flag [2]uint8 // 1: the process wants to enter
	Turn uint8    // which process goes first
}

const (
	petersonRest uint8 = iota
	petersonFlag
	petersonTurn
	petersonWait
	petersonCritical
	petersonLeave
)

// Peterson is Peterson's lock for two processes.
//
// Source: tlaplus/Examples,
// specifications/locks_auxiliary_vars/Peterson.tla.
func Peterson() model.Model[PetersonState] {
	m := model.Model[PetersonState]{
		Name:   "Peterson",
		Config: "2",
		Actions: []model.ActionInfo{
			petersonRest: {Name: "Rest", Params: []string{"p"}}, petersonFlag: {Name: "Raise", Params: []string{"p"}},
			petersonTurn: {Name: "Yield", Params: []string{"p"}}, petersonWait: {Name: "Enter", Params: []string{"p"}},
			petersonCritical: {Name: "Work", Params: []string{"p"}}, petersonLeave: {Name: "Leave", Params: []string{"p"}},
		},
		Init: func(out []PetersonState) []PetersonState { return append(out, PetersonState{}) },
		Next: func(s PetersonState, out []model.Step[PetersonState]) []model.Step[PetersonState] {
			for p := range uint8(2) {
				to := s
				switch s.At[p] {
				case petersonFlag:
					to.Flag[p] = 1
				case petersonTurn:
					to.Turn = 1 - p
				case petersonWait:
					if s.Flag[1-p] == 1 && s.Turn != p {
						continue
					}
				case petersonLeave:
					to.Flag[p] = 0
				}
				to.At[p] = (s.At[p] + 1) % (petersonLeave + 1)
				out = append(out, model.Step[PetersonState]{Action: model.Act(uint16(s.At[p]), p), State: to})
			}
			return out
		},
		Properties: []model.Property[PetersonState]{
			model.Always("mutual exclusion", func(s PetersonState) bool {
				return s.At != [2]uint8{petersonCritical, petersonCritical}
			}),
		},
	}
	for p := range uint8(2) {
		m.Fairness = append(m.Fairness, model.Fairness{Name: "process " + strconv.Itoa(int(p)), Match: func(a model.Action) bool { return a.Arg[0] == p }})
		m.Properties = append(m.Properties, model.LeadsTo("process "+strconv.Itoa(int(p))+" enters in the end",
			func(s PetersonState) bool { return s.At[p] == petersonFlag },
			func(s PetersonState) bool { return s.At[p] == petersonCritical }))
	}
	return m
}

// weakOf is weak fairness of one action of one process, its first argument.
func weakOf(name string, id uint16, process uint8) model.Fairness {
	return model.Fairness{
		Name:  name + "(" + strconv.Itoa(int(process)) + ")",
		Match: func(a model.Action) bool { return a.ID == id && a.Arg[0] == process },
	}
}

// infinitelyOften returns the property that every fair behaviour comes back to
// such states for ever, TLA+'s []<>: any state leads to one.
func infinitelyOften[S comparable](name string, reached func(S) bool) model.Property[S] {
	return model.LeadsTo(name, func(S) bool { return true }, reached)
}
