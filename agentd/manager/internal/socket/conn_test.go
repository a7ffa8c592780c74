package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"microvms/agentd/manager/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a Server behind a loopback listener.
type served struct {
	*Server
	t    *testing.T
	addr string
}

// start serves s until the end of the test, and then asks that it ends by itself.
func start(t *testing.T, s *Server) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = front.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut at once
		s.Shutdown(ctx)
		front.Close()
		<-ended
	})
	return &served{Server: s, t: t, addr: l.Addr().String()}
}

// dial opens a WebSocket with the library's client and reads the hello.
func (s *served) dial() *websocket.Conn {
	s.t.Helper()
	ws, _, err := websocket.Dial(s.t.Context(), "ws://"+s.addr+"/ws", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	s.t.Cleanup(func() { ws.CloseNow() })
	if got := s.read(ws); !bytes.Equal(got, s.config.hello) {
		s.t.Fatalf("first message %x, want the hello", got)
	}
	return ws
}

func (s *served) read(ws *websocket.Conn) []byte {
	s.t.Helper()
	kind, b, err := ws.Read(s.t.Context())
	if err != nil || kind != websocket.MessageBinary {
		s.t.Fatalf("read: kind %v, %v", kind, err)
	}
	return b
}

func (s *served) write(ws *websocket.Conn, message string) {
	s.t.Helper()
	if err := ws.Write(s.t.Context(), websocket.MessageBinary, []byte(message)); err != nil {
		s.t.Fatal(err)
	}
}

// raw opens a WebSocket by hand and returns its socket behind the response's head.
func (s *served) raw() (net.Conn, *rest) { return s.upgraded("tcp", s.addr) }

// rawUnix is raw over a unix socket, of which the kernel keeps little.
func (s *served) rawUnix() (net.Conn, *rest) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		s.t.Fatal(err)
	}
	front := &http.Server{Handler: s.Server}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = front.Serve(l) }()
	s.t.Cleanup(func() { front.Close(); <-ended })
	return s.upgraded("unix", path)
}

func (s *served) upgraded(network, addr string) (net.Conn, *rest) {
	s.t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	r := &rest{bufio.NewReader(c)}
	head := r.until("\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		s.t.Fatalf("upgrade answered %q", head)
	}
	return c, r
}

// rest reads what a socket still gives.
type rest struct{ *bufio.Reader }

// until reads to the end of mark, or of the stream.
func (r *rest) until(mark string) string {
	var b []byte
	for !bytes.HasSuffix(b, []byte(mark)) {
		one, err := r.ReadByte()
		if err != nil {
			break
		}
		b = append(b, one)
	}
	return string(b)
}

func quiet() Config {
	return Config{Log: slog.New(slog.DiscardHandler), Table: noRuns{}, BootID: 7}
}

// noRuns is a table without runs.
type noRuns struct{ Table }

func (noRuns) Disconnect(context.Context, runs.Subscriber) {}

// hello7 is the first message as a frame: hello of boot 7.
const hello7 = "\x82\x2b\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x05hello\x16\x07boot_id9\x0eprotocol_major\x01"

// echo answers each message with itself.
func echo(c *conn, _ bool, message []byte) { c.queue.add(item{frame: message}) }

func echoing(t *testing.T, max int64) *served {
	c := quiet()
	c.MaxMessageBytes = max
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.serve = echo
	return start(t, s)
}

// TestOversize sends one byte too much in one frame, in two, and by
// announcement alone: the connection ends without a close frame, which the
// client's library reports as an end of the stream (close code 1006).
func TestOversize(t *testing.T) {
	t.Attr("requirement", "SOCKET-12")
	s := echoing(t, 1000)
	for name, input := range map[string]string{
		"one frame": frame(true, opBinary, strings.Repeat("x", 1001)),
		"fragments": frame(false, opBinary, strings.Repeat("x", 600)) + frame(true, opContinuation, strings.Repeat("x", 401)),
		"announced": header(true, opBinary, 1<<40),
		"text":      frame(true, 1, strings.Repeat("x", 1001)),
	} {
		t.Run(name, func(t *testing.T) {
			fits := strings.Repeat("y", 1000)
			c, r := s.raw()
			io.WriteString(c, frame(true, opBinary, fits))
			want := hello7 + "\x82\x7e\x03\xe8" + fits
			if got := r.until(fits); got != want {
				t.Fatalf("before: %q", got)
			}
			io.WriteString(c, input)
			got, err := io.ReadAll(r)
			if len(got) != 0 || (err != nil && !isReset(err)) {
				t.Errorf("after: %q, %v", got, err)
			}
		})
	}
	ws := s.dial()
	s.write(ws, strings.Repeat("x", 1001))
	if _, _, err := ws.Read(t.Context()); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("the library's client saw %v", err)
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && strings.Contains(op.Err.Error(), "reset")
}

// TestPing is answered while the connection serves, with the ping's own payload.
func TestPing(t *testing.T) {
	t.Attr("requirement", "SOCKET-20")
	s := echoing(t, 1000)
	c, r := s.raw()
	r.until(hello7)
	io.WriteString(c, frame(false, opBinary, "one")+frame(true, 9, "probe")+frame(true, opContinuation, " two"))
	if got, want := r.until("two"), "\x8a\x05probe\x82\x07one two"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ws := s.dial()
	reading := ws.CloseRead(t.Context())
	if err := ws.Ping(reading); err != nil {
		t.Errorf("the library's ping: %v", err)
	}
}

// TestViolations breaks the WebSocket protocol: the connection ends with close
// code 1002 or none, and the next one is served.
func TestViolations(t *testing.T) {
	t.Attr("requirement", "SOCKET-28")
	t.Attr("requirement", "SOCKET-31")
	s := echoing(t, 1000)
	var handled atomic.Int64
	s.serve = func(c *conn, text bool, message []byte) {
		handled.Add(1)
		echo(c, text, message)
	}
	for name, input := range map[string]string{
		"not masked":                    "\x82\x01x",
		"reserved bits":                 "\xf2\x81\x00\x00\x00\x00x",
		"unknown opcode":                frame(true, 3, "x"),
		"unknown control opcode":        frame(true, 11, "x"),
		"a long ping":                   frame(true, 9, strings.Repeat("x", 126)),
		"a fragmented ping":             frame(false, 9, "x"),
		"a continuation of nothing":     frame(true, opContinuation, "x"),
		"a message within a message":    frame(false, opBinary, "x") + frame(true, opBinary, "x"),
		"a close frame with half code":  frame(true, opClose, "\x03"),
		"a close frame with code 1005":  frame(true, opClose, "\x03\xed"),
		"the end within a header":       "\x82",
		"the end within a message":      frame(false, opBinary, "x"),
		"the end within a long header":  "\x82\xfe\x01",
		"the end within a frame's data": header(true, opBinary, 100) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			c, r := s.raw()
			r.until(hello7)
			io.WriteString(c, input)
			c.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(r)
			if err != nil && !isReset(err) {
				t.Fatal(err)
			}
			if len(got) > 0 && !bytes.Contains(got, []byte("\x03\xea")) {
				t.Errorf("got %q, want close code 1002 or nothing", got)
			}
			// A request whose end did not come was not made, also between its fragments.
			if n := handled.Swap(0); n != 0 {
				t.Errorf("%d messages were handled", n)
			}
		})
	}
	ws := s.dial()
	s.write(ws, "still here")
	if got := s.read(ws); string(got) != "still here" {
		t.Errorf("got %q", got)
	}
}
