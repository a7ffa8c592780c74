package execstart

import (
	_ "embed"

	"microvms/model"
)

// goldenText is the golden record: what a check of each configuration must find.
//
//go:embed testdata/configs.golden
var goldenText string

func all[T ~uint8](n T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}

var (
	noImage = []Image{{}}
	noFlags = []Flags{0}

	// images pairs every default user with no record, every record with no
	// default user, and those pairs in which one must win.
	images = []Image{
		{DefaultUnset, RecordOff}, {DefaultNamed, RecordOff}, {DefaultDigits, RecordOff}, {DefaultDigitsNoRow, RecordOff},
		{DefaultUnknown, RecordOff}, {DefaultEmpty, RecordOff},
		{DefaultUnset, RecordRow}, {DefaultUnset, RecordNoRow}, {DefaultUnset, RecordBroken},
		{DefaultNamed, RecordNoRow}, {DefaultNamed, RecordBroken}, {DefaultUnknown, RecordRow}, {DefaultEmpty, RecordRow}, {DefaultEmpty, RecordNoRow},
	}
)

// HeldUsers is the specified rule for every user, group, default user and
// record, while a row comes or goes at any moment.
func HeldUsers() Config {
	return Config{
		Name: "users", Slots: 1, IDs: 1, Requests: 1, Edits: 1, Rows: all(rowsCount),
		Images: images, Launches: []Flags{0, FlagHome},
		Users: all(users), Groups: all(groups), Shells: []Shell{ShellOff, ShellOn, ShellMissing}, Flags: []Flags{0, FlagHome, FlagInherit},
	}
}

// HeldShells is the specified rule for every shell and every choice of layers.
func HeldShells() Config {
	return Config{
		Name: "shells", Slots: 1, IDs: 1, Requests: 1,
		Images: []Image{{}, {DefaultNamed, RecordOff}, {DefaultUnset, RecordNoRow}}, Launches: []Flags{0, FlagHome, FlagPath, FlagHome | FlagPath},
		Users: []User{UserAbsent, UserID, UserIDNoRow, UserNamed, UserUnknown}, Groups: []Group{GroupAbsent, GroupID, GroupUnknown}, Shells: all(shells), Flags: AllFlags(),
	}
}

// HeldPairs is the specified rule for requests that overlap and repeat, on two
// ids, while the rows of a user and a default user come and go.
func HeldPairs() Config {
	return Config{
		Name: "pairs", Slots: 2, IDs: 2, Requests: 3, Edits: 2, Rows: []Row{NamedUserRow, DefaultUserRow},
		Images: []Image{{}, {DefaultNamed, RecordOff}}, Launches: noFlags,
		Users: []User{UserAbsent, UserNamed, UserUnknown}, Groups: []Group{GroupAbsent}, Shells: []Shell{ShellOff}, Flags: noFlags,
	}
}

// Live is the specified rule with progress: every request is answered.
func Live() Config {
	return Config{
		Name: "live", Slots: 2, IDs: 1, Requests: 3, Edits: 1, Rows: []Row{NamedUserRow},
		Images: noImage, Launches: noFlags,
		Users: []User{UserNamed, UserUnknown}, Groups: []Group{GroupAbsent}, Shells: []Shell{ShellOff}, Flags: noFlags, Liveness: true,
	}
}

// ReplayUsers is replayed on the daemon for every shape of user and group under
// every image.
func ReplayUsers() Config {
	return Config{
		Name: "replay-users", Slots: 1, IDs: 1, Requests: 1, Images: images, Launches: noFlags,
		Users: all(users), Groups: all(groups), Shells: []Shell{ShellOff}, Flags: noFlags,
	}
}

// ReplayShells is replayed for every shell and every choice of layers.
func ReplayShells() Config {
	return Config{
		Name: "replay-shells", Slots: 1, IDs: 1, Requests: 1, Images: noImage, Launches: []Flags{0, FlagHome, FlagPath, FlagHome | FlagPath},
		Users: []User{UserAbsent, UserNamed}, Groups: []Group{GroupAbsent}, Shells: all(shells), Flags: AllFlags(),
	}
}

