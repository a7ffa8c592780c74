package manager

// Deviation is one deliberate fault, planted in the rule so that the properties
// can be seen to notice it.
type Deviation uint8

// The deviations.
const (
	Specified Deviation = iota

	LeakOnSpawnFail
	LeakOnAbort
	LeakOnExit
	GivenBackTwice
	HeldWhileDraining
	SmallOvertakes
	NoRecheck
	NeverAborts
	StopWaitsForPermit
	LastCauseWins
	StopOverridesExit
	DeadlineSparesQueue
	ShutdownSparesQueue
	RunsWhileShutting
	ExitIsFailure
	SpawnFailIsExit
	SpawnTwice
	StopForgotten
	StopIsExit

	TerminalTwice
	TerminalLost
	CancelRepublishes
	Coalesced
	StartedLate
	RunUnsubscribed
	EventBeforeReply
	RepeatIsSilent
	RepeatResends
	DividedAttach
	SnapshotAndEvent
	SecondSubscription
	StaleSnapshot
	WriterStalls

	NoIdempotency
	TokenWhileRunning
	TokenKept
	IDReused
	AttachIgnoresBoot
	IDBeforeBoot
	DisconnectKills
	ConnectionRemembered
	ReadDestroys
	ReadsUnfinished
	ReadsFailed
	AckAlways
	AckSaysYes
	AckForgotten
	ExpiryForgotten
	AckDropsQueued
	SubscriptionKept
	ReleasedIsCancelled
	EndedIsUnknown
	LiveIsUnknown
	FutureAttached
	RestartKeepsRuns
	RestartOrphans

	deviations
)

// Deviations returns every deviation, in order. The slice is fresh.
func Deviations() []Deviation {
	var out []Deviation
	for d := Specified + 1; d < deviations; d++ {
		out = append(out, d)
	}
	return out
}

// Name returns the deviation's name in reports.
func (d Deviation) Name() string { return deviationTexts[d].name }

// String describes the deviation in a phrase; it is empty for Specified.
func (d Deviation) String() string { return deviationTexts[d].text }

