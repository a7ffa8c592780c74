// Package histories drives one daemon with many clients at once, records what
// each of them saw, and judges the history for linearizability with the checked
// models' own transition functions as sequential specification (design, section
// 3.3).
//
// A client may break a request off before it is whole, close its connection
// right after sending it, or throw the answer away. An operation whose outcome
// is unknown stays open to the end of the history: the judge may let it take
// effect at any later moment, or never.
//
// The package speaks wire version 1 only and holds nothing of the daemon, so it
// judges any daemon that speaks it.
package histories

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// Kind is what an operation asks for.
type Kind string

const (
	Hook   Kind = "hook"   // the run hook with a token and an environment
	Start  Kind = "start"  // an exec, by id
	Poll   Kind = "poll"   // its phase and result
	Ack    Kind = "ack"    // its release
	Kill   Kind = "kill"   // its end
	Stdin  Kind = "stdin"  // one unit of input, or the end of input
	Stream Kind = "stream" // its output from an offset, up to a number of bytes or the exit event
	Health Kind = "health" // is a token installed, how many execs, is one running
	Procs  Kind = "procs"  // the registered ids
)

// Effectful reports whether an operation of this kind may change the daemon.
func (k Kind) Effectful() bool {
	switch k {
	case Hook, Start, Ack, Kill, Stdin, Put, TarUp, Send, Hangup, Cutoff, GuestEnd:
		return true
	}
	return false
}

// Child is the program that a start runs. Each prints whole units of [Unit]
// bytes, so that output maps to a count.
type Child string

const (
	Quick   Child = "quick"   // greets and exits with code 3
	Echo    Child = "echo"    // greets, then prints each line of stdin as one unit; exits with code 3 at the end of input
	Sleeper Child = "sleeper" // greets and stays until it is killed
	Broken  Child = "broken"  // does not exist, so its spawn fails
	Nobody  Child = "nobody"  // is started as a user that no file has, so it is refused
)

// Unit is the number of bytes of one unit of output, and ExitCode what a child exits with by itself.
const (
	Unit     = 4
	ExitCode = 3
)

// User says which user a start asks for.
type User string

const (
	AnyUser     User = ""        // none: the daemon's choice
	OwnUser     User = "own"     // the daemon's own, by the name or the digits that its machine has for it
	UnknownUser User = "unknown" // one that no file has: such a start is refused unless its id is known already
)

// unknownUser is the name that no file has.
const unknownUser = "no-such-user-of-this-name"

// ownUser returns how a start names the user that this process runs as: by name where a row of its own has it,
// else by digits, which resolve without a row.
func ownUser() string {
	id := strconv.Itoa(os.Getuid())
	if row, err := user.LookupId(id); err == nil && row.Gid == strconv.Itoa(os.Getgid()) {
		return row.Username
	}
	return id
}

// argv returns the command line of the child. The greeting is one unit that shows the launch environment: "env1".
// "exec" keeps the group to one process.
func (c Child) argv() []string {
	script := `printf "env$LAUNCH"; exit 3`
	switch c {
	case Echo:
		script = `printf "env$LAUNCH"; while IFS= read -r line; do printf %s "$line"; done; exit 3`
	case Sleeper:
		script = `printf "env$LAUNCH"; exec sleep 3600`
	case Broken:
		return []string{"/nonexistent/broken"}
	}
	return []string{"/bin/sh", "-c", script}
}

