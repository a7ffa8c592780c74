package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"microvms/agentd/api"
	"microvms/agentd/trace"
)

// access is what a route asks of its caller.
type access string

// The kinds of access, worded as the schema publishes them.
const (
	bearer access = "bearer"
	open   access = "none"
	hook   access = "none (platform hook)"
)

// route is one line of the table from which the router, the Allow headers and
// the schema are made.
type route struct {
	method string
	path   string
	access access
	handle func(*answer, *request)
	doc    routeDoc
}

// table returns the routes in the order in which the schema lists them.
func (s *Server) table() []route {
	var routes []route
	for _, name := range api.Hooks() {
		routes = append(routes, route{"POST", api.HookPrefix + "/" + name, hook,
			func(a *answer, r *request) { s.hook(a, r, name) }, hookDoc(name)})
	}
	return append(routes,
		route{"POST", api.PathExecStart, bearer, s.execStart, startDoc},
		route{"GET", api.PathExec, bearer, s.execPoll, pollDoc},
		route{"GET", api.PathExecStream, bearer, s.execStream, streamDoc},
		route{"POST", api.PathExecStdin, bearer, s.execStdin, stdinDoc},
		route{"POST", api.PathExecAck, bearer, s.execAck, ackDoc},
		route{"POST", api.PathExecKill, bearer, s.execKill, killDoc},
		route{"GET", api.PathProcs, bearer, s.procs, procsDoc},
		route{"GET", api.PathTunnel, bearer, s.tunnel, tunnelDoc},
		route{"GET", api.PathDiscovery, bearer, s.discovery, discoveryDoc},
		route{"GET", api.PathFile, bearer, s.fileGet, fileGetDoc},
		route{"PUT", api.PathFile, bearer, s.filePut, filePutDoc},
		route{"GET", api.PathTar, bearer, s.tarGet, tarGetDoc},
		route{"PUT", api.PathTar, bearer, s.tarPut, tarPutDoc},
		route{"GET", api.PathHealth, open, s.health, healthDoc},
		route{"GET", api.PathSchema, open, s.serveSchema, schemaDoc},
	)
}

// router builds the chi router: one entry a path, whatever the method.
func (s *Server) router() *chi.Mux {
	mux := chi.NewMux()
	byPath := map[string][]route{}
	for _, r := range s.routes {
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, routes := range byPath {
		mux.Handle(path, s.entry(routes))
	}
	// XPORT-2: a path that is not in the table is 404 even without a bearer: a mistyped
	// path must not send its author looking for credentials.
	mux.NotFound(func(w http.ResponseWriter, _ *http.Request) { w.(*answer).empty(http.StatusNotFound) })
	return mux
}

// entry serves one path: bearer first, then method, then the declared length.
func (s *Server) entry(routes []route) http.HandlerFunc {
	allow, kind, withID := methods(routes), routes[0].access, strings.Contains(routes[0].path, "{id}")
	return func(w http.ResponseWriter, hr *http.Request) {
		a, r := w.(*answer), hr.Context().Value(requestKey{}).(*request)
		if withID {
			var ok bool
			if r.id, ok = execID(hr); !ok {
				a.empty(http.StatusNotFound) // an empty segment is no id, so no route
				return
			}
		}
		// AUTHZ-6: hooks, health and schema ask for no bearer.
		if kind == bearer {
			a.point = trace.Point{Action: trace.ControlAnswer, Request: r.serial}
			if !s.authorize(a, r) {
				return
			}
			r.body.conn.authorized()
		}
		rt, ok := choose(routes, r.Method)
		if !ok {
			// XPORT-3: after the bearer, from the table that routes.
			a.Header().Set("Allow", allow)
			a.empty(http.StatusMethodNotAllowed)
			return
		}
		if kind == bearer {
			if r.body.declared > s.limits.MaxBodyBytes {
				// XPORT-10: refused by its declared length, after the bearer and before any byte.
				r.body.closing = true
				a.text(http.StatusRequestEntityTooLarge, s.tooLarge())
				return
			}
			p := trace.Point{Action: trace.ControlServe, Request: r.serial, Exec: r.id}
			s.pass(p)
			s.record(p)
		}
		rt.handle(a, r)
	}
}

func (s *Server) tooLarge() string {
	return fmt.Sprintf("request body exceeds %d bytes\n", s.limits.MaxBodyBytes)
}

func choose(routes []route, method string) (route, bool) {
	if method == http.MethodHead {
		method = http.MethodGet // XPORT-18: GET routes answer HEAD; net/http drops the body
	}
	for _, r := range routes {
		if r.method == method {
			return r, true
		}
	}
	return route{}, false
}

func unescapeSegment(s string) (string, error) { return url.PathUnescape(s) }
