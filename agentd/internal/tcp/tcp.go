// Package tcp serves one tunnel: an upgraded WebSocket on one side, one TCP
// connection to a port of the guest's loopback on the other (wire facts, section
// 10).
//
//	upgraded ─▶ [hello ─▶ ready ─▶] dialing ─▶ relaying ─▶ ended
//	             verified tunnels only
//
// The first end wins and closes the whole tunnel: there is no half-close. What
// the other side has in flight then is dropped.
//
// # Promises
//
//   - Nothing is dialed before a verified tunnel's ready message has opened, and
//     nothing but 127.0.0.1 is dialed at all.
//   - A verified tunnel whose caller promised an end of stream and ends without it
//     resets the guest connection, so that the guest takes no part for the whole.
//   - When Serve returns, no goroutine or descriptor of the tunnel is left.
package tcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/agentd/tunnel"
)

// Config is what all tunnels of a daemon share. Recorder and Gate may be nil.
type Config struct {
	Log      *slog.Logger
	Clock    trace.Clock // of the two deadlines of the handshake
	Recorder trace.Recorder
	Gate     trace.Gate

	DialTimeout  time.Duration
	HelloTimeout time.Duration // from the upgrade to the first handshake message
	ReadyTimeout time.Duration // from the reply to the ready message
	StallTimeout time.Duration // for a guest to take bytes once the caller has hung up
}

// Caller is the upgraded connection's socket.
type Caller interface {
	// Close cuts the connection without a close frame.
	Close() error
	// Gone reports whether the peer has closed or lost the connection, although
	// bytes of it may be left to read.
	Gone() bool
}

// Request is one tunnel that was upgraded.
type Request struct {
	Serial   uint64 // of the HTTP request
	Port     uint16
	Identity bool         // a verified tunnel is asked for
	Keys     *tunnel.Keys // nil when the VM was launched without an identity
}

// How a tunnel ended.
type ending string

const (
	endRefused     ending = "refused"      // before the relay, with a close code of its own
	endGuestEOF    ending = "guest-eof"    // the guest reached its end
	endGuestFailed ending = "guest-failed" // reading from the guest failed
	endGuestShut   ending = "guest-shut"   // the guest takes no more bytes
	endCallerEnd   ending = "caller-end"   // the caller's end of stream
	endCallerGone  ending = "caller-gone"  // a close, a hang-up, or the daemon's own end
	endForged      ending = "forged"       // a frame that does not authenticate
)

// outcome is how a tunnel ended and what its caller is told.
type outcome struct {
	end    ending
	code   websocket.StatusCode
	reason string
	silent bool // no close frame is written
	guest  string
	told   bool // recorded and logged
}

func refuse(code int, format string, args ...any) *outcome {
	return &outcome{end: endRefused, code: websocket.StatusCode(code), reason: fmt.Sprintf(format, args...), guest: "none"}
}

// one is a tunnel while it is served.
type one struct {
	*Config
	Request
	ws      *websocket.Conn
	caller  Caller
	started time.Time
	session *tunnel.Session // nil for a plain tunnel
}

// Serve runs the tunnel until it has ended. The end of ctx cuts it. It takes
// over ws, whose read limit it switches off.
func (c *Config) Serve(ctx context.Context, ws *websocket.Conn, caller Caller, r Request) {
	defer context.AfterFunc(ctx, func() { caller.Close() })()
	defer ws.CloseNow()
	// The library answers its read limit with 1009. Here a plain frame may have
	// any length and is relayed in pieces, and a verified one is bounded by its
	// buffer.
	ws.SetReadLimit(-1)
	t := &one{Config: c, Request: r, ws: ws, caller: caller, started: c.Clock.Now()}
	o := t.run(ctx)
	t.tell(o)
	if !o.silent {
		ws.Close(o.code, o.reason) // waits, within bounds, for the caller's
	}
}

// tell records and logs, once, how the tunnel ended.
func (t *one) tell(o *outcome) {
	if o.told {
		return
	}
	o.told = true
	t.record(trace.TunnelFinish, trace.Attr{Key: "end", Value: string(o.end)}, trace.Attr{Key: "guest", Value: o.guest})
	t.Log.Debug("tunnel ended", "request", t.Serial, "port", t.Port, "identity", t.Identity, "end", string(o.end),
		"duration_ms", t.Clock.Now().Sub(t.started).Milliseconds())
}

// run goes through the tunnel's phases in the order of their close codes: 4401,
// 4403, the ready message, 4400, 4502.
func (t *one) run(ctx context.Context) *outcome {
	if t.Identity {
		if t.Keys == nil {
			// TUNNEL-8: no plain tunnel in its place.
			return refuse(api.TunnelNoIdentity, "a verified tunnel was asked for, and this VM was launched without an identity")
		}
		if o := t.handshake(ctx); o != nil {
			return o
		}
	}
	if t.Port == 0 {
		// TUNNEL-4: the system would take 0 for any port.
		return refuse(api.TunnelBadPort, "cannot dial port 0")
	}
	guest, o := t.dial(ctx)
	if o != nil {
		return o
	}
	return t.relay(ctx, guest)
}

// dial connects to the guest port. TUNNEL-3: loopback only and no name to
// resolve, since a tunnel leads into this VM and is no way to others.
func (t *one) dial(ctx context.Context) (*net.TCPConn, *outcome) {
	if !t.pass(ctx, trace.TunnelDial) {
		return nil, gone()
	}
	d := net.Dialer{Timeout: t.DialTimeout}
	if t.session != nil && t.session.PeerOffersEnd() {
		// AGENTD-20: a reset is what every close becomes until an end is proven,
		// that of a dial which the daemon's own end overtakes included.
		d.Control = func(_, _ string, raw syscall.RawConn) error { return closeResets(raw) }
	}
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(t.Port))))
	t.record(trace.TunnelDial, trace.Attr{Key: "listening", Value: err == nil})
	var timeout net.Error
	switch {
	case err == nil:
		return c.(*net.TCPConn), nil // TCP_NODELAY is Go's default
	case ctx.Err() != nil:
		return nil, gone()
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, refuse(api.TunnelNoListener, "port %d did not accept within %v; its backlog may be full", t.Port, t.DialTimeout)
	}
	return nil, refuse(api.TunnelNoListener, "nothing is listening on port %d of the VM's loopback", t.Port)
}

// closeResets makes the close of a socket reset its connection.
func closeResets(raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
	return errors.Join(err, set)
}

// gone is the end of a tunnel that has nobody left to tell.
func gone() *outcome { return &outcome{end: endCallerGone, silent: true, guest: "none"} }

// pass parks the tunnel before a transition while the gate is closed. It
// reports false when the daemon ended meanwhile.
func (t *one) pass(ctx context.Context, a trace.Action) bool {
	return t.Gate == nil || t.Gate.Pass(ctx, trace.Point{Action: a, Request: t.Serial}) == nil
}

func (t *one) record(a trace.Action, attrs ...trace.Attr) {
	if t.Recorder != nil {
		t.Recorder.Record(trace.Event{Point: trace.Point{Action: a, Request: t.Serial}, Attrs: attrs})
	}
}
