package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/microvmtest"
)

// fakeApp is an app whose sessions reach srv over memory.
func fakeApp(srv *microvmtest.Server, stdout, stderr io.Writer) *app {
	env := map[string]string{"MICROVM_ENDPOINT": "http://microvmtest", "MICROVM_AGENT_TOKEN": srv.Token}
	a := newApp(strings.NewReader(""), stdout, stderr, func(name string) string { return env[name] })
	a.clientOptions = []client.Option{client.WithHTTPClient(srv.Client())}
	return a
}

// TestExitTableIsPinned holds the table: rows are only ever appended. Numbers,
// codes and findings are those of client facts, section 8.2.
func TestExitTableIsPinned(t *testing.T) {
	t.Attr("requirement", "CLI-3")
	var got []string
	for _, row := range exitTable {
		got = append(got, fmt.Sprintf("%d %s|%s", row.Exit, row.Code, row.Finding))
	}
	want := []string{"0 |", "1 ERR_UNEXPECTED|", "2 ERR_INVALID_ARG|", "3 ERR_RETRYABLE|Endpoint authentication", "4 ERR_CREDENTIALS|",
		"5 ERR_PROTOCOL|", "6 ERR_BUILD_WEDGED|`clientToken` is a permanent idempotency key",
		"7 ERR_LAUNCH_DIED|`runHookPayload` arrives wrapped, not as the body", "8 ERR_WINDOW_CLOSED|`idlePolicy`", "9 ERR_PLATFORM|",
		"10 ERR_TIMEOUT|", "11 ERR_INTERRUPTED|The build log group survives Terraform", "12 ERR_PRECONDITION|", "13 ERR_EXEC_FAILED|"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the exit table has changed (-want +got):\n%s", diff)
	}
	for i, row := range exitTable {
		if row.Exit != i || row.Meaning == "" {
			t.Errorf("row %d: exit %d, meaning %q", i, row.Exit, row.Meaning)
		}
	}
	if exitOf("ERR_OF_TOMORROW") != 1 {
		t.Error("an unknown kind is not unexpected")
	}
}

// A defect of the command itself is exit 1, on stderr, and no stray output.
func TestPanicIsUnexpected(t *testing.T) {
	t.Attr("requirement", "CLI-3")
	var stdout, stderr bytes.Buffer
	a := newApp(nil, &stdout, &stderr, func(string) string { return "set" })
	a.clientOptions = []client.Option{nil}
	if code := a.run(t.Context(), []string{"health"}); code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "internal error") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}

