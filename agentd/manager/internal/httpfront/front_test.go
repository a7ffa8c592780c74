package httpfront

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"microvms/agentd/manager/internal/executor"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modulesDouble notes what it is asked, and fails when the test says so.
type modulesDouble struct {
	calls []string
	ran   bool
	err   error
}

func (m *modulesDouble) Start(_ context.Context, t executor.ModuleType, config []byte) error {
	m.calls = append(m.calls, fmt.Sprintf("start %s %s", t, config))
	return m.err
}

func (m *modulesDouble) Stop(_ context.Context, t executor.ModuleType) (bool, error) {
	m.calls = append(m.calls, fmt.Sprintf("stop %s", t))
	return m.ran, m.err
}

func (m *modulesDouble) State(t executor.ModuleType) executor.ModuleState {
	if t == executor.Web {
		return executor.ModuleStopping
	}
	return executor.ModuleRunning
}

// tableDouble has no runs, and panics when it is asked for permits.
type tableDouble struct{ Table }

func (tableDouble) Permits() (int, int)   { panic("secret") }
func (tableDouble) Status() []runs.Status { return nil }

// serve runs a Front behind a loopback socket until the end of the test.
func serve(t *testing.T, edit func(*Config)) (addr string, f *Front) {
	t.Helper()
	c := Config{
		Log: slog.New(slog.DiscardHandler), Clock: trace.System{}, Table: tableDouble{}, Modules: &modulesDouble{},
		Socket: http.NotFoundHandler(), SyncCost: 4, NondetCost: 8,
	}
	if edit != nil {
		edit(&c)
	}
	f = New(c)
	s := httptest.NewServer(f)
	t.Cleanup(func() { f.Close(); s.Close() })
	return s.Listener.Addr().String(), f
}

func ask(t *testing.T, addr, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestModuleRoutes starts, restarts and stops modules whose programs there are.
func TestModuleRoutes(t *testing.T) {
	t.Attr("requirement", "ADMIN-18")
	t.Attr("requirement", "ADMIN-19")
	t.Attr("requirement", "ADMIN-6")
	m := &modulesDouble{ran: true}
	addr, _ := serve(t, func(c *Config) { c.Modules = m })
	for _, c := range []struct {
		path, body string
		err        error
		status     int
		want       string
		calls      string
	}{
		{"/module/start", `{"module_type":"Llm","config":{"a": 1}}`, nil, 200, `{"result":"module_started"}`, `[start llm {"a": 1}]`},
		{"/module/start", `{"module_type":"web"}`, nil, 200, `{"result":"module_started"}`, `[start web null]`},
		{"/module/start", `{"module_type":"Web","config":[]}`, errors.New("broken"), 500, `{"error":"broken"}`, `[start web []]`},
		{"/module/restart", `{"module_type":"Llm","config":{}}`, nil, 200, `{"result":"module_restarted"}`, `[stop llm start llm {}]`},
		{"/module/restart", `{"module_type":"Llm","config":{}}`, errors.New("broken"), 500, `{"error":"broken"}`, `[stop llm]`},
		{"/module/stop", `{"module_type":"Llm"}`, nil, 200, `{"result":"module_stopped"}`, `[stop llm]`},
		{"/module/stop", `{"module_type":"Llm"}`, errors.New("broken"), 500, `{"error":"broken"}`, `[stop llm]`},
	} {
		m.calls, m.err = nil, c.err
		status, body := ask(t, addr, "POST", c.path, c.body)
		if status != c.status || body != c.want || fmt.Sprint(m.calls) != c.calls {
			t.Errorf("%s %s: %d %s, calls %v", c.path, c.body, status, body, m.calls)
		}
	}
}

// TestHooks asks the routes whose work the configuration brings.
func TestHooks(t *testing.T) {
	t.Attr("requirement", "ADMIN-22")
	t.Attr("requirement", "ADMIN-23")
	results, failure := `[{"ok":true},1]`, error(nil)
	addr, _ := serve(t, func(c *Config) {
		c.DetectVersion = func(_ context.Context, code []byte, at time.Time) (uint32, error) {
			return uint32(len(code)) + uint32(at.Unix()), failure
		}
		c.CheckLLM = func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(results), failure
		}
	})
	check := func(method, path, body string, status int, want string) {
		t.Helper()
		if got, text := ask(t, addr, method, path, body, "Deployment-Timestamp", "1970-01-01T00:01:00+00:00"); got != status || text != want {
			t.Errorf("%s: %d %s", path, got, text)
		}
	}
	check("POST", "/contract/detect-version", "code", 200, `{"specified_major":64}`)
	check("POST", "/llm/check", `{"configs":[]}`, 200, results)
	results = `{}`
	check("POST", "/llm/check", `{}`, 500, `{"error":"the LLM module did not answer with a list"}`)
	failure = errors.New("broken")
	check("POST", "/contract/detect-version", "code", 500, `{"error":"broken"}`)
	check("POST", "/llm/check", `{}`, 500, `{"error":"broken"}`)
	if status, _ := ask(t, addr, "POST", "/contract/detect-version", "code",
		"Deployment-Timestamp", "1970-01-01T00:01:00Z", "Deployment-Timestamp", "1970-01-01T00:01:00Z"); status != 400 {
		t.Errorf("two timestamps: %d", status)
	}
}

