// Package admission models how the daemon admits connections and what a request
// may cost it before it is trusted (models facts, M17; wire facts, section 1):
// slots, the header deadline, bodies of hooks, refused bodies, upgrades.
//
// Connections have no identity but their number. Bodies come in pieces, and the
// caps are counted in pieces. A deadline is an action: it may pass whenever the
// daemon waits for it. Which slots are taken is a counter of the daemon's own,
// apart from the connections that are open, so that a slot can be seen to leak.
package admission

import (
	"fmt"

	"microvms/model"
)

// Config bounds one configuration of the model.
type Config struct {
	Name      string
	Conns     uint8 // connections that clients have at once, at most [MaxConns]
	Cap       uint8 // slots
	Kinds     []Kind
	Deadlines bool // deadlines pass
	Live      bool // state that slow connections end

	Deviation Deviation // the deliberate fault that is planted; Specified plants none
}

// HookCap and DrainCap are the caps on a hook's body and on what is read of a
// refused one, in pieces.
const (
	HookCap  = 2
	DrainCap = 2
)

// New returns the model of one configuration. It panics when a bound is out of
// range, since a configuration is written by hand beside its expectation.
func New(c Config) model.Model[State] {
	if c.Conns == 0 || c.Conns > MaxConns || c.Cap == 0 || len(c.Kinds) == 0 {
		panic(fmt.Sprintf("admission: internal error: a bound of configuration %q is out of range", c.Name))
	}
	m := model.Model[State]{
		Name: "admission", Config: c.Name, Actions: actions(), MayBeDead: c.mayBeDead(),
		Init: func(out []State) []State { return append(out, State{}) }, Next: c.next, CheckDeadlock: true,
		Properties: c.properties(), Fields: Fields,
	}
	if c.Live {
		for conn := range c.Conns {
			m.Fairness = append(m.Fairness, model.Fairness{
				Name:  fmt.Sprintf("the deadlines of connection %d pass", conn),
				Match: func(a model.Action) bool { return a.ID == Deadline && a.Arg[0] == conn },
			})
		}
	}
	return m
}

// The actions. What the client sees at once is an argument: the status, as an
// index of the statuses, 0 for none.
const (
	Dial        uint16 = iota // (conn) a client connects
	Request                   // (conn, kind, status) it sends a complete header
	BodyPiece                 // (conn, status) it sends a piece of a body
	BodyEnd                   // (conn, status) it ends the body
	Finish                    // (conn, status) the handler of a request under way finishes
	Deadline                  // (conn, status) the deadline passes that the daemon holds over the connection
	ClientClose               // (conn) the client closes
)

func actions() []model.ActionInfo {
	values := map[string][]string{"status": statusTexts[:], "kind": kindTexts[:]}
	both := []string{"conn", "status"}
	return []model.ActionInfo{
		Dial:        {Name: "Dial", Params: []string{"conn"}},
		Request:     {Name: "Request", Params: []string{"conn", "kind", "status"}, Values: values},
		BodyPiece:   {Name: "BodyPiece", Params: both, Values: values},
		BodyEnd:     {Name: "BodyEnd", Params: both, Values: values},
		Finish:      {Name: "Finish", Params: both, Values: values},
		Deadline:    {Name: "Deadline", Params: both, Values: values},
		ClientClose: {Name: "ClientClose", Params: []string{"conn"}},
	}
}

func (c *Config) has(k Kind) bool {
	for _, have := range c.Kinds {
		if have == k {
			return true
		}
	}
	return false
}

// mayBeDead lists the actions of what the configuration leaves out.
func (c *Config) mayBeDead() []string {
	var dead []string
	if !c.Deadlines {
		dead = append(dead, "Deadline")
	}
	if !c.has(Hook) && !c.has(Refused) {
		dead = append(dead, "BodyPiece", "BodyEnd")
	}
	if !c.has(Control) {
		dead = append(dead, "Finish")
	}
	return dead
}

// next appends the steps of each connection in turn. A step includes what the
// daemon does by itself: it closes what ended and admits who waits.
func (c *Config) next(s State, out []model.Step[State]) []model.Step[State] {
	for i := range c.Conns {
		add := func(id uint16, next State, args ...uint8) {
			c.admit(&next)
			out = append(out, model.Step[State]{Action: model.Act(id, append([]uint8{i}, args...)...), State: next})
		}
		next := s
		conn := &next.Conns[i]
		switch s.Conns[i].Phase {
		case Absent:
			*conn = Conn{Phase: Backlog, Since: s.last() + 1}
			add(Dial, next)
			continue
		case Backlog:
			continue // it may only wait
		case Waiting:
			for _, k := range c.Kinds {
				next := s
				status := c.request(&next, i, k)
				add(Request, next, uint8(k), uint8(status))
			}
		case Serving, Gone:
			status := c.finish(&next, i)
			add(Finish, next, uint8(status))
		case HookBody, Draining, Unjudged:
			if s.Conns[i].Got <= max(HookCap, DrainCap) {
				status := c.piece(&next, i)
				add(BodyPiece, next, uint8(status))
			}
			next := s
			status := c.bodyEnd(&next, i)
			add(BodyEnd, next, uint8(status))
		}
		if c.Deadlines && c.timed(s.Conns[i]) {
			next := s
			status := c.deadline(&next, i)
			add(Deadline, next, uint8(status))
		}
		if s.Conns[i].Phase != Gone {
			next := s
			c.clientClose(&next, i)
			add(ClientClose, next)
		}
	}
	return out
}
