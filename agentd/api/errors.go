package api

import "net/http"

// Code is the machine-readable word of an error answer on the exec routes.
// Callers branch on the status and the code, never on the detail.
type Code string

// The error codes (wire facts, section 2).
const (
	MalformedRequest    Code = "malformed_request"
	UnknownUser         Code = "unknown_user"
	UnknownGroup        Code = "unknown_group"
	UnknownShell        Code = "unknown_shell"
	PowerOffUnavailable Code = "poweroff_unavailable"
	UnknownExec         Code = "unknown_exec"
	StdinWriteTimeout   Code = "stdin_write_timeout"
	StdinNotRequested   Code = "stdin_not_requested"
	StillRunning        Code = "still_running"
	AlreadyAcked        Code = "already_acked"
	StdinClosed         Code = "stdin_closed"
	StdinWriteTooLarge  Code = "stdin_write_too_large"
	SpawnFailed         Code = "spawn_failed"
	StdinWriteFailed    Code = "stdin_write_failed"
)

// statuses holds the one status that each code comes with.
var statuses = map[Code]int{
	MalformedRequest:    http.StatusBadRequest,
	UnknownUser:         http.StatusBadRequest,
	UnknownGroup:        http.StatusBadRequest,
	UnknownShell:        http.StatusBadRequest,
	PowerOffUnavailable: http.StatusBadRequest,
	UnknownExec:         http.StatusNotFound,
	StdinWriteTimeout:   http.StatusRequestTimeout,
	StdinNotRequested:   http.StatusConflict,
	StillRunning:        http.StatusConflict,
	AlreadyAcked:        http.StatusConflict,
	StdinClosed:         http.StatusGone,
	StdinWriteTooLarge:  http.StatusRequestEntityTooLarge,
	SpawnFailed:         http.StatusInternalServerError,
	StdinWriteFailed:    http.StatusInternalServerError,
}

// Status returns the HTTP status of the code, and 0 for a code that wire
// version 1 does not know.
func (c Code) Status() int { return statuses[c] }

// Codes returns every code in the order of the error table. The slice is
// fresh.
func Codes() []Code {
	return []Code{
		MalformedRequest, UnknownUser, UnknownGroup, UnknownShell, PowerOffUnavailable, UnknownExec,
		StdinWriteTimeout, StdinNotRequested, StillRunning, AlreadyAcked, StdinClosed, StdinWriteTooLarge,
		SpawnFailed, StdinWriteFailed,
	}
}

// Error is the body of an error answer on the exec routes. It is also the Go
// error for it.
type Error struct {
	Code   Code   `json:"error"`
	Detail string `json:"detail"`
}

// Error returns the code and the detail.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }
