package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// Sentinels for errors.Is. Each says which errors match it.
var (
	// ErrUnknownID matches a reply about a run that never existed, was acked or
	// has expired; for artifacts also about one that has not finished. It is a
	// client.ErrNotFound too.
	ErrUnknownID = errors.New("unknown run")
	// ErrNotFinished matches an ack before the end. It is a client.ErrConflict
	// and a client.ErrStillRunning too.
	ErrNotFinished = errors.New("run has not finished")
	// ErrMalformed matches a request that the manager could not read. Repeating
	// it cannot help; a manager of another revision may read it.
	ErrMalformed = errors.New("malformed request")
	// ErrModules matches a run that needs the LLM and web modules while they do
	// not run. The protocol has no code for it: the manager's text is compared.
	ErrModules = errors.New("modules are not running")
	// ErrLost matches every call and wait that a lost connection ended. Runs go
	// on: attach on a new connection.
	ErrLost = errors.New("connection to the manager lost")
	// ErrRestarted matches a [*RestartedError].
	ErrRestarted = errors.New("manager restarted")
	// ErrClosed matches every call on a closed client or session.
	ErrClosed = errors.New("client closed")
)

// ReplyError is a refusal by the manager. It is the cause of a [*client.Error].
type ReplyError struct {
	Method  msp.Method
	Code    msp.ErrorCode
	Message string // free text, at most 512 bytes; not for branching
}

// Error is the method, the code and the text.
func (e *ReplyError) Error() string {
	text := e.Method.String() + ": " + e.Code.String()
	if e.Message != "" && e.Message != e.Code.String() {
		text += ": " + e.Message
	}
	return text
}

// modulesText is what clients of this protocol look for (manager facts, 3.5).
const modulesText = "modules are required but not running"

// Is matches the sentinels that stand for one code.
func (e *ReplyError) Is(target error) bool {
	switch target {
	case ErrUnknownID:
		return e.Code == msp.CodeUnknownID
	case ErrNotFinished, client.ErrStillRunning:
		return e.Code == msp.CodeNotFinished
	case ErrMalformed:
		return e.Code == msp.CodeMalformedFrame
	case ErrRestarted:
		return e.Code == msp.CodeBootIDMismatch
	case ErrModules:
		return e.Code == msp.CodeInternal && strings.Contains(e.Message, modulesText)
	}
	return false
}

// maxText bounds how much of a manager's text is kept.
const maxText = 512

// replyError classes a refusal.
//
// MCLIENT-18: from the code alone, because the text is for people.
func replyError(method msp.Method, e msp.Error) error {
	if len(e.Message) > maxText {
		e.Message = strings.ToValidUTF8(e.Message[:maxText], "")
	}
	out := &client.Error{Kind: client.KindProtocol, Err: &ReplyError{method, e.Code, e.Message}}
	switch e.Code {
	case msp.CodeInternal:
		out.Kind, out.Wire = client.KindRetryable, client.WireServerError
	case msp.CodeUnknownID:
		out.Wire = client.WireNotFound
	case msp.CodeNotFinished:
		out.Wire = client.WireConflict
	case msp.CodeBootIDMismatch:
		out.Kind = client.KindPlatform
	default:
		out.Wire = client.WireProtocolError
	}
	return out
}

// RestartedError says that the manager of a run has ended, and its runs with it.
// It matches ErrRestarted.
type RestartedError struct {
	Was, Now uint64 // boot ids: of the run, and of the manager that answers now
}

// Error names both boots.
func (e *RestartedError) Error() string {
	return fmt.Sprintf("the manager restarted: boot %016x has ended, and its runs with it; boot %016x answers", e.Was, e.Now)
}

// Is matches ErrRestarted.
func (e *RestartedError) Is(target error) bool { return target == ErrRestarted }

func restarted(was, now uint64) error {
	return &client.Error{Kind: client.KindPlatform, Err: &RestartedError{was, now}}
}

// lostError says why a connection ended. It matches ErrLost.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	if e.cause == nil {
		return ErrLost.Error()
	}
	return ErrLost.Error() + ": " + e.cause.Error()
}
func (e *lostError) Unwrap() error        { return e.cause }
func (e *lostError) Is(target error) bool { return target == ErrLost }

func lost(cause error) error {
	return &client.Error{Kind: client.KindRetryable, Wire: client.WireTransport, Err: &lostError{cause}}
}

func closedError() error { return &client.Error{Kind: client.KindInvalidArg, Err: ErrClosed} }

func invalidArg(format string, args ...any) error {
	return &client.Error{Kind: client.KindInvalidArg, Message: fmt.Sprintf(format, args...)}
}

func protocolError(format string, args ...any) error {
	return &client.Error{Kind: client.KindProtocol, Wire: client.WireProtocolError, Message: fmt.Sprintf(format, args...)}
}

// stopped is the error of a call that stopped waiting because its context ended.
func stopped(what string, ctx context.Context) error {
	kind := client.KindInterrupted
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = client.KindTimeout
	}
	return &client.Error{Kind: kind, Message: "stopped waiting for " + what, Err: context.Cause(ctx)}
}

// truncatedError says that an artifact ended early. It matches
// client.ErrTruncated and io.ErrUnexpectedEOF.
type truncatedError struct {
	field      msp.Artifact
	have, want uint64
}

func (e *truncatedError) Error() string {
	return fmt.Sprintf("the manager gave %d of the %d bytes of %s and no more", e.have, e.want, e.field)
}

func (e *truncatedError) Is(target error) bool {
	return target == client.ErrTruncated || target == io.ErrUnexpectedEOF
}