// ReplayPairs is replayed for requests that overlap on one id, held at every
// point, while a row comes and goes.
func ReplayPairs() Config {
	return Config{
		Name: "replay-pairs", Slots: 2, IDs: 1, Requests: 3, Edits: 1, Rows: []Row{NamedUserRow}, Images: noImage, Launches: noFlags,
		Users: []User{UserNamed, UserUnknown}, Groups: []Group{GroupAbsent}, Shells: []Shell{ShellOff}, Flags: noFlags,
	}
}

// Replays returns the configurations that are replayed.
func Replays() []Config { return []Config{ReplayUsers(), ReplayShells(), ReplayPairs()} }

// DeviantReplay returns a small configuration in which a deviation can be seen
// on the wire: replayed on an honest daemon it must fail.
func DeviantReplay(d Deviation) Config {
	c := Config{
		Name: "deviant-" + d.Name(), Slots: 1, IDs: 1, Requests: 1, Images: noImage, Launches: noFlags,
		Users: all(users), Groups: all(groups), Shells: []Shell{ShellOff}, Flags: noFlags, Deviation: d,
	}
	switch {
	case d >= RefusedSpawns:
		c = ReplayPairs()
	case d >= ShellTrueOnPath:
		c = ReplayShells()
		c.Launches, c.Users = noFlags, c.Users[:1]
	case d >= SnapshotUnfiltered:
		c = ReplayShells()
		c.Launches, c.Shells = []Flags{FlagHome}, c.Shells[:1]
	case d >= DefaultIgnored:
		c = ReplayUsers()
		c.Users, c.Groups = c.Users[:1], c.Groups[:1]
	case d == FilesReadAtBoot:
		c = ReplayPairs()
	}
	c.Deviation = d
	return c
}

// Sequential is the configuration of the atomic form: whole requests, one at a
// time.
func Sequential() Config {
	c := HeldPairs()
	c.Name, c.Slots = "sequential", 1
	return c
}

// base returns the configuration in which a deviation is planted: the specified
// one in which its case exists.
func (d Deviation) base() Config {
	var c Config
	switch {
	case d >= RefusedSpawns:
		c = Live()
	case d >= ShellTrueOnPath, d == LaunchBeneathIdentity, d == RequestBeneathLaunch, d == ImageOnTop, d == IdentityOnTop:
		c = HeldShells()
		c.Images, c.Groups = c.Images[:2], c.Groups[:1]
	default:
		c = HeldUsers()
		c.Launches, c.Shells = noFlags, c.Shells[:2]
		if d != FilesReadAtBoot {
			c.Edits = 0 // names without a row are there without a change, too
		}
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// Configs returns every configuration of the interleaved form: the specified
// ones and every deviation.
func Configs() []Config {
	out := append([]Config{HeldUsers(), HeldShells(), HeldPairs(), Live()}, Replays()...)
	for _, d := range Deviations() {
		out = append(out, d.base())
	}
	return out
}

// Atomics returns the configurations of the atomic form: the specified one, and
// every deviation that shows in it.
func Atomics() []Config {
	out := []Config{Sequential()}
	golden := model.MustParseGolden(goldenText)
	for _, d := range Deviations() {
		if c := d.atomic(); len(golden[c.Name].Violated) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// atomic returns the configuration in which a deviation is planted in the
// atomic form.
func (d Deviation) atomic() Config {
	c := Sequential()
	c.Name, c.Deviation = c.Name+"-"+d.Name(), d
	return c
}

// Suite returns the package's configurations with what a check of each must
// find. The counts of the published model are the publication's; the others are
// the golden record that the tests pin.
func Suite() model.Suite {
	s := model.Suite{
		Name:    "execstart",
		Summary: "how a start request becomes a child: users, groups, shells, environment, and who is refused",
		NotSeeded: map[string]string{
			m3NotRun: "no deviation of the publication starts an unknown name; here \"no child stems from a request that does not resolve\" says the same, and is violated",
			m3Ends:   "the publication plants no fault in progress; here waiter-forgotten does",
		},
	}
	golden := model.MustParseGolden(goldenText)
	add := func(c Config, build func() model.Model[State]) {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, build, expect))
	}
	for _, c := range Configs() {
		add(c, func() model.Model[State] { return New(c) })
	}
	for _, c := range Atomics() {
		add(c, func() model.Model[State] { return NewAtomic(c) })
	}
	for _, p := range m3Published {
		s.Cases = append(s.Cases, model.NewCase(p.name, func() model.Model[M3State] { return NewM3(p.name, p.deviation) }, p.expect))
	}
	return s
}
