package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// managed is the manager's command, running.
type managed struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *http.Client
	log    *bufio.Reader
	addr   string
}

// startManager runs this binary as agentd manager and waits until it listens.
func startManager(t *testing.T, args ...string) *managed {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"manager"}, args...)...)
	cmd.Stderr = os.Stderr
	return await(t, cmd)
}

// await starts a command and waits for the line that says where the manager
// listens.
func await(t *testing.T, cmd *exec.Cmd) *managed {
	t.Helper()
	cmd.Env = append(os.Environ(), "TEST_AGENTD_AS=command", "GOCOVERDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Who waits for a line that does not come must learn it.
	if err := out.(*os.File).SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	m := &managed{t: t, cmd: cmd, log: bufio.NewReader(out)}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	m.addr = m.until("listening")["addr"].(string)
	m.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			network := "tcp"
			if strings.HasPrefix(m.addr, "/") {
				network = "unix"
			}
			return new(net.Dialer).DialContext(ctx, network, m.addr)
		},
	}}
	return m
}

// until reads the log to a line with that message.
func (m *managed) until(msg string) map[string]any {
	m.t.Helper()
	for {
		line, err := m.log.ReadString('\n')
		if err != nil {
			m.t.Fatalf("the log ends before %q: %v", msg, err)
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			m.t.Fatalf("log line %q is no JSON: %v", line, err)
		}
		if entry["msg"] == msg {
			return entry
		}
	}
}

// call makes a request and decodes the answer.
func (m *managed) call(method, path string, body []byte) map[string]any {
	m.t.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(string(body)))
	if err != nil {
		m.t.Fatal(err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		m.t.Fatal(err)
	}
	return answer
}

// end waits for the end of the log and then of the command.
func (m *managed) end() {
	m.t.Helper()
	if _, err := io.Copy(io.Discard, m.log); err != nil {
		m.t.Error(err)
	}
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("the manager's end: %v", err)
	}
}

// executors builds the demonstration executor and returns its directory.
func executors(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "demo", "bin", "genvm"), "microvms/conformance/cmd/executor")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the demonstration executor: %v\n%s", err, out)
	}
	return dir
}

// runRequest is a run of the demonstration executor with these steps.
func runRequest(t *testing.T, steps ...string) []byte {
	t.Helper()
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: "demo"}
	r.IsSync, r.DebugMode, r.Host, r.HostData, r.ExtraArgs = true, msp.DebugSafe, "unix:///h", "{}", steps
	r.Timestamp = msp.At(time.Unix(0, 0))
	b, err := calldata.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestManagerRunsAnExecutor takes one run through the real program, from its
// socket in a new directory to its end and the record of both.
func TestManagerRunsAnExecutor(t *testing.T) {
	t.Attr("requirement", "SETTING-12")
	t.Attr("requirement", "SETTING-14")
	t.Attr("requirement", "SETTING-16")
	t.Attr("requirement", "SETTING-17")
	dir := t.TempDir()
	socket, trace := filepath.Join(dir, "new", "dir", "s"), filepath.Join(dir, "trace")
	m := startManager(t, "--socket", socket, "--executors", executors(t), "--trace", trace)
	if m.addr != socket {
		t.Errorf("addr %q, want %q", m.addr, socket)
	}
	for path, want := range map[string]os.FileMode{socket: 0o600 | os.ModeSocket, filepath.Dir(socket): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, error %v; want %v", path, info.Mode(), err, want)
		}
	}
	if got := m.call("POST", "/genvm/run", runRequest(t, "stdout=hello", "result=0102", "exit=3")); got["result"] != "started" || got["id"] != 1.0 {
		t.Fatalf("run: %v", got)
	}
	status, ok := m.call("GET", "/genvm/1?wait=60s", nil)["status"].(map[string]any)
	if !ok || status["stdout"] != "hello" || status["consumed_result"] != base64.StdEncoding.EncodeToString([]byte{1, 2}) {
		t.Errorf("status %v", status)
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.until("stopped")
	m.end()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for i, action := range []string{"RunAccept", "RunGrant", "RunSpawn", "RunExit", "RunFinish"} {
		if !strings.Contains(string(data), fmt.Sprintf(`{"seq":%d,"action":%q,`, i+1, action)) || !strings.Contains(string(data), `"run":1`) {
			t.Errorf("line %d is no %s in\n%s", i+1, action, data)
		}
	}
}

