// Package microvmtest is a fake daemon for tests: users of package client run
// their code against it without a VM, a socket or a real process. Commands are
// Go functions, called [Program]s.
//
// It answers the exec routes, procs, health and the routes for files and archives
// as the daemon does (wire facts, sections 2, 6 to 8 and 11); a test of package
// client runs the same requests against both and compares the answers. Its files
// are in memory, those of the machine are out of its reach, and there is no limit
// on their size. Tunnels it has none. Time is package time's, so inside a
// testing/synctest bubble it is the bubble's.
package microvmtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"microvms/agentd/api"
	"microvms/client"
)

// Token is the token of a [New] server.
const Token = "microvmtest-token"

// Server is a fake daemon. Set fields before the first request. It is safe for
// concurrent use.
type Server struct {
	// Token is the installed token; empty means not bootstrapped.
	Token string
	// DefaultUser is what discovery publishes; it changes nothing else.
	DefaultUser *string
	// Programs maps a program name to what it does. A shell script runs the
	// program named "sh", with the script in Process.Script.
	Programs map[string]Program
	// HeadBytes is how much of each stream a record keeps, RingBytes how much of
	// both together a stream can replay.
	HeadBytes, RingBytes int
	// KillGrace is the time between SIGTERM and SIGKILL, StdinTimeout that for a
	// command to read its input, KeepAlive the pause between stream comments.
	KillGrace, StdinTimeout, KeepAlive time.Duration
	// Intercept, if set, sees each request first and may answer it, break it, or
	// hand it to next. It makes what a real daemon cannot be made to do.
	Intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)

	disk sync.Mutex // guards root and all below it
	root *node

	mu    sync.Mutex
	execs map[string]*exec
	order []*exec
	mux   *http.ServeMux
	allow map[string]string // methods, by path
}

// New returns a bootstrapped server with Token, the daemon's default limits and
// the programs true, false, echo, cat and sh.
func New() *Server {
	s := &Server{
		Token: Token, Programs: Programs(),
		HeadBytes: 8 << 20, RingBytes: 1 << 20,
		KillGrace: 10 * time.Second, StdinTimeout: 5 * time.Second, KeepAlive: 15 * time.Second,
		execs: make(map[string]*exec), root: newFolder(),
	}
	s.mux = http.NewServeMux()
	routes := map[string]http.HandlerFunc{
		"GET " + api.PathHealth:     s.health,
		"GET " + api.PathDiscovery:  s.bearer(s.discovery),
		"POST " + api.PathExecStart: s.bearer(s.start),
		"GET " + api.PathExecStart:  s.bearer(s.methodNotAllowed),
		"GET " + api.PathExec:       s.bearer(s.poll),
		"GET " + api.PathExecStream: s.bearer(s.stream),
		"POST " + api.PathExecStdin: s.bearer(s.stdin),
		"POST " + api.PathExecAck:   s.bearer(s.ack),
		"POST " + api.PathExecKill:  s.bearer(s.kill),
		"GET " + api.PathProcs:      s.bearer(s.procs),
		"GET " + api.PathFile:       s.bearer(s.getFile),
		"PUT " + api.PathFile:       s.bearer(s.putFile),
		"GET " + api.PathTar:        s.bearer(s.getTar),
		"PUT " + api.PathTar:        s.bearer(s.putTar),
		"/":                         s.notFound,
	}
	s.allow = map[string]string{}
	for pattern, handler := range routes {
		s.mux.HandleFunc(pattern, handler)
		if method, path, ok := strings.Cut(pattern, " "); ok {
			s.allow[path] = strings.TrimPrefix(s.allow[path]+", "+method, ", ")
		}
	}
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(api.HeaderVersion, "microvmtest")
	if s.Intercept != nil {
		s.Intercept(w, r, s.mux)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Session opens a session with the server, over memory, and closes it at the
// end of the test.
func (s *Server) Session(t testing.TB, opts ...client.Option) *client.Session {
	t.Helper()
	opts = append([]client.Option{client.WithHTTPClient(s.Client())}, opts...)
	session, err := client.New("http://microvmtest", s.Token, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// Close kills all commands and waits until each has ended. A program that does
// not return when its Context ends outlives it.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.order {
		e.cancel()
		<-e.done
	}
}

// bearer judges the token before the handler sees the request.
func (s *Server) bearer(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.Token == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != "Bearer "+s.Token:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			next(w, r)
		}
	}
}

// notFound answers what no route takes: its path, or its method.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	refused := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", s.allow[r.URL.Path])
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
	switch r.URL.Path {
	case api.PathHealth:
		refused(w, r)
	case api.PathFile, api.PathTar, api.PathProcs, api.PathDiscovery:
		s.bearer(refused)(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := api.Health{Version: "microvmtest", Bootstrapped: s.Token != "", Execs: uint(len(s.execs)),
		Hooks: []api.HookObservation{}, IdentitySteps: []api.IdentityStep{}}
	for _, e := range s.order {
		h.Busy = h.Busy || !e.ended()
	}
	answer(w, h)
}

func (s *Server) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, api.Discovery{DefaultUser: s.DefaultUser})
}

func (s *Server) procs(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := api.ProcsResponse{Procs: []api.ProcGroup{}}
	for _, e := range s.order {
		out.Procs = append(out.Procs, e.group())
	}
	answer(w, out)
}

// find looks an exec up and answers 404 when it is unknown.
func (s *Server) find(w http.ResponseWriter, r *http.Request) *exec {
	id := r.PathValue("id")
	s.mu.Lock()
	e := s.execs[id]
	s.mu.Unlock()
	if e == nil {
		refuse(w, api.UnknownExec, id)
	}
	return e
}

// Wait blocks until the exec has ended or ctx is over; it reports which.
func (s *Server) Wait(ctx context.Context, id string) bool {
	s.mu.Lock()
	e := s.execs[id]
	s.mu.Unlock()
	if e == nil {
		return false
	}
	select {
	case <-e.done:
		return true
	case <-ctx.Done():
		return false
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", api.MediaJSON)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a peer that left is its own affair
}

func refuse(w http.ResponseWriter, code api.Code, detail string) {
	w.Header().Set("Content-Type", api.MediaJSON)
	w.WriteHeader(code.Status())
	_ = json.NewEncoder(w).Encode(api.Error{Code: code, Detail: detail})
}
