// Package manager drives one manager with many connections at once, records what
// each of them saw, and judges the history in two ways.
//
// The first way is linearizability: the runs that one token names are an object,
// whose sequential specification is the atomic form of the checked run model
// (package model/manager). Replies are operations of it, and so are the events
// that arrived: each is an observation of the run. The second way looks at each
// connection by itself: what a reply and an event may follow, and that a
// subscriber is told the end of a run exactly once.
//
// A client may cut its connection off before a request is whole, after it, or
// when the reply has come; the manager may be killed and started again, or be
// asked to shut down. An operation whose outcome nobody knows stays open to the
// end of the history: it may take effect at any later moment, or never.
//
// The package speaks the Manager Socket Protocol only and holds nothing of the
// manager, so it judges any manager that speaks it.
package manager

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Kind is what an operation asks for.
type Kind string

// The kinds. A shutdown is asked of the process.
const (
	Run      Kind = "run"
	Attach   Kind = "attach"
	Cancel   Kind = "cancel"
	Ack      Kind = "ack"
	Read     Kind = "read" // a page of an artifact
	Shutdown Kind = "shutdown"
)

// Effectful reports whether an operation of this kind may change a run.
func (k Kind) Effectful() bool { return k != Attach && k != Read }

// Program is what the executor of a run does.
type Program string

// The programs. Each but the last two prints the text of its request first.
const (
	Quick   Program = "quick"   // exits with ExitCode
	Crash   Program = "crash"   // ends itself by a signal
	Hang    Program = "hang"    // stays until it is killed
	Missing Program = "missing" // does not exist, so its spawn fails
	Refused Program = "refused" // is asked for by a pattern that is none, so the request is refused
)

// ExitCode is what a quick program exits with.
const ExitCode = 3

// Cut says where a client breaks off. What the manager did is then unknown to it.
type Cut string

// The cuts.
const (
	NoCut     Cut = ""
	CutBefore Cut = "cut before"   // the connection is closed before the request is whole: it must have no effect
	CutAfter  Cut = "cut after"    // it is closed as soon as the request is sent
	Dropped   Cut = "reply lost"   // it is closed when the reply has arrived, which nobody looks at
	Killed    Cut = "manager died" // the manager was killed, or shut down, before the reply
)

// Operation is one request of one client, with what it saw.
type Operation struct {
	Client  int     `json:"client"` // -1: whoever stops the manager
	Conn    int     `json:"conn"`   // index of its connection
	Kind    Kind    `json:"kind"`
	Bare    bool    `json:"bare,omitempty"`  // a run without a token
	Token   string  `json:"token,omitempty"` // of a run; "" is a token like any other
	Program Program `json:"program,omitempty"`
	Text    string  `json:"text,omitempty"` // what the executor of a run prints, different for each
	Run     uint64  `json:"run,omitempty"`  // the id that is named
	Boot    int     `json:"boot"`           // of an attach: index of the boot that is named
	Field   string  `json:"field,omitempty"`
	Offset  uint64  `json:"offset,omitempty"`
	Max     uint32  `json:"max,omitempty"`
	Cut     Cut     `json:"cut,omitempty"`

	Call   int64   `json:"call"`   // nanoseconds from the history's start
	Return int64   `json:"return"` // -1: the client never learned that it returned
	Answer *Answer `json:"answer,omitempty"`
}

// Known reports whether the client saw the answer.
func (o *Operation) Known() bool { return o.Answer != nil }

// Answer is what a client saw.
type Answer struct {
	Code     string `json:"code,omitempty"` // of an error
	Run      uint64 `json:"run,omitempty"`
	Snapshot *Told  `json:"snapshot,omitempty"`
	Total    uint64 `json:"total,omitempty"`
	Data     string `json:"data,omitempty"`
}

