// Package msp holds what the manager and its clients agree on: the Manager
// Socket Protocol of manager facts, sections 2 to 5 and 8. Method numbers,
// error codes, the frame header and every payload stand here once, so that a
// drift between the two sides does not compile.
//
// A message is one binary WebSocket message: a [Header] of 10 octets and a
// payload in calldata. The types carry the schema in their tags; see package
// calldata for what the tags mean. Requests, hello and events are maps with one
// key that names the method or variant; replies are plain maps.
package msp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"microvms/agentd/calldata"
)

// ProtocolMajor is the only protocol version there is.
const ProtocolMajor = 0

// Path is the route of the WebSocket upgrade.
const Path = "/ws"

// Limits (manager facts, section 2.2).
const (
	// ChunkBytes is the most that one get_artifact reply carries.
	ChunkBytes = 262144
	// MaxMessageBytes is the default bound of one message.
	MaxMessageBytes = 67108864
	// HeaderBytes is the length of a header.
	HeaderBytes = 10
)

// Method says what a message is. Each has a fixed number.
type Method uint16

// The methods.
const (
	MethodError       Method = 0 // server to client
	MethodHello       Method = 1 // server to client, request id 0
	MethodEvent       Method = 2 // server to client, request id 0
	MethodRun         Method = 3
	MethodAttach      Method = 4
	MethodCancel      Method = 5
	MethodAck         Method = 6
	MethodGetArtifact Method = 7
)

var methodNames = [...]string{"error", "hello", "event", "run", "attach", "cancel", "ack", "get_artifact"}

// Known reports whether the number stands in the table.
func (m Method) Known() bool { return int(m) < len(methodNames) }

// Request reports whether clients may send it.
func (m Method) Request() bool { return m >= MethodRun && m.Known() }

// String is the name of the method.
func (m Method) String() string {
	if m.Known() {
		return methodNames[m]
	}
	return fmt.Sprintf("method %d", uint16(m))
}

// ErrorCode is the number of an error reply.
type ErrorCode uint8

// The error codes.
const (
	CodeInternal       ErrorCode = 0 // the handler failed; the message says how
	CodeMalformedFrame ErrorCode = 1 // too short, not binary, bad calldata, bad shape
	CodeUnknownMethod  ErrorCode = 2
	CodeUnknownID      ErrorCode = 3 // never existed, acked, or expired
	CodeBootIDMismatch ErrorCode = 4 // attach across a restart
	CodeBadRequestID   ErrorCode = 5 // a request with id 0
	CodeNotFinished    ErrorCode = 6 // ack before the end
)

var codeNames = [...]string{"internal", "malformed_frame", "unknown_method", "unknown_id", "boot_id_mismatch", "bad_request_id", "not_finished"}

// String is the name of the code.
func (c ErrorCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("error %d", uint8(c))
}

// Error is the payload of an error reply. It is also the Go error for it.
type Error struct {
	Code    ErrorCode `calldata:"code"`
	Message string    `calldata:"message"`
}

// Error is the code and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Code.String() + ": " + e.Message
}

// Header stands before each payload. Both numbers are big-endian.
type Header struct {
	Method Method
	// Request is chosen by the client and repeated by the reply; 0 on what the
	// manager sends by itself.
	Request uint64
}

// ErrShort is the error of a message without a whole header.
var ErrShort = errors.New("message is shorter than its header")

// ParseHeader splits a message. It returns [ErrShort] for fewer than 10 octets.
// The payload shares the memory of the message.
func ParseHeader(message []byte) (Header, []byte, error) {
	if len(message) < HeaderBytes {
		return Header{}, nil, ErrShort
	}
	return Header{Method(binary.BigEndian.Uint16(message)), binary.BigEndian.Uint64(message[2:])}, message[HeaderBytes:], nil
}

// Append appends the header to dst.
func (h Header) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Method))
	return binary.BigEndian.AppendUint64(dst, h.Request)
}

