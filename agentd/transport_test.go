package agentd_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/trace"
)

// TestVersionHeaderOnEveryResponse asks for each kind of answer there is, those
// that net/http writes without a handler included.
func TestVersionHeaderOnEveryResponse(t *testing.T) {
	t.Attr("requirement", "XPORT-1")
	t.Attr("requirement", "XPORT-29")
	d := booted(t, func(c *agentd.Config) {
		c.Limits.MaxBodyBytes = 1000
		c.Gate = gateFunc(func(p trace.Point) {
			if p.Action == trace.ControlServe && p.Exec == "panic" {
				panic("a planted panic")
			}
		})
	})
	auth := "Authorization: Bearer " + token + "\r\n"
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"health", "GET /v1/health HTTP/1.1\r\nHost: d\r\n\r\n", 200},
		{"unauthorized", "GET /v1/procs HTTP/1.1\r\nHost: d\r\n\r\n", 401},
		{"not found", "GET /nothing HTTP/1.1\r\nHost: d\r\n\r\n", 404},
		{"unknown exec", "GET /v1/exec/x HTTP/1.1\r\nHost: d\r\n" + auth + "\r\n", 404},
		{"wrong method", "PUT /v1/health HTTP/1.1\r\nHost: d\r\n\r\n", 405},
		{"conflict", "POST " + hookAt + "run HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n" + sized(`{"runHookPayload":"{\"agent_token\":\"no\"}"}`), 409},
		{"too large", "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\n" + auth + "Content-Length: 1001\r\n\r\n", 413},
		{"panic", "GET /v1/exec/panic HTTP/1.1\r\nHost: d\r\n" + auth + "\r\n", 500},
		{"options star", "OPTIONS * HTTP/1.1\r\nHost: d\r\n\r\n", 404},
		{"no host, from net/http", "GET /v1/health HTTP/1.1\r\n\r\n", 400},
		{"garbage line, from net/http", "SSH-2.0-OpenSSH_9.9\r\n\r\n", 400},
		{"nul in a header, from net/http", "GET /v1/health HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer a\x00b\r\n\r\n", 400},
		{"huge header, from net/http", "GET /v1/health HTTP/1.1\r\nHost: d\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 431},
		{"transfer encoding, from net/http", "POST /v1/health HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"version 3, from net/http", "GET /v1/health HTTP/3.0\r\nHost: d\r\n\r\n", 505},
		{"expectation, from net/http", "POST /v1/health HTTP/1.1\r\nHost: d\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417},
		{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"1 MiB target", "GET /" + strings.Repeat("a", 1<<20-500) + " HTTP/1.1\r\nHost: d\r\n\r\n", 414},
		{"10,000 header lines", "GET /v1/health HTTP/1.1\r\nHost: d\r\n" + strings.Repeat("A: b\r\n", 10000) + "\r\n", 431},
		{"tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := d.dial()
			p.t = t
			go p.send(c.request)
			r := p.read(strings.Fields(c.request + " x")[0])
			if v := r.header.Values(api.HeaderVersion); r.status != c.status || len(v) != 1 || v[0] != "1.2.3-test" {
				t.Errorf("answer %v, want status %d with exactly one version header", r, c.status)
			}
		})
	}
}

// TestVersionIsOneTruth compares the header with health and schema.
func TestVersionIsOneTruth(t *testing.T) {
	t.Attr("requirement", "XPORT-1")
	d := start(t, nil)
	r := d.get(api.PathHealth)
	if h := d.health(); h.Version != r.header.Get(api.HeaderVersion) || h.Version != "1.2.3-test" {
		t.Errorf("health says version %q, the header %q", h.Version, r.header.Get(api.HeaderVersion))
	}
	if _, err := agentd.New(agentd.Config{Version: "a\r\nb: c"}); err == nil {
		t.Error("a version of two lines was accepted: it would forge a header")
	}
}

