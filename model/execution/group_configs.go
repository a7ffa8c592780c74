package execution

// GroupConfigs returns every configuration of the group model: specified ones,
// replayed ones (their names begin with "group-replay"), deviations.
func GroupConfigs() []GroupConfig {
	all := []GroupConfig{groupWhole, groupPair, groupMembers}
	all = append(all, GroupReplays()...)
	for d := GroupSpecified + 1; d < groupDeviations; d++ {
		c := groupWhole
		switch d {
		case SharedGroup:
			c = groupMembers // two groups are needed to share one
		case SpawnTwice, RestartKnown:
			c = groupPair // a second child multiplies the space: the fault shows without members
			c.IDs = 1
		}
		c.Name, c.Deviation = "group-deviation-"+groupDeviationName[d], d
		all = append(all, c)
	}
	return all
}

// sentence says what a configuration is for.
func (c GroupConfig) sentence() string {
	if c.Deviation != GroupSpecified {
		return groupDeviationText[c.Deviation]
	}
	return groupSentences[c.Name]
}

var groupSentences = map[string]string{
	"group-whole":   "one id with everything: all start flags, overlapping starts, a member that escapes, ignores and holds the pipe, timers, kills, recycled numbers, one reuse of the id",
	"group-pair":    "two ids with overlapping starts, refusals, kills, acks, collection and one reuse each",
	"group-members": "two ids, each with a member that may escape and may hold the pipe, under kills and timers",

	"group-replay-binary-pair":   "two ids, nothing but requests and exits: what a daemon does when nothing holds it back",
	"group-replay-binary-member": "one id with a member that outlives its leader, closes the pipe or escapes",
	"group-replay-clock":         "one id with every timer, a member that ignores SIGTERM, and a group reap",
	"group-replay-gate":          "one id with every daemon step held until it is let go: overlapping starts, spawn, reaping, signals, exit",
}

// The specified configurations. The bounds: one member is enough to outlive a
// leader, to hold a pipe and to escape, since each of these is a matter of one
// process; two lives show a reuse; two ids show that groups are apart.
var (
	groupWhole = GroupConfig{
		Name: "group-whole", IDs: 1, MaxLives: 2,
		Kinds:            []Kind{Plain, Unspawned, ReapGroup, Timed, ReapGroup | Timed, PowersOff},
		ConcurrentStarts: true, Kills: true, Members: true, Closes: true, Escapes: true,
		MemberIgnores: true, LeaderIgnores: true, Recycling: true, Time: true, Liveness: true,
	}
	groupPair = GroupConfig{
		Name: "group-pair", IDs: 2, MaxLives: 2, Kinds: []Kind{Plain, Unspawned},
		ConcurrentStarts: true, Kills: true, Time: true,
	}
	groupMembers = GroupConfig{
		Name: "group-members", IDs: 2, MaxLives: 1, Kinds: []Kind{Plain},
		ConcurrentStarts: true, Kills: true, Members: true, Escapes: true, Time: true,
	}
)

// GroupReplays returns the configurations whose whole graphs are driven on the
// real daemon. Those named binary hold neither time nor forced interleaving.
func GroupReplays() []GroupConfig {
	return []GroupConfig{
		{Name: "group-replay-binary-pair", IDs: 2, MaxLives: 1, Kinds: []Kind{Plain, Unspawned}, Kills: true, Settled: true},
		{Name: "group-replay-binary-member", IDs: 1, MaxLives: 1, Kinds: []Kind{Plain, ReapGroup}, Kills: true, Members: true,
			Closes: true, Escapes: true, Settled: true},
		{Name: "group-replay-clock", IDs: 1, MaxLives: 2, Kinds: []Kind{Plain, ReapGroup, Timed}, Kills: true, Members: true,
			MemberIgnores: true, Escapes: true, Time: true, Settled: true},
		{Name: "group-replay-gate", IDs: 1, MaxLives: 1, Kinds: []Kind{Plain, Unspawned}, ConcurrentStarts: true, Kills: true, Members: true},
	}
}

// groupDeviationName names each deviation as reports and golden files do.
var groupDeviationName = [groupDeviations]string{
	SpawnTwice: "spawn-twice", RestartKnown: "restart-known", RefusalRegistered: "refusal-registered",
	ExitAtLeaderEnd: "exit-at-leader-end", ExitAtDeadline: "exit-at-deadline", StopAtLeaderEnd: "stop-at-leader-end",
	KillRefusedAfterExit: "kill-refused-after-exit", KillAtOnce: "kill-at-once", NeverKill: "never-kill",
	KilledAlways: "killed-always", ReapAfterLinger: "reap-after-linger", EscalateTwice: "escalate-twice",
	TimedOutLost: "timed-out-lost", LateDeadline: "late-deadline", WritersForgotten: "writers-forgotten",
	SignalRecycled: "signal-recycled", BusyUntilAck: "busy-until-ack", CountRunning: "count-running",
	MarkerAtReap: "marker-at-reap", ListZombies: "list-zombies", ListEscaped: "list-escaped",
	AckWhileRunning: "ack-while-running", AckForgotten: "ack-forgotten", AckRepeats: "ack-repeats",
	CollectAtExit: "collect-at-exit", CollectRunning: "collect-running", IDRemembered: "id-remembered",
	PollReleases: "poll-releases", UnknownKilled: "unknown-killed", SignalAsCode: "signal-as-code",
	ResultAfterAck: "result-after-ack", DeadlineMarksOnly: "deadline-marks-only", SharedGroup: "shared-group",
	SignalTree: "signal-tree", StartsDeadlock: "starts-deadlock", PowerOffEarly: "power-off-early",
}
