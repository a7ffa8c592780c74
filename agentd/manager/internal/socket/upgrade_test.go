package socket

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestUpgradeRefusals sends upgrades with one thing wrong: each is answered by
// a status and never by 101.
func TestUpgradeRefusals(t *testing.T) {
	t.Attr("requirement", "SOCKET-2")
	t.Attr("requirement", "SOCKET-3")
	t.Attr("requirement", "SOCKET-4")
	t.Attr("requirement", "SOCKET-5")
	s := echoing(t, 1000)
	const (
		host       = "Host: localhost\r\n"
		connection = "Connection: keep-alive, Upgrade\r\n"
		upgrade    = "Upgrade: WebSocket\r\n"
		version    = "Sec-WebSocket-Version: 13\r\n"
		key        = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	)
	for _, c := range []struct {
		name, head string
		status     int
		has        string // a header of the answer
	}{
		{"all right", host + connection + upgrade + version + key, 101, "Sec-Websocket-Accept"},
		{"an origin", host + connection + upgrade + version + key + "Origin: https://example.com\r\n", 403, ""},
		{"its own origin", host + connection + upgrade + version + key + "Origin: http://localhost\r\n", 403, ""},
		{"an empty origin", host + connection + upgrade + version + key + "Origin: \r\n", 403, ""},
		{"an origin and a broken key", host + connection + upgrade + version + "Origin: null\r\n", 403, ""},
		{"a page's fetch", host + connection + upgrade + version + key + "Sec-Fetch-Site: cross-site\r\n", 403, ""},
		{"another host", "Host: example.com\r\n" + connection + upgrade + version + key, 403, ""},
		{"no upgrade", host, 426, "Upgrade"},
		{"no connection header", host + upgrade + version + key, 426, "Upgrade"},
		{"another upgrade", host + connection + "Upgrade: h2c\r\n" + version + key, 426, "Upgrade"},
		{"no version", host + connection + upgrade + key, 400, "Sec-Websocket-Version"},
		{"version 12", host + connection + upgrade + "Sec-WebSocket-Version: 12\r\n" + key, 400, "Sec-Websocket-Version"},
		{"two versions", host + connection + upgrade + version + version + key, 400, "Sec-Websocket-Version"},
		{"no key", host + connection + upgrade + version, 400, ""},
		{"two keys", host + connection + upgrade + version + key + key, 400, ""},
		{"a short key", host + connection + upgrade + version + "Sec-WebSocket-Key: AAAA\r\n", 400, ""},
		{"a long key", host + connection + upgrade + version + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAAA\r\n", 400, ""},
		{"no base64", host + connection + upgrade + version + "Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!==\r\n", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header := s.ask(t, "GET /ws HTTP/1.1\r\n"+c.head+"\r\n")
			if status != 101 && header.Get("Content-Type") != "application/json" {
				t.Errorf("a refusal of type %q", header.Get("Content-Type"))
			}
			if status != c.status || (c.has != "" && header.Get(c.has) == "") {
				t.Errorf("status %d with %v, want %d with %q", status, header, c.status, c.has)
			}
		})
	}
	if status, _ := s.ask(t, "GET /ws HTTP/1.0\r\n"+host+connection+upgrade+version+key+"\r\n"); status != 426 {
		t.Errorf("HTTP/1.0: status %d", status)
	}
}

// ask sends one request by hand.
func (s *served) ask(t *testing.T, request string) (int, http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode, r.Header
}

// TestUpgradeSelectsNothing offers compression and sub-protocols: neither is
// taken, and messages travel as they are.
func TestUpgradeSelectsNothing(t *testing.T) {
	t.Attr("requirement", "SOCKET-6")
	s := echoing(t, 100_000)
	ws, answer, err := websocket.Dial(t.Context(), "ws://"+s.addr+"/ws", &websocket.DialOptions{
		Subprotocols: []string{"a", "b"}, CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, h := range []string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol"} {
		if got := answer.Header.Get(h); got != "" {
			t.Errorf("%s: %q", h, got)
		}
	}
	s.read(ws)
	text := strings.Repeat("compressible ", 1000)
	s.write(ws, text)
	if got := s.read(ws); string(got) != text {
		t.Errorf("echoed %d bytes of %d", len(got), len(text))
	}
}

// TestUpgradeTakesEarlyFrames sends frames together with the upgrade: they are
// read in their order, and one that is too long ends the connection all the same.
func TestUpgradeTakesEarlyFrames(t *testing.T) {
	t.Attr("requirement", "SOCKET-18")
	s := echoing(t, 10)
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"+
		frame(true, opBinary, "one")+frame(true, opBinary, "two"))
	r := &rest{bufio.NewReader(c)}
	r.until("\r\n\r\n")
	if got := r.until("two"); got != hello7+"\x82\x03one\x82\x03two" {
		t.Errorf("got %q", got)
	}
	fmt.Fprint(c, header(true, opBinary, 11))
	if got := r.until("never"); got != "" {
		t.Errorf("after a long frame: %q", got)
	}
}
