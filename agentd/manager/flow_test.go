package manager_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager"
	"microvms/agentd/trace"
)

// encoded is the bare body of a run request, as the deprecated flow takes it.
func encoded(t *testing.T, r *msp.RunRequest) []byte {
	t.Helper()
	b, err := calldata.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fifo returns a command that runs until release is called, and release.
func fifo(t *testing.T) (shell string, release func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return "read line < " + path, func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // opens when the command does
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		f.WriteString("go\n")
	}
}

// TestFlow runs a program through the deprecated routes: started, unfinished,
// finished with its output, and then gone.
func TestFlow(t *testing.T) {
	for _, id := range []string{"ADMIN-25", "ADMIN-27", "ADMIN-28", "ADMIN-29", "ADMIN-31", "ADMIN-5"} {
		t.Attr("requirement", id)
	}
	s := start(t, nil)
	shell, release := fifo(t)
	r := command(shell + "; printf 'a\\377b'; echo err >&2; echo '{\"level\":\"info\",\"message\":\"m\"}' >&3")
	token := "flow"
	r.Token = &token
	if status, body := s.call("POST", "/genvm/run", encoded(t, r)); status != 200 || body != `{"result":"started","id":1}` {
		t.Fatalf("run: %d %s", status, body)
	}
	// The socket knows the run: one table for both.
	p := s.dial()
	if id := p.run(r); id != 1 {
		t.Errorf("the token names run %d on the socket", id)
	}
	if ev := p.event(); ev.Started == nil {
		t.Errorf("the latest event is %+v", ev)
	}
	for _, wait := range []string{"", "?wait=0s", "?wait=1ms"} {
		if status, body := s.call("GET", "/genvm/1"+wait, nil); status != 200 || body != `{"genvm_id":1,"status":null}` {
			t.Errorf("unfinished, %q: %d %s", wait, status, body)
		}
	}
	if status, body := s.call("GET", "/genvm/1/artifact?field=stdout&max_len=10", nil); status != 500 {
		t.Errorf("artifact of an unfinished run: %d %s", status, body)
	}
	release()
	p.finish()
	for query, want := range map[string]string{
		"field=stdout&max_len=10":                 `{"genvm_id":1,"field":"stdout","total_len":3,"data_base64":"` + base64.StdEncoding.EncodeToString([]byte("a\xffb")) + `"}`,
		"field=stdout&max_len=1&offset=2":         `{"genvm_id":1,"field":"stdout","total_len":3,"data_base64":"Yg=="}`,
		"field=stdout&max_len=10&offset=9":        `{"genvm_id":1,"field":"stdout","total_len":3,"data_base64":""}`,
		"field=stderr&max_len=0":                  `{"genvm_id":1,"field":"stderr","total_len":4,"data_base64":""}`,
		"field=stderr&max_len=4294967295&offset=": "400",
		"field=stderr&max_len=4294967296":         "400",
		"field=stderr&max_len=-1":                 "400",
		"field=stderr&max_len=1&max_len=2":        "400",
		"field=stderr":                            "400",
		"max_len=1":                               "400",
		"field=stdin&max_len=1":                   "500",
		"field=%zz&max_len=1":                     "400",
	} {
		status, body := s.call("GET", "/genvm/1/artifact?"+query, nil)
		if got := fmt.Sprint(status); body != want && got != want {
			t.Errorf("artifact %q: %d %s", query, status, body)
		}
	}
	status, body := s.call("GET", "/genvm/1?wait=10m", nil)
	var got struct {
		ID     uint64 `json:"genvm_id"`
		Status *struct {
			FinishedAt *int64            `json:"finished_at"`
			Stdout     string            `json:"stdout"`
			Stderr     string            `json:"stderr"`
			Log        []json.RawMessage `json:"genvm_log"`
			Metrics    any               `json:"metrics"`
			Consumed   *string           `json:"consumed_result"`
			Major      *int              `json:"version_major"`
			Minor      *int              `json:"version_minor"`
		} `json:"status"`
	}
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil || status != 200 || got.Status == nil {
		t.Fatalf("finished: %d %s, %v", status, body, err)
	}
	st := got.Status
	if st.FinishedAt == nil || st.Stdout != "a\ufffdb" || st.Stderr != "err\n" || len(st.Log) != 1 || st.Metrics != nil ||
		st.Consumed != nil || st.Major == nil || *st.Major != 0 || st.Minor == nil || *st.Minor != 1 {
		t.Errorf("finished: %s", body)
	}
	if status, body := s.call("GET", "/genvm/1", nil); status != 200 || body != `{"genvm_id":1,"status":null}` {
		t.Errorf("after the answer: %d %s", status, body)
	}
	if code := p.refused(&msp.Request{Ack: &msp.Target{GenvmID: 1}}); code != msp.CodeUnknownID {
		t.Errorf("ack of a run that was fetched: %v", code)
	}
}