// The registry, the tree and the help have the same commands, each with an
// example and the keys that its envelope really has.
func TestRegistryMatchesTree(t *testing.T) {
	t.Attr("requirement", "CLI-26")
	parser, err := kong.New(&root{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, cmd := range parser.Model.Leaves(false) {
		name := strings.TrimPrefix(cmd.Path(), parser.Model.Name+" ")
		name, _, _ = strings.Cut(name, " <")
		names = append(names, name)
		if i >= len(registry) || registry[i].Name != name || registry[i].Example == "" || cmd.Help == "" {
			t.Errorf("command %q has no full entry at its place", name)
		}
		if _, ok := cmd.Target.Addr().Interface().(runner); !ok {
			t.Errorf("command %q cannot run", cmd.Name)
		}
	}
	if len(names) != len(registry) {
		t.Errorf("the tree has %d commands, the registry %d", len(names), len(registry))
	}
	srv := microvmtest.New()
	defer srv.Close()
	seen := map[string]bool{}
	for _, line := range []string{"exec --exec-id a true", "exec --exec-id b --stdin --detach=false true", "ps", "health", "completion bash", "cost", "cp - vm:/f", "tunnel 0:1",
		"kill a", "exec --detach --exec-id c cat"} {
		seen[checkKeys(t, srv, line)] = true
	}
	srv.Wait(t.Context(), "c")
	seen[checkKeys(t, srv, "ack c")] = true
	session := srv.Session(t)
	if _, err := session.Start(t.Context(), api.StartRequest{ExecID: "in", Command: []string{"cat"}, Stdin: true}); err != nil {
		t.Fatal(err)
	}
	seen[checkKeys(t, srv, "stdin in --eof")] = true
	// Those of the manager are looked at beside a manager, see TestManagerEnvelopes.
	if rest := slices.DeleteFunc(slices.Clone(registry), func(e entry) bool { return strings.HasPrefix(e.Name, "manager ") }); len(seen) != len(rest) {
		t.Errorf("only these commands were looked at: %v", seen)
	}
}

// checkKeys runs a line under --json and compares the envelope with the
// registry; it returns the command's name.
func checkKeys(t *testing.T, srv *microvmtest.Server, line string) string {
	t.Helper()
	var stdout bytes.Buffer
	words := strings.Fields(line)
	a := fakeApp(srv, &stdout, io.Discard)
	if words[0] == "tunnel" { // which runs until then
		interrupts := make(chan os.Signal, 1)
		interrupts <- os.Interrupt
		a.interrupts = interrupts
	}
	a.run(t.Context(), append([]string{"--json", "--dense"}, words...))
	kind, keys := dataKeys(t, lastLine(stdout.String()))
	i := slices.IndexFunc(registry, func(e entry) bool { return e.Name == words[0] })
	if kind != registry[i].ResponseType || !slices.Equal(keys, registry[i].ResponseKeys) {
		t.Errorf("%s: %s has %q, the registry says %s %q", line, kind, keys, registry[i].ResponseType, registry[i].ResponseKeys)
	}
	return words[0]
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// dataKeys gives an envelope's type and the keys of its data, in their order.
func dataKeys(t *testing.T, envelope string) (kind string, keys []string) {
	t.Helper()
	var env struct {
		Type string
		Data json.RawMessage
	}
	if err := json.Unmarshal([]byte(envelope), &env); err != nil {
		t.Fatalf("%q: %v", envelope, err)
	}
	dec := json.NewDecoder(bytes.NewReader(env.Data))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%s: %v", env.Data, err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			t.Fatal(err)
		}
	}
	return env.Type, keys
}

// The second Ctrl-C within the window kills; the first alone does not.
func TestInterrupts(t *testing.T) {
	t.Attr("requirement", "CLI-20")
	t.Attr("requirement", "CLI-21")
	for signals, wantKilled := range []bool{1: false, 2: true} {
		if signals == 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			srv := microvmtest.New()
			running := make(chan struct{})
			srv.Programs["hang"] = func(p *microvmtest.Process) microvmtest.Exit {
				close(running)
				<-p.Context.Done()
				return microvmtest.Exit{}
			}
			var stdout, stderr bytes.Buffer
			a := fakeApp(srv, &stdout, &stderr)
			interrupts := make(chan os.Signal, 2)
			a.interrupts = interrupts
			go func() {
				<-running
				for range signals {
					interrupts <- os.Interrupt
				}
			}()
			code := a.run(t.Context(), []string{"exec", "--json", "--exec-id", "h", "--", "hang"})
			var env errorEnvelope
			if err := json.Unmarshal(stdout.Bytes(), &env); err != nil || code != 11 || env.Code != client.KindInterrupted || env.ExitCode != 11 {
				t.Errorf("%d signals: code %d, envelope %+v, %v", signals, code, env, err)
			}
			if env.Data["execId"] != "h" || env.Data["killed"] != wantKilled {
				t.Errorf("%d signals: data %v", signals, env.Data)
			}
			if !strings.Contains(stderr.String(), "detached: exec h goes on") {
				t.Errorf("stderr %q", stderr.String())
			}
			srv.Close()
		})
	}
}

// leaver accepts some writes, then its reader has left.
type leaver struct {
	accept int
	err    error
	bytes.Buffer
}

func (l *leaver) Write(p []byte) (int, error) {
	if l.accept--; l.accept < 0 {
		return 0, l.err
	}
	return l.Buffer.Write(p)
}

