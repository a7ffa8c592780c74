package execstart

// Deviation is one deliberate fault: a plausible mistake of a daemon, planted
// in the rule so that the properties can be seen to notice it.
type Deviation uint8

const (
	// Specified plants nothing.
	Specified Deviation = iota

	// Users and groups.
	NamedUserKeepsGroup
	NumberTakesRowGroup
	DigitsTakeRowGroup
	DigitsBeforeNames
	DigitsRefused
	UnknownUserIsDaemon
	UnknownGroupIsDaemon
	UnknownGroupAsUser
	GroupNameIgnored
	RowGroupWins
	GroupBeforeUser
	FilesReadAtBoot

	// The user of starts without one.
	DefaultIgnored
	UnresolvedDefaultIsDaemon
	DefaultDigitsWithoutRow
	EmptyDefaultIsUnset
	RecordBeforeDefault
	RecordIgnored
	BrokenRecordIsDaemon
	RecordGroupIgnored
	DaemonIdentity

	// The environment.
	SnapshotUnfiltered
	LiveEnvironment
	HealthCountsDaemon
	ImageAlways
	ImageOnTop
	IdentityOnTop
	IdentityMissing
	LaunchBeneathIdentity
	RequestBeneathLaunch

	// Shells.
	ShellTrueOnPath
	ShellFallsBack
	ImageShellFirst
	ImagePathNotSearched
	RelativeShellRuns
	AbsoluteShellIsBinSh

	// The course of a request.
	RefusedSpawns
	RefusalRegistered
	KnownIDResolved
	PendingNotSeen
	WaiterAnsweredOK
	WaiterForgotten

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

// Name returns the deviation's name in reports: a word of small letters.
func (d Deviation) Name() string { return deviationTexts[d].name }

// String describes the deviation in a phrase; it is empty for Specified.
func (d Deviation) String() string { return deviationTexts[d].text }

var deviationTexts = [deviations]struct{ name, text string }{
	Specified:                 {"specified", ""},
	NamedUserKeepsGroup:       {"named-user-keeps-group", "a user by name keeps the daemon's group"},
	NumberTakesRowGroup:       {"number-takes-row-group", "an integer user takes the primary group of its row"},
	DigitsTakeRowGroup:        {"digits-take-row-group", "a user by digits takes the primary group of its row"},
	DigitsBeforeNames:         {"digits-before-names", "digits are a number although a row has them for a name"},
	DigitsRefused:             {"digits-refused", "digits that are no name are refused"},
	UnknownUserIsDaemon:       {"unknown-user-is-daemon", "an unknown user is the daemon's own"},
	UnknownGroupIsDaemon:      {"unknown-group-is-daemon", "an unknown group is the one that the user brought"},
	UnknownGroupAsUser:        {"unknown-group-as-user", "an unknown group is answered unknown_user"},
	GroupNameIgnored:          {"group-name-ignored", "a group by name has no effect"},
	RowGroupWins:              {"row-group-wins", "the primary group of a user's row wins over the group that was asked for"},
	GroupBeforeUser:           {"group-before-user", "the group's failure decides the answer before the user's"},
	FilesReadAtBoot:           {"files-read-at-boot", "the passwd and group files are read once, when the daemon starts"},
	DefaultIgnored:            {"default-ignored", "a start without a user runs as the daemon's, whatever the image says of its default user"},
	UnresolvedDefaultIsDaemon: {"unresolved-default-is-daemon", "a default user that does not resolve is the daemon's own"},
	DefaultDigitsWithoutRow:   {"default-digits-without-row", "digits of a default user need no row"},
	EmptyDefaultIsUnset:       {"empty-default-is-unset", "a set but empty default user counts as none"},
	RecordBeforeDefault:       {"record-before-default", "the sealed record wins over the default user"},
	RecordIgnored:             {"record-ignored", "the sealed record has no effect"},
	BrokenRecordIsDaemon:      {"broken-record-is-daemon", "a record that cannot be used is the daemon's own user"},
	RecordGroupIgnored:        {"record-group-ignored", "of the sealed record only the user id counts"},
	DaemonIdentity:            {"daemon-identity", "a start without a user gets the variables of the daemon's own row"},
	SnapshotUnfiltered:        {"snapshot-unfiltered", "the snapshot keeps the daemon's settings"},
	LiveEnvironment:           {"live-environment", "the image layer is the daemon's environment at the start of the child, where it keeps the token"},
	HealthCountsDaemon:        {"health-counts-daemon", "health counts the daemon's environment"},
	ImageAlways:               {"image-always", "the image layer is there unasked"},
	ImageOnTop:                {"image-on-top", "the image layer wins over all others"},
	IdentityOnTop:             {"identity-on-top", "the passwd identity wins over all others"},
	IdentityMissing:           {"identity-missing", "a row gives no variables"},
	LaunchBeneathIdentity:     {"launch-beneath-identity", "the passwd identity wins over the launch environment"},
	RequestBeneathLaunch:      {"request-beneath-launch", "the launch environment wins over the request's"},
	ShellTrueOnPath:           {"shell-true-on-path", "the shell true is looked for on the child's PATH"},
	ShellFallsBack:            {"shell-falls-back", "a shell that is not found is /bin/sh"},
	ImageShellFirst:           {"image-shell-first", "the image's PATH is searched before the child's"},
	ImagePathNotSearched:      {"image-path-not-searched", "the image's PATH is not searched for a shell"},
	RelativeShellRuns:         {"relative-shell-runs", "a relative path names a shell"},
	AbsoluteShellIsBinSh:      {"absolute-shell-is-bin-sh", "an absolute path of a shell is taken for the shell true"},
	RefusedSpawns:             {"refused-spawns", "the child is created before the request is resolved, so a refused one has a child"},
	RefusalRegistered:         {"refusal-registered", "a refused id stays registered"},
	KnownIDResolved:           {"known-id-resolved", "a known id is answered only after its names were resolved again"},
	PendingNotSeen:            {"pending-not-seen", "a start does not see that another one has reserved its id"},
	WaiterAnsweredOK:          {"waiter-answered-ok", "a request that waited for a refused one is answered 200"},
	WaiterForgotten:           {"waiter-forgotten", "a request that waits for another is never answered"},
}
