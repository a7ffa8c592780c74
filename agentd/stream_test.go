package agentd_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/trace"
)

// TestOffsets checks every form of the offset: 400 before 404, never clamped.
func TestOffsets(t *testing.T) {
	t.Attr("requirement", "OUT-14")
	d := booted(t, nil)
	d.startExec("o", nil, "printf", "0123456789")
	d.wait("o")
	for query, want := range map[string]string{
		"":                     "0123456789",
		"?":                    "0123456789",
		"?x=1&x=2;&%zz=1":      "0123456789",
		"?offset=0":            "0123456789",
		"?offset=000007":       "789",
		"?offset=%37":          "789",
		"?off%73et=7":          "789",
		"?y&offset=9&Offset=1": "9",
		"?offset=10":           "",
	} {
		r := d.get("/v1/exec/o/stream" + query)
		if got, _ := tile(t, parse(t, r.body), 0, false); r.status != 200 || got != want {
			t.Errorf("query %q: %v\noutput %q, want %q", query, r, got, want)
		}
	}
	for _, query := range []string{
		"?offset", "?offset=", "?offset=-1", "?offset=+1", "?offset=%2B1", "?offset=0x10", "?offset=1.5", "?offset=1e1", "?offset=%201",
		"?offset=1%20", "?offset=18446744073709551616", "?offset=one", "?offset=1&offset=1", "?offset=1&offset=x", "?offset=%zz", "?offset=١",
	} {
		for _, id := range []string{"o", "unknown"} {
			if r := d.get("/v1/exec/" + id + "/stream" + query); r.status != 400 || r.code() != api.MalformedRequest {
				t.Errorf("query %q of %s: %v, want 400 malformed_request", query, id, r)
			}
		}
	}
	if r := d.get("/v1/exec/unknown/stream?offset=3"); r.status != 404 || r.code() != api.UnknownExec {
		t.Errorf("unknown id: %v", r)
	}
	// A header of a browser's own reconnect does not speak.
	header := http.Header{"Authorization": {"Bearer " + token}, "Last-Event-Id": {"3"}}
	r := d.with("GET", "/v1/exec/o/stream?offset=7", "", header)
	if got, _ := tile(t, parse(t, r.body), 7, true); got != "789" {
		t.Errorf("with a contradicting Last-Event-ID: %v", r)
	}
}

func parse(t *testing.T, body string) []event {
	t.Helper()
	events, err := readEvents(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// tile checks that events cover the offsets from the attach offset to the exit
// once each and returns the output and the length of the gaps. With any
// attach offset the first event decides when exact is false.
func tile(t *testing.T, events []event, from uint64, exact bool) (output string, lost uint64) {
	t.Helper()
	at := from
	for i, e := range events {
		switch e.name {
		case api.EventOutput:
			var o api.OutputEvent
			if err := json.Unmarshal([]byte(e.data), &o); err != nil {
				t.Fatal(err)
			}
			if i == 0 && !exact {
				at = o.Offset
			}
			if o.Offset != at || len(o.Output) == 0 || len(o.Output) > 16384 {
				t.Fatalf("event %d starts at %d with %d bytes, want %d", i, o.Offset, len(o.Output), at)
			}
			output += string(o.Output)
			at += uint64(len(o.Output))
		case api.EventGap:
			var g api.GapEvent
			if err := json.Unmarshal([]byte(e.data), &g); err != nil {
				t.Fatal(err)
			}
			if g.From != at || g.To <= g.From {
				t.Fatalf("gap %+v at %d", g, at)
			}
			lost += g.To - g.From
			at = g.To
		case api.EventExit:
			var x api.ExitEvent
			if err := json.Unmarshal([]byte(e.data), &x); err != nil {
				t.Fatal(err)
			}
			if i != len(events)-1 || (exact && x.Offset != at) {
				t.Fatalf("exit %+v as event %d of %d, at %d", x, i, len(events), at)
			}
			return output, lost
		}
	}
	t.Fatalf("no exit event in %v", events)
	return "", 0
}

// TestStreamTiles follows more output than the ring holds, live and afterwards,
// from several offsets, and after the ack: outputs and gaps tile what was asked
// for, and every reader sees the same bytes.
func TestStreamTiles(t *testing.T) {
	for _, id := range []string{"OUT-5", "OUT-6", "OUT-7", "OUT-8", "OUT-11", "OUT-13", "OUT-15"} {
		t.Attr("requirement", id)
	}
	d := booted(t, func(c *agentd.Config) { c.Limits.StreamBufferBytes = 50000 })
	const script = "i=0; while [ $i -lt 2000 ]; do printf '%049d\\n' $i; i=$((i+1)); done"
	var whole strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&whole, "%049d\n", i)
	}
	d.startExec("t", map[string]any{"shell": true}, script)
	live := make(chan string, 3)
	for range cap(live) {
		go func() {
			defer func() { live <- "" }()
			output, lost := tile(t, d.wait("t"), 0, true)
			if uint64(len(output))+lost != 100000 || !strings.HasSuffix(whole.String(), output[max(0, len(output)-50):]) {
				t.Errorf("a live reader got %d bytes and lost %d of 100000", len(output), lost)
			}
		}()
	}
	for range cap(live) {
		<-live
	}
	for round := range 2 {
		for _, offset := range []uint64{0, 1, 49999, 50000, 50001, 77777, 99999, 100000} {
			r := d.get(fmt.Sprintf("/v1/exec/t/stream?offset=%d", offset))
			output, lost := tile(t, parse(t, r.body), offset, true)
			start := max(offset, 50000)
			if output != whole.String()[start:] || lost != start-offset {
				t.Errorf("round %d, offset %d: %d bytes and %d lost, want %d and %d", round, offset, len(output), lost, 100000-start, start-offset)
			}
		}
		d.post("/v1/exec/t/ack", "")
	}
}

