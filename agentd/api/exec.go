package api

// Phase is where an exec stands in its lifecycle.
type Phase string

// The phases. After its retention an acked exec is gone and polls as unknown.
const (
	PhaseRunning Phase = "running"
	PhaseExited  Phase = "exited"
	PhaseAcked   Phase = "acked"
)

// StartRequest is the body of POST /v1/exec/start. ExecID and Command are
// required; a nil Command was absent. Only the pointer fields accept null.
type StartRequest struct {
	ExecID          string            `json:"exec_id" schema:"required"`
	Command         []string          `json:"command" schema:"required"`
	Shell           Shell             `json:"shell,omitzero" default:"false"`
	Cwd             *string           `json:"cwd,omitzero" default:"null"` // nil: the daemon's own
	Env             map[string]string `json:"env,omitempty" default:"{}"`
	User            *NameOrID         `json:"user,omitzero" default:"null"`
	Group           *NameOrID         `json:"group,omitzero" default:"null"`
	TimeoutSec      *float64          `json:"timeout_sec,omitzero" default:"null"` // seconds, positive and finite
	Stdin           bool              `json:"stdin,omitzero" default:"false"`
	ReapGroupOnExit bool              `json:"reap_group_on_exit,omitzero" default:"false"`
	InheritImageEnv bool              `json:"inherit_image_env,omitzero" default:"false"`
	PowerOffOnExit  bool              `json:"poweroff_on_exit,omitzero" default:"false"`
}

// StartResponse answers a start: always running, even for an id that has
// exited or was acked since.
type StartResponse struct {
	ExecID string `json:"exec_id"`
	Phase  Phase  `json:"phase"`
}

// PollResponse answers a poll and an ack. The outcome's keys are present only
// in phase exited, and in the answer to the ack itself.
type PollResponse struct {
	ExecID string `json:"exec_id"`
	Phase  Phase  `json:"phase"`
	*Outcome
}

// Outcome is how an exec ended and what it wrote. Output is what each stream
// began with, up to the daemon's cap, as lossy UTF-8: each maximal invalid
// subpart is one U+FFFD.
type Outcome struct {
	ExitCode          *int32 `json:"exit_code"` // nil: killed by a signal
	Signal            *int32 `json:"signal"`
	TimedOut          bool   `json:"timed_out" default:"false"`
	Stdout            string `json:"stdout"`
	Stderr            string `json:"stderr"`
	Truncated         bool   `json:"truncated"`
	WritersMayBeAlive bool   `json:"writers_may_be_alive"`
}

// StdinRequest is the body of POST /v1/exec/{id}/stdin. Data goes first, then
// the end of input.
type StdinRequest struct {
	DataB64 *string `json:"data_b64,omitzero" default:"null"` // standard padded base64
	Signal  *string `json:"signal,omitzero" default:"null"`   // SignalEOF or absent
}

// SignalEOF is the only signal of a StdinRequest.
const SignalEOF = "eof"

// StdinResponse tells how many decoded bytes the child's pipe took.
type StdinResponse struct {
	ExecID  string `json:"exec_id"`
	Written uint   `json:"written"`
	EOF     bool   `json:"eof"`
}

// KillResponse answers a kill. Killed is false when nothing could be
// signalled because the group was gone.
type KillResponse struct {
	ExecID string `json:"exec_id"`
	Killed bool   `json:"killed"`
}

// ProcsResponse is the answer of GET /v1/procs, one entry for each registered
// exec in any phase.
type ProcsResponse struct {
	Procs []ProcGroup `json:"procs"`
}

// ProcGroup is an exec's process group. ChildExited with pids left is a
// survivor.
type ProcGroup struct {
	ExecID      string   `json:"exec_id"`
	Pgid        *uint32  `json:"pgid"`
	StartedAt   uint64   `json:"started_at"` // seconds since the epoch on the daemon's clock
	ChildExited bool     `json:"child_exited"`
	Reap        bool     `json:"reap"`
	Pids        []uint32 `json:"pids"` // live, ascending
}

// StreamQuery is the query of GET /v1/exec/{id}/stream.
type StreamQuery struct {
	Offset *uint64 `json:"offset,omitzero" default:"null"`
}

// Names of the events on an output stream.
const (
	EventOutput = "output"
	EventGap    = "gap"
	EventExit   = "exit"
)

// StreamKind tells which pipe bytes came from. Both share one offset space.
type StreamKind string

// The streams.
const (
	StreamStdout StreamKind = "stdout"
	StreamStderr StreamKind = "stderr"
)

// OutputEvent is a run of output bytes. The offset to resume at is Offset plus
// the decoded length.
type OutputEvent struct {
	Offset uint64     `json:"offset"`
	Stream StreamKind `json:"stream"`
	Output []byte     `json:"output"` // standard padded base64 on the wire
}

// GapEvent says that the bytes in [From, To) are lost to this reader.
type GapEvent struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// ExitEvent is the last event of a stream. A body that ends without it is a
// broken connection.
type ExitEvent struct {
	ExitCode          *int32 `json:"exit_code"`
	Signal            *int32 `json:"signal"`
	TimedOut          bool   `json:"timed_out" default:"false"`
	Truncated         bool   `json:"truncated"`
	WritersMayBeAlive bool   `json:"writers_may_be_alive"`
	Offset            uint64 `json:"offset"` // total bytes published
}
