package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/strictjson"
)

// FuzzOffset checks that no query crashes the parser and that what it accepts
// is a plain decimal that a second parser finds exactly once.
func FuzzOffset(f *testing.F) {
	for _, s := range []string{"", "offset=0", "offset=18446744073709551615", "offset=1&offset=2", "x=%zz&offset=5", "off%73et=%31", "offset=-1", ";", "offset"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		offset, ok := parseOffset(query)
		if !ok {
			return
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return // a lenient query; only offset must be well-formed
		}
		switch found := values["offset"]; {
		case len(found) == 0 && offset == 0:
		case len(found) == 1 && strings.TrimLeft(found[0], "0") == strings.TrimLeft(strconv.FormatUint(offset, 10), "0") && found[0] != "":
		default:
			t.Fatalf("parseOffset(%q) = %d, a second parser finds %q", query, offset, found)
		}
	})
}

// FuzzStdinBody checks that no stdin body crashes the decoding, and that data
// which is accepted encodes back to what was sent.
func FuzzStdinBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"data_b64":"YQ==","signal":"eof"}`, `{"data_b64":"YR=="}`, `{"data_b64":"Y\nQ=="}`, `{"signal":"hup"}`} {
		f.Add([]byte(s))
	}
	s := &Server{}
	s.limits.MaxStdinWriteBytes = 64
	f.Fuzz(func(t *testing.T, body []byte) {
		var req api.StdinRequest
		if strictjson.Unmarshal(body, &req) != nil {
			return
		}
		data, eof, bad := s.decodeStdin(&req)
		switch {
		case bad != nil && bad.Code.Status() == 0:
			t.Fatalf("refusal %v has no status", bad)
		case bad != nil:
		case eof != (req.Signal != nil), len(data) > 64:
			t.Fatalf("body %q: eof %v, %d bytes", body, eof, len(data))
		case req.DataB64 != nil && base64.StdEncoding.EncodeToString(data) != *req.DataB64:
			t.Fatalf("body %q decodes to %q", body, data)
		}
	})
}

// TestParseTimeout checks the boundaries of timeout_sec.
func TestParseTimeout(t *testing.T) {
	t.Attr("requirement", "EXEC-8")
	for _, c := range []struct {
		sec  float64
		want time.Duration
		ok   bool
	}{
		{0, 0, false}, {math.Copysign(0, -1), 0, false}, {-1, 0, false}, {math.NaN(), 0, false}, {math.Inf(1), 0, false}, {math.Inf(-1), 0, false},
		{1 << 64, 0, false}, {math.MaxFloat64, 0, false}, {math.Nextafter(1<<64, 0), 0, true}, {1e18, 0, true}, {1e10, 0, true},
		{9e9, 9e18, true}, {1, time.Second, true}, {0.5, 500 * time.Millisecond, true}, {1e-9, 1, true}, {1e-300, 1, true}, {math.SmallestNonzeroFloat64, 1, true},
	} {
		if got, ok := parseTimeout(c.sec); got != c.want || ok != c.ok {
			t.Errorf("parseTimeout(%g) = %v, %v, want %v, %v", c.sec, got, ok, c.want, c.ok)
		}
	}
}

// TestFrames checks that frames decode to the wire types and are exactly an
// event line, a data line and an empty line, for any event.
func TestFrames(t *testing.T) {
	t.Attr("requirement", "OUT-15")
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64()
		code := rapid.Ptr(rapid.IntRange(0, 255), true)
		ev := execution.StreamEvent{
			Kind:   rapid.SampledFrom([]execution.EventKind{execution.Output, execution.Gap, execution.Exit}).Draw(t, "kind"),
			Stream: rapid.SampledFrom([]execution.Stream{execution.Stdout, execution.Stderr}).Draw(t, "stream"),
			Offset: number.Draw(t, "offset"), To: number.Draw(t, "to"),
			Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
			Result: &execution.Result{
				ExitCode: code.Draw(t, "exit"), Signal: code.Draw(t, "signal"), TimedOut: rapid.Bool().Draw(t, "timed out"),
				Truncated: rapid.Bool().Draw(t, "truncated"), WritersMayBeAlive: rapid.Bool().Draw(t, "alive"),
			},
		}
		var want any
		name := api.EventExit
		switch ev.Kind {
		case execution.Output:
			name = api.EventOutput
			stream := api.StreamStdout
			if ev.Stream == execution.Stderr {
				stream = api.StreamStderr
			}
			want = &api.OutputEvent{Offset: ev.Offset, Stream: stream, Output: ev.Data}
		case execution.Gap:
			name, want = api.EventGap, &api.GapEvent{From: ev.Offset, To: ev.To}
		default:
			want = &api.ExitEvent{ExitCode: narrow(ev.Result.ExitCode), Signal: narrow(ev.Result.Signal), TimedOut: ev.Result.TimedOut,
				Truncated: ev.Result.Truncated, WritersMayBeAlive: ev.Result.WritersMayBeAlive, Offset: ev.Offset}
		}
		data, err := strictjson.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("event: "+name+"\ndata: "+string(data)+"\n\n", string(appendFrame(nil, &ev))); diff != "" {
			t.Fatalf("frame (-want +got):\n%s", diff)
		}
	})
}

func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32(*n))
}

// TestOutcomeEncoding checks that the poll body that is written in pieces is
// the encoding of its wire type, for any output.
func TestOutcomeEncoding(t *testing.T) {
	t.Attr("requirement", "EXEC-22")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.IntRange(0, 300000), func(n int) []byte { return bytes.Repeat([]byte("é\"\xff"), n/4) }))
		result := &execution.Result{ExitCode: rapid.Ptr(rapid.IntRange(0, 255), true).Draw(t, "exit"), Stdout: text.Draw(t, "stdout"), Stderr: text.Draw(t, "stderr")}
		var out bytes.Buffer
		if err := writeOutcome(&out, "id\"\n", api.PhaseExited, result); err != nil {
			t.Fatal(err)
		}
		var got api.PollResponse
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		want, err := strictjson.Marshal(&got)
		if err != nil || string(want) != out.String() {
			t.Fatalf("written %q, its own decoding encodes to %q (%v)", out.String(), want, err)
		}
		if got.ExecID != "id\"\n" || got.Phase != api.PhaseExited || (got.ExitCode == nil) != (result.ExitCode == nil) {
			t.Fatalf("written %q", out.String())
		}
	})
}