// When the reader of a stream leaves, no further event is handled: the daemon
// sees the reader gone, the exec goes on, and stderr names it (CLI-9).
func TestStreamStopsWhenReaderLeaves(t *testing.T) {
	t.Attr("requirement", "CLI-9")
	for _, json := range []bool{false, true} {
		for accept := range 4 {
			synctest.Test(t, func(t *testing.T) { streamUntilReaderLeaves(t, json, accept, syscall.EPIPE, 11) })
		}
	}
}

// A full disk is not a reader that left: the stream stops as soon, and says what failed.
func TestStreamStopsWhenOutputCannotBeWritten(t *testing.T) {
	t.Attr("requirement", "CLI-23")
	synctest.Test(t, func(t *testing.T) { streamUntilReaderLeaves(t, false, 1, syscall.ENOSPC, 12) })
}

// streamUntilReaderLeaves streams a command that prints when it is told to, to
// a reader that leaves after some writes.
func streamUntilReaderLeaves(t *testing.T, json bool, accept int, failure error, want int) {
	srv := microvmtest.New()
	step := make(chan struct{})
	srv.Programs["ticker"] = func(p *microvmtest.Process) microvmtest.Exit {
		for range step {
			fmt.Fprintln(p.Stdout, "tick")
		}
		return microvmtest.Exit{}
	}
	stdout, stderr := &leaver{accept: accept, err: failure}, &bytes.Buffer{}
	args := []string{"exec", "--stream", "--exec-id", "t", "--", "ticker"}
	if json {
		args = append([]string{"--json"}, args...)
	}
	done := make(chan int, 1)
	go func() { done <- fakeApp(srv, stdout, stderr).run(context.Background(), args) }()
	code := -1
	for ticks := 0; code < 0 && ticks < 10; ticks++ {
		synctest.Wait() // all that the last tick leads to has happened
		select {
		case code = <-done:
			if ticks > accept+1 {
				t.Errorf("json %t, leaving after %d writes: it stopped only after %d events", json, accept, ticks)
			}
		default:
			step <- struct{}{}
		}
	}
	if code != want || !strings.Contains(stderr.String(), "exec t goes on") {
		t.Errorf("json %t, leaving after %d writes: code %d, stderr %q", json, accept, code, stderr.String())
	}
	session := srv.Session(t)
	if rec, err := session.Poll(t.Context(), "t"); err != nil || rec.Done() {
		t.Errorf("json %t: the exec does not go on: %+v, %v", json, rec, err)
	}
	session.Close()
	close(step)
	if code < 0 {
		<-done
	}
	srv.Close()
}

// A one-shot command's outcome does not depend on who reads it, whichever
// stream closes and whenever (CLI-8); a full disk does change it.
func TestOneShotKeepsItsCode(t *testing.T) {
	t.Attr("requirement", "CLI-7")
	t.Attr("requirement", "CLI-8")
	t.Attr("requirement", "CLI-23")
	for _, args := range []string{"exec exit_3", "exec --json exit_3", "exec --dense exit_3", "kill gone", "health", "ps --json", "--help", "nonsense", "completion bash"} {
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		srv := microvmtest.New()
		want := fakeApp(srv, io.Discard, io.Discard).run(t.Context(), words)
		for accept := range 3 {
			for _, err := range []error{syscall.EPIPE, io.ErrClosedPipe, os.ErrClosed} {
				if got := fakeApp(srv, &leaver{accept: accept, err: err}, io.Discard).run(t.Context(), words); got != want {
					t.Errorf("%s, stdout leaves after %d (%v): code %d, want %d", args, accept, err, got, want)
				}
				if got := fakeApp(srv, io.Discard, &leaver{accept: accept, err: err}).run(t.Context(), words); got != want {
					t.Errorf("%s, stderr leaves after %d (%v): code %d, want %d", args, accept, err, got, want)
				}
			}
		}
	}
	srv := microvmtest.New()
	var stderr bytes.Buffer
	full := &leaver{err: syscall.ENOSPC}
	if code := fakeApp(srv, full, &stderr).run(t.Context(), []string{"health"}); code != 12 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("a full disk: code %d, stderr %q", code, stderr.String())
	}
}