// TestPanic is answered 500, and the next request is served. The log names no
// byte of what panicked.
func TestPanic(t *testing.T) {
	t.Attr("requirement", "ADMIN-7")
	var log strings.Builder
	addr, _ := serve(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		if status, body := ask(t, addr, "GET", "/permits", ""); status != 500 || body != `{"error":"the manager has a defect"}` {
			t.Errorf("%d %s", status, body)
		}
	}
	if !strings.Contains(log.String(), "admin.go") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged %s", log.String())
	}
}

// TestBodyBounds sends bodies that are too long, by declaration and without one,
// and bodies that stop.
func TestBodyBounds(t *testing.T) {
	t.Attr("requirement", "ADMIN-8")
	t.Attr("requirement", "ADMIN-9")
	patient, _ := serve(t, func(c *Config) { c.MaxMessageBytes, c.BodyTimeout = 100, time.Hour })
	hasty, _ := serve(t, func(c *Config) { c.BodyTimeout = time.Millisecond })
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"a declared length over the JSON limit", fmt.Sprintf("POST /permits HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", MaxJSONBytes+1), 413},
		{"a chunked body over the JSON limit", fmt.Sprintf("POST /permits HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", MaxJSONBytes+1, strings.Repeat(" ", MaxJSONBytes+1)), 413},
		{"a declared length over the message limit", "POST /genvm/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n", 413},
		{"a chunked body over the message limit", "POST /genvm/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + strings.Repeat(" ", 101) + "\r\n", 413},
		{"a body that stops", "POST /permits HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"permits\":", 408},
		{"a broken chunk", "POST /permits HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := patient
			if c.status == http.StatusRequestTimeout {
				addr = hasty
			}
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, c.request) // the answer may come before its end
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r.Body)
			var e map[string]string
			if r.StatusCode != c.status || json.Unmarshal(body, &e) != nil || e["error"] == "" {
				t.Errorf("%d %s, want %d", r.StatusCode, body, c.status)
			}
		})
	}
}

// TestPagesAreRefused asks as a web page does, on a route that changes nothing
// and on one that does.
func TestPagesAreRefused(t *testing.T) {
	t.Attr("requirement", "ADMIN-3")
	m := &modulesDouble{}
	addr, _ := serve(t, func(c *Config) { c.Modules = m })
	for _, headers := range [][]string{
		{"Origin", "https://example.com"}, {"Origin", "http://" + addr}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-origin"},
	} {
		for _, path := range []string{"/module/stop", "/nowhere", "/ws"} {
			if status, body := ask(t, addr, "POST", path, `{"module_type":"Llm"}`, headers...); status != 403 || !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("%s with %q: %d %s", path, headers, status, body)
			}
		}
	}
	if len(m.calls) != 0 {
		t.Errorf("a page reached the modules: %v", m.calls)
	}
	if status, _ := ask(t, addr, "POST", "/module/stop", `{"module_type":"Llm"}`, "Sec-Fetch-Site", "none"); status != 200 {
		t.Errorf("a person: %d", status)
	}
}

// spanClock notes how long it is asked to wait, and does not wait.
type spanClock struct {
	trace.System
	spans []time.Duration
}

func (c *spanClock) AfterFunc(d time.Duration, f func()) trace.Timer {
	c.spans = append(c.spans, d)
	return c.System.AfterFunc(0, f)
}

// endless is a table whose runs go on.
type endless struct{ Table }

func (endless) Wait(ctx context.Context, _ runs.ID, _ func(runs.Event) bool) (runs.Event, error) {
	<-ctx.Done()
	return runs.Event{}, ctx.Err()
}

// TestWaitIsCapped asks with a short and with a very long wait.
func TestWaitIsCapped(t *testing.T) {
	t.Attr("requirement", "ADMIN-28")
	clock := &spanClock{}
	addr, _ := serve(t, func(c *Config) { c.Clock, c.Table = clock, endless{} })
	for _, wait := range []string{"5s", "120s", "121s", "10h", "18446744073709551615ms"} {
		if status, body := ask(t, addr, "GET", "/genvm/1?wait="+wait, ""); status != 200 || body != `{"genvm_id":1,"status":null}` {
			t.Errorf("%s: %d %s", wait, status, body)
		}
	}
	if got := fmt.Sprint(clock.spans); got != "[5s 2m0s 2m0s 2m0s 2m0s]" {
		t.Errorf("waited %s", got)
	}
}
