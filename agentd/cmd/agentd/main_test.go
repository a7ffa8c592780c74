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
	"slices"
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
	t.Attr("requirement", "SETTING-1")
	t.Attr("requirement", "SETTING-11")
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
	names = append(names, `"AGENTD_STREAM_CHANNEL_CAPACITY"`)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		// Once: a second entry would say that what has an effect has none.
		if n := len(regexp.MustCompile(`(?m)^  `+strings.Trim(name, `"`)+`(\s|$)`).FindAllString(usage, -1)); n != 1 {
			t.Errorf("the help lists %s %d times, want once", name, n)
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
