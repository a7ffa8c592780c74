// Package transfer models the extraction of an archive below a root that other
// processes of the guest change meanwhile (wire facts, section 11.5).
//
// The archive is part of the initial state, so that a configuration checks each
// of its archives. Names have two components at most, d and f, and a folder of
// the name d that holds a file f lies beside the root: the canary. Bytes are
// abstracted away; a file's content is whose it is. The kernel is modelled as
// far as the rule leans on it: what a name is resolved to with and without
// symbolic links, names of inodes, and handles that outlive a rename or a
// removal.
//
// The daemon's steps are its transition points (agentd/trace): the headers are
// judged, space is held against the reserve, the root is opened, and then, for
// each member, the parent is resolved and the last component made below its
// handle; folders get their modes at the end. Between any two of them the guest
// may change the tree.
package transfer

import (
	"fmt"

	"microvms/model"
)

// Config bounds one configuration of the model.
type Config struct {
	Name     string
	Archives [][MaxMembers]Member // each is an initial state

	MaxMembers uint8 // caps on an archive
	MaxSize    uint8

	Acts  uint8 // changes that the guest makes in one behaviour
	Fills bool  // the guest may also fill the disk
	Short bool  // there are initial states with too little free space
	Old   bool  // there are initial states with a kernel without openat2

	Deviation Deviation // the deliberate fault that is planted; Specified plants none
}

// New returns the model of one configuration. It panics when a bound is out of
// range, since a configuration is written by hand beside its expectation.
func New(c Config) model.Model[State] {
	if len(c.Archives) == 0 || c.MaxMembers > MaxMembers || c.Acts > 4 {
		panic(fmt.Sprintf("transfer: internal error: a bound of configuration %q is out of range", c.Name))
	}
	return model.Model[State]{
		Name: "transfer", Config: c.Name, Actions: actions(), MayBeDead: c.mayBeDead(),
		Init: c.initial, Next: c.next,
		Terminal: func(s State) bool { return s.Phase == Ended }, CheckDeadlock: true,
		Properties: c.properties(), Fields: Fields,
	}
}

func (c *Config) initial(out []State) []State {
	for _, archive := range c.Archives {
		s := initial(archive)
		out = append(out, s)
		if c.Short {
			short := s
			short.Short = true
			out = append(out, short)
		}
		if c.Old {
			s.Old = true
			out = append(out, s)
		}
	}
	return out
}

// The actions. Where the daemon has a transition point, the action bears its
// name (agentd/trace).
const (
	ArchiveSpool   uint16 = iota // the space is held against the reserve and the body taken to the spool
	ArchiveJudge                 // every member is held to the lexical rules and the caps
	ArchiveReserve               // the declared bytes are held against the reserve
	ArchiveRoot                  // the root is opened
	ArchiveMember                // (member) its turn begins
	ArchiveResolve               // (member) one component is resolved below its parent's handle
	ArchivePlace                 // (member) the last component is made
	ArchiveMode                  // (member) a folder gets its mode
	GuestPlant                   // (at, name) a symbolic link out of the root takes an entry's place; a folder goes beside the root
	GuestRemove                  // (at, name) an entry is removed, with all below it
	GuestLink                    // (at, name) a hard link to the canary file takes an entry's place
	GuestFolder                  // (at, name) a folder takes an entry's place
	GuestFill                    // free space falls below the reserve
)

func actions() []model.ActionInfo {
	member := []string{"member"}
	place := []string{"at", "name"}
	values := map[string][]string{"name": nameTexts[:names], "at": {"", "", "", "root", "folder", "folder", "folder", "folder", "folder"}}
	return []model.ActionInfo{
		ArchiveSpool: {Name: "ArchiveSpool"}, ArchiveJudge: {Name: "ArchiveJudge"},
		ArchiveReserve: {Name: "ArchiveReserve"}, ArchiveRoot: {Name: "ArchiveRoot"},
		ArchiveMember:  {Name: "ArchiveMember", Params: member},
		ArchiveResolve: {Name: "ArchiveResolve", Params: member},
		ArchivePlace:   {Name: "ArchivePlace", Params: member},
		ArchiveMode:    {Name: "ArchiveMode", Params: member},
		GuestPlant:     {Name: "GuestPlant", Params: place, Values: values},
		GuestRemove:    {Name: "GuestRemove", Params: place, Values: values},
		GuestLink:      {Name: "GuestLink", Params: place, Values: values},
		GuestFolder:    {Name: "GuestFolder", Params: place, Values: values},
		GuestFill:      {Name: "GuestFill"},
	}
}

// mayBeDead lists the actions of what the configuration leaves out.
func (c *Config) mayBeDead() []string {
	var dead []string
	if c.Acts == 0 {
		dead = append(dead, "GuestPlant", "GuestRemove", "GuestLink", "GuestFolder")
	}
	if !c.Fills {
		dead = append(dead, "GuestFill")
	}
	folder := false
	for _, a := range c.Archives {
		for _, m := range a {
			folder = folder || m.Type == Folder
		}
	}
	if !folder {
		dead = append(dead, "ArchiveMode")
	}
	return dead
}

func (c *Config) next(s State, out []model.Step[State]) []model.Step[State] {
	if s.Phase == Ended {
		return out
	}
	next := s
	a := c.advance(&next)
	if next.Phase == Ended {
		// What a request held ends with it.
		next.Held, next.HeldName, next.Parent, next.Source, next.At = None, 0, None, None, 0
	}
	out = append(out, model.Step[State]{Action: a, State: next})
	if s.Phase.placing() {
		out = c.guest(s, out)
	}
	return out
}

// advance takes the daemon's next step.
func (c *Config) advance(s *State) model.Action {
	switch s.Phase {
	case BeforeSpool:
		s.Phase = BeforeJudge
		if s.Short && c.Deviation != ReserveUnchecked {
			s.end(Full)
		}
		return model.Act(ArchiveSpool)
	case BeforeJudge:
		s.Phase = BeforeReserve
		if v := c.judge(s); v != NoVerdict && c.Deviation != JudgedInTurn {
			s.end(v)
		}
		return model.Act(ArchiveJudge)
	case BeforeReserve:
		s.Phase = BeforeRoot
		return model.Act(ArchiveReserve)
	case BeforeRoot:
		c.begin(s)
		if s.Old && c.Deviation != OldKernelFallback {
			s.end(Broken)
		}
		return model.Act(ArchiveRoot)
	case BeforeMember:
		a := model.Act(ArchiveMember, s.At)
		c.member(s)
		return a
	case BeforePlace:
		a := model.Act(ArchivePlace, s.At)
		c.place(s)
		return a
	case BeforeMode:
		a := model.Act(ArchiveMode, s.At)
		c.mode(s)
		return a
	}
	a := model.Act(ArchiveResolve, s.At)
	c.resolveStep(s)
	return a
}
