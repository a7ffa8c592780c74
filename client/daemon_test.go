package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/daemontest"
	"microvms/client/microvmtest"
)

// TestMain fails the package if a goroutine outlives its tests: every session
// that the tests open must leave nothing behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		daemontest.Remove()
		os.Exit(code)
	}))
}

// daemon starts a bootstrapped daemon that ends with the test.
func daemon(t *testing.T, settings ...string) *daemontest.Daemon {
	t.Helper()
	d, err := daemontest.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	if err := d.Bootstrap(map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}); err != nil {
		t.Fatal(err)
	}
	return d
}

// realSession opens a session with a fresh daemon.
func realSession(t *testing.T, settings ...string) *client.Session {
	t.Helper()
	d := daemon(t, settings...)
	s, err := client.New(d.Endpoint, daemontest.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// exchange is one request of the agreement's script.
type exchange struct {
	method, path, body string
	token              string // "" the right one, "none", or a wrong one
}

// agreement covers the exec routes: every status and code that needs no time,
// in an order in which each state of an exec is met.
var agreement = []exchange{
	{"GET", "/v1/exec/x", "", "none"},
	{"GET", "/v1/exec/x", "", "wrong"},
	{"GET", "/v1/exec/x", "", ""},
	{"GET", "/v1/exec/x/", "", ""},
	{"GET", "/v1/exec/start", "", ""},
	{"GET", "/v1/nowhere", "", ""},
	{"GET", "/v1/procs", "", ""},
	{"POST", "/v1/exec/start", `{`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"","command":["true"]}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b"}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":[]}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"timeout_sec":0}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"shell":""}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"user":-1}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"user":"nobody-of-this-name"}`, ""},
	{"GET", "/v1/discovery", "", ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"group":"nobody-of-this-name"}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["true"],"shell":"no-such-shell"}`, ""},
	{"POST", "/v1/exec/start", `{"exec_id":"b","command":["no-such-program"]}`, ""},
	{"GET", "/v1/exec/b", "", ""}, // a refused start registers nothing
	{"POST", "/v1/exec/start", `{"exec_id":"e","command":["echo","a<b>&","é"],"unknown":1}`, ""},
	{"GET", "/v1/exec/e/stream", "", ""}, // waits for the end
	{"GET", "/v1/exec/e/stream?offset=3", "", ""},
	{"GET", "/v1/exec/e/stream?offset=99", "", ""},
	{"GET", "/v1/exec/e/stream?offset=-1", "", ""},
	{"GET", "/v1/exec/no/stream?offset=x", "", ""},
	{"GET", "/v1/exec/no/stream", "", ""},
	{"GET", "/v1/exec/e", "", ""},
	{"POST", "/v1/exec/start", `{"exec_id":"e","command":["false"]}`, ""}, // known: starts nothing
	{"POST", "/v1/exec/e/stdin", `{}`, ""},
	{"POST", "/v1/exec/e/kill", "", ""},
	{"POST", "/v1/exec/e/ack", "", ""},
	{"POST", "/v1/exec/e/ack", "", ""},
	{"GET", "/v1/exec/e", "", ""},
	{"GET", "/v1/exec/e/stream", "", ""},
	{"POST", "/v1/exec/start", `{"exec_id":"f","command":["exit 3"],"shell":true}`, ""},
	{"GET", "/v1/exec/f/stream", "", ""},
	{"POST", "/v1/exec/f/ack", "", ""},
	{"POST", "/v1/exec/start", `{"exec_id":"c","command":["cat"],"stdin":true}`, ""},
	{"GET", "/v1/exec/c", "", ""},
	{"POST", "/v1/exec/c/ack", "", ""},
	{"POST", "/v1/exec/no/stdin", `{`, ""},
	{"POST", "/v1/exec/no/stdin", `{}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"signal":"hup"}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"data_b64":"?"}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"data_b64":"` + strings.Repeat("AAAA", 349526) + `"}`, ""},
	{"POST", "/v1/exec/c/stdin", `{}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"data_b64":"aGk="}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"data_b64":null,"signal":"eof"}`, ""},
	{"POST", "/v1/exec/c/stdin", `{"signal":"eof"}`, ""},
	{"GET", "/v1/exec/c/stream", "", ""},
	{"GET", "/v1/exec/c", "", ""},
	{"POST", "/v1/exec/no/ack", "", ""},
	{"POST", "/v1/exec/no/kill", "", ""},
	{"POST", "/v1/exec/start", `{"exec_id":"k","command":["cat"],"stdin":true}`, ""},
	{"POST", "/v1/exec/k/kill", "", ""},
	{"GET", "/v1/exec/k/stream", "", ""},
	{"GET", "/v1/exec/k", "", ""},
	{"POST", "/v1/exec/k/kill", "", ""},
	{"GET", "/v1/procs", "", ""},
}

