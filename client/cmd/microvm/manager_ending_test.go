package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"microvms/client/daemontest"
	"microvms/client/manager"
)

// startManager starts a manager that ends with the test, and a session with it.
func startManager(t *testing.T) (*daemontest.Manager, *manager.Session) {
	t.Helper()
	m, err := daemontest.StartManager()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	session, err := manager.NewSession(m.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return m, session
}

// runID is the run that the first line of stderr names.
func runID(t *testing.T, stderr string) manager.RunID {
	t.Helper()
	word, _, _ := strings.Cut(stderr, ": ")
	id, err := manager.ParseRunID(word)
	if err != nil {
		t.Fatalf("no run in %q: %v", stderr, err)
	}
	return id
}

// written waits until an executor with the step `control=SOCKET,NAME` has come
// to that step.
func written(t *testing.T, at net.Listener) net.Conn {
	conn, err := at.Accept()
	if err != nil {
		t.Error(err)
		return nil
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Error(err)
	}
	return conn
}

// TestManagerShutdown ends the manager under a followed run, which takes the
// output along: the ending is told, and it is the exit code.
func TestManagerShutdown(t *testing.T) {
	t.Attr("requirement", "MCLIENT-33")
	t.Attr("requirement", "MCLIENT-40")
	t.Attr("requirement", "MCLIENT-46")
	for _, format := range []string{"", "--json"} {
		m, _ := startManager(t)
		socket := filepath.Join(t.TempDir(), "c")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			if conn := written(t, listener); conn != nil {
				defer conn.Close()
			}
			m.Stop()
		}()
		var stdout, stderr bytes.Buffer
		a := managerApp(m, &stdout, &stderr)
		a.stderr.w = writerFunc(func(p []byte) (int, error) {
			if strings.Contains(string(p), ": finished: shutdown") {
				<-stopped
			}
			return stderr.Write(p)
		})
		line := strings.Fields("manager run " + format + " --version demo -- stdout=partial control=" + socket + ",one")
		if code := a.run(t.Context(), line); code != 13 {
			t.Errorf("%q: code %d", format, code)
		}
		if text := stderr.String(); !strings.Contains(text, "warning: the output of run ") || strings.Contains(text, "trying to reach") || strings.Contains(text, "was not released") {
			t.Errorf("%q: stderr %q", format, text)
		}
		if format == "" {
			continue
		}
		var env struct{ Data runData }
		if err := json.Unmarshal(stdout.Bytes(), &env); err != nil || env.Data.Cause == nil || *env.Data.Cause != "shutdown" || !env.Data.OutputLost || env.Data.Acked {
			t.Errorf("stdout %s, %v", stdout.String(), err)
		}
	}
}

