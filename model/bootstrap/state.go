package bootstrap

import (
	"fmt"
	"strconv"
	"strings"

	"microvms/model"
)

// The bounds of the state: arrays are fixed so that a state is a plain value.
const (
	MaxSlots = 2  // requests of one sort in flight
	MaxExecs = 2  // exec ids
	LogSize  = 16 // entries that the hook log can hold in a state
)

// Token is an agent token, as a symbol. It is the bearer that a control request
// presents and the token that a run hook brings.
type Token uint8

const (
	NoToken  Token = iota // none installed; as a bearer: an absent or malformed header
	Harness               // the token of the host that launched the VM
	Attacker              // a token made up by a process inside the VM
)

// Env is a launch environment, as a symbol.
type Env uint8

const (
	NoEnv  Env = iota // none installed
	First             // one environment
	Second            // another one
)

// Hook is one of the platform's hooks.
type Hook uint8

const (
	NoHook Hook = iota
	Ready
	Validate
	Run
	Suspend
	Resume
	Terminate
)

// Handled reports whether an image may bring a workload handler for the hook
// (wire facts, section 4.3).
func (h Hook) Handled() bool { return h >= Run }

// Payload is what a run hook carries.
type Payload uint8

const (
	NoPayload Payload = iota // of the other hooks
	HarnessFirst
	HarnessSecond
	AttackerFirst
	AttackerSecond
	Malformed // not an envelope, or a payload with a missing or ill-typed key
	Oversized // a body above the hook cap
)

// Token returns the token that the payload brings; NoToken when it is refused
// by its shape.
func (p Payload) Token() Token {
	switch p {
	case HarnessFirst, HarnessSecond:
		return Harness
	case AttackerFirst, AttackerSecond:
		return Attacker
	}
	return NoToken
}

// Env returns the environment that the payload brings.
func (p Payload) Env() Env {
	switch p {
	case HarnessFirst, AttackerFirst:
		return First
	case HarnessSecond, AttackerSecond:
		return Second
	}
	return NoEnv
}

// Outcome is what a request came to. Its wire status is [Outcome.Status].
type Outcome uint8

const (
	Pending      Outcome = iota
	Acknowledged         // a hook other than run was recorded
	Installed            // the run hook's token and environment were installed
	Replayed             // the run hook's token was the installed one
	Conflict             // another token is installed
	BadRequest           // the run hook's body has not the right shape
	TooLarge             // the run hook's body is above the cap
	Served               // the control operation ran
	NotFound             // the control operation names an exec that is not registered
	Unauthorized         // the bearer is not the installed token
	Unavailable          // no token is installed
	outcomes
)

// Status returns the HTTP status that carries the outcome (wire facts, sections
// 1, 2 and 4.2).
func (o Outcome) Status() int {
	return [outcomes]int{0, 200, 200, 200, 409, 400, 413, 200, 404, 401, 503}[o]
}

// String returns the outcome's name as reports print it.
func (o Outcome) String() string { return outcomeNames[o] }

var outcomeNames = [outcomes]string{
	"pending", "acknowledged", "installed", "replayed", "conflict", "bad-request", "too-large", "served", "not-found", "unauthorized", "unavailable",
}

// Op is the operation of a control request.
type Op uint8

const (
	Start Op = iota // POST /v1/exec/start; the child prints its environment
	Read            // GET /v1/exec/{id}
)

// HookPhase is where a hook request stands.
//
//	idle ─receive→ received ─decide→ [handler due ─→ handler running ─→] answering ─answer→ idle
type HookPhase uint8

const (
	HookIdle HookPhase = iota
	HookReceived
	HookHalfInstalled // only where a deviation writes the environment apart from the token
	HandlerDue
	HandlerRunning
	HookAnswering
)

// ControlPhase is where a control request stands.
//
//	idle ─authorize→ authorized ─serve→ answering ─answer→ idle
//	          └───────── refused ──────────┘
type ControlPhase uint8

const (
	ControlIdle    ControlPhase = iota
	ControlWaiting              // only where a deviation makes a request wait for bootstrap
	ControlAuthorized
	ControlAnswering
)

// HookRequest is one hook request in flight. A field is zero outside the phases
// that need it.
type HookRequest struct {
	Phase   HookPhase
	Hook    Hook
	Payload Payload
	Outcome Outcome
	Gone    bool  // the client vanished: nobody will see the answer
	Kept    bool  // the request is in the log, not only counted (only where handlers ask for it)
	Runs    uint8 // times that its handler was started
	Sees    uint8 // the environment given to its handler: an [Env], with tokenBit when the token is in it
	Read    Token // only where a deviation decides on what it read at receipt
}

// ControlRequest is one control request in flight.
type ControlRequest struct {
	Phase   ControlPhase
	Op      Op
	Exec    uint8
	Outcome Outcome
	Gone    bool
}

// tokenBit marks a process environment that holds the agent token.
const tokenBit = 4

// State is the daemon's bootstrap state and the requests in flight.
type State struct {
	Token   Token
	Env     Env
	Log     [LogSize / 2]uint8 // the kept hooks, oldest first, two to a byte
	Logged  uint8              // entries of Log in use
	Dropped uint8              // hook requests counted, but not kept
	// RunHandlers counts the starts of the run hook's handler in the life of the VM.
	RunHandlers uint8
	// Expired counts the entries that show a handler that was killed at the end of its budget.
	Expired uint8
	// Execs holds, for each exec id, 0 when it is not registered, else 1 + the environment that its child saw.
	Execs    [MaxExecs]uint8
	Hooks    [MaxSlots]HookRequest
	Controls [MaxSlots]ControlRequest
}

