package execstart

import "microvms/model"

// courseProperties state what happens to a request on its way: which requests
// are resolved at all, from which files, and what is left behind.
func (c *Config) courseProperties() []conditional {
	findsKnown := func(from State, a action, _ State) bool {
		return a.ID == ExecStart && from.Execs[from.Slots[a.Arg[0]].ID].Spawns > 0
	}
	refuses := func(_ State, a action, _ State) bool { return a.ID == ExecRefuse }
	changed := func(from State, a action, _ State) bool { return a.ID == ExecResolve && from.Files != AllRows }
	waits := func(_ State, a action, to State) bool {
		return a.ID == ExecStart && to.Slots[a.Arg[0]].Phase == PhaseWaiting
	}
	again := c.Requests > 1
	out := []conditional{
		{again, model.AlwaysStep("a known id is answered 200 before its names are resolved", func(from State, a action, to State) bool {
			if !findsKnown(from, a, to) {
				return true
			}
			slot := to.Slots[a.Arg[0]]
			return slot.Phase == PhaseAnswering && slot.Code == Started
		}, "EXEC-2", "EXEC-4").WhenStep(findsKnown).WitnessedBy("a known id is started with an unknown user")},
		{true, model.Always("an id has at most one child, and is registered exactly when it has one", func(s State) bool {
			for _, e := range s.Execs {
				if e.Spawns > 1 || e.Registered != (e.Spawns == 1) {
					return false
				}
			}
			return true
		}, "EXEC-3", "EXEC-6").When(func(s State) bool { return len(children(s)) > 0 }).WitnessedBy("a start is answered 200")},
		{c.has(UserUnknown), model.AlwaysStep("a refusal leaves its id as unknown as it was", func(from State, a action, to State) bool {
			return !refuses(from, a, to) || from.Execs == to.Execs
		}, "EXEC-6").WhenStep(refuses).WitnessedBy("a refused id stays unknown")},
		{c.Edits > 0 && len(c.Rows) > 0, model.AlwaysStep("a request is resolved with the files as they stand", func(from State, a action, to State) bool {
			if !changed(from, a, to) {
				return true
			}
			slot := to.Slots[a.Arg[0]]
			return (slot.Code == Started) == (failures(from.Image, slot.Request, from.Files) == 0)
		}, "ACCOUNT-2").WhenStep(changed).WitnessedBy("a row that is gone is refused")},
		{c.Slots > 1, model.AlwaysStep("a request that waited has the answer of the one that it waited for", func(from State, a action, to State) bool {
			if a.ID != ExecSpawn && a.ID != ExecRefuse {
				return true
			}
			for i, w := range from.Slots {
				if w.Phase == PhaseWaiting && w.ID == from.Slots[a.Arg[0]].ID && to.Slots[i].Code != to.Slots[a.Arg[0]].Code {
					return false
				}
			}
			return true
		}, "EXEC-3").WhenStep(waits).WitnessedBy("a request waits for another with its id")},
	}
	if c.Liveness {
		for slot := range c.Slots {
			out = append(out, conditional{true, model.LeadsTo("the request in slot "+string('0'+rune(slot))+" is answered",
				func(s State) bool { return s.Slots[slot].Phase != PhaseIdle },
				func(s State) bool { return s.Slots[slot].Phase == PhaseIdle }, "EXEC-3")})
		}
	}
	return out
}

// ran is a witness: some child is like this.
func ran(name string, like func(s State, e Exec) bool, ids ...string) property {
	return model.Sometimes(name, func(s State) bool {
		for _, e := range children(s) {
			if like(s, e) {
				return true
			}
		}
		return false
	}, ids...)
}

// refused is a witness: some request like this is answered with the code.
func refused(name string, code Code, like func(s State, r Slot) bool, ids ...string) property {
	return model.SometimesStep(name, func(from State, a action, _ State) bool {
		slot, ok := answersOwner(from, a)
		return ok && Code(a.Arg[1]) == code && like(from, slot)
	}, ids...)
}

