package execstart

import "microvms/model"

type (
	property = model.Property[State]
	action   = model.Action
)

// properties returns what must hold of a configuration. A property about a
// shape that the configuration leaves out would be vacuous, so it is stated
// only where the shape is.
func (c *Config) properties() []property {
	var out []property
	for _, group := range [][]conditional{c.identityProperties(), c.defaultProperties(), c.environmentProperties(), c.shellProperties(), c.refusalProperties(), c.courseProperties()} {
		for _, p := range group {
			if p.stated {
				out = append(out, p.property)
			}
		}
	}
	if c.Deviation != Specified {
		// Witnesses guard a pass against being vacuous. A planted fault is not meant to pass, and makes many of them
		// unreachable.
		for i := range out {
			out[i].Witness = ""
		}
		return out
	}
	return append(out, c.witnesses()...)
}

// conditional is a property with the condition under which its case exists.
type conditional struct {
	stated   bool
	property property
}

// children returns the execs that have a child.
func children(s State) []Exec {
	var out []Exec
	for _, e := range s.Execs {
		if e.Spawns > 0 {
			out = append(out, e)
		}
	}
	return out
}

// ofChildren states that each child of a kind is as it should be. The kind is
// the property's case, and what is looked at is what was spawned.
func ofChildren(name string, kind, holds func(s State, e Exec) bool, witness string, ids ...string) property {
	return model.Always(name, func(s State) bool {
		for _, e := range children(s) {
			if kind(s, e) && !holds(s, e) {
				return false
			}
		}
		return true
	}, ids...).When(func(s State) bool {
		for _, e := range children(s) {
			if kind(s, e) {
				return true
			}
		}
		return false
	}).WitnessedBy(witness)
}

func (c *Config) identityProperties() []conditional {
	named := func(_ State, e Exec) bool { return e.Request.User == UserNamed || e.Request.User == UserDigitsName }
	groupNamed := func(_ State, e Exec) bool { return e.Request.Group == GroupNamed }
	digits := func(_ State, e Exec) bool {
		return e.Request.User == UserDigits || e.Request.User == UserDigitsNoRow || e.Request.Group == GroupDigits
	}
	numbers := func(_ State, e Exec) bool {
		u, g, sh := e.Request.User, e.Request.Group, e.Request.Shell
		return (u == UserID || u == UserIDNoRow) && g <= GroupID && sh <= ShellOn
	}
	return []conditional{
		{c.has(UserNamed), ofChildren("a user by name runs with the ids of its row", named, func(_ State, e Exec) bool {
			return e.Child.UID == UIDRow && (e.Request.Group != GroupAbsent || e.Child.GID == GIDPrimary)
		}, "a user by name runs", "AGENTD-7")},
		{c.hasGroup(GroupNamed), ofChildren("a group by name is the group's row, over what the user brought", groupNamed, func(_ State, e Exec) bool {
			return e.Child.GID == GIDRow
		}, "a group by name runs", "AGENTD-7")},
		{c.has(UserDigits), ofChildren("digits that are no name are an id, with the daemon's group", digits, func(_ State, e Exec) bool {
			u := e.Request.User
			if (u == UserDigits || u == UserDigitsNoRow) && (e.Child.UID != UIDRequested || e.Request.Group == GroupAbsent && e.Child.GID != GIDDaemon) {
				return false
			}
			return e.Request.Group != GroupDigits || e.Child.GID == GIDRequested
		}, "digits run", "ACCOUNT-6")},
		{c.has(UserID), ofChildren("integer ids are used exactly, and the shell true is /bin/sh", numbers, func(_ State, e Exec) bool {
			gid := GIDDaemon
			if e.Request.Group == GroupID {
				gid = GIDRequested
			}
			return e.Child.UID == UIDRequested && e.Child.GID == gid && (e.Child.Program == ProgramBinSh) == (e.Request.Shell == ShellOn)
		}, "an integer user with a row runs", "AGENTD-16")},
		{c.hasGroup(GroupID), ofChildren("an integer group is used exactly, whoever the user is", func(_ State, e Exec) bool { return e.Request.Group == GroupID },
			func(_ State, e Exec) bool { return e.Child.GID == GIDRequested }, "an integer group runs", "AGENTD-16")},
		{c.hasShell(ShellOn), ofChildren("the shell true is /bin/sh, and the shell false is none", func(_ State, e Exec) bool { return e.Request.Shell <= ShellOn },
			func(_ State, e Exec) bool {
				return e.Child.Program == map[Shell]Program{ShellOff: ProgramArgv, ShellOn: ProgramBinSh}[e.Request.Shell]
			}, "the shell true runs", "AGENTD-16")},
	}
}

