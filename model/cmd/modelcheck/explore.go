package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"microvms/model"
)

type listCommand struct {
	JSON bool `name:"json" help:"Print one JSON object a configuration."`
}

func (c *listCommand) run(env environment) (int, error) {
	e := json.NewEncoder(env.stdout)
	e.SetEscapeHTML(false)
	for i, s := range env.suites {
		if !c.JSON {
			if i > 0 {
				fmt.Fprintln(env.stdout)
			}
			fmt.Fprintf(env.stdout, "%s: %s\n", s.Name, s.Summary)
		}
		for _, k := range s.Cases {
			x := k.Expect()
			if c.JSON {
				if err := e.Encode(struct {
					Suite    string       `json:"suite"`
					Config   string       `json:"config"`
					Expected model.Expect `json:"expected"`
				}{s.Name, k.Name(), x}); err != nil {
					return exitInconclusive, err
				}
				continue
			}
			what := "holds"
			if len(x.Violated) > 0 {
				what = fmt.Sprintf("%d violated", len(x.Violated))
			}
			line := fmt.Sprintf("  %-40s  %-12s  %s", s.Name+":"+k.Name(), what, x.Deviation)
			fmt.Fprintln(env.stdout, strings.TrimRight(line, " "))
		}
	}
	return exitHolds, nil
}

type simulateCommand struct {
	Model  string `arg:"" name:"model[:config]" help:"What to simulate."`
	Config string `short:"c" placeholder:"NAME" help:"The configuration, as an alternative to MODEL:CONFIG."`
	Seed   uint64 `default:"1" help:"Seed: the same one gives the same walks."`
	Walks  int    `short:"n" default:"1000" help:"Number of walks."`
	Length int    `short:"l" default:"100" help:"Most steps of a walk."`
	JSON   bool   `name:"json" help:"Print the report as JSON."`
	bounds
}

func (c *simulateCommand) run(env environment) (int, error) {
	t, o, err := one(env, c.Model, c.Config, c.bounds)
	if err != nil {
		return exitUsage, err
	}
	if c.Walks < 1 || c.Length < 1 {
		return exitUsage, usage("--walks and --length take numbers from 1")
	}
	o.Seed, o.Walks, o.WalkLength = c.Seed, c.Walks, c.Length
	r, err := t.c.Simulate(env.ctx, o)
	if err != nil {
		return codeOf(err), err
	}
	res := &caseResult{Suite: t.suite.Name, Report: r, Problems: []string{}}
	k := checkCommand{Format: "text"}
	if c.JSON {
		e := json.NewEncoder(env.stdout)
		e.SetEscapeHTML(false)
		return res.code(true), e.Encode(r)
	}
	return res.code(true), k.print(env.stdout, res, true)
}

// one finds the configuration and the options of a command that works on one.
func one(env environment, name, config string, b bounds) (target, model.Options, error) {
	t, err := findOne(env.suites, name, config)
	if err != nil {
		return t, model.Options{}, err
	}
	o, err := b.options(env.stderr)
	return t, o, err
}

type graphCommand struct {
	Model  string `arg:"" name:"model[:config]" help:"What to explore."`
	Config string `short:"c" placeholder:"NAME" help:"The configuration, as an alternative to MODEL:CONFIG."`
	Format string `short:"f" enum:"dot,aut,json" default:"dot" help:"Graphviz, Aldebaran or JSON: ${enum}."`
	bounds
}

func (c *graphCommand) run(env environment) (int, error) {
	t, o, err := one(env, c.Model, c.Config, c.bounds)
	if err != nil {
		return exitUsage, err
	}
	return writeGraph(env, t, o, c.Format)
}

func writeGraph(env environment, t target, o model.Options, format string) (int, error) {
	g, err := t.c.Graph(env.ctx, o)
	if err != nil {
		return codeOf(err), err
	}
	write := map[string]func(io.Writer) error{"dot": g.WriteDOT, "aut": g.WriteAUT, "json": g.WriteJSON}[format]
	if err := write(env.stdout); err != nil {
		return exitInconclusive, err
	}
	return exitHolds, nil
}

type coverCommand struct {
	Model  string `arg:"" name:"model[:config]" help:"What to cover."`
	Config string `short:"c" placeholder:"NAME" help:"The configuration, as an alternative to MODEL:CONFIG."`
	Length int    `short:"l" default:"100" help:"Extend no path beyond this many steps."`
	Format string `short:"f" enum:"text,json" default:"text" help:"How paths are printed: ${enum}."`
	bounds
}

func (c *coverCommand) run(env environment) (int, error) {
	t, o, err := one(env, c.Model, c.Config, c.bounds)
	if err != nil {
		return exitUsage, err
	}
	if c.Length < 1 {
		return exitUsage, usage("--length takes a number from 1")
	}
	o.WalkLength = c.Length
	r, err := t.c.Cover(env.ctx, o)
	if err != nil {
		return codeOf(err), err
	}
	if c.Format == "json" {
		e := json.NewEncoder(env.stdout)
		e.SetEscapeHTML(false)
		return exitHolds, e.Encode(r)
	}
	for i, p := range r.Paths {
		fmt.Fprintf(env.stdout, "path %d of %d, %d steps\n", i+1, len(r.Paths), p.Len())
		if err := p.WriteText(env.stdout); err != nil {
			return exitInconclusive, err
		}
	}
	fmt.Fprintf(env.stdout, "paths=%d steps=%d transitions=%d\n", len(r.Paths), r.Steps, r.Transitions)
	return exitHolds, nil
}

type exportCommand struct {
	Model    string `arg:"" name:"model[:config]" help:"What to export."`
	Config   string `short:"c" placeholder:"NAME" help:"The configuration, as an alternative to MODEL:CONFIG."`
	Format   string `short:"f" enum:"itf,json,text,dot,aut" default:"json" help:"itf and text write paths, dot and aut the graph, json the whole report: ${enum}."`
	Property string `short:"p" placeholder:"NAME" help:"The path of this property only."`
	bounds
}

func (c *exportCommand) run(env environment) (int, error) {
	t, o, err := one(env, c.Model, c.Config, c.bounds)
	if err != nil {
		return exitUsage, err
	}
	if c.Format == "dot" || c.Format == "aut" {
		return writeGraph(env, t, o, c.Format)
	}
	r, err := t.c.Check(env.ctx, o)
	if err != nil {
		return codeOf(err), err
	}
	if c.Property != "" && !hasProperty(r, c.Property) {
		return exitUsage, usage("%s has no property %q", t.name(), c.Property)
	}
	switch c.Format {
	case "itf":
		return exitHolds, printITF(env.stdout, r, c.Property)
	case "text":
		return exitHolds, printPaths(env.stdout, r, c.Property)
	}
	r.Timing = model.Timing{} // an export is the same bytes in every run
	e := json.NewEncoder(env.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return exitHolds, e.Encode(r)
}

// printITF writes the paths of a report, one ITF object after the other.
func printITF(w io.Writer, r *model.Report, only string) error {
	for _, p := range r.Properties {
		if p.Path != nil && (only == "" || p.Name == only) {
			if err := p.Path.WriteITF(w, r.Model+":"+r.Config+": "+p.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func printPaths(w io.Writer, r *model.Report, only string) error {
	for _, p := range r.Properties {
		if p.Path == nil || only != "" && p.Name != only {
			continue
		}
		what := "counterexample of"
		if p.Verdict == model.Holds {
			what = "witness of"
		}
		fmt.Fprintf(w, "%s %q, %d steps\n", what, p.Name, p.Path.Len())
		if err := p.Path.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}
