package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
)

// TunnelIdentity holds the keys of a verified tunnel: the launching host's own
// private key, and the public key of the VM that was launched. It prints as a
// redacted word.
type TunnelIdentity struct {
	HostSeed    [tunnel.KeySize]byte // x25519 private key, as the launch used it
	VMPublicKey [tunnel.KeySize]byte // x25519 public key of the identity seed given to the VM
}

// LogValue redacts the identity.
func (TunnelIdentity) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String redacts the identity.
func (TunnelIdentity) String() string { return "[redacted]" }

// GoString redacts the identity.
func (TunnelIdentity) GoString() string { return "[redacted]" }

// TunnelRequest says what a tunnel leads to.
type TunnelRequest struct {
	// Port of the VM's loopback; 0 is refused locally.
	Port uint16
	// Identity, when set, asks for a verified tunnel: no byte of the caller goes
	// to, and none comes from, anyone but the VM that holds the pinned key. There
	// is no fallback to a plain tunnel and no second try.
	Identity *TunnelIdentity
}

// DialTunnel opens a tunnel to a port of the VM's loopback. It returns once the
// daemon has upgraded the connection and, for a verified tunnel, has proven its
// key. Whether something listens on the port shows at the first Read: the wire
// has no earlier word for it. ctx bounds the opening only.
//
// Errors: KindInvalidArg for a request that cannot work, a
// [*TunnelRefusedError] for a refusal by close code, an [*APIError] for one
// before the upgrade, and KindProtocol when the far end does not prove the
// pinned key.
func (s *Session) DialTunnel(ctx context.Context, r TunnelRequest) (*Tunnel, error) {
	if r.Port == 0 {
		return nil, invalidArg("tunnel port: 0 is no port; give the port that the guest listens on")
	}
	linked, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	linked, cancel := withTimeout(linked, s.clock, s.requestTimeout)
	defer cancel()
	c := call{method: http.MethodGet, path: api.PathTunnel + "?" + r.query()}
	var handshake *tunnel.Initiator
	var hello []byte
	if r.Identity != nil {
		// Before the connection: keys of no use must not cost one.
		keys := tunnel.Keys{Private: r.Identity.HostSeed, Peer: r.Identity.VMPublicKey}
		if handshake, hello, err = tunnel.Initiate(keys, r.Port, true); err != nil {
			return nil, invalidArg("tunnel identity: %v", err)
		}
	}
	ws, err := s.upgrade(ctx, linked, c)
	if err != nil {
		return nil, err
	}
	t := newTunnel(s, ws, r.Port)
	if handshake != nil {
		if t.session, err = verify(linked, ws, handshake, hello); err != nil {
			ws.CloseNow()
			if linked.Err() != nil {
				return nil, s.failure(ctx, linked, c, err)
			}
			return nil, err
		}
	}
	if !t.start() {
		ws.CloseNow()
		return nil, errSessionClosed()
	}
	return t, nil
}

func (r TunnelRequest) query() string {
	q := url.Values{"port": {strconv.Itoa(int(r.Port))}}
	if r.Identity != nil {
		q.Set("identity", "true")
	}
	return q.Encode()
}

// upgrade opens the WebSocket. Redirects are answers like any other.
func (s *Session) upgrade(caller, ctx context.Context, c call) (*websocket.Conn, error) {
	protocols, err := s.tunnelSubprotocols(ctx)
	if err != nil {
		return nil, s.failure(caller, ctx, c, err)
	}
	ws, resp, err := websocket.Dial(ctx, s.Endpoint()+c.path, &websocket.DialOptions{
		Subprotocols: protocols,
		HTTPClient: &http.Client{
			Transport:     s.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + s.token.value}, "User-Agent": {"microvm-client"}},
	})
	if err == nil {
		ws.SetReadLimit(-1) // frames are byte ranges of any length, read in pieces
		return ws, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, s.refusal(c, resp)
	}
	return nil, s.failure(caller, ctx, c, err)
}

// verify proves that the far end holds the pinned key, and says the ready word.
// BIND-21: nothing of the caller was sent before, and nothing is after an error.
func verify(ctx context.Context, ws *websocket.Conn, h *tunnel.Initiator, hello []byte) (*tunnel.Session, error) {
	if err := ws.Write(ctx, websocket.MessageBinary, hello); err != nil {
		return nil, tunnelFailed("cannot send handshake message 1", err)
	}
	buf := make([]byte, tunnel.MaxRecord+1)
	kind, n, err := readMessage(ctx, ws, buf)
	if err != nil {
		var closed websocket.CloseError
		if errors.As(err, &closed) && closed.Code >= firstRefusal {
			return nil, refusedBy(closed)
		}
		return nil, tunnelFailed("the far end left before it proved its key", err)
	}
	if kind != websocket.MessageBinary {
		return nil, tunnelFailed("the far end did not prove the pinned key", tunnel.ErrHandshake)
	}
	session, err := h.Finish(buf[:n])
	if err != nil {
		return nil, tunnelFailed("the far end did not prove the pinned key", err)
	}
	ready, err := session.SealReady(nil)
	if err != nil {
		return nil, tunnelFailed("cannot seal the ready message", err)
	}
	if err := ws.Write(ctx, websocket.MessageBinary, ready); err != nil {
		return nil, tunnelFailed("cannot send the ready message", err)
	}
	return session, nil
}

// TunnelDialer returns a function that fits http.Transport.DialContext and opens
// a tunnel for each connection. Of the address only the port counts: the host
// is always the VM's loopback.
func (s *Session) TunnelDialer(identity *TunnelIdentity) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		switch network {
		case "tcp", "tcp4", "tcp6":
		default:
			return nil, invalidArg("tunnel network: %q is not tcp", network)
		}
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, invalidArg("tunnel address: %q has no port", address)
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, invalidArg("tunnel address: port %q is not a number between 1 and 65535", text)
		}
		t, err := s.DialTunnel(ctx, TunnelRequest{Port: uint16(port), Identity: identity})
		if err != nil {
			return nil, err
		}
		return t, nil
	}
}

// firstRefusal is the lowest close code by which a daemon refuses or fails a
// tunnel. Lower ones say nothing of the kind.
const firstRefusal = 4000

// TunnelRefusedError says that the daemon refused or failed a tunnel by a close
// code (wire facts, section 10.1).
type TunnelRefusedError struct {
	Code   int
	Reason string // free text of the far end; not for branching
}

// Error names the code.
func (e *TunnelRefusedError) Error() string {
	return fmt.Sprintf("tunnel closed with code %d: %q", e.Code, e.Reason)
}

func refusedBy(c websocket.CloseError) error {
	kind := KindProtocol
	switch int(c.Code) {
	case api.TunnelNoListener, api.TunnelRelayFailed:
		kind = KindRetryable
	case api.TunnelIdentityRefused:
		kind = KindCredentials
	case api.TunnelNoIdentity:
		kind = KindPrecondition
	}
	return &Error{Kind: kind, Message: "tunnel refused", Err: &TunnelRefusedError{Code: int(c.Code), Reason: c.Reason}}
}

func tunnelFailed(what string, err error) error {
	kind, wire := KindProtocol, WireProtocolError
	if !errors.Is(err, tunnel.ErrHandshake) && !errors.Is(err, tunnel.ErrRecord) && !errors.Is(err, errTextFrame) {
		kind, wire = KindRetryable, WireTransport
	}
	return &Error{Kind: kind, Wire: wire, Message: what, Err: err}
}
