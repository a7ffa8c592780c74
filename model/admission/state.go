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
	Absent   Phase = iota
	Backlog        // connected, and not admitted
	Waiting        // admitted; no complete header has come since the last answer
	Serving        // a control request is under way
	Gone           // likewise, and the client has closed
	HookBody       // the body of a hook is read
	Draining       // a refusal went out, and the rest of the body is read to be thrown away
	Tunnel         // upgraded
	Unjudged       // a body is read before the caller is judged (a deviation)
)

var phaseTexts = [...]string{"absent", "backlog", "waiting", "serving", "gone", "hook-body", "draining", "tunnel", "unjudged"}

// String returns the phase as a word.
func (p Phase) String() string { return phaseTexts[p] }

// Open reports whether a connection in the phase is admitted.
func (p Phase) Open() bool { return p > Backlog }

// Kind is a request.
type Kind uint8

// The kinds.
const (
	Health   Kind = iota // answered at once
	Control              // authorized; under way until its handler finishes
	Upgrade              // authorized; becomes a tunnel
	Hook                 // with a body in pieces
	Refused              // without the bearer, with a body in pieces
	Declared             // without the bearer, with a declared body at the drain cap
	TooLarge             // authorized, with a declared body above the body cap
	kinds
)

var kindTexts = [kinds]string{"health", "control", "upgrade", "hook", "refused", "declared", "too-large"}

// String returns the kind as a word.
func (k Kind) String() string { return kindTexts[k] }

// Status is what a client is answered.
type Status uint8

// The statuses.
const (
	NoStatus Status = iota
	OK
	Switching
	Unauthorized
	Timeout
	TooMuch
)

var statusTexts = [...]string{"-", "200", "101", "401", "408", "413"}

// String returns the status code, "-" for none.
func (s Status) String() string { return statusTexts[s] }

// Conn is a connection.
type Conn struct {
	Phase  Phase
	Served bool  // it was answered before
	Since  uint8 // its place among those that wait, for a slot or a header: lower is longer
	Got    uint8 // pieces of its body that were read
	Held   uint8 // of those, held in memory for a caller that is refused
}

// State is a state of the model.
type State struct {
	Conns [MaxConns]Conn
	Slots uint8 // that the daemon counts as taken
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

// last returns the last place among those that wait.
func (s *State) last() uint8 {
	n := uint8(0)
	for _, c := range s.Conns {
		n = max(n, c.Since)
	}
	return n
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
	out := []model.Field{{Name: "slots", Value: fmt.Sprint(s.Slots)}}
	for i, c := range s.Conns {
		out = append(out, model.Field{Name: fmt.Sprintf("conn %d", i), Value: fmt.Sprintf("%s served=%v place=%d got=%d held=%d", c.Phase, c.Served, c.Since, c.Got, c.Held)})
	}
	return out
}
