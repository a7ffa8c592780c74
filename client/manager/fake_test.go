package manager

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// fake is a manager of which a test writes every move. For each connection it
// calls the next script; after the last one it refuses to upgrade.
type fake struct {
	t       *testing.T
	address string
	server  *httptest.Server

	mu      sync.Mutex
	scripts []func(*peer)
	header  http.Header // of the last upgrade
	host    string
}

// serve starts a manager behind a unix socket.
func serve(t *testing.T, scripts ...func(*peer)) *fake {
	t.Helper()
	f := &fake{t: t, scripts: scripts}
	path := filepath.Join(t.TempDir(), "m")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f.address = path
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.upgrade))
	f.server.Listener.Close()
	f.server.Listener = listener
	f.server.Start()
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) upgrade(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.header, f.host = r.Header.Clone(), r.Host
	if len(f.scripts) == 0 || r.URL.Path != msp.Path {
		f.mu.Unlock()
		http.Error(w, "no manager here", http.StatusNotFound)
		return
	}
	script := f.scripts[0]
	f.scripts = f.scripts[1:]
	f.mu.Unlock()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	p := &peer{t: f.t, ws: ws, ctx: r.Context()}
	script(p)
}

// peer is the manager's end of one connection.
type peer struct {
	t   *testing.T
	ws  *websocket.Conn
	ctx context.Context
}

// send sends a message; a client that has left is no failure.
func (p *peer) send(h msp.Header, payload any) {
	message, err := msp.Message(h, payload)
	if err != nil {
		p.t.Error(err)
	}
	p.ws.Write(p.ctx, websocket.MessageBinary, message)
}

func (p *peer) raw(kind websocket.MessageType, message []byte) { p.ws.Write(p.ctx, kind, message) }

func (p *peer) hello(boot uint64) {
	p.send(msp.Header{Method: msp.MethodHello}, &msp.HelloPayload{Hello: msp.Hello{BootID: boot}})
}

func (p *peer) event(e msp.Event) { p.send(msp.Header{Method: msp.MethodEvent}, &e) }

// read gives the next request, nil when the client has left.
func (p *peer) read() (uint64, *msp.Request) {
	_, message, err := p.ws.Read(p.ctx)
	if err != nil {
		return 0, nil
	}
	h, payload, err := msp.ParseHeader(message)
	if err != nil {
		p.t.Error(err)
		return 0, nil
	}
	r, err := msp.ParseRequest(h.Method, payload)
	if err != nil {
		p.t.Errorf("the client sent what no manager reads: %v", err)
		return 0, nil
	}
	return h.Request, r
}

// want reads a request of that method and gives its id.
func (p *peer) want(m msp.Method) (uint64, *msp.Request) {
	id, r := p.read()
	if r == nil || r.Method() != m {
		p.t.Errorf("want a request %v, have %+v", m, r)
		return id, &msp.Request{Run: &msp.RunRequest{}, Attach: &msp.Attach{}, Cancel: &msp.Target{}, Ack: &msp.Target{}, GetArtifact: &msp.GetArtifact{}}
	}
	return id, r
}

func (p *peer) refuse(id uint64, code msp.ErrorCode, text string) {
	p.send(msp.Header{Method: msp.MethodError, Request: id}, &msp.Error{Code: code, Message: text})
}

// untilLeft waits for the client to go.
func (p *peer) untilLeft() {
	for {
		if _, _, err := p.ws.Read(p.ctx); err != nil {
			return
		}
	}
}

func queued(n uint64) msp.Event  { return msp.Event{Queued: &msp.Lifecycle{GenvmID: n}} }
func started(n uint64) msp.Event { return msp.Event{Started: &msp.Lifecycle{GenvmID: n}} }
func finished(n uint64, code int64) msp.Event {
	return msp.Event{Finished: &msp.Finished{GenvmID: n, Cause: msp.Exited, ExitCode: &code}}
}

// request is a run request, with a token if one is given.
func request(token ...string) *msp.RunRequest {
	r := msp.NewRunRequest()
	r.HostData, r.Host, r.IsSync = "{}", "unix:///h", true
	if len(token) > 0 {
		r.Token = &token[0]
	}
	return r
}

// testContext ends a test that would hang.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// connect dials the fake and closes the client with the test.
func (f *fake) connect(opts ...Option) *Client {
	f.t.Helper()
	c, err := Dial(testContext(f.t), f.address, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// session makes a session that dials again at once.
func (f *fake) session(reconnects int) *Session {
	f.t.Helper()
	s, err := NewSession(f.address, WithRetry(client.Retry{Delays: []time.Duration{time.Millisecond}, Reconnects: reconnects}))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close() })
	return s
}

// kinds reads a run to its end and gives the kinds of its events.
func kinds(t *testing.T, next func(context.Context) (*msp.Event, error)) []string {
	t.Helper()
	var out []string
	for {
		e, err := next(testContext(t))
		if err != nil {
			return append(out, err.Error())
		}
		out = append(out, e.Kind())
	}
}
