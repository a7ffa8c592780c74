package agentd_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/tunnel"
)

// tunnelKeys are the keys of a launch: the host's side and the VM's.
func tunnelKeys(t testing.TB) (host, vm tunnel.Keys) {
	t.Helper()
	for i := range tunnel.KeySize {
		host.Private[i], vm.Private[i] = 9, 7
	}
	var err error
	if host.Peer, err = tunnel.PublicKey(vm.Private); err != nil {
		t.Fatal(err)
	}
	if vm.Peer, err = tunnel.PublicKey(host.Private); err != nil {
		t.Fatal(err)
	}
	return host, vm
}

// verifiable starts a daemon that was launched with an identity.
func verifiable(t *testing.T, edit func(*agentd.Config)) (*daemon, tunnel.Keys) {
	t.Helper()
	d := start(t, edit)
	host, vm := tunnelKeys(t)
	r := d.post(hookAt+"run", envelope(map[string]any{
		"agent_token": token, api.PayloadIdentitySeed: base64.StdEncoding.EncodeToString(vm.Private[:]),
		api.PayloadIdentityHostPublic: base64.StdEncoding.EncodeToString(vm.Peer[:]),
	}))
	if r.status != 200 {
		t.Fatalf("bootstrap: %v", r)
	}
	return d, host
}

// upgrade opens the tunnel's WebSocket.
func (d *daemon) upgrade(query string, protocols ...string) *websocket.Conn {
	d.t.Helper()
	ws, _, err := websocket.Dial(context.Background(), "ws://"+d.addr+api.PathTunnel+"?"+query, &websocket.DialOptions{
		HTTPClient: d.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}, Subprotocols: protocols,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	d.t.Cleanup(func() { ws.CloseNow() })
	return ws
}

// ending reads a tunnel to its end: everything that comes, and the close.
func ending(t *testing.T, ws *websocket.Conn) (data []byte, code websocket.StatusCode, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			var c websocket.CloseError
			if errors.As(err, &c) {
				return data, c.Code, c.Reason
			}
			if ctx.Err() != nil {
				t.Fatal("the tunnel does not end")
			}
			return data, -1, ""
		}
		data = append(data, b...)
	}
}

// patiently returns a context that ends a wait which only a broken daemon makes.
func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	t.Cleanup(cancel)
	return ctx
}

func send(t *testing.T, ws *websocket.Conn, kind websocket.MessageType, b []byte) {
	t.Helper()
	if err := ws.Write(t.Context(), kind, b); err != nil {
		t.Fatal(err)
	}
}

// guestPort listens as a program of the guest would. Each connection comes out
// of the channel.
func guestPort(t *testing.T) (port uint16, conns chan *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = make(chan *net.TCPConn, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for len(conns) > 0 {
			(<-conns).Close()
		}
	})
	return uint16(l.Addr().(*net.TCPAddr).Port), conns
}

// verified opens a verified tunnel up to its ready message, offering an end of
// stream or not.
func (d *daemon) verified(host tunnel.Keys, port uint16, offer bool) (*websocket.Conn, *tunnel.Session) {
	d.t.Helper()
	ws := d.upgrade(fmt.Sprintf("port=%d&identity=true", port))
	i, hello, err := tunnel.Initiate(host, port, offer)
	if err != nil {
		d.t.Fatal(err)
	}
	send(d.t, ws, websocket.MessageBinary, hello)
	_, reply, err := ws.Read(patiently(d.t))
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := i.Finish(reply)
	if err != nil {
		d.t.Fatal(err)
	}
	ready, err := s.SealReady(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	send(d.t, ws, websocket.MessageBinary, ready)
	return ws, s
}

// TestTunnelQuery checks what is refused before the upgrade, and in which
// order: bearer, query, WebSocket.
func TestTunnelQuery(t *testing.T) {
	t.Attr("requirement", "TUNNEL-1")
	d := booted(t, nil)
	for _, q := range []string{"", "port=", "port=x", "port=-1", "port=%2B1", "port=65536", "port=1.5", "port=1&port=2", "port=1&identity=yes",
		"port=1&identity=", "port=1&identity=true&identity=true", "port=%zz", "Port=1"} {
		if r := d.get(api.PathTunnel + "?" + q); r.status != 400 || r.code() != api.MalformedRequest {
			t.Errorf("query %q: %v", q, r)
		}
		if r := d.with("GET", api.PathTunnel+"?"+q, "", nil); r.status != 401 {
			t.Errorf("query %q without a bearer: %v", q, r)
		}
	}
	for _, q := range []string{"port=0", "port=00080", "port=65535&identity=0", "x=%zz&port=1", "port=1&identity=1"} {
		if r := d.get(api.PathTunnel + "?" + q); r.status != 426 {
			t.Errorf("query %q without an upgrade: %v, want 426", q, r)
		}
	}
	if r := d.call("GET", api.PathTunnel+"?port=1", "body"); r.status != 400 || r.code() != api.MalformedRequest {
		t.Errorf("with a body: %v", r)
	}
	if r := d.call("HEAD", api.PathTunnel+"?port=1", ""); r.status != 426 {
		t.Errorf("HEAD: %v", r)
	}
	const up = "GET /v1/tcp?port=1 HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	const key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for name, c := range map[string]struct {
		more string
		want int
	}{
		"no key": {"Sec-WebSocket-Version: 13\r\n", 400}, "short key": {"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n", 400},
		"two keys": {"Sec-WebSocket-Version: 13\r\n" + key + key, 400}, "version 12": {"Sec-WebSocket-Version: 12\r\n" + key, 400},
		"another origin": {"Sec-WebSocket-Version: 13\r\n" + key + "Origin: http://evil.example\r\n", 403},
	} {
		p := d.dial()
		p.send(up + c.more + "\r\n")
		if r := p.read("GET"); r.status != c.want || r.header.Get(api.HeaderVersion) == "" {
			t.Errorf("%s: %v, want %d", name, r, c.want)
		}
	}
}

