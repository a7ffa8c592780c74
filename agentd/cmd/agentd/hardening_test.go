package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestProcessIsHardened checks that the process is not dumpable, and which
// out-of-memory scores daemon and child have where lowering is allowed and
// where it is not.
func TestProcessIsHardened(t *testing.T) {
	t.Attr("requirement", "WAIT-5")
	t.Attr("requirement", "WAIT-6")
	t.Attr("requirement", "WAIT-7")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{"TEST_AGENTD_AS=prepared"}
	if out, err := cmd.Output(); err != nil || string(out) != "dumpable 1 then 0\n" {
		t.Errorf("the prepared process says %q (%v)", out, err)
	}
	inherited, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, "command", nil)
	d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"t"}`))
	d.want(200, "POST", "/v1/exec/start", "t", `{"exec_id":"e","command":["cat","/proc/self/oom_score_adj"]}`)
	d.want(200, "GET", "/v1/exec/e/stream", "t", "")
	if answer := d.want(200, "GET", "/v1/exec/e", "t", ""); !strings.Contains(answer, `"stdout":"`+strings.TrimSpace(string(inherited))+`\n"`) {
		t.Errorf("the child's score: %s, want %s", answer, inherited)
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	log := d.end(syscall.SIGTERM)
	lowered := strings.TrimSpace(string(own)) == fmt.Sprint(ownScore)
	if logged := strings.Contains(log, "oom score"); lowered == logged {
		t.Errorf("the daemon's score is %s, and a refusal is logged: %v", own, logged)
	}
}

// TestReapsOrphansOnlyWhereTheyComeToIt checks what switches orphan reaping on.
func TestReapsOrphansOnlyWhereTheyComeToIt(t *testing.T) {
	t.Attr("requirement", "WAIT-3")
	for as, want := range map[string]bool{"command": false, "subreaper": true} {
		d := startDaemon(t, as, nil)
		d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"t"}`))
		d.want(200, "POST", "/v1/exec/start", "t", `{"exec_id":"e","command":["(exit 3) & exit 7"],"shell":true}`)
		d.want(200, "GET", "/v1/exec/e/stream", "t", "")
		if answer := d.want(200, "GET", "/v1/exec/e", "t", ""); !strings.Contains(answer, `"exit_code":7`) {
			t.Errorf("as %s: %s, want exit code 7", as, answer)
		}
		if got := strings.Contains(d.end(syscall.SIGTERM), "reaping orphans"); got != want {
			t.Errorf("as %s: orphans are reaped: %v", as, got)
		}
	}
}

// TestLogReaderThatLeft closes the daemon's stdout: it serves on.
func TestLogReaderThatLeft(t *testing.T) {
	t.Attr("requirement", "HEALTH-1")
	t.Attr("requirement", "PROG-8")
	d := startDaemon(t, "command", []string{"AGENTD_LOG=debug"})
	d.stdout.Close()
	for range 3 {
		d.want(200, "POST", hooks+"ready", "", "")
	}
	d.want(200, "GET", "/v1/health", "", "")
}

// TestSecretsStayIn plants secrets wherever the daemon meets them and looks
// for them in its log at the lowest level, its trace, its answers and a
// child's environment.
func TestSecretsStayIn(t *testing.T) {
	t.Attr("requirement", "PROG-7")
	for _, id := range []string{"SECRET-1", "SECRET-2", "SECRET-3", "SECRET-4"} {
		t.Attr("requirement", id)
	}
	tracePath := filepath.Join(t.TempDir(), "trace")
	d := startDaemon(t, "command", []string{"AGENTD_LOG=trace", "AGENTD_MAX_BODY_BYTES=sEcReTset", "IMAGE_SECRET=sEcReTimage"}, "--trace", tracePath)
	const token = "sEcReTtoken"
	var answers []string
	ask := func(status int, method, path, bearer, body string) string {
		t.Helper()
		answer := d.want(status, method, path, bearer, body)
		answers = append(answers, answer)
		return answer
	}
	ask(503, "GET", "/v1/procs", "sEcReTbefore", "")
	ask(400, "POST", hooks+"run", "", payload(`{"agent_token":"sEcReTbad","env":{"A":["sEcReTbad"]}}`))
	ask(400, "POST", hooks+"run", "", payload(`{"agent_token":"sEcReTbad","identity_seed":"sEcReTbad","identity_host_public_key":"sEcReTbad"}`))
	ask(400, "POST", hooks+"run", "", payload(`sEcReTbad`))
	ask(200, "POST", hooks+"run", "", payload(`{"agent_token":"`+token+`","env":{"LAUNCH":"sEcReTlaunch"},"unknown":"sEcReTunknown"}`))
	ask(409, "POST", hooks+"run", "", payload(`{"agent_token":"sEcReTother"}`))
	ask(401, "GET", "/v1/procs", "sEcReTwrong", "")
	ask(400, "POST", "/v1/exec/start", token, `{"exec_id":"e","command":["x"],"env":{"A":["sEcReTshape"]}}`)
	ask(400, "POST", "/v1/exec/start", token, `{"exec_id":"e","command":["x"],"env":{"A":"sEcReT\u0000"}}`)
	ask(500, "POST", "/v1/exec/start", token, `{"exec_id":"e","command":["/none","sEcReTargument"],"env":{"A":"sEcReTrequest"}}`)
	ask(200, "POST", "/v1/exec/start", token, `{"exec_id":"e","command":["cat; /usr/bin/env >&2"],"shell":true,"stdin":true,"env":{"R":"sEcReTrequest"}}`)
	ask(400, "POST", "/v1/exec/e/stdin", token, `{"data_b64":"sEcReTstdin!"}`)
	ask(200, "POST", "/v1/exec/e/stdin", token, `{"data_b64":"c0VjUmVUb3V0cHV0","signal":"eof"}`)
	d.want(200, "GET", "/v1/exec/e/stream", token, "")
	ask(200, "GET", "/v1/health", "", "")
	ask(200, "GET", "/v1/schema", "", "")
	var child struct{ Stdout, Stderr string }
	if err := json.Unmarshal([]byte(d.want(200, "POST", "/v1/exec/e/ack", token, "")), &child); err != nil {
		t.Fatal(err)
	}
	if child.Stdout != "sEcReToutput" || !strings.Contains(child.Stderr, "R=sEcReTrequest\n") || !strings.Contains(child.Stderr, "LAUNCH=sEcReTlaunch\n") {
		t.Fatalf("the child saw %+v: the secrets were not planted", child)
	}
	for _, foreign := range []string{token, "sEcReTimage", "sEcReTset", "AGENTD_", "TEST_AGENTD"} {
		if strings.Contains(child.Stderr, foreign) {
			t.Errorf("the child's environment holds %q", foreign)
		}
	}
	log := d.end(syscall.SIGTERM)
	traced, err := os.ReadFile(tracePath)
	if err != nil || len(traced) == 0 {
		t.Fatalf("trace: %d bytes (%v)", len(traced), err)
	}
	for name, text := range map[string]string{"log": log, "stderr": d.stderr.String(), "trace": string(traced), "an answer": strings.Join(answers, "\n")} {
		if i := strings.Index(text, "sEcReT"); i >= 0 {
			t.Errorf("%s holds a secret: …%.60s…", name, text[max(0, i-30):])
		}
	}
	if !strings.Contains(log, "AGENTD_MAX_BODY_BYTES") || !strings.Contains(log, `"level":"DEBUG"`) && !strings.Contains(log, "bootstrapped") {
		t.Errorf("the log says too little to judge: %s", log)
	}
}
