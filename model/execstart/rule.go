package execstart

// booted is the daemon's environment when it starts: what the image sets, and
// its own settings.
var booted = Env{Home: FromImage, Path: FromImage, ImageOnly: FromImage, Setting: FromConfig}

// boot takes the image snapshot.
func (c *Config) boot(s State) State {
	s.Stage, s.Snapshot = StageBooted, booted
	if c.Deviation != SnapshotUnfiltered {
		s.Snapshot[Setting] = Absent
	}
	return s
}

// bootstrap installs the token and the launch environment.
func (c *Config) bootstrap(s State, launch Flags) State {
	s.Stage, s.Launch = StageOpen, launch.env(FromLaunch)
	return s
}

// daemonEnv is the daemon's environment now: a daemon that keeps the token
// there has one variable more from bootstrap on.
func (c *Config) daemonEnv(s *State) Env {
	e := booted
	if c.Deviation == LiveEnvironment && s.Stage == StageOpen {
		e[TokenVar] = FromToken
	}
	return e
}

func (c *Config) healthKeys(s State) uint8 {
	if c.Deviation == HealthCountsDaemon {
		return c.daemonEnv(&s).Keys()
	}
	return s.Snapshot.Keys()
}

// start looks for the request's id under the registry's lock.
func (c *Config) start(s State, slot uint8) State {
	r := &s.Slots[slot]
	_, pending := s.owner(r.ID, slot)
	if c.Deviation == PendingNotSeen {
		pending = false
	}
	known := s.Execs[r.ID].Registered
	if c.Deviation == KnownIDResolved && known {
		// The names are resolved first, and the answer forgets that the id is known.
		if _, code := c.plan(&s, r.Request, s.Files); code != Started {
			r.Phase, r.Code = PhaseAnswering, code
			return s
		}
	}
	switch {
	case known:
		r.Phase, r.Code = PhaseAnswering, Started
	case pending:
		r.Phase = PhaseWaiting
	default:
		r.Phase, r.Owner = PhaseReserved, true
	}
	return s
}

// resolve reads the files and makes the plan.
func (c *Config) resolve(s State, slot uint8) State {
	r := &s.Slots[slot]
	files := s.Files
	if c.Deviation == FilesReadAtBoot {
		files = AllRows
	}
	r.Seen = s.Files
	r.Plan, r.Code = c.plan(&s, r.Request, files)
	r.Phase = PhaseResolved
	switch {
	case r.Code == Started:
	case c.Deviation == RefusedSpawns:
		r.Plan = Child{}
	default:
		r.Phase = PhaseRefused
	}
	return s
}

// plan resolves a request: the user, then the group, then the shell; the first
// failure decides the code. It is the rule itself, with its deviations.
func (c *Config) plan(s *State, r Request, files Rows) (Child, Code) {
	child, row, code := c.user(s.Image, r.User, files)
	groupCode := c.group(&child, r.Group, files)
	if code == Started || c.Deviation == GroupBeforeUser && groupCode != Started {
		code = groupCode
	}
	if code != Started {
		return Child{}, code
	}
	child.Env = c.environment(s, r, row)
	if child.Program, code = c.shell(s, r.Shell, child.Env); code != Started {
		return Child{}, code
	}
	return child, Started
}

// user returns the ids of the child, and whether a row gives it an identity.
func (c *Config) user(image Image, u User, files Rows) (child Child, row bool, code Code) {
	d := c.Deviation
	switch u {
	case UserAbsent:
		return c.omitted(image, files)
	case UserID, UserIDNoRow:
		child = Child{UID: UIDRequested}
		if u == UserID && d == NumberTakesRowGroup {
			child.GID = GIDPrimary
		}
		return child, u == UserID, Started
	case UserDigits, UserDigitsNoRow:
		if d == DigitsRefused {
			return Child{}, false, UnknownUser
		}
		child = Child{UID: UIDRequested}
		if u == UserDigits && d == DigitsTakeRowGroup {
			child.GID = GIDPrimary
		}
		return child, u == UserDigits, Started
	case UserDigitsName:
		if d == DigitsBeforeNames {
			return Child{UID: UIDRequested}, false, Started
		}
		return Child{UID: UIDRow, GID: GIDPrimary}, true, Started
	case UserNamed:
		if files.Has(NamedUserRow) {
			child = Child{UID: UIDRow, GID: GIDPrimary}
			if d == NamedUserKeepsGroup {
				child.GID = GIDDaemon
			}
			return child, true, Started
		}
	}
	if d == UnknownUserIsDaemon {
		return Child{}, false, Started
	}
	return Child{}, false, UnknownUser
}

// omitted is the user of a request without one.
func (c *Config) omitted(image Image, files Rows) (child Child, row bool, code Code) {
	d := c.Deviation
	def, record := image.Default, image.Record
	switch {
	case d == DefaultIgnored, d == EmptyDefaultIsUnset && def == DefaultEmpty, d == RecordBeforeDefault && record != RecordOff:
		def = DefaultUnset
	}
	switch def {
	case DefaultUnset:
		return c.sealed(record)
	case DefaultNamed, DefaultDigits:
		if def == DefaultDigits || files.Has(DefaultUserRow) {
			return Child{UID: UIDDefault, GID: GIDDefaultRow}, true, Started
		}
	case DefaultDigitsNoRow:
		if d == DefaultDigitsWithoutRow {
			return Child{UID: UIDDefault}, false, Started
		}
	}
	if d == UnresolvedDefaultIsDaemon {
		return Child{}, false, Started
	}
	return Child{}, false, UnknownUser
}

