// Package handlers models the workload handlers that an image brings for the
// platform's hooks (wire facts, section 4.3): what the hook log keeps of them,
// one at a time, the budget that ends what hangs, a terminate and a suspend that
// arrive while a handler runs.
//
// It is the model of package bootstrap with handlers: a hook request is received
// (it enters the log, or is dropped from a full one), decided, waits for its turn,
// runs its handler to the end or to the end of its budget, and is answered. The
// configurations and their faults are a suite of their own, since none of them
// can be seen in an image without handlers.
package handlers

import (
	_ "embed"

	"microvms/model"
	"microvms/model/bootstrap"
)

// goldenText is the golden record: what a check of each configuration must find.
//
//go:embed testdata/configs.golden
var goldenText string

// Held is the specified configuration: two hook requests and a client's control
// request in flight, and more hook requests than the log keeps.
func Held() bootstrap.Config {
	return bootstrap.Config{
		Name: "held", HookSlots: 2, ControlSlots: 1, MaxHooks: 4, LogCap: 2, Execs: 1,
		Payloads: []bootstrap.Payload{bootstrap.HarnessFirst, bootstrap.HarnessSecond, bootstrap.AttackerFirst},
		Hooks:    []bootstrap.Hook{bootstrap.Ready, bootstrap.Resume},
		Bearers:  []bootstrap.Token{bootstrap.Harness},
		Handlers: true, Liveness: true,
	}
}

// Deadlines is the configuration of handlers that may hang: each hook that comes
// at an awkward moment, and a budget that ends what hangs.
func Deadlines() bootstrap.Config {
	return bootstrap.Config{
		Name: "deadlines", HookSlots: 2, MaxHooks: 4, LogCap: 3,
		Payloads: []bootstrap.Payload{bootstrap.HarnessFirst, bootstrap.HarnessSecond, bootstrap.AttackerFirst},
		Hooks:    []bootstrap.Hook{bootstrap.Suspend, bootstrap.Terminate},
		Handlers: true, Deadlines: true, Liveness: true,
	}
}

// Replay is replayed with real handlers: two hook requests in flight, whose
// handlers end by themselves or at the end of their budget, and one that is
// dropped.
func Replay() bootstrap.Config {
	return bootstrap.Config{
		Name: "replay", HookSlots: 2, MaxHooks: 3, LogCap: 2,
		Payloads: []bootstrap.Payload{bootstrap.HarnessFirst, bootstrap.AttackerFirst},
		Hooks:    []bootstrap.Hook{bootstrap.Suspend, bootstrap.Terminate},
		Handlers: true, Deadlines: true,
	}
}

// logDeviations are the faults of the hook log that are planted here as well:
// what a full log drops has no handler.
var logDeviations = []bootstrap.Deviation{bootstrap.LogKeepsNewest, bootstrap.LogUncapped, bootstrap.DroppedNotCounted}

// Configs returns the configurations that a check goes through: the specified
// ones, and every deviation of handlers and of the cap of the log.
func Configs() []bootstrap.Config {
	out := []bootstrap.Config{Held(), Deadlines(), Replay()}
	for _, d := range bootstrap.Deviations() {
		if d.Handlers() {
			out = append(out, planted(d))
		}
	}
	for _, d := range logDeviations {
		out = append(out, planted(d))
	}
	return out
}

// planted returns the configuration in which a deviation is planted.
func planted(d bootstrap.Deviation) bootstrap.Config {
	c := Held()
	switch d {
	case bootstrap.HandlerUnbounded, bootstrap.DeadlineHidden, bootstrap.TerminateCutsHandler, bootstrap.SuspendSkipsHandler:
		c = Deadlines()
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// elsewhere are the properties that hold with handlers as they do without, and
// whose faults the suite bootstrap plants.
var elsewhere = []string{
	"a first bootstrap installs its token and environment and answers 200",
	"token and environment change only in one install out of nothing",
	"an environment is installed if and only if a token is",
	"a repeated bootstrap is answered 200 and changes nothing",
	"a conflicting bootstrap is answered 409 and changes nothing",
	"a control request before bootstrap is answered 503",
	"a control request with the installed token is accepted",
	"an exec is registered once, by an authorized start that is served",
	"a served read is answered by whether the exec is registered",
	"a child saw the winner's environment",
	"no child saw the token",
	"a kept request is the log's last entry",
	"a hook other than run is answered 200 in every state",
	"a terminate hook leaves the daemon open to the client",
	"each control request in slot 0 ends",
}

// Suite returns the package's configurations with what a check of each must
// find: the golden record that the tests pin.
func Suite() model.Suite {
	s := model.Suite{
		Name:    "handlers",
		Summary: "workload handlers of hooks: the log that keeps their outcomes, one at a time, a budget, terminate and suspend meanwhile",
	}
	s.NotSeeded = map[string]string{}
	for _, name := range elsewhere {
		s.NotSeeded[name] = "the same rule as without handlers, and the suite bootstrap plants its faults"
	}
	golden := model.MustParseGolden(goldenText)
	for _, c := range Configs() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[bootstrap.State] { return bootstrap.New(c) }, expect))
	}
	return s
}