func (c *Config) defaultProperties() []conditional {
	omitted := func(s State, e Exec) bool { return e.Request.User == UserAbsent }
	byDefault := func(s State, e Exec) bool { return omitted(s, e) && s.Image.Default != DefaultUnset }
	byRecord := func(s State, e Exec) bool {
		return omitted(s, e) && s.Image.Default == DefaultUnset && s.Image.Record != RecordOff
	}
	daemons := func(s State, e Exec) bool {
		return omitted(s, e) && s.Image.Default == DefaultUnset && s.Image.Record == RecordOff
	}
	// the primary group counts only where the request names no group
	group := func(e Exec, g GID) bool { return e.Request.Group != GroupAbsent || e.Child.GID == g }
	return []conditional{
		{c.hasDefault(DefaultNamed), ofChildren("a start without a user runs as the row of the default user", byDefault, func(_ State, e Exec) bool {
			return e.Child.UID == UIDDefault && group(e, GIDDefaultRow)
		}, "the default user runs", "ACCOUNT-1")},
		{c.hasRecord(RecordRow), ofChildren("a start without a user runs as the sealed ids where no default user is set", byRecord, func(_ State, e Exec) bool {
			return e.Child.UID == UIDRecord && group(e, GIDRecord)
		}, "the sealed user runs", "ACCOUNT-3")},
		{c.hasDefault(DefaultEmpty) && c.hasRecord(RecordRow), ofChildren("a default user that is set leaves the record without effect",
			func(s State, e Exec) bool { return byDefault(s, e) && s.Image.Record != RecordOff },
			func(_ State, e Exec) bool { return e.Child.UID != UIDRecord && e.Child.GID != GIDRecord },
			"the default user runs beside a record", "ACCOUNT-5")},
		{c.hasDefault(DefaultUnset) && c.has(UserAbsent), ofChildren("without a user anywhere a child runs as the daemon's user", daemons, func(_ State, e Exec) bool {
			return e.Child.UID == UIDDaemon && group(e, GIDDaemon) && e.Child.Env[UserName] == Absent
		}, "a start without a user runs as the daemon's", "EXEC-12")},
	}
}

// hasRow says whether the child's user has a passwd row, by what the request
// and the image say.
func hasRow(s State, e Exec) bool {
	switch e.Request.User {
	case UserAbsent:
		switch s.Image.Default {
		case DefaultUnset:
			return s.Image.Record == RecordRow
		case DefaultNamed, DefaultDigits:
			return true // a child without its row must not be; another property says so
		}
		return false
	case UserID, UserNamed, UserDigitsName, UserDigits:
		return true
	}
	return false
}

func highest(sources ...Source) Source {
	for _, s := range sources {
		if s != Absent {
			return s
		}
	}
	return Absent
}

