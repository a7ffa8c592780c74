package agentd_test

import (
	"strings"
	"sync"
	"testing"

	"microvms/agentd/api"
	"microvms/agentd/internal/compat"
	"microvms/agentd/internal/httpapi"
	"microvms/agentd/internal/limits"
)

// described is the schema as the routes' handlers must keep to it.
var described = sync.OnceValues(func() (*compat.Document, error) {
	return compat.Parse(httpapi.Describe("", limits.Limits{}.WithDefaults()))
})

// unlisted says what the schema leaves out about an answer, or "" when the
// schema lists it. What is true of every route alike stands in no route: a
// path without a route, a method that the path does not have, and the answer
// to a defect of the daemon.
func unlisted(doc *compat.Document, method, path string, r reply) string {
	head := method == "HEAD" // answers as GET does, without the body that tells the error
	if head {
		method = "GET"
	}
	if r.status == 405 || (r.status == 500 && r.body == "internal error\n") {
		return ""
	}
	path, _, _ = strings.Cut(path, "?")
	for _, route := range doc.Routes {
		if route.Method != method || !pathFits(route.Path, path) {
			continue
		}
		var code api.Code
		if r.status >= 400 && r.header.Get("Content-Type") == api.MediaJSON {
			code = r.code()
		}
		got := compat.Status{Code: r.status, Error: string(code)}
		for _, s := range route.Statuses {
			if s == got || head && s.Code == got.Code {
				return ""
			}
		}
		return route.Name() + " answered " + got.String() + ", which the schema does not list"
	}
	return ""
}

// pathFits compares a path with a route's, segment by segment.
func pathFits(route, path string) bool {
	want, got := strings.Split(route, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && (want[i] != "{id}" || got[i] == "" || path == api.PathExecStart) {
			return false
		}
	}
	return true
}

// TestUnlistedIsNoticed checks the judge that every answer in this package's
// tests goes through.
func TestUnlistedIsNoticed(t *testing.T) {
	t.Attr("requirement", "SCHEMA-2")
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	coded := func(status int, code api.Code) reply {
		return reply{status: status, header: map[string][]string{"Content-Type": {api.MediaJSON}}, body: `{"error":"` + string(code) + `","detail":""}`}
	}
	for _, c := range []struct {
		method, path string
		r            reply
		listed       bool
	}{
		{"GET", "/v1/health", reply{status: 200}, true},
		{"HEAD", "/v1/health", reply{status: 200}, true},
		{"GET", "/v1/health", reply{status: 503}, false},
		{"GET", "/v1/exec/a?x=1", coded(404, api.UnknownExec), true},
		{"GET", "/v1/exec/a", coded(404, api.StillRunning), false},
		{"GET", "/v1/exec/a", reply{status: 404}, false},
		{"POST", "/v1/exec/start", coded(404, api.UnknownExec), false},
		{"PUT", "/v1/fs/file?path=%2Fa", reply{status: 507}, true},
		{"PUT", "/v1/fs/file?path=%2Fa", reply{status: 409}, false},
		{"GET", "/v1/none", reply{status: 404}, true},
		{"GET", "/v1/exec/start", reply{status: 405}, true},
	} {
		if got := unlisted(doc, c.method, c.path, c.r); (got == "") != c.listed {
			t.Errorf("%s %s %d %s: %q, want listed %v", c.method, c.path, c.r.status, c.r.code(), got, c.listed)
		}
	}
}