// TestOffsetBeyondTheTotalWaits attaches ahead of the output: nothing comes
// until output passes the offset, then it starts exactly there.
func TestOffsetBeyondTheTotalWaits(t *testing.T) {
	t.Attr("requirement", "OUT-20")
	attached := make(chan struct{}, 1)
	d := booted(t, func(c *agentd.Config) {
		c.Recorder = recorderFunc(func(e trace.Event) {
			if e.Action == trace.StreamAttach {
				attached <- struct{}{}
			}
		})
	})
	d.startExec("b", map[string]any{"stdin": true}, "cat")
	got := make(chan reply, 1)
	go func() { got <- d.get("/v1/exec/b/stream?offset=5") }()
	<-attached
	for _, part := range []string{"abc", "defghi"} {
		if r := d.post("/v1/exec/b/stdin", `{"data_b64":"`+base64.StdEncoding.EncodeToString([]byte(part))+`"}`); r.status != 200 {
			t.Fatalf("stdin: %v", r)
		}
	}
	d.post("/v1/exec/b/stdin", `{"signal":"eof"}`)
	if output, _ := tile(t, parse(t, (<-got).body), 5, true); output != "fghi" {
		t.Errorf("output %q, want what comes from offset 5 on", output)
	}
}

// TestKeepalive moves the clock over a silent stream.
func TestKeepalive(t *testing.T) {
	t.Attr("requirement", "OUT-16")
	clock := newClock(1000)
	d := booted(t, func(c *agentd.Config) { c.Clock = clock; c.Limits.SSEKeepalive = 15 * time.Second })
	d.startExec("k", map[string]any{"stdin": true}, "cat")
	p := d.dial()
	p.send("GET /v1/exec/k/stream HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n\r\n")
	resp, err := http.ReadResponse(p.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		clock.awaitArmed(t, 15*time.Second)
		clock.Advance(15 * time.Second)
		got := make([]byte, 3)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != ":\n\n" {
			t.Fatalf("keepalive %q (%v)", got, err)
		}
	}
	d.post("/v1/exec/k/stdin", `{"signal":"eof"}`)
	rest, err := io.ReadAll(resp.Body)
	if events := parse(t, string(rest)); err != nil || len(events) != 1 || events[0].name != "exit" {
		t.Errorf("after the keepalives: %q (%v)", rest, err)
	}
}

// TestDeadReaderSlowsNobody attaches a reader that never reads. The child's
// output and a second reader go on, and the dead one is cut by its own write
// deadline.
func TestDeadReaderSlowsNobody(t *testing.T) {
	t.Attr("requirement", "OUT-17")
	t.Attr("requirement", "XPORT-27")
	detached := make(chan uint64, 2)
	d := booted(t, func(c *agentd.Config) {
		c.Limits.WriteTimeout = 50 * time.Millisecond
		c.Recorder = recorderFunc(func(e trace.Event) {
			if e.Action == trace.StreamDetach {
				detached <- e.Reader
			}
		})
	})
	d.startExec("y", nil, "yes")
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	dead, err := narrow.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	io.WriteString(dead, "GET /v1/exec/y/stream HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	if reader := <-detached; reader != 1 {
		t.Fatalf("reader %d left first, want the dead one", reader)
	}
	events := make(chan []event)
	go func() { events <- d.wait("y") }()
	if r := d.post("/v1/exec/y/kill", ""); r.status != 200 || !strings.Contains(r.body, `"killed":true`) {
		t.Errorf("kill: %v", r)
	}
	tile(t, <-events, 0, true)
}

// TestDetachChangesNothing lets readers come and go; the exec is as before.
func TestDetachChangesNothing(t *testing.T) {
	t.Attr("requirement", "EXEC-35")
	t.Attr("requirement", "OUT-12")
	detached := make(chan struct{}, 100)
	d := booted(t, func(c *agentd.Config) {
		c.Recorder = recorderFunc(func(e trace.Event) {
			if e.Action == trace.StreamDetach {
				detached <- struct{}{}
			}
		})
	})
	d.startExec("d", map[string]any{"stdin": true}, "cat")
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+d.addr+"/v1/exec/d/stream", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := d.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		<-detached
	}
	if r := d.get("/v1/exec/d"); r.body != `{"exec_id":"d","phase":"running"}` {
		t.Errorf("after 50 readers: %v", r)
	}
	d.post("/v1/exec/d/stdin", `{"data_b64":"aGk=","signal":"eof"}`)
	if p := d.outcome("d"); p.Stdout != "hi" {
		t.Errorf("outcome %+v", p.Outcome)
	}
}
