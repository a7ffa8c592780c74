package agentd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/agentd/tunnel"
)

// TestTunnelPlain relays bytes both ways, whatever the frames look like, and
// closes with the first end.
func TestTunnelPlain(t *testing.T) {
	t.Attr("requirement", "TUNNEL-5")
	d := booted(t, nil)
	port, conns := guestPort(t)
	query := fmt.Sprint("port=", port)

	ws := d.upgrade(query)
	g := <-conns
	big := bytes.Repeat([]byte("x"), 200000)
	send(t, ws, websocket.MessageBinary, []byte("ab"))
	send(t, ws, websocket.MessageText, []byte("cd"))
	send(t, ws, websocket.MessageText, []byte{0xff, 0xfe}) // no UTF-8: bytes all the same
	send(t, ws, websocket.MessageBinary, nil)
	send(t, ws, websocket.MessageBinary, big)
	want := append([]byte("abcd\xff\xfe"), big...)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(g, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the guest got %d bytes, %v", len(got), err)
	}
	g.Write(big)
	g.Close()
	if data, code, reason := ending(t, ws); !bytes.Equal(data, big) || code != api.TunnelNormal || reason != "" {
		t.Errorf("the caller got %d bytes and %d %q", len(data), code, reason)
	}

	for name, end := range map[string]func(ws *websocket.Conn){
		"close":   func(ws *websocket.Conn) { ws.Close(websocket.StatusNoStatusRcvd, "") },
		"hang-up": func(ws *websocket.Conn) { ws.CloseNow() },
	} {
		ws := d.upgrade(query)
		g := <-conns
		send(t, ws, websocket.MessageBinary, []byte("last"))
		end(ws)
		if data, reset := guestEnd(t, g); string(data) != "last" || reset {
			t.Errorf("%s: the guest got %q, reset %v", name, data, reset)
		}
		g.Close()
	}
}

// TestTunnelGuestFails checks that a guest's reset is a failure and no end.
func TestTunnelGuestFails(t *testing.T) {
	t.Attr("requirement", "TUNNEL-16")
	d, host := verifiable(t, nil)
	port, conns := guestPort(t)
	for _, open := range []func() *websocket.Conn{
		func() *websocket.Conn { ws, _ := d.verified(host, port, true); return ws },
		func() *websocket.Conn { return d.upgrade(fmt.Sprint("port=", port)) },
	} {
		ws, g := open(), <-conns
		io.WriteString(g, "x") // relayed: from here on it is no failure to listen
		if _, _, err := ws.Read(patiently(t)); err != nil {
			t.Fatal(err)
		}
		g.SetLinger(0)
		g.Close()
		if data, code, _ := ending(t, ws); code != api.TunnelRelayFailed || len(data) > 0 {
			t.Errorf("%d bytes and %d, want %d without an end of stream", len(data), code, api.TunnelRelayFailed)
		}
	}
}

