package manager

import (
	"slices"

	"microvms/model"
)

// Config is one configuration of the run model.
type Config struct {
	Name      string
	Deviation Deviation

	Runs        uint8 // ids of one boot
	Conns       uint8
	Permits     uint8   // 1 when zero
	Tokens      []uint8 // in ascending order, at least one
	Kinds       []Kind  // nil: Plain and Invalid
	Restarts    uint8
	Disconnects uint8 // of each connection
	// NoTime leaves out deadlines and expiry.
	NoTime bool
	// Settled composes each act from outside with all that the manager does by itself after it, which is what can be
	// seen of a manager that nothing holds back. An executor's own exit stays an act from outside.
	Settled bool
	// Eager composes each act with the clients' reading, too: for spaces in which unread messages show nothing new.
	Eager bool
	// Symmetric takes connections that differ by their number only for one.
	Symmetric bool
	// Liveness judges what must come about.
	Liveness bool
}

func (c *Config) permits() uint8 {
	if c.Permits == 0 {
		return 1
	}
	return c.Permits
}

func (c *Config) kinds() []Kind {
	if c.Kinds == nil {
		return []Kind{Plain, Invalid}
	}
	return c.Kinds
}

// crowded reports whether two runs can be live at once.
func (c *Config) crowded() bool { return c.Runs > 1 && (len(c.Tokens) > 1 || c.Tokens[0] == 0) }

func (c *Config) hasToken() bool { return c.Tokens[len(c.Tokens)-1] != 0 }

func (c *Config) hasBig() bool { return slices.Contains(c.kinds(), Big) }

func cost(k Kind) uint8 {
	if k == Big {
		return 2
	}
	return 1
}

// Initial returns the initial state: a fresh manager and connected clients.
func (c *Config) Initial() State {
	s := State{Free: c.permits()}
	for i := range c.Conns {
		s.Conns[i].Up = true
	}
	return s
}

// New returns the model of a configuration.
func New(c Config) model.Model[State] {
	m := model.Model[State]{
		Name:    "manager",
		Config:  c.Name,
		Actions: Actions(),
		Init:    func(out []State) []State { return append(out, c.Initial()) },
		Next:    c.next,
		// A manager without work may stand for ever, but only when everything is read.
		Terminal:   func(s State) bool { return !s.unfinished() },
		MayBeDead:  c.unreachable(),
		Properties: c.properties(),
		Fields:     fields,
	}
	if c.Symmetric {
		m.Symmetry = &model.Symmetry[State]{
			Canonical: canonical,
			Generators: []func(State) State{func(s State) State {
				s.Conns[0], s.Conns[1] = s.Conns[1], s.Conns[0]
				return s
			}},
		}
	}
	if c.Liveness {
		m.Fairness = c.fairness()
	}
	return m
}

// unreachable names the actions that the bounds of the configuration exclude.
func (c *Config) unreachable() []string {
	dead := []string{"Subscribe"}
	if c.Settled {
		dead = append(dead, "Reject", "Grant", "SpawnOk", "SpawnFail", "AbortSpawn", "Finish")
	}
	if c.NoTime {
		dead = append(dead, "Deadline", "Expire")
	}
	if c.Restarts == 0 {
		dead = append(dead, "Restart")
	}
	if c.Disconnects == 0 {
		dead = append(dead, "Disconnect")
		if c.Restarts == 0 {
			dead = append(dead, "Reconnect")
		}
	}
	if !slices.Contains(c.kinds(), Invalid) {
		dead = append(dead, "Reject")
	}
	if c.Eager {
		dead = append(dead, "Deliver")
	}
	return dead
}

// canonical orders the connections.
func canonical(s State) State {
	if less(&s.Conns[1], &s.Conns[0]) {
		s.Conns[0], s.Conns[1] = s.Conns[1], s.Conns[0]
	}
	return s
}

func less(a, b *Conn) bool {
	x, y := a.rank(), b.rank()
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

const viewBytes = 7

// rank writes a connection as bytes, so that connections have an order.
func (c *Conn) rank() (out [3 + outboxCap + viewBytes*MaxRuns]uint8) {
	out[0], out[1], out[2] = bit(c.Up), c.Drops, c.Len
	for i, item := range c.Out {
		out[3+i] = uint8(item)
	}
	for i, v := range c.View {
		b := [viewBytes]uint8{uint8(v.Sub), bit(v.Foreign), uint8(v.Level), bit(v.StartOwed), v.Ends, v.EndsOwed, bit(v.Snapshot)}
		copy(out[3+outboxCap+viewBytes*i:], b[:])
	}
	return out
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// fairness lets every run go on by itself, and every client read.
func (c *Config) fairness() []model.Fairness {
	own := map[uint16]bool{
		ActReject: true, ActGrant: true, ActSpawnOk: true, ActSpawnFail: true, ActAbortSpawn: true, ActExecutorExit: true,
		ActFinish: true,
	}
	var out []model.Fairness
	for i := range c.Runs {
		out = append(out, model.Fairness{
			Name:  "a run goes on",
			Match: func(a model.Action) bool { return own[a.ID] && a.Arg[0] == i },
		})
	}
	for i := range c.Conns {
		out = append(out, model.Fairness{
			Name:  "a client reads",
			Match: func(a model.Action) bool { return a.ID == ActDeliver && a.Arg[0] == i },
		})
	}
	return out
}
