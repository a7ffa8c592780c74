package execstart

import (
	"fmt"
	"strings"

	"microvms/model"
)

// Bounds of the state, and so of every configuration.
const (
	MaxSlots = 2
	MaxIDs   = 2
)

// Source is where a variable's value comes from; Absent is no variable.
type Source uint8

// The sources.
const (
	Absent      Source = iota
	FromImage          // set by the image, before the daemon started
	FromConfig         // a setting of the daemon
	FromToken          // the token
	FromPasswd         // a row of the passwd file
	FromLaunch         // the launch environment
	FromRequest        // the request's own environment
)

var sourceNames = [...]string{"-", "image", "config", "token", "passwd", "launch", "request"}

// String returns the source as a word; "-" for Absent.
func (s Source) String() string { return sourceNames[s] }

// The variables that the rule tells apart, as indices of an [Env].
const (
	Home      = iota
	UserName  // stands for USER and LOGNAME
	Path      // PATH
	ImageOnly // a variable that only the image sets
	Setting   // an AGENTD_ variable
	TokenVar  // a variable that holds the token
	variables
)

// Env is an environment: the source of each variable's value.
type Env [variables]Source

// Keys returns the number of variables that are set.
func (e Env) Keys() uint8 {
	n := uint8(0)
	for _, s := range e {
		if s != Absent {
			n++
		}
	}
	return n
}

// holds reports whether some variable has the source.
func (e Env) holds(source Source) bool {
	for _, s := range e {
		if s == source {
			return true
		}
	}
	return false
}

// over returns e with what upper sets on top of it.
func (e Env) over(upper Env) Env {
	for k, s := range upper {
		if s != Absent {
			e[k] = s
		}
	}
	return e
}

// Stage is how far the daemon's boot has come.
type Stage uint8

// The stages.
const (
	StageOff    Stage = iota
	StageBooted       // the snapshot is taken
	StageOpen         // the token is installed: requests are served
)

var stageNames = [...]string{"off", "booted", "open"}

// Phase is where a request stands.
type Phase uint8

// The phases.
const (
	PhaseIdle      Phase = iota
	PhaseReceived        // it has arrived, and not yet looked for its id
	PhaseWaiting         // another request has reserved its id
	PhaseReserved        // it has reserved its id
	PhaseResolved        // it stands before the spawn
	PhaseRefused         // it does not resolve, and the reservation still stands
	PhaseAnswering       // it stands before its answer
)

var phaseNames = [...]string{"idle", "received", "waiting", "reserved", "resolved", "refused", "answering"}

// Code is how a start is answered.
type Code uint8

// The codes.
const (
	NoCode Code = iota
	Started
	UnknownUser
	UnknownGroup
	UnknownShell
)

var codeNames = [...]string{"-", "started", "unknown_user", "unknown_group", "unknown_shell"}

// String returns the code as the wire spells it, or "started".
func (c Code) String() string { return codeNames[c] }

// Child is what a child was started as.
type Child struct {
	UID     UID
	GID     GID
	Program Program
	Env     Env
}

// Slot is a request in flight.
type Slot struct {
	Phase   Phase
	ID      uint8
	Request Request
	Code    Code  // of the answer, once it is decided
	Owner   bool  // it reserved its id, so it was resolved itself
	Seen    Rows  // the files as they stood when it was resolved: a ghost that no rule reads
	Plan    Child // the child that will be spawned
}

// Exec is an exec id.
type Exec struct {
	Registered bool
	Spawns     uint8
	Request    Request // of the child, with the files as they stood: ghosts that no rule reads
	Seen       Rows
	Child      Child
}

// State is a state of the model.
type State struct {
	Stage    Stage
	Image    Image
	Snapshot Env
	Launch   Env
	Files    Rows // rows that stand in the guest's files
	Edits    uint8
	Received uint8
	Slots    [MaxSlots]Slot
	Execs    [MaxIDs]Exec
}

func (s *State) idle() bool {
	for _, slot := range s.Slots {
		if slot.Phase != PhaseIdle {
			return false
		}
	}
	return true
}

func (s *State) freeSlot(slots int) (int, bool) {
	for i := range slots {
		if s.Slots[i].Phase == PhaseIdle {
			return i, true
		}
	}
	return 0, false
}

// owner returns the slot that has reserved the id, other than one.
func (s *State) owner(id, other uint8) (uint8, bool) {
	for i := range uint8(MaxSlots) {
		p := s.Slots[i].Phase
		if i != other && s.Slots[i].ID == id && (p == PhaseReserved || p == PhaseResolved || p == PhaseRefused) {
			return i, true
		}
	}
	return 0, false
}

// String renders the child in one word for each part.
func (c Child) String() string {
	return fmt.Sprintf("uid=%s gid=%s program=%s env=%s", c.UID, c.GID, c.Program, c.Env)
}

// String renders the environment in the order of the variables.
func (e Env) String() string {
	words := make([]string, len(e))
	for i, s := range e {
		words[i] = s.String()
	}
	return strings.Join(words, ",")
}

// Fields renders a state for people.
func Fields(s State) []model.Field {
	out := []model.Field{
		{Name: "stage", Value: stageNames[s.Stage]},
		{Name: "image", Value: s.Image.String()},
		{Name: "snapshot", Value: s.Snapshot.String()},
		{Name: "launch", Value: s.Launch.String()},
		{Name: "files", Value: s.Files.String()},
	}
	for i, slot := range s.Slots {
		text := phaseNames[slot.Phase]
		if slot.Phase != PhaseIdle {
			text = fmt.Sprintf("%s id=%d %s code=%s", text, slot.ID, slot.Request, slot.Code)
		}
		if slot.Phase == PhaseResolved {
			text += " " + slot.Plan.String()
		}
		out = append(out, model.Field{Name: fmt.Sprintf("request %d", i), Value: text})
	}
	for i, e := range s.Execs {
		text := "unknown"
		if e.Registered || e.Spawns > 0 {
			text = fmt.Sprintf("registered=%v spawns=%d %s", e.Registered, e.Spawns, e.Child)
		}
		out = append(out, model.Field{Name: fmt.Sprintf("exec %d", i), Value: text})
	}
	return out
}