// TestTunnelSubprotocol checks that exactly one value is ever selected.
func TestTunnelSubprotocol(t *testing.T) {
	t.Attr("requirement", "TUNNEL-2")
	d := booted(t, nil)
	for _, c := range []struct {
		offer []string
		want  string
	}{
		{nil, ""},
		{[]string{"lambda-microvms", "lambda-microvms.authentication.x", "lambda-microvms.port.9000"}, "lambda-microvms"},
		{[]string{"LAMBDA-MICROVMS", "lambda-microvms"}, "lambda-microvms"},
		{[]string{"lambda-microvms.port.9000", "other"}, ""},
		{[]string{"LAMBDA-MICROVMS"}, ""},
	} {
		if got := d.upgrade("port=0", c.offer...).Subprotocol(); got != c.want {
			t.Errorf("offered %q, selected %q, want %q", c.offer, got, c.want)
		}
	}
}

// TestTunnelRefusals checks the close codes that come after the upgrade and
// before the relay, in their order, and that nothing is dialed meanwhile.
func TestTunnelRefusals(t *testing.T) {
	for _, id := range []string{"TUNNEL-3", "TUNNEL-4", "TUNNEL-8", "AGENTD-17", "AGENTD-18"} {
		t.Attr("requirement", id)
	}
	d, host := verifiable(t, nil)
	without := booted(t, nil)
	port, conns := guestPort(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	check := func(name string, ws *websocket.Conn, code websocket.StatusCode, reason string) {
		t.Helper()
		data, gotCode, gotReason := ending(t, ws)
		if gotCode != code || !strings.Contains(gotReason, reason) || len(data) != 0 || len(gotReason) > 123 {
			t.Errorf("%s: %d %q after %d bytes, want %d with %q", name, gotCode, gotReason, len(data), code, reason)
		}
	}
	check("port 0", d.upgrade("port=0"), api.TunnelBadPort, "port 0")
	check("nothing listens", d.upgrade(fmt.Sprint("port=", free)), api.TunnelNoListener, fmt.Sprintf("listening on port %d", free))
	check("no identity", without.upgrade(fmt.Sprintf("port=%d&identity=true", port)), api.TunnelNoIdentity, "launched without")
	check("no identity, port 0", without.upgrade("port=0&identity=true"), api.TunnelNoIdentity, "launched without")
	ws, _ := d.verified(host, 0, true)
	check("verified, port 0", ws, api.TunnelBadPort, "port 0")
	stranger := host
	stranger.Private[5] ^= 1
	for name, m := range map[string]struct {
		keys tunnel.Keys
		port uint16
		kind websocket.MessageType
		cut  int
	}{
		"another host":   {stranger, port, websocket.MessageBinary, 0},
		"another port":   {host, port + 1, websocket.MessageBinary, 0},
		"text":           {host, port, websocket.MessageText, 0},
		"cut message":    {host, port, websocket.MessageBinary, 1},
		"empty message":  {host, port, websocket.MessageBinary, 49},
		"cut to its key": {host, port, websocket.MessageBinary, 17},
	} {
		ws := d.upgrade(fmt.Sprintf("port=%d&identity=true", port))
		_, hello, err := tunnel.Initiate(m.keys, m.port, true)
		if err != nil {
			t.Fatal(err)
		}
		send(t, ws, m.kind, hello[:len(hello)-m.cut])
		check(name, ws, api.TunnelIdentityRefused, "handshake")
	}
	ws = d.upgrade(fmt.Sprintf("port=%d&identity=true", port))
	send(t, ws, websocket.MessageBinary, make([]byte, 1<<20))
	check("an endless message", ws, api.TunnelIdentityRefused, "handshake")
	if len(conns) != 0 {
		t.Error("a refused tunnel dialed the guest")
	}
}

// TestTunnelReady checks that the guest is dialed on the ready message alone,
// and that it goes no further.
func TestTunnelReady(t *testing.T) {
	for _, id := range []string{"TUNNEL-9", "TUNNEL-10", "AGENTD-18"} {
		t.Attr("requirement", id)
	}
	rec := &recorder{}
	patient, host := verifiable(t, func(c *agentd.Config) { c.Recorder = rec })
	noHello, _ := verifiable(t, func(c *agentd.Config) { c.Recorder, c.Limits.TunnelHelloTimeout = rec, 20*time.Millisecond })
	noReady, _ := verifiable(t, func(c *agentd.Config) { c.Recorder, c.Limits.TunnelReadyTimeout = rec, 20*time.Millisecond })
	port, conns := guestPort(t)
	query := fmt.Sprintf("port=%d&identity=true", port)
	if _, code, reason := ending(t, noHello.upgrade(query)); code != api.TunnelIdentityRefused || !strings.Contains(reason, "handshake") {
		t.Errorf("no handshake message: %d %q", code, reason)
	}
	for name, make := range map[string]func(s *tunnel.Session) []byte{
		"no ready message": func(*tunnel.Session) []byte { return nil },
		"another word":     func(s *tunnel.Session) []byte { b, _ := s.Seal(nil, []byte("microvms-tunnel-readY")); return b },
		"the end":          func(s *tunnel.Session) []byte { b, _ := s.SealEnd(nil); return b },
		"a forged one":     func(s *tunnel.Session) []byte { b, _ := s.SealReady(nil); b[3] ^= 1; return b },
		"the second first": func(s *tunnel.Session) []byte {
			_, _ = s.Seal(nil, []byte("x"))
			b, _ := s.Seal(nil, []byte("y"))
			return b
		},
	} {
		d := patient
		if name == "no ready message" {
			d = noReady
		}
		ws := d.upgrade(query)
		i, hello, err := tunnel.Initiate(host, port, true)
		if err != nil {
			t.Fatal(err)
		}
		send(t, ws, websocket.MessageBinary, hello)
		_, reply, err := ws.Read(patiently(t))
		if err != nil {
			t.Fatal(err)
		}
		s, err := i.Finish(reply)
		if err != nil {
			t.Fatal(err)
		}
		if m := make(s); m != nil {
			send(t, ws, websocket.MessageBinary, m)
		}
		if data, code, reason := ending(t, ws); code != api.TunnelIdentityRefused || !strings.Contains(reason, "handshake") || len(data) > 0 {
			t.Errorf("%s: %d %q", name, code, reason)
		}
	}
	for _, line := range rec.take() {
		if strings.Contains(line, "TunnelDial") || strings.Contains(line, "TunnelReady") {
			t.Errorf("recorded %q", line)
		}
	}
	if len(conns) != 0 {
		t.Error("the guest was dialed")
	}
}

// TestTunnelOrder checks in which order a verified tunnel takes its transitions:
// nothing is dialed before the ready message opened.
func TestTunnelOrder(t *testing.T) {
	t.Attr("requirement", "AGENTD-18")
	t.Attr("requirement", "AGENTD-19")
	rec := &recorder{}
	d, host := verifiable(t, func(c *agentd.Config) { c.Recorder = rec })
	port, conns := guestPort(t)
	ws, s := d.verified(host, port, true)
	g := <-conns
	io.WriteString(g, "hi")
	_, sealed, err := ws.Read(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := s.Open(nil, sealed); string(data) != "hi" || err != nil {
		t.Fatalf("%q, %v", data, err)
	}
	g.Close()
	_, sealed, err = ws.Read(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, end, err := s.Open(nil, sealed); !end || err != nil {
		t.Fatalf("end %v, %v", end, err)
	}
	if data, code, reason := ending(t, ws); code != api.TunnelNormal || len(data) > 0 || reason != "" {
		t.Errorf("after the end: %d bytes, %d %q", len(data), code, reason)
	}
	var got []string
	for _, line := range rec.take() {
		if _, word, _ := strings.Cut(line, " "); strings.HasPrefix(word, "Tunnel") {
			got = append(got, word)
		}
	}
	want := []string{"TunnelHello accepted=true", "TunnelReady", "TunnelDial listening=true", "TunnelSend", "TunnelFinish end=guest-eof guest=eof"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q\nwant     %q", got, want)
	}
}

// guestEnd reads a guest's connection to its end.
func guestEnd(t *testing.T, c *net.TCPConn) (data []byte, reset bool) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(failsafe))
	data, err := io.ReadAll(c)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return data, true
	case err != nil:
		t.Fatalf("the guest's connection: %v", err)
	}
	return data, false
}
