package bootstrap

import (
	_ "embed"

	"microvms/model"
)

// goldenText is the golden record: what a check of each configuration must find.
//
//go:embed testdata/configs.golden
var goldenText string

// Held is the specified configuration: two run hooks and two control requests
// in flight, an attacker from bootstrap on, clients that vanish. Three hooks in
// a behaviour with a log of two entries are enough for a winner, a replay or a
// conflict, and a dropped request.
func Held() Config {
	return Config{
		Name: "held", HookSlots: 2, ControlSlots: 2, MaxHooks: 3, LogCap: 2, Execs: 1,
		Payloads: []Payload{HarnessFirst, HarnessSecond, AttackerFirst, AttackerSecond, Malformed},
		Bearers:  []Token{Harness, Attacker, NoToken},
		Cuts:     true,
	}
}

// HookLog is the configuration of the hook log: every hook and shape of a body,
// and more requests than the log holds.
func HookLog() Config {
	return Config{
		Name: "log", HookSlots: 2, MaxHooks: 4, LogCap: 2,
		Payloads: []Payload{HarnessFirst, AttackerFirst, Malformed, Oversized},
		Hooks:    []Hook{Ready, Validate, Suspend, Resume, Terminate},
		Cuts:     true, Liveness: true,
	}
}

// Live is the specified rule with progress: every request ends.
func Live() Config {
	c := Seeded(Specified)
	c.Name = "live"
	return c
}

// Broken is the held configuration with the deployment assumption broken: a
// hostile process runs before bootstrap. Exactly one property must fail.
func Broken() Config {
	c := Seeded(Specified)
	c.Name, c.AttackerFromStart = brokenName, true
	return c
}

const brokenName = "attacker-before-bootstrap"

// Replay is the main configuration whose whole graph is replayed on the running
// daemon, requests held at every point at which they can interleave: two hook
// requests and a control request in flight, three hooks in a behaviour.
func Replay() Config {
	return Config{
		Name: "replay", HookSlots: 2, ControlSlots: 1, MaxHooks: 3, LogCap: 2, Execs: 1,
		Payloads: []Payload{HarnessFirst, HarnessSecond, AttackerFirst},
		Bearers:  []Token{Harness, Attacker},
	}
}

// ReplayHooks is replayed for what hook requests can carry, and for clients that
// vanish: every shape of a body, two requests in flight.
func ReplayHooks() Config {
	return Config{
		Name: "replay-hooks", HookSlots: 2, MaxHooks: 2, LogCap: 1,
		Payloads: []Payload{HarnessFirst, HarnessSecond, AttackerFirst, Malformed, Oversized},
		Hooks:    []Hook{Resume, Terminate},
		Cuts:     true,
	}
}

// ReplayControls is replayed for two control requests in flight beside a
// bootstrap.
func ReplayControls() Config {
	return Config{
		Name: "replay-controls", HookSlots: 1, ControlSlots: 2, MaxHooks: 1, LogCap: 1, Execs: 1,
		Payloads: []Payload{HarnessFirst},
		Bearers:  []Token{Harness, Attacker, NoToken},
	}
}

// ReplayCuts is replayed for control requests whose client vanishes and retries.
func ReplayCuts() Config {
	return Config{
		Name: "replay-cuts", HookSlots: 1, ControlSlots: 1, MaxHooks: 2, LogCap: 1, Execs: 1,
		Payloads: []Payload{HarnessFirst, AttackerFirst},
		Bearers:  []Token{Harness, Attacker},
		Cuts:     true,
	}
}

// Replays returns the interleaved configurations that are replayed. Each bound
// is the smallest that still holds what the configuration is for, so that every
// transition can be taken on a real daemon in seconds.
func Replays() []Config {
	return []Config{Replay(), ReplayHooks(), ReplayControls(), ReplayCuts()}
}

// Sequential is the configuration whose atomic form is replayed on the daemon
// binary: one request at a time.
func Sequential() Config {
	return Config{
		Name: "sequential", HookSlots: 1, ControlSlots: 1, MaxHooks: 2, LogCap: 1, Execs: 2,
		Payloads: []Payload{HarnessFirst, HarnessSecond, AttackerFirst, AttackerSecond, Malformed, Oversized},
		Hooks:    []Hook{Ready, Validate, Suspend, Resume, Terminate},
		Bearers:  []Token{Harness, Attacker, NoToken},
	}
}

// Seeded is the configuration in which a deviation is looked for: small enough
// that all of them are checked in seconds, large enough that each is noticed.
func Seeded(d Deviation) Config {
	c := Config{
		Name: "seeded", HookSlots: 2, ControlSlots: 1, MaxHooks: 3, LogCap: 2, Execs: 1,
		Payloads: []Payload{HarnessFirst, HarnessSecond, AttackerFirst, Malformed},
		Hooks:    []Hook{Resume},
		Bearers:  []Token{Harness, Attacker, NoToken},
		Cuts:     true, Liveness: true,
		Deviation: d,
	}
	return c
}

// base returns the configuration in which a deviation is planted.
func (d Deviation) base() Config {
	var c Config
	switch d {
	case OversizedAs400, TerminateEndsService:
		c = HookLog()
	default:
		c = Seeded(d)
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// Configs returns the interleaved configurations that a check goes through: the
// specified ones, the broken assumption, and every deviation but those of
// handlers, which are the suite of model/handlers.
func Configs() []Config {
	out := append([]Config{Held(), HookLog(), Live(), Broken()}, Replays()...)
	for d := Specified + 1; d < deviations; d++ {
		if !d.Handlers() {
			out = append(out, d.base())
		}
	}
	return out
}

// Atomics returns the configurations of the atomic form: the specified one, and
// every deviation that shows without interleaving.
func Atomics() []Config {
	out := []Config{Sequential()}
	golden := model.MustParseGolden(goldenText)
	for d := Specified + 1; d < deviations; d++ {
		if c := d.atomic(); len(golden[c.Name].Violated) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// atomic returns the configuration in which a deviation is planted in the atomic form.
func (d Deviation) atomic() Config {
	c := Sequential()
	c.Name, c.Deviation = c.Name+"-"+d.Name(), d
	return c
}

// publishedOnly lists the properties of the published model that no deviation
// here violates.
var publishedOnly = []string{
	"an installed token is never replaced",
	"an accepted hook brought the installed token",
	"a control request before bootstrap is unavailable",
	"output is never released without an acknowledgement",
	"an entry was spawned once",
	"no two entries share an id",
}

// Suite returns the package's configurations with what a check of each must
// find. The counts of the published model are the publication's; the others are
// the golden record that the tests pin.
func Suite() model.Suite {
	s := model.Suite{
		Name:    "bootstrap",
		Summary: "one-shot bootstrap, authorization and hook log at the granularity at which requests interleave",
	}
	golden := model.MustParseGolden(goldenText)
	for _, c := range Configs() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		if c.Name == brokenName {
			expect.Deviation = "a hostile process runs before bootstrap (deployment assumption broken)"
		}
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[State] { return New(c) }, expect))
	}
	for _, c := range Atomics() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[State] { return NewAtomic(c) }, expect))
	}
	s.NotSeeded = map[string]string{}
	for _, name := range publishedOnly {
		s.NotSeeded[name] = "only the published model's own audit variables could break it; the interleaved form states the same rule over what was done, and plants the faults"
	}
	for _, p := range m1Published {
		s.Cases = append(s.Cases, model.NewCase(p.config.Name, func() model.Model[M1State] { return NewM1(p.config) }, p.expect))
	}
	return s
}
