package admission

import (
	"fmt"

	"microvms/model"
)

// MaxConns bounds the state.
const MaxConns = 3

// Phase is where a connection stands.
type Phase uint8

// The phases.
const (
	Absent    Phase = iota
	Backlog         // connected, and not admitted
	Waiting         // admitted; no complete header has come since the last answer
	Arrived         // likewise, and a complete header is in the socket, unread
	Serving         // a control request is under way
	Gone            // likewise, and the client has closed
	HookBody        // the body of a hook is read
	Hooked          // that body is complete, and its handler is under way
	Uploading       // the body of an authorized request is read
	Uploaded        // likewise complete
	Draining        // a refusal went out, and the rest of the body is read to be thrown away
	Sending         // an answer that needed no credential waits for a client that does not read
	Tunnel          // upgraded
	Unjudged        // a body is read before the caller is judged (a deviation)
)

var phaseTexts = [...]string{"absent", "backlog", "waiting", "arrived", "serving", "gone", "hook-body", "hooked", "uploading", "uploaded", "draining", "sending", "tunnel", "unjudged"}

// String returns the phase as a word.
func (p Phase) String() string { return phaseTexts[p] }

// Open reports whether a connection in the phase is admitted.
func (p Phase) Open() bool { return p > Backlog }

// Complete reports whether a body is complete whose request is not answered.
func (p Phase) Complete() bool { return p == Hooked || p == Uploaded }

// Keeps reports whether a connection in the phase keeps the daemon waiting: for
// a header, for bytes of a body, or for its answer to be read. Beyond the grace
// such a connection can make room.
func (p Phase) Keeps() bool {
	switch p {
	case Waiting, Arrived, HookBody, Uploading, Draining, Sending:
		return true
	}
	return false
}

// Kind is a request.
type Kind uint8

// The kinds.
const (
	Health   Kind = iota // answered at once
	Control              // authorized; under way until its handler finishes
	Upgrade              // authorized; becomes a tunnel
	Hook                 // with a body in pieces
	Upload               // authorized, with a body in pieces, which is refused for its form when it has ended
	Refused              // without the bearer, with a body in pieces
	Declared             // without the bearer, with a declared body at the drain cap
	TooLarge             // authorized, with a declared body above the body cap
	Ignored              // like Health, from a client that does not read the answer
	kinds
)

var kindTexts = [kinds]string{"health", "control", "upgrade", "hook", "upload", "refused", "declared", "too-large", "ignored"}

// String returns the kind as a word.
func (k Kind) String() string { return kindTexts[k] }

// Status is what a client is answered.
type Status uint8

// The statuses.
const (
	NoStatus Status = iota
	OK
	Switching
	Malformed
	Unauthorized
	Timeout
	TooMuch
)

var statusTexts = [...]string{"-", "200", "101", "400", "401", "408", "413"}

// String returns the status code, "-" for none.
func (s Status) String() string { return statusTexts[s] }

// Conn is a connection.
type Conn struct {
	Phase  Phase
	Served bool  // it was answered before
	Ripe   bool  // it has kept the daemon waiting for longer than the grace
	Ending bool  // the answer that it was sent announces its end
	Since  uint8 // its place among those that wait for a slot, or keep the daemon waiting: lower is longer
	Got    uint8 // pieces of its body that were read
	Held   uint8 // of those, held in memory for a caller that is refused
}

// State is a state of the model.
type State struct {
	Conns [MaxConns]Conn
	Slots uint8 // that the daemon counts as taken
	Asked uint8 // the connection that was asked to make room and has a request in the socket, from 1; 0 for none
}

// open returns the number of admitted connections.
func (s *State) open() uint8 {
	n := uint8(0)
	for _, c := range s.Conns {
		if c.Phase.Open() {
			n++
		}
	}
	return n
}

// any reports whether a connection is in the phase.
func (s *State) any(p Phase) bool {
	for _, c := range s.Conns {
		if c.Phase == p {
			return true
		}
	}
	return false
}

// last returns the last place among those that wait.
func (s *State) last() uint8 {
	n := uint8(0)
	for _, c := range s.Conns {
		n = max(n, c.Since)
	}
	return n
}

// ripens reports whether the grace of a connection may pass next: waits begin
// and end in one order, since the grace is the same for all.
func (s *State) ripens(i uint8) bool {
	conn := s.Conns[i]
	if !conn.Phase.Keeps() || conn.Ripe {
		return false
	}
	for _, c := range s.Conns {
		if c.Phase.Keeps() && !c.Ripe && c.Since < conn.Since {
			return false
		}
	}
	return true
}

// renumber makes places dense, so that equal orders are equal states.
func (s *State) renumber() {
	next := uint8(1)
	for place := uint8(1); place <= 2*MaxConns; place++ {
		for i := range s.Conns {
			if s.Conns[i].Since == place {
				s.Conns[i].Since = next
				next++
				break
			}
		}
	}
}

// Fields renders a state for people.
func Fields(s State) []model.Field {
	out := []model.Field{{Name: "slots", Value: fmt.Sprint(s.Slots)}, {Name: "asked", Value: "-"}}
	if s.Asked > 0 {
		out[1].Value = fmt.Sprint(s.Asked - 1)
	}
	for i, c := range s.Conns {
		out = append(out, model.Field{Name: fmt.Sprintf("conn %d", i), Value: fmt.Sprintf("%s served=%v ripe=%v ending=%v place=%d got=%d held=%d",
			c.Phase, c.Served, c.Ripe, c.Ending, c.Since, c.Got, c.Held)})
	}
	return out
}
