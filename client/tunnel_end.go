package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/coder/websocket"
)

// TunnelEnd is how a tunnel ended.
type TunnelEnd int

// The ends. Only TunnelClosed says that nothing is missing.
const (
	TunnelOpen           TunnelEnd = iota // it has not ended
	TunnelClosed                          // the far end proved its end of stream, or this side ended first; a plain tunnel's normal close
	TunnelTruncated                       // the far end promised an end of stream and ended without it: bytes may be missing
	TunnelClosedUnproven                  // the far end promised none: it ended, and nothing says whether bytes are missing
	TunnelRefused                         // the daemon refused or failed it by a close code
	TunnelFailed                          // a frame did not authenticate, or the transport failed
)

// String returns the end as a word.
func (e TunnelEnd) String() string {
	return [...]string{"open", "closed", "truncated", "closed unproven", "refused", "failed"}[e]
}

// TunnelOutcome is how a tunnel ended, with its particulars.
type TunnelOutcome struct {
	End    TunnelEnd
	Code   int    // of the daemon's close frame, where it refused
	Reason string // of the same; free text of the far end
	Err    error  // what Read returns after the last byte; nil stands for io.EOF
}

// errTextFrame is a text frame where only binary ones belong.
var errTextFrame = errors.New("text frame on a verified tunnel")

// judgeEnd says how the tunnel ended when the transport gave err instead of a
// message.
func (t *Tunnel) judgeEnd(err error) TunnelOutcome {
	var closed websocket.CloseError
	hasCode := errors.As(err, &closed)
	if hasCode && closed.Code >= firstRefusal {
		return TunnelOutcome{End: TunnelRefused, Code: int(closed.Code), Reason: closed.Reason, Err: refusedBy(closed)}
	}
	normal := hasCode && (closed.Code == websocket.StatusNormalClosure || closed.Code == websocket.StatusNoStatusRcvd)
	switch {
	case t.session == nil && normal:
		return TunnelOutcome{End: TunnelClosed} // a plain tunnel's close is its end
	case t.session == nil:
		return TunnelOutcome{End: TunnelFailed, Err: tunnelFailed("the tunnel's connection failed", err)}
	case t.session.PeerOffersEnd():
		// BIND-23: close frames are plaintext and prove nothing; the peer said
		// that it would prove its end and did not.
		return TunnelOutcome{End: TunnelTruncated, Err: &Error{
			Kind: KindRetryable, Wire: WireTransport,
			Message: "tunnel ended without its end of stream: bytes of the guest may be missing",
			Err:     errTruncatedTunnel,
		}}
	}
	return TunnelOutcome{End: TunnelClosedUnproven}
}

// errTruncatedTunnel matches both what callers of this package look for and
// what readers of a net.Conn do.
var errTruncatedTunnel = errors.Join(ErrTruncated, io.ErrUnexpectedEOF)

// readError is what Read returns once everything that arrived is delivered.
func (o TunnelOutcome) readError() error {
	if o.Err != nil {
		return o.Err
	}
	return io.EOF
}

// writeError is what Write returns on a tunnel that has ended.
func (o TunnelOutcome) writeError() error {
	if o.Err != nil {
		return o.Err
	}
	return &Error{Kind: KindProtocol, Message: "cannot write: the tunnel has ended", Err: net.ErrClosed}
}

// writeFailed says why a write failed: the tunnel's end explains it better than
// the transport does, and the pump is about to know it, unless bytes that nobody
// reads keep it from the end.
func (t *Tunnel) writeFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return os.ErrDeadlineExceeded
	}
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-t.ended:
		return t.Outcome().writeError()
	case <-t.unread:
	case <-timer.C:
	}
	return tunnelFailed("cannot write to the tunnel", err)
}