// Message is a whole message: a header and the encoded payload, which is one
// of this package's types.
//
// CALLDATA-11: nothing stands before the header, between the two, or after.
func Message(h Header, payload any) ([]byte, error) {
	b, err := calldata.Append(h.Append(nil), payload)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %v: %w", h.Method, err)
	}
	return b, nil
}

// Request is the payload of a request: exactly one field is set, and it must be
// that of the header's method.
type Request struct {
	_           struct{}     `calldata:",oneof"`
	Run         *RunRequest  `calldata:"run"`
	Attach      *Attach      `calldata:"attach"`
	Cancel      *Target      `calldata:"cancel"`
	Ack         *Target      `calldata:"ack"`
	GetArtifact *GetArtifact `calldata:"get_artifact"`
}

// Method is the method whose field is set, and 0 if none is.
func (r *Request) Method() Method {
	switch {
	case r.Run != nil:
		return MethodRun
	case r.Attach != nil:
		return MethodAttach
	case r.Cancel != nil:
		return MethodCancel
	case r.Ack != nil:
		return MethodAck
	case r.GetArtifact != nil:
		return MethodGetArtifact
	}
	return 0
}

// Message encodes the request with that id. Fields with their default are left
// out, since an older manager may not know them.
func (r *Request) Message(id uint64) ([]byte, error) {
	h := Header{r.Method(), id}
	b, err := calldata.AppendSparse(h.Append(nil), r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %v: %w", h.Method, err)
	}
	return b, nil
}

// ParseRequest decodes the payload of a request to method. Every error means
// malformed_frame. A tag other than the method's is one.
func ParseRequest(method Method, payload []byte) (*Request, error) {
	r := new(Request)
	if err := calldata.Unmarshal(payload, r); err != nil {
		return nil, err
	}
	if got := r.Method(); got != method {
		// CALLDATA-12: the header alone routes, so a payload for another method is a mistake to be named.
		return nil, &calldata.Error{Fault: calldata.BadVariant, Detail: fmt.Sprintf("the header says %v, the payload %v", method, got)}
	}
	return r, nil
}

// Attach asks for the state of a run and for its further events.
type Attach struct {
	BootID  uint64 `calldata:"boot_id"`
	GenvmID uint64 `calldata:"genvm_id"`
}

// Target names a run of the present boot.
type Target struct {
	GenvmID uint64 `calldata:"genvm_id"`
}

// Artifact names an artifact. On the wire it is any string, because whether it
// exists is asked only once the run was found (manager facts, section 5.3).
type Artifact string

// The artifacts of a run.
const (
	Stdout   Artifact = "stdout"
	Stderr   Artifact = "stderr"
	GenvmLog Artifact = "genvm_log"
)

// Known reports whether such an artifact exists.
func (a Artifact) Known() bool { return a == Stdout || a == Stderr || a == GenvmLog }

// GetArtifact asks for a page of an artifact.
type GetArtifact struct {
	GenvmID uint64   `calldata:"genvm_id"`
	Field   Artifact `calldata:"field"`
	Offset  uint64   `calldata:"offset"`
	MaxLen  uint32   `calldata:"max_len"`
}

// RunReply answers a run request.
type RunReply struct {
	GenvmID uint64 `calldata:"genvm_id"`
}

// AttachReply answers an attach: the latest event of the run.
type AttachReply struct {
	Snapshot Event `calldata:"snapshot"`
}

// Empty answers cancel and ack.
type Empty struct{}

// ArtifactReply answers get_artifact.
type ArtifactReply struct {
	TotalLen uint64 `calldata:"total_len"`
	Data     []byte `calldata:"data"`
}

// HelloPayload is the payload of a hello.
type HelloPayload struct {
	Hello Hello `calldata:"hello"`
}

// Hello is the first message on every connection.
type Hello struct {
	// BootID is random for each start of the manager. Run ids begin anew with
	// it, so a run is named by both.
	BootID        uint64 `calldata:"boot_id"`
	ProtocolMajor uint32 `calldata:"protocol_major"`
}
