package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"microvms/agentd/api"
)

// Caps on buffered bodies (client facts, section 9). Streams have none.
const (
	maxBodyBytes      = 512 << 20
	maxErrorBodyBytes = 64 << 10
	maxDetailBytes    = 512
)

// call is one request that is answered by one JSON document.
type call struct {
	method, path string
	in, out      any  // in nil: no body
	open         bool // sent without the bearer
	detached     bool // goes on when the session is closed; the request timeout bounds it
}

// do sends c and decodes its answer. It never repeats a request and follows no
// redirect: a 3xx is an answer like any other.
func (s *Session) do(ctx context.Context, c call) error {
	var body []byte
	if c.in != nil {
		var err error
		if body, err = json.Marshal(c.in); err != nil {
			return invalidArg("cannot encode the request of %s %s: %v", c.method, c.path, err)
		}
	}
	callCtx := ctx
	if !c.detached {
		linked, done, err := s.begin(ctx)
		if err != nil {
			return err
		}
		defer done()
		callCtx = linked
	}
	reqCtx, cancel := withTimeout(callCtx, s.clock, s.requestTimeout)
	defer cancel()

	start := s.clock.Now()
	resp, err := s.send(reqCtx, c, body, "application/json")
	if err != nil {
		return s.failure(ctx, reqCtx, c, err)
	}
	defer resp.Body.Close()
	s.log.LogAttrs(ctx, slog.LevelDebug, "request answered", slog.String("method", c.method), slog.String("path", c.path),
		slog.Int("status", resp.StatusCode), slog.Int64("duration_ms", s.clock.Now().Sub(start).Milliseconds()))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return s.refusal(c, resp)
	}
	data, err := readCapped(resp, maxBodyBytes)
	if err != nil {
		if KindOf(err) == KindProtocol {
			return err
		}
		return s.failure(ctx, reqCtx, c, err)
	}
	if err := json.Unmarshal(data, c.out); err != nil {
		// CLIENT-18: the place of the fault and not the bytes, which may be output.
		return protocolError("cannot decode the answer of %s %s (%d bytes): compare the daemon's GET /v1/schema with this client: %v",
			c.method, c.path, len(data), describeDecodeError(err))
	}
	return nil
}

// send makes the request and returns the answer's head.
func (s *Session) send(ctx context.Context, c call, body []byte, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, s.Endpoint()+c.path, nil)
	if err != nil {
		return nil, err
	}
	if c.in != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	if err := s.authorize(ctx, req.Header); err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "microvm-client")
	// CLIENT-13: health is asked of daemons that have no token yet.
	if !c.open {
		req.Header.Set("Authorization", "Bearer "+s.token.value)
	}
	// CLIENT-7: the transport itself, below what follows redirects and would carry the bearer along.
	return s.transport.RoundTrip(req)
}

// failure names why a request got no complete answer: the caller stopped, the
// session was closed, the request timeout passed, or the transport failed.
func (s *Session) failure(caller, reqCtx context.Context, c call, err error) error {
	what := "the answer of " + c.method + " " + c.path
	switch {
	// CLIENT-11: to cancel is to stop waiting: nothing is sent to the daemon.
	case caller.Err() != nil:
		return interrupted(what, context.Cause(caller))
	case s.closing.Err() != nil:
		return errSessionClosed()
	// CLIENT-24: a VM that is frozen answers nothing, and thaws.
	case errors.Is(context.Cause(reqCtx), errDeadline):
		return &Error{Kind: KindRetryable, Wire: WireTransport,
			Message: fmt.Sprintf("no complete answer of %s %s within %s", c.method, c.path, s.requestTimeout)}
	}
	var own *Error
	if errors.As(err, &own) { // known already, and nothing was sent
		return own
	}
	// CLIENT-23: whether the request had an effect is unknown.
	return &Error{Kind: KindRetryable, Wire: WireTransport,
		Message: fmt.Sprintf("cannot complete %s %s", c.method, c.path), Err: s.redactError(err)}
}

// refusal reads the answer of a request that was refused.
func (s *Session) refusal(c call, resp *http.Response) error {
	apiErr := &APIError{Method: c.method, Path: c.path, Status: resp.StatusCode}
	for _, name := range []string{"X-Amzn-Requestid", "X-Request-Id"} {
		if id := resp.Header.Get(name); id != "" && apiErr.RequestID == "" {
			apiErr.RequestID = id
		}
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 && n < 1<<31 {
		apiErr.RetryAfter = time.Duration(n) * time.Second
	}
	// CLIENT-9: a body that breaks off or passes the cap loses its text, not its status.
	if data, err := readCapped(resp, maxErrorBodyBytes); err == nil {
		s.describe(apiErr, data)
	}
	wire, kind := classify(resp.StatusCode)
	return &Error{Kind: kind, Wire: wire, Err: apiErr}
}

// describe fills code and detail: a JSON error body on the exec routes, plain
// text elsewhere. A daemon that echoes the bearer must not get it into an error.
func (s *Session) describe(e *APIError, body []byte) {
	var wire api.Error
	text := string(body)
	if json.Unmarshal(body, &wire) == nil && wire.Code != "" {
		e.Code, text = string(wire.Code), wire.Detail
	}
	// CLIENT-12: an error is printed and passed on, whatever the daemon put into it.
	text, e.Code = s.redact(text), s.redact(e.Code)
	text = strings.TrimSpace(text)
	if len(text) > maxDetailBytes {
		text = text[:maxDetailBytes]
	}
	e.Detail = strings.ToValidUTF8(text, "\uFFFD")
}

// readCapped reads a body of at most limit bytes; both the declared length and
// the bytes read are checked.
func readCapped(resp *http.Response, limit int64) ([]byte, error) {
	// CLIENT-8: the promise alone is enough to refuse.
	if resp.ContentLength > limit {
		return nil, protocolError("answer declares %d bytes, over the cap of %d", resp.ContentLength, limit)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, protocolError("answer is over the cap of %d bytes", limit)
	}
	return data, nil
}

// describeDecodeError keeps the place of a decoding failure and drops values,
// which could be command output.
func describeDecodeError(err error) error {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		return fmt.Errorf("field %q has the wrong type", typeErr.Field)
	}
	var syntaxErr *json.SyntaxError
	if errors.As(err, &syntaxErr) {
		return fmt.Errorf("not JSON at byte %d", syntaxErr.Offset)
	}
	return errors.New("not the expected shape")
}

// execPath is the path of one exec's route. The id is one segment, escaped;
// dot segments are escaped too, so that nothing on the way resolves them.
func execPath(id, route string) (string, error) {
	switch id {
	case "":
		return "", invalidArg("exec id: must not be empty")
	case "start":
		// Wire facts, section 1: the start route shadows this id.
		return "", invalidArg("exec id %q: the daemon's start route has this name, so such an exec cannot be reached", id)
	}
	// CLIENT-30: as an answer's text it would come back as another id.
	if !utf8.ValidString(id) {
		return "", invalidArg("exec id %q is not valid UTF-8, and the wire carries nothing else", id)
	}
	// CLIENT-20: one segment for the daemon and for whatever lies on the way.
	segment := url.PathEscape(id)
	if strings.Trim(segment, ".") == "" {
		segment = strings.ReplaceAll(segment, ".", "%2E")
	}
	return "/v1/exec/" + segment + route, nil
}
