package msp

import "microvms/agentd/calldata"

// Event is a step in the life of a run. Exactly one field is set.
type Event struct {
	_             struct{}       `calldata:",oneof"`
	Queued        *Lifecycle     `calldata:"queued"`
	Started       *Lifecycle     `calldata:"started"`
	FailedToStart *FailedToStart `calldata:"failed_to_start"`
	Finished      *Finished      `calldata:"finished"`
}

// Terminal reports whether it is the last event of its run.
func (e *Event) Terminal() bool { return e.FailedToStart != nil || e.Finished != nil }

// Kind is the name of the variant, empty if none is set.
func (e *Event) Kind() string {
	switch {
	case e.Queued != nil:
		return "queued"
	case e.Started != nil:
		return "started"
	case e.FailedToStart != nil:
		return "failed_to_start"
	case e.Finished != nil:
		return "finished"
	}
	return ""
}

// GenvmID is the run of the event, and 0 if no variant is set.
func (e *Event) GenvmID() uint64 {
	switch {
	case e.Queued != nil:
		return e.Queued.GenvmID
	case e.Started != nil:
		return e.Started.GenvmID
	case e.FailedToStart != nil:
		return e.FailedToStart.GenvmID
	case e.Finished != nil:
		return e.Finished.GenvmID
	}
	return 0
}

// Token is the correlation token of the run, nil if it has none.
func (e *Event) Token() *string {
	switch {
	case e.Queued != nil:
		return e.Queued.Token
	case e.Started != nil:
		return e.Started.Token
	case e.FailedToStart != nil:
		return e.FailedToStart.Token
	case e.Finished != nil:
		return e.Finished.Token
	}
	return nil
}

// Lifecycle is a step that says no more than that it happened: the run waits
// for permits, or its process was created.
type Lifecycle struct {
	GenvmID uint64  `calldata:"genvm_id"`
	Token   *string `calldata:"host_genvm_id,default"`
}

// FailedToStart ends a run of which no process was created.
type FailedToStart struct {
	GenvmID uint64  `calldata:"genvm_id"`
	Token   *string `calldata:"host_genvm_id,default"`
	Error   string  `calldata:"error"`
}

// Cause says what ended a run.
type Cause string

// The causes. The first one that happened counts.
const (
	Exited    Cause = "exited"
	Cancelled Cause = "cancelled"
	Deadline  Cause = "deadline"
	Shutdown  Cause = "shutdown"
)

// Variants lists the causes.
func (Cause) Variants() []string {
	return []string{string(Exited), string(Cancelled), string(Deadline), string(Shutdown)}
}

// Finished ends a run whose process was created, or that was stopped in the
// queue.
type Finished struct {
	GenvmID uint64  `calldata:"genvm_id"`
	Token   *string `calldata:"host_genvm_id,default"`
	Cause   Cause   `calldata:"cause"`
	// ExitCode is nil when a signal ended the process, or none was created.
	ExitCode *int64 `calldata:"exit_code"`
	// Consumed is what the executor handed in as its result, nil for nothing.
	Consumed     []byte        `calldata:"consumed_result,null"`
	Metrics      calldata.Raw  `calldata:"metrics"` // a map, or null
	FinishedAt   Timestamp     `calldata:"finished_at"`
	VersionMajor uint32        `calldata:"version_major"`
	VersionMinor uint32        `calldata:"version_minor"`
	Sizes        ArtifactSizes `calldata:"artifact_sizes"`
}

// ArtifactSizes are the total lengths of the artifacts, in bytes.
type ArtifactSizes struct {
	Stdout   uint64 `calldata:"stdout"`
	Stderr   uint64 `calldata:"stderr"`
	GenvmLog uint64 `calldata:"genvm_log"`
}