// TestTunnelCallerEnds checks what the guest sees for each way in which a
// verified caller can end: only its own end of stream is an end.
func TestTunnelCallerEnds(t *testing.T) {
	for _, id := range []string{"AGENTD-20", "AGENTD-21", "TUNNEL-13", "TUNNEL-17"} {
		t.Attr("requirement", id)
	}
	d, host := verifiable(t, nil)
	port, conns := guestPort(t)
	record := func(s *tunnel.Session, text string) []byte { b, _ := s.Seal(nil, []byte(text)); return b }
	end := func(s *tunnel.Session) []byte { b, _ := s.SealEnd(nil); return b }
	for name, c := range map[string]struct {
		offer bool
		do    func(ws *websocket.Conn, s *tunnel.Session)
		reset bool
		code  websocket.StatusCode // -1: the connection ends without a close frame
	}{
		"end of stream":           {true, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageBinary, end(s)) }, false, api.TunnelNormal},
		"end of stream, no offer": {false, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageBinary, end(s)) }, false, api.TunnelNormal},
		"hang-up":                 {true, func(ws *websocket.Conn, _ *tunnel.Session) { ws.CloseNow() }, true, -1},
		"close":                   {true, func(ws *websocket.Conn, _ *tunnel.Session) { ws.Close(1000, "") }, true, 1000},
		"close, no offer":         {false, func(ws *websocket.Conn, _ *tunnel.Session) { ws.Close(1000, "") }, false, 1000},
		"hang-up, no offer":       {false, func(ws *websocket.Conn, _ *tunnel.Session) { ws.CloseNow() }, false, -1},
		"text":                    {true, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageText, record(s, "b")) }, true, -1},
		"repeated":                {true, func(ws *websocket.Conn, s *tunnel.Session) { b := record(s, "b"); twice(t, ws, b, b) }, true, -1},
		"reordered": {true, func(ws *websocket.Conn, s *tunnel.Session) {
			b, c := record(s, "b"), record(s, "c")
			twice(t, ws, c, b)
		}, true, -1},
		"short of its tag":      {true, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageBinary, []byte("short")) }, true, -1},
		"longer than a record":  {true, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageBinary, make([]byte, 65536)) }, true, -1},
		"an end that is forged": {true, func(ws *websocket.Conn, s *tunnel.Session) { send(t, ws, websocket.MessageBinary, make([]byte, 16)) }, true, -1},
		"bad data, then a true end": {true, func(ws *websocket.Conn, s *tunnel.Session) {
			b := record(s, "b")
			b[0] ^= 1
			twice(t, ws, b, end(s))
		}, true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			ws, s := d.verified(host, port, c.offer)
			g := <-conns
			defer g.Close()
			send(t, ws, websocket.MessageBinary, record(s, "a"))
			if _, err := io.ReadFull(g, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if !c.reset {
				io.WriteString(g, "in flight") // unread at the daemon's end: must not become a reset
			}
			c.do(ws, s)
			data, reset := guestEnd(t, g)
			if want := map[bool]string{true: "b"}[name == "repeated"]; string(data) != want && !(reset && len(data) == 0) {
				t.Errorf("the guest got %q, want %q", data, want)
			}
			if reset != c.reset {
				t.Errorf("reset %v, want %v", reset, c.reset)
			}
			if name == "hang-up" || name == "close" || !c.offer && c.code == -1 || name == "close, no offer" {
				return // its own socket is gone
			}
			if _, code, _ := ending(t, ws); code != c.code {
				t.Errorf("closed with %d, want %d", code, c.code)
			}
		})
	}
}

func twice(t *testing.T, ws *websocket.Conn, a, b []byte) {
	send(t, ws, websocket.MessageBinary, a)
	ws.Write(t.Context(), websocket.MessageBinary, b) // the daemon may have cut it by then
}