// TestTLSBytesAreAnswered sends what TLS peers send, without a newline and
// without closing: the answer must not wait for either.
func TestTLSBytesAreAnswered(t *testing.T) {
	t.Attr("requirement", "XPORT-11")
	t.Attr("requirement", "PROG-11")
	d := start(t, func(c *agentd.Config) { c.Limits.HeaderTimeout = time.Hour })
	for _, hello := range []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"\x13\x01\x13\x02\x13\x03\xc0\x2b\xc0\x2f",
		strings.Repeat("\x00", 1<<20),
		"\xff", "\r\n", " ",
	} {
		p := d.dial()
		go p.send(hello)
		if r := p.read("GET"); r.status != 400 || !r.close {
			t.Errorf("%.11q: %v, want 400 and a close", hello, r)
		}
		p.ended()
	}
	d.dial().alive()
	for line := range strings.Lines(d.log.String()) {
		if len(line) > 1024 {
			t.Errorf("log line of %d bytes: %.80s…", len(line), line)
		}
	}
}

// TestPathsAndMethods checks the route table from outside: unknown paths,
// wrong methods with their Allow, HEAD, and that nothing is normalised into
// another route.
func TestPathsAndMethods(t *testing.T) {
	t.Attr("requirement", "XPORT-2")
	t.Attr("requirement", "XPORT-3")
	t.Attr("requirement", "XPORT-18")
	t.Attr("requirement", "XPORT-23")
	d := booted(t, nil)
	for _, c := range []struct {
		method, target string
		bearer         bool
		status         int
		allow          string
	}{
		{"GET", "/", false, 404, ""},
		{"GET", "/v1/nothing", false, 404, ""},
		{"BREW", "/v1/nothing", false, 404, ""},
		{"GET", "/v1/health/", false, 404, ""},
		{"GET", "/V1/health", false, 404, ""},
		{"GET", "//v1/health", false, 404, ""},
		{"GET", "/v1//health", false, 404, ""},
		{"GET", "/v1/./health", false, 404, ""},
		{"GET", "/v1/x/../health", false, 404, ""},
		{"GET", "/v1%2fhealth", false, 404, ""},
		{"GET", "/v1/%68ealth", false, 404, ""},
		{"GET", "/v1/health%00", false, 404, ""},
		{"GET", "/v1/exec/", true, 404, ""},
		{"GET", "/v1/exec//stream", true, 404, ""},
		{"GET", "/" + strings.Repeat("/", 4000), false, 404, ""},
		{"GET", "/v1/exec/..%2f..%2fhealth", true, 404, ""},
		{"GET", "/v1/exec/..%2f..%2fhealth", false, 401, ""},
		{"GET", "/v1/exec/%00", true, 404, ""},
		{"POST", "/v1/exec/a/ack/", true, 404, ""},
		{"CONNECT", "/v1/health", false, 405, "GET, HEAD"},
		{"POST", "/v1/health", false, 405, "GET, HEAD"},
		{"BREW", "/v1/health", false, 405, "GET, HEAD"},
		{"OPTIONS", "/v1/schema", false, 405, "GET, HEAD"},
		{"GET", hookAt + "run", false, 405, "POST"},
		{"HEAD", hookAt + "ready", false, 405, "POST"},
		{"GET", "/v1/exec/start", true, 405, "POST"},
		{"HEAD", "/v1/exec/start", true, 405, "POST"},
		{"GET", "/v1/exec/start", false, 401, ""},
		{"DELETE", "/v1/exec/x", true, 405, "GET, HEAD"},
		{"DELETE", "/v1/exec/x", false, 401, ""},
		{"GET", "/v1/exec/x/ack", true, 405, "POST"},
		{"POST", "/v1/exec/x/stream", true, 405, "GET, HEAD"},
		{"POST", "/v1/procs", true, 405, "GET, HEAD"},
		{"HEAD", "/v1/health", false, 200, ""},
		{"HEAD", "/v1/schema", false, 200, ""},
		{"HEAD", "/v1/procs", true, 200, ""},
		{"GET", "/v1/tcp/", true, 404, ""},
	} {
		name := fmt.Sprintf("%s %.40s bearer=%v", c.method, c.target, c.bearer)
		t.Run(name, func(t *testing.T) {
			p := d.dial()
			p.t = t
			auth := ""
			if c.bearer {
				auth = "Authorization: Bearer " + token + "\r\n"
			}
			p.send(c.method + " " + c.target + " HTTP/1.1\r\nHost: d\r\n" + auth + "\r\n")
			r := p.read(c.method)
			if r.status != c.status || r.header.Get("Allow") != c.allow {
				t.Errorf("%v, want %d with Allow %q", r, c.status, c.allow)
			}
			json := strings.Contains(r.body, string(api.UnknownExec))
			if r.status >= 400 && r.body != "" && !json {
				t.Errorf("body %q, want none", r.body)
			}
			p.alive()
		})
	}
}

