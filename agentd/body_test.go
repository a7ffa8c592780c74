package agentd_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
)

// refused is a request that is refused before its body is read.
const refused = "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer wrong\r\n"

// TestRefusedBodyWithinTheCapKeepsTheConnection sends bodies that fit the drain
// and expects the connection to serve the next request.
func TestRefusedBodyWithinTheCapKeepsTheConnection(t *testing.T) {
	t.Attr("requirement", "XPORT-7")
	d := booted(t, nil)
	for name, rest := range map[string]string{
		"one byte":           sized("x"),
		"the cap less one":   sized(strings.Repeat("x", 65535)),
		"chunks":             "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n",
		"chunks with a tail": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
	} {
		p := d.dial()
		p.send(refused + rest)
		if r := p.read("POST"); r.status != 401 || r.close {
			t.Errorf("%s: %v, want 401 on a connection that lives", name, r)
		}
		p.alive()
	}
	// A body that nobody asked for, on routes that take none.
	p := d.dial()
	for _, request := range []string{"GET /v1/health", "POST /nothing", "PUT /v1/health"} {
		p.send(request + " HTTP/1.1\r\nHost: d\r\n" + sized("a body"))
		p.read("POST")
		p.alive()
	}
}

// TestAnswerPrecedesTheDrain holds the body back until the refusal is here.
func TestAnswerPrecedesTheDrain(t *testing.T) {
	t.Attr("requirement", "XPORT-7")
	d := booted(t, nil)
	p := d.dial()
	p.send(refused + "Content-Length: 10\r\n\r\n")
	if r := p.read("POST"); r.status != 401 {
		t.Fatalf("%v, want 401 before the body", r)
	}
	p.send("0123456789")
	p.alive()
}

// TestDrainBounds hits either bound: bytes, declared or not, and time.
func TestDrainBounds(t *testing.T) {
	t.Attr("requirement", "XPORT-7")
	t.Attr("requirement", "XPORT-17")
	d := booted(t, func(c *agentd.Config) { c.Limits.DrainTimeout = 30 * time.Millisecond })
	chunk := "10000\r\n" + strings.Repeat("x", 65536) + "\r\n"
	for _, c := range []struct {
		name, rest string
		announced  bool
	}{
		{"the cap exactly, declared", sized(strings.Repeat("x", 65536)), true},
		{"more than the cap, declared", sized(strings.Repeat("x", 100000)), true},
		{"the cap in chunks", "Transfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n", false},
		{"chunks without end", "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 20), false},
		{"time: a body that does not come", "Content-Length: 100\r\n\r\nx", false},
		{"time: a chunk that does not come", "Transfer-Encoding: chunked\r\n\r\n5\r\nhe", false},
		{"broken chunks", "Transfer-Encoding: chunked\r\n\r\nzz\r\n", false},
	} {
		p := d.dial()
		go p.send(refused + c.rest)
		if r := p.read("POST"); r.status != 401 || r.close != c.announced {
			t.Errorf("%s: %v, want 401 (close announced: %v)", c.name, r, c.announced)
		}
		if got := p.ended(); got != "" {
			t.Errorf("%s: after the refusal comes %.40q", c.name, got)
		}
	}
}

// TestRefusalReachesAnUploader uploads far more than any socket buffer holds:
// the client sees the status and an orderly end, no reset.
func TestRefusalReachesAnUploader(t *testing.T) {
	t.Attr("requirement", "XPORT-7")
	d := booted(t, nil)
	for _, head := range []string{"Content-Length: 1073741824\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		p := d.dial()
		go func() {
			p.send(refused + head)
			piece := strings.Repeat("x", 1<<20)
			if strings.HasPrefix(head, "T") {
				piece = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
			}
			for range 1024 {
				if _, err := io.WriteString(p.Conn, piece); err != nil {
					return
				}
			}
		}()
		if r := p.read("POST"); r.status != 401 {
			t.Errorf("%v, want 401", r)
		}
		if _, err := p.br.ReadByte(); err != io.EOF {
			t.Errorf("after the answer: %v, want an orderly end", err)
		}
		p.Close()
	}
}

// TestExpectContinue refuses without an interim answer, and gives one where
// the body is wanted.
func TestExpectContinue(t *testing.T) {
	t.Attr("requirement", "XPORT-15")
	// A drain would wait for the body until the failsafe.
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxBodyBytes, c.Limits.DrainTimeout = 1000, time.Hour })
	good := "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		head   string
		length int
		status string
	}{
		"bad token":  {refused, 10, "401"},
		"too large":  {good, 1001, "413"},
		"not a path": {"POST /nothing HTTP/1.1\r\nHost: d\r\n", 10, "404"},
		"wrong type": {strings.Replace(good, "json", "xml", 1), 10, "400"},
	} {
		p := d.dial()
		p.send(fmt.Sprintf("%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", c.head, c.length))
		line, _ := p.br.ReadString('\n')
		if !strings.HasPrefix(line, "HTTP/1.1 "+c.status+" ") {
			t.Errorf("%s: first line %q, want %s and no 100", name, line, c.status)
		}
		if rest := p.ended(); strings.Contains(rest, "HTTP/1.1 100") {
			t.Errorf("%s: a 100 follows: %q", name, rest)
		}
	}
	p := d.dial()
	p.send(good + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if line, _ := p.br.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("first line %q, want a 100 for a body that is wanted", line)
	}
	p.br.ReadString('\n')
	p.send("{}")
	if r := p.read("POST"); r.status != 400 || r.code() != api.MalformedRequest {
		t.Errorf("%v, want 400 for the body", r)
	}
	p.alive()
}

