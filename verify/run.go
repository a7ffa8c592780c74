package verify

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"microvms/model"
)

// Options say what to run and where.
type Options struct {
	Root       string    // the repository's root
	OutDir     string    // where the reports go; default Root/verify/report
	Stages     []string  // names to run, in their own order; empty means all
	FailOnSkip bool      // a skipped test is a violation: for machines where nothing may be missing
	Progress   *Progress // nil: silent
}

// StageNames lists the stages in the order in which they run.
var StageNames = []string{"lint", "models", "replay", "histories", "tests", "matrix"}

// budgets bound each stage, well above what it takes: a bound reached is inconclusive.
var budgets = map[string]time.Duration{
	"lint": 5 * time.Minute, "models": 10 * time.Minute, "replay": 15 * time.Minute, "histories": 15 * time.Minute,
	"tests": 15 * time.Minute, "matrix": 2 * time.Minute,
}

const (
	replayPackages    = "conformance/replay"
	historiesPackages = "conformance/histories"
)

func (o Options) eachTest(stage string) func(*Test) {
	if o.Progress == nil {
		return nil
	}
	return func(t *Test) { o.Progress.Step(stage, shortPackage(t.Package)+":"+t.Name) }
}

// left names the stages before the matrix that will not run.
func (o Options) left() []string {
	return slices.DeleteFunc(slices.Clone(StageNames), o.wants)
}

func (o Options) wants(name string) bool {
	return len(o.Stages) == 0 || slices.Contains(o.Stages, name)
}

// Run runs the stages and returns the report; it writes nothing. The error is about a stage name that does not exist
// or a root that cannot be read; everything found wrong is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	for _, n := range o.Stages {
		if !slices.Contains(StageNames, n) {
			return nil, fmt.Errorf("cannot run stage %q: the stages are %s", n, strings.Join(StageNames, ", "))
		}
	}
	if _, err := os.Stat(filepath.Join(o.Root, "go.mod")); err != nil {
		return nil, fmt.Errorf("cannot find the repository at %q: run from its root or give --root: %w", o.Root, err)
	}
	results, err := os.MkdirTemp("", "verify-results-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for results: %w", err)
	}
	defer os.RemoveAll(results)
	start, before := time.Now(), ReadMachine()
	r := &Report{Schema: 1, Commit: commit(ctx, o.Root), StartedAt: start.UTC().Format(time.RFC3339)}
	g := &gate{Options: o, report: r, results: results, sources: Sources{Left: o.left()}}
	for _, name := range StageNames {
		// VERIFY-12: the list selects and never orders, because later stages judge what earlier ones found.
		if !o.wants(name) {
			continue
		}
		o.Progress.Begin(name)
		st := runStage(ctx, name, budgets[name], g.body(name))
		r.Stages = append(r.Stages, st)
		o.Progress.End(st)
	}
	r.holdMachine(before, ReadMachine())
	r.Seconds = time.Since(start).Seconds()
	r.Verdict = overall(r.Stages)
	if len(o.left()) > 0 && r.Verdict == model.Holds {
		r.Verdict = model.Inconclusive // VERIFY-29: each stage that ran holds; of the others nothing is known
	}
	return r, nil
}

// holdMachine charges a change of the machine to the last stage.
func (r *Report) holdMachine(before, after Machine) {
	if changed := before.Changed(after); changed != "" && len(r.Stages) > 0 {
		// VERIFY-13: whichever stage it was, the run as a whole has left its sandbox.
		last := &r.Stages[len(r.Stages)-1]
		last.problem("the run changed the machine: %s", changed)
		last.judge()
	}
}

// gate carries what one stage finds to the stages after it.
type gate struct {
	Options
	report  *Report
	results string
	sources Sources
}

func (g *gate) body(name string) func(context.Context, *Stage) {
	return map[string]func(context.Context, *Stage){
		"lint": g.lint, "models": g.models, "replay": g.replay, "histories": g.histories, "tests": g.tests, "matrix": g.matrix,
	}[name]
}

