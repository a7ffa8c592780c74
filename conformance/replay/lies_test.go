package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api"
	"microvms/model/bootstrap"
	"microvms/model/handlers"
)

// lie is a fault that a proxy before the daemon plants in requests or answers.
type lie struct {
	name   string
	asks   func(r *http.Request)
	says   func(r *http.Response)
	config bootstrap.Config
	words  string // of the failure
}

// lying returns a starter whose daemons stand behind a proxy that lies.
func lying(honest Starter, l lie) Starter {
	return func(ctx context.Context, o Options) (*Daemon, error) {
		d, err := honest(ctx, o)
		if err != nil {
			return nil, err
		}
		target, err := url.Parse(d.URL)
		if err != nil {
			return nil, err
		}
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// As they were asked: the proxy's own view of them is not the lie.
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
			if l.asks != nil {
				l.asks(r.Out)
			}
		}}
		proxy.ModifyResponse = func(r *http.Response) error {
			if l.says != nil {
				l.says(r)
			}
			return nil
		}
		proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that vanish are part of the replay
		proxy.Transport = &http.Transport{DisableKeepAlives: true}
		front := httptest.NewServer(proxy)
		stop := d.Stop
		d.URL = front.URL
		d.Stop = func() error {
			front.Close()
			return stop()
		}
		return d, nil
	}
}

// status replaces one status by another.
func status(from, to int) func(r *http.Response) {
	return func(r *http.Response) {
		if r.StatusCode == from {
			r.StatusCode, r.Status = to, ""
		}
	}
}

// health edits the health answer.
func health(edit func(h *api.Health)) func(r *http.Response) {
	return func(r *http.Response) {
		if r.Request.URL.Path != api.PathHealth {
			return
		}
		var h api.Health
		if json.NewDecoder(r.Body).Decode(&h) != nil {
			return
		}
		edit(&h)
		body, err := json.Marshal(&h)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// body replaces a word in the body of requests to a path.
func body(path, old, replacement string) func(r *http.Request) {
	return func(r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, path) {
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		data = bytes.ReplaceAll(data, []byte(old), []byte(replacement))
		r.Body = io.NopCloser(bytes.NewReader(data))
		r.ContentLength = int64(len(data))
	}
}

// TestReplayNoticesLies is the test of the judge: a daemon that breaks one rule,
// or one that reports something else than it did, must turn the replay red, by
// the rule that it breaks. Each is replayed sequentially and interleaved.
func TestReplayNoticesLies(t *testing.T) {
	t.Attr("requirement", "CONF-3")
	lies := []lie{
		{name: "conflict answered 200", says: status(409, 200), words: "answered 200, the model says 409"},
		{name: "401 answered as 503", says: status(401, 503), words: "503, the model says"},
		{name: "503 answered as 401", says: status(503, 401), words: "401, the model says"},
		{name: "400 answered as 404", says: status(400, 404), words: "answered 404, the model says 400", config: bootstrap.ReplayHooks()},
		{name: "attacker's token accepted", asks: func(r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer "+attackerToken {
				r.Header.Set("Authorization", "Bearer "+harnessToken)
			}
		}, words: "bearer attacker is 200, the model says bearer attacker 401"},
		{name: "attacker's token installed as the platform's", asks: body("/run", attackerToken, harnessToken), words: "answered 200, the model says 409"},
		{name: "first environment replaced", asks: body("/run", `first`, `second`), words: "environment is second, the model says environment first"},
		{name: "environment lost", asks: body("/run", envName, "OTHER"), words: "environment is"},
		{name: "token in a child's environment", asks: body("/start", `"command"`, `"env":{"TOKEN":"`+harnessToken+`"},"command"`), words: "environment is"},
		{name: "dropped requests not counted", says: health(func(h *api.Health) { h.HooksDropped = 0 }), words: "dropped is 0, the model says dropped 1"},
		{name: "log keeps the newest only", says: health(func(h *api.Health) {
			if n := len(h.Hooks); n > 0 {
				h.Hooks = h.Hooks[1:]
			}
		}), words: "the model says log"},
		{name: "execs not counted", says: health(func(h *api.Health) { h.Execs = 0 }), words: "registered is"},
		{name: "bootstrapped from the start", says: health(func(h *api.Health) { h.Bootstrapped = true }), words: "bootstrapped is true"},
		{name: "no version header", says: func(r *http.Response) { r.Header.Del(api.HeaderVersion) }, words: api.HeaderVersion},
		{name: "challenge on 401", says: func(r *http.Response) {
			if r.StatusCode == 401 {
				r.Header.Set("WWW-Authenticate", "Bearer")
			}
		}, words: "challenge"},
	}
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			sequential := bootstrap.Sequential()
			mustFail(t, BootstrapSequential(sequential, "lying", lying(inProcess(), l)), l.words)
			if l.config.Name == "" {
				l.config = bootstrap.ReplayCuts()
			}
			mustFail(t, BootstrapGated(l.config, lying(inProcess(), l)), l.words)
		})
	}
}

func mustFail(t *testing.T, s Spec[bootstrap.State], words string) {
	t.Helper()
	s.Parallel, s.MaxFailures = 1, 1
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) == 0 || r.Err() == nil {
		t.Errorf("%s: the lie was not noticed", s.Name)
	} else if !strings.Contains(r.Failures[0], words) {
		t.Errorf("%s: failed with %q, want words %q", s.Name, r.Failures[0], words)
	}
}

// TestReplayNoticesAnOpenGate drives a daemon that stands before no point: its
// requests cannot be held, which must be a failure and not a hang.
func TestReplayNoticesAnOpenGate(t *testing.T) {
	t.Attr("requirement", "CONF-3")
	ungated := func(ctx context.Context, o Options) (*Daemon, error) {
		hold := o.Hold
		o.Hold = nil
		d, err := inProcess()(ctx, o)
		if err == nil {
			d.Gate = NewGate(hold)
		}
		return d, err
	}
	mustFail(t, BootstrapGated(bootstrap.ReplayCuts(), ungated), "before its time")
}

// TestReplayNoticesDeviations replays each deviant model on the honest daemon:
// where the two differ, the replay must say so. It is the same judgement as
// that of a deviant daemon by the specified model, for faults in the middle of a
// request, which no proxy can plant.
func TestReplayNoticesDeviations(t *testing.T) {
	t.Attr("requirement", "CONF-3")
	subset := "the deviation only takes transitions away, so what is left of the model is right"
	unseen := map[bootstrap.Deviation]string{
		bootstrap.VanishedHoldsLock: subset, bootstrap.ConflictNeverAnswered: subset, bootstrap.HandlerUnbounded: subset,
	}
	for _, d := range bootstrap.Deviations() {
		if unseen[d] != "" {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			c := bootstrap.ReplayHooks()
			switch {
			case d.Handlers():
				c = handlers.Replay()
				c.Deviation = d
				s := BootstrapHandlers(c, inProcess())
				s.StepTimeout = 2 * time.Second // a handler that the model starts and the daemon does not is waited for
				mustFail(t, s, "")
				return
			case d.Controls():
				c = bootstrap.ReplayControls()
			}
			c.Deviation = d
			mustFail(t, BootstrapGated(c, inProcess()), "")
		})
	}
}
