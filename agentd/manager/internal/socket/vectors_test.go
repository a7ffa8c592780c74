package socket

import (
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
)

// The whole messages of manager facts, section 2.6.
const (
	vHello        = "000100000000000000000e0568656c6c6f1607626f6f745f6964390e70726f746f636f6c5f6d616a6f7201"
	vHelloLast    = "000100000000000000000e0568656c6c6f1607626f6f745f6964f9ffffffffffffffff0f0e70726f746f636f6c5f6d616a6f7201"
	vRun          = "000300000000000000010e0372756e5e0d6275636b65745f746f74616c73050863616c6c646174610b0604636f64650004686f73744c756e69783a2f2f2f6809686f73745f64617461147b7d1d696e697469616c5f74696d655f756e6974735f616c6c6f636174696f6ee1030769735f73796e6310156c65616465725f6e6f6e6465745f726573756c747300076d6573736167653e08636861696e5f69640110636f6e74726163745f616464726573731800000000000000000000000000000000000000000769735f696e6974100e6f726967696e5f616464726573731800000000000000000000000000000000000000000e73656e6465725f616464726573731800000000000000000000000000000000000000000e7369676e65725f616464726573731800000000000000000000000000000000000000000576616c7565010873656c6563746f7216046b696e642c6d616a6f72056d616a6f72010974696d657374616d70a401323032342d31312d32365430363a34323a34325a"
	vRunReply     = "000300000000000000010e0867656e766d5f696409"
	vAttach       = "000400000000000000020e066174746163681607626f6f745f6964390867656e766d5f696409"
	vQueued       = "000400000000000000020e08736e617073686f740e06717565756564160867656e766d5f6964090d686f73745f67656e766d5f696400"
	vStartedToken = "000400000000000000020e08736e617073686f740e0773746172746564160867656e766d5f6964090d686f73745f67656e766d5f69641c682d31"
	vCancel       = "000500000000000000030e0663616e63656c0e0867656e766d5f696409"
	vCancelReply  = "0005000000000000000306"
	vAck          = "000600000000000000040e0361636b0e0867656e766d5f696409"
	vAckReply     = "0006000000000000000406"
	vArtifact     = "000700000000000000050e0c6765745f617274696661637426056669656c64347374646f75740867656e766d5f696409076d61785f6c656e81808001066f666673657401"
	vArtifactHi   = "0007000000000000000516046461746113686909746f74616c5f6c656e11"
	vArtifactNone = "000700000000000000051604646174610309746f74616c5f6c656e01"
	vStarted      = "000200000000000000000e0773746172746564160867656e766d5f6964090d686f73745f67656e766d5f696400"
	vFailed       = "000200000000000000000e0f6661696c65645f746f5f73746172741e056572726f72146e6f0867656e766d5f6964090d686f73745f67656e766d5f696400"
	vExited       = "000200000000000000000e0866696e6973686564560e61727469666163745f73697a65731e0967656e766d5f6c6f67010673746465727201067374646f757411056361757365346578697465640f636f6e73756d65645f726573756c740b0009657869745f636f6465010b66696e69736865645f6174a401323032362d30312d30315430303a30303a30305a0867656e766d5f6964090d686f73745f67656e766d5f696400076d657472696373000d76657273696f6e5f6d616a6f72010d76657273696f6e5f6d696e6f7219"
	vCancelled    = "000200000000000000000e0866696e6973686564560e61727469666163745f73697a65731e0967656e766d5f6c6f67010673746465727201067374646f7574010563617573654c63616e63656c6c65640f636f6e73756d65645f726573756c740009657869745f636f6465000b66696e69736865645f6174c401323032362d30312d30315430303a30303a30302e3132335a0867656e766d5f6964090d686f73745f67656e766d5f69640c68076d657472696373000d76657273696f6e5f6d616a6f72010d76657273696f6e5f6d696e6f7201"
	vBadID        = "000000000000000000001604636f646529076d6573736167650c78"
	vUnknownID    = "000000000000000000211604636f646519076d65737361676554756e6b6e6f776e5f6964"
	vNotFinished  = "000000000000000000091604636f646531076d657373616765a40172756e20686173206e6f742066696e6973686564"
)

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// scripted starts a server over a table that answers as the test says.
func scripted(t *testing.T, edit func(*Config, *tableDouble)) (*served, *tableDouble) {
	t.Helper()
	d := &tableDouble{}
	c := quiet()
	c.Table = d
	c.Spec = func(r *msp.RunRequest) (runs.Spec, error) { return runs.Spec{Token: r.Token}, nil }
	if edit != nil {
		edit(&c, d)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s), d
}