// witnesses show the interesting cases reached: each property names one.
func (c *Config) witnesses() []property {
	all := []conditional{
		{c.has(UserNamed), ran("a user by name runs", func(_ State, e Exec) bool { return e.Child.UID == UIDRow }, "AGENTD-7")},
		{c.hasGroup(GroupNamed), ran("a group by name runs", func(_ State, e Exec) bool { return e.Child.GID == GIDRow }, "AGENTD-7")},
		{c.has(UserDigits), ran("digits run", func(_ State, e Exec) bool {
			return e.Request.User == UserDigits && e.Child.UID == UIDRequested && e.Child.Env[UserName] == FromPasswd
		}, "ACCOUNT-6")},
		{c.has(UserID), ran("an integer user with a row runs", func(_ State, e Exec) bool {
			return e.Request.User == UserID && e.Child.GID == GIDDaemon
		}, "AGENTD-16")},
		{c.hasGroup(GroupID), ran("an integer group runs", func(_ State, e Exec) bool { return e.Child.GID == GIDRequested }, "AGENTD-16")},
		{c.hasShell(ShellOn), ran("the shell true runs", func(_ State, e Exec) bool { return e.Child.Program == ProgramBinSh }, "AGENTD-16")},
		{c.hasDefault(DefaultNamed), ran("the default user runs", func(_ State, e Exec) bool { return e.Child.GID == GIDDefaultRow }, "ACCOUNT-1")},
		{c.hasDefault(DefaultEmpty) && c.hasRecord(RecordRow), ran("the default user runs beside a record", func(s State, e Exec) bool {
			return e.Child.UID == UIDDefault && s.Image.Record != RecordOff
		}, "ACCOUNT-5")},
		{c.hasRecord(RecordRow), ran("the sealed user runs", func(_ State, e Exec) bool { return e.Child.GID == GIDRecord }, "ACCOUNT-3")},
		{c.hasDefault(DefaultUnset) && c.has(UserAbsent), ran("a start without a user runs as the daemon's", func(_ State, e Exec) bool {
			return e.Request.User == UserAbsent && e.Child.UID == UIDDaemon
		}, "EXEC-12")},
		{true, ran("a passwd HOME reaches a child", func(_ State, e Exec) bool { return e.Child.Env[Home] == FromPasswd }, "AGENTD-9")},
		{c.rowless(), ran("a child without a row runs", func(_ State, e Exec) bool { return e.Child.Env[UserName] == Absent }, "AGENTD-9")},
		{true, ran("a child starts without inherit_image_env beside a snapshot", func(s State, e Exec) bool {
			return e.Request.Flags&FlagInherit == 0 && s.Snapshot.Keys() > 0
		}, "AGENTD-10")},
		{c.hasFlag(FlagInherit), ran("a variable of the image alone reaches a child", func(_ State, e Exec) bool { return e.Child.Env[ImageOnly] == FromImage }, "AGENTD-11")},
		{c.hasFlag(FlagHome), ran("the request's HOME beats the passwd HOME", func(_ State, e Exec) bool {
			return e.Child.Env[Home] == FromRequest && e.Child.Env[UserName] == FromPasswd
		}, "AGENTD-9")},
		{c.hasFlag(FlagInherit) && contains(c.Launches, FlagPath), ran("the launch's PATH beats the image's", func(_ State, e Exec) bool {
			return e.Child.Env[ImageOnly] == FromImage && e.Child.Env[Path] == FromLaunch
		}, "AGENTD-11")},
		{c.hasFlag(FlagInherit), ran("the passwd HOME beats the image's", func(_ State, e Exec) bool {
			return e.Child.Env[ImageOnly] == FromImage && e.Child.Env[Home] == FromPasswd
		}, "AGENTD-11")},
		{true, ran("a child runs after the token's install", func(s State, _ Exec) bool { return s.Stage == StageOpen }, "AGENTD-12")},
		{true, model.SometimesStep("health reports a snapshot", func(_ State, a action, _ State) bool { return a.ID == Health && a.Arg[0] > 0 }, "AGENTD-13")},
		{c.hasShell(ShellAnywhere), ran("a named shell runs", func(_ State, e Exec) bool {
			return e.Child.Program == ProgramLaunchPath || e.Child.Program == ProgramRequestPath
		}, "AGENTD-14")},
		{c.hasShell(ShellAbsolute), ran("an absolute path runs", func(_ State, e Exec) bool { return e.Child.Program == ProgramAbsolute }, "ACCOUNT-9")},
	}
	var out []property
	for _, p := range append(all, c.refusalWitnesses()...) {
		if p.stated {
			out = append(out, p.property)
		}
	}
	return out
}

