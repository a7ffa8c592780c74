package agentd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"microvms/agentd"
	"microvms/agentd/api"
)

// Every test of this package runs a whole daemon behind a real loopback
// socket, and none may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token  = "tok-Zß-0123"
	hookAt = api.HookPrefix + "/"
)

// daemon is a daemon under test.
type daemon struct {
	*agentd.Daemon
	t    *testing.T
	addr string
	log  *syncBuffer
	http *http.Client
}

// start runs a daemon until the end of the test. edit may change its Config.
func start(t *testing.T, edit func(*agentd.Config)) *daemon {
	t.Helper()
	d := &daemon{t: t, log: &syncBuffer{}}
	c := agentd.Config{
		Version:    "1.2.3-test",
		Log:        slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		PasswdPath: filepath.Join(t.TempDir(), "passwd"), // absent: an empty file
		GroupPath:  filepath.Join(t.TempDir(), "group"),
		Limits: agentd.Limits{
			OutputLinger: 2 * time.Second, KillGrace: 2 * time.Second, ScanInterval: time.Millisecond,
			// A connection that a test sees closed was not closed for being idle.
			HeaderTimeout: time.Hour,
		},
	}
	if edit != nil {
		edit(&c)
	}
	var err error
	if d.Daemon, err = agentd.New(c); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- d.Serve(context.Background(), l) }()
	transport := &http.Transport{DisableCompression: true}
	d.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := d.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return d
}

// booted runs a daemon and installs the token.
func booted(t *testing.T, edit func(*agentd.Config)) *daemon {
	t.Helper()
	d := start(t, edit)
	d.bootstrap(nil)
	return d
}

func (d *daemon) bootstrap(env map[string]string) {
	d.t.Helper()
	payload := map[string]any{"agent_token": token}
	if env != nil {
		payload["env"] = env
	}
	if r := d.post(hookAt+"run", envelope(payload)); r.status != 200 {
		d.t.Fatalf("bootstrap: %v", r)
	}
}

// envelope wraps a payload as the platform does.
func envelope(payload any) string {
	inner, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return envelopeOf(string(inner))
}

func envelopeOf(payload string) string {
	outer, err := json.Marshal(map[string]string{"runHookPayload": payload})
	if err != nil {
		panic(err)
	}
	return string(outer)
}

// reply is an answer as a test looks at it.
type reply struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (r reply) String() string { return fmt.Sprintf("%d %v %q", r.status, r.header, r.body) }

// code returns the error code of the answer.
func (r reply) code() api.Code {
	var e api.Error
	if json.Unmarshal([]byte(r.body), &e) != nil {
		return ""
	}
	return e.Code
}

// call sends one request with the bearer and JSON content type.
func (d *daemon) call(method, path, body string) reply {
	d.t.Helper()
	return d.with(method, path, body, http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}})
}

func (d *daemon) get(path string) reply        { d.t.Helper(); return d.call("GET", path, "") }
func (d *daemon) post(path, body string) reply { d.t.Helper(); return d.call("POST", path, body) }

func (d *daemon) with(method, path, body string, header http.Header) reply {
	d.t.Helper()
	req, err := http.NewRequest(method, "http://"+d.addr+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header = header
	resp, err := d.http.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	r := reply{resp.StatusCode, resp.Header, string(data), resp.Close}
	doc, err := described()
	if err != nil {
		d.t.Fatal(err)
	}
	if wrong := unlisted(doc, method, path, r); wrong != "" {
		d.t.Error(wrong) // SCHEMA-2
	}
	return r
}

// startExec starts a command and fails the test unless it runs.
func (d *daemon) startExec(id string, more map[string]any, argv ...string) {
	d.t.Helper()
	req := map[string]any{"exec_id": id, "command": argv}
	for k, v := range more {
		req[k] = v
	}
	body, err := json.Marshal(req)
	if err != nil {
		d.t.Fatal(err)
	}
	if r := d.post(api.PathExecStart, string(body)); r.status != 200 {
		d.t.Fatalf("start %s: %v", id, r)
	}
}

// wait follows the output of an exec to its exit event and returns the events.
func (d *daemon) wait(id string) []event {
	d.t.Helper()
	req, _ := http.NewRequest("GET", "http://"+d.addr+"/v1/exec/"+id+"/stream", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := d.http.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	events, err := readEvents(resp.Body)
	if err != nil {
		d.t.Fatalf("stream of %s: %v", id, err)
	}
	return events
}

// outcome waits for an exec's end and polls it.
func (d *daemon) outcome(id string) api.PollResponse {
	d.t.Helper()
	d.wait(id)
	r := d.get("/v1/exec/" + id)
	var p api.PollResponse
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != 200 || p.Outcome == nil {
		d.t.Fatalf("poll of %s: %v (%v)", id, r, err)
	}
	return p
}

// event is one server-sent event.
type event struct{ name, data string }

// readEvents reads frames to the end of the body, byte-exact: an event line, a
// data line, an empty line, or a comment.
func readEvents(r io.Reader) (events []event, err error) {
	br := bufio.NewReader(r)
	for {
		frame := ""
		for !strings.HasSuffix(frame, "\n\n") {
			line, err := br.ReadString('\n')
			if err == io.EOF && frame+line == "" {
				return events, nil
			}
			if err != nil {
				return events, fmt.Errorf("body ended inside a frame: %w", err)
			}
			frame += line
		}
		if frame == ":\n\n" {
			events = append(events, event{name: ":"})
			continue
		}
		var e event
		rest, ok := strings.CutPrefix(frame, "event: ")
		if e.name, rest, ok = cut(rest, "\ndata: ", ok); !ok || strings.Count(frame, "\n") != 3 {
			return events, fmt.Errorf("malformed frame %q", frame)
		}
		e.data = strings.TrimSuffix(rest, "\n\n")
		events = append(events, e)
	}
}

func cut(s, sep string, ok bool) (string, string, bool) {
	before, after, found := strings.Cut(s, sep)
	return before, after, found && ok
}

// sized is the end of a raw request: the length header, the empty line and the
// body.
func sized(body string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// peer is a raw connection to the daemon.
type peer struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

func (d *daemon) dial() *peer {
	d.t.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(failsafe))
	return &peer{Conn: c, t: d.t, br: bufio.NewReader(c)}
}

// send writes bytes; a daemon that has closed already is no error here.
func (p *peer) send(s string) { io.WriteString(p.Conn, s) }

// read reads one answer to a request of the given method.
func (p *peer) read(method string) reply {
	p.t.Helper()
	resp, err := http.ReadResponse(p.br, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body), resp.Close}
}

// ended waits for the daemon to close the connection and returns what it sent
// before. A connection that stays open fails the test.
func (p *peer) ended() string {
	p.t.Helper()
	data, err := io.ReadAll(p.br)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("the connection stays open after %.80q", data)
	}
	return string(data)
}

// alive fails the test unless the connection serves another request.
func (p *peer) alive() {
	p.t.Helper()
	p.send("GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n")
	if r := p.read("GET"); r.status != 200 {
		p.t.Errorf("the next request on the connection: %v", r)
	}
}

// syncBuffer is a log that tests read while the daemon writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (d *daemon) health() api.Health {
	d.t.Helper()
	var h api.Health
	if err := json.Unmarshal([]byte(d.get(api.PathHealth).body), &h); err != nil {
		d.t.Fatal(err)
	}
	return h
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if string(b) == "null" {
		return "{}"
	}
	return string(b)
}
