package manager

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// quickKnobs make a judge that waits in vain give up soon.
var quickKnobs = Knobs{
	LineBytes: 1 << 20, Lines: 1000, Flood: 500, Turns: 100, Pages: 300, Settle: 3 * time.Second, Limit: 10 * time.Second,
}

func rowByID(t *testing.T, id string, names ...string) Row {
	t.Helper()
	for _, row := range Rows() {
		if row.ID != id {
			continue
		}
		var kept []Case
		for _, c := range row.Cases {
			for _, n := range names {
				if c.Name == n {
					kept = append(kept, c)
				}
			}
		}
		if len(kept) != len(names) {
			t.Fatalf("row %s has %d of the cases %q", id, len(kept), names)
		}
		row.Cases = kept
		return row
	}
	t.Fatalf("no row %s", id)
	return Row{}
}

// rightHead mends one header of an upgrade.
func rightHead(name, value string) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
		return false
	}
}

// second adds one to the run of each reply but the first of a connection.
func second() func([]byte) [][]byte {
	replies := 0
	return func(b []byte) [][]byte {
		h, payload, err := msp.ParseHeader(b)
		var reply msp.RunReply
		if err != nil || h.Method != msp.MethodRun || calldata.Unmarshal(payload, &reply) != nil {
			return [][]byte{b}
		}
		if replies++; replies > 1 {
			reply.GenvmID++
		}
		return [][]byte{encode(h, reply)}
	}
}

// defused puts an empty array where a run request holds a bomb.
func defused(b []byte) [][]byte {
	h, payload, err := msp.ParseHeader(b)
	if err != nil || h.Method != msp.MethodRun || calldata.Valid(payload) == nil {
		return [][]byte{b}
	}
	return emptied(h)
}

// defusedAny does so with each run request that is refused.
func defusedAny(b []byte) [][]byte {
	h, payload, err := msp.ParseHeader(b)
	if err != nil || h.Method != msp.MethodRun {
		return [][]byte{b}
	}
	if _, err := msp.ParseRequest(h.Method, payload); err == nil {
		return [][]byte{b}
	}
	return emptied(h)
}

func emptied(h msp.Header) [][]byte {
	good, err := runWith(h.Request, "bucket_totals", []byte{0x05})
	if err != nil {
		return nil
	}
	return [][]byte{good}
}

// losing loses some of the messages of a flood.
func losing() func([]byte) [][]byte {
	n := 0
	return func(b []byte) [][]byte {
		if n++; n%100 == 99 {
			return nil
		}
		return [][]byte{b}
	}
}

