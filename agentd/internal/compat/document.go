// Package compat holds the schema of a daemon to the one of the last release
// (wire facts, section 12). An image carries its daemon for as long as it
// lives while clients move on, so a schema must keep faith in both directions:
// an old client with a new daemon, and a new client with an old one.
//
// Compare finds what breaks that faith, Judge holds the breaks found to those
// declared, and Lines lists a schema line by line for tables written by hand.
// Narrowed types, lost values of an enumeration, media types, limits and the
// framing of tunnels are left to review: no rule here looks at them.
package compat

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is a schema document as far as the rules look at it, with every
// reference resolved.
type Document struct {
	Protocol string // the protocol version
	Routes   []Route
	Limits   map[string]jsontext.Value // numbers as they are written; no rule looks at them
}

// Route is one route, named by method and path.
type Route struct {
	Method, Path, Auth string
	Statuses           []Status
	Query, Request     *Shape // nil: none, or one that is not described
	Response           *Shape // nil as well for a body that is described by a note
	Body               bool   // whether an answer has a body
	Events             []Event
}

// Status is an answer that a route may give. Error is its error code, empty
// for none.
type Status struct {
	Code  int
	Error string
}

// Event is an event of a stream.
type Event struct {
	Name string
	Data *Shape
}

// Name returns the method and the path, which name a route.
func (r Route) Name() string { return r.Method + " " + r.Path }

func (s Status) String() string {
	if s.Error == "" {
		return fmt.Sprint(s.Code)
	}
	return fmt.Sprint(s.Code, " ", s.Error)
}

// wire is the document as it is encoded.
type wire struct {
	Defs     map[string]node           `json:"$defs"`
	Protocol string                    `json:"protocol_version"`
	Routes   []wireRoute               `json:"routes"`
	Limits   map[string]jsontext.Value `json:"limits"`
}

type wireRoute struct {
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Auth     string    `json:"auth"`
	Query    *wireBody `json:"query"`
	Request  *wireBody `json:"request"`
	Response *wireBody `json:"response"`
	Statuses []struct {
		Code  int    `json:"code"`
		Error string `json:"error"`
	} `json:"statuses"`
	Events []struct {
		Event  string `json:"event"`
		Schema *node  `json:"schema"`
	} `json:"sse_events"`
}

type wireBody struct {
	Schema *node `json:"schema"`
}

// Parse reads a schema document. It refuses what the rules could not judge: a
// shape of a kind unknown to them, a reference to nothing, a definition that
// contains itself, a route listed twice, and a document without routes.
func Parse(text []byte) (*Document, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("cannot read the schema: %w", err)
	}
	if len(w.Routes) == 0 || w.Protocol == "" {
		return nil, fmt.Errorf("cannot read the schema: it has %d routes and the protocol version %q", len(w.Routes), w.Protocol)
	}
	d := &Document{Protocol: w.Protocol, Limits: w.Limits}
	seen := map[string]bool{}
	for _, wr := range w.Routes {
		r, err := parseRoute(w.Defs, wr)
		if err != nil {
			return nil, fmt.Errorf("cannot read route %q of the schema: %w", wr.Method+" "+wr.Path, err)
		}
		if seen[r.Name()] {
			return nil, fmt.Errorf("cannot read the schema: it lists %q twice", r.Name())
		}
		seen[r.Name()] = true
		d.Routes = append(d.Routes, r)
	}
	return d, nil
}

func parseRoute(defs map[string]node, w wireRoute) (r Route, err error) {
	if w.Method == "" || w.Path == "" || len(w.Statuses) == 0 {
		return r, fmt.Errorf("it has no method, no path or no status")
	}
	r = Route{Method: w.Method, Path: w.Path, Auth: w.Auth, Body: w.Response != nil}
	for _, part := range []struct {
		name string
		from *wireBody
		to   **Shape
	}{{"query", w.Query, &r.Query}, {"request", w.Request, &r.Request}, {"response", w.Response, &r.Response}} {
		if part.from == nil || part.from.Schema == nil {
			continue
		}
		if *part.to, err = resolve(defs, *part.from.Schema, nil); err != nil {
			return r, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	for _, s := range w.Statuses {
		r.Statuses = append(r.Statuses, Status{s.Code, s.Error})
	}
	slices.SortFunc(r.Statuses, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Error, b.Error))
	})
	for i, s := range r.Statuses[1:] {
		if s == r.Statuses[i] {
			return r, fmt.Errorf("it lists the status %v twice", s)
		}
	}
	for _, e := range w.Events {
		if e.Schema == nil {
			return r, fmt.Errorf("event %q has no schema", e.Event)
		}
		data, err := resolve(defs, *e.Schema, nil)
		if err != nil {
			return r, fmt.Errorf("event %q: %w", e.Event, err)
		}
		r.Events = append(r.Events, Event{e.Event, data})
	}
	return r, nil
}
