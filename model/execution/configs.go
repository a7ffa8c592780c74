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
	"group-replay-deadline":      "one id with a deadline, and processes that ignore SIGTERM, close their pipes, or end by themselves in the grace",
	"group-replay-poweroff":      "one id whose end powers the machine off, with a member that outlives the leader or leaves the group, and kills",
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
		{Name: "group-replay-deadline", IDs: 1, MaxLives: 1, Kinds: []Kind{Timed, ReapGroup | Timed}, Members: true, Closes: true,
			MemberIgnores: true, LeaderIgnores: true, Time: true, Settled: true},
		{Name: "group-replay-poweroff", IDs: 1, MaxLives: 1, Kinds: []Kind{PowersOff}, Kills: true, Members: true, Escapes: true},
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
	PowerOffAtExit: "power-off-at-exit",
}

// OutputConfigs returns every configuration of the output model.
func OutputConfigs() []OutputConfig {
	all := []OutputConfig{outputWhole, outputReaders}
	all = append(all, OutputReplays()...)
	for d := OutputSpecified + 1; d < outputDeviations; d++ {
		c := outputFaulty
		if d == SharedCursor {
			c.Readers, c.Liveness = 2, false // a second reader multiplies the space
		}
		c.Name, c.Deviation = "output-deviation-"+outputDeviationName[d], d
		all = append(all, c)
	}
	return all
}

func (c OutputConfig) sentence() string {
	if c.Deviation != OutputSpecified {
		return outputDeviationText[c.Deviation]
	}
	return outputSentences[c.Name]
}

var outputSentences = map[string]string{
	"output-whole":         "one reader of six units with a ring of two, a survivor that goes on writing, cuts, polls and an ack",
	"output-readers":       "two readers of four units with a ring of two, cut and attached again at every point",
	"output-replay-binary": "two readers that attach at every point while nothing holds the daemon back",
	"output-replay-cut":    "one reader that is cut and resumes at every point while nothing holds the daemon back",
	"output-replay-gate":   "two readers with every publication and every event held until it is let go",
	"output-replay-linger": "one reader and a survivor that writes during and after the linger",
}

// The specified configurations. The bounds: with a ring of two units, four
// show a reader that falls behind by one ring; six show it twice.
var (
	outputWhole = OutputConfig{
		Name: "output-whole", Units: 6, Ring: 2, Head: 1, Unread: 2, Readers: 1, Offsets: []uint8{0, 1, 3, 6},
		Holder: true, Acks: true, Polls: true, Cuts: true, Liveness: true,
	}
	outputReaders = OutputConfig{
		Name: "output-readers", Units: 4, Ring: 2, Head: 1, Unread: 2, Readers: 2, Offsets: []uint8{0, 1, 3}, Cuts: true,
	}
	outputFaulty = OutputConfig{
		Name: "output-faulty", Units: 4, Ring: 2, Head: 1, Unread: 2, Readers: 1, Offsets: []uint8{0, 3},
		Holder: true, Acks: true, Polls: true, Cuts: true, Liveness: true,
	}
)

// OutputReplays returns the configurations whose whole graphs are driven on the
// real daemon.
func OutputReplays() []OutputConfig {
	return []OutputConfig{
		{Name: "output-replay-binary", Units: 3, Ring: 1, Head: 1, Unread: 1, Readers: 2, Offsets: []uint8{0, 2}, Acks: true, Settled: true},
		{Name: "output-replay-cut", Units: 4, Ring: 2, Head: 1, Unread: 1, Readers: 1, Offsets: []uint8{0, 3}, Acks: true, Polls: true, Cuts: true, Settled: true},
		{Name: "output-replay-gate", Units: 3, Ring: 1, Head: 1, Unread: 1, Readers: 2, Offsets: []uint8{0}},
		{Name: "output-replay-linger", Units: 3, Ring: 2, Head: 1, Unread: 1, Readers: 1, Offsets: []uint8{0}, Holder: true, Polls: true, Cuts: true, Settled: true},
	}
}

// StdinConfigs returns every configuration of the stdin model.
func StdinConfigs() []StdinConfig {
	all := []StdinConfig{stdinWhole}
	all = append(all, StdinReplays()...)
	for d := StdinSpecified + 1; d < stdinDeviations; d++ {
		c := stdinWhole
		c.Name, c.Deviation = "stdin-deviation-"+stdinDeviationName[d], d
		all = append(all, c)
	}
	return all
}

func (c StdinConfig) sentence() string {
	if c.Deviation != StdinSpecified {
		return stdinDeviationText[c.Deviation]
	}
	return stdinSentences[c.Name]
}

var stdinSentences = map[string]string{
	"stdin-whole":         "two writers, three requests of up to two units, a pipe of two units, ends of file, stalls, an exec with and one without stdin",
	"stdin-replay-binary": "requests that never fill the pipe",
	"stdin-replay-clock":  "requests that stall and time out, and a second writer that waits for its turn",
}

// The specified configuration. The bounds: with a pipe of two units, a request
// of two stalls whole, in its middle, or not at all; the third request meets
// what the first two left.
var stdinWhole = StdinConfig{
	Name: "stdin-whole", Writers: 2, Requests: 3, Units: 2, Pipe: 2, Ends: true, Refused: true, Time: true, Liveness: true,
}

// StdinReplays returns the configurations whose whole graphs are driven on the
// real daemon.
func StdinReplays() []StdinConfig {
	return []StdinConfig{
		{Name: "stdin-replay-binary", Writers: 1, Requests: 2, Units: 1, Pipe: 2, Ends: true, Refused: true, Settled: true},
		{Name: "stdin-replay-clock", Writers: 2, Requests: 2, Units: 2, Pipe: 1, Ends: true, Time: true, Settled: true},
	}
}