func (c *Config) environmentProperties() []conditional {
	inherits := func(e Exec) bool { return e.Request.Flags&FlagInherit != 0 }
	own := func(e Exec, k int) Source { return e.Request.Flags.env(FromRequest)[k] }
	imageHome := func(e Exec) Source {
		if inherits(e) {
			return FromImage
		}
		return Absent
	}
	return []conditional{
		{true, ofChildren("a row gives HOME and USER beneath launch and request", hasRow, func(s State, e Exec) bool {
			return e.Child.Env[Home] == highest(own(e, Home), s.Launch[Home], FromPasswd) && e.Child.Env[UserName] == FromPasswd
		}, "a passwd HOME reaches a child", "AGENTD-9")},
		{c.rowless(), ofChildren("without a row there is no USER, and HOME is not the file's", func(s State, e Exec) bool { return !hasRow(s, e) }, func(s State, e Exec) bool {
			return e.Child.Env[UserName] == Absent && e.Child.Env[Home] == highest(own(e, Home), s.Launch[Home], imageHome(e))
		}, "a child without a row runs", "AGENTD-9")},
		{true, ofChildren("without inherit_image_env nothing of the image reaches a child", func(_ State, e Exec) bool { return !inherits(e) }, func(s State, e Exec) bool {
			return !e.Child.Env.holds(FromImage) && e.Child.Env[Path] == highest(own(e, Path), s.Launch[Path])
		}, "a child starts without inherit_image_env beside a snapshot", "AGENTD-10")},
		{c.hasFlag(FlagInherit), ofChildren("with inherit_image_env the image lies beneath all others", func(_ State, e Exec) bool { return inherits(e) }, func(s State, e Exec) bool {
			passwd := Absent
			if hasRow(s, e) {
				passwd = FromPasswd
			}
			return e.Child.Env[ImageOnly] == FromImage && e.Child.Env[Path] == highest(own(e, Path), s.Launch[Path], FromImage) &&
				e.Child.Env[Home] == highest(own(e, Home), s.Launch[Home], passwd, FromImage)
		}, "a variable of the image alone reaches a child", "AGENTD-11")},
		{true, ofChildren("no child carries a setting or the token", func(State, Exec) bool { return true }, func(_ State, e Exec) bool {
			return !e.Child.Env.holds(FromConfig) && !e.Child.Env.holds(FromToken)
		}, "a child runs after the token's install", "AGENTD-12", "SECRET-2")},
		{true, model.Always("the snapshot holds no setting and no token", func(s State) bool {
			return !s.Snapshot.holds(FromConfig) && !s.Snapshot.holds(FromToken)
		}, "AGENTD-12").When(func(s State) bool { return s.Stage != StageOff }).WitnessedBy("health reports a snapshot")},
		{true, model.AlwaysStep("health reports the number of keys of the snapshot", func(from State, a action, _ State) bool {
			return a.ID != Health || a.Arg[0] == from.Snapshot.Keys()
		}, "AGENTD-13").WhenStep(func(_ State, a action, _ State) bool { return a.ID == Health }).WitnessedBy("health reports a snapshot")},
	}
}

func (c *Config) shellProperties() []conditional {
	// byName: a shell that is found by its name; where says in which folder.
	byName := func(_ State, e Exec) bool {
		return e.Request.Shell >= ShellAnywhere && e.Request.Shell <= ShellSystem
	}
	return []conditional{
		{c.hasShell(ShellAnywhere), ofChildren("a named shell is the first on the child's PATH, the image's PATH and in /bin", byName, func(_ State, e Exec) bool {
			want := Program(0)
			switch e.Request.Shell {
			case ShellAnywhere:
				want = map[Source]Program{Absent: ProgramImagePath, FromImage: ProgramImagePath, FromLaunch: ProgramLaunchPath, FromRequest: ProgramRequestPath}[e.Child.Env[Path]]
			case ShellRequest:
				want = ProgramRequestPath
			case ShellImage:
				want = ProgramImagePath
			case ShellSystem:
				want = ProgramSystem
			}
			return e.Child.Program == want
		}, "a named shell runs", "AGENTD-14")},
		{c.hasShell(ShellAbsolute), ofChildren("an absolute path is the shell", func(_ State, e Exec) bool { return e.Request.Shell == ShellAbsolute },
			func(_ State, e Exec) bool { return e.Child.Program == ProgramAbsolute }, "an absolute path runs", "ACCOUNT-9")},
	}
}

// rowless says whether some request has a user without a row.
func (c *Config) rowless() bool {
	return c.has(UserAbsent) || c.has(UserIDNoRow) || c.has(UserDigitsNoRow)
}

func (c *Config) has(u User) bool        { return contains(c.Users, u) }
func (c *Config) hasGroup(g Group) bool  { return contains(c.Groups, g) }
func (c *Config) hasShell(sh Shell) bool { return contains(c.Shells, sh) }

func (c *Config) hasFlag(f Flags) bool {
	for _, have := range c.Flags {
		if have&f != 0 {
			return true
		}
	}
	return false
}

func (c *Config) hasDefault(d DefaultUser) bool {
	for _, i := range c.Images {
		if i.Default == d && c.has(UserAbsent) {
			return true
		}
	}
	return false
}

func (c *Config) hasRecord(r Record) bool {
	for _, i := range c.Images {
		if i.Record == r && c.has(UserAbsent) {
			return true
		}
	}
	return false
}

func contains[T comparable](list []T, v T) bool {
	for _, have := range list {
		if have == v {
			return true
		}
	}
	return false
}
