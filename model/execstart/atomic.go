package execstart

import "microvms/model"

// Answer is what the sender of a start learns.
type Answer struct {
	Code  Code
	Known bool  // the id was known, so nothing was resolved
	Child Child // the exec's child, when the start was answered 200
}

// Apply is the model's transition function in its atomic form: the state after
// a whole start request, and its answer. It is pure. The interleaved form takes
// the same decisions at ExecStart, ExecResolve, ExecSpawn and ExecRefuse.
func (c Config) Apply(s State, id uint8, r Request) (State, Answer) {
	s.Received++
	s.Slots[0] = Slot{Phase: PhaseReceived, ID: id, Request: r}
	s = c.start(s, 0)
	known := s.Slots[0].Phase == PhaseAnswering
	if !known {
		s = c.resolve(s, 0)
		if s.Slots[0].Phase == PhaseResolved {
			s = c.spawn(s, 0)
		} else {
			s = c.refuse(s, 0)
		}
	}
	a := Answer{Code: s.Slots[0].Code, Known: known}
	if a.Code == Started {
		a.Child = s.Execs[id].Child
	}
	s.Slots[0] = Slot{}
	return s, a
}

// The actions of the atomic form beside Boot, RunHook, Health and FilesChange,
// which it shares with the interleaved one.
const (
	StartRequestAction uint16 = ControlAnswer + 1 + iota // (id, user, group, shell, flags, code)
)

// NewAtomic returns the atomic form of a configuration: one request, one step.
// It is what a daemon does for requests that do not overlap.
func NewAtomic(c Config) model.Model[State] {
	c.check()
	m := New(c)
	m.Actions = append(m.Actions, model.ActionInfo{Name: "StartRequest", Params: []string{"id", "user", "group", "shell", "flags", "code"}, Values: map[string][]string{
		"user": userNames[:], "group": groupNames[:], "shell": shellNames[:], "flags": flagNames(), "code": codeNames[:]}})
	m.MayBeDead = append(m.MayBeDead, "ExecReceive", "ExecStart", "ExecResolve", "ExecSpawn", "ExecRefuse", "ControlAnswer")
	m.Next, m.Fairness = c.nextAtomic, nil
	m.Properties = c.atomicProperties()
	return m
}

// RequestOf returns the id and the request that a step of the atomic form
// stands for.
func RequestOf(a model.Action) (id uint8, r Request) {
	return a.Arg[0], Request{User: User(a.Arg[1]), Group: Group(a.Arg[2]), Shell: Shell(a.Arg[3]), Flags: Flags(a.Arg[4])}
}

func (c *Config) nextAtomic(s State, out []model.Step[State]) []model.Step[State] {
	still := *c
	still.Requests = 0 // the shared steps, without an arrival
	out = still.next(s, out)
	if s.Stage != StageOpen || int(s.Received) >= c.Requests {
		return out
	}
	for id := range uint8(c.IDs) {
		for _, r := range c.requests() {
			next, answer := c.Apply(s, id, r)
			a := model.Act(StartRequestAction, id, uint8(r.User), uint8(r.Group), uint8(r.Shell), uint8(r.Flags), uint8(answer.Code))
			out = append(out, model.Step[State]{Action: a, State: next})
		}
	}
	return out
}

// atomicProperties judge answers by what the sender learned: a known id first,
// then the first failure, else 200.
func (c *Config) atomicProperties() []property {
	starts := func(_ State, a action, _ State) bool { return a.ID == StartRequestAction }
	knows := func(from State, a action, to State) bool {
		return starts(from, a, to) && from.Execs[a.Arg[0]].Spawns > 0
	}
	fails := func(from State, a action, to State) bool {
		_, r := RequestOf(a)
		return starts(from, a, to) && !knows(from, a, to) && failures(from.Image, r, from.Files) > 0
	}
	code := func(a action) Code { return Code(a.Arg[5]) }
	out := []property{
		model.AlwaysStep("a start of a known id is answered 200 and changes nothing", func(from State, a action, to State) bool {
			return !knows(from, a, to) || code(a) == Started && from.Execs == to.Execs
		}, "EXEC-2", "EXEC-4").WhenStep(knows).WitnessedBy("a known id is started again"),
		model.AlwaysStep("a start that does not resolve is refused and leaves its id unknown", func(from State, a action, to State) bool {
			return !fails(from, a, to) || code(a) > Started && from.Execs == to.Execs
		}, "AGENTD-8", "EXEC-6", "EXEC-38").WhenStep(fails).WitnessedBy("a start is refused"),
		model.AlwaysStep("a start that resolves is answered 200 and registered once", func(from State, a action, to State) bool {
			if !starts(from, a, to) || knows(from, a, to) || fails(from, a, to) {
				return true
			}
			return code(a) == Started && to.Execs[a.Arg[0]].Registered && to.Execs[a.Arg[0]].Spawns == 1
		}, "EXEC-1").WhenStep(starts).WitnessedBy("a known id is started again"),
	}
	if c.Deviation != Specified {
		for i := range out {
			out[i].Witness = ""
		}
		return out
	}
	return append(out,
		model.SometimesStep("a known id is started again", knows, "EXEC-2"),
		model.SometimesStep("a start is refused", fails, "AGENTD-8"))
}