// TestHeadOnExecRoutes checks that HEAD answers as GET does, without a body,
// and does not follow a stream.
func TestHeadOnExecRoutes(t *testing.T) {
	t.Attr("requirement", "XPORT-3")
	t.Attr("requirement", "XPORT-18")
	d := booted(t, nil)
	d.startExec("h", map[string]any{"stdin": true}, "cat")
	for path, want := range map[string]int{"/v1/exec/h": 200, "/v1/exec/h/stream": 200, "/v1/exec/h/stream?offset=x": 400, "/v1/exec/no": 404} {
		if r := d.call("HEAD", path, ""); r.status != want || r.body != "" {
			t.Errorf("HEAD %s = %v, want %d without a body", path, r, want)
		}
	}
	d.post("/v1/exec/h/stdin", `{"signal":"eof"}`)
	d.wait("h")
	if r := d.call("HEAD", "/v1/exec/h", ""); r.status != 200 || r.body != "" {
		t.Errorf("HEAD of an exited exec = %v", r)
	}
}

// TestPanicIsAnswered500 plants a panic in a handler, under the bootstrap lock
// too: the connection and the daemon live on, and the panic's value stays out
// of answer and log.
func TestPanicIsAnswered500(t *testing.T) {
	t.Attr("requirement", "XPORT-12")
	armed := make(chan trace.Action, 1)
	d := booted(t, func(c *agentd.Config) {
		c.Recorder = recorderFunc(func(e trace.Event) {
			select {
			case a := <-armed:
				if a == e.Action {
					panic("planted-" + token)
				}
				armed <- a
			default:
			}
		})
	})
	p := d.dial()
	for _, action := range []trace.Action{trace.ControlServe, trace.ControlAuthorize} {
		armed <- action
		p.send("GET /v1/procs HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n\r\n")
		if r := p.read("GET"); r.status != 500 || r.header.Get("Content-Type") != api.MediaText || r.close {
			t.Errorf("panic at %s: %v, want a plain-text 500 on a connection that lives", action, r)
		}
		p.alive()
	}
	for _, action := range []trace.Action{trace.HookReceive, trace.HookDecide} {
		armed <- action
		body := envelope(map[string]string{"agent_token": token})
		p.send(fmt.Sprintf("POST %srun HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", hookAt, len(body), body))
		if r := p.read("POST"); r.status != 500 {
			t.Errorf("panic at %s: %v, want 500", action, r)
		}
		p.alive()
	}
	if r := d.get(api.PathProcs); r.status != 200 {
		t.Errorf("a bearer request after the panics: %v", r)
	}
	if strings.Contains(d.log.String(), "planted-") {
		t.Error("the log holds the value of a panic")
	}
}

// gateFunc is a Gate that looks at points and lets everything pass.
type gateFunc func(trace.Point)

func (g gateFunc) Pass(_ context.Context, p trace.Point) error { g(p); return nil }

// recorderFunc is a Recorder that is a function.
type recorderFunc func(trace.Event)

func (r recorderFunc) Record(e trace.Event) { r(e) }

// TestContentTypes checks the media type of each kind of answer.
func TestContentTypes(t *testing.T) {
	t.Attr("requirement", "EXEC-34")
	t.Attr("requirement", "XPORT-26")
	d := booted(t, nil)
	d.startExec("c", nil, "true")
	d.wait("c")
	for path, want := range map[string]string{
		api.PathHealth: "application/json", api.PathSchema: "application/json", api.PathProcs: "application/json",
		"/v1/exec/c": "application/json", "/v1/exec/no": "application/json", "/v1/exec/c/stream": "text/event-stream", "/no": "",
	} {
		if r := d.get(path); r.header.Get("Content-Type") != want {
			t.Errorf("%s: content type %q, want %q", path, r.header.Get("Content-Type"), want)
		}
	}
	r := d.get("/v1/exec/c/stream")
	if r.header.Get("Cache-Control") != "no-cache" || r.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("stream headers %v", r.header)
	}
	for _, name := range []string{"X-Powered-By", "Server", http.CanonicalHeaderKey("www-authenticate")} {
		if r.header.Get(name) != "" {
			t.Errorf("header %s is sent", name)
		}
	}
}
