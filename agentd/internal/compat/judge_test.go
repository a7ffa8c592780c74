package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestJudge holds breaks found to breaks declared.
func TestJudge(t *testing.T) {
	t.Attr("requirement", "SCHEMA-10")
	t.Attr("requirement", "SCHEMA-11")
	const line = `POST /x: request: field "a": it disappeared`
	a, b := request(object("a")), request(object())
	entry := func(version, line string) Break { return Break{version, line, "because"} }
	for _, c := range []struct {
		name       string
		from, to   string
		last, next string
		declared   []Break
		want       []string
	}{
		{"no break, no new version", "2", "2", a, a, nil, nil},
		{"no break, a new version", "2", "3", a, a, nil, nil},
		{"a break without a new version", "2", "2", a, b, nil, []string{"break within protocol version 2: " + line}},
		{"a break declared without a new version", "2", "2", a, b, []Break{entry("2", line)}, []string{"break within protocol version 2: " + line}},
		{"a break not declared", "2", "3", a, b, nil, []string{"undeclared break: " + line}},
		{"a break declared for an earlier version", "2", "3", a, b, []Break{entry("2", line)}, []string{"undeclared break: " + line}},
		{"a break declared for a later version", "2", "3", a, b, []Break{entry("4", line)}, []string{`declared for version "4"`, "undeclared break: " + line}},
		{"a break declared", "2", "3", a, b, []Break{entry("3", line)}, nil},
		{"one declared too many", "2", "3", a, b, []Break{entry("3", line), entry("3", "other")}, []string{"declared break that is none: other"}},
		{"declared and not made", "2", "3", a, a, []Break{entry("3", line)}, []string{"declared break that is none: " + line}},
		{"history stays after the release", "3", "3", b, b, []Break{entry("3", line)}, nil},
		{"over two digits", "9", "10", a, b, []Break{entry("10", line)}, nil},
		{"a version that goes back", "3", "2", a, a, nil, []string{`protocol version "2" cannot follow`}},
		{"a version that is no number", "2", "2b", a, a, nil, []string{`protocol version "2b" cannot follow`}},
	} {
		got := Judge(parse(t, doc(c.from, c.last, "")), parse(t, doc(c.to, c.next, "")), Declared{Breaks: c.declared})
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestParseDeclared checks the file of declarations.
func TestParseDeclared(t *testing.T) {
	t.Attr("requirement", "SCHEMA-11")
	const good = "[[break]]\nversion=\"3\"\nline=\"l\"\nreason=\"r\"\n"
	for _, c := range []struct{ text, want string }{
		{"", ""}, {good, ""}, {good + strings.Replace(good, "3", "4", 1), ""},
		{good + good, "declares it twice"},
		{strings.Replace(good, `"r"`, `" "`, 1), "all required"},
		{strings.Replace(good, `"l"`, `""`, 1), "all required"},
		{strings.Replace(good, `"3"`, `""`, 1), "all required"},
		{strings.Replace(good, "reason", "why", 1), "unknown key"},
		{"[[framing]]\nversion=\"2\"\nwhat=\"w\"\n", "all required"},
		{"[[framing]]\nversion=\"2\"\nwhat=\"w\"\nreason=\"r\"\n", ""},
		{"[[", "cannot read"},
	} {
		_, err := ParseDeclared(c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestCommittedSchemaIsCompatible holds the committed schema to the released
// one.
func TestCommittedSchemaIsCompatible(t *testing.T) {
	for _, id := range []string{"SCHEMA-5", "SCHEMA-6", "SCHEMA-7", "SCHEMA-8", "SCHEMA-9", "SCHEMA-10", "SCHEMA-11"} {
		t.Attr("requirement", id)
	}
	d, err := ParseDeclared(string(read(t, committed+"breaks.toml")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range Judge(parse(t, read(t, committed+"released.json")), parse(t, read(t, committed+"current.json")), d) {
		t.Error(w)
	}
}

// TestCommittedSchemaIsGuarded takes each route, status, event and required
// field out of the committed schema in turn: each loss that matters turns the
// check red.
func TestCommittedSchemaIsGuarded(t *testing.T) {
	for _, id := range []string{"SCHEMA-5", "SCHEMA-7", "SCHEMA-8"} {
		t.Attr("requirement", id)
	}
	last := parse(t, read(t, committed+"current.json"))
	var kinds [4]int
	lost := func(kind int, what string, edit func(doc map[string]any)) {
		var doc map[string]any
		if err := json.NewDecoder(bytes.NewReader(read(t, committed+"current.json"))).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		edit(doc)
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		kinds[kind]++
		if got := Judge(last, parse(t, text), Declared{}); len(got) == 0 {
			t.Errorf("%s is lost, and nothing is found", what)
		}
	}
	routeOf := func(doc map[string]any, i int) map[string]any { return doc["routes"].([]any)[i].(map[string]any) }
	for i, r := range last.Routes {
		lost(0, r.Name(), func(doc map[string]any) {
			doc["routes"] = slices.Delete(doc["routes"].([]any), i, i+1)
		})
		for j := range r.Statuses {
			if len(r.Statuses) == 1 {
				break // a route without statuses is refused as unreadable
			}
			lost(1, fmt.Sprint(r.Name(), " status ", j), func(doc map[string]any) {
				route := routeOf(doc, i)
				route["statuses"] = slices.Delete(route["statuses"].([]any), j, j+1)
			})
		}
		for j := range r.Events {
			lost(2, fmt.Sprint(r.Name(), " event ", j), func(doc map[string]any) {
				route := routeOf(doc, i)
				route["sse_events"] = slices.Delete(route["sse_events"].([]any), j, j+1)
			})
		}
	}
	for _, field := range []string{"StartRequest.exec_id", "StartRequest.env", "StreamQuery.offset", "FsQuery.path", "TunnelQuery.identity", "StdinRequest.data_b64",
		"StartResponse.phase", "PollResponse.exec_id", "OutputEvent.output", "ExitEvent.offset", "ProcGroup.pids", "DiskHealth.reserve_bytes", "HandlerOutcome.duration_ms"} {
		name, key, _ := strings.Cut(field, ".")
		lost(3, field, func(doc map[string]any) {
			def := doc["$defs"].(map[string]any)[name].(map[string]any)
			delete(def["properties"].(map[string]any), key)
			required, _ := def["required"].([]any)
			def["required"] = slices.DeleteFunc(required, func(r any) bool { return r == key })
		})
	}
	if kinds[0] < 21 || kinds[1] < 80 || kinds[2] != 3 || kinds[3] != 13 {
		t.Errorf("too few losses were tried: %v", kinds)
	}
}
