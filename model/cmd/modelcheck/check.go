package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"microvms/model"
)

type checkCommand struct {
	Model  string   `arg:"" optional:"" name:"model[:config]" help:"What to check; all configurations of the model when none is named."`
	Config string   `short:"c" placeholder:"NAME" help:"The configuration, as an alternative to MODEL:CONFIG."`
	All    bool     `short:"a" help:"Check all configurations of all models, each against what it is expected to find."`
	Except []string `placeholder:"MODEL,…" help:"With --all: leave these models out."`
	DFS    bool     `name:"dfs" help:"Search depth-first, with one worker: counterexamples are not shortest, liveness is not judged."`
	First  bool     `name:"stop-at-first" help:"Stop after the level of the first violation."`
	JSON   bool     `name:"json" help:"Print one JSON object a configuration."`
	Format string   `enum:"text,json,itf" default:"text" help:"How counterexamples are printed: ${enum}."`
	bounds
}

// caseResult is the JSON object of one configuration: the report, and how it
// compares with what was expected.
type caseResult struct {
	Suite string `json:"suite"` // CHECK-28: the keys are pinned, because other programs read them
	*model.Report
	Expected   model.Expect `json:"expected"`
	AsExpected bool         `json:"as_expected"`
	Problems   []string     `json:"problems"`
	// Error is set, and the report has only a name and the verdict violated, when the model was refused or panicked.
	Error string `json:"error,omitempty"`
}

func (c *checkCommand) run(env environment) (int, error) {
	targets, err := c.targets(env.suites)
	if err != nil {
		return exitUsage, err
	}
	o, err := c.options(env.stderr)
	if err != nil {
		return exitUsage, err
	}
	o.StopAtFirst = c.First
	if c.DFS {
		o.Mode = model.DFS
	}
	if c.JSON {
		c.Format = "json"
	}
	// One named configuration is asked what it is; several are compared with what they should be.
	single := !c.All && len(targets) == 1
	code, failed := exitHolds, 0
	for i := 0; i < len(targets); {
		suite := targets[i].suite
		var results []*caseResult
		for ; i < len(targets) && targets[i].suite.Name == suite.Name; i++ {
			results = append(results, checkOne(env, targets[i], o))
		}
		if c.All {
			challenge(suite, results)
			staleWaivers(suite, results)
		}
		for _, r := range results {
			if err := c.print(env.stdout, r, single); err != nil {
				return exitInconclusive, err
			}
			if !r.AsExpected {
				failed++
			}
			code = worse(code, r.code(single))
		}
	}
	if c.Format == "text" && !single {
		fmt.Fprintf(env.stdout, "%d configurations, %d not as expected\n", len(targets), failed)
	}
	return code, nil
}

func (c *checkCommand) targets(suites []model.Suite) ([]target, error) {
	if !c.All {
		if len(c.Except) > 0 {
			return nil, usage("--except leaves models out of --all; there is none to leave out")
		}
		if c.Model == "" {
			return nil, usage("name a model (\"modelcheck list\" shows them), or pass --all")
		}
		return find(suites, c.Model, c.Config)
	}
	if c.Model != "" {
		return nil, usage("--all checks every model; leave %q out, or drop --all", c.Model)
	}
	for _, name := range c.Except {
		if !slices.ContainsFunc(suites, func(s model.Suite) bool { return s.Name == name }) {
			return nil, usage("--except %q: no such model (\"modelcheck list\" shows them)", name)
		}
	}
	var all []target
	for _, s := range suites {
		if slices.Contains(c.Except, s.Name) {
			continue
		}
		for _, k := range s.Cases {
			all = append(all, target{s, k})
		}
	}
	if len(all) == 0 {
		return nil, usage("the catalogue holds no model, so there is nothing to check")
	}
	return all, nil
}

func checkOne(env environment, t target, o model.Options) *caseResult {
	r, err := t.c.Check(env.ctx, o)
	res := &caseResult{Suite: t.suite.Name, Report: r, Expected: t.c.Expect(), Problems: []string{}}
	if err != nil {
		res.Error = err.Error()
		res.Report = &model.Report{Model: t.suite.Name, Config: t.c.Name(), Verdict: model.Violated, Reason: res.Error}
		res.Problems = []string{res.Error}
		return res
	}
	if problems := res.Expected.Compare(r); problems != nil {
		res.Problems = problems
	}
	res.AsExpected = len(res.Problems) == 0
	return res
}

