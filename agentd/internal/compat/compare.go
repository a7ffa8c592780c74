package compat

import (
	"fmt"
	"maps"
	"slices"
)

// Compare returns the breaks that a daemon with the schema next has for
// clients of one with the schema last, and the other way round, sorted, one
// line each. Routes, statuses and events are found by name, and shapes are
// compared where they are used: the names of definitions do not matter.
func Compare(last, next *Document) []string {
	c := &comparison{}
	now := map[string]Route{}
	for _, r := range next.Routes {
		now[r.Name()] = r
	}
	for _, was := range last.Routes {
		is, ok := now[was.Name()]
		if !ok {
			c.found(was.Name(), "the route disappeared") // SCHEMA-5: a client that knows it would get 404, which means an absent thing
			continue
		}
		c.route(was, is)
	}
	slices.Sort(c.breaks)
	return slices.Compact(c.breaks)
}

type comparison struct{ breaks []string }

func (c *comparison) found(where, format string, args ...any) {
	c.breaks = append(c.breaks, where+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) route(was, is Route) {
	name := was.Name()
	for _, s := range was.Statuses {
		if !slices.Contains(is.Statuses, s) {
			c.found(name, "status %v disappeared", s) // SCHEMA-5: clients branch on it
		}
	}
	c.input(name+": query", was.Query, is.Query)
	c.input(name+": request", was.Request, is.Request)
	if was.Body && !is.Body {
		c.found(name, "the response lost its body") // SCHEMA-8: an old client decodes it
	} else {
		c.output(name+": response", was.Response, is.Response)
	}
	for _, e := range was.Events {
		i := slices.IndexFunc(is.Events, func(o Event) bool { return o.Name == e.Name })
		if i < 0 {
			c.found(name, "event %q disappeared", e.Name) // SCHEMA-5: a reader waits for it
			continue
		}
		c.output(name+": event "+e.Name, e.Data, is.Events[i].Data)
	}
}

// input holds what a client sends to the rules of requests.
func (c *comparison) input(where string, was, is *Shape) {
	old, cur := was.fields(), is.fields()
	for _, name := range names(old, cur) {
		o, n := old[name], cur[name]
		at := fmt.Sprintf("%s: field %q", where, name)
		switch {
		case n == nil:
			c.found(at, "it disappeared") // SCHEMA-7: an old client's wish would be ignored in silence
			continue
		case n.Required && o == nil:
			c.found(at, "it is new and required") // SCHEMA-6: an old client does not send it
		case n.Required && !o.Required:
			c.found(at, "it turned required") // SCHEMA-6: an old client may leave it out
		case o != nil && o.Required && !n.Required:
			c.found(at, "it turned optional") // SCHEMA-7: a new client may leave it out, and an old daemon refuses that
		}
		if o != nil {
			c.input(at, o.Shape, n.Shape)
		}
	}
	if e := was.elem(); e != nil {
		c.input(where+": elements", e, is.elem())
	}
}

// output holds what a daemon sends to the rules of responses and events.
func (c *comparison) output(where string, was, is *Shape) {
	old, cur := was.fields(), is.fields()
	for _, name := range names(old, cur) {
		o, n := old[name], cur[name]
		at := fmt.Sprintf("%s: field %q", where, name)
		// SCHEMA-8: an old client has nothing to put in the place of a field without
		// default that is missing, unless it reads null there anyway.
		needed := o != nil && o.Required && !o.HasDefault && !o.Nullable
		switch {
		case n == nil && needed:
			c.found(at, "it disappeared, and has neither default nor null")
		case n != nil && needed && !n.Required:
			c.found(at, "it is no longer always there, and has neither default nor null")
		case n != nil && n.Required && (o == nil || !o.Required) && !n.HasDefault:
			c.found(at, "it turned required without a default") // SCHEMA-9: an old daemon may leave it out
		}
		if o != nil && n != nil {
			c.output(at, o.Shape, n.Shape)
		}
	}
	if e := was.elem(); e != nil {
		c.output(where+": elements", e, is.elem())
	}
}

// fields returns the fields of an object. Every other shape, and none, has no
// fields: what takes the place of an object has lost them.
func (s *Shape) fields() map[string]*Field {
	if s == nil {
		return nil
	}
	return s.Fields
}

// elem returns the shape of an array's items or a map's values, nil for none.
func (s *Shape) elem() *Shape {
	if s == nil {
		return nil
	}
	return s.Elem
}

// names returns the names in a or b, sorted.
func names(a, b map[string]*Field) []string {
	all := make(map[string]*Field, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
