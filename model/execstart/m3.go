package execstart

import "microvms/model"

// This file is the published model of exec start (models facts, section 1, M3).
// Its state counts, and which of its properties each deviation violates, are
// known from elsewhere, so it ties the checker and this package's reading of
// the rule to an outside truth.

// M3Deviation is a deviation of the published model.
type M3Deviation uint8

// The deviations that the publication measured.
const (
	M3Specified M3Deviation = iota
	M3SpawnBeforeResolve
	M3IdentityOnTop
	M3ImageOnTop
	M3ImageAlways
	M3Unfiltered
	M3LiveUnfiltered
	M3LiveFiltered
	M3NumberTakesRowGroup
	M3FallBack
	M3HealthCountsLive
	M3SwapIdentityAndLaunch
)

// The steps of the only request.
const (
	m3Idle uint8 = iota
	m3Received
	m3Resolved
	m3Answered
)

// The actions of the published model.
const (
	m3Boot uint16 = iota
	m3Health
	m3RunHook // (launch)
	m3Receive // (user, group, shell, flags)
	m3Resolve
	m3Spawn
	m3Answer
)

// The shapes of the published model, in the words of this package's.
var (
	m3Users  = []User{UserAbsent, UserID, UserIDNoRow, UserNamed, UserUnknown, UserDigitsNoRow}
	m3Groups = []Group{GroupAbsent, GroupID, GroupNamed, GroupUnknown}
	m3Shells = []Shell{ShellOff, ShellOn, ShellImage, ShellMissing} // a named shell that is there, and one that is not
)

// M3State is a state of the published model.
type M3State struct {
	Booted   bool
	Token    bool
	Snapshot Env
	Launch   Env
	Health   uint8 // keys that health reported, plus one
	Step     uint8
	Request  Request
	Code     Code // of the resolution
	Plan     Child
	HasChild bool
	Child    Child
	Answer   Code
}

// NewM3 returns the published model, with one of its deviations.
func NewM3(name string, d M3Deviation) model.Model[M3State] {
	m := model.Model[M3State]{
		Name: "execstart-m3", Config: name,
		Actions: []model.ActionInfo{
			m3Boot: {Name: "Boot"}, m3Health: {Name: "Health"},
			m3RunHook: {Name: "RunHook", Params: []string{"launch"}, Values: map[string][]string{"launch": flagNames()}},
			m3Receive: {Name: "Receive", Params: []string{"user", "group", "shell", "flags"}, Values: map[string][]string{
				"user": userNames[:], "group": groupNames[:], "shell": shellNames[:], "flags": flagNames()}},
			m3Resolve: {Name: "Resolve"}, m3Spawn: {Name: "Spawn"}, m3Answer: {Name: "Answer"},
		},
		Init: func(out []M3State) []M3State { return append(out, M3State{}) },
		Next: d.next,
		// Everything ends in an answer, after health was read.
		Terminal:      func(s M3State) bool { return s.Step == m3Answered && s.Health > 0 },
		CheckDeadlock: true,
		Properties:    m3Properties(d),
		Fairness:      []model.Fairness{model.Weak("the daemon goes on with the request", m3Resolve, m3Spawn, m3Answer)},
	}
	return m
}

func (d M3Deviation) next(s M3State, out []model.Step[M3State]) []model.Step[M3State] {
	add := func(a model.Action, next M3State) { out = append(out, model.Step[M3State]{Action: a, State: next}) }
	if !s.Booted {
		s.Booted, s.Snapshot = true, d.snapshot()
		add(model.Act(m3Boot), s)
		return out
	}
	if s.Health == 0 {
		next := s
		next.Health = 1 + s.Snapshot.Keys()
		if d == M3HealthCountsLive {
			next.Health = 1 + d.live(s).Keys()
		}
		add(model.Act(m3Health), next)
	}
	if !s.Token {
		for _, launch := range []Flags{0, FlagHome, FlagPath, FlagHome | FlagPath} {
			next := s
			next.Token, next.Launch = true, launch.env(FromLaunch)
			add(model.Act(m3RunHook, uint8(launch)), next)
		}
		return out
	}
	return d.request(s, out)
}

