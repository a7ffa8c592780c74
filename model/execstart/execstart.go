// Package execstart models how the daemon turns a start request into a child:
// whom it runs as, under which shell and with which environment, and what
// happens to a request that does not resolve (models facts, M3; wire facts,
// sections 7.1 and 9).
//
// Bytes are abstracted away. A variable's value is where it came from: the
// image, the daemon's settings, the token, the passwd file, the launch or the
// request. A uid, a gid and a program likewise. What a request says of its user
// is one of the shapes that the rule tells apart: a name with a row, digits that
// are a row's name, digits without any row, and so on.
//
// A request is received, reserves its id (or finds it known, or waits for the
// request that reserved it), is resolved, is spawned or refused, and is
// answered. Between any two of these steps another request may take one of its
// own, and the guest's passwd and group files may change, since they are the
// workload's to edit.
//
// [New] is the model at that granularity, [Config.Apply] its atomic form, and
// [NewM3] the published model, whose counts are known from elsewhere.
package execstart

import (
	"fmt"

	"microvms/model"
)

// Config bounds one configuration of the model.
type Config struct {
	Name string // the configuration's name in reports

	Slots    int // requests in flight at once, at most [MaxSlots]
	IDs      int // exec ids that requests name, at most [MaxIDs]
	Requests int // requests received in one behaviour
	Edits    int // changes of the guest's files in one behaviour
	Rows     []Row

	// The daemon's boot: each pair of image and launch environment is an own behaviour.
	Images   []Image
	Launches []Flags // FlagHome and FlagPath only

	// What requests say: every combination is received.
	Users  []User
	Groups []Group
	Shells []Shell
	Flags  []Flags

	Liveness bool // state that every request ends

	Deviation Deviation // the deliberate fault that is planted; Specified plants none
}

// New returns the model of one configuration. It panics when a bound is out of
// range, since a configuration is written by hand beside its expectation.
func New(c Config) model.Model[State] {
	c.check()
	m := model.Model[State]{
		Name: "execstart", Config: c.Name,
		Actions: actions(), MayBeDead: c.mayBeDead(),
		Init: c.initial, Next: c.next,
		Properties: c.properties(), Fields: Fields,
	}
	if c.Liveness {
		m.Fairness = c.fairness()
	}
	return m
}

func (c *Config) check() {
	for _, b := range []struct {
		name         string
		value, limit int
	}{
		{"Slots", c.Slots, MaxSlots}, {"IDs", c.IDs, MaxIDs}, {"Requests", c.Requests, 8}, {"Edits", c.Edits, 8},
	} {
		if b.value < 0 || b.value > b.limit {
			panic(fmt.Sprintf("execstart: internal error: %s of configuration %q is %d, want 0 to %d", b.name, c.Name, b.value, b.limit))
		}
	}
	if len(c.Images) == 0 || len(c.Launches) == 0 {
		panic(fmt.Sprintf("execstart: internal error: configuration %q has no image or no launch environment", c.Name))
	}
}

func (c *Config) initial(out []State) []State {
	for _, image := range c.Images {
		out = append(out, State{Image: image, Files: AllRows})
	}
	return out
}

// The actions; the index of each in Model.Actions. Where the daemon has a
// transition point, the action bears its name (agentd/trace).
const (
	Boot          uint16 = iota // the daemon starts and takes the image snapshot
	RunHook                     // (launch) the bootstrap brings the token and the launch environment
	Health                      // (keys) a health request reads the number of keys of the snapshot
	FilesChange                 // (row) a process of the guest takes a row out of its file, or puts it back
	ExecReceive                 // (slot, id, user, group, shell, flags) an authorized start request arrives
	ExecStart                   // (slot, found) its id is reserved, found known, or found reserved by another request
	ExecResolve                 // (slot, outcome) user, group, environment and shell are resolved
	ExecSpawn                   // (slot) the process is created, and the id registered
	ExecRefuse                  // (slot) the reservation is removed
	ControlAnswer               // (slot, outcome) the answer is written
)

func actions() []model.ActionInfo {
	outcome := map[string][]string{"outcome": codeNames[:]}
	slot := []string{"slot"}
	return []model.ActionInfo{
		Boot:        {Name: "Boot"},
		RunHook:     {Name: "RunHook", Params: []string{"launch"}, Values: map[string][]string{"launch": flagNames()}},
		Health:      {Name: "Health", Params: []string{"keys"}},
		FilesChange: {Name: "FilesChange", Params: []string{"row"}, Values: map[string][]string{"row": rowNames[:]}},
		ExecReceive: {Name: "ExecReceive", Params: []string{"slot", "id", "user", "group", "shell", "flags"}, Values: map[string][]string{
			"user": userNames[:], "group": groupNames[:], "shell": shellNames[:], "flags": flagNames()}},
		ExecStart:     {Name: "ExecStart", Params: []string{"slot", "found"}, Values: map[string][]string{"found": phaseNames[:]}},
		ExecResolve:   {Name: "ExecResolve", Params: []string{"slot", "outcome"}, Values: outcome},
		ExecSpawn:     {Name: "ExecSpawn", Params: slot},
		ExecRefuse:    {Name: "ExecRefuse", Params: slot},
		ControlAnswer: {Name: "ControlAnswer", Params: []string{"slot", "outcome"}, Values: outcome},
	}
}