// TestFrameVectors sends each request of the vectors over a connection and
// compares what comes back with each message of the manager, byte by byte.
func TestFrameVectors(t *testing.T) {
	t.Attr("requirement", "SOCKET-1")
	t.Attr("requirement", "SOCKET-19")
	token, one, zero := "h-1", "h", int64(0)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ev := func(e runs.Event) runs.Event { e.ID = 1; return e }
	deliver := func(e runs.Event) func(*tableDouble) {
		return func(d *tableDouble) { d.run = []runs.Event{ev(e)} }
	}
	for name, c := range map[string]struct {
		table func(*tableDouble)
		send  string
		want  []string
	}{
		"run":            {nil, vRun, []string{vRunReply}},
		"queued":         {func(d *tableDouble) { d.snapshot = ev(runs.Event{}) }, vAttach, []string{vQueued}},
		"started":        {func(d *tableDouble) { d.snapshot = ev(runs.Event{Kind: runs.EventStarted, Token: &token}) }, vAttach, []string{vStartedToken}},
		"cancel":         {nil, vCancel, []string{vCancelReply}},
		"ack":            {nil, vAck, []string{vAckReply}},
		"page":           {func(d *tableDouble) { d.page = "hi" }, vArtifact, []string{vArtifactHi}},
		"empty page":     {nil, vArtifact, []string{vArtifactNone}},
		"event started":  {deliver(runs.Event{Kind: runs.EventStarted}), vRun, []string{vRunReply, vStarted}},
		"event failed":   {deliver(runs.Event{Kind: runs.EventFailedToStart, Error: "no"}), vRun, []string{vRunReply, vFailed}},
		"event finished": {deliver(runs.Event{Kind: runs.EventFinished, Finished: &runs.Finished{ExitCode: &zero, FinishedAt: at, Sizes: [3]uint64{2}, Report: runs.Report{Consumed: []byte{0}, VersionMinor: 3}}}), vRun, []string{vRunReply, vExited}},
		"event cancelled": {deliver(runs.Event{Kind: runs.EventFinished, Token: &one, Finished: &runs.Finished{
			Cause: runs.CauseCancelled, FinishedAt: at.Add(123 * time.Millisecond)}}), vRun, []string{vRunReply, vCancelled}},
		"unknown id":   {func(d *tableDouble) { d.err = runs.ErrUnknown }, "00060000000000000021" + vAck[20:], []string{vUnknownID}},
		"not finished": {func(d *tableDouble) { d.err = runs.ErrNotFinished }, "00060000000000000009" + vAck[20:], []string{vNotFinished}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := scripted(t, func(_ *Config, d *tableDouble) {
				if c.table != nil {
					c.table(d)
				}
			})
			ws := s.dial()
			s.write(ws, unhex(c.send))
			for _, want := range c.want {
				if got := hex.EncodeToString(s.read(ws)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
	for boot, want := range map[uint64]string{7: vHello, math.MaxUint64: vHelloLast} {
		s, _ := scripted(t, func(c *Config, _ *tableDouble) { c.BootID = boot })
		s.dial()
		if got := hex.EncodeToString(s.config.hello); got != want {
			t.Errorf("hello of boot %d: %s", boot, got)
		}
	}
	c := &conn{queue: newQueue()}
	c.fail(0, msp.CodeBadRequestID, "x")
	if got := hex.EncodeToString([]byte(take(c.queue))); got != vBadID {
		t.Errorf("got %s", got)
	}
}

// TestErrorRules sends one message of each row of manager facts, section 2.3,
// and after it a good request on the same connection.
func TestErrorRules(t *testing.T) {
	for _, id := range []string{"SOCKET-7", "SOCKET-8", "SOCKET-9", "SOCKET-10", "SOCKET-11", "SOCKET-15", "SOCKET-19", "MGR-18"} {
		t.Attr("requirement", id)
	}
	s, d := scripted(t, func(c *Config, d *tableDouble) {
		c.Spec = func(*msp.RunRequest) (runs.Spec, error) {
			return runs.Spec{}, errors.New("modules are required but not running")
		}
	})
	ws := s.dial()
	const cancel = "0e0663616e63656c0e0867656e766d5f696409"
	for _, c := range []struct {
		name string
		send string
		code msp.ErrorCode
		id   uint64
	}{
		{"nothing", "", msp.CodeMalformedFrame, 0},
		{"1 byte", "00", msp.CodeMalformedFrame, 0},
		{"9 bytes", "000500000000000000", msp.CodeMalformedFrame, 0},
		{"method 8", "00080000000000000009" + cancel, msp.CodeUnknownMethod, 9},
		{"method 8 without a payload", "00080000000000000009", msp.CodeUnknownMethod, 9},
		{"method 65535 with id 0", "ffff0000000000000000", msp.CodeUnknownMethod, 0},
		{"method 256 with the largest id", "0100ffffffffffffffff", msp.CodeUnknownMethod, math.MaxUint64},
		{"cancel with id 0", "00050000000000000000" + cancel, msp.CodeBadRequestID, 0},
		{"cancel with id 0 without a payload", "00050000000000000000", msp.CodeBadRequestID, 0},
		{"error with id 0", "00000000000000000000", msp.CodeBadRequestID, 0},
		{"hello with id 0", "00010000000000000000", msp.CodeBadRequestID, 0},
		{"event with id 0", "00020000000000000000", msp.CodeBadRequestID, 0},
		{"error", "00000000000000000003", msp.CodeUnknownMethod, 3},
		{"hello", "00010000000000000003", msp.CodeUnknownMethod, 3},
		{"event", "00020000000000000003", msp.CodeUnknownMethod, 3},
		{"no payload", "00050000000000000003", msp.CodeMalformedFrame, 3},
		{"no value", "000500000000000000030f", msp.CodeMalformedFrame, 3},
		{"bytes behind the value", "00050000000000000003" + cancel + "00", msp.CodeMalformedFrame, 3},
		{"another shape", "0005000000000000000309", msp.CodeMalformedFrame, 3},
		{"another tag", "00060000000000000003" + cancel, msp.CodeMalformedFrame, 3},
		{"two tags", "00050000000000000003160361636b0e0867656e766d5f6964090663616e63656c0e0867656e766d5f696409", msp.CodeMalformedFrame, 3},
		{"a key too many", "000500000000000000030e0663616e63656c1605666f6f6f6f000867656e766d5f696409", msp.CodeMalformedFrame, 3},
		{"a missing key", "000500000000000000030e0663616e63656c06", msp.CodeMalformedFrame, 3},
		{"129 containers", "00050000000000000003" + strings.Repeat("0d", 128) + "05", msp.CodeMalformedFrame, 3},
		{"attach to another boot", "00040000000000000003" + "0e066174746163681607626f6f745f6964410867656e766d5f696409", msp.CodeBootIDMismatch, 3},
		{"a refused run", vRun, msp.CodeInternal, 1},
	} {
		s.write(ws, unhex(c.send))
		var e msp.Error
		if h := decode(t, s.read(ws), &e); h != (msp.Header{Method: msp.MethodError, Request: c.id}) || e.Code != c.code || e.Message == "" {
			t.Errorf("%s: header %+v, %v", c.name, h, &e)
		}
		if calls := d.take(); len(calls) != 0 {
			t.Errorf("%s: the table was asked: %q", c.name, calls)
		}
		s.write(ws, unhex(vCancel))
		if got := hex.EncodeToString(s.read(ws)); got != vCancelReply {
			t.Fatalf("%s: the connection then answered %s", c.name, got)
		}
		d.take()
	}
	ws.Write(t.Context(), websocket.MessageText, []byte(unhex(vCancel))) // which is UTF-8 by chance
	var e msp.Error
	if h := decode(t, s.read(ws), &e); h != (msp.Header{}) || e.Code != msp.CodeMalformedFrame {
		t.Errorf("text: header %+v, %v", h, &e)
	}
	s.write(ws, unhex(vCancel))
	if got := hex.EncodeToString(s.read(ws)); got != vCancelReply {
		t.Errorf("after text: %s", got)
	}
}
