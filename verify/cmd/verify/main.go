// Command verify runs the project's gate and writes its reports.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"microvms/model"
	"microvms/verify"
)

// version is stamped by the linker (-X main.version=…).
var version = "0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const description = `Checks the requirements' language, explores the models, replays their transitions on the real daemon, judges
concurrent histories, runs the tests, and joins what was looked at into a matrix.

Exit codes: 0 everything holds, 1 something is violated, 2 usage, 3 inconclusive (a bound was reached).`

type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Root string  `help:"The repository's root." default:"." placeholder:"DIR"`
	Run  runCmd  `cmd:"" default:"withargs" help:"Run the gate and write its reports (the default)."`
	Test testCmd `cmd:"" help:"Run every test, with a summary: what make test calls."`
}

type runCmd struct {
	Stages     []string `help:"Run only these: lint, models, replay, histories, tests, matrix." placeholder:"NAME,…"`
	FailOnSkip bool     `help:"Count a skipped test as a violation."`
	Out        string   `help:"Where the reports go; default verify/report below the root." placeholder:"DIR"`
}

type testCmd struct {
	Race       string   `help:"auto, on or off: the race detector needs a C compiler." enum:"auto,on,off" default:"auto"`
	FailOnSkip bool     `help:"Fail when a test was skipped."`
	Packages   []string `arg:"" optional:"" help:"Packages; default ./..."`
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("verify"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Vars{"version": "verify " + version}, kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintf(stderr, "verify: internal error: %v\n", err)
		return 1
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "verify: %v\ntry verify --help\n", err)
		return 2
	}
	if parsed.Command() == "test" || parsed.Command() == "test <packages>" {
		return verify.RunTests(ctx, verify.TestOptions{
			Root: c.Root, Race: c.Test.Race, FailOnSkip: c.Test.FailOnSkip, Packages: c.Test.Packages, Out: stdout,
		})
	}
	return gate(ctx, c, stdout, stderr)
}

func gate(ctx context.Context, c cli, stdout, stderr io.Writer) int {
	progress := &verify.Progress{Out: stderr}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		progress.Terminal = true
		progress.Width, _, _ = term.GetSize(int(f.Fd()))
	}
	report, err := verify.Run(ctx, verify.Options{Root: c.Root, Stages: c.Run.Stages, FailOnSkip: c.Run.FailOnSkip, Progress: progress})
	if err != nil {
		fmt.Fprintf(stderr, "verify: %v\n", err)
		return 2
	}
	out := c.Run.Out
	if out == "" {
		out = c.Root + "/verify/report"
	}
	if err := report.Write(out); err != nil {
		fmt.Fprintf(stderr, "verify: %v\n", err)
		return 1
	}
	if _, err := fmt.Fprintf(stdout, "verdict=%s seconds=%.0f report=%s/index.html\n", report.Verdict, report.Seconds, out); err != nil {
		fmt.Fprintf(stderr, "verify: cannot write the verdict: %v\n", err)
		return verify.ExitCode(model.Inconclusive)
	}
	return verify.ExitCode(report.Verdict)
}