// TestManagerConfiguration gives the real program a configuration.
func TestManagerConfiguration(t *testing.T) {
	t.Attr("requirement", "SETTING-10")
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := "executors: /nowhere\nlog_level: warn\npermits: {total: 40, sync: 5, nondet: 7}\nexecution_retention: 0s\nmanifest_path: " + dir + "/none.yaml\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "m.yaml")
	if err := os.WriteFile(manifest, []byte("executor_versions: {v1.0.0: {available_after: 2024-01-01T00:00:00Z}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := managerSettings(managerFlags{config: path, manifest: manifest}, []string{"X=1"})
	if err != nil || set.ManifestPath != manifest || set.Executors != "/nowhere" {
		t.Errorf("settings %+v, error %v", set, err)
	}
	set, err = managerSettings(managerFlags{executors: "/flag"}, nil)
	if err != nil || set.Executors != "/flag" || set.ManifestPath != "" {
		t.Errorf("without a configuration: %+v, error %v", set, err)
	}
	// The line that says where it listens is of level info.
	text = strings.Replace(text, "warn", "info", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startManager(t, "--host", "127.0.0.1", "--port", "0", "--config", path, "--manifest-path", manifest, "--executors", executors(t))
	got := m.call("GET", "/status", nil)["permits"].(map[string]any)
	if got["max"] != 40.0 || got["per_sync_run"] != 5.0 || got["per_nondet_run"] != 7.0 {
		t.Errorf("permits %v", got)
	}
	m.call("POST", "/genvm/run", runRequest(t, "exit=0"))
	if err := m.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	m.until("stopped")
	m.end()
}

func TestManagerSocketThatIsLeftOver(t *testing.T) {
	t.Attr("requirement", "SETTING-13")
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another process does") {
		t.Errorf("a socket that somebody listens on: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	again, err := listenUnix(path)
	if err != nil {
		t.Fatalf("a socket that is left over: %v", err)
	}
	again.Close()
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a link: %v", err)
	}
}

// TestManagerDiesWithItsParent ends a shell that started the manager, while a
// run hangs: the manager ends by itself, and in order.
func TestManagerDiesWithItsParent(t *testing.T) {
	t.Attr("requirement", "SETTING-15")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socket, pidfile := filepath.Join(dir, "s"), filepath.Join(dir, "pid")
	// The shell lasts until its input ends, and is no parent of anything else.
	shell := exec.Command("/bin/sh", "-c", `pidfile=$0; "$@" </dev/null & echo $! >"$pidfile"; read x`, pidfile, self, "manager", "--socket", socket, "--executors", executors(t), "--die-with-parent")
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m := await(t, shell)
	t.Cleanup(func() {
		if _, err := os.Lstat(socket); os.IsNotExist(err) {
			return // it ended by itself
		}
		text, _ := os.ReadFile(pidfile)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	m.call("POST", "/genvm/run", runRequest(t, "hang"))
	stdin.Close()
	m.until("parent ended")
	m.until("stopped")
	if _, err := io.Copy(io.Discard, m.log); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestParentThatIsGoneIsSeen watches a parent that has ended before the watch.
func TestParentThatIsGoneIsSeen(t *testing.T) {
	t.Attr("requirement", "SETTING-15")
	ctx, stop, err := parentContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("a living parent is taken for one that ended")
	}
	stop()
	if ctx.Err() == nil {
		t.Error("a stopped watch is not over")
	}
	gone := exec.Command("/bin/true")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(gone.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if !ended(f) {
		t.Error("the end of a process was not seen")
	}
	gone.Wait()
}

// TestManagerKilledTakesItsExecutors ends the manager by SIGKILL while an
// executor and a nested one of it wait.
func TestManagerKilledTakesItsExecutors(t *testing.T) {
	t.Attr("requirement", "MGR-26")
	dir := executors(t)
	control, err := net.Listen("unix", filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	step := "gate=" + control.Addr().String() + ","
	// An executor that waits, whatever it is told.
	script := fmt.Sprintf("#!/bin/sh\nlog=$1; run=$2; shift 2\nexec %q \"$log\" \"$run\" %q \"$@\"\n", filepath.Join(dir, "demo", "bin", "genvm"), step+"nested")
	if err := os.MkdirAll(filepath.Join(dir, "waiting", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "waiting", "bin", "genvm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	encode := func(v any) []byte {
		b, err := calldata.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	envelope := encode(&msp.NestedRequest{
		Routing: encode(msp.Selector{IsVersion: true, Version: "waiting"}), StateMode: "Default", RemainingRecursion: 1,
		Message: msp.Call{Datetime: msp.DefaultDatetime()},
	})
	m := startManager(t, "--socket", filepath.Join(t.TempDir(), "s"), "--executors", dir)
	m.call("POST", "/genvm/run", runRequest(t, step+"other"))
	m.call("POST", "/genvm/run", runRequest(t, "nested="+hex.EncodeToString(envelope)))
	var ends []*bufio.Reader
	for range 2 {
		conn, err := control.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(conn)
		if line, err := said.ReadString('\n'); err != nil || !strings.HasPrefix(line, "hello ") {
			t.Fatalf("greeting %q, error %v", line, err)
		}
		ends = append(ends, said)
	}
	if err := m.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, said := range ends {
		if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 { // to the end of the process
			t.Errorf("%q, error %v: it outlived the manager", rest, err)
		}
	}
}