// Operation is one request of one client, with what it saw. Operations print
// and parse (as JSON), so a history can be saved, judged again and drawn.
type Operation struct {
	Client int    `json:"client"`
	Kind   Kind   `json:"kind"`
	Exec   string `json:"exec,omitempty"`
	Token  string `json:"token,omitempty"` // the bearer, or the token that a hook brings; made up for the run, worth nothing elsewhere
	Env    int    `json:"env,omitempty"`   // which environment a hook brings
	Child  Child  `json:"child,omitempty"`
	User   User   `json:"user,omitempty"`
	Text   string `json:"text,omitempty"` // the unit that a stdin request brings, different for each
	EOF    bool   `json:"eof,omitempty"`
	Offset uint64 `json:"offset,omitempty"`
	Take   uint64 `json:"take,omitempty"` // a stream is read until this many bytes or the exit event
	Cut    Cut    `json:"cut,omitempty"`

	Root  string          `json:"root,omitempty"`  // the folder that the files of a history lie in
	Path  string          `json:"path,omitempty"`  // below Root
	Files map[string]Fill `json:"files,omitempty"` // what a put or an upload writes, by path

	Tunnel   string `json:"tunnel,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	Port     int    `json:"port,omitempty"` // of a guest: which of the history's

	Call   int64   `json:"call"`   // nanoseconds from the history's start
	Return int64   `json:"return"` // -1: the client never learned that it returned
	Answer *Answer `json:"answer,omitempty"`
}

// Known reports whether the client saw the answer.
func (o *Operation) Known() bool { return o.Answer != nil }

// Answer is what a client saw.
type Answer struct {
	Status       int      `json:"status"`
	Code         string   `json:"code,omitempty"`
	Phase        string   `json:"phase,omitempty"`
	ExitCode     *int32   `json:"exit_code,omitempty"`
	Signal       *int32   `json:"signal,omitempty"`
	TimedOut     bool     `json:"timed_out,omitempty"`
	Stdout       string   `json:"stdout,omitempty"`
	Outcome      bool     `json:"outcome,omitempty"` // the outcome's keys were present
	Killed       bool     `json:"killed,omitempty"`
	Written      int      `json:"written,omitempty"`
	Lost         uint64   `json:"lost,omitempty"`  // a stream's gap event ended here
	Bytes        string   `json:"bytes,omitempty"` // what a stream delivered from Offset, or from the gap, on
	Exited       bool     `json:"exited,omitempty"`
	Total        uint64   `json:"total,omitempty"`
	Bootstrapped bool     `json:"bootstrapped,omitempty"`
	Busy         bool     `json:"busy,omitempty"`
	Execs        int      `json:"execs,omitempty"`
	Hooks        int      `json:"hooks,omitempty"`
	IDs          []string `json:"ids,omitempty"`

	Files  map[string]Fill `json:"files,omitempty"`  // what a read found, by path
	Broken bool            `json:"broken,omitempty"` // the body ended early and the connection with it: nobody takes that for a file

	Serial     int    `json:"serial,omitempty"`     // of the guest's connection that a tunnel leads to
	Generation int    `json:"generation,omitempty"` // of the listener that took it, or that is there
	Changed    bool   `json:"changed,omitempty"`    // a listener came or went
	End        string `json:"end,omitempty"`        // how a tunnel or the guest's connection ended, as far as the asker knows
	Count      int    `json:"count,omitempty"`      // units that the guest had echoed; tunnels that were open at once
}

// Label is the operation in a drawing: "start x1 → 200".
func (o *Operation) Label() string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	if o.Exec != "" {
		b.WriteString(" " + o.Exec)
	}
	if o.Path != "" {
		b.WriteString(" " + o.Path)
	}
	if o.Tunnel != "" {
		b.WriteString(" " + o.Tunnel)
	}
	if o.Kind == Hook {
		fmt.Fprintf(&b, " %s/env%d", o.Token, o.Env)
	}
	if o.User != AnyUser {
		b.WriteString(" as " + string(o.User))
	}
	if o.EOF {
		b.WriteString(" eof")
	}
	if a := o.Answer; a != nil {
		fmt.Fprintf(&b, " → %d", a.Status)
		for _, w := range []string{a.Code, a.Phase, a.End} {
			if w != "" {
				b.WriteString(" " + w)
			}
		}
		if o.Kind == Kill && a.Status == 200 {
			fmt.Fprintf(&b, " killed=%v", a.Killed)
		}
	} else {
		b.WriteString(" → ? (" + o.Cut.String() + ")")
	}
	return b.String()
}

// History is what all clients saw of one daemon, in the order of their calls.
type History struct {
	Name       string      `json:"name"`
	Seed       uint64      `json:"seed"`
	Ring       uint64      `json:"ring"`  // bytes of output that the daemon was configured to keep for readers; 0: not known
	Greet      string      `json:"greet"` // what children greet with where the launch environment is known before: "env1"
	Scope      Scope       `json:"scope"`
	Operations []Operation `json:"operations"`
}

// Scope says how a history is judged.
type Scope string

const (
	// Whole: the daemon is fresh and the history contains hooks; it is judged as one.
	Whole Scope = "whole"
	// ByExec: bootstrap finished before; each exec id is judged by itself, for nothing couples them.
	ByExec Scope = "by exec"
)

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
