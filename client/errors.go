package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"microvms/agentd/api"
)

// Kind is the coarse class of an error; its value is the code that the command
// prints (client facts, section 8.2).
type Kind string

// The kinds. Those that need the control plane arrive with it.
const (
	KindUnexpected   Kind = "ERR_UNEXPECTED"
	KindInvalidArg   Kind = "ERR_INVALID_ARG"
	KindRetryable    Kind = "ERR_RETRYABLE"
	KindCredentials  Kind = "ERR_CREDENTIALS"
	KindProtocol     Kind = "ERR_PROTOCOL"
	KindBuildWedged  Kind = "ERR_BUILD_WEDGED"
	KindLaunchDied   Kind = "ERR_LAUNCH_DIED"
	KindWindowClosed Kind = "ERR_WINDOW_CLOSED"
	KindPlatform     Kind = "ERR_PLATFORM"
	KindTimeout      Kind = "ERR_TIMEOUT"
	KindInterrupted  Kind = "ERR_INTERRUPTED"
	KindPrecondition Kind = "ERR_PRECONDITION"
	KindExecFailed   Kind = "ERR_EXEC_FAILED"
)

// WireKind is the fine class of an error that the daemon, or the way to it,
// caused. Empty for a local refusal. Names appear verbatim in the command's
// envelope (client facts, section 8.1).
type WireKind string

// The wire kinds.
const (
	WireUnauthorized        WireKind = "Unauthorized"
	WireProtocolError       WireKind = "ProtocolError"
	WireNotFound            WireKind = "NotFound"
	WireConflict            WireKind = "Conflict"
	WireStdinClosed         WireKind = "StdinClosed"
	WireTooLarge            WireKind = "TooLarge"
	WireRequestTimeout      WireKind = "RequestTimeout"
	WireNotBootstrapped     WireKind = "NotBootstrapped"
	WireServerError         WireKind = "ServerError"
	WireTransport           WireKind = "Transport"
	WireAuthTokenMint       WireKind = "AuthTokenMint"
	WireExecTimeout         WireKind = "ExecTimeout"
	WireOutputGap           WireKind = "OutputGap"
	WireInsufficientStorage WireKind = "InsufficientStorage"
)

// wireKinds gives each wire kind its kind, and the status that causes it (0:
// none, or a range that classify knows). It is the table of client facts 8.1.
var wireKinds = []struct {
	Wire   WireKind
	Status int
	Kind   Kind
}{
	{WireUnauthorized, http.StatusUnauthorized, KindCredentials},
	{WireProtocolError, http.StatusBadRequest, KindProtocol},
	{WireNotFound, http.StatusNotFound, KindProtocol},
	{WireConflict, http.StatusConflict, KindProtocol},
	{WireStdinClosed, http.StatusGone, KindProtocol},
	{WireTooLarge, http.StatusRequestEntityTooLarge, KindProtocol},
	{WireRequestTimeout, http.StatusRequestTimeout, KindRetryable},
	{WireNotBootstrapped, http.StatusServiceUnavailable, KindRetryable},
	{WireInsufficientStorage, http.StatusInsufficientStorage, KindPlatform},
	{WireServerError, 0, KindRetryable},
	{WireTransport, 0, KindRetryable},
	{WireAuthTokenMint, 0, KindRetryable},
	{WireExecTimeout, 0, KindTimeout},
	{WireOutputGap, 0, KindPlatform},
}

// classify maps a non-2xx status to its wire kind and kind. There is no generic
// 4xx fallback: an unlisted status is plain PROTOCOL without a wire kind.
func classify(status int) (WireKind, Kind) {
	// CLIENT-17: from the one table of the facts.
	for _, row := range wireKinds {
		if row.Status == status {
			return row.Wire, row.Kind
		}
	}
	if status >= 500 {
		return WireServerError, KindRetryable
	}
	return "", KindProtocol
}

// Sentinels for errors.Is. Each says which errors match it.
var (
	// ErrGap matches a loss of output bytes: see [*GapError].
	ErrGap = errors.New("output bytes were lost")
	// ErrNotFound matches status 404: the exec was never started, its start was
	// refused, or it was collected after its ack.
	ErrNotFound = errors.New("not found")
	// ErrConflict matches status 409: still running, already acked, or stdin not
	// requested.
	ErrConflict = errors.New("conflict")
	// ErrStillRunning matches an ack before the exit. It is an ErrConflict too.
	ErrStillRunning = errors.New("still running")
	// ErrAlreadyAcked matches a second ack. It is an ErrConflict too.
	ErrAlreadyAcked = errors.New("already acked")
	// ErrStdinNotRequested matches a write to an exec started without stdin. It
	// is an ErrConflict too.
	ErrStdinNotRequested = errors.New("stdin not requested")
	// ErrStdinClosed matches status 410: the input can never be written again.
	ErrStdinClosed = errors.New("stdin closed")
	// ErrSpawn matches a start that was accepted but whose process could not be
	// created: no such program, or a bad working directory.
	ErrSpawn = errors.New("cannot create the process")
	// ErrUnauthorized matches status 401: the token is not the installed one.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotBootstrapped matches status 503: no token is installed yet.
	ErrNotBootstrapped = errors.New("not bootstrapped")
	// ErrTimeout matches a client deadline. The exec goes on.
	ErrTimeout = errors.New("client deadline passed")
	// ErrInterrupted matches a call that stopped because its context was
	// cancelled. The exec goes on.
	ErrInterrupted = errors.New("interrupted")
	// ErrTruncated matches output of which only a part could be delivered.
	ErrTruncated = errors.New("output incomplete")
	// ErrClosed matches every call on a closed session.
	ErrClosed = errors.New("session closed")
)

