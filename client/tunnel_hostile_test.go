package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
	"microvms/client"
)

// farEnd is a daemon, or what poses as one, that does what a test says once the
// tunnel is upgraded. tries counts the requests that it got.
func farEnd(t *testing.T, f func(ctx context.Context, ws *websocket.Conn)) (s *client.Session, tries *atomic.Int32) {
	t.Helper()
	tries = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		f(r.Context(), ws)
	}))
	t.Cleanup(server.Close)
	s, err := client.New(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, tries
}

// honest is a far end with the VM's key. It goes on with the session that it
// has agreed on, after the ready message.
func honest(t *testing.T, offer bool, then func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session)) func(context.Context, *websocket.Conn) {
	_, seed, hostPublic := identities(t)
	return func(ctx context.Context, ws *websocket.Conn) {
		_, hello, err := ws.Read(ctx)
		if err != nil {
			return
		}
		s, reply, err := tunnel.Respond(tunnel.Keys{Private: seed, Peer: hostPublic}, 7, hello, offer)
		if err != nil {
			t.Errorf("the client's hello: %v", err)
			return
		}
		ws.Write(ctx, websocket.MessageBinary, reply)
		_, ready, err := ws.Read(ctx)
		if err != nil || s.OpenReady(ready) != nil {
			t.Errorf("the client's first record is not the ready message: %v", err)
			return
		}
		then(ctx, ws, s)
	}
}

// TestTunnelEnds plays each way in which a far end can end a verified tunnel.
// Only its own end of stream is a clean end of one that promised it.
func TestTunnelEnds(t *testing.T) {
	t.Attr("requirement", "BIND-23")
	t.Attr("requirement", "BIND-24")
	seal := func(s *tunnel.Session, text string) []byte { b, _ := s.Seal(nil, []byte(text)); return b }
	binary := func(ctx context.Context, ws *websocket.Conn, b []byte) { ws.Write(ctx, websocket.MessageBinary, b) }
	type play = func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session)
	for name, c := range map[string]struct {
		offer bool
		then  play
		want  client.TunnelEnd
		is    error // that Read's last error matches; nil: io.EOF
	}{
		"end of stream": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			b, _ := s.SealEnd(nil)
			binary(ctx, ws, b)
			ws.Close(1000, "")
		}, client.TunnelClosed, nil},
		"close without it":  {true, func(_ context.Context, ws *websocket.Conn, _ *tunnel.Session) { ws.Close(1000, "") }, client.TunnelTruncated, client.ErrTruncated},
		"no code":           {true, func(_ context.Context, ws *websocket.Conn, _ *tunnel.Session) { ws.Close(1005, "") }, client.TunnelTruncated, io.ErrUnexpectedEOF},
		"hang-up":           {true, func(context.Context, *websocket.Conn, *tunnel.Session) {}, client.TunnelTruncated, client.ErrTruncated},
		"close, no offer":   {false, func(_ context.Context, ws *websocket.Conn, _ *tunnel.Session) { ws.Close(1000, "") }, client.TunnelClosedUnproven, nil},
		"hang-up, no offer": {false, func(context.Context, *websocket.Conn, *tunnel.Session) {}, client.TunnelClosedUnproven, nil},
		"a code of failure": {true, func(_ context.Context, ws *websocket.Conn, _ *tunnel.Session) { ws.Close(4500, "why") }, client.TunnelRefused, nil},
		"text": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			ws.Write(ctx, websocket.MessageText, seal(s, "x"))
			ws.Read(ctx)
		}, client.TunnelFailed, nil},
		"forged": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			binary(ctx, ws, make([]byte, 30))
			ws.Read(ctx)
		}, client.TunnelFailed, tunnel.ErrRecord},
		"forged end": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			binary(ctx, ws, make([]byte, 16))
			ws.Read(ctx)
		}, client.TunnelFailed, tunnel.ErrRecord},
		"a record too long": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			binary(ctx, ws, make([]byte, 1<<20))
			ws.Read(ctx)
		}, client.TunnelFailed, tunnel.ErrRecord},
		"repeated": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			b := seal(s, "y")
			binary(ctx, ws, b)
			binary(ctx, ws, b)
			ws.Read(ctx)
		}, client.TunnelFailed, tunnel.ErrRecord},
		"a record is missing": {true, func(ctx context.Context, ws *websocket.Conn, s *tunnel.Session) {
			seal(s, "lost")
			binary(ctx, ws, seal(s, "next"))
			ws.Read(ctx)
		}, client.TunnelFailed, tunnel.ErrRecord},
	} {
		t.Run(name, func(t *testing.T) {
			host, _, _ := identities(t)
			s, tries := farEnd(t, honest(t, c.offer, func(ctx context.Context, ws *websocket.Conn, n *tunnel.Session) {
				binary(ctx, ws, seal(n, "first "))
				c.then(ctx, ws, n)
			}))
			tun := dial(t, s, client.TunnelRequest{Port: 7, Identity: &host})
			data, err := io.ReadAll(tun)
			want := map[bool]string{true: "first y", false: "first "}[name == "repeated"]
			if string(data) != want {
				t.Errorf("read %q, want %q", data, want)
			}
			if o := tun.Outcome(); o.End != c.want {
				t.Errorf("outcome %v, want %v", o.End, c.want)
			}
			clean := c.want == client.TunnelClosed || c.want == client.TunnelClosedUnproven
			if (err == nil) != clean || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("read error %v, want %v", err, c.is)
			}
			if _, err := tun.Write([]byte("late")); err == nil {
				t.Error("a write on an ended tunnel succeeds")
			}
			if tries.Load() != 1 {
				t.Errorf("%d tries", tries.Load())
			}
		})
	}
}

