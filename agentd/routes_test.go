package agentd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
)

// TestStdinOrderOfChecks sends bodies with several faults: the first in the
// contract's order is answered.
func TestStdinOrderOfChecks(t *testing.T) {
	for _, id := range []string{"STDIN-2", "STDIN-8", "STDIN-9", "STDIN-10", "XPORT-13"} {
		t.Attr("requirement", id)
	}
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxStdinWriteBytes = 10 })
	d.startExec("in", map[string]any{"stdin": true}, "cat")
	d.startExec("none", map[string]any{"stdin": false}, "sleep", "1000")
	big := base64.StdEncoding.EncodeToString([]byte("eleven byte"))
	for _, c := range []struct {
		id, body string
		status   int
		code     api.Code
	}{
		{"unknown", `[]`, 400, api.MalformedRequest},
		{"none", `{"data_b64":5}`, 400, api.MalformedRequest},
		{"in", `{"signal":5}`, 400, api.MalformedRequest},
		{"in", `{"signal":"eof","signal":"eof"}`, 400, api.MalformedRequest},
		{"unknown", `{"signal":"hup","data_b64":"!"}`, 404, api.UnknownExec},
		{"none", `{"signal":"hup","data_b64":"!"}`, 409, api.StdinNotRequested},
		{"none", `{}`, 409, api.StdinNotRequested},
		{"in", `{"signal":"hup","data_b64":"!"}`, 400, api.MalformedRequest},
		{"in", `{"signal":"EOF"}`, 400, api.MalformedRequest},
		{"in", `{"signal":""}`, 400, api.MalformedRequest},
		{"in", `{"signal":"eof","data_b64":"!"}`, 400, api.MalformedRequest},
		{"in", `{"data_b64":"YQ"}`, 400, api.MalformedRequest},
		{"in", `{"data_b64":"YR=="}`, 400, api.MalformedRequest},
		{"in", `{"data_b64":"Y\nQ=="}`, 400, api.MalformedRequest},
		{"in", `{"data_b64":"-_=="}`, 400, api.MalformedRequest},
		{"in", `{"signal":"eof","data_b64":"` + big + `"}`, 413, api.StdinWriteTooLarge},
		{"in", `{}`, 200, ""},
		{"in", `{"signal":null,"data_b64":null,"other":1}`, 200, ""},
		{"in", `{"data_b64":""}`, 200, ""},
		{"in", `{"data_b64":"` + big[:12] + `MA=="}`, 200, ""},
		{"in", `{"data_b64":"IQ==","signal":"eof"}`, 200, ""},
		{"in", `{"data_b64":"` + big + `"}`, 413, api.StdinWriteTooLarge},
		{"in", `{}`, 410, api.StdinClosed},
		{"in", `{"signal":"eof"}`, 410, api.StdinClosed},
	} {
		r := d.post("/v1/exec/"+c.id+"/stdin", c.body)
		if r.status != c.status || r.code() != c.code {
			t.Errorf("%s %s: %v, want %d %s", c.id, c.body, r, c.status, c.code)
		}
		if c.status == 200 {
			var got api.StdinResponse
			var sent struct {
				Data   []byte `json:"data_b64"`
				Signal string `json:"signal"`
			}
			if err := json.Unmarshal([]byte(c.body), &sent); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`{"exec_id":"in","written":%d,"eof":%v}`, len(sent.Data), sent.Signal == "eof")
			if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.body != want {
				t.Errorf("%s: %s, want %s", c.body, r.body, want)
			}
		}
	}
	if p := d.outcome("in"); p.Stdout != "eleven by0!" {
		t.Errorf("the child read %q", p.Stdout)
	}
	d.post("/v1/exec/none/kill", "")
}

// TestStdinStall offers more than a pipe holds to a child that does not read.
func TestStdinStall(t *testing.T) {
	t.Attr("requirement", "STDIN-7")
	d := booted(t, func(c *agentd.Config) { c.Limits.StdinWriteTimeout = 50 * time.Millisecond })
	d.startExec("s", map[string]any{"stdin": true}, "sleep", "1000")
	data := base64.StdEncoding.EncodeToString(make([]byte, 200000))
	r := d.post("/v1/exec/s/stdin", `{"data_b64":"`+data+`","signal":"eof"}`)
	if r.status != 408 || r.code() != api.StdinWriteTimeout {
		t.Errorf("%v, want 408", r)
	}
	if r := d.post("/v1/exec/s/stdin", `{}`); r.status != 200 {
		t.Errorf("the pipe after a stall: %v, want it open", r)
	}
	d.post("/v1/exec/s/kill", "")
	d.wait("s")
	if r := d.post("/v1/exec/s/stdin", `{}`); r.code() != api.StdinClosed {
		t.Errorf("after the exit: %v", r)
	}
}

