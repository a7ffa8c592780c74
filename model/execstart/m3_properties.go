package execstart

import "microvms/model"

// The properties of the published model, by the requirement that each is about.
const (
	m3Named    = "a named user or group ran with the ids of its row"
	m3NoChild  = "a refused unknown user or group has no child"
	m3NotRun   = "an unknown user or group is never started"
	m3Identity = "a row gives HOME and USER beneath launch and request"
	m3Own      = "without inheritance nothing of the daemon's reaches the child"
	m3Inherit  = "with inheritance the image lies beneath all others"
	m3Secret   = "no child carries the token or a setting"
	m3Snapshot = "the snapshot has no setting"
	m3Count    = "health reports the size of the snapshot"
	m3Shell    = "a named shell that is there runs the command"
	m3NoShell  = "a missing shell is not started and has no child"
	m3Old      = "a request of the first protocol keeps its meaning"
	m3Ends     = "a received request is answered"
)

// m3Properties are the published invariants. Those about a child speak about a
// request that was answered, as in the publication.
func m3Properties(d M3Deviation) []model.Property[M3State] {
	started := func(s M3State) bool { return s.Answer == Started }
	hasRow := func(s M3State) bool { return s.Request.User == UserID || s.Request.User == UserNamed }
	inherits := func(s M3State) bool { return s.Request.Flags&FlagInherit != 0 }
	own := func(s M3State, k int) Source { return s.Request.Flags.env(FromRequest)[k] }
	unknown := func(s M3State) bool { return s.Request.User == UserUnknown || s.Request.Group == GroupUnknown }
	out := []model.Property[M3State]{
		model.Always(m3Named, func(s M3State) bool {
			return !started(s) || (s.Request.User != UserNamed || s.Child.UID == UIDRow) && (s.Request.Group != GroupNamed || s.Child.GID == GIDRow)
		}, "AGENTD-7"),
		model.Always(m3NoChild, func(s M3State) bool {
			return s.Answer != UnknownUser && s.Answer != UnknownGroup || !s.HasChild
		}, "AGENTD-8"),
		model.Always(m3NotRun, func(s M3State) bool { return !unknown(s) || !started(s) }, "AGENTD-8"),
		model.Always(m3Identity, func(s M3State) bool {
			if !started(s) {
				return true
			}
			if !hasRow(s) {
				return s.Child.Env[UserName] == Absent
			}
			return s.Child.Env[Home] == highest(own(s, Home), s.Launch[Home], FromPasswd) && s.Child.Env[UserName] == FromPasswd
		}, "AGENTD-9"),
		model.Always(m3Own, func(s M3State) bool {
			e := s.Child.Env
			return !started(s) || inherits(s) || !e.holds(FromImage) && !e.holds(FromConfig) && !e.holds(FromToken)
		}, "AGENTD-10"),
		model.Always(m3Inherit, func(s M3State) bool {
			if !started(s) || !inherits(s) {
				return true
			}
			passwd := Absent
			if hasRow(s) {
				passwd = FromPasswd
			}
			e := s.Child.Env
			return e[ImageOnly] == FromImage && e[Path] == highest(own(s, Path), s.Launch[Path], FromImage) &&
				e[Home] == highest(own(s, Home), s.Launch[Home], passwd, FromImage)
		}, "AGENTD-11"),
		model.Always(m3Secret, func(s M3State) bool { return !s.Child.Env.holds(FromToken) && !s.Child.Env.holds(FromConfig) }, "AGENTD-12"),
		model.Always(m3Snapshot, func(s M3State) bool { return !s.Snapshot.holds(FromConfig) }, "AGENTD-12"),
		model.Always(m3Count, func(s M3State) bool { return s.Health == 0 || s.Health == 1+s.Snapshot.Keys() }, "AGENTD-13"),
		model.Always(m3Shell, func(s M3State) bool {
			return !started(s) || s.Request.Shell != ShellImage || s.Child.Program == ProgramImagePath
		}, "AGENTD-14"),
		model.Always(m3NoShell, func(s M3State) bool {
			return s.Request.Shell != ShellMissing || s.Answer == NoCode || !started(s) && !s.HasChild
		}, "AGENTD-15"),
		model.Always(m3Old, func(s M3State) bool { return !started(s) || m3OldHolds(s) }, "AGENTD-16"),
		model.LeadsTo(m3Ends, func(s M3State) bool { return s.Step == m3Received }, func(s M3State) bool { return s.Step == m3Answered }),
	}
	if d != M3Specified {
		return out
	}
	return append(out, m3Witnesses()...)
}

// m3OldHolds judges absent or integer ids with a boolean shell.
func m3OldHolds(s M3State) bool {
	r := s.Request
	if r.User > UserIDNoRow || r.Group > GroupID || r.Shell > ShellOn {
		return true
	}
	uid, gid, program := UIDDaemon, GIDDaemon, ProgramArgv
	if r.User != UserAbsent {
		uid = UIDRequested
	}
	if r.Group == GroupID {
		gid = GIDRequested
	}
	if r.Shell == ShellOn {
		program = ProgramBinSh
	}
	return s.Child.UID == uid && s.Child.GID == gid && s.Child.Program == program
}

