package replay

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"microvms/agentd/trace"
	"microvms/model/execution"
)

// execLie is a fault that a proxy before the daemon plants: in requests, in the
// status of answers, or in their lines.
type execLie struct {
	name  string
	path  string // the end of the paths that are lied about
	asks  func(r *http.Request)
	says  func(r *http.Response)
	line  func(line string) string
	words string // of the failure
}

// lyingExec returns a starter whose daemons stand behind a proxy that lies.
func lyingExec(honest ExecStarter, l execLie) ExecStarter {
	return func(ctx context.Context, o ExecOptions) (*ExecDaemon, error) {
		d, err := honest(ctx, o)
		if err != nil {
			return nil, err
		}
		target, err := url.Parse(d.URL)
		if err != nil {
			return nil, err
		}
		proxy := &httputil.ReverseProxy{
			FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true},
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				if l.asks != nil && strings.HasSuffix(r.In.URL.Path, l.path) {
					l.asks(r.Out)
				}
			},
			ModifyResponse: func(r *http.Response) error {
				if !strings.HasSuffix(r.Request.URL.Path, l.path) {
					return nil
				}
				if l.says != nil {
					l.says(r)
				}
				if l.line != nil {
					r.Body = rewritten(r.Body, l.line)
					r.ContentLength = -1
					r.Header.Del("Content-Length")
				}
				return nil
			},
		}
		front := httptest.NewServer(proxy)
		stop := d.Stop
		d.URL = front.URL
		d.Stop = func() error {
			front.CloseClientConnections()
			front.Close()
			return stop()
		}
		return d, nil
	}
}

// rewritten passes a body on, line by line.
func rewritten(body io.ReadCloser, line func(string) string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			text, err := lines.ReadString('\n')
			if text != "" {
				if _, err := io.WriteString(w, line(text)); err != nil {
					return
				}
			}
			if err != nil {
				w.CloseWithError(err)
				return
			}
		}
	}()
	return r
}

// swap replaces one text by another.
func swap(from, to string) func(string) string {
	return func(line string) string { return strings.ReplaceAll(line, from, to) }
}

// red replays behind a liar and expects a failure with its words.
func red[S comparable](t *testing.T, l execLie, spec func(start ExecStarter) Spec[S]) {
	t.Run(l.name, func(t *testing.T) {
		t.Parallel()
		s := spec(lyingExec(execInProcess(), l))
		s.MaxFailures, s.Parallel = 1, 1
		r, err := Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), l.words) {
			t.Errorf("got %v, want words %q", err, l.words)
		}
	})
}

// TestExecLiesAreNoticed plants one fault in each kind of observation of the
// group model.
func TestExecLiesAreNoticed(t *testing.T) {
	c := groupReplay(t, "group-replay-binary-pair")
	for _, l := range []execLie{
		{name: "busy stays true", path: "/health", line: swap(`"busy":false`, `"busy":true`), words: "busy is true, the model says busy false"},
		{name: "a record is not counted", path: "/health", line: swap(`"execs":1`, `"execs":0`), words: "procs has 1 entries, health counts 0"},
		{name: "a poll shows no exit", path: "/e1", line: swap(`"phase":"exited"`, `"phase":"running"`), words: "e1 phase is running, the model says e1 phase exited"},
		{name: "a signal reads as a code", path: "/e0", line: swap(`"exit_code":null,"signal":15`, `"exit_code":143,"signal":null`), words: "code=143 signal=null"},
		{name: "an exit reads as timed out", path: "/e0", line: swap(`"timed_out":false`, `"timed_out":true`), words: "timed_out=true"},
		{name: "procs shows the marker early", path: "/procs", line: swap(`"child_exited":false`, `"child_exited":true`), words: "child_exited=true"},
		{name: "procs lists nobody", path: "/procs", line: func(line string) string { return pids.ReplaceAllString(line, `"pids":[]`) }, words: "pids=, the model says"},
		{name: "procs lists a stranger", path: "/procs", line: func(line string) string { return pids.ReplaceAllString(line, `"pids":[1]`) }, words: "pids=1"},
		{name: "an ack is never refused", path: "/ack", says: status(409, 200), words: "the model says"},
		{name: "an unknown id is running", path: "/kill", says: status(404, 200), words: "the model says unknown_exec"},
		{name: "a kill always killed", path: "/kill", line: swap("false", "true"), words: "the model says"},
		{name: "a refused start is accepted", path: "/start", says: status(500, 200), words: "the model says spawn_failed"},
		{name: "a poll acks", path: "/e0", asks: func(r *http.Request) { r.Method, r.URL.Path = "POST", r.URL.Path+"/ack" }, words: "e0"},
	} {
		red(t, l, func(start ExecStarter) Spec[execution.GroupState] { return ExecGroup(c, "liar", start) })
	}
}