// TestAckAndKillAnswers checks the answers of both routes in every phase, byte
// for byte, with bodies that nobody reads.
func TestAckAndKillAnswers(t *testing.T) {
	for _, id := range []string{"EXEC-24", "EXEC-25", "EXEC-26", "EXEC-30", "KILL-5", "KILL-13"} {
		t.Attr("requirement", id)
	}
	d := booted(t, nil)
	d.startExec("k", nil, "sleep", "1000")
	outcome := `"exit_code":null,"signal":15,"timed_out":false,"stdout":"","stderr":"","truncated":false,"writers_may_be_alive":false}`
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"POST", "/v1/exec/no/ack", 404, `{"error":"unknown_exec","detail":"no"}`},
		{"POST", "/v1/exec/no/kill", 404, `{"error":"unknown_exec","detail":"no"}`},
		{"POST", "/v1/exec/k/ack", 409, `{"error":"still_running"`},
		{"POST", "/v1/exec/k/kill", 200, `{"exec_id":"k","killed":true}`},
		{"STREAM", "k", 0, ""},
		{"GET", "/v1/exec/k", 200, `{"exec_id":"k","phase":"exited",` + outcome},
		{"POST", "/v1/exec/k/kill", 200, `{"exec_id":"k","killed":false}`},
		{"POST", "/v1/exec/k/ack", 200, `{"exec_id":"k","phase":"acked",` + outcome},
		{"POST", "/v1/exec/k/ack", 409, `{"error":"already_acked"`},
		{"POST", "/v1/exec/k/kill", 200, `{"exec_id":"k","killed":false}`},
		{"GET", "/v1/exec/k", 200, `{"exec_id":"k","phase":"acked"}`},
	} {
		if c.method == "STREAM" {
			d.wait(c.path)
			continue
		}
		if r := d.call(c.method, c.path, "ignored"); r.status != c.status || !strings.HasPrefix(r.body, c.want) {
			t.Errorf("%s %s: %v, want %d %s", c.method, c.path, r, c.status, c.want)
		}
	}
}

// TestPollOfLargeOutput polls output at and over the cap, of all byte values,
// and compares it with what the child wrote.
func TestPollOfLargeOutput(t *testing.T) {
	t.Attr("requirement", "OUT-1")
	t.Attr("requirement", "OUT-2")
	t.Attr("requirement", "OUT-3")
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxOutputBytes = 300001 })
	const every = "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %03o $i)\"; i=$((i+1)); done"
	d.startExec("bytes", map[string]any{"shell": true}, every)
	want := ""
	for b := range 128 {
		want += string(rune(b))
	}
	want += strings.Repeat("\uFFFD", 128)
	if p := d.outcome("bytes"); p.Stdout != want || p.Truncated {
		t.Errorf("all bytes: %q", p.Stdout)
	}
	for count, truncated := range map[int]bool{300001: false, 300002: true} {
		id := fmt.Sprint("n", count)
		d.startExec(id, map[string]any{"shell": true}, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' '\"'", count))
		if p := d.outcome(id); p.Stdout != strings.Repeat(`"`, 300001) || p.Truncated != truncated {
			t.Errorf("%d bytes: %d kept, truncated %v, want %v", count, len(p.Stdout), p.Truncated, truncated)
		}
	}
	// A character that the cap cuts in two is decoded after the cut.
	d.startExec("cut", map[string]any{"shell": true}, "head -c 299999 /dev/zero; printf '€'")
	if p := d.outcome("cut"); p.Stdout != strings.Repeat("\x00", 299999)+"\uFFFD" {
		t.Errorf("a cut character: ends in %q", p.Stdout[299999:])
	}
}

// TestProcs checks shape, order of pids, null and empty lists.
func TestProcs(t *testing.T) {
	t.Attr("requirement", "PROC-1")
	t.Attr("requirement", "PROC-2")
	t.Attr("requirement", "PROC-3")
	d := booted(t, func(c *agentd.Config) { c.Clock = stopped{at: 4242} })
	if r := d.get(api.PathProcs); r.body != `{"procs":[]}` {
		t.Errorf("without execs: %v", r)
	}
	d.startExec("a", map[string]any{"shell": true, "stdin": true, "reap_group_on_exit": true}, "sleep 1000 & read x")
	d.startExec("b", nil, "true")
	d.wait("b")
	var got api.ProcsResponse
	r := d.get(api.PathProcs)
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Procs) != 2 {
		t.Fatalf("%v (%v)", r, err)
	}
	a, b := got.Procs[0], got.Procs[1]
	if a.ExecID != "a" || a.ChildExited || !a.Reap || a.StartedAt != 4242 || a.Pgid == nil || len(a.Pids) == 0 || a.Pids[0] != *a.Pgid {
		t.Errorf("running: %+v", a)
	}
	want := fmt.Sprintf(`{"exec_id":"b","pgid":%d,"started_at":4242,"child_exited":true,"reap":false,"pids":[]}]}`, *b.Pgid)
	if !strings.HasSuffix(r.body, want) {
		t.Errorf("exited: %s, want …%s", r.body, want)
	}
	if h := d.health(); h.Execs != 2 || !h.Busy {
		t.Errorf("health %+v", h)
	}
	d.post("/v1/exec/a/kill", "")
}