// What a hostile daemon puts into errors and tables arrives escaped.
func TestControlCharactersAreEscaped(t *testing.T) {
	t.Attr("requirement", "CLI-16")
	const evil = "\x1b]0;owned\a\r\nfake \u202e \u0085 \xff"
	srv := microvmtest.New()
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		text, _ := json.Marshal(strings.ToValidUTF8(evil, "?"))
		switch r.URL.Path {
		case "/v1/health":
			fmt.Fprintf(w, `{"version":%s,"bootstrapped":true}`, text)
		case "/v1/procs":
			fmt.Fprintf(w, `{"procs":[{"exec_id":%s,"pgid":1,"started_at":18446744073709551615,"pids":[1]}]}`, text)
		default:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"error":%s,"detail":%s}`, text, text)
		}
	}
	for _, args := range []string{"health", "health --dense", "ps", "ps --dense", "ack x", "ack x --dense", "kill x", "exec --poll x"} {
		var both bytes.Buffer
		fakeApp(srv, &both, &both).run(t.Context(), strings.Fields(args))
		if i := strings.IndexAny(both.String(), "\x1b\a\r\u202e\u0085"); i >= 0 || both.Len() == 0 {
			t.Errorf("%s: unescaped at %d of %q", args, i, both.String())
		}
		if strings.Contains(both.String(), "\nfake") {
			t.Errorf("%s: a line was faked: %q", args, both.String())
		}
	}
	if got, want := escape(evil), `\x1b]0;owned\x07\x0d\nfake \u202e \u0085 \xff`; got != want {
		t.Errorf("escape gives %q, want %q", got, want)
	}
	if got := escape("plain é 世界"); got != "plain é 世界" {
		t.Errorf("escape changes %q", got)
	}
}

// The token is in nothing that is printed, even if the daemon sends it back.
func TestTokenIsNeverPrinted(t *testing.T) {
	t.Attr("requirement", "CLI-17")
	srv := microvmtest.New()
	srv.Token = "tok-3141592653"
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"x","detail":%q}`, r.Header.Get("Authorization"))
	}
	for _, args := range []string{"kill x", "kill x --json", "kill x --dense", "exec --stream --json true", "kill", "kill a " + srv.Token, "--help"} {
		var both bytes.Buffer
		fakeApp(srv, &both, &both).run(t.Context(), strings.Fields(args))
		if strings.Contains(both.String(), srv.Token) || both.Len() == 0 {
			t.Errorf("%s: %q", args, both.String())
		}
	}
}

// Lost output turns the code 0 of a stream into a failure.
func TestStreamWithGapIsNoSuccess(t *testing.T) {
	t.Attr("requirement", "CLI-24")
	srv := microvmtest.New()
	srv.RingBytes = 4
	srv.Programs["much"] = func(p *microvmtest.Process) microvmtest.Exit {
		fmt.Fprint(p.Stdout, "0123456789")
		return microvmtest.Exit{}
	}
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/stream") {
			srv.Wait(r.Context(), "m")
		}
		next.ServeHTTP(w, r)
	}
	var stdout, stderr bytes.Buffer
	code := fakeApp(srv, &stdout, &stderr).run(t.Context(), []string{"exec", "--stream", "--json", "--exec-id", "m", "--", "much"})
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if code != 9 || len(lines) != 4 || lines[0] != `{"event":"gap","from":0,"to":6}` || !strings.Contains(lines[3], `"code":"ERR_PLATFORM"`) {
		t.Errorf("code %d, stdout %q", code, stdout.String())
	}
	if !strings.Contains(stderr.String(), "[0, 6) were lost") {
		t.Errorf("stderr %q", stderr.String())
	}
}
