package httpapi

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/internal/tcp"
	"microvms/agentd/tunnel"
)

var tunnelDoc = routeDoc{
	summary: "tunnel one TCP connection to a port of the VM's loopback over a WebSocket, in binary frames that are byte ranges; " +
		"identity=true asks for a verified tunnel (protocol 2); every outcome after the upgrade is a close code",
	query: api.TunnelQuery{},
	statuses: []statusDoc{
		{http.StatusSwitchingProtocols, "", "upgraded"},
		coded(api.MalformedRequest, "port or identity is missing or malformed, or the request has a body"),
		{http.StatusForbidden, "", "the request comes from a page of another origin"},
		{http.StatusUpgradeRequired, "", "the request does not ask for a WebSocket"},
	},
}

// tunnel serves GET /v1/tcp: the query is judged after the bearer and before
// the WebSocket's headers, all else after the upgrade.
func (s *Server) tunnel(a *answer, r *request) {
	q, detail := parseTunnelQuery(r.URL.RawQuery)
	if detail == "" && r.body.remains() {
		detail = "a tunnel request has no body"
	}
	if detail != "" {
		// TUNNEL-1: before the upgrade, where a refusal still has a status.
		a.fail(api.MalformedRequest, detail)
		return
	}
	if r.Method == http.MethodHead {
		a.Header().Set("Upgrade", "websocket")
		a.empty(http.StatusUpgradeRequired)
		return
	}
	if !s.beginTunnel() {
		panic(http.ErrAbortHandler) // the daemon ends
	}
	// TUNNEL-11: waited for at shutdown; its slot is the connection's, which Serve closes.
	defer s.tunnels.Done()
	c := connOf(r.Request)
	options := &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled}
	if offered(r.Header, api.TunnelSubprotocol) {
		// TUNNEL-2: exactly this one; the proxy's others carry a credential. The
		// library would also take another spelling that comes first.
		r.Header.Set("Sec-WebSocket-Protocol", api.TunnelSubprotocol)
		options.Subprotocols = []string{api.TunnelSubprotocol}
	}
	ws, err := websocket.Accept(a, r.Request, options)
	if err != nil {
		return // answered
	}
	a.record()
	c.tunnel.Store(true)
	c.SetWriteDeadline(time.Time{})
	req := tcp.Request{Serial: r.serial, Port: q.Port, Identity: q.Identity}
	if id := s.config.Boot.Identity(); id != nil && q.Identity {
		req.Keys = &tunnel.Keys{Private: id.Seed, Peer: id.HostPublic}
	}
	s.relays().Serve(s.base, ws, caller{c}, req)
}

// beginTunnel counts a tunnel that Shutdown waits for. It reports false once
// the daemon ends.
func (s *Server) beginTunnel() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.tunnels.Add(1)
	return true
}

func (s *Server) relays() *tcp.Config {
	return &tcp.Config{
		Log: s.log, Clock: s.config.Clock, Recorder: s.config.Recorder, Gate: s.config.Gate,
		DialTimeout: s.limits.TunnelDialTimeout, HelloTimeout: s.limits.TunnelHelloTimeout,
		ReadyTimeout: s.limits.TunnelReadyTimeout, StallTimeout: s.limits.WriteTimeout,
	}
}

// caller is the admitted connection under a tunnel. It keeps its slot until the
// tunnel closes it.
type caller struct{ *conn }

// Gone reports whether the peer has closed or lost the connection.
func (c caller) Gone() bool {
	t, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return true
	}
	const established = 1 // TCP_ESTABLISHED of tcp_states.h
	state := uint8(established)
	err = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			state = info.State
		}
	})
	return err != nil || state != established
}

// offered reports whether the client offers a subprotocol, spelled exactly so.
func offered(h http.Header, protocol string) bool {
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		if slices.ContainsFunc(strings.Split(line, ","), func(p string) bool { return strings.TrimSpace(p) == protocol }) {
			return true
		}
	}
	return false
}

// parseTunnelQuery reads port, which is required, and identity, false when
// absent; each at most once. detail says what is wrong, empty when nothing is.
// Unknown keys are ignored, whatever their form.
func parseTunnelQuery(query string) (q api.TunnelQuery, detail string) {
	seen := map[string]string{}
	for pair := range strings.SplitSeq(query, "&") {
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil || (key != "port" && key != "identity") {
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if _, twice := seen[key]; twice || err != nil {
			return q, key + " is given twice or is not decodable"
		}
		seen[key] = value
	}
	port, ok := seen["port"]
	if !ok {
		return q, "port is missing"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		return q, "port is not an integer between 0 and 65535"
	}
	q.Port = uint16(n)
	switch identity, given := seen["identity"]; {
	case !given || identity == "false" || identity == "0":
	case identity == "true" || identity == "1":
		q.Identity = true
	default:
		return q, "identity is neither true nor false"
	}
	return q, ""
}
