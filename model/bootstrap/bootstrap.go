// Package bootstrap models how the daemon of a MicroVM comes to trust its
// caller, at the granularity at which requests interleave (models facts, M1 and
// M16; wire facts, sections 1 and 4).
//
// The platform has no credential to present, and it reaches the daemon from
// 127.0.0.1, as every process inside the VM does. The defence is that bootstrap
// succeeds once: the first run hook installs its token and environment together,
// a repetition changes nothing, another token is refused. The model shows that
// this is enough as long as nothing hostile runs before bootstrap, and what
// happens when that deployment assumption is broken.
//
// A hook request is received (it enters the hook log), decided (under the lock:
// install, replay or conflict) and answered. A control request is authorized
// (its bearer is judged), served and answered. Between any two of these steps
// another request may take one of its own, and the client may vanish. The
// control operation is an exec start, whose child sees the launch environment,
// so that "who sees the token sees the winner's environment" is something that
// an outsider can observe, and a read of that exec.
package bootstrap

import (
	"fmt"

	"microvms/model"
)

// Config bounds one configuration of the model. The zero value of a field
// leaves the feature out.
type Config struct {
	Name string // the configuration's name in reports

	HookSlots    int // hook requests in flight at once, at most [MaxSlots]
	ControlSlots int // control requests in flight at once, at most [MaxSlots]
	MaxHooks     int // hook requests received in one behaviour, at most [LogSize]
	LogCap       int // entries that the hook log holds, at most [LogSize]; the daemon's own cap is 64
	Execs        int // exec ids that starts and reads name, at most [MaxExecs]

	Payloads []Payload // what run hooks may carry
	Hooks    []Hook    // the hooks other than run that are called
	Bearers  []Token   // what control requests present; NoToken stands for an absent or malformed header

	Cuts     bool // clients may vanish before their answer
	Handlers bool // the image brings a workload handler for run, suspend, resume and terminate
	Liveness bool // state that every request ends

	// Deadlines lets a handler reach the end of its budget; then it may also hang.
	Deadlines bool

	// AttackerFromStart breaks the deployment assumption: a hostile process runs inside the VM before bootstrap.
	// Otherwise it runs from bootstrap on.
	AttackerFromStart bool

	Deviation Deviation // the deliberate fault that is planted; Specified plants none
}

// New returns the model of one configuration. It panics when a bound is out of
// range, since a configuration is written by hand beside its expectation.
func New(c Config) model.Model[State] {
	c.check()
	m := model.Model[State]{
		Name:       "bootstrap",
		Config:     c.Name,
		Actions:    c.actions(),
		MayBeDead:  c.mayBeDead(),
		Init:       func(out []State) []State { return append(out, State{}) },
		Next:       c.next,
		Properties: c.properties(),
		Fields:     Fields,
	}
	if c.Handlers {
		m.Name = "handlers" // a suite of its own: model/handlers
	}
	if c.Liveness {
		m.Fairness = c.fairness()
	}
	return m
}

func (c *Config) check() {
	for _, b := range []struct {
		name         string
		value, limit int
	}{
		{"HookSlots", c.HookSlots, MaxSlots},
		{"ControlSlots", c.ControlSlots, MaxSlots},
		{"MaxHooks", c.MaxHooks, LogSize},
		{"LogCap", c.LogCap, LogSize},
		{"Execs", c.Execs, MaxExecs},
	} {
		if b.value < 0 || b.value > b.limit {
			panic(fmt.Sprintf("bootstrap: internal error: %s of configuration %q is %d, want 0 to %d", b.name, c.Name, b.value, b.limit))
		}
	}
}

// attackerActive says whether the hostile process runs: from bootstrap on, or
// from the start where the deployment assumption is broken.
func (c *Config) attackerActive(s *State) bool { return c.AttackerFromStart || s.Token != NoToken }

// next appends the steps of s: for each slot in turn the arrivals, the daemon's
// progress, and the client's disappearance.
func (c *Config) next(s State, out []model.Step[State]) []model.Step[State] {
	if slot, free := freeHook(&s, c.HookSlots); free && int(s.Logged)+int(s.Dropped) < c.MaxHooks {
		out = c.receiveSteps(&s, slot, out)
	}
	for slot := range c.HookSlots {
		out = c.hookSteps(&s, slot, out)
	}
	if slot, free := freeControl(&s, c.ControlSlots); free {
		out = c.authorizeSteps(&s, slot, out)
	}
	for slot := range c.ControlSlots {
		out = c.controlSteps(&s, slot, out)
	}
	return out
}

// freeHook returns the lowest idle slot. Slots are names without meaning, so
// offering one of them loses no behaviour.
func freeHook(s *State, slots int) (int, bool) {
	for i := range slots {
		if s.Hooks[i].Phase == HookIdle {
			return i, true
		}
	}
	return 0, false
}

func freeControl(s *State, slots int) (int, bool) {
	for i := range slots {
		if s.Controls[i].Phase == ControlIdle {
			return i, true
		}
	}
	return 0, false
}