// mayBeDead lists the actions of what the configuration leaves out.
func (c *Config) mayBeDead() []string {
	var dead []string
	if c.Edits == 0 || len(c.Rows) == 0 {
		dead = append(dead, "FilesChange")
	}
	return dead
}

// fairness assumes that the daemon goes on with every request that it can go on
// with. Clients and the guest promise nothing.
func (c *Config) fairness() []model.Fairness {
	var out []model.Fairness
	for slot := range uint8(c.Slots) {
		out = append(out, model.Fairness{
			Name: "the daemon goes on with the request in slot " + string('0'+rune(slot)),
			Match: func(a model.Action) bool {
				return a.ID >= ExecStart && a.Arg[0] == slot
			},
		})
	}
	return out
}

// next appends the steps of s: the daemon's boot, then the arrivals, the
// progress of each slot in turn, and what the guest does to its files.
func (c *Config) next(s State, out []model.Step[State]) []model.Step[State] {
	if s.Stage == StageOff {
		return append(out, model.Step[State]{Action: model.Act(Boot), State: c.boot(s)})
	}
	if s.idle() {
		out = append(out, model.Step[State]{Action: model.Act(Health, c.healthKeys(s)), State: s})
	}
	if s.Stage == StageBooted {
		for _, launch := range c.Launches {
			out = append(out, model.Step[State]{Action: model.Act(RunHook, uint8(launch)), State: c.bootstrap(s, launch)})
		}
		return out
	}
	out = c.receiveSteps(s, out)
	for slot := range uint8(c.Slots) {
		out = c.slotSteps(s, slot, out)
	}
	if int(s.Edits) < c.Edits {
		for _, row := range c.Rows {
			next := s
			next.Files ^= 1 << row
			next.Edits++
			out = append(out, model.Step[State]{Action: model.Act(FilesChange, uint8(row)), State: next})
		}
	}
	return out
}

// receiveSteps offers every request to the lowest free slot. Slots are names
// without meaning, so offering one of them loses no behaviour.
func (c *Config) receiveSteps(s State, out []model.Step[State]) []model.Step[State] {
	slot, free := s.freeSlot(c.Slots)
	if !free || int(s.Received) >= c.Requests {
		return out
	}
	for id := range uint8(c.IDs) {
		for _, r := range c.requests() {
			next := s
			next.Received++
			next.Slots[slot] = Slot{Phase: PhaseReceived, ID: id, Request: r}
			a := model.Act(ExecReceive, uint8(slot), id, uint8(r.User), uint8(r.Group), uint8(r.Shell), uint8(r.Flags))
			out = append(out, model.Step[State]{Action: a, State: next})
		}
	}
	return out
}

// requests returns every combination of shapes.
func (c *Config) requests() []Request {
	var out []Request
	for _, u := range c.Users {
		for _, g := range c.Groups {
			for _, sh := range c.Shells {
				for _, f := range c.Flags {
					out = append(out, Request{User: u, Group: g, Shell: sh, Flags: f})
				}
			}
		}
	}
	return out
}

// slotSteps appends the next step of one request.
func (c *Config) slotSteps(s State, slot uint8, out []model.Step[State]) []model.Step[State] {
	step := func(id uint16, next State, args ...uint8) {
		out = append(out, model.Step[State]{Action: model.Act(id, append([]uint8{slot}, args...)...), State: next})
	}
	switch s.Slots[slot].Phase {
	case PhaseReceived:
		next := c.start(s, slot)
		step(ExecStart, next, uint8(next.Slots[slot].Phase))
	case PhaseReserved:
		next := c.resolve(s, slot)
		step(ExecResolve, next, uint8(next.Slots[slot].Code))
	case PhaseResolved:
		step(ExecSpawn, c.spawn(s, slot))
	case PhaseRefused:
		step(ExecRefuse, c.refuse(s, slot))
	case PhaseAnswering:
		next := s
		next.Slots[slot] = Slot{}
		step(ControlAnswer, next, uint8(s.Slots[slot].Code))
	}
	return out
}
