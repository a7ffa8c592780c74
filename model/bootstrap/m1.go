package bootstrap

import "microvms/model"

// This file is the published model of bootstrap and exec registry (models
// facts, section 1, M1), in which one request is one step and the last answer is
// part of the state. Its state counts are known from elsewhere, so it ties the
// checker and this package's reading of the rule to an outside truth.

// M1Config is a configuration of the published model.
type M1Config struct {
	Name              string
	AttackerFromStart bool // the deployment assumption is broken
}

// The bounds of the published model.
const (
	m1Execs  = 2
	m1Hooks  = 3
	m1Starts = 2
)

// The phases of an exec; 0 is no entry.
const (
	m1Running uint8 = iota + 1
	m1Exited
	m1Acked
)

// The operations of a control request.
const (
	m1Start uint8 = iota
	m1Poll
	m1Ack
	m1Collect
)

// The actions of the published model.
const (
	m1Hook    uint16 = iota // (who)
	m1Control               // (who, op, id)
	m1Exit                  // (id)
)

// M1Entry is one exec of the registry.
type M1Entry struct {
	ID     uint8
	Phase  uint8
	Held   bool // its output is held
	Spawns uint8
	Starts uint8
}

// M1State is a state of the published model.
type M1State struct {
	Token   Token
	Entries [m1Execs]M1Entry // in the order of their starts
	Count   uint8
	// The last action and its answer.
	LastSet            bool
	LastAction         uint8
	LastWho, LastOp    uint8
	LastID             uint8
	LastOutcome        Outcome
	Replacements       uint8
	AttackerAuthorized bool
	ReleasedWithoutAck bool
	HooksSeen          uint8
}

// NewM1 returns the published model.
func NewM1(c M1Config) model.Model[M1State] {
	who := map[string][]string{"who": tokenNames, "op": {"start", "poll", "ack", "collect"}}
	return model.Model[M1State]{
		Name:   "bootstrap-m1",
		Config: c.Name,
		Actions: []model.ActionInfo{
			m1Hook:    {Name: "RunHook", Params: []string{"who"}, Values: who},
			m1Control: {Name: "Control", Params: []string{"who", "op", "id"}, Values: who},
			m1Exit:    {Name: "ChildExit", Params: []string{"id"}},
		},
		Init:       func(out []M1State) []M1State { return append(out, M1State{}) },
		Next:       c.next,
		Properties: m1Properties(),
	}
}

func (c M1Config) next(s M1State, out []model.Step[M1State]) []model.Step[M1State] {
	// A transition whose result equals its source is dropped, as in the publication.
	add := func(a model.Action, next M1State) {
		if next != s {
			out = append(out, model.Step[M1State]{Action: a, State: next})
		}
	}
	active := c.AttackerFromStart || s.Token != NoToken
	for _, who := range [...]Token{Harness, Attacker} {
		if who == Attacker && !active {
			continue
		}
		if s.HooksSeen < m1Hooks {
			add(model.Act(m1Hook, uint8(who)), s.hook(who))
		}
		for id := range uint8(m1Execs) {
			entry := s.find(id)
			if entry < 0 || s.Entries[entry].Starts < m1Starts {
				add(model.Act(m1Control, uint8(who), m1Start, id), s.control(who, m1Start, id))
			}
			if entry >= 0 {
				add(model.Act(m1Control, uint8(who), m1Poll, id), s.control(who, m1Poll, id))
				add(model.Act(m1Control, uint8(who), m1Ack, id), s.control(who, m1Ack, id))
			}
		}
		add(model.Act(m1Control, uint8(who), m1Collect, 0), s.control(who, m1Collect, 0))
	}
	for i := range s.Count {
		if s.Entries[i].Phase == m1Running {
			next := s.last(uint8(m1Exit), 0, 0, s.Entries[i].ID, Served)
			next.Entries[i].Phase = m1Exited
			add(model.Act(m1Exit, s.Entries[i].ID), next)
		}
	}
	return out
}