// TestManagerLost kills the manager under a followed run: that is said before
// the first try to reach it.
func TestManagerLost(t *testing.T) {
	t.Attr("requirement", "MCLIENT-41")
	m, _ := startManager(t)
	var stdout, stderr bytes.Buffer
	a := managerApp(m, &stdout, &stderr)
	interrupts := make(chan os.Signal, 1)
	a.interrupts = interrupts
	a.stderr.w = writerFunc(func(p []byte) (int, error) {
		switch text := string(p); {
		case strings.Contains(text, ": started"):
			m.Kill()
		case strings.Contains(text, "warning: connection to the manager lost"):
			interrupts <- os.Interrupt
		}
		return stderr.Write(p)
	})
	code := a.run(t.Context(), strings.Fields("manager run --version demo -- hang"))
	if code != 11 || strings.Count(stderr.String(), "; trying to reach the manager again\n") != 1 {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
}

// TestManagerUnwritten has nobody take the result: the run is kept, and named.
func TestManagerUnwritten(t *testing.T) {
	t.Attr("requirement", "MCLIENT-42")
	m, session := startManager(t)
	for _, tc := range []struct {
		line    string
		failure error
		stderr  bool // fails in place of stdout
		code    int
	}{
		{"run --token T -- stdout=precious", syscall.ENOSPC, false, 12},
		{"run --token T --json -- stdout=precious", syscall.ENOSPC, false, 12},
		{"run --token T --dense -- stdout=precious", syscall.ENOSPC, false, 12},
		{"run --token T -- stdout=precious exit=3", syscall.ENOSPC, false, 13},
		{"run --token T -- stdout=precious", syscall.EPIPE, false, 0},
		{"run --token T --json -- exit=3", syscall.EPIPE, false, 13},
		{"run --token T --detach --", syscall.ENOSPC, false, 12},
		{"run --token T --detach --json --", syscall.ENOSPC, false, 12},
		{"run --token T --detach --", syscall.EPIPE, false, 0},
		{"run --token T --quiet -- stderr=precious", syscall.ENOSPC, true, 12},
	} {
		var stdout, stderr bytes.Buffer
		a := managerApp(m, &stdout, &stderr)
		fails := func([]byte) (int, error) { return 0, tc.failure }
		broken := a.stdout
		if tc.stderr {
			broken = a.stderr
		}
		broken.w = writerFunc(fails)
		code := a.run(t.Context(), strings.Fields("manager "+strings.Replace(tc.line, "--token T", "--version demo --token T", 1)))
		if code != tc.code {
			t.Errorf("%s: %v: code %d, want %d, stderr %q", tc.line, tc.failure, code, tc.code, stderr.String())
		}
		// The token joins the run, if it is there still.
		run, err := findToken(t, m)
		if err != nil {
			t.Fatal(err)
		}
		if text := stderr.String(); !tc.stderr && (!strings.Contains(text, run.String()) || !strings.Contains(text, `"T"`)) {
			t.Errorf("%s: %v: %v is not named in %q", tc.line, tc.failure, run, text)
		}
		follower, err := session.Attach(t.Context(), run)
		if err != nil {
			t.Errorf("%s: %v: %v was not kept: %v", tc.line, tc.failure, run, err)
			continue
		}
		e, err := follower.Wait(t.Context())
		if err != nil || strings.Contains(tc.line, "stdout=") && e.Finished.Sizes.Stdout == 0 || strings.Contains(tc.line, "stderr=") && e.Finished.Sizes.Stderr == 0 {
			t.Errorf("%s: %v: %v, %v", tc.line, tc.failure, e, err)
		}
		if err := follower.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// findToken finds the run with the token T, without output of its own.
func findToken(t *testing.T, m *daemontest.Manager) (manager.RunID, error) {
	var stdout, stderr bytes.Buffer
	if code := managerApp(m, &stdout, &stderr).run(t.Context(), strings.Fields("manager run --dense --detach --token T --version demo")); code != 0 {
		t.Fatalf("code %d, stderr %q", code, stderr.String())
	}
	return manager.ParseRunID(strings.TrimSpace(stdout.String()))
}

// TestManagerUnwrittenRefusal has nobody take the reason why a run did not start.
func TestManagerUnwrittenRefusal(t *testing.T) {
	t.Attr("requirement", "MCLIENT-42")
	m, session := startManager(t)
	for _, broken := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		a := managerApp(m, &stdout, &stderr)
		if broken {
			a.stdout.w = writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
			a.stderr.w = a.stdout.w
		}
		if code := a.run(t.Context(), strings.Fields("manager run --json --quiet --version none-such")); code != 12 {
			t.Errorf("broken %v: code %d", broken, code)
		}
		c, err := session.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		number := uint64(1)
		if broken {
			number = 2
		}
		if _, err := session.Attach(t.Context(), manager.RunID{Boot: c.BootID(), Number: number}); (err == nil) != broken {
			t.Errorf("broken %v: attach: %v", broken, err)
		}
	}
}

// TestManagerReleasedByAnother releases the run as soon as the command knows its
// ending.
func TestManagerReleasedByAnother(t *testing.T) {
	t.Attr("requirement", "MCLIENT-45")
	t.Attr("requirement", "MCLIENT-46")
	t.Attr("requirement", "MCLIENT-48")
	m, session := startManager(t)
	for _, tc := range []struct {
		steps, warning string
		code           int
	}{
		{"", "", 0},
		{"exit=3", "", 13},
		{"stdout=x exit=3", "warning: the output of run ", 13},
		{"stdout=x", "error ERR_PROTOCOL: run ", 5}, // 0 would say that the output is whole
	} {
		var stdout, stderr bytes.Buffer
		a := managerApp(m, &stdout, &stderr)
		a.stderr.w = writerFunc(func(p []byte) (int, error) {
			if strings.Contains(string(p), ": finished") {
				if err := session.Ack(t.Context(), runID(t, string(p))); err != nil {
					t.Error(err)
				}
			}
			return stderr.Write(p)
		})
		code := a.run(t.Context(), append(strings.Fields("manager run --version demo --"), strings.Fields(tc.steps)...))
		text := stderr.String()
		if code != tc.code || !strings.Contains(text, tc.warning) || strings.Contains(text, "was not released") || tc.warning == "" && strings.Contains(text, "warning") {
			t.Errorf("%q: code %d, stderr %q", tc.steps, code, text)
		}
	}
}

// TestManagerLossy marks an envelope that stands for other bytes.
func TestManagerLossy(t *testing.T) {
	t.Attr("requirement", "MCLIENT-47")
	m, _ := startManager(t)
	for _, tc := range []struct {
		steps, stdout, stderr string
		lossy                 bool
	}{
		{"stdout=plain", "plain", "", false},
		{"stdout-hex=00fffe0a", "\x00\uFFFD\n", "", true},
		{"stdout-hex=efbfbd", "\uFFFD", "", false},
		{"stdout-hex=ff stderr=fine", "\uFFFD", "fine", true},
	} {
		var stdout, stderr bytes.Buffer
		code := managerApp(m, &stdout, &stderr).run(t.Context(), append(strings.Fields("manager run --json --version demo --"), strings.Fields(tc.steps)...))
		var env struct{ Data runData }
		if err := json.Unmarshal(stdout.Bytes(), &env); err != nil || code != 0 || env.Data.Stdout != tc.stdout || env.Data.Stderr != tc.stderr || env.Data.Lossy != tc.lossy {
			t.Errorf("%s: code %d, %+v, %v", tc.steps, code, env.Data, err)
		}
	}
}
