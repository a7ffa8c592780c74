package manager_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager"
)

// Every test of this package runs a whole manager behind a real socket, and
// none may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bootID = 7

// program is an executor that runs its first extra argument as a shell command.
// Its own arguments are --log-fd=N, run, and then the extra ones.
const program = "#!/bin/sh\nshift 2\nexec /bin/sh -c \"$1\"\n"

// served is a manager under test.
type served struct {
	*manager.Manager
	t    *testing.T
	addr string
	dir  string // a folder of the test
	http *http.Client
}

// start runs a manager until the end of the test. edit may change its Config.
func start(t *testing.T, edit func(*manager.Config)) *served {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "v0.1.0", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "genvm"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	c := manager.Config{
		Log: slog.New(slog.DiscardHandler), Executors: dir, BootID: func() uint64 { return bootID },
		Linger: time.Hour, ShutdownWait: time.Minute, Permits: 64,
	}
	if edit != nil {
		edit(&c)
	}
	m, err := manager.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(context.Background(), l) }()
	transport := &http.Transport{}
	s := &served{Manager: m, t: t, addr: l.Addr().String(), dir: dir, http: &http.Client{Transport: transport}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := m.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// peer is a client of the socket.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
	id uint64 // of the newest request
}

// dial connects a client and reads the hello.
func (s *served) dial() *peer {
	s.t.Helper()
	ws, _, err := websocket.Dial(context.Background(), "ws://"+s.addr+msp.Path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	p := &peer{t: s.t, ws: ws}
	s.t.Cleanup(func() { ws.CloseNow() })
	var hello msp.HelloPayload
	p.expect(msp.Header{Method: msp.MethodHello}, &hello)
	if hello.Hello.BootID != bootID || hello.Hello.ProtocolMajor != 0 {
		s.t.Fatalf("hello %+v", hello.Hello)
	}
	return p
}

// message reads one message.
func (p *peer) message() (msp.Header, []byte) {
	p.t.Helper()
	kind, b, err := p.ws.Read(context.Background())
	if err != nil || kind != websocket.MessageBinary {
		p.t.Fatalf("read: kind %v, %v", kind, err)
	}
	h, payload, err := msp.ParseHeader(b)
	if err != nil {
		p.t.Fatal(err)
	}
	return h, payload
}

// expect reads one message with that header into v.
func (p *peer) expect(want msp.Header, v any) {
	p.t.Helper()
	h, payload := p.message()
	if h != want {
		p.t.Fatalf("got %v of request %d (%x), want %v of %d", h.Method, h.Request, payload, want.Method, want.Request)
	}
	if err := calldata.Unmarshal(payload, v); err != nil {
		p.t.Fatal(err)
	}
}

// ask sends a request and reads its reply into v.
func (p *peer) ask(r *msp.Request, v any) {
	p.t.Helper()
	p.send(r)
	p.expect(msp.Header{Method: r.Method(), Request: p.id}, v)
}

// refused sends a request and returns the code of its error.
func (p *peer) refused(r *msp.Request) msp.ErrorCode {
	p.t.Helper()
	p.send(r)
	var e msp.Error
	p.expect(msp.Header{Method: msp.MethodError, Request: p.id}, &e)
	return e.Code
}

func (p *peer) send(r *msp.Request) {
	p.t.Helper()
	p.id++
	b, err := r.Message(p.id)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.ws.Write(context.Background(), websocket.MessageBinary, b); err != nil {
		p.t.Fatal(err)
	}
}

// event reads one event.
func (p *peer) event() *msp.Event {
	p.t.Helper()
	ev := new(msp.Event)
	p.expect(msp.Header{Method: msp.MethodEvent}, ev)
	return ev
}

// decodeEvent decodes the payload of an event.
func decodeEvent(t *testing.T, payload []byte) *msp.Event {
	t.Helper()
	ev := new(msp.Event)
	if err := calldata.Unmarshal(payload, ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

// command is a run request whose executor runs a shell command.
func command(shell string) *msp.RunRequest {
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: "v0.1.0"}
	r.IsSync, r.DebugMode = true, msp.DebugUnsafe
	r.HostData, r.Host, r.Calldata = "{}", "unix:///nowhere", []byte{0}
	r.Timestamp = msp.At(time.Unix(0, 0))
	r.ExtraArgs = []string{shell}
	return r
}

// run starts a run and returns its id.
func (p *peer) run(r *msp.RunRequest) uint64 {
	p.t.Helper()
	var reply msp.RunReply
	p.ask(&msp.Request{Run: r}, &reply)
	return reply.GenvmID
}

// finish reads events until the run's end.
func (p *peer) finish() *msp.Finished {
	p.t.Helper()
	ev := p.event()
	if ev.Started != nil {
		ev = p.event()
	}
	if ev.Finished == nil {
		p.t.Fatalf("the run ended by %+v", ev)
	}
	return ev.Finished
}

// ends reads events until each of the runs has finished, and no other has.
func (p *peer) ends(ids ...uint64) {
	p.t.Helper()
	for len(ids) > 0 {
		ev := p.event()
		if !ev.Terminal() {
			continue
		}
		i := slices.Index(ids, ev.GenvmID())
		if i < 0 || ev.Finished == nil {
			p.t.Fatalf("ended: %+v, still to end: %d", ev, ids)
		}
		ids = slices.Delete(ids, i, i+1)
	}
}

// read reads a whole artifact.
func (p *peer) read(id uint64, field msp.Artifact) string {
	p.t.Helper()
	var text []byte
	for {
		var page msp.ArtifactReply
		p.ask(&msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: field, Offset: uint64(len(text)), MaxLen: msp.ChunkBytes}}, &page)
		if text = append(text, page.Data...); uint64(len(text)) >= page.TotalLen {
			return string(text)
		}
	}
}

// closed reads until the connection ends, and returns its close code; -1: none.
func (p *peer) closed() websocket.StatusCode {
	for {
		if _, _, err := p.ws.Read(context.Background()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// call sends an HTTP request and returns its status and body.
func (s *served) call(method, path string, body []byte, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.addr+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	a, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.t.Fatal(err)
	}
	return a.StatusCode, strings.TrimSpace(string(text))
}