func (g *gate) models(ctx context.Context, s *Stage) {
	var progress io.Writer
	if g.Progress != nil {
		progress = g.Progress.Lines("models")
	}
	cases := checkModels(ctx, g.Root, progress, s)
	g.sources.Models = cases
	for _, c := range cases {
		g.report.Models = append(g.report.Models, modelEntry(c))
	}
}

func (g *gate) replay(ctx context.Context, s *Stage) {
	run := conformanceTests(ctx, g.Options, g.results, s, "./"+replayPackages+"/...")
	g.keep(run)
	replays, err := readResults[Replay](g.results, ".replay.json")
	if err != nil {
		s.problem("%v", err)
	}
	JudgeReplays(replays, s)
	g.sources.Replays, g.report.Replays = replays, replays
	g.report.addReplays(replays)
}

func (g *gate) histories(ctx context.Context, s *Stage) {
	run := conformanceTests(ctx, g.Options, g.results, s, "./"+historiesPackages+"/...")
	g.keep(run)
	histories, err := readResults[History](g.results, ".history.json")
	if err != nil {
		s.problem("%v", err)
	}
	JudgeHistories(histories, s)
	g.sources.Histories, g.report.Histories = histories, histories
}

// tests runs every package that no other stage ran: no test runs in two stages.
func (g *gate) tests(ctx context.Context, s *Stage) {
	packages, err := listPackages(ctx, g.Root)
	if err != nil {
		s.problem("%v", err)
		return
	}
	packages = slices.DeleteFunc(packages, func(p string) bool {
		p = shortPackage(p)
		return p == replayPackages || p == historiesPackages || strings.HasPrefix(p, replayPackages+"/") || strings.HasPrefix(p, historiesPackages+"/")
	})
	run, err := goTest(ctx, g.Root, nil, g.eachTest("tests"), append([]string{"-count=1", "-timeout=15m"}, packages...)...)
	if err != nil {
		s.problem("%v", err)
	}
	if run != nil {
		judgeTests(run, g.Options, s)
		s.count("packages", int64(len(packages)))
	}
	g.keep(run)
}

func (g *gate) keep(run *TestRun) {
	if run != nil {
		g.sources.Runs = append(g.sources.Runs, run)
	}
}

func (g *gate) matrix(_ context.Context, s *Stage) {
	set, err := loadRequirements(g.Root)
	if err != nil {
		s.problem("%v", err)
		return
	}
	g.sources.Needs = set.needs
	cites, mentions, files, err := Scan(g.Root, set.families)
	if err != nil {
		s.problem("%v", err)
	}
	s.count("files", int64(files))
	s.count("citations", int64(len(cites)))
	g.sources.Citations, g.sources.Mentions = cites, mentions
	faults, err := LoadFaults(g.Root)
	if err != nil {
		s.problem("%v", err)
	}
	g.checkFaults(faults, s)
	g.sources.Faults = faults
	s.requireLooked("files", "citations", "faults")
	g.report.Requirements = BuildMatrix(g.sources, s)
}

// checkFaults holds the registry to the code: each anchor matches once. Whether the named test exists can only be
// known when all tests ran.
func (g *gate) checkFaults(faults []Fault, s *Stage) {
	var ran func(pkg, test string) bool
	if len(g.sources.Left) == 0 {
		ran = func(pkg, test string) bool {
			return slices.ContainsFunc(g.sources.Runs, func(r *TestRun) bool { return r.Has(pkg, test) })
		}
	}
	seen := map[string]bool{}
	for _, f := range faults {
		s.count("faults", 1)
		if p := checkFault(g.Root, f, ran); p != "" {
			s.problem("%s", p)
		}
		if seen[f.ID] {
			s.problem("fault %q is recorded twice", f.ID)
		}
		seen[f.ID] = true
	}
}

func listPackages(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func commit(ctx context.Context, root string) string {
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
