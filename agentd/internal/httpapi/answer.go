package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"microvms/agentd/api"
	"microvms/agentd/internal/strictjson"
	"microvms/agentd/trace"
)

// answer is the response to one request. It passes the gate before the status
// goes out and announces the close of a connection whose body will not be
// drained.
type answer struct {
	http.ResponseWriter
	server *Server
	point  trace.Point // Action is HookAnswer or ControlAnswer; empty where no model follows the route
	body   *body

	status   int // 0 until the header is written
	recorded bool
}

// Unwrap gives http.ResponseController its way to net/http.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader writes the header once.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	a.server.pass(a.point)
	a.status = status
	if a.body.closing || (a.body.remains() && a.body.declared >= a.server.limits.MaxDrainBytes) {
		a.Header().Set("Connection", "close")
		a.body.closing = true
	}
	if c := a.body.conn; c != nil && status != http.StatusSwitchingProtocols && c.admission.contended() {
		// XPORT-32: announced, so that a client that reuses the connection loses no request. An upgrade is no answer
		// after which a connection could be used again, and its own `Connection` header must stay.
		a.Header().Set("Connection", "close")
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes body bytes.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// record tells the recorder, once, that the answer is written.
func (a *answer) record() {
	if a.recorded || a.status == 0 {
		return
	}
	a.recorded = true
	a.server.record(a.point, trace.Attr{Key: "status", Value: int64(a.status)})
}

// empty answers with a status alone.
func (a *answer) empty(status int) {
	a.Header().Set("Content-Length", "0")
	a.WriteHeader(status)
}

// text answers with plain text.
func (a *answer) text(status int, body string) {
	a.bytes(status, api.MediaText, []byte(body))
}

// json answers with v in the order of its fields.
func (a *answer) json(status int, v any) {
	body, err := strictjson.Marshal(v)
	if err != nil {
		// Every answer type encodes; this is a broken invariant, and the
		// catch-all turns it into a 500.
		panic("httpapi: internal error: cannot encode an answer: " + err.Error())
	}
	a.bytes(status, api.MediaJSON, body)
}

// fail answers with an error code of the exec routes.
func (a *answer) fail(code api.Code, detail string) {
	// EXEC-34: status and code from one table, so that they cannot disagree.
	a.json(code.Status(), &api.Error{Code: code, Detail: detail})
}

func (a *answer) bytes(status int, mediaType string, body []byte) {
	// XPORT-26: named by each caller, since net/http would guess.
	a.Header().Set("Content-Type", mediaType)
	a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	a.WriteHeader(status)
	a.ResponseWriter.Write(body)
}

// pass parks the caller before the transition while the gate is closed. It
// aborts the request when the daemon ends meanwhile.
func (s *Server) pass(p trace.Point) {
	if s.config.Gate == nil || p.Action == "" {
		return
	}
	if err := s.config.Gate.Pass(s.base, p); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// record tells the recorder that the transition was taken.
func (s *Server) record(p trace.Point, attrs ...trace.Attr) {
	if s.config.Recorder == nil || p.Action == "" {
		return
	}
	s.config.Recorder.Record(trace.Event{Point: p, Attrs: attrs})
}

// detached returns the context of work that a lost client must not cut short:
// it ends only with the daemon.
func (s *Server) detached() context.Context { return s.base }
