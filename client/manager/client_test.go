package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
	"microvms/client/daemontest"
)

// tests removes the manager's binary once all tests have run.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer daemontest.Remove()
	return m.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// TestHello gives what a manager may say first.
func TestHello(t *testing.T) {
	t.Attr("requirement", "MCLIENT-1")
	t.Attr("requirement", "MCLIENT-2")
	hello := func(v any) []byte {
		b, err := msp.Message(msp.Header{Method: msp.MethodHello}, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	event, _ := msp.Message(msp.Header{Method: msp.MethodEvent}, &msp.Event{Started: &msp.Lifecycle{GenvmID: 1}})
	numbered := hello(&msp.HelloPayload{})
	numbered[9] = 1
	for _, tc := range []struct {
		what    string
		kind    websocket.MessageType
		message []byte
		want    string // part of the error; empty: accepted
	}{
		{"a hello", websocket.MessageBinary, hello(&msp.HelloPayload{Hello: msp.Hello{BootID: 7}}), ""},
		{"a hello that says more", websocket.MessageBinary, hello(map[string]any{"hello": map[string]any{"boot_id": 7, "protocol_major": 0, "zone": "x"}}), ""},
		{"protocol 1", websocket.MessageBinary, hello(&msp.HelloPayload{Hello: msp.Hello{BootID: 7, ProtocolMajor: 1}}), "speaks protocol 1, this client 0"},
		{"an event", websocket.MessageBinary, event, "no hello"},
		{"a hello with an id", websocket.MessageBinary, numbered, "no hello"},
		{"a text", websocket.MessageText, hello(&msp.HelloPayload{}), "no hello"},
		{"nine octets", websocket.MessageBinary, hello(&msp.HelloPayload{})[:9], "no hello"},
		{"no boot id", websocket.MessageBinary, hello(map[string]any{"hello": map[string]any{"protocol_major": 0}}), "boot_id"},
	} {
		f := serve(t, func(p *peer) { p.raw(tc.kind, tc.message); p.untilLeft() })
		c, err := Dial(testContext(t), f.address)
		if (err == nil) != (tc.want == "") || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
		if err == nil {
			if c.BootID() != 7 {
				t.Errorf("%s: boot %d", tc.what, c.BootID())
			}
			c.Close()
		} else if client.KindOf(err) != client.KindProtocol {
			t.Errorf("%s: kind %s", tc.what, client.KindOf(err))
		}
	}
}

func TestDialFailures(t *testing.T) {
	t.Attr("requirement", "MCLIENT-2")
	t.Attr("requirement", "MCLIENT-17")
	t.Attr("requirement", "MCLIENT-21")
	none := serve(t)
	_, err := Dial(testContext(t), none.address)
	var api *client.APIError
	if !errors.As(err, &api) || api.Status != http.StatusNotFound || client.KindOf(err) != client.KindProtocol {
		t.Errorf("no manager behind the socket: %v", err)
	}
	if _, err := Dial(testContext(t), none.address+"-not-there"); client.KindOf(err) != client.KindRetryable || !strings.Contains(err.Error(), "-not-there") {
		t.Errorf("no socket: %v", err)
	}
	silent := serve(t, func(p *peer) { p.untilLeft() })
	longer, cancel := context.WithTimeout(testContext(t), 20*time.Second)
	defer cancel()
	if _, err := Dial(longer, silent.address, WithDialTimeout(20*time.Millisecond)); client.KindOf(err) != client.KindRetryable || !strings.Contains(err.Error(), "no hello within 20ms") {
		t.Errorf("a manager without a hello: %v", err)
	}
	waiting := make(chan struct{})
	patient := serve(t, func(p *peer) { close(waiting); p.untilLeft() })
	ctx, cancel := context.WithCancel(testContext(t))
	go func() { <-waiting; cancel() }()
	if _, err := Dial(ctx, patient.address); client.KindOf(err) != client.KindInterrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	leaves := serve(t, func(p *peer) {})
	if _, err := Dial(testContext(t), leaves.address); client.KindOf(err) != client.KindRetryable {
		t.Errorf("a manager that leaves at once: %v", err)
	}
	f := serve(t, func(p *peer) { p.hello(1); p.untilLeft() })
	f.connect()
	if f.host != "localhost" || f.header.Values("Origin") != nil {
		t.Errorf("host %q, origin %q", f.host, f.header.Values("Origin"))
	}
	for _, bad := range []string{"", "unix:", "ftp://x", "http://", "http://a:b@c", "http://x/path", "http://x?q=1", "http://x y"} {
		if _, err := Dial(testContext(t), bad); client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("address %q: %v", bad, err)
		}
	}
	for text, want := range map[string]string{"/run/m": "unix:/run/m", "unix:///run/m": "unix:/run/m", "unix:./m": "unix:./m", "../m": "unix:../m",
		"127.0.0.1:3999": "http://127.0.0.1:3999", "ws://[::1]:1/": "http://[::1]:1", "wss://h": "https://h", "localhost": "http://localhost"} {
		if at, err := parseAddress(text); err != nil || at.String() != want {
			t.Errorf("address %q is %v, %v, want %s", text, at, err, want)
		}
	}
}

// TestRun follows one run from the request to the ack.
func TestRun(t *testing.T) {
	t.Attr("requirement", "MCLIENT-5")
	t.Attr("requirement", "MCLIENT-14")
	t.Attr("requirement", "MCLIENT-15")
	artifact := strings.Repeat("0123456789", 60_000)
	f := serve(t, func(p *peer) {
		p.hello(7)
		id, r := p.want(msp.MethodRun)
		if id != 1 || *r.Run.Token != "t" {
			t.Errorf("request %d with token %q", id, *r.Run.Token)
		}
		// The first events follow the reply without a pause.
		p.send(msp.Header{Method: msp.MethodRun, Request: id}, &msp.RunReply{GenvmID: 5})
		p.event(started(5))
		p.event(finished(5, 0))
		for offset := uint64(0); offset < uint64(len(artifact)); {
			id, r := p.want(msp.MethodGetArtifact)
			g := *r.GetArtifact
			if g.Offset != offset || g.MaxLen != msp.ChunkBytes || g.GenvmID != 5 || g.Field != msp.Stdout {
				t.Errorf("asked for %+v, want offset %d", g, offset)
			}
			page := artifact[offset:min(uint64(len(artifact)), offset+uint64(g.MaxLen))]
			p.send(msp.Header{Method: msp.MethodGetArtifact, Request: id}, &msp.ArtifactReply{TotalLen: uint64(len(artifact)), Data: []byte(page)})
			offset += uint64(len(page))
		}
		id, _ = p.want(msp.MethodAck)
		p.send(msp.Header{Method: msp.MethodAck, Request: id}, &msp.Empty{})
		p.untilLeft()
	})
	c := f.connect()
	run, err := c.Run(testContext(t), request("t"))
	if err != nil {
		t.Fatal(err)
	}
	if run.ID() != (RunID{7, 5}) {
		t.Errorf("the run is %v", run.ID())
	}
	if got := kinds(t, run.Next); !cmp.Equal(got, []string{"started", "finished", "EOF"}) {
		t.Errorf("events %q", got)
	}
	got, err := io.ReadAll(run.Open(testContext(t), msp.Stdout))
	if err != nil || string(got) != artifact {
		t.Errorf("the artifact has %d bytes, %v, want %d", len(got), err, len(artifact))
	}
	if err := run.Ack(testContext(t)); err != nil {
		t.Error(err)
	}
	if len(c.runs) != 0 || len(c.calls) != 0 {
		t.Errorf("after the ack the client keeps %d runs and %d calls", len(c.runs), len(c.calls))
	}
}

// TestRepliesMatchedByID answers many requests in the opposite order.
func TestRepliesMatchedByID(t *testing.T) {
	t.Attr("requirement", "MCLIENT-3")
	const n = 50
	f := serve(t, func(p *peer) {
		p.hello(1)
		type waiting struct{ id, run uint64 }
		var all []waiting
		for range n {
			id, r := p.want(msp.MethodGetArtifact)
			all = append(all, waiting{id, r.GetArtifact.GenvmID})
		}
		for i := n - 1; i >= 0; i-- {
			p.send(msp.Header{Method: msp.MethodGetArtifact, Request: all[i].id}, &msp.ArtifactReply{TotalLen: 3, Data: fmt.Appendf(nil, "%03d", all[i].run)})
		}
		p.untilLeft()
	})
	c := f.connect()
	var wait sync.WaitGroup
	for i := range uint64(n) {
		wait.Go(func() {
			_, page, err := c.ReadArtifact(testContext(t), RunID{1, i}, msp.Stderr, 0, 10)
			if err != nil || string(page) != fmt.Sprintf("%03d", i) {
				t.Errorf("run %d was answered %q, %v", i, page, err)
			}
		})
	}
	wait.Wait()
}

// TestErrorReplies gives each code its class.
func TestErrorReplies(t *testing.T) {
	t.Attr("requirement", "MCLIENT-18")
	for _, tc := range []struct {
		code  msp.ErrorCode
		text  string
		kind  client.Kind
		match []error
	}{
		{msp.CodeInternal, "boom", client.KindRetryable, nil},
		{msp.CodeInternal, "LLM: modules are required but not running", client.KindRetryable, []error{ErrModules}},
		{msp.CodeMalformedFrame, "run.host: unexpected kind", client.KindProtocol, []error{ErrMalformed}},
		{msp.CodeUnknownMethod, "", client.KindProtocol, nil},
		{msp.CodeUnknownID, "unknown_id", client.KindProtocol, []error{ErrUnknownID, client.ErrNotFound}},
		{msp.CodeBootIDMismatch, "", client.KindPlatform, []error{ErrRestarted}},
		{msp.CodeNotFinished, "modules are required but not running", client.KindProtocol, []error{ErrNotFinished, client.ErrStillRunning, client.ErrConflict}},
		{200, strings.Repeat("x", 10_000), client.KindProtocol, nil},
	} {
		f := serve(t, func(p *peer) {
			p.hello(1)
			id, _ := p.want(msp.MethodAck)
			p.refuse(id, tc.code, tc.text)
			p.untilLeft()
		})
		err := f.connect().Ack(testContext(t), RunID{1, 1})
		if client.KindOf(err) != tc.kind || len(err.Error()) > 600 {
			t.Errorf("%v: %v of kind %s, want %s", tc.code, err, client.KindOf(err), tc.kind)
		}
		for _, sentinel := range []error{ErrModules, ErrMalformed, ErrUnknownID, ErrRestarted, ErrNotFinished, client.ErrStillRunning, client.ErrNotFound, client.ErrConflict, ErrLost} {
			want := false
			for _, m := range tc.match {
				want = want || m == sentinel
			}
			if errors.Is(err, sentinel) != want {
				t.Errorf("%v matches %v: %t, want %t", err, sentinel, !want, want)
			}
		}
	}
}

// TestStrangeReplies says what a reply costs that is not the one awaited: one
// call, or the connection when nobody could tell which call.
func TestStrangeReplies(t *testing.T) {
	t.Attr("requirement", "MCLIENT-4")
	t.Attr("requirement", "MCLIENT-11")
	t.Attr("requirement", "MCLIENT-13")
	message := func(h msp.Header, v any) []byte {
		b, err := msp.Message(h, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ack := func(id uint64) msp.Header { return msp.Header{Method: msp.MethodAck, Request: id} }
	eventHeader := msp.Header{Method: msp.MethodEvent}
	for _, tc := range []struct {
		what    string
		kind    websocket.MessageType
		message func(id uint64) []byte
		want    string // part of the call's error; empty: answered by the good reply that follows
		ends    bool   // the connection ends
	}{
		{"a reply that says more", websocket.MessageBinary, func(id uint64) []byte { return message(ack(id), map[string]any{"more": 1}) }, "", false},
		{"a reply to nobody", websocket.MessageBinary, func(uint64) []byte { return message(ack(99), &msp.Empty{}) }, "", false},
		{"another method", websocket.MessageBinary, func(id uint64) []byte {
			return message(msp.Header{Method: msp.MethodCancel, Request: id}, &msp.Empty{})
		}, "ack was answered as cancel", false},
		{"a reply that is no value", websocket.MessageBinary, func(id uint64) []byte { return ack(id).Append(nil) }, "cannot read the reply to ack", false},
		{"a reply of another shape", websocket.MessageBinary, func(id uint64) []byte { return message(ack(id), []any{}) }, "cannot read the reply to ack", false},
		{"an error that is none", websocket.MessageBinary, func(id uint64) []byte {
			return message(msp.Header{Method: msp.MethodError, Request: id}, &msp.Empty{})
		}, "cannot read the error reply to ack", false},
		{"an event of a kind to come", websocket.MessageBinary, func(uint64) []byte { return message(eventHeader, map[string]any{"paused": map[string]any{}}) }, "", false},
		{"an event for nobody", websocket.MessageBinary, func(uint64) []byte { e := started(99); return message(eventHeader, &e) }, "", false},
		{"a second hello", websocket.MessageBinary, func(uint64) []byte { return message(msp.Header{Method: msp.MethodHello}, &msp.HelloPayload{}) }, "", false},
		{"an event that says more", websocket.MessageBinary, func(uint64) []byte {
			return message(eventHeader, map[string]any{"started": map[string]any{"genvm_id": 1, "zone": "x"}})
		}, "", false},
		{"an event without its run", websocket.MessageBinary, func(uint64) []byte { return message(eventHeader, map[string]any{"started": map[string]any{}}) }, "cannot read an event", true},
		{"an event that is no value", websocket.MessageBinary, func(uint64) []byte { return eventHeader.Append(nil) }, "cannot read an event", true},
		{"an error about no request", websocket.MessageBinary, func(uint64) []byte {
			return message(msp.Header{}, &msp.Error{Code: msp.CodeMalformedFrame, Message: "too short"})
		}, "could not read a message", true},
		{"a text", websocket.MessageText, func(uint64) []byte { return []byte("hi") }, "text message", true},
		{"nine octets", websocket.MessageBinary, func(uint64) []byte { return make([]byte, 9) }, "shorter than its header", true},
	} {
		f := serve(t, func(p *peer) {
			p.hello(1)
			id, _ := p.want(msp.MethodAck)
			p.raw(tc.kind, tc.message(id))
			p.send(ack(id), &msp.Empty{})
			p.untilLeft()
		})
		c := f.connect()
		err := c.Ack(testContext(t), RunID{1, 1})
		if (err == nil) != (tc.want == "") || !strings.Contains(fmt.Sprint(err), tc.want) || (err != nil && client.KindOf(err) != client.KindProtocol) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
		if tc.ends && err != nil { // the reader has judged the message before the reply behind it
			<-c.Done()
		}
		if ended := c.Err() != nil; ended != tc.ends {
			t.Errorf("%s: the connection ended: %t (%v)", tc.what, ended, c.Err())
		}
	}
}

// TestTooLarge refuses what would cost the connection.
func TestTooLarge(t *testing.T) {
	t.Attr("requirement", "MCLIENT-20")
	f := serve(t, func(p *peer) { p.hello(1); p.untilLeft() })
	c := f.connect(WithMaxMessageBytes(1000))
	r := request()
	r.Calldata = make([]byte, 1000)
	if _, err := c.Run(testContext(t), r); client.KindOf(err) != client.KindInvalidArg || !strings.Contains(err.Error(), "1000") {
		t.Errorf("a request above the bound: %v", err)
	}
	r = request()
	r.Host = "\xff"
	if _, err := c.Run(testContext(t), r); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("a request that cannot be encoded: %v", err)
	}
	var bad *calldata.Error
	if _, err := c.Run(testContext(t), r); !errors.As(err, &bad) || bad.Path != "run.host" {
		t.Errorf("a request that cannot be encoded: %v", err)
	}
	if c.Err() != nil {
		t.Errorf("the connection ended: %v", c.Err())
	}
}