// request appends the steps of the request.
func (d M3Deviation) request(s M3State, out []model.Step[M3State]) []model.Step[M3State] {
	add := func(a model.Action, next M3State) { out = append(out, model.Step[M3State]{Action: a, State: next}) }
	early := d == M3SpawnBeforeResolve
	switch s.Step {
	case m3Idle:
		for _, r := range m3Requests() {
			next := s
			next.Step, next.Request = m3Received, r
			add(model.Act(m3Receive, uint8(r.User), uint8(r.Group), uint8(r.Shell), uint8(r.Flags)), next)
		}
	case m3Received:
		next := s
		if early && !s.HasChild {
			next.HasChild = true // of no plan: the daemon's own ids, and no environment
			add(model.Act(m3Spawn), next)
			return out
		}
		next.Step = m3Resolved
		next.Plan, next.Code = d.resolve(s)
		add(model.Act(m3Resolve), next)
	case m3Resolved:
		next := s
		if s.Code == Started && !s.HasChild {
			next.HasChild, next.Child = true, s.Plan
			add(model.Act(m3Spawn), next)
			return out
		}
		next.Step, next.Answer = m3Answered, s.Code
		add(model.Act(m3Answer), next)
	}
	return out
}

func m3Requests() []Request {
	c := Config{Users: m3Users, Groups: m3Groups, Shells: m3Shells, Flags: AllFlags()}
	return c.requests()
}

func (d M3Deviation) snapshot() Env {
	e := booted
	if d != M3Unfiltered {
		e[Setting] = Absent
	}
	return e
}

// live is the daemon's environment now, the token exported where the deviation
// says so.
func (d M3Deviation) live(s M3State) Env {
	e := booted
	if s.Token && (d == M3LiveUnfiltered || d == M3LiveFiltered) {
		e[TokenVar] = FromToken
	}
	if d == M3LiveFiltered {
		e[Setting], e[TokenVar] = Absent, Absent
	}
	return e
}

// resolve is the published rule: user, then group, then shell; the first
// failure decides the code.
func (d M3Deviation) resolve(s M3State) (Child, Code) {
	r := s.Request
	switch {
	case r.User == UserUnknown:
		return Child{}, UnknownUser
	case r.Group == GroupUnknown:
		return Child{}, UnknownGroup
	case r.Shell == ShellMissing && d != M3FallBack:
		return Child{}, UnknownShell
	}
	var child Child
	row := false
	switch r.User {
	case UserID, UserIDNoRow, UserDigitsNoRow:
		child.UID, row = UIDRequested, r.User == UserID
		if row && d == M3NumberTakesRowGroup {
			child.GID = GIDPrimary
		}
	case UserNamed:
		child.UID, child.GID, row = UIDRow, GIDPrimary, true
	}
	switch r.Group {
	case GroupID:
		child.GID = GIDRequested
	case GroupNamed:
		child.GID = GIDRow
	}
	switch r.Shell {
	case ShellOn, ShellMissing:
		child.Program = ProgramBinSh
	case ShellImage:
		child.Program = ProgramImagePath
	}
	child.Env = d.layers(s, row)
	return child, Started
}

func (d M3Deviation) layers(s M3State, row bool) Env {
	image, identity, request := Env{}, Env{}, s.Request.Flags.env(FromRequest)
	if s.Request.Flags&FlagInherit != 0 || d == M3ImageAlways {
		image = s.Snapshot
		if d == M3LiveUnfiltered || d == M3LiveFiltered {
			image = d.live(s)
		}
	}
	if row {
		identity = Env{Home: FromPasswd, UserName: FromPasswd}
	}
	switch d {
	case M3IdentityOnTop:
		return image.over(s.Launch).over(request).over(identity)
	case M3ImageOnTop:
		return identity.over(s.Launch).over(request).over(image)
	case M3SwapIdentityAndLaunch:
		return image.over(s.Launch).over(identity).over(request)
	}
	return image.over(identity).over(s.Launch).over(request)
}