// Error is what every call of this package returns on failure.
type Error struct {
	Kind    Kind
	Wire    WireKind // empty for local refusals and undecided failures
	Message string   // what failed; never holds a token, payload or output
	Err     error    // the cause, may be nil
}

// Error gives the message, and the cause where it adds to it.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	if e.Message == "" {
		return e.Err.Error()
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether repeating the same call can succeed. It is derived
// from the kind and never stored.
func (e *Error) Retryable() bool { return e.Kind == KindRetryable }

// Is matches the sentinels that stand for a kind or wire kind.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Wire == WireNotFound
	case ErrConflict:
		return e.Wire == WireConflict
	case ErrStdinClosed:
		return e.Wire == WireStdinClosed
	case ErrUnauthorized:
		return e.Wire == WireUnauthorized
	case ErrNotBootstrapped:
		return e.Wire == WireNotBootstrapped
	case ErrTimeout:
		return e.Kind == KindTimeout
	case ErrInterrupted:
		return e.Kind == KindInterrupted
	}
	return false
}

// APIError is an answer of the daemon that refuses a request. It is the cause
// of an [*Error].
type APIError struct {
	Method, Path string
	Status       int           // HTTP status
	Code         string        // the daemon's slug, empty where the route has none
	Detail       string        // free text, at most 512 bytes; not for branching
	RequestID    string        // as sent by a proxy on the way, may be empty
	RetryAfter   time.Duration // from Retry-After in seconds, 0 when absent
}

// Error follows client facts, section 8.1: method, path, status and the text.
func (e *APIError) Error() string {
	text := e.Detail
	if e.Code != "" {
		text = e.Code
		if e.Detail != "" {
			text += ": " + e.Detail
		}
	}
	if text == "" {
		return fmt.Sprintf("%s %s -> %d", e.Method, e.Path, e.Status)
	}
	return fmt.Sprintf("%s %s -> %d: %s", e.Method, e.Path, e.Status, text)
}

// Is matches the sentinels that stand for one slug.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrStillRunning:
		return e.Code == string(api.StillRunning)
	case ErrAlreadyAcked:
		return e.Code == string(api.AlreadyAcked)
	case ErrStdinNotRequested:
		return e.Code == string(api.StdinNotRequested)
	case ErrSpawn:
		return e.Code == string(api.SpawnFailed)
	}
	return false
}

// GapError says which output bytes, [From, To), were lost. It matches ErrGap.
type GapError struct{ From, To uint64 }

// Error names the range.
func (e *GapError) Error() string {
	return fmt.Sprintf("output bytes [%d, %d) were lost; read from an earlier offset sooner, or have the command write to a file", e.From, e.To)
}

// Is matches ErrGap.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// KindOf gives the kind of any error: of the first [*Error] in its chain, or
// KindUnexpected. The kind of nil is empty.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindUnexpected
}

// WireKindOf gives the wire kind of an error, empty if it has none.
func WireKindOf(err error) WireKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Wire
	}
	return ""
}

// Retryable says whether repeating the call that gave err can succeed.
func Retryable(err error) bool { return KindOf(err) == KindRetryable }

func invalidArg(format string, args ...any) error {
	return &Error{Kind: KindInvalidArg, Message: fmt.Sprintf(format, args...)}
}

func protocolError(format string, args ...any) error {
	return &Error{Kind: KindProtocol, Wire: WireProtocolError, Message: fmt.Sprintf(format, args...)}
}

func gapError(from, to uint64) error {
	return &Error{Kind: KindPlatform, Wire: WireOutputGap, Err: &GapError{From: from, To: to}}
}

// interrupted turns the end of the caller's context into an error that matches
// both the context's own error and ErrInterrupted or ErrTimeout.
func interrupted(what string, cause error) error {
	kind := KindInterrupted
	if errors.Is(cause, context.DeadlineExceeded) {
		kind = KindTimeout
	}
	return &Error{Kind: kind, Message: "stopped waiting for " + what, Err: cause}
}
