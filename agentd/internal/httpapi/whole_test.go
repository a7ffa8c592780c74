package httpapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// asker is a request's body in which a newcomer asks the connection to make room
// when the end was read, and perhaps before anything was: from the buffer, so
// that no read of the socket is woken.
type asker struct {
	io.ReadCloser
	conn    *conn
	atFirst bool
}

func (a *asker) Read(p []byte) (int, error) {
	if a.atFirst {
		a.atFirst = false
		a.ask()
	}
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		// net/http watches for the end of input by now, and the reader of the body does not know of its end.
		<-a.ask()
	}
	return n, err
}

// ask asks as a newcomer does, and returns what is closed once the question is
// settled, or at once when the connection is none that makes room.
func (a *asker) ask() (settled <-chan struct{}) {
	adm := a.conn.admission
	adm.mu.Lock()
	defer adm.mu.Unlock()
	adm.makeRoomLocked(adm.clock.Now())
	changed := make(chan struct{})
	adm.changed = changed
	if adm.asked == nil {
		adm.notifyLocked()
	}
	return changed
}

// serveOne serves one connection without a grace to a handler that reads the body
// and answers with it. It returns the client's end, and a count of the bodies that
// had their effect.
func serveOne(t *testing.T, stall time.Duration, atFirst bool) (client net.Conn, c *conn, taken *atomic.Int32) {
	t.Helper()
	server, client := pipe(t)
	c, taken = &conn{}, &atomic.Int32{}
	a := room(-1, c)
	c.Conn = server
	a.mu.Lock()
	c.waitHeaderLocked()
	a.mu.Unlock()
	s := &http.Server{
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context { return context.WithValue(ctx, connKey{}, nc) },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateActive {
				c.headerRead()
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !c.beginServing() {
				panic(http.ErrAbortHandler)
			}
			r.Body = &asker{ReadCloser: r.Body, conn: c, atFirst: atFirst}
			data, err := newBody(r).read(100, stall, stall)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			taken.Add(1)
			c.authorized() // an open answer can be closed as it is sent
			w.Header().Set("Connection", "close")
			w.Write(data)
		}),
	}
	one := &oneListener{conns: make(chan net.Conn, 1), addr: server.LocalAddr()}
	one.conns <- c
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(one) }()
	t.Cleanup(func() { close(one.conns); s.Close(); <-done })
	return client, c, taken
}

// oneListener accepts what it is given.
type oneListener struct {
	conns chan net.Conn
	addr  net.Addr
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.addr }

// TestWholeBodyIsAnswered asks a connection to make room between the last bytes
// of a body and the end of its read, while net/http already reads on to see the
// end of input: a body that is there has its effect, and its answer goes out.
func TestWholeBodyIsAnswered(t *testing.T) {
	t.Attr("requirement", "XPORT-31")
	t.Attr("requirement", "XPORT-30")
	head := "POST / HTTP/1.1\r\nHost: d\r\n"
	for name, text := range map[string]string{
		"declared": head + "Content-Length: 4\r\n\r\nbody",
		"chunked":  head + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
	} {
		for _, first := range []bool{false, true} {
			client, c, taken := serveOne(t, time.Hour, first)
			if _, err := io.WriteString(client, text); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatalf("%s: %d bodies are taken, and the answer is lost: %v", name, taken.Load(), err)
			}
			if data, err := io.ReadAll(r.Body); err != nil || string(data) != "body" {
				t.Errorf("%s: the answer is %q (%v)", name, data, err)
			}
			c.admission.mu.Lock()
			if c.evicted || c.admission.asked != nil {
				t.Errorf("%s: evicted %v, or still asked", name, c.evicted)
			}
			c.admission.mu.Unlock()
		}
	}
}

// whole is a body that comes at once, and calls come before.
type whole struct {
	text string
	come func()
}

func (w *whole) Read(p []byte) (int, error) { w.come(); return copy(p, w.text), io.EOF }
func (w *whole) Close() error               { return nil }

// TestClosedBodyHasNoEffect closes a connection for a newcomer before the end of
// its body is read, from what had been buffered: the request ends there.
func TestClosedBodyHasNoEffect(t *testing.T) {
	t.Attr("requirement", "XPORT-31")
	server, _ := pipe(t)
	for _, closed := range []bool{false, true} {
		c := &conn{phase: serving}
		a := room(-1, c)
		c.Conn = server
		b := &body{conn: c, declared: 4, whole: func() {}, ReadCloser: &whole{"body", func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if closed {
				c.concedeLocked()
			}
		}}}
		func() {
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != closed {
					t.Errorf("closed %v: the handler goes on with %v", closed, p)
				}
			}()
			if data, err := b.read(100, time.Hour, 0); err != nil || string(data) != "body" {
				t.Errorf("read %q (%v)", data, err)
			}
		}()
	}
}

// TestNoBodyIsNotAwaited reads a request without a body: at no moment is its
// connection offered to a newcomer.
func TestNoBodyIsNotAwaited(t *testing.T) {
	t.Attr("requirement", "XPORT-31")
	c := &conn{phase: serving}
	a := room(-1, c)
	offered := make(chan struct{})
	a.changed = offered
	if data, err := (&body{ReadCloser: http.NoBody, conn: c, eof: true, whole: func() {}}).read(100, time.Hour, 0); err != nil || len(data) > 0 {
		t.Errorf("read %q (%v)", data, err)
	}
	select {
	case <-offered:
		t.Error("a newcomer was told to look again")
	default:
	}
}
