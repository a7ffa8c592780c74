package admission

import (
	_ "embed"

	"microvms/model"
)

// goldenText is the golden record: what a check of each configuration must find.
//
//go:embed testdata/configs.golden
var goldenText string

var everyKind = []Kind{Health, Control, Upgrade, Hook, Upload, Refused, Declared, TooLarge, Ignored}

// Held is the specified rule: three connections for two slots, and every kind of
// request on each.
func Held() Config {
	return Config{Name: "held", Conns: 3, Cap: 2, Kinds: everyKind, Deadlines: true, Unread: true}
}

// Queue is the specified rule with one slot and two newcomers that wait for it.
func Queue() Config {
	return Config{Name: "queue", Conns: 3, Cap: 1, Kinds: everyKind, Deadlines: true, Unread: true}
}

// Live is the specified rule with progress: nobody who is slow keeps a slot.
func Live() Config {
	return Config{Name: "live", Conns: 2, Cap: 1, Kinds: everyKind, Deadlines: true, Live: true}
}

// ReplaySlots is replayed on the daemon: three connections for two slots, and
// requests that lie in the socket while their connections are asked to make room.
func ReplaySlots() Config {
	return Config{Name: "replay-slots", Conns: 3, Cap: 2, Kinds: []Kind{Health, Control, Upgrade}, Unread: true}
}

// ReplayRoom is replayed for who makes room, one of each rank: three connections
// for two slots.
func ReplayRoom() Config {
	return Config{Name: "replay-room", Conns: 3, Cap: 2, Kinds: []Kind{Health, Upload, Ignored}}
}

// ReplayBodies is replayed with every kind of body and deadline, two
// connections for one slot.
func ReplayBodies() Config {
	return Config{Name: "replay-bodies", Conns: 2, Cap: 1, Kinds: everyKind, Deadlines: true, Unread: true}
}

// Replays returns the configurations that are replayed.
func Replays() []Config { return []Config{ReplaySlots(), ReplayRoom(), ReplayBodies()} }

// DeviantReplay returns the configuration in which a deviation can be seen on
// the wire: replayed on an honest daemon it must fail. ok is false for a fault
// that shows in memory only, takes transitions away only, or makes a step change
// nothing, so that no path need go on from it.
func DeviantReplay(d Deviation) (c Config, ok bool) {
	switch d {
	case BodyHeld, MovingStalls, IdleUntimed, HookUntimed, UploadUntimed, DrainUntimed, AnswerUntimed:
		return c, false
	}
	c = d.base()
	c.Name = "deviant-" + c.Name
	return c, true
}

// base returns the configuration in which a deviation is planted: the smallest
// in which its case exists.
func (d Deviation) base() Config {
	c := ReplayBodies()
	switch d {
	case CapIgnored, LeakOnUpgrade, UpgradeUncounted, NewestClosed, IdleFirst, ServingClosed, UnreadClosed, GraceIgnored, NewcomerWaits,
		QuestionStays, EndUnannounced, UpgradeEnds:
		c = ReplaySlots()
	case UploadFirst, CompleteClosed, BodiesStay, AnswersStay, MovingStalls:
		c = ReplayRoom()
	case IdleUntimed, HookUntimed, UploadUntimed, DrainUntimed, AnswerUntimed:
		c = Live()
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// Configs returns every configuration: the specified ones, those that are
// replayed, and every deviation.
func Configs() []Config {
	out := append([]Config{Held(), Queue(), Live()}, Replays()...)
	for _, d := range Deviations() {
		out = append(out, d.base())
	}
	return out
}

// Suite returns the package's configurations with what a check of each must
// find: the golden record that the tests pin.
func Suite() model.Suite {
	s := model.Suite{
		Name:    "admission",
		Summary: "connections and bodies before they are trusted: slots, who makes room for a newcomer, deadlines, drains, upgrades",
	}
	golden := model.MustParseGolden(goldenText)
	for _, c := range Configs() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[State] { return New(c) }, expect))
	}
	return s
}