// TestTunnelImpostor plays far ends that do not prove the VM's key: each fails
// the tunnel, gets no byte of the caller, and no second try.
func TestTunnelImpostor(t *testing.T) {
	t.Attr("requirement", "BIND-21")
	host, seed, hostPublic := identities(t)
	other := seed
	other[5] ^= 1
	reply := func(private [32]byte, kind websocket.MessageType, change func([]byte) []byte) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, ws *websocket.Conn) {
			_, hello, err := ws.Read(ctx)
			if err != nil {
				return
			}
			_, message, err := tunnel.Respond(tunnel.Keys{Private: private, Peer: hostPublic}, 7, hello, true)
			if err != nil {
				message = make([]byte, 49) // the best that it can do
			}
			ws.Write(ctx, kind, change(message))
			if _, b, err := ws.Read(ctx); err == nil {
				t.Errorf("the far end got %d bytes", len(b))
			}
		}
	}
	same := func(b []byte) []byte { return b }
	for name, f := range map[string]func(context.Context, *websocket.Conn){
		"another key":     reply(other, websocket.MessageBinary, same),
		"text":            reply(seed, websocket.MessageText, same),
		"a changed reply": reply(seed, websocket.MessageBinary, func(b []byte) []byte { b[40] ^= 1; return b }),
		"a cut reply":     reply(seed, websocket.MessageBinary, func(b []byte) []byte { return b[:47] }),
		"an echo": func(ctx context.Context, ws *websocket.Conn) {
			_, hello, _ := ws.Read(ctx)
			ws.Write(ctx, websocket.MessageBinary, hello)
			ws.Read(ctx)
		},
		"a close":   func(ctx context.Context, ws *websocket.Conn) { ws.Read(ctx); ws.Close(1000, "") },
		"a hang-up": func(ctx context.Context, ws *websocket.Conn) { ws.Read(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s, tries := farEnd(t, f)
			tun, err := s.DialTunnel(t.Context(), client.TunnelRequest{Port: 7, Identity: &host})
			if err == nil {
				tun.Close()
				t.Fatal("the tunnel is open")
			}
			if kind := client.KindOf(err); kind != client.KindProtocol && kind != client.KindRetryable {
				t.Errorf("error %v of kind %s", err, kind)
			}
			if tries.Load() != 1 {
				t.Errorf("%d tries", tries.Load())
			}
		})
	}
}

// TestTunnelStops checks that a dial ends with its context while the far end is
// silent, and that a refusal before the upgrade is the answer's own error.
func TestTunnelStops(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	host, _, _ := identities(t)
	s, _ := farEnd(t, func(ctx context.Context, ws *websocket.Conn) { ws.Read(ctx); ws.Read(ctx) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.DialTunnel(ctx, client.TunnelRequest{Port: 7, Identity: &host}); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("a dial past its context: %v", err)
	}
	real, _ := launchVerified(t)
	wrong, err := client.New(real.Endpoint(), "wrong")
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	var refused *client.APIError
	if _, err := wrong.DialTunnel(t.Context(), client.TunnelRequest{Port: 7}); !errors.Is(err, client.ErrUnauthorized) || !errors.As(err, &refused) || refused.Path != api.PathTunnel+"?port=7" {
		t.Errorf("a wrong token: %v", err)
	}
	var _ net.Conn = (*client.Tunnel)(nil)
}