// TestLiesTurnRowsRed holds each row against a manager that breaks exactly what
// the case is about, and the same cases against the same relay without the lie.
func TestLiesTurnRowsRed(t *testing.T) {
	t.Parallel()
	finished := func(change func(f *msp.Finished)) lie {
		return lie{relay: true, down: onEvent(func(ev *msp.Event) {
			if ev.Finished != nil {
				change(ev.Finished)
			}
		})}
	}
	for _, c := range []struct {
		row  Row
		name string
		lie  lie
		red  bool // also without the lie: the relay cannot be honest here
	}{
		{rowByID(t, "W4", "a foreign origin"), "an origin is taken", lie{handle: rightHead("Origin", "")}, false},
		{rowByID(t, "W4", "version 12"), "version 12 is taken", lie{handle: rightHead("Sec-WebSocket-Version", "13")}, false},
		{rowByID(t, "W4", "two keys"), "one of two keys is taken", lie{handle: rightHead("Sec-WebSocket-Key", key)}, false},
		{rowByID(t, "W5", "0 to 9 bytes"), "short messages get another error", lie{relay: true, up: each(func(b []byte) [][]byte {
			return [][]byte{append(bytes.Clone(b), make([]byte, max(0, msp.HeaderBytes-len(b)))...)}
		})}, false},
		{rowByID(t, "W5", "unknown methods"), "errors name another request", lie{relay: true, down: onError(func(h *msp.Header, _ *msp.Error) { h.Request++ })}, false},
		{rowByID(t, "W5", "payloads that are no calldata"), "errors are internal", lie{relay: true, down: onError(func(_ *msp.Header, e *msp.Error) {
			e.Code = msp.CodeInternal
		})}, false},
		{rowByID(t, "W5", "a secret in a refused payload"), "errors repeat values", lie{relay: true, down: onError(func(_ *msp.Header, e *msp.Error) {
			e.Message += " in hunter2-is-the-secret"
		})}, false},
		{rowByID(t, "W5", "the limit and 1 announced"), "too long gets a close frame", lie{relay: true, limit: 64 << 20}, true},
		{rowByID(t, "W6", "the same body while it runs"), "a repeat gets another id", lie{relay: true, down: second}, false},
		{rowByID(t, "W6", "after the end"), "an ending comes twice", lie{relay: true, down: each(func(b []byte) [][]byte {
			if bytes.HasPrefix(b, append([]byte{0, 2}, make([]byte, 8)...)) && bytes.Contains(b, []byte("finished_at")) {
				return [][]byte{b, b}
			}
			return [][]byte{b}
		})}, false},
		{rowByID(t, "W6", "after the ack"), "a token outlives its ack", lie{relay: true, down: onError(func(_ *msp.Header, e *msp.Error) {
			e.Code = msp.CodeNotFinished
		})}, false},
		{rowByID(t, "W8", "late: an ending on the same connection"), "an ending waits behind pages", lie{relay: true, down: later(mostAhead + 50)}, false},
		{rowByID(t, "M1", "129 arrays in one another"), "a bomb is taken", lie{relay: true, up: each(defused)}, false},
		{rowByID(t, "M2", "arguments of no byte"), "more elements than have room are taken", lie{relay: true, up: each(defusedAny)}, false},
		{rowByID(t, "M2", "short arguments to the limit"), "more arguments than can be are taken", lie{relay: true, up: onRun(func(r *msp.RunRequest) {
			r.ExtraArgs = r.ExtraArgs[:min(len(r.ExtraArgs), 1)]
		})}, false},
		{rowByID(t, "M4", "unknown methods, read late"), "some messages are lost", lie{relay: true, up: losing}, false},
		{rowByID(t, "M5", "a thousand at once"), "a disconnect ends the run", finished(func(f *msp.Finished) { f.Cause = msp.Exited }), false},
		{rowByID(t, "X1", "a result announced and not sent"), "a result is made up", finished(func(f *msp.Finished) { f.Consumed = append(f.Consumed, 1) }), false},
		{rowByID(t, "X2", "safe: a line without an end"), "a bounded log is not", finished(func(f *msp.Finished) { f.Sizes.GenvmLog += 1 << 20 }), false},
		{rowByID(t, "X3", "unsafe"), "an unbounded log is bounded", finished(func(f *msp.Finished) { f.Sizes.GenvmLog = min(f.Sizes.GenvmLog, 100) }), false},
		{rowByID(t, "X4", "one in the group"), "a fork costs the exit code", finished(func(f *msp.Finished) {
			if f.ExitCode != nil && *f.ExitCode == 5 {
				f.ExitCode = nil
			}
		}), false},
		{rowByID(t, "X5", "version .."), "a version is mended", lie{relay: true, up: onRun(func(r *msp.RunRequest) { r.Selector.Version = Executor })}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			honest := asCommand(t, 64)
			honest.Knobs = quickKnobs
			if c.name == "a disconnect ends the run" || strings.HasPrefix(c.name, "a token") {
				honest.Knobs.Settle = time.Second
			}
			res := Run(t.Context(), liar(t, honest, c.lie), c.row)
			if !strings.Contains(strings.Join(res.Failures, "\n"), c.row.Cases[0].Name+": ") {
				t.Errorf("the lie was not found: %v", res.String())
			}
			if c.red {
				return
			}
			truth := lie{relay: c.lie.relay}
			if res := Run(t.Context(), liar(t, honest, truth), c.row); res.Failed() {
				t.Errorf("without the lie: %v", res.String())
			}
		})
	}
}
