package admission

import "microvms/model"

var everyKind = []Kind{Health, Control, Upgrade, Hook, Refused, Declared, TooLarge}

// Held is the specified rule: three connections for two slots, and every kind of
// request on each.
func Held() Config {
	return Config{Name: "held", Conns: 3, Cap: 2, Kinds: everyKind, Deadlines: true}
}

// Live is the specified rule with progress: nobody who is slow keeps a slot.
func Live() Config {
	return Config{Name: "live", Conns: 2, Cap: 1, Kinds: everyKind, Deadlines: true, Live: true}
}

// ReplaySlots is replayed on the daemon: three connections for two slots.
func ReplaySlots() Config {
	return Config{Name: "replay-slots", Conns: 3, Cap: 2, Kinds: []Kind{Health, Control, Upgrade}, Deadlines: true}
}

// ReplayBodies is replayed with every kind of body and deadline, two
// connections for one slot.
func ReplayBodies() Config {
	return Config{Name: "replay-bodies", Conns: 2, Cap: 1, Kinds: everyKind, Deadlines: true}
}

// Replays returns the configurations that are replayed.
func Replays() []Config { return []Config{ReplaySlots(), ReplayBodies()} }

// DeviantReplay returns the configuration in which a deviation can be seen on
// the wire: replayed on an honest daemon it must fail. ok is false for a fault
// that shows in memory only, or takes transitions away only.
func DeviantReplay(d Deviation) (c Config, ok bool) {
	switch d {
	case BodyHeld, IdleUntimed, HookUntimed, DrainUntimed:
		return c, false
	case CapIgnored, LeakOnUpgrade, UpgradeUncounted, NewestClosed, IdleFirst, ServingClosed, NewcomerWaits:
		c = ReplaySlots()
	default:
		c = ReplayBodies()
	}
	c.Name, c.Deviation = "deviant-"+d.Name(), d
	return c, true
}

// base returns the configuration in which a deviation is planted.
func (d Deviation) base() Config {
	c := Held()
	switch d {
	case IdleUntimed, HookUntimed, DrainUntimed:
		c = Live()
	case LeakOnUpgrade, UpgradeUncounted:
		c = ReplaySlots()
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// Configs returns every configuration: the specified ones, those that are
// replayed, and every deviation.
func Configs() []Config {
	out := append([]Config{Held(), Live()}, Replays()...)
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
		Summary: "connections and bodies before they are trusted: slots, deadlines, drains, upgrades",
	}
	golden := goldenRecord()
	for _, c := range Configs() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[State] { return New(c) }, expect))
	}
	return s
}