// Masks take out what differs from run to run: free text, pids and times.
var masks = []*regexp.Regexp{
	regexp.MustCompile(`("detail":)"(?:[^"\\]|\\.)*"`),
	regexp.MustCompile(`("(?:pgid|started_at)":)\d+`),
}

// do sends e and gives the answer in comparable words.
func (e exchange) do(t *testing.T, endpoint, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), e.method, endpoint+e.path, strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	if e.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.token != "" {
		token = e.token
	}
	if e.token != "none" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get(api.HeaderVersion) == "" {
		t.Errorf("%s %s: no version header", e.method, e.path)
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	text := strings.TrimSpace(string(body))
	switch media {
	case "text/plain":
		text = "*" // the file routes' free text
	case api.MediaTar:
		text = members(t, body)
	}
	for _, mask := range masks {
		text = mask.ReplaceAllString(text, "${1}*")
	}
	return fmt.Sprintf("%d %s %s", resp.StatusCode, media, text)
}

// The fake and the real daemon give the same answers to the same requests:
// statuses, media types, codes and bodies. So what passes against the fake is
// no invention of the fake.
func TestFakeAgreesWithDaemon(t *testing.T) {
	realDaemon := daemon(t)
	fake := microvmtest.New()
	defer fake.Close()
	server := httptest.NewServer(fake)
	defer server.Close()
	for _, e := range agreement {
		want := e.do(t, realDaemon.Endpoint, daemontest.Token)
		got := e.do(t, server.URL, microvmtest.Token)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %.80s: daemon (-), fake (+)\n%s", e.method, e.path, e.body, diff)
		}
	}
}

// The session does against the daemon what it does against the fake.
func TestSessionAgainstDaemon(t *testing.T) {
	s := realSession(t)
	h, err := s.Health(t.Context())
	if err != nil || !h.Bootstrapped {
		t.Fatalf("health %+v, %v", h, err)
	}
	cmd := s.Command(t.Context(), "sh", "-c", "cat; echo err >&2; exit 3")
	cmd.Stdin = strings.NewReader("input")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *client.ExitError
	if !asExit(err, &exit) || exit.ExitCode() != 3 || stdout.String() != "input" || stderr.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q, error %v", stdout.String(), stderr.String(), err)
	}
	groups, err := s.Procs(t.Context())
	if err != nil || len(groups) != 1 || groups[0].ExecID != cmd.ID || !groups[0].ChildExited {
		t.Errorf("groups %+v, %v", groups, err)
	}
	// As much output as the daemon can replay comes through a stream, whole.
	const size = 900 << 10
	out, err := s.Command(t.Context(), "sh", "-c", fmt.Sprintf("head -c %d /dev/zero", size)).Output()
	if err != nil || len(out) != size {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	res, err := s.RunToCompletion(t.Context(), api.StartRequest{Command: []string{"kill -SEGV $$"}, Shell: api.Shell{On: true}}, client.RunOptions{})
	if err != nil || res.POSIXCode() != 139 {
		t.Errorf("run: %+v, %v", res, err)
	}
	text, err := json.Marshal(res.Outcome)
	if err != nil || !strings.Contains(string(text), `"signal":11`) {
		t.Errorf("outcome %s, %v", text, err)
	}
}
