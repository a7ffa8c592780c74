package compat

import (
	"fmt"
	"maps"
	"slices"
)

// Lines lists what a client can rely on, one fact a line: each route with its
// access, each status, each field of each body with its type, and each limit
// with its value. Routes keep their order, the rest is sorted. A table written
// by hand has the same form.
func Lines(d *Document) []string {
	lines := []string{"protocol " + d.Protocol}
	for _, name := range slices.Sorted(maps.Keys(d.Limits)) {
		lines = append(lines, fmt.Sprintf("limit %s: %s", name, d.Limits[name]))
	}
	for _, r := range d.Routes {
		lines = append(lines, fmt.Sprintf("route %s: %s", r.Name(), r.Auth))
		for _, s := range r.Statuses {
			lines = append(lines, fmt.Sprintf("status %s: %v", r.Name(), s))
		}
		lines = r.Query.lines(lines, "query "+r.Name()+":")
		lines = r.Request.lines(lines, "request "+r.Name()+":")
		if r.Body {
			lines = append(lines, "response "+r.Name()+": a body")
		}
		lines = r.Response.lines(lines, "response "+r.Name()+":")
		for _, e := range r.Events {
			lines = append(lines, fmt.Sprintf("event %s: %s", r.Name(), e.Name))
			lines = e.Data.lines(lines, fmt.Sprintf("event %s: %s:", r.Name(), e.Name))
		}
	}
	return lines
}

// lines appends one line for each field below s, with names joined by dots.
func (s *Shape) lines(to []string, prefix string) []string {
	return s.below(to, prefix+" ")
}

func (s *Shape) below(to []string, path string) []string {
	fields := s.fields()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := fields[name]
		line := path + name + " " + f.text()
		if f.Required {
			line += ", required"
		}
		if f.HasDefault {
			line += ", default"
		}
		to = append(to, line)
		to = f.Shape.below(to, path+name+".")
	}
	if e := s.elem(); e != nil {
		to = e.below(to, path+"[].")
	}
	return to
}

// text writes a type: "array of string", "integer int32 or null".
func (s *Shape) text() string {
	text := s.Type
	if s.Elem != nil {
		text += " of " + s.Elem.text()
	}
	if s.Nullable {
		text += " or null"
	}
	return text
}