// TestBusyAndExecs follows busy and execs through an exec's life.
func TestBusyAndExecs(t *testing.T) {
	t.Attr("requirement", "HEALTH-3")
	t.Attr("requirement", "HEALTH-4")
	d := booted(t, nil)
	want := func(when string, busy bool, execs uint) {
		t.Helper()
		if h := d.health(); h.Busy != busy || h.Execs != execs {
			t.Errorf("%s: busy %v and %d execs, want %v and %d", when, h.Busy, h.Execs, busy, execs)
		}
	}
	want("before", false, 0)
	d.startExec("a", map[string]any{"stdin": true}, "cat")
	want("running", true, 1)
	d.post("/v1/exec/a/stdin", `{"signal":"eof"}`)
	d.wait("a")
	want("exited", false, 1)
	d.post("/v1/exec/a/ack", "")
	want("acked", false, 1)
}

// TestSchemaIsTrue compares the schema with the running daemon: every route it
// lists exists, every exec error that the daemon may answer is listed, and the
// limits are those in force.
func TestSchemaIsTrue(t *testing.T) {
	t.Attr("requirement", "SCHEMA-1")
	t.Attr("requirement", "SCHEMA-2")
	d := start(t, func(c *agentd.Config) { c.Limits.MaxBodyBytes, c.Limits.SSEKeepalive = 777, 1500*time.Millisecond })
	r := d.with("GET", api.PathSchema, "", nil)
	var doc struct {
		Defs    map[string]any `json:"$defs"`
		Version string         `json:"daemon_version"`
		Proto   string         `json:"protocol_version"`
		Limits  map[string]any `json:"limits"`
		Routes  []struct {
			Method, Path, Auth string
			Statuses           []struct {
				Code  int
				Error string
			}
			Events []any `json:"sse_events"`
		}
	}
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil || r.status != 200 {
		t.Fatalf("%v (%v)", r, err)
	}
	if doc.Version != "1.2.3-test" || doc.Proto != "2" || doc.Limits["max_body_bytes"] != 777.0 || !strings.Contains(r.body, `"sse_keepalive_secs":1.5,`) {
		t.Errorf("version %q, protocol %q, limits %v", doc.Version, doc.Proto, doc.Limits)
	}
	listed := map[string]bool{}
	for _, route := range doc.Routes {
		path := strings.Replace(route.Path, "{id}", "some", 1)
		want := map[string]int{"bearer": 503, "none": 200, "none (platform hook)": 200}[route.Auth]
		if strings.HasSuffix(path, "/run") {
			want = 400
		}
		if got := d.with(route.Method, path, "", nil); got.status != want {
			t.Errorf("%s %s (%s): %v, want %d", route.Method, route.Path, route.Auth, got, want)
		}
		for _, s := range route.Statuses {
			listed[s.Error] = true
			if s.Error != "" && api.Code(s.Error).Status() != s.Code {
				t.Errorf("%s lists %s with %d", route.Path, s.Error, s.Code)
			}
		}
	}
	if len(doc.Routes) != 21 {
		t.Errorf("%d routes, want 21", len(doc.Routes))
	}
	for _, code := range api.Codes() {
		if !listed[string(code)] {
			t.Errorf("no route lists %s", code)
		}
	}
	for _, name := range []string{"DiskHealth", "ExitEvent", "GapEvent", "HandlerOutcome", "Health", "HookObservation", "IdentityStep", "KillResponse",
		"NameOrId", "OutputEvent", "Phase", "PollResponse", "ProcGroup", "ProcsResponse", "RunHookEnvelope", "Shell", "StartRequest", "StartResponse",
		"StdinRequest", "StdinResponse", "StreamKind", "StreamQuery", "TunnelQuery", "FileReadQuery", "FsQuery"} {
		if _, ok := doc.Defs[name]; !ok {
			t.Errorf("no definition %s", name)
		}
	}
	if len(doc.Defs) != 26 {
		t.Errorf("%d definitions, want 26", len(doc.Defs))
	}
	required := func(name string) string { return fmt.Sprint(doc.Defs[name].(map[string]any)["required"]) }
	if required("PollResponse") != "[exec_id phase]" || required("StartRequest") != "[exec_id command]" || required("RunHookEnvelope") != "<nil>" {
		t.Errorf("required: %s, %s, %s", required("PollResponse"), required("StartRequest"), required("RunHookEnvelope"))
	}
}
