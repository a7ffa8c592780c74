package execution

import (
	"microvms/model"
)

// MaxIDs is the number of exec ids that a group state holds.
const MaxIDs = 2

// Phase is where a registry record stands.
type Phase uint8

// The phases. Reserved is the time between the decision that an id is new and
// the outcome of its spawn; no route but start sees the record then.
const (
	Absent Phase = iota
	Reserved
	Running
	Exited
	Acked
)

// Kind is a set of flags that a start request carries.
type Kind uint8

// The flags of a start request.
const (
	Plain      Kind = 0
	Unspawned  Kind = 1 << 0 // the command cannot be spawned
	ReapGroup  Kind = 1 << 1 // reap_group_on_exit
	Timed      Kind = 1 << 2 // timeout_sec is set
	PowersOff  Kind = 1 << 3 // poweroff_on_exit
	kindValues      = 16
)

// Leader is the state of the group's first process, the child itself.
type Leader uint8

// The leader's states. The last three say how it ended.
const (
	NoLeader Leader = iota
	LeaderAlive
	EndedItself // exit code 0
	EndedByTerm
	EndedByKill
)

// Member is the state of the process that the leader forks.
type Member uint8

// The member's states.
const (
	NoMember Member = iota
	InGroup
	Escaped // alive in a session of its own
	Gone
)

// Timer is the state of a one-shot timer.
type Timer uint8

// The timer's states.
const (
	Unset Timer = iota
	Armed
	Fired
	Stopped
)

// Cause says why a group is escalated against. Each cause runs its own
// escalation, and they may overlap.
type Cause uint8

// The causes of an escalation.
const (
	ByDeadline Cause = iota
	ByReap
	ByKill
	causes
)

// Stage is where one escalation stands.
//
//	Idle → Due → Grace → Over → KillSent → Finished
//
// From Due on, it ends as soon as a scan finds no live member.
type Stage uint8

// The stages. Due owes SIGTERM, Grace waits, Over owes SIGKILL.
const (
	Idle Stage = iota
	Due
	Grace
	Over
	KillSent
	Finished // deadline and reap run once a record; a kill returns to Idle
)

// Exec is the state of one id: its record, its processes and its timers.
type Exec struct {
	Phase    Phase
	Kind     Kind
	Spawners uint8 // start requests that will spawn
	Waiters  uint8 // start requests that wait for the outcome of another's spawn
	Spawned  uint8 // children created while this record lives; saturates at 2
	Life     uint8 // records of this id that have been collected

	Leader        Leader
	LeaderIgnores bool // it ignores SIGTERM
	Reaped        bool // its status was collected, so its pid may be reused once the group is empty
	Member        Member
	MemberIgnores bool
	MemberPipe    bool // it holds the output pipes open
	Stranger      bool // an unrelated group now has the leader's number
	StrangerHits  uint8

	Deadline Timer
	Linger   Timer
	Stage    [causes]Stage
	Plans    uint8 // escalations begun by the daemon itself; saturates at 3

	TimedOut bool // as published in the result
	Writers  bool // writers_may_be_alive, as published
}

// GroupState is a state of the group model.
type GroupState struct {
	Exec [MaxIDs]Exec
	Off  bool // the machine was powered off
}

// The actions of the group model. Their names are those of the trace points
// where the daemon has one.
const (
	ExecStart      uint16 = iota // (id, kind)
	ExecSpawn                    // (id)
	ExecRefuse                   // (id)
	ExecKill                     // (id)
	ExecAck                      // (id)
	ExecPoll                     // (id)
	LeaderReap                   // (id)
	GroupTerm                    // (id, cause)
	GroupKill                    // (id, cause)
	GroupGone                    // (id, cause)
	ExecExit                     // (id)
	PowerOff                     // (id)
	DeadlineExpire               // (id)
	GraceExpire                  // (id, cause)
	LingerExpire                 // (id)
	ExecCollect                  // (id)
	LeaderExit                   // (id)
	LeaderIgnore                 // (id)
	MemberFork                   // (id)
	MemberEscape                 // (id)
	MemberIgnore                 // (id)
	MemberClose                  // (id)
	MemberExit                   // (id)
	PidRecycle                   // (id)
	groupActions
)

// GroupConfig bounds the group model and chooses its rule.
type GroupConfig struct {
	Name  string
	IDs   int    // exec ids, at most MaxIDs
	Kinds []Kind // the start requests on offer
	// MaxLives bounds the records that one id can have, one after another.
	MaxLives uint8
	// ConcurrentStarts lets a second start of an id arrive while the first spawns.
	ConcurrentStarts bool
	Kills            bool // kill requests
	Members          bool // the leader may fork a member
	Closes           bool // a member may close the output pipes
	Escapes          bool // a member may leave the group
	MemberIgnores    bool // a member may ignore SIGTERM
	LeaderIgnores    bool // a leader may ignore SIGTERM
	Recycling        bool // the number of an empty, reaped group may be reused
	Time             bool // timers may fire
	// Settled takes every daemon step as soon as it is possible, so that each transition is one act from outside and all
	// that follows from it: what a daemon does when nothing holds it back.
	Settled bool
	// Liveness adds fairness and the properties judged under it.
	Liveness  bool
	Deviation GroupDeviation
}