// TestFlowRefusals sends what the deprecated routes cannot serve.
func TestFlowRefusals(t *testing.T) {
	for _, id := range []string{"ADMIN-4", "ADMIN-6", "ADMIN-25", "ADMIN-26", "ADMIN-27", "ADMIN-28", "ADMIN-30", "ADMIN-32"} {
		t.Attr("requirement", id)
	}
	s := start(t, nil)
	missing := command("true")
	missing.Selector.Version = "v9.9.9"
	needy := command("true")
	needy.IsSync = false
	for _, c := range []struct {
		name   string
		body   []byte
		status int
		text   string
	}{
		{"nothing", nil, 500, ""},
		{"no calldata", []byte{0xff}, 500, ""},
		{"wrapped as on the socket", append([]byte{0x0e, 3}, append([]byte("run"), encoded(t, command("true"))...)...), 500, ""},
		{"an unknown executor", encoded(t, missing), 500, ""},
		{"modules that do not run", encoded(t, needy), 500, "modules are required but not running"},
	} {
		status, body := s.call("POST", "/genvm/run", c.body)
		if status != c.status || !strings.HasPrefix(body, `{"error":"`) || !strings.Contains(body, c.text) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	// The unknown executor's run failed to start: it is known, and nothing to fetch.
	if status, body := s.call("GET", "/genvm/1", nil); status != 200 || body != `{"genvm_id":1,"status":null}` {
		t.Errorf("a run that failed to start: %d %s", status, body)
	}
	s.dial().ask(&msp.Request{Ack: &msp.Target{GenvmID: 1}}, &msp.Empty{}) // it was not released
	for path, want := range map[string]string{
		"/genvm/77":                   `{"genvm_id":77,"status":null}`,
		"/genvm/18446744073709551615": `{"genvm_id":18446744073709551615,"status":null}`,
		"/genvm/18446744073709551616": "404",
		"/genvm/+1":                   "404",
		"/genvm/0x1":                  "404",
		"/genvm/1e3":                  "404",
		"/genvm/%31":                  "404",
		"/genvm/":                     "404",
		"/genvm/1/2":                  "404",
		"/genvm/1?wait=5":             "500",
		"/genvm/1?wait=":              "500",
		"/genvm/1?wait=1s&wait=2s":    "400",
		"/genvm/x/artifact?field=stdout&max_len=1": "404",
	} {
		status, body := s.call("GET", path, nil)
		if got := fmt.Sprint(status); body != want && got != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := s.call("DELETE", "/genvm/77", nil); status != 200 || !strings.HasSuffix(body, `,"genvm_id":77}`) || !strings.HasPrefix(body, `{"error":"`) {
		t.Errorf("delete of an unknown run: %d %s", status, body)
	}
}

// TestFlowCancels deletes a running run: the answer comes after its end, and the
// ending stays to be fetched.
func TestFlowCancels(t *testing.T) {
	t.Attr("requirement", "ADMIN-30")
	s := start(t, nil)
	if status, body := s.call("POST", "/genvm/run", encoded(t, command("sleep 1000"))); status != 200 {
		t.Fatalf("run: %d %s", status, body)
	}
	for range 2 {
		if status, body := s.call("DELETE", "/genvm/1", nil); status != 200 || body != `{"result":"shutdown_completed","genvm_id":1}` {
			t.Fatalf("delete: %d %s", status, body)
		}
	}
	p := s.dial()
	var reply msp.AttachReply
	p.ask(&msp.Request{Attach: &msp.Attach{BootID: bootID, GenvmID: 1}}, &reply)
	if f := reply.Snapshot.Finished; f == nil || f.Cause != msp.Cancelled || f.ExitCode != nil {
		t.Errorf("the ending is %+v", reply.Snapshot)
	}
	if status, body := s.call("GET", "/genvm/1", nil); status != 200 || !strings.Contains(body, `"status":{"finished_at":`) {
		t.Errorf("the status: %d %s", status, body)
	}
}

// held is a gate that lets no process's ending through until it is opened.
type held struct{ parked, open chan struct{} }

// Pass parks the terminal event of a run that had a process.
func (h held) Pass(ctx context.Context, p trace.Point) error {
	if p.Action != trace.RunFinish {
		return nil
	}
	close(h.parked)
	select {
	case <-h.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestFlowCancelWaits holds the ending of a cancelled run: the answer to DELETE
// may not come before.
func TestFlowCancelWaits(t *testing.T) {
	t.Attr("requirement", "ADMIN-30")
	gate := held{make(chan struct{}), make(chan struct{})}
	s := start(t, func(c *manager.Config) { c.Gate = gate })
	if status, body := s.call("POST", "/genvm/run", encoded(t, command("sleep 1000"))); status != 200 {
		t.Fatalf("run: %d %s", status, body)
	}
	var opened atomic.Bool
	answered := make(chan bool, 1)
	go func() {
		s.call("DELETE", "/genvm/1", nil)
		answered <- opened.Load()
	}()
	<-gate.parked
	for range 50 {
		s.call("GET", "/permits", nil) // an answer that does not wait has time to come
	}
	opened.Store(true)
	close(gate.open)
	if !<-answered {
		t.Error("the answer came before the ending")
	}
}

// TestModulesAreAskedForAfterTheToken repeats a token of a run that needs no
// modules with a body that does: the run is known, so nothing is refused.
func TestModulesAreAskedForAfterTheToken(t *testing.T) {
	t.Attr("requirement", "ADMIN-32")
	s := start(t, func(c *manager.Config) { c.Permits = 8 })
	p := s.dial()
	token := "t"
	r := command("true")
	r.Token = &token
	id := p.run(r)
	p.finish()
	needy := command("true")
	needy.IsSync, needy.Token = false, &token
	if again := p.run(needy); again != id {
		t.Errorf("the repeat is run %d", again)
	}
	other := "other"
	needy.Token = &other
	p.send(&msp.Request{Run: needy})
	var e msp.Error
	if p.expect(msp.Header{Request: p.id}, &e); e.Code != msp.CodeInternal || !strings.Contains(e.Message, "modules are required but not running") {
		t.Errorf("a fresh token: %v", &e)
	}
}