func (c *Config) sealed(record Record) (child Child, row bool, code Code) {
	d := c.Deviation
	switch {
	case record == RecordOff, d == RecordIgnored, record == RecordBroken && d == BrokenRecordIsDaemon:
		return Child{}, d == DaemonIdentity, Started
	case record == RecordBroken:
		return Child{}, false, UnknownUser
	}
	child = Child{UID: UIDRecord, GID: GIDRecord}
	if d == RecordGroupIgnored {
		child.GID = GIDDaemon
	}
	return child, record == RecordRow, Started
}

// group sets the child's group over what the user brought.
func (c *Config) group(child *Child, g Group, files Rows) Code {
	d := c.Deviation
	if d == RowGroupWins && child.GID == GIDPrimary && g != GroupUnknown {
		return Started
	}
	switch g {
	case GroupAbsent:
		return Started
	case GroupID:
		child.GID = GIDRequested
		return Started
	case GroupDigits:
		if d != DigitsRefused {
			child.GID = GIDRequested
			return Started
		}
	case GroupNamed:
		if d == GroupNameIgnored {
			return Started
		}
		if files.Has(NamedGroupRow) {
			child.GID = GIDRow
			return Started
		}
	}
	if d == UnknownGroupIsDaemon {
		return Started
	}
	if d == UnknownGroupAsUser {
		return UnknownUser
	}
	return UnknownGroup
}

// environment layers the child's variables.
func (c *Config) environment(s *State, r Request, row bool) Env {
	d := c.Deviation
	image, identity, request := Env{}, Env{}, r.Flags.env(FromRequest)
	if r.Flags&FlagInherit != 0 || d == ImageAlways {
		image = s.Snapshot
		if d == LiveEnvironment {
			image = c.daemonEnv(s)
		}
	}
	if row {
		identity = Env{Home: FromPasswd, UserName: FromPasswd}
	}
	switch d {
	case IdentityOnTop:
		return image.over(s.Launch).over(request).over(identity)
	case LaunchBeneathIdentity:
		return image.over(s.Launch).over(identity).over(request)
	case ImageOnTop:
		return identity.over(s.Launch).over(request).over(image)
	case RequestBeneathLaunch:
		return image.over(identity).over(request).over(s.Launch)
	case IdentityMissing:
		return image.over(s.Launch).over(request)
	}
	return image.over(identity).over(s.Launch).over(request)
}

// shell finds the program that runs the command.
func (c *Config) shell(s *State, sh Shell, env Env) (Program, Code) {
	d := c.Deviation
	onPath := map[Source]Program{FromRequest: ProgramRequestPath, FromLaunch: ProgramLaunchPath, FromImage: ProgramImagePath}
	switch sh {
	case ShellOff:
		return ProgramArgv, Started
	case ShellOn:
		if d == ShellTrueOnPath && env[Path] == FromRequest {
			return ProgramRequestPath, Started
		}
		return ProgramBinSh, Started
	case ShellAnywhere:
		if p, ok := onPath[env[Path]]; ok && d != ImageShellFirst {
			return p, Started
		}
		return ProgramImagePath, Started
	case ShellRequest:
		if env[Path] == FromRequest {
			return ProgramRequestPath, Started
		}
	case ShellImage:
		if d != ImagePathNotSearched || env[Path] == FromImage {
			return ProgramImagePath, Started
		}
	case ShellSystem:
		return ProgramSystem, Started
	case ShellAbsolute:
		if d == AbsoluteShellIsBinSh {
			return ProgramBinSh, Started
		}
		return ProgramAbsolute, Started
	case ShellRelative:
		if d == RelativeShellRuns {
			return ProgramRelative, Started
		}
	}
	if d == ShellFallsBack {
		return ProgramBinSh, Started
	}
	return ProgramArgv, UnknownShell
}

// spawn creates the process, registers the id and answers who waited for it.
func (c *Config) spawn(s State, slot uint8) State {
	r := &s.Slots[slot]
	e := &s.Execs[r.ID]
	e.Registered, e.Request, e.Seen, e.Child = true, r.Request, r.Seen, r.Plan
	e.Spawns++
	r.Phase, r.Plan = PhaseAnswering, Child{}
	c.decide(&s, r.ID, r.Code)
	return s
}

// refuse removes the reservation; who waited for it gets the same answer.
func (c *Config) refuse(s State, slot uint8) State {
	r := &s.Slots[slot]
	r.Phase = PhaseAnswering
	if c.Deviation == RefusalRegistered {
		s.Execs[r.ID].Registered = true
	}
	code := r.Code
	if c.Deviation == WaiterAnsweredOK {
		code = Started
	}
	c.decide(&s, r.ID, code)
	return s
}

// decide gives the requests that wait for an id their answer.
func (c *Config) decide(s *State, id uint8, code Code) {
	if c.Deviation == WaiterForgotten {
		return
	}
	for i := range s.Slots {
		if w := &s.Slots[i]; w.Phase == PhaseWaiting && w.ID == id {
			w.Phase, w.Code = PhaseAnswering, code
		}
	}
}