func m3Witnesses() []model.Property[M3State] {
	when := func(name string, reached func(s M3State) bool, ids ...string) model.Property[M3State] {
		return model.Sometimes(name, reached, ids...)
	}
	started := func(s M3State) bool { return s.Answer == Started }
	env := func(s M3State) Env { return s.Child.Env }
	inherits := func(s M3State) bool { return s.Request.Flags&FlagInherit != 0 }
	return []model.Property[M3State]{
		when("a named user ran", func(s M3State) bool { return started(s) && s.Child.UID == UIDRow }, "AGENTD-7"),
		when("a named group ran", func(s M3State) bool { return started(s) && s.Child.GID == GIDRow }, "AGENTD-7"),
		when("unknown_user was answered", func(s M3State) bool { return s.Answer == UnknownUser }, "AGENTD-8"),
		when("unknown_group was answered", func(s M3State) bool { return s.Answer == UnknownGroup }, "AGENTD-8"),
		when("the passwd HOME reached a child", func(s M3State) bool { return env(s)[Home] == FromPasswd }, "AGENTD-9"),
		when("the request's HOME beat the passwd HOME", func(s M3State) bool {
			return started(s) && env(s)[Home] == FromRequest && env(s)[UserName] == FromPasswd
		}, "AGENTD-9"),
		when("a child started without inheritance beside a snapshot", func(s M3State) bool {
			return started(s) && !inherits(s) && s.Snapshot.Keys() > 0
		}, "AGENTD-10"),
		when("a variable of the image alone reached a child", func(s M3State) bool { return env(s)[ImageOnly] == FromImage }, "AGENTD-11"),
		when("the launch's PATH beat the image's", func(s M3State) bool {
			return inherits(s) && env(s)[Path] == FromLaunch
		}, "AGENTD-11"),
		when("the passwd HOME beat the image's", func(s M3State) bool {
			return inherits(s) && env(s)[Home] == FromPasswd
		}, "AGENTD-11"),
		when("inheritance was used after the token's install", func(s M3State) bool { return s.Token && started(s) && inherits(s) }, "AGENTD-12"),
		when("health reported a snapshot", func(s M3State) bool { return s.Health > 1 }, "AGENTD-13"),
		when("a command ran under a named shell", func(s M3State) bool { return s.Child.Program == ProgramImagePath }, "AGENTD-14"),
		when("unknown_shell was answered", func(s M3State) bool { return s.Answer == UnknownShell }, "AGENTD-15"),
		when("an integer user with a row ran", func(s M3State) bool { return started(s) && s.Request.User == UserID }, "AGENTD-16"),
		when("an integer group ran", func(s M3State) bool { return started(s) && s.Request.Group == GroupID }, "AGENTD-16"),
		when("the shell true ran", func(s M3State) bool { return started(s) && s.Request.Shell == ShellOn }, "AGENTD-16"),
	}
}

// m3Published holds the publication's counts, and for each deviation the exact
// set of violated invariants with the length of the shortest counterexample.
// Counts of deviations that the publication does not give are not pinned.
var m3Published = []struct {
	name      string
	deviation M3Deviation
	expect    model.Expect
}{
	{"m3", M3Specified, model.Expect{Distinct: 21323, States: 31983, Depth: 8}},
	{"m3-spawn-before-resolve", M3SpawnBeforeResolve, model.Expect{Distinct: 24587, Deviation: "the child is spawned before the request is resolved",
		Violated: map[string]int{m3NoChild: 6, m3NoShell: 6, m3Named: 6, m3Identity: 6, m3Inherit: 6, m3Shell: 6, m3Old: 6}}},
	{"m3-identity-on-top", M3IdentityOnTop, model.Expect{Deviation: "the passwd identity wins over all others",
		Violated: map[string]int{m3Identity: 6, m3Inherit: 6}}},
	{"m3-image-on-top", M3ImageOnTop, model.Expect{Deviation: "the image layer wins over all others",
		Violated: map[string]int{m3Inherit: 6, m3Identity: 6}}},
	{"m3-image-always", M3ImageAlways, model.Expect{Deviation: "the image layer is there unasked", Violated: map[string]int{m3Own: 6}}},
	{"m3-unfiltered-snapshot", M3Unfiltered, model.Expect{Deviation: "the snapshot keeps the daemon's settings",
		Violated: map[string]int{m3Snapshot: 1, m3Secret: 5}}},
	{"m3-live-unfiltered", M3LiveUnfiltered, model.Expect{Deviation: "the image layer is the daemon's live environment, the token exported",
		Violated: map[string]int{m3Secret: 5}}},
	// Filtering alone suffices: nothing is violated, so this is no planted fault.
	{"m3-live-filtered", M3LiveFiltered, model.Expect{Distinct: 21323, States: 31983, Depth: 8}},
	{"m3-number-takes-row-group", M3NumberTakesRowGroup, model.Expect{Deviation: "an integer user takes the primary group of its row",
		Violated: map[string]int{m3Old: 6}}},
	{"m3-fall-back", M3FallBack, model.Expect{Distinct: 22283, Deviation: "a shell that is not found is /bin/sh", Violated: map[string]int{m3NoShell: 6}}},
	{"m3-health-counts-live", M3HealthCountsLive, model.Expect{Deviation: "health counts the daemon's live environment", Violated: map[string]int{m3Count: 2}}},
	{"m3-swap-identity-and-launch", M3SwapIdentityAndLaunch, model.Expect{Deviation: "the passwd identity wins over the launch environment",
		Violated: map[string]int{m3Identity: 6, m3Inherit: 6}}},
}
