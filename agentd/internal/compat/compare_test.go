package compat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// doc returns a document with one route of the given parts, as JSON text.
func doc(version, parts, defs string) []byte {
	return fmt.Appendf(nil, `{"protocol_version":%q,"$defs":{%s},"routes":[{"method":"POST","path":"/x",%s}]}`, version, defs, parts)
}

const ok = `"statuses":[{"code":200,"error":""}]`

// request, response and event place one schema in a route.
func request(schema string) string {
	return ok + `,"request":{"media_type":"application/json","schema":` + schema + `}`
}

func query(schema string) string {
	return ok + `,"query":{"schema":` + schema + `}`
}

func response(schema string) string {
	return ok + `,"response":{"media_type":"application/json","schema":` + schema + `}`
}

func event(schema string) string {
	return ok + `,"sse_events":[{"event":"e","schema":` + schema + `}]`
}

// object writes an object's schema from "name", "name!" (required), "name="
// (with a default), "name?" (nullable) and mixtures of them.
func object(fields ...string) string {
	var properties, required []string
	for _, f := range fields {
		name := strings.TrimRight(f, "!=?")
		shape := `"type":"string"`
		if strings.Contains(f, "?") {
			shape = `"type":["string","null"]`
		}
		if strings.Contains(f, "=") {
			shape += `,"default":null`
		}
		if strings.Contains(f, "!") {
			required = append(required, fmt.Sprintf("%q", name))
		}
		properties = append(properties, fmt.Sprintf(`%q:{%s}`, name, shape))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`
}

// rules are the rules of wire facts, section 12, each with what it forbids and
// what it allows.
var rules = []struct {
	name      string
	last, now string // the parts of the route
	want      []string
}{
	{"nothing changes", request(object("a!", "b")), request(object("a!", "b")), nil},

	{"a status disappears", ok[:len(ok)-1] + `,{"code":409,"error":"c"}]`, ok, []string{"POST /x: status 409 c disappeared"}},
	{"a status keeps its code and changes its error", `"statuses":[{"code":409,"error":"c"}]`, `"statuses":[{"code":409,"error":"d"}]`,
		[]string{"POST /x: status 409 c disappeared"}},
	{"a status is new", ok, ok[:len(ok)-1] + `,{"code":409,"error":"c"}]`, nil},
	{"an event disappears", event(object()), ok, []string{`POST /x: event "e" disappeared`}},
	{"an event is new", ok, event(object("a!")), nil},

	{"a request field turns required", request(object("a")), request(object("a!")), []string{`POST /x: request: field "a": it turned required`}},
	{"a request field with a default turns required", request(object("a=")), request(object("a!=")), []string{`POST /x: request: field "a": it turned required`}},
	{"a request field is new and required", request(object()), request(object("a!")), []string{`POST /x: request: field "a": it is new and required`}},
	{"a request body is new with a required field", ok, request(object("a!", "b")), []string{`POST /x: request: field "a": it is new and required`}},
	{"a request field is new and optional", request(object()), request(object("a")), nil},
	{"a request body is new without required fields", ok, request(object("a")), nil},
	{"a required request field turns optional", request(object("a!")), request(object("a")), []string{`POST /x: request: field "a": it turned optional`}},
	{"an optional request field is dropped", request(object("a=")), request(object()), []string{`POST /x: request: field "a": it disappeared`}},
	{"a request body is dropped", request(object("a!", "b")), ok, []string{`POST /x: request: field "a": it disappeared`, `POST /x: request: field "b": it disappeared`}},
	{"a query field turns required", query(object("a")), query(object("a!")), []string{`POST /x: query: field "a": it turned required`}},
	{"a query field turns optional", query(object("a!")), query(object("a")), []string{`POST /x: query: field "a": it turned optional`}},
	{"a query is dropped", query(object("a")), ok, []string{`POST /x: query: field "a": it disappeared`}},
	{"a query is new with a required field", ok, query(object("a!")), []string{`POST /x: query: field "a": it is new and required`}},

	{"a response loses its body", response(object()), ok, []string{"POST /x: the response lost its body"}},
	{"a response becomes opaque", response(object("a!")), ok + `,"response":{"note":"bytes"}`, []string{`POST /x: response: field "a": it disappeared, and has neither default nor null`}},
	{"an opaque response loses its body", ok + `,"response":{"note":"bytes"}`, ok, []string{"POST /x: the response lost its body"}},
	{"a response gets a body", ok, response(object("a=!")), nil},
	{"a required response field disappears", response(object("a!")), response(object()), []string{`POST /x: response: field "a": it disappeared, and has neither default nor null`}},
	{"a required response field turns optional", response(object("a!")), response(object("a")), []string{`POST /x: response: field "a": it is no longer always there, and has neither default nor null`}},
	{"a required response field turns optional with a default", response(object("a!")), response(object("a=")), []string{`POST /x: response: field "a": it is no longer always there, and has neither default nor null`}},
	{"a required response field with a default disappears", response(object("a!=")), response(object()), nil},
	{"a required nullable response field disappears", response(object("a!?")), response(object()), nil},
	{"a required nullable response field turns optional", response(object("a!?")), response(object("a?")), nil},
	{"an optional response field disappears", response(object("a")), response(object()), nil},
	{"a response field turns required without a default", response(object("a")), response(object("a!")), []string{`POST /x: response: field "a": it turned required without a default`}},
	{"a response field is new and required without a default", response(object()), response(object("a!?")), []string{`POST /x: response: field "a": it turned required without a default`}},
	{"a response field is new, required, with a default", response(object()), response(object("a!=")), nil},
	{"a response field turns required with a default", response(object("a")), response(object("a!=")), nil},
	{"a response field is new and optional", response(object()), response(object("a")), nil},
	{"an event's field disappears", event(object("a!")), event(object()), []string{`POST /x: event e: field "a": it disappeared, and has neither default nor null`}},
	{"an event's field turns required", event(object("a")), event(object("a!")), []string{`POST /x: event e: field "a": it turned required without a default`}},

	{"a field deep in a response disappears", response(nested(object("a!"))), response(nested(object())),
		[]string{`POST /x: response: field "list": elements: field "in": field "a": it disappeared, and has neither default nor null`}},
	{"a field deep in a request turns required", request(nested(object("a"))), request(nested(object("a!"))),
		[]string{`POST /x: request: field "list": elements: field "in": field "a": it turned required`}},
	{"a scalar takes the place of an object in a response", response(nested(object("a!"))), response(nested(`{"type":"string"}`)),
		[]string{`POST /x: response: field "list": elements: field "in": field "a": it disappeared, and has neither default nor null`}},
	{"a type narrows, which is left to review", response(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`),
		response(`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`), nil},
}