func (c *Config) refusalWitnesses() []conditional {
	of := func(kind func(r Request) bool) func(State, Slot) bool {
		return func(_ State, slot Slot) bool { return kind(slot.Request) }
	}
	return []conditional{
		{c.has(UserUnknown), refused("an unknown user is refused", UnknownUser, of(func(r Request) bool { return r.User == UserUnknown }), "AGENTD-8")},
		{c.hasGroup(GroupUnknown), refused("an unknown group is refused", UnknownGroup, of(func(r Request) bool { return r.Group == GroupUnknown }), "AGENTD-8")},
		{c.hasShell(ShellMissing), refused("an unknown shell is refused", UnknownShell, of(func(r Request) bool { return r.Shell == ShellMissing }), "AGENTD-15")},
		{c.hasShell(ShellRelative), refused("a relative path of a shell is refused", UnknownShell, of(func(r Request) bool { return r.Shell == ShellRelative }), "ACCOUNT-9")},
		{c.hasDefault(DefaultUnknown), refused("a default user without a row is refused", UnknownUser, func(s State, slot Slot) bool {
			return slot.Request.User == UserAbsent && s.Image.Default == DefaultDigitsNoRow
		}, "EXEC-38")},
		{c.hasRecord(RecordBroken), refused("a broken record is refused", UnknownUser, func(s State, slot Slot) bool {
			return slot.Request.User == UserAbsent && recordFails(s.Image)
		}, "ACCOUNT-4")},
		{c.hasDefault(DefaultEmpty) && c.hasRecord(RecordRow), refused("an empty default user is refused beside a record", UnknownUser, func(s State, slot Slot) bool {
			return slot.Request.User == UserAbsent && s.Image.Default == DefaultEmpty && s.Image.Record != RecordOff
		}, "ACCOUNT-5")},
		{c.has(UserUnknown) && c.hasGroup(GroupUnknown), refused("two failures are answered once", UnknownUser, func(s State, slot Slot) bool {
			return userFails(s.Image, slot.Request, slot.Seen) && groupFails(slot.Request, slot.Seen)
		}, "ACCOUNT-11")},
		{true, refused("a start is answered 200", Started, func(State, Slot) bool { return true }, "EXEC-1")},
		{c.has(UserUnknown) || c.hasShell(ShellMissing), model.SometimesStep("a refused id stays unknown", func(_ State, a action, to State) bool {
			return a.ID == ExecRefuse && !to.Execs[to.Slots[a.Arg[0]].ID].Registered
		}, "EXEC-6")},
		{c.Requests > 1, model.SometimesStep("a known id is started with an unknown user", func(from State, a action, to State) bool {
			if a.ID != ExecStart {
				return false
			}
			slot := to.Slots[a.Arg[0]]
			return slot.Phase == PhaseAnswering && slot.Code == Started && slot.Request.User == UserUnknown
		}, "EXEC-4")},
		{c.Edits > 0 && len(c.Rows) > 0, refused("a row that is gone is refused", UnknownUser, func(_ State, slot Slot) bool {
			return slot.Request.User == UserNamed && !slot.Seen.Has(NamedUserRow)
		}, "ACCOUNT-2")},
		{c.Slots > 1, model.SometimesStep("a request waits for another with its id", func(_ State, a action, to State) bool {
			return a.ID == ExecStart && to.Slots[a.Arg[0]].Phase == PhaseWaiting
		}, "EXEC-3")},
	}
}