// LogEntry returns entry i of the hook log, oldest first.
func (s *State) LogEntry(i int) Hook {
	return Hook(s.Log[i/2] >> (4 * (i % 2)) & 15)
}

// Entries returns the kept entries of the hook log, oldest first, in a fresh
// slice.
func (s *State) Entries() []Hook {
	out := make([]Hook, s.Logged)
	for i := range out {
		out[i] = s.LogEntry(i)
	}
	return out
}

func (s *State) setLogEntry(i int, h Hook) {
	shift := 4 * (i % 2)
	s.Log[i/2] = s.Log[i/2]&^(15<<shift) | uint8(h)<<shift
}

// Saw returns what the request's handler sees while it runs: its launch
// environment, and whether the token is beside it.
func (h HookRequest) Saw() (env Env, token bool) {
	return Env(h.Sees &^ tokenBit), h.Sees&tokenBit != 0
}

// Registered returns the number of exec ids in the registry.
func (s *State) Registered() int {
	n := 0
	for _, e := range s.Execs {
		if e != 0 {
			n++
		}
	}
	return n
}

// Saw returns what the child of the exec saw: its launch environment, and
// whether the exec is registered at all.
func (s *State) Saw(exec int) (env Env, registered bool) {
	if s.Execs[exec] == 0 {
		return NoEnv, false
	}
	return Env((s.Execs[exec] - 1) &^ tokenBit), true
}

// SawToken reports whether the child of the exec saw the token in its
// environment.
func (s *State) SawToken(exec int) bool {
	return s.Execs[exec] != 0 && (s.Execs[exec]-1)&tokenBit != 0
}

var (
	tokenNames   = []string{"none", "harness", "attacker"}
	envNames     = []string{"none", "first", "second"}
	hookNames    = []string{"none", "ready", "validate", "run", "suspend", "resume", "terminate"}
	payloadNames = []string{"none", "harness/first", "harness/second", "attacker/first", "attacker/second", "malformed", "oversized"}
	opNames      = []string{"start", "read"}
)

// String returns the hook's name on the wire.
func (h Hook) String() string { return hookNames[h] }

// String returns the token's name.
func (t Token) String() string { return tokenNames[t] }

// String returns the environment's name.
func (e Env) String() string { return envNames[e] }

// String returns the payload's name: its token and its environment.
func (p Payload) String() string { return payloadNames[p] }

// String returns the operation's name.
func (o Op) String() string { return opNames[o] }

// Fields renders a state for counterexamples.
func Fields(s State) []model.Field {
	entries := make([]string, s.Logged)
	for i := range entries {
		entries[i] = s.LogEntry(i).String()
	}
	out := []model.Field{
		{Name: "token", Value: s.Token.String()},
		{Name: "env", Value: s.Env.String()},
		{Name: "log", Value: "[" + strings.Join(entries, " ") + "]"},
		{Name: "dropped", Value: strconv.Itoa(int(s.Dropped))},
		{Name: "run_handlers", Value: strconv.Itoa(int(s.RunHandlers))},
		{Name: "expired", Value: strconv.Itoa(int(s.Expired))},
	}
	for i, e := range s.Execs {
		out = append(out, model.Field{Name: fmt.Sprintf("exec[%d]", i), Value: execValue(e)})
	}
	for i := range s.Hooks {
		out = append(out, model.Field{Name: fmt.Sprintf("hook[%d]", i), Value: s.Hooks[i].String()})
	}
	for i := range s.Controls {
		out = append(out, model.Field{Name: fmt.Sprintf("control[%d]", i), Value: s.Controls[i].String()})
	}
	return out
}

func execValue(e uint8) string {
	if e == 0 {
		return "unregistered"
	}
	return "child saw " + sees(e-1)
}

func sees(v uint8) string {
	name := envNames[v&^tokenBit]
	if v&tokenBit != 0 {
		name += " and the token"
	}
	return name
}

// String renders the request.
func (h HookRequest) String() string {
	if h.Phase == HookIdle {
		return "idle"
	}
	words := []string{h.Hook.String(), [...]string{"idle", "received", "half-installed", "handler-due", "handler-running", "answering"}[h.Phase]}
	if h.Payload != NoPayload {
		words = append(words, h.Payload.String())
	}
	if h.Outcome != Pending {
		words = append(words, h.Outcome.String())
	}
	if h.Kept {
		words = append(words, "kept")
	}
	if h.Runs > 0 {
		words = append(words, fmt.Sprintf("runs=%d", h.Runs))
	}
	if h.Phase == HandlerRunning {
		words = append(words, "handler sees "+sees(h.Sees))
	}
	return goneWord(words, h.Gone)
}

// String renders the request.
func (c ControlRequest) String() string {
	if c.Phase == ControlIdle {
		return "idle"
	}
	words := []string{[...]string{"idle", "waiting", "authorized", "answering"}[c.Phase]}
	if c.Phase == ControlAuthorized {
		words = append(words, c.Op.String(), strconv.Itoa(int(c.Exec)))
	}
	if c.Outcome != Pending {
		words = append(words, c.Outcome.String())
	}
	return goneWord(words, c.Gone)
}

func goneWord(words []string, gone bool) string {
	if gone {
		words = append(words, "client-gone")
	}
	return strings.Join(words, " ")
}