// TestHookBodies checks size and deadline of every hook's body, at the
// boundary: 413 and 408 close the connection, and both requests are in the log.
func TestHookBodies(t *testing.T) {
	t.Attr("requirement", "XPORT-8")
	t.Attr("requirement", "XPORT-9")
	t.Attr("requirement", "HOOK-1")
	d := start(t, func(c *agentd.Config) { c.Limits.HookBodyTimeout = 200 * time.Millisecond })
	big := strings.Repeat(" ", 32768)
	var slow []*peer
	for _, hook := range api.Hooks() {
		head := "POST " + hookAt + hook + " HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
		want := 200
		if hook == api.HookRun {
			want = 400
		}
		p := d.dial()
		p.send(head + sized(big))
		if r := p.read("POST"); r.status != want {
			t.Errorf("%s with 32768 bytes: %v, want %d", hook, r, want)
		}
		p.alive()
		for _, rest := range []string{"Content-Length: 32769\r\n\r\n", sized(big + " "), "Transfer-Encoding: chunked\r\n\r\n8001\r\n" + big + " \r\n0\r\n\r\n"} {
			p := d.dial()
			p.send(head + rest)
			if r := p.read("POST"); r.status != 413 || !r.close {
				t.Errorf("%s with 32769 bytes: %v, want 413 and a close", hook, r)
			}
			if got := p.ended(); got != "" {
				t.Errorf("%s: after the 413 comes %q", hook, got)
			}
		}
		p = d.dial()
		p.send(head + "Content-Length: 10\r\n\r\nhalf")
		slow = append(slow, p)
	}
	for _, p := range slow {
		if r := p.read("POST"); r.status != 408 || !r.close {
			t.Errorf("half a body: %v, want 408 and a close", r)
		}
		p.ended()
	}
	if h := d.health(); len(h.Hooks) != 5*len(api.Hooks()) {
		t.Errorf("%d hooks are in the log, want each of %d", len(h.Hooks), 5*len(api.Hooks()))
	}
}

// TestControlBodyCap checks the cap on the wire, declared and not, at the
// boundary; without the bearer it is a 401.
func TestControlBodyCap(t *testing.T) {
	t.Attr("requirement", "XPORT-10")
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxBodyBytes = 1000 })
	head := "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"at the cap", head + sized(strings.Repeat(" ", 1000)), 400},
		{"declared above, nothing sent", head + "Content-Length: 1001\r\n\r\n", 413},
		{"declared far above", head + "Content-Length: 9223372036854775807\r\n\r\n", 413},
		{"chunks above", head + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat(" ", 1001) + "\r\n0\r\n\r\n", 413},
		{"on a route without a body", strings.Replace(head, "/v1/exec/start", "/v1/exec/x/ack", 1) + "Content-Length: 1001\r\n\r\n", 413},
		{"without the bearer", refused + "Content-Length: 1001\r\n\r\n", 401},
	} {
		p := d.dial()
		p.send(c.request)
		r := p.read("POST")
		if r.status != c.status || (c.status == 413 && (!r.close || r.header.Get("Content-Type") != api.MediaText)) {
			t.Errorf("%s: %v, want %d, and for 413 text and a close", c.name, r, c.status)
		}
		p.Close()
	}
}

// TestBodyThatStalls checks that a control body that stops coming ends the
// request, and that one cut short is an error and starts nothing.
func TestBodyThatStalls(t *testing.T) {
	t.Attr("requirement", "EXEC-6")
	t.Attr("requirement", "XPORT-21")
	d := booted(t, func(c *agentd.Config) { c.Limits.BodyStallTimeout = 30 * time.Millisecond })
	head := "POST /v1/exec/start HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	body := `{"exec_id":"cut","command":["true"]}`
	p := d.dial()
	p.send(head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+90, body))
	if r := p.read("POST"); r.status != 408 || !r.close {
		t.Errorf("a body that stalls: %v, want 408 and a close", r)
	}
	p = d.dial()
	p.send(head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+90, body))
	p.Close()
	if r := d.get("/v1/exec/cut"); r.status != 404 {
		t.Errorf("a start that was cut short: %v, want no exec", r)
	}
	d.dial().alive()
}