// nested hides a schema behind an array and a choice with null.
func nested(inner string) string {
	return `{"type":"object","required":["list"],"properties":{"list":{"type":"array","items":{"type":"object","required":["in"],` +
		`"properties":{"in":{"anyOf":[` + inner + `,{"type":"null"}]}}}}}}`
}

// TestRules turns each rule red, and checks that what it allows passes.
func TestRules(t *testing.T) {
	for _, id := range []string{"SCHEMA-5", "SCHEMA-6", "SCHEMA-7", "SCHEMA-8", "SCHEMA-9"} {
		t.Attr("requirement", id)
	}
	for _, c := range rules {
		got := Compare(parse(t, doc("2", c.last, "")), parse(t, doc("2", c.now, "")))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestRouteDisappears drops, moves and adds routes.
func TestRouteDisappears(t *testing.T) {
	t.Attr("requirement", "SCHEMA-5")
	two := []byte(`{"protocol_version":"2","routes":[{"method":"GET","path":"/a",` + ok + `},{"method":"PUT","path":"/a",` + ok + `}]}`)
	one := []byte(`{"protocol_version":"2","routes":[{"method":"PUT","path":"/a",` + ok + `}]}`)
	if got := Compare(parse(t, two), parse(t, one)); !slices.Equal(got, []string{"GET /a: the route disappeared"}) {
		t.Errorf("dropped: %q", got)
	}
	if got := Compare(parse(t, one), parse(t, two)); got != nil {
		t.Errorf("added: %q", got)
	}
	moved := []byte(strings.ReplaceAll(string(one), "/a", "/b"))
	if got := Compare(parse(t, one), parse(t, moved)); !slices.Equal(got, []string{"PUT /a: the route disappeared"}) {
		t.Errorf("moved: %q", got)
	}
}

// TestNamesOfDefinitions renames a definition, and changes one that two routes
// share: the name does not matter, and both uses are judged.
func TestNamesOfDefinitions(t *testing.T) {
	t.Attr("requirement", "SCHEMA-12")
	at := func(name string) string { return `{"$ref":"#/$defs/` + name + `"}` }
	def := func(name string, fields ...string) string { return `"` + name + `":` + object(fields...) }
	last := parse(t, doc("2", request(at("A"))+`,"response":{"schema":`+at("A")+`}`, def("A", "a!")))
	for _, c := range []struct {
		name, defs, req, resp string
		want                  int
	}{
		{"renamed", def("B", "a!"), "B", "B", 0},
		{"split in two", def("B", "a!") + "," + def("C", "a!"), "B", "C", 0},
		{"the name now means another shape", def("A", "b!") + "," + def("B", "a!"), "B", "B", 0},
		{"changed where it is a response", def("A", "a!") + "," + def("B", "b"), "A", "B", 1},
		{"changed where it is both", def("A", "a"), "A", "A", 2},
	} {
		next := parse(t, doc("2", request(at(c.req))+`,"response":{"schema":`+at(c.resp)+`}`, c.defs))
		if got := Compare(last, next); len(got) != c.want {
			t.Errorf("%s: %q, want %d breaks", c.name, got, c.want)
		}
	}
}

// TestRefusals feeds what the rules cannot judge: it is refused, not skipped.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[]`, "cannot read the schema"},
		{`{"protocol_version":"2","routes":[]}`, "0 routes"},
		{`{"routes":[{"method":"GET","path":"/a",` + ok + `}]}`, "version \"\""},
		{`{"protocol_version":"2","routes":[{"method":"GET","path":"",` + ok + `}]}`, "no path"},
		{`{"protocol_version":"2","routes":[{"method":"GET","path":"/a"}]}`, "no status"},
		{`{"protocol_version":"2","routes":[{"method":"GET","path":"/a",` + ok + `},{"method":"GET","path":"/a",` + ok + `}]}`, "twice"},
		{string(doc("2", `"statuses":[{"code":200},{"code":200}]`, "")), "status 200 twice"},
		{string(doc("2", request(`{"$ref":"#/$defs/No"}`), "")), "cannot find the definition"},
		{string(doc("2", request(`{"$ref":"No"}`), `"No":{"type":"string"}`)), "cannot find the definition"},
		{string(doc("2", request(`{"$ref":"#/$defs/A"}`), `"A":{"type":"array","items":{"$ref":"#/$defs/A"}}`)), "contains itself"},
		{string(doc("2", request(`{"type":"object","patternProperties":{}}`), "")), "patternProperties"},
		{string(doc("2", request(`{"allOf":[]}`), "")), "allOf"},
		{string(doc("2", request(`{}`), "")), "cannot judge the type"},
		{string(doc("2", request(`{"type":["string","integer"]}`), "")), "cannot judge the type"},
		{string(doc("2", request(`{"type":"string","properties":{"a":{"type":"string"}}}`), "")), "cannot judge a string"},
		{string(doc("2", request(`{"type":"object","required":["a"]}`), "")), "no shape"},
		{string(doc("2", request(`{"anyOf":[{"type":"string"},`+object("a")+`]}`), "")), "cannot judge a choice"},
		{string(doc("2", ok+`,"sse_events":[{"event":"e"}]`, "")), "has no schema"},
	} {
		if d, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%v), want %q", c.text, err, d, c.want)
		}
	}
}
