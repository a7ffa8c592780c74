package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestMain makes this binary the command itself, for the scripts and, by an
// environment variable, for the tests that look at the process.
func TestMain(m *testing.M) {
	switch os.Getenv("TEST_AGENTD_AS") {
	case "command":
		main()
	case "subreaper":
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		main()
	case "isolated":
		isolate()
		main()
	case "prepared":
		probe()
	}
	testscript.Main(m, map[string]func(){"agentd": main})
}

// probe prints what preparing the process does to it.
func probe() {
	before, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	thisProcess{}.prepare(slog.New(slog.DiscardHandler))
	after, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Printf("dumpable %d then %d\n", before, after)
	os.Exit(0)
}

func TestScripts(t *testing.T) {
	t.Attr("requirement", "PROG-3")
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// daemon is the command, running.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	stdout io.ReadCloser

	mu     sync.Mutex
	log    strings.Builder
	copied chan struct{}
	stderr strings.Builder
}

// startDaemon runs this binary as the command and waits for the line that
// says where it listens.
func startDaemon(t *testing.T, as string, environ []string, args ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, self, as, environ, args...)
}

// startProgram is startDaemon for any build of the command.
func startProgram(t *testing.T, program, as string, environ []string, args ...string) *daemon {
	t.Helper()
	var err error
	d := &daemon{t: t, cmd: exec.Command(program, append([]string{"--listen", "127.0.0.1"}, args...)...), copied: make(chan struct{})}
	d.cmd.Env = append([]string{"TEST_AGENTD_AS=" + as, "AGENTD_PORT=0", "AGENTD_REPAIR_IDENTITY=false", "GOCOVERDIR=" + t.TempDir()}, environ...)
	d.cmd.Stderr = &d.stderr
	if as == "isolated" {
		d.cmd.SysProcAttr = namespaces()
	}
	if d.stdout, err = d.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); errors.Is(err, syscall.EPERM) && as == "isolated" {
		t.Skipf("no namespaces here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.copied
		d.cmd.Wait()
	})
	lines := bufio.NewReader(d.stdout)
	for d.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			close(d.copied)
			t.Fatalf("the daemon ended before it listened: %s%s", d.log.String(), d.stderr.String())
		}
		d.log.WriteString(line)
		var entry struct{ Msg, Addr string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("log line %q is no JSON: %v", line, err)
		}
		if entry.Msg == "listening" {
			d.url = "http://" + entry.Addr
		}
	}
	go func() {
		defer close(d.copied)
		for {
			line, err := lines.ReadString('\n')
			d.mu.Lock()
			d.log.WriteString(line)
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *daemon) call(method, path, token, body string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func (d *daemon) want(status int, method, path, token, body string) string {
	d.t.Helper()
	got, answer := d.call(method, path, token, body)
	if got != status {
		d.t.Fatalf("%s %s: %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

// end sends a signal and returns the whole log once the command has ended.
func (d *daemon) end(signal syscall.Signal) string {
	d.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	<-d.copied
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("after %v: %v", signal, err)
	}
	return d.log.String()
}

const hooks = "/aws/lambda-microvms/runtime/v1/"

func payload(inner string) string {
	text, err := json.Marshal(map[string]string{"runHookPayload": inner})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestSignalsEndItCleanly checks both signals.
func TestSignalsEndItCleanly(t *testing.T) {
	t.Attr("requirement", "XPORT-16")
	t.Attr("requirement", "PROG-9")
	t.Attr("requirement", "PROG-10")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := startDaemon(t, "command", nil)
		d.want(200, "GET", "/v1/health", "", "")
		if log := d.end(signal); !strings.Contains(log, `"msg":"stopped"`) {
			t.Errorf("after %v: log %s", signal, log)
		}
	}
}

// TestChildrenOutliveTheDaemon ends the daemon with a command that waits for a
// word: the command takes it afterwards and answers.
func TestChildrenOutliveTheDaemon(t *testing.T) {
	t.Attr("requirement", "PROG-13")
	dir := t.TempDir()
	var ends [2]*os.File
	for i, name := range []string{"ask", "answer"} {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // both directions: neither side waits for the other
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		ends[i] = f
	}
	d := startDaemon(t, "command", nil)
	d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"t"}`))
	d.want(200, "POST", "/v1/exec/start", "t", `{"exec_id":"e","command":["read word < `+dir+`/ask; echo alive $word > `+dir+`/answer"],"shell":true}`)
	d.end(syscall.SIGTERM)
	if _, err := ends[0].WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("alive after\n"))
	if _, err := io.ReadFull(ends[1], got); err != nil || string(got) != "alive after\n" {
		t.Errorf("the child says %q (%v): it did not outlive the daemon", got, err)
	}
}

// TestUsageNamesEverySetting looks for every variable that the command reads in
// its help.
func TestUsageNamesEverySetting(t *testing.T) {
	t.Attr("requirement", "PROG-15")
	source, err := os.ReadFile("settings.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`"AGENTD_[A-Z_]+"`).FindAllString(string(source), -1)
	if len(names) < 12 {
		t.Fatalf("only %d settings are found: %v", len(names), names)
	}
	// Read by the reference, and without a meaning here.
	names = append(names, `"AGENTD_HOOK_HANDLER_TIMEOUT_SECS"`, `"AGENTD_STREAM_CHANNEL_CAPACITY"`)
	for _, name := range names {
		if !strings.Contains(usage, "  "+strings.Trim(name, `"`)+" ") {
			t.Errorf("the help does not list %s", name)
		}
	}
}

// TestListenHint checks that a failure to listen is told by its cause.
func TestListenHint(t *testing.T) {
	t.Attr("requirement", "PROG-12")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, word := range map[string]string{
		l.Addr().String(): "not in use",
		"a..b:0":          "IPv4 address",
		"[::1]:0":         "IPv4 address",
		"203.0.113.1:0":   "no interface",
	} {
		_, err := net.Listen("tcp4", address)
		if err == nil {
			t.Fatalf("%s can be listened on", address)
		}
		if got := listenHint(err); !strings.Contains(got, word) {
			t.Errorf("%v: %q, want %q in it", err, got, word)
		}
	}
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

// TestTraceFile checks that the trace is numbered without holes and tells the
// transitions of a bootstrap and an exec.
func TestTraceFile(t *testing.T) {
	t.Attr("requirement", "HOOK-1")
	t.Attr("requirement", "PROG-6")
	path := filepath.Join(t.TempDir(), "trace")
	d := startDaemon(t, "command", nil, "--trace", path)
	d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"t"}`))
	d.want(200, "POST", "/v1/exec/start", "t", `{"exec_id":"e\n<\u0001","command":["true"]}`)
	d.want(200, "GET", "/v1/exec/e%0A%3C%01/stream", "t", "")
	d.end(syscall.SIGTERM)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		var e struct {
			Seq, Request, Reader uint64
			Action, Exec         string
			Attrs                map[string]any
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != uint64(i)+1 || e.Action == "" {
			t.Fatalf("line %d: %s (%v)", i+1, line, err)
		}
		if strings.HasPrefix(e.Action, "Exec") && e.Exec != "e\n<\x01" {
			t.Errorf("line %d: exec %q", i+1, e.Exec)
		}
		seen[e.Action] = true
	}
	for _, action := range []string{"HookReceive", "HookDecide", "HookAnswer", "ControlAuthorize", "ControlServe", "ControlAnswer", "ExecStart", "ExecSpawn", "ExecExit", "StreamAttach", "StreamExit"} {
		if !seen[action] {
			t.Errorf("no %s in %s", action, data)
		}
	}
}

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
