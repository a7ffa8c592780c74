package agentd_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"microvms/agentd/api"
)

// TestHeadBounds checks the longest target and the most header entries, at the
// boundary: beyond, the connection ends with the refusal.
func TestHeadBounds(t *testing.T) {
	t.Attr("requirement", "XPORT-19")
	t.Attr("requirement", "XPORT-20")
	d := booted(t, nil)
	target := func(n int) string { return "/" + strings.Repeat("a", n-1) }
	// Host is no entry of net/http's header; many entries may share one name.
	entries := func(n int) string { return strings.Repeat("A: b\r\n", n/2) + strings.Repeat("B: c\r\n", n-n/2) }
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"a target of 65536 bytes", "GET " + target(65536) + " HTTP/1.1\r\nHost: d\r\n\r\n", 404},
		{"a target of 65537 bytes", "GET " + target(65537) + " HTTP/1.1\r\nHost: d\r\n\r\n", 414},
		{"256 entries", "GET /v1/health HTTP/1.1\r\nHost: d\r\n" + entries(256) + "\r\n", 200},
		{"257 entries", "GET /v1/health HTTP/1.1\r\nHost: d\r\n" + entries(257) + "\r\n", 431},
	} {
		p := d.dial()
		go p.send(c.request)
		r := p.read("GET")
		if r.status != c.status {
			t.Errorf("%s: %v, want %d", c.name, r, c.status)
		}
		if c.status == 414 || c.status == 431 {
			p.ended()
			continue
		}
		p.alive()
	}
}

// TestMidBodyDisconnect cuts connections within the bodies of a hook and of
// control requests while another connection follows a stream: the stream goes
// on, and what was cut has no effect.
func TestMidBodyDisconnect(t *testing.T) {
	t.Attr("requirement", "XPORT-24")
	t.Attr("requirement", "EXEC-6")
	d := booted(t, nil)
	d.startExec("s", map[string]any{"stdin": true}, "cat")
	auth := "Authorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	follower := d.dial()
	follower.send("GET /v1/exec/s/stream HTTP/1.1\r\nHost: d\r\n" + auth + "\r\n")
	await := func(text string) {
		t.Helper()
		want := base64.StdEncoding.EncodeToString([]byte(text))
		for {
			line, err := follower.br.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended before %q: %v", text, err)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	for i, path := range []string{hookAt + "run", api.PathExecStart, "/v1/exec/s/stdin"} {
		for k, rest := range []string{
			"Content-Length: 1000\r\n\r\n{\"exec_id\":\"cut\",\"command\":[\"true\"],\"signal\":\"eof\"",
			"Transfer-Encoding: chunked\r\n\r\n400\r\n{\"exec_id\":\"cut\",\"command\":[\"true\"]",
		} {
			p := d.dial()
			p.send("POST " + path + " HTTP/1.1\r\nHost: d\r\n" + auth + rest)
			p.Close()
			text := fmt.Sprintf("after cut %d of route %d", k, i)
			d.post("/v1/exec/s/stdin", fmt.Sprintf(`{"data_b64":%q}`, base64.StdEncoding.EncodeToString([]byte(text))))
			await(text)
		}
	}
	if r := d.get("/v1/exec/cut"); r.status != 404 {
		t.Errorf("a start that was cut short: %v, want no execution", r)
	}
}