func (s M1State) find(id uint8) int {
	for i := range int(s.Count) {
		if s.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

func (s M1State) last(act, who, op, id uint8, o Outcome) M1State {
	s.LastSet, s.LastAction, s.LastWho, s.LastOp, s.LastID, s.LastOutcome = true, act, who, op, id, o
	return s
}

func (s M1State) hook(who Token) M1State {
	s.HooksSeen++
	outcome := Served
	switch s.Token {
	case NoToken:
		s.Token = who
	case who:
	default:
		outcome = Conflict
	}
	return s.last(uint8(m1Hook), uint8(who), 0, 0, outcome)
}

func (s M1State) control(who Token, op, id uint8) M1State {
	var outcome Outcome
	switch {
	case s.Token == NoToken:
		outcome = Unavailable
	case s.Token != who:
		outcome = Unauthorized
	default:
		s.AttackerAuthorized = s.AttackerAuthorized || who == Attacker
		outcome = s.operate(op, id)
	}
	return s.last(uint8(m1Control), uint8(who), op, id, outcome)
}

func (s *M1State) operate(op, id uint8) Outcome {
	i := s.find(id)
	switch op {
	case m1Start:
		if i >= 0 {
			s.Entries[i].Starts++
			return Served
		}
		s.Entries[s.Count] = M1Entry{ID: id, Phase: m1Running, Held: true, Spawns: 1, Starts: 1}
		s.Count++
	case m1Ack:
		if s.Entries[i].Phase != m1Exited {
			return Conflict
		}
		s.Entries[i].Phase, s.Entries[i].Held = m1Acked, false
	case m1Collect:
		s.collect()
	}
	return Served
}

func (s *M1State) collect() {
	var kept [m1Execs]M1Entry
	n := uint8(0)
	for _, e := range s.Entries[:s.Count] {
		if e.Phase == m1Acked {
			s.ReleasedWithoutAck = s.ReleasedWithoutAck || e.Held
			continue
		}
		kept[n] = e
		n++
	}
	s.Entries, s.Count = kept, n
}

func m1Properties() []model.Property[M1State] {
	entries := func(s M1State) []M1Entry { return s.Entries[:s.Count] }
	lastHook := func(s M1State) bool { return s.LastSet && s.LastAction == uint8(m1Hook) }
	return []model.Property[M1State]{
		model.Always("the attacker is never authorized", func(s M1State) bool { return !s.AttackerAuthorized }, "AUTHZ-9"),
		model.Always("an installed token is never replaced", func(s M1State) bool { return s.Replacements == 0 }, "AGENTD-3"),
		model.Always("an accepted hook brought the installed token", func(s M1State) bool {
			return !lastHook(s) || s.LastOutcome != Served || Token(s.LastWho) == s.Token
		}, "AGENTD-3"),
		model.Always("a control request before bootstrap is unavailable", func(s M1State) bool {
			return s.Token != NoToken || !s.LastSet || s.LastAction != uint8(m1Control) || s.LastOutcome == Unavailable
		}, "AGENTD-1"),
		model.Always("output is never released without an acknowledgement", func(s M1State) bool { return !s.ReleasedWithoutAck }),
		model.Always("an entry was spawned once", func(s M1State) bool {
			for _, e := range entries(s) {
				if e.Spawns != 1 {
					return false
				}
			}
			return true
		}),
		model.Always("no two entries share an id", func(s M1State) bool { return s.Count < 2 || s.Entries[0].ID != s.Entries[1].ID }),
		model.Sometimes("the platform bootstraps", func(s M1State) bool { return s.Token == Harness }, "AGENTD-2"),
		model.Sometimes("a hijack is refused", func(s M1State) bool { return lastHook(s) && s.LastOutcome == Conflict }, "AGENTD-3"),
		model.Sometimes("an identical replay is accepted", func(s M1State) bool {
			return lastHook(s) && s.LastOutcome == Served && s.HooksSeen >= 2
		}, "AGENTD-4"),
		model.Sometimes("an exec is acknowledged", func(s M1State) bool {
			for _, e := range entries(s) {
				if e.Phase == m1Acked {
					return true
				}
			}
			return false
		}),
		model.Sometimes("a start is retried", func(s M1State) bool {
			for _, e := range entries(s) {
				if e.Starts >= 2 {
					return true
				}
			}
			return false
		}),
		model.Sometimes("an unauthorized caller is refused", func(s M1State) bool { return s.LastOutcome == Unauthorized }, "AGENTD-5"),
	}
}

// m1Published holds the configurations of the published model with the
// publication's counts: distinct states, generated states, depth and the length
// of the only counterexample.
var m1Published = []struct {
	config M1Config
	expect model.Expect
}{
	{M1Config{Name: "m1-held"}, model.Expect{Distinct: 3303, States: 42518, Depth: 13}},
	{M1Config{Name: "m1-broken", AttackerFromStart: true}, model.Expect{
		Distinct: 6618, States: 85144, Depth: 13,
		Violated:  map[string]int{"the attacker is never authorized": 2},
		Deviation: "a hostile process runs before bootstrap (deployment assumption broken)",
	}},
}