// TestExecOutputLiesAreNoticed plants one fault in each kind of event.
func TestExecOutputLiesAreNoticed(t *testing.T) {
	c := outputReplay(t, "output-replay-cut")
	for _, l := range []execLie{
		{name: "an offset is shifted", path: "/stream", line: swap(`"offset":16,`, `"offset":17,`), words: "its cursor is 16"},
		{name: "the streams are swapped", path: "/stream", line: swap(`"stream":"stderr"`, `"stream":"stdout"`), words: "of stdout as unit"},
		{name: "a gap reads as output", path: "/stream", line: swap("event: gap", "event: output"), words: "lacks its fields"},
		{name: "a resume starts at zero", path: "/stream", asks: func(r *http.Request) { r.URL.RawQuery = "offset=0" }, words: "reader 0 got"},
		{name: "the exit tells no total", path: "/stream", line: func(line string) string {
			if strings.Contains(line, `"exit_code"`) {
				return offsets.ReplaceAllString(line, `"offset":0}`)
			}
			return line
		}, words: "got exit0, the model says exit"},
		{name: "the head is cut", path: "/e0", line: swap(`"truncated":true`, `"truncated":false`), words: "truncated=false"},
		{name: "the head loses a byte", path: "/e0", line: swap(`"stdout":"<`, `"stdout":"`), words: "the model says"},
	} {
		red(t, l, func(start ExecStarter) Spec[execution.OutputState] {
			return ExecOutput(c, "liar", start)
		})
	}
}

// TestExecStdinLiesAreNoticed plants one fault in each kind of answer.
func TestExecStdinLiesAreNoticed(t *testing.T) {
	c := stdinReplay(t, "stdin-replay-clock")
	for _, l := range []execLie{
		{name: "written is overstated", path: "/stdin", line: swap(`"written":4096`, `"written":8192`), words: "the model says"},
		{name: "a timeout reads as success", path: "/stdin", says: status(408, 200), words: "the model says stdin_write_timeout"},
		{name: "a closed pipe reads as absent", path: "/stdin", line: swap("stdin_closed", "stdin_not_requested"), words: "the model says stdin_closed"},
		{name: "an end of file is added", path: "/stdin", asks: addEOF, words: `"eof":true`},
	} {
		red(t, l, func(start ExecStarter) Spec[execution.StdinState] { return ExecStdin(c, "liar", start) })
	}
}

// TestGatedLiesAreNoticed replays the interleaved configurations against a
// daemon that refuses to wait, and one whose clients see another stream than
// the daemon handed out.
func TestGatedLiesAreNoticed(t *testing.T) {
	group := groupReplay(t, "group-replay-gate")
	red(t, execLie{name: "a waiting start is refused", path: "/start", says: status(200, 500), words: "the model says ok"},
		func(start ExecStarter) Spec[execution.GroupState] { return ExecGroupGated(group, start) })
	output := outputReplay(t, "output-replay-gate")
	red(t, execLie{name: "an event is lost on the way", path: "/stream", line: swap(`"offset":0,`, `"offset":16,`), words: "got output at byte 16"},
		func(start ExecStarter) Spec[execution.OutputState] { return ExecOutputGated(output, start) })
}

// TestUnheldStepsAreNoticed replays an interleaved configuration on a daemon
// that cannot be held: steps that happen by themselves are differences.
func TestUnheldStepsAreNoticed(t *testing.T) {
	s := ExecGroupGated(groupReplay(t, "group-replay-gate"), func(ctx context.Context, o ExecOptions) (*ExecDaemon, error) {
		o.Hold = func(trace.Point) bool { return false }
		return execInProcess()(ctx, o)
	})
	s.MaxFailures, s.StepTimeout = 1, waitForNothing
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "nothing stands before ExecSpawn") {
		t.Errorf("got %v", err)
	}
}

// waitForNothing bounds a step that waits for something that never comes.
const waitForNothing = time.Second

var (
	pids    = regexp.MustCompile(`"pids":\[[0-9,]*\]`)
	offsets = regexp.MustCompile(`"offset":[0-9]+}`)
)

// addEOF adds the end of file to a stdin request.
func addEOF(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || strings.Contains(string(body), "signal") {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		return
	}
	text := strings.Replace(string(body), "{", `{"signal":"eof",`, 1)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
}