var deviationTexts = [deviations]struct{ name, text string }{
	Specified:           {"specified", ""},
	LeakOnSpawnFail:     {"leak-on-spawn-fail", "a spawn that fails loses its permits"},
	LeakOnAbort:         {"leak-on-abort", "a run that is stopped before its spawn keeps its permits"},
	LeakOnExit:          {"leak-on-exit", "a run keeps its permits after its executor's end"},
	GivenBackTwice:      {"given-back-twice", "an exit gives the permits back twice"},
	HeldWhileDraining:   {"held-while-draining", "the permits are held until the outputs are drained"},
	SmallOvertakes:      {"small-overtakes", "a small request is granted before a big one that came first"},
	NoRecheck:           {"no-recheck", "a stop is not looked for again after the permits"},
	NeverAborts:         {"never-aborts", "a run that is stopped before its spawn is left where it is"},
	StopWaitsForPermit:  {"stop-waits-for-permit", "a queued run that is stopped ends only once it has its permits"},
	LastCauseWins:       {"last-cause-wins", "a later cause replaces the first"},
	StopOverridesExit:   {"stop-overrides-exit", "a stop after the executor's end replaces its cause"},
	DeadlineSparesQueue: {"deadline-spares-queue", "a deadline does not end a queued run"},
	ShutdownSparesQueue: {"shutdown-spares-queue", "a shutdown does not end queued runs"},
	RunsWhileShutting:   {"runs-while-shutting", "new runs are accepted after a shutdown was asked for"},
	ExitIsFailure:       {"exit-is-failure", "an executor's own end is published as failed_to_start"},
	SpawnFailIsExit:     {"spawn-fail-is-exit", "a failed spawn is published as finished"},
	SpawnTwice:          {"spawn-twice", "a run is spawned again while it runs"},
	StopForgotten:       {"stop-forgotten", "a stop between the permits and the spawn is forgotten"},
	StopIsExit:          {"stop-is-exit", "a run that is stopped while it runs ends as if by itself"},

	TerminalTwice:      {"terminal-twice", "the ending is published at the stop and again at the exit"},
	TerminalLost:       {"terminal-lost", "an ending is dropped when other messages wait"},
	CancelRepublishes:  {"cancel-republishes", "a cancel of an ended run publishes its ending again"},
	Coalesced:          {"coalesced", "an ending takes the place of a start that is not read yet"},
	StartedLate:        {"started-late", "the start is published once the run has ended"},
	RunUnsubscribed:    {"run-unsubscribed", "a run request does not subscribe its connection"},
	EventBeforeReply:   {"event-before-reply", "the latest event goes out before the reply that it belongs to"},
	RepeatIsSilent:     {"repeat-is-silent", "a repeat of an ended run sends nothing but the reply"},
	RepeatResends:      {"repeat-resends", "a repeat sends the ending again to a connection that has had it"},
	DividedAttach:      {"divided-attach", "the snapshot is taken first and the subscription later"},
	SnapshotAndEvent:   {"snapshot-and-event", "a terminal snapshot is followed by the event"},
	SecondSubscription: {"second-subscription", "a second attach of one connection opens a second stream"},
	StaleSnapshot:      {"stale-snapshot", "the snapshot of a started run says that it is queued"},
	WriterStalls:       {"writer-stalls", "what waits behind an event of a released run is never sent"},

	NoIdempotency:        {"no-idempotency", "a token is not looked up"},
	TokenWhileRunning:    {"token-while-running", "a token is forgotten at the end of its run"},
	TokenKept:            {"token-kept", "a token still names its run after the release"},
	IDReused:             {"id-reused", "the id of a released run is given again"},
	AttachIgnoresBoot:    {"attach-ignores-boot", "an attach does not look at the boot"},
	IDBeforeBoot:         {"id-before-boot", "an attach looks at the id before the boot"},
	DisconnectKills:      {"disconnect-kills", "a disconnect cancels what the connection is subscribed to"},
	ConnectionRemembered: {"connection-remembered", "a connection's subscriptions outlive it"},
	ReadDestroys:         {"read-destroys", "a read takes the result away"},
	ReadsUnfinished:      {"reads-unfinished", "artifacts can be read before the end"},
	ReadsFailed:          {"reads-failed", "artifacts of a run that never had an executor can be read"},
	AckAlways:            {"ack-always", "an ack releases a run that has not ended"},
	AckSaysYes:           {"ack-says-yes", "an ack of a run that has not ended is answered like any other"},
	AckForgotten:         {"ack-forgotten", "an ack of an ended run is answered and forgotten"},
	ExpiryForgotten:      {"expiry-forgotten", "a run whose retention is over stays known"},
	AckDropsQueued:       {"ack-drops-queued", "an ack takes unread events back"},
	SubscriptionKept:     {"subscription-kept", "subscriptions outlive the run's release"},
	ReleasedIsCancelled:  {"released-is-cancelled", "a cancel of a released run is answered as if it were known"},
	EndedIsUnknown:       {"ended-is-unknown", "a cancel of an ended run is answered as if it were unknown"},
	LiveIsUnknown:        {"live-is-unknown", "a cancel of a queued run is answered as if it were unknown"},
	FutureAttached:       {"future-attached", "an attach to an id that was never given waits for it"},
	RestartKeepsRuns:     {"restart-keeps-runs", "ended runs keep their ids in the next boot"},
	RestartOrphans:       {"restart-orphans", "executors outlive a manager that is killed"},
}

// base returns the configuration in which a deviation is planted: the smallest
// that can show it.
func (d Deviation) base() Config {
	c := Config{Runs: 1, Conns: 1, Tokens: []uint8{0}, NoTime: true}
	switch d {
	case NoIdempotency, TokenWhileRunning, TokenKept, IDReused:
		c.Runs, c.Tokens, c.Kinds = 2, []uint8{1}, []Kind{Plain, Invalid}
	case RepeatIsSilent, EventBeforeReply, DividedAttach, SnapshotAndEvent:
		c.Conns, c.Tokens = 2, []uint8{1}
	case RepeatResends, SecondSubscription:
		c.Tokens = []uint8{1}
	case SmallOvertakes:
		c.Runs, c.Permits, c.Kinds, c.Settled = 3, 2, []Kind{Plain, Big}, true
		c.Eager = true
	case AttachIgnoresBoot, IDBeforeBoot:
		c.Conns, c.Restarts = 2, 1
	case RestartKeepsRuns, RestartOrphans:
		c.Restarts = 1
	case DisconnectKills, ConnectionRemembered:
		c.Disconnects = 1
	case DeadlineSparesQueue, ExpiryForgotten, StopIsExit:
		c.NoTime = false
	case RunsWhileShutting:
		c.Runs = 2
	case NeverAborts, WriterStalls:
		c.Liveness = true
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}
