package httpapi

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"

	"microvms/agentd/api"
	"microvms/agentd/internal/hooks"
	"microvms/agentd/trace"
)

// Bounds on a request's head beyond net/http's own on its total size.
const (
	maxTarget = 64 << 10 // bytes of the request target; above: 414
	maxFields = 256      // header lines; above: 431
)

// request is what a handler gets.
type request struct {
	*http.Request
	serial uint64
	body   *body
	id     string // the {id} of the path, percent-decoded
}

// ServeHTTP takes one request from its complete header to the decision about
// its connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := connOf(r)
	if !c.beginServing() {
		panic(http.ErrAbortHandler)
	}
	// XPORT-1: on every response, refusals included. The key is spelled as the facts
	// spell it.
	w.Header()[api.HeaderVersion] = []string{s.config.Version}
	if r.ContentLength != 0 {
		// Without full duplex net/http reads the body before it answers.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	a := &answer{ResponseWriter: w, server: s, body: newBody(r)}
	req := &request{Request: r, serial: s.serial.Add(1), body: a.body}
	a.body.whole = func() { s.pass(trace.Point{Action: trace.BodyEnd, Request: req.serial}) }
	s.guarded(a, req)
	a.record()
	s.settle(a, r)
}

// guarded routes the request and turns a panic into a 500 on a connection that
// lives: the daemon is the only way into the VM.
func (s *Server) guarded(a *answer, r *request) {
	defer func() {
		// XPORT-12: caught here, so that a defect ends one request and not the daemon.
		p := recover()
		if p == nil {
			if a.status == 0 {
				a.empty(http.StatusOK)
			}
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // a panic value, by which net/http itself compares
			panic(p)
		}
		// The panic value may quote a request; the stack names places only.
		s.log.Error("request handler panicked", "request", r.serial, "status_sent", a.status, "stack", string(debug.Stack()))
		if a.status != 0 {
			panic(http.ErrAbortHandler)
		}
		clear(a.Header())
		a.Header()[api.HeaderVersion] = []string{s.config.Version}
		a.text(http.StatusInternalServerError, "internal error\n")
	}()
	s.route(a, r)
}

// route refuses what no route could take and hands the rest to the router,
// which decides on the path alone.
func (s *Server) route(a *answer, r *request) {
	switch {
	case r.ProtoMajor != 1:
		a.Header().Set("Connection", "close")
		// XPORT-29: in the version that is spoken here.
		a.empty(http.StatusHTTPVersionNotSupported)
		return
	case len(r.RequestURI) > maxTarget:
		a.Header().Set("Connection", "close")
		// XPORT-19: before the router copies the path.
		a.empty(http.StatusRequestURITooLong)
		return
	case fields(r.Header) > maxFields:
		a.Header().Set("Connection", "close")
		// XPORT-20: before the credential, which is one of the entries.
		a.empty(http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	rctx := chi.NewRouteContext()
	// Always the same method: an unknown one must not turn 404 into 405, and
	// every method must see /v1/exec/start win over /v1/exec/{id}.
	rctx.RouteMethod = http.MethodGet
	ctx := context.WithValue(r.Context(), chi.RouteCtxKey, rctx)
	ctx = context.WithValue(ctx, requestKey{}, r)
	r.Request = r.WithContext(ctx)
	s.mux.ServeHTTP(a, r.Request)
}

type requestKey struct{}

func fields(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// authorize judges the bearer before any body byte is read. It answers and
// reports false when the request goes no further. The bodies are empty and no
// challenge is sent.
func (s *Server) authorize(a *answer, r *request) bool {
	p := trace.Point{Action: trace.ControlAuthorize, Request: r.serial}
	s.pass(p)
	var then func(hooks.Verdict)
	if s.config.Recorder != nil {
		then = func(v hooks.Verdict) { s.record(p, trace.Attr{Key: "verdict", Value: v.String()}) }
	}
	// AUTHZ-4, AUTHZ-5: judged by the header alone, and refused by a status alone.
	// AUTHZ-7: no address is looked at: platform, proxy and guest share one.
	switch s.config.Boot.Authorize(r.Header["Authorization"], then) {
	case hooks.Closed:
		a.empty(http.StatusServiceUnavailable)
	case hooks.Unauthorized:
		a.empty(http.StatusUnauthorized)
	default:
		return true
	}
	return false
}

// execID returns the {id} segment, percent-decoded. chi matches the raw path
// where there is one, so only then is the segment still encoded.
func execID(r *http.Request) (string, bool) {
	id := chi.URLParam(r, "id")
	if r.URL.RawPath == "" {
		return id, id != ""
	}
	// XPORT-23: decoded after the raw path chose the route, so that an id selects no other one.
	id, err := unescapeSegment(id)
	return id, err == nil && id != ""
}

// methods lists the methods of a path for the Allow header, from the table.
func methods(routes []route) string {
	var names []string
	for _, r := range routes {
		names = append(names, r.method)
		if r.method == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	return strings.Join(names, ", ")
}
