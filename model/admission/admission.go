// Package admission models how the daemon admits connections and what a request
// may cost it before it is trusted (models facts, M17; wire facts, section 1):
// slots, who makes room for a newcomer and when, the deadlines, bodies of hooks,
// refused bodies, uploads that stall, answers that nobody reads, upgrades.
//
// Connections have no identity but their number. Bodies come in pieces, and the
// caps are counted in pieces. A deadline is an action: it may pass whenever the
// daemon waits for it. So is the grace, after which who keeps the daemon waiting
// makes room; it passes in the order in which the waits began. Which slots are
// taken is a counter of the daemon's own, apart from the connections that are
// open, so that a slot can be seen to leak.
//
// A request that the daemon has not read is a phase of its own, since whether a
// connection makes room is decided there. A client does not leave in that phase,
// and no deadline passes: both are the same as a moment later.
package admission

import (
	"fmt"
	"slices"

	"microvms/model"
)

// Config bounds one configuration of the model.
type Config struct {
	Name      string
	Conns     uint8 // connections that clients have at once, at most [MaxConns]
	Cap       uint8 // slots
	Kinds     []Kind
	Deadlines bool // deadlines pass
	Unread    bool // a control request may lie in the socket for a while
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
	if c.Conns == 0 || c.Conns > MaxConns || c.Cap == 0 || len(c.Kinds) == 0 || c.Unread && !c.has(Control) {
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
			}, model.Fairness{
				Name:  fmt.Sprintf("the grace of connection %d passes", conn),
				Match: func(a model.Action) bool { return a.ID == Grace && a.Arg[0] == conn },
			})
		}
	}
	return m
}

// The actions. What the client sees at once is an argument: the status, as an
// index of the statuses, 0 for none.
const (
	Dial        uint16 = iota // (conn) a client connects
	Arrive                    // (conn) a complete header of a control request is in the socket, unread
	Request                   // (conn, kind, status) the daemon reads a complete header
	BodyPiece                 // (conn, status) the client sends a piece of a body
	BodyEnd                   // (conn, status) it ends the body
	ReadAnswer                // (conn, status) it reads the answer that waits for it
	Finish                    // (conn, status) the handler of a request under way finishes
	Grace                     // (conn) the connection has kept the daemon waiting for the grace
	Deadline                  // (conn, status) the deadline passes that the daemon holds over the connection
	ClientClose               // (conn) the client closes
)

func actions() []model.ActionInfo {
	values := map[string][]string{"status": statusTexts[:], "kind": kindTexts[:]}
	one, both := []string{"conn"}, []string{"conn", "status"}
	return []model.ActionInfo{
		Dial:        {Name: "Dial", Params: one},
		Arrive:      {Name: "Arrive", Params: one},
		Request:     {Name: "Request", Params: []string{"conn", "kind", "status"}, Values: values},
		BodyPiece:   {Name: "BodyPiece", Params: both, Values: values},
		BodyEnd:     {Name: "BodyEnd", Params: both, Values: values},
		ReadAnswer:  {Name: "ReadAnswer", Params: both, Values: values},
		Finish:      {Name: "Finish", Params: both, Values: values},
		Grace:       {Name: "Grace", Params: one},
		Deadline:    {Name: "Deadline", Params: both, Values: values},
		ClientClose: {Name: "ClientClose", Params: one},
	}
}

func (c *Config) has(kinds ...Kind) bool {
	return slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(c.Kinds, k) })
}

// mayBeDead lists the actions of what the configuration leaves out.
func (c *Config) mayBeDead() []string {
	var dead []string
	for name, there := range map[string]bool{
		"Arrive": c.Unread, "Deadline": c.Deadlines, "Finish": c.has(Control, Hook, Upload), "ReadAnswer": c.has(Ignored),
		"BodyPiece": c.has(Hook, Refused, Upload), "BodyEnd": c.has(Hook, Refused, Upload),
	} {
		if !there {
			dead = append(dead, name)
		}
	}
	slices.Sort(dead)
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
		with := func(id uint16, step func(s *State, i uint8) Status) {
			next := s
			status := step(&next, i)
			add(id, next, uint8(status))
		}
		conn := s.Conns[i]
		switch conn.Phase {
		case Absent:
			next := s
			next.Conns[i] = Conn{Phase: Backlog, Since: s.last() + 1}
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
			if c.Unread {
				next := s
				next.Conns[i].Phase = Arrived
				add(Arrive, next)
			}
		case Arrived:
			next := s
			status := c.request(&next, i, Control)
			add(Request, next, uint8(Control), uint8(status))
		case Serving, Gone, Hooked, Uploaded:
			with(Finish, c.finish)
		case Sending:
			with(ReadAnswer, c.answered)
		case HookBody, Uploading, Draining, Unjudged:
			if conn.Got <= max(HookCap, DrainCap) {
				with(BodyPiece, c.piece)
			}
			with(BodyEnd, c.bodyEnd)
		}
		if s.ripens(i) {
			next := s
			next.Conns[i].Ripe = true
			add(Grace, next)
		}
		if c.Deadlines && c.timed(conn) {
			with(Deadline, c.deadline)
		}
		if conn.Phase != Gone && conn.Phase != Arrived {
			next := s
			c.clientClose(&next, i)
			add(ClientClose, next)
		}
	}
	return out
}