// TestTunnelUploadIsWhole ends a tunnel behind a guest that is slow to read,
// with bytes of the guest in flight: nothing of the upload is lost.
func TestTunnelUploadIsWhole(t *testing.T) {
	t.Attr("requirement", "TUNNEL-17")
	d, host := verifiable(t, nil)
	port, conns := guestPort(t)
	ws, s := d.verified(host, port, true)
	g := <-conns
	defer g.Close()
	io.WriteString(g, "unread")
	chunk := make([]byte, tunnel.MaxChunk)
	done := make(chan error, 1)
	const chunks = 256 // more than sockets hold
	go func() {
		for range chunks {
			b, err := s.Seal(nil, chunk)
			if err == nil {
				err = ws.Write(context.Background(), websocket.MessageBinary, b)
			}
			if err != nil {
				done <- err
				return
			}
		}
		b, err := s.SealEnd(nil)
		if err == nil {
			err = ws.Write(context.Background(), websocket.MessageBinary, b)
		}
		done <- err
	}()
	g.SetReadDeadline(time.Now().Add(failsafe))
	n, err := io.Copy(io.Discard, g)
	if err != nil || n != chunks*tunnel.MaxChunk {
		t.Errorf("the guest read %d of %d bytes, %v", n, chunks*tunnel.MaxChunk, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTunnelSlots checks that a tunnel takes a connection slot for its life and
// gives it back.
func TestTunnelSlots(t *testing.T) {
	t.Attr("requirement", "TUNNEL-11")
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxConnections = 3 })
	port, conns := guestPort(t)
	query := fmt.Sprint("port=", port)
	d.http.CloseIdleConnections()
	for range 4 {
		var open []*websocket.Conn
		for range 3 {
			open = append(open, d.upgrade(query))
		}
		p := d.dial()
		p.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
		p.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if _, err := p.br.Peek(1); err == nil {
			t.Fatal("a fourth connection is served beside three tunnels")
		}
		p.SetReadDeadline(time.Now().Add(failsafe))
		open[0].CloseNow()
		if r := p.read("GET"); r.status != 200 {
			t.Fatalf("after a tunnel ended: %v", r)
		}
		p.Close()
		for _, ws := range open {
			ws.CloseNow()
		}
		for range 3 {
			g := <-conns
			guestEnd(t, g)
			g.Close()
		}
	}
}

// points hands the transitions of tunnels on as they are recorded.
type points struct{ delivered, finished chan trace.Event }

func (p *points) Record(e trace.Event) {
	switch e.Action {
	case trace.TunnelDeliver:
		p.delivered <- e
	case trace.TunnelFinish:
		p.finished <- e
	}
}

// TestTunnelStalledGuest hangs up behind a guest that reads nothing: the tunnel
// ends although the guest never takes what it was sent.
func TestTunnelStalledGuest(t *testing.T) {
	t.Attr("requirement", "TUNNEL-15")
	rec := &points{delivered: make(chan trace.Event, 1<<16), finished: make(chan trace.Event, 1)}
	d := booted(t, func(c *agentd.Config) { c.Recorder, c.Limits.WriteTimeout = rec, 20*time.Millisecond })
	port, conns := guestPort(t)
	ws := d.upgrade(fmt.Sprint("port=", port))
	g := <-conns
	defer g.Close()
	// One piece at a time, until the guest's side takes no more: so the hang-up
	// itself is not stuck behind bytes.
	for stalled := false; !stalled; {
		send(t, ws, websocket.MessageBinary, make([]byte, 32<<10))
		select {
		case <-rec.delivered:
		case <-time.After(time.Second):
			stalled = true
		}
	}
	ws.CloseNow()
	select {
	case e := <-rec.finished:
		if e.Attrs[0].Value != "caller-gone" {
			t.Errorf("the tunnel ended by %v", e.Attrs)
		}
	case <-time.After(failsafe):
		t.Fatal("the tunnel does not end")
	}
}

// TestTunnelShutdown checks that the daemon's end cuts its tunnels and waits for
// them; the leak check of this package sees what is left.
func TestTunnelShutdown(t *testing.T) {
	t.Attr("requirement", "TUNNEL-11")
	d, host := verifiable(t, nil)
	port, conns := guestPort(t)
	ws, _ := d.verified(host, port, true)
	g := <-conns
	defer g.Close()
	plain := d.upgrade(fmt.Sprint("port=", port))
	h := <-conns
	defer h.Close()
	waiting := d.upgrade(fmt.Sprintf("port=%d&identity=true", port)) // no handshake yet
	if err := d.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, reset := guestEnd(t, g); !reset {
		t.Error("the guest of a verified tunnel saw a normal end")
	}
	guestEnd(t, h)
	for _, ws := range []*websocket.Conn{ws, plain, waiting} {
		if _, code, _ := ending(t, ws); code != -1 {
			t.Errorf("closed with %d", code)
		}
	}
}

// TestTunnelLogsNoKey checks that the log names no key, byte or reason of a
// tunnel.
func TestTunnelLogsNoKey(t *testing.T) {
	t.Attr("requirement", "TUNNEL-13")
	d, host := verifiable(t, nil)
	port, conns := guestPort(t)
	ws, s := d.verified(host, port, true)
	g := <-conns
	defer g.Close()
	b, err := s.Seal(nil, []byte("payload-of-the-caller"))
	if err != nil {
		t.Fatal(err)
	}
	send(t, ws, websocket.MessageBinary, b)
	io.ReadFull(g, make([]byte, 21))
	send(t, ws, websocket.MessageBinary, []byte("forged-bytes-of-the-path"))
	ending(t, ws)
	log := d.log.String()
	for _, secret := range []string{"payload-of", "forged-bytes", token, fmt.Sprintf("%x", host.Private[:]), fmt.Sprint(host.Private)} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// TestTunnelDialsLoopbackAlone checks that a listener on another address of the
// machine is not reached.
func TestTunnelDialsLoopbackAlone(t *testing.T) {
	t.Attr("requirement", "TUNNEL-3")
	d := booted(t, nil)
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, code, reason := ending(t, d.upgrade(fmt.Sprintf("port=%d&host=127.0.0.2", port))); code != api.TunnelNoListener || !strings.Contains(reason, fmt.Sprint(port)) {
		t.Errorf("closed with %d %q", code, reason)
	}
}