// Told is an event, or a snapshot.
type Told struct {
	Kind  string  `json:"kind"` // in the words of the wire
	Run   uint64  `json:"run"`
	Token *string `json:"token"`
	// Of an ending.
	Cause  string `json:"cause,omitempty"`
	Code   *int64 `json:"exit_code,omitempty"`
	At     string `json:"finished_at,omitempty"`
	Stdout uint64 `json:"stdout,omitempty"` // its length
}

// Ended reports whether it tells of an ending.
func (t *Told) Ended() bool { return t.Kind == finished || t.Kind == failedToStart }

// The kinds of Told.
const (
	queued        = "queued"
	started       = "started"
	failedToStart = "failed_to_start"
	finished      = "finished"
)

// String is what is told, in few words: "finished(cancelled)".
func (t *Told) String() string {
	if t.Cause != "" {
		return t.Kind + "(" + t.Cause + ")"
	}
	return t.Kind
}

// Arrival is one message that a client read, in the order of the connection.
type Arrival struct {
	At    int64  `json:"at"`
	Op    int    `json:"op"`              // index of the operation that it answers; -1: it answers none
	Event *Told  `json:"event,omitempty"` // of an event
	Stray string `json:"stray,omitempty"` // what it is when it is neither
}

// Ending is how a connection ended.
type Ending string

// The endings.
const (
	Stayed Ending = "stayed" // to the end, and a last request was answered behind all that waited
	Cutoff Ending = "cut"    // by the client
	Closed Ending = "closed" // by the manager, with the close frame of a shutdown
	Died   Ending = "died"   // with the manager
	Lost   Ending = "lost"   // by the manager, and nobody asked for it
)

// Conn is one connection with all that arrived on it.
type Conn struct {
	Client   int       `json:"client"`
	Boot     int       `json:"boot"`  // index of the boot that it was made to
	Hello    uint64    `json:"hello"` // the boot id that it was told
	Ending   Ending    `json:"ending"`
	Arrivals []Arrival `json:"arrivals"`
}

// History is what all clients saw of the managers that one address had, in the
// order of their calls.
type History struct {
	Name       string      `json:"name"`
	Seed       uint64      `json:"seed"`
	Boots      []uint64    `json:"boots"` // boot ids, in their order
	Conns      []Conn      `json:"conns"`
	Operations []Operation `json:"operations"`
}

// boot is the index of the boot that an operation was sent to.
func (h *History) boot(o *Operation) int {
	if o.Kind == Shutdown {
		return len(h.Boots) - 1
	}
	return h.Conns[o.Conn].Boot
}

// Label is the operation in a drawing: "run a → 4".
func (o *Operation) Label() string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	switch {
	case o.Kind == Run && o.Bare:
		fmt.Fprintf(&b, " (%s)", o.Program)
	case o.Kind == Run:
		fmt.Fprintf(&b, " %q (%s)", o.Token, o.Program)
	case o.Kind != Shutdown:
		fmt.Fprintf(&b, " %d", o.Run)
	}
	if o.Field != "" {
		b.WriteString(" " + o.Field)
	}
	a := o.Answer
	switch {
	case o.Kind == Shutdown:
	case a == nil:
		b.WriteString(" → ? (" + string(o.Cut) + ")")
	case a.Code != "":
		b.WriteString(" → " + a.Code)
	case o.Kind == Run:
		fmt.Fprintf(&b, " → %d", a.Run)
	case a.Snapshot != nil:
		b.WriteString(" → " + a.Snapshot.String())
	case o.Kind == Read:
		fmt.Fprintf(&b, " → %q of %d", a.Data, a.Total)
	default:
		b.WriteString(" → {}")
	}
	return b.String()
}

// Encode renders the history as indented JSON with a final newline.
func (h *History) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return nil, fmt.Errorf("cannot encode the history: %w", err)
	}
	return append(b, '\n'), nil
}

// Decode reads what Encode wrote.
func Decode(data []byte) (*History, error) {
	var h History
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("cannot decode the history: %w", err)
	}
	return &h, nil
}
