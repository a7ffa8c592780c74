package httpapi

import (
	"net/http"
	"slices"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/internal/limits"
	"microvms/agentd/internal/schema"
)

// routeDoc is what the schema says about a route beyond its method and path.
// Values stand for their types.
type routeDoc struct {
	summary  string
	query    any
	request  any
	upload   string // media type of a request that is not JSON
	carries  string // what an upload is
	response any
	note     string // in place of a schema, for an answer that is not JSON
	media    string // of the answer; empty: JSON
	statuses []statusDoc
	events   []eventDoc
}

type statusDoc struct {
	code    int
	slug    api.Code
	meaning string
}

type eventDoc struct {
	name    string
	value   any
	meaning string
}

// Describe returns the schema document of a daemon with this version and these
// limits, compact and with sorted keys, without starting one. It is what such
// a daemon serves at GET /v1/schema, byte for byte.
func Describe(version string, l limits.Limits) []byte {
	s := &Server{config: Config{Version: version}, limits: l}
	s.routes = s.table()
	return s.describe()
}

// describe builds the schema document once: it depends on the configuration
// alone.
func (s *Server) describe() []byte {
	defs := schema.New()
	routes := make([]any, 0, len(s.routes))
	for _, r := range s.routes {
		// SCHEMA-2: from the table that routes, so that none is served and not listed.
		routes = append(routes, describeRoute(defs, r))
	}
	doc, err := schema.Marshal(schema.Object{
		"$defs":                 defs.All(),
		"$schema":               schema.Dialect,
		"auth":                  describeAuth(),
		"daemon_version":        s.config.Version,
		"definition_collisions": []any{},
		"generated_from":        "the Go types that the daemon encodes and decodes, and its route table",
		"hook_prefix":           api.HookPrefix,
		"limits":                s.describeLimits(),
		"protocol_version":      api.ProtocolVersion,
		"routes":                routes,
		"title":                 "microvms-agentd wire protocol",
		"unmatched_path":        schema.Object{"code": http.StatusNotFound, "meaning": "no such route, with or without a credential"},
		"version_header":        api.HeaderVersion,
	})
	if err != nil {
		panic("httpapi: internal error: cannot encode the schema: " + err.Error())
	}
	return doc
}

func describeAuth() schema.Object {
	return schema.Object{
		"scheme": "bearer",
		"header": "authorization",
		"bootstrap": schema.Object{
			"how":              "the platform posts the token to the run hook at launch",
			"before_bootstrap": "503 on every bearer route",
			"wrong_token":      "401",
			"note":             "the token is compared byte for byte in constant time",
		},
	}
}

func (s *Server) describeLimits() schema.Object {
	l, seconds := s.limits, func(d time.Duration) any { return schema.Seconds(d.Seconds()) }
	return schema.Object{
		"max_body_bytes":           l.MaxBodyBytes,
		"max_output_bytes":         l.MaxOutputBytes,
		"max_stdin_write_bytes":    l.MaxStdinWriteBytes,
		"max_tar_members":          l.MaxTarMembers,
		"max_tar_bytes":            l.MaxTarBytes,
		"max_drain_bytes":          l.MaxDrainBytes,
		"stream_replay_bytes":      l.StreamBufferBytes,
		"sse_keepalive_secs":       seconds(l.SSEKeepalive),
		"stdin_write_timeout_secs": seconds(l.StdinWriteTimeout),
		"exec_ttl_secs":            seconds(l.ExecTTL),
		"output_linger_secs":       seconds(l.OutputLinger),
		"kill_grace_secs":          seconds(l.KillGrace),
	}
}

func describeRoute(defs *schema.Definitions, r route) schema.Object {
	d := r.doc
	out := schema.Object{
		"method": r.method, "path": r.path, "auth": string(r.access), "summary": d.summary,
		"request": nil, "response": nil,
	}
	if d.query != nil {
		out["query"] = schema.Object{"media_type": api.MediaQuery, "schema": defs.Request(d.query)}
	}
	if d.request != nil {
		out["request"] = schema.Object{"media_type": api.MediaJSON, "schema": defs.Request(d.request)}
	}
	if d.upload != "" {
		out["request"] = schema.Object{"media_type": d.upload, "note": d.carries}
	}
	switch {
	case d.response != nil:
		out["response"] = schema.Object{"media_type": api.MediaJSON, "schema": defs.Response(d.response)}
	case d.note != "":
		out["response"] = schema.Object{"media_type": d.media, "note": d.note}
	}
	statuses := []any{}
	for _, s := range d.allStatuses(r.access) {
		statuses = append(statuses, schema.Object{"code": s.code, "error": string(s.slug), "meaning": s.meaning})
	}
	out["statuses"] = statuses
	if d.events != nil {
		events := []any{}
		for _, e := range d.events {
			events = append(events, schema.Object{"event": e.name, "schema": defs.Response(e.value), "meaning": e.meaning})
		}
		out["sse_events"] = events
	}
	return out
}

// allStatuses adds what every bearer route may answer, unless the route says
// it itself.
func (d routeDoc) allStatuses(kind access) []statusDoc {
	all := slices.Clone(d.statuses)
	if kind != bearer {
		return all
	}
	for _, s := range []statusDoc{
		{http.StatusUnauthorized, "", "the bearer is missing, malformed or not the installed token"},
		{http.StatusRequestEntityTooLarge, "", "the request body exceeds limits.max_body_bytes"},
		{http.StatusServiceUnavailable, "", "no token is installed yet"},
	} {
		if !slices.ContainsFunc(d.statuses, func(o statusDoc) bool { return o.code == s.code && o.slug == s.slug }) {
			all = append(all, s)
		}
	}
	return all
}

// serveSchema serves GET /v1/schema, without a bearer and before bootstrap.
func (s *Server) serveSchema(a *answer, _ *request) {
	// SCHEMA-1: built once, from what the daemon really serves.
	a.bytes(http.StatusOK, api.MediaJSON, s.schema)
}