// challenge adds, to the first configuration of a suite that has the property,
// that nothing shows it can fail.
func challenge(s model.Suite, results []*caseResult) {
	var reports []*model.Report
	for _, r := range results {
		reports = append(reports, r.Report)
	}
	for _, name := range s.Unchallenged(reports) {
		for _, r := range results {
			if hasProperty(r.Report, name) {
				r.Problems = append(r.Problems, fmt.Sprintf("property %q: no seeded deviation violates it", name))
				r.AsExpected = false
				break
			}
		}
	}
}

// staleWaivers adds, to the first configuration of a suite, its waivers that are
// not needed.
func staleWaivers(s model.Suite, results []*caseResult) {
	var reports []*model.Report
	for _, r := range results {
		reports = append(reports, r.Report)
	}
	for _, name := range s.StaleWaivers(reports) {
		r := results[0]
		r.Problems = append(r.Problems, fmt.Sprintf("property %q: the waiver in NotSeeded is not needed; take it out", name))
		r.AsExpected = false
	}
}

func hasProperty(r *model.Report, name string) bool {
	for _, p := range r.Properties {
		if p.Name == name {
			return true
		}
	}
	return false
}

// code is the exit code that a result asks for.
func (r *caseResult) code(single bool) int {
	switch {
	case r.Error != "":
		return exitViolated
	case !single && r.AsExpected:
		return exitHolds
	case single && r.Verdict == model.Holds:
		return exitHolds
	case r.Verdict == model.Inconclusive:
		return exitInconclusive
	}
	return exitViolated
}

// worse keeps a violation over an inconclusive answer over a pass.
func worse(a, b int) int {
	if a == exitViolated || b == exitViolated {
		return exitViolated
	}
	return max(a, b)
}

func (c *checkCommand) print(w io.Writer, r *caseResult, single bool) error {
	switch c.Format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(r)
	case "itf":
		return printITF(w, r.Report, "")
	}
	if !single {
		return printLine(w, r)
	}
	return printText(w, r)
}

// printLine prints one configuration of many: a line, and what is not as
// expected.
func printLine(w io.Writer, r *caseResult) error {
	var b strings.Builder
	mark := "ok  "
	if !r.AsExpected {
		mark = "FAIL"
	}
	fmt.Fprintf(&b, "%s  %-44s  %-12s  %s\n", mark, r.Suite+":"+r.Config, r.Verdict, r.Summary())
	for _, p := range r.Problems {
		b.WriteString(indent(indent(indent(p))) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printText prints a report for people.
func printText(w io.Writer, r *caseResult) error {
	var b strings.Builder
	title := r.Suite + ":" + r.Config
	if r.Error != "" {
		fmt.Fprintf(&b, "%s: refused\n%s\n", title, indent(r.Error))
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "%s: %s\n", title, r.Verdict)
	if r.Expected.Deviation != "" {
		fmt.Fprintf(&b, "  deviation: %s\n", r.Expected.Deviation)
	}
	if r.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", r.Reason)
	}
	for _, p := range r.Properties {
		printProperty(&b, &p)
	}
	printActions(&b, r.Report)
	if len(r.Expected.Violated) > 0 && r.AsExpected {
		b.WriteString("  this is what the configuration is expected to find\n")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  not as expected: %s\n", p)
	}
	if !r.Exact && r.Distinct > 0 {
		fmt.Fprintf(&b, "  expected fingerprint collisions: %.1e\n", r.Collisions)
	}
	fmt.Fprintf(&b, "%s\n", r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func printProperty(b *strings.Builder, p *model.PropertyReport) {
	verdict := string(p.Verdict)
	if p.Vacuous {
		verdict = "vacuous"
	}
	fmt.Fprintf(b, "  %-12s  %-14s  %s", verdict, p.Kind, p.Name)
	if len(p.Requirements) > 0 {
		fmt.Fprintf(b, "  [%s]", strings.Join(p.Requirements, " "))
	}
	b.WriteString("\n")
	if p.Path != nil && p.Verdict == model.Violated {
		var text strings.Builder
		_ = p.Path.WriteText(&text) // a strings.Builder never fails
		b.WriteString(indent(indent(text.String())) + "\n")
	}
}

func printActions(b *strings.Builder, r *model.Report) {
	width := 6
	for _, a := range r.Actions {
		width = max(width, len(a.Name))
	}
	fmt.Fprintf(b, "  %-*s  %12s  %12s  %12s\n", width, "action", "enabled", "taken", "changed")
	for _, a := range r.Actions {
		fmt.Fprintf(b, "  %-*s  %12d  %12d  %12d\n", width, a.Name, a.Enabled, a.Taken, a.Changed)
	}
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}
