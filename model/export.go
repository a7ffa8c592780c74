package model

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteText writes the path for people: numbered steps, each with its action and
// the fields that it changed. The initial state, number 0, shows all fields.
func (p *Path) WriteText(w io.Writer) error {
	// CHECK-23: only what changed, because a path is read for its differences.
	b := bufio.NewWriter(w)
	width := len(strconv.Itoa(len(p.Steps)))
	for i, st := range p.Steps {
		action := st.Action
		if i == 0 {
			action = "initial state"
		}
		mark := " "
		if i == p.Loop && p.Loop < len(p.Steps) {
			mark = ">"
		}
		fmt.Fprintf(b, "%s%*d  %s\n", mark, width, i, action)
		if len(st.Changed) == 0 {
			fmt.Fprintf(b, "%*s  (nothing changes)\n", width+3, "")
		}
		for _, f := range st.Changed {
			fmt.Fprintf(b, "%*s  %s = %s\n", width+3, "", f.Name, f.Value)
		}
	}
	switch {
	case p.Loop >= len(p.Steps):
		fmt.Fprintf(b, " %*s  and the last state stutters for ever\n", width, "")
	case p.Loop >= 0:
		fmt.Fprintf(b, " %*s  and again from step %d, for ever\n", width, "", p.Loop)
	}
	return b.Flush()
}

// WriteJSON writes the path as indented JSON, as [Report] holds it.
func (p *Path) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(p)
}

// WriteITF writes the path in Apalache's Informal Trace Format (its ADR 15), which trace viewers
// read. Fields are strings, except those that are integers or booleans; the
// action is the variable "action" ("action_taken" when the state has a field of that name).
func (p *Path) WriteITF(w io.Writer, name string) error {
	b := bufio.NewWriter(w)
	action := "action"
	for _, f := range p.Steps[0].State {
		if f.Name == action {
			action = "action_taken"
		}
	}
	vars := []string{action}
	for _, f := range p.Steps[0].State {
		vars = append(vars, f.Name)
	}
	fmt.Fprintf(b, "{\n  \"#meta\": {\"format\": \"ITF\", \"format-description\": \"https://apalache.informal.systems/docs/adr/015adr-trace.html\", \"source\": %s},\n", jsonString(name))
	fmt.Fprintf(b, "  \"vars\": [")
	for i, v := range vars {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(jsonString(v))
	}
	b.WriteString("],\n")
	if p.Loop >= 0 {
		fmt.Fprintf(b, "  \"loop\": %d,\n", min(p.Loop, len(p.Steps)-1))
	}
	b.WriteString("  \"states\": [\n")
	for i, st := range p.Steps {
		fmt.Fprintf(b, "    {\"#meta\": {\"index\": %d}, %s: %s", i, jsonString(action), jsonString(st.Action))
		for _, f := range st.State {
			fmt.Fprintf(b, ", %s: %s", jsonString(f.Name), itfValue(f.Value))
		}
		b.WriteString("}")
		if i < len(p.Steps)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("  ]\n}\n")
	return b.Flush()
}

// itfValue renders a field's value: integers as ITF's big integers, booleans as such.
func itfValue(v string) string {
	if v == "true" || v == "false" {
		return v
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
		return `{"#bigint": ` + jsonString(v) + `}`
	}
	return jsonString(v)
}

func jsonString(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a strings.Builder never fails
	return strings.TrimSuffix(b.String(), "\n")
}

// WriteDOT writes the graph for Graphviz: initial states have a double border.
func (g *Graph) WriteDOT(w io.Writer) error {
	// CHECK-22, CHECK-26: in the order of the numbers, which is that of a sequential search.
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph %s {\n  node [shape=box, fontname=monospace];\n", dotString(g.title()))
	initial := map[int]bool{}
	for _, n := range g.Initial {
		initial[n] = true
	}
	for i, n := range g.Nodes {
		var label strings.Builder
		for k, f := range n.Fields {
			if k > 0 {
				label.WriteString("\n")
			}
			label.WriteString(f.Name + " = " + f.Value)
		}
		extra := ""
		if initial[i] {
			extra = ", peripheries=2"
		}
		fmt.Fprintf(b, "  s%d [label=%s%s];\n", i, dotString(label.String()), extra)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(b, "  s%d -> s%d [label=%s];\n", e.From, e.To, dotString(e.Action))
	}
	b.WriteString("}\n")
	return b.Flush()
}

// dotString quotes s for DOT, where a line ends with \n.
func dotString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func (g *Graph) title() string {
	if g.Config == "" {
		return g.Model
	}
	return g.Model + ":" + g.Config
}

// WriteAUT writes the graph in the Aldebaran format of CADP and mCRL2. The
// format has one initial state: with several, state 0 is an added one that an
// action "init" leads from to each of them, and the others move up by one.
func (g *Graph) WriteAUT(w io.Writer) error {
	b := bufio.NewWriter(w)
	shift := 0
	if len(g.Initial) != 1 {
		shift = 1
	}
	extra := shift * len(g.Initial)
	first := 0
	if shift == 0 {
		first = g.Initial[0]
	}
	fmt.Fprintf(b, "des (%d, %d, %d)\n", first, len(g.Edges)+extra, len(g.Nodes)+shift)
	if shift == 1 {
		for _, n := range g.Initial {
			fmt.Fprintf(b, "(0, \"init\", %d)\n", n+shift)
		}
	}
	for _, e := range g.Edges {
		fmt.Fprintf(b, "(%d, \"%s\", %d)\n", e.From+shift, strings.ReplaceAll(e.Action, `"`, `'`), e.To+shift)
	}
	return b.Flush()
}

// WriteJSON writes the graph as one JSON object.
func (g *Graph) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(g)
}