// group is the model's rule under one configuration.
type group struct{ c GroupConfig }

// NewGroup returns the group model under c.
func NewGroup(c GroupConfig) model.Model[GroupState] {
	g := group{c}
	m := model.Model[GroupState]{
		Name:          "execution",
		Config:        c.Name,
		Actions:       groupActionInfo(),
		MayBeDead:     g.mayBeDead(),
		Init:          func(out []GroupState) []GroupState { return append(out, GroupState{}) },
		Next:          g.next,
		Properties:    g.properties(),
		Terminal:      func(s GroupState) bool { return s.Off },
		CheckDeadlock: true,
	}
	if c.Liveness {
		m.Fairness = g.fairness()
	}
	return m
}

// groupActionInfo names the actions, indexed by their number.
func groupActionInfo() []model.ActionInfo {
	kinds := make([]string, kindValues)
	for k := range kinds {
		kinds[k] = Kind(k).String()
	}
	values := map[string][]string{"kind": kinds, "cause": {"deadline", "reap", "kill"}}
	info := make([]model.ActionInfo, groupActions)
	for id, name := range groupActionNames {
		info[id] = model.ActionInfo{Name: name, Params: []string{"id"}}
	}
	info[ExecStart] = model.ActionInfo{Name: "ExecStart", Params: []string{"id", "kind"}, Values: values}
	for _, id := range []uint16{GroupTerm, GroupKill, GroupGone, GraceExpire} {
		info[id] = model.ActionInfo{Name: groupActionNames[id], Params: []string{"id", "cause"}, Values: values}
	}
	return info
}

var groupActionNames = [groupActions]string{
	"ExecStart", "ExecSpawn", "ExecRefuse", "ExecKill", "ExecAck", "ExecPoll", "LeaderReap", "GroupTerm", "GroupKill", "GroupGone",
	"ExecExit", "PowerOff", "DeadlineExpire", "GraceExpire", "LingerExpire", "ExecCollect", "LeaderExit", "LeaderIgnore",
	"MemberFork", "MemberEscape", "MemberIgnore", "MemberClose", "MemberExit", "PidRecycle",
}

// mayBeDead lists the actions that c takes out of the model. What the
// configuration offers must fire.
func (g group) mayBeDead() []string {
	var dead []string
	offers := func(k Kind) bool {
		for _, o := range g.c.Kinds {
			if o&k != 0 {
				return true
			}
		}
		return false
	}
	off := func(present bool, ids ...uint16) {
		if present {
			return
		}
		for _, id := range ids {
			dead = append(dead, groupActionNames[id])
		}
	}
	escalates := g.c.Kills || offers(ReapGroup) || offers(Timed) && g.c.Time
	ignores := g.c.LeaderIgnores || g.c.MemberIgnores
	off(!g.c.Settled, ExecSpawn, ExecRefuse, LeaderReap, GroupTerm, GroupKill, GroupGone, ExecExit, PowerOff)
	off(offers(Unspawned), ExecRefuse)
	off(offers(PowersOff), PowerOff)
	off(g.c.Kills, ExecKill)
	off(g.c.Members, MemberFork, MemberExit)
	off(g.c.Members && g.c.Escapes, MemberEscape)
	off(g.c.Members && g.c.Closes, MemberClose)
	off(g.c.Members && g.c.MemberIgnores, MemberIgnore)
	off(g.c.LeaderIgnores, LeaderIgnore)
	off(g.c.Recycling, PidRecycle)
	off(g.c.Time, ExecCollect)
	off(g.c.Time && g.c.Members, LingerExpire)
	off(g.c.Time && offers(Timed), DeadlineExpire)
	off(escalates, GroupTerm, GroupGone)
	off(escalates && ignores && g.c.Time, GraceExpire, GroupKill)
	return dead
}

// String names the flags that are set: "reap+timed".
func (k Kind) String() string {
	if k == Plain {
		return "plain"
	}
	name := ""
	for i, flag := range []string{"unspawned", "reap", "timed", "poweroff"} {
		if k&(1<<i) != 0 {
			if name != "" {
				name += "+"
			}
			name += flag
		}
	}
	return name
}

// step pairs an action with the state that it leads to.
func step[S comparable](a model.Action, to S) model.Step[S] {
	return model.Step[S]{Action: a, State: to}
}
