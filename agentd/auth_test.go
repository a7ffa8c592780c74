package agentd_test

import (
	"fmt"
	"strings"
	"testing"

	"microvms/agentd/api"
)

// bearerRoutes are all routes that ask for a bearer.
var bearerRoutes = []string{
	"POST /v1/exec/start", "GET /v1/exec/x", "GET /v1/exec/x/stream", "POST /v1/exec/x/stdin",
	"POST /v1/exec/x/ack", "POST /v1/exec/x/kill", "GET /v1/procs", "GET /v1/tcp?port=1",
	"GET /v1/fs/file?path=/x", "PUT /v1/fs/file?path=/x", "GET /v1/fs/tar?path=/x", "PUT /v1/fs/tar?path=/x",
}

// TestClosedBeforeBootstrap asks every bearer route before a token is there:
// 503 whatever is presented, with an empty body; health, schema and hooks
// answer.
func TestClosedBeforeBootstrap(t *testing.T) {
	t.Attr("requirement", "AGENTD-1")
	t.Attr("requirement", "AUTHZ-5")
	t.Attr("requirement", "AUTHZ-6")
	d := start(t, nil)
	for _, route := range bearerRoutes {
		for _, header := range []string{"", "Authorization: Bearer " + token + "\r\n", "Authorization: Bearer \r\n", "Authorization: nonsense\r\n"} {
			p := d.dial()
			p.send(route + " HTTP/1.1\r\nHost: d\r\n" + header + "\r\n")
			r := p.read("GET")
			if r.status != 503 || r.body != "" || r.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s with %q: %v, want an empty 503", route, header, r)
			}
		}
	}
	for route, want := range map[string]int{"GET /v1/health": 200, "GET /v1/schema": 200, "POST " + hookAt + "ready": 200} {
		method, path, _ := strings.Cut(route, " ")
		if r := d.with(method, path, "", nil); r.status != want {
			t.Errorf("%s without a credential: %v, want %d", route, r, want)
		}
	}
	if h := d.health(); h.Execs != 0 {
		t.Errorf("%d execs exist", h.Execs)
	}
}

// TestBearer judges each form of the header once a token is installed.
func TestBearer(t *testing.T) {
	for _, id := range []string{"AGENTD-5", "AGENTD-6", "AUTHZ-2", "AUTHZ-3", "AUTHZ-5", "AUTHZ-8"} {
		t.Attr("requirement", id)
	}
	d := booted(t, nil)
	const good = "Authorization: Bearer " + token
	for _, c := range []struct {
		name, header string
		status       int
	}{
		{"right", good, 200},
		{"scheme in lower case", "authorization: bearer " + token, 200},
		{"scheme in odd case", "AUTHORIZATION: bEaReR " + token, 200},
		{"missing", "X: y", 401},
		{"empty", "Authorization: ", 401},
		{"scheme alone", "Authorization: Bearer", 401},
		{"empty token", "Authorization: Bearer ", 401},
		{"wrong", "Authorization: Bearer wrong", 401},
		{"prefix of the token", good[:len(good)-1], 401},
		{"token and more", good + "x", 401},
		{"token and a comma", good + ", Bearer " + token, 401},
		{"two spaces", "Authorization: Bearer  " + token, 401},
		{"tab", "Authorization: Bearer\t" + token, 401},
		{"other scheme", "Authorization: Basic " + token, 401},
		{"long scheme", "Authorization: Bearerr " + token, 401},
		{"no scheme", "Authorization: " + token, 401},
		{"token in another case", "Authorization: Bearer " + strings.ToUpper(token), 401},
		{"percent-encoded", "Authorization: Bearer tok%2DZ", 401},
		{"bytes that are no utf-8", "Authorization: Bearer \xff\xfe\x80", 401},
		{"1 MiB", "Authorization: Bearer " + strings.Repeat("a", 1<<20), 401},
		{"twice, both right", good + "\r\n" + good, 401},
		{"twice, one right", good + "\r\nAuthorization: Bearer wrong", 401},
		{"folded", good + "\r\n more", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := d.dial()
			p.t = t
			go p.send("GET /v1/procs HTTP/1.1\r\nHost: d\r\n" + c.header + "\r\n\r\n")
			r := p.read("GET")
			if r.status != c.status {
				t.Fatalf("%v, want %d", r, c.status)
			}
			if c.status == 401 && (r.body != "" || r.header.Get("WWW-Authenticate") != "") {
				t.Errorf("%v, want an empty body and no challenge", r)
			}
			p.alive()
		})
	}
}

// TestNoHeaderBytesCrash sends a bearer of each byte value.
func TestNoHeaderBytesCrash(t *testing.T) {
	t.Attr("requirement", "AUTHZ-3")
	d := booted(t, nil)
	for b := range 256 {
		p := d.dial()
		p.send(fmt.Sprintf("GET /v1/procs HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s%c\r\n\r\n", token[:4], 'x'))
		if r := p.read("GET"); r.status != 401 {
			t.Fatalf("warm-up: %v", r)
		}
		p.send("GET /v1/procs HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer t" + string([]byte{byte(b)}) + "t\r\n\r\n")
		if r := p.read("GET"); r.status != 401 && r.status != 400 {
			t.Errorf("byte %#x: %v, want 401, or 400 for what no header may hold", b, r)
		}
		p.Close()
	}
	d.dial().alive()
}

// TestAuthorizationComesBeforeTheBody declares a body and sends none: the
// refusal comes all the same, on every bearer route, before 405, 404 of the id
// and 413 too.
func TestAuthorizationComesBeforeTheBody(t *testing.T) {
	t.Attr("requirement", "AUTHZ-4")
	d := booted(t, nil)
	for _, route := range append(bearerRoutes, "PUT /v1/exec/x", "DELETE /v1/procs") {
		for _, length := range []string{"5", "900000000"} {
			p := d.dial()
			p.send(route + " HTTP/1.1\r\nHost: d\r\nContent-Length: " + length + "\r\n\r\n")
			if r := p.read("GET"); r.status != 401 {
				t.Errorf("%s with %s bytes to come: %v, want 401", route, length, r)
			}
			p.Close()
		}
	}
}

// TestSourceIsNotJudged checks that a request from the VM's own loopback needs
// and suffices with the bearer, like any other: the platform's requests come
// from there too.
func TestSourceIsNotJudged(t *testing.T) {
	t.Attr("requirement", "AUTHZ-7")
	d := booted(t, nil)
	if r := d.get(api.PathProcs); r.status != 200 {
		t.Errorf("from loopback with the bearer: %v", r)
	}
	if r := d.with("GET", api.PathProcs, "", nil); r.status != 401 {
		t.Errorf("from loopback without the bearer: %v", r)
	}
}
