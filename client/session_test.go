package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/microvmtest"
)

func TestNewReadsEndpoints(t *testing.T) {
	t.Attr("requirement", "CLIENT-26")
	t.Attr("requirement", "CLIENT-27")
	for endpoint, want := range map[string]string{
		"vm.example":                "https://vm.example",
		"vm.example:9000/":          "https://vm.example:9000",
		"http://127.0.0.1:9000":     "http://127.0.0.1:9000",
		"https://vm.example/base//": "https://vm.example/base",
		"[::1]:9000":                "https://[::1]:9000",
	} {
		s, err := client.New(endpoint, "t")
		if err != nil || s.Endpoint() != want {
			t.Errorf("%q: %v, want %q; error %v", endpoint, s, want, err)
			continue
		}
		s.Close()
	}
	for _, endpoint := range []string{"", "ftp://x", "http://", "http://user:hunter2@x", "http://x?q", "http://x#f", "http://a b", "http://:9000"} {
		_, err := client.New(endpoint, "t")
		if client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%q: error %v", endpoint, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error holds the password: %v", endpoint, err)
		}
	}
	if _, err := client.New("x", "a\r\nb"); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("a token with a line break: %v", err)
	}
}

// The token is in no text that a session, its errors or its logs can give, even
// if the daemon sends it back.
func TestTokenIsNeverPrinted(t *testing.T) {
	t.Attr("requirement", "CLIENT-12")
	const token = "tok-3141592653"
	srv := microvmtest.New()
	srv.Token = token
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"echo %s","detail":"you sent %s"}`, token, r.Header.Get("Authorization"))
	}
	var logs bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := srv.Session(t, client.WithLogger(log))
	_, err := s.Poll(t.Context(), "x")
	log.Info("session", "session", s, "err", err, "options", fmt.Sprintf("%+v", s))
	texts := []string{fmt.Sprint(err), fmt.Sprintf("%+v %#v %s", s, s, s), fmt.Sprintf("%#v", errors.Unwrap(err)), logs.String()}
	for _, text := range texts {
		if strings.Contains(text, token) {
			t.Errorf("the token is in %q", text)
		}
	}
	if !strings.Contains(texts[0], "[redacted]") {
		t.Errorf("the error does not show that something was left out: %v", err)
	}
}

// Each status becomes the kind, wire kind and retry class of client facts 8.1,
// and matches its sentinel and no other.
func TestStatusesBecomeErrors(t *testing.T) {
	t.Attr("requirement", "CLIENT-7")
	t.Attr("requirement", "CLIENT-17")
	sentinels := []error{client.ErrUnauthorized, client.ErrNotFound, client.ErrConflict, client.ErrStdinClosed, client.ErrNotBootstrapped}
	cases := []struct {
		status   int
		wire     client.WireKind
		kind     client.Kind
		retry    bool
		sentinel error
	}{
		{401, "Unauthorized", "ERR_CREDENTIALS", false, client.ErrUnauthorized},
		{400, "ProtocolError", "ERR_PROTOCOL", false, nil},
		{404, "NotFound", "ERR_PROTOCOL", false, client.ErrNotFound},
		{409, "Conflict", "ERR_PROTOCOL", false, client.ErrConflict},
		{410, "StdinClosed", "ERR_PROTOCOL", false, client.ErrStdinClosed},
		{413, "TooLarge", "ERR_PROTOCOL", false, nil},
		{408, "RequestTimeout", "ERR_RETRYABLE", true, nil},
		{503, "NotBootstrapped", "ERR_RETRYABLE", true, client.ErrNotBootstrapped},
		{500, "ServerError", "ERR_RETRYABLE", true, nil},
		{502, "ServerError", "ERR_RETRYABLE", true, nil},
		{507, "InsufficientStorage", "ERR_PLATFORM", false, nil},
		{301, "", "ERR_PROTOCOL", false, nil},
		{403, "", "ERR_PROTOCOL", false, nil},
		{405, "", "ERR_PROTOCOL", false, nil},
		{416, "", "ERR_PROTOCOL", false, nil},
	}
	for _, c := range cases {
		srv := microvmtest.New()
		requests := 0
		srv.Intercept = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			requests++
			w.Header().Set("Location", "/v1/elsewhere")
			w.Header().Set("X-Request-Id", "r-1")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			io.WriteString(w, "  plain text\n")
		}
		_, err := srv.Session(t).Poll(t.Context(), "x-1")
		var apiErr *client.APIError
		if !errors.As(err, &apiErr) || apiErr.Status != c.status || apiErr.RequestID != "r-1" || apiErr.RetryAfter != 7*time.Second {
			t.Errorf("%d: %#v", c.status, apiErr)
		}
		if want := "GET /v1/exec/x-1 -> " + strconv.Itoa(c.status) + ": plain text"; err.Error() != want {
			t.Errorf("%d: error reads %q, want %q", c.status, err, want)
		}
		if client.WireKindOf(err) != c.wire || client.KindOf(err) != c.kind || client.Retryable(err) != c.retry {
			t.Errorf("%d: %s %s retryable %t", c.status, client.WireKindOf(err), client.KindOf(err), client.Retryable(err))
		}
		for _, s := range sentinels {
			if errors.Is(err, s) != (s == c.sentinel) {
				t.Errorf("%d: matches %v: %t", c.status, s, errors.Is(err, s))
			}
		}
		if requests != 1 {
			t.Errorf("%d: %d requests, want 1: none is repeated or redirected", c.status, requests)
		}
	}
}

// An answer that is no JSON of the expected shape is the daemon's fault, and
// its bytes, which may be output, stay out of the error.
func TestUndecodableAnswers(t *testing.T) {
	t.Attr("requirement", "CLIENT-18")
	for _, body := range []string{"", "null x", `{"phase":7}`, `{"phase":"sleeping"}`, `{"phase":"exited"}`, "secretoutput", `[]`} {
		srv := microvmtest.New()
		srv.Intercept = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { io.WriteString(w, body) }
		_, err := srv.Session(t).Poll(t.Context(), "x-1")
		if client.KindOf(err) != client.KindProtocol || client.WireKindOf(err) != client.WireProtocolError || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// repeat is an endless body.
type repeat struct{ read int64 }

func (r *repeat) Read(p []byte) (int, error) { r.read += int64(len(p)); return len(p), nil }
func (r *repeat) Close() error               { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Bodies are capped by their declared length before a byte is read, and an
// endless error body after 64 KiB; its status survives.
func TestBodyCaps(t *testing.T) {
	t.Attr("requirement", "CLIENT-8")
	t.Attr("requirement", "CLIENT-9")
	for _, c := range []struct {
		status   int
		declared int64
		maxRead  int64
		wire     client.WireKind
	}{
		{200, 512<<20 + 1, 0, client.WireProtocolError},
		{404, -1, 64<<10 + 4096, client.WireNotFound},
		{404, 64<<10 + 1, 0, client.WireNotFound},
	} {
		body := &repeat{}
		s, err := client.New("http://x", "t", client.WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.status, ContentLength: c.declared, Body: body, Header: http.Header{}, Request: r}, nil
		})}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Poll(t.Context(), "x"); client.WireKindOf(err) != c.wire || body.read > c.maxRead {
			t.Errorf("%d with %d declared: read %d, error %v", c.status, c.declared, body.read, err)
		}
		s.Close()
	}
}

// Health goes without the bearer, all else with it.
func TestHealthSendsNoToken(t *testing.T) {
	t.Attr("requirement", "CLIENT-13")
	srv := microvmtest.New()
	seen := map[string]string{}
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		seen[r.URL.Path] = r.Header.Get("Authorization")
		next.ServeHTTP(w, r)
	}
	s := srv.Session(t)
	h, err := s.Health(t.Context())
	if err != nil || !h.Bootstrapped || h.Disk != nil {
		t.Errorf("health %+v, %v", h, err)
	}
	if _, err := s.Procs(t.Context()); err != nil {
		t.Error(err)
	}
	if seen[api.PathHealth] != "" || seen[api.PathProcs] != "Bearer "+microvmtest.Token {
		t.Errorf("authorization headers: %q", seen)
	}
}

func TestNewExecID(t *testing.T) {
	t.Attr("requirement", "CLIENT-16")
	ids := map[string]bool{}
	for range 1000 {
		id := client.NewExecID()
		if !regexp.MustCompile(`^x-[0-9a-f]{16}$`).MatchString(id) || ids[id] {
			t.Fatalf("id %q, seen before: %t", id, ids[id])
		}
		ids[id] = true
	}
}

// The caller's cancel and Close end a blocked call at once; a daemon that does
// not answer is given up after the request timeout.
func TestBlockedCallsEnd(t *testing.T) {
	t.Attr("requirement", "CLIENT-10")
	t.Attr("requirement", "CLIENT-11")
	t.Attr("requirement", "CLIENT-24")
	silent := func(w http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
	calls := map[string]func(context.Context, *client.Session) error{
		"poll": func(ctx context.Context, s *client.Session) error { _, err := s.Poll(ctx, "x"); return err },
		"kill": func(ctx context.Context, s *client.Session) error { _, err := s.Kill(ctx, "x"); return err },
		"stdin": func(ctx context.Context, s *client.Session) error {
			_, err := s.Stdin(ctx, "x", strings.NewReader("a"))
			return err
		},
		"wait": func(ctx context.Context, s *client.Session) error { _, err := s.Wait(ctx, "x", 0); return err },
		"stream": func(ctx context.Context, s *client.Session) error {
			return lastError(s.Stream(ctx, "x", client.StreamOptions{}))
		},
	}
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			srv := microvmtest.New()
			srv.Intercept = silent
			s := srv.Session(t)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(90*time.Second, cancel)
			start := time.Now()
			err := call(ctx, s)
			switch d := time.Since(start); {
			case name == "wait" || name == "stream": // these outlive a single timeout
				if d != 90*time.Second || !errors.Is(err, client.ErrInterrupted) || !errors.Is(err, context.Canceled) {
					t.Errorf("%s: after %s: %v", name, d, err)
				}
			default:
				if d != 60*time.Second || client.WireKindOf(err) != client.WireTransport || !client.Retryable(err) {
					t.Errorf("%s: after %s: %v", name, d, err)
				}
			}
			time.AfterFunc(time.Second, func() { s.Close() })
			start = time.Now()
			err = call(t.Context(), s)
			if d := time.Since(start); d != time.Second || !errors.Is(err, client.ErrClosed) {
				t.Errorf("%s: %s after Close in 1 s: %v", name, d, err)
			}
			if err := call(t.Context(), s); !errors.Is(err, client.ErrClosed) {
				t.Errorf("%s on a closed session: %v", name, err)
			}
		})
	}
}

func lastError(st *client.Stream) (err error) {
	for _, err = range st.All() {
	}
	return err
}

// The ids that no route can carry are refused, and others arrive as they are.
func TestExecIDsInPaths(t *testing.T) {
	t.Attr("requirement", "CLIENT-20")
	srv := microvmtest.New()
	var got string
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		got = r.URL.EscapedPath()
		json.NewEncoder(w).Encode(api.PollResponse{Phase: api.PhaseRunning})
	}
	s := srv.Session(t)
	for _, id := range []string{"", "start"} {
		if _, err := s.Poll(t.Context(), id); client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("id %q: %v", id, err)
		}
	}
	for id, want := range map[string]string{"a/b": "a%2Fb", "..": "%2E%2E", "a?b#c": "a%3Fb%23c", "é": "%C3%A9"} {
		if _, err := s.Poll(t.Context(), id); err != nil || got != "/v1/exec/"+want {
			t.Errorf("id %q: path %q, error %v", id, got, err)
		}
	}
}
