// Command modelcheck explores the models of this module and judges their
// properties.
//
//	modelcheck list
//	modelcheck check bootstrap:held
//	modelcheck check --all --json
//	modelcheck graph bootstrap:held --format dot
//
// It exits with 0 when everything holds, 1 when something is violated, 2 for a
// usage error and 3 when a bound made the answer inconclusive.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"microvms/model"
	"microvms/model/catalog"
)

// The exit codes.
//
// CHECK-16: scripts tell the four outcomes apart by them.
const (
	exitHolds        = 0
	exitViolated     = 1
	exitUsage        = 2
	exitInconclusive = 3
)

// version is stamped by the linker (-X main.version=…).
var version = "0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command on the catalogue of the module.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOn(ctx, catalog.All(), args, stdout, stderr)
}

type commandLine struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	List     listCommand     `cmd:"" help:"List the models and their configurations."`
	Check    checkCommand    `cmd:"" help:"Explore configurations completely and judge their properties."`
	Simulate simulateCommand `cmd:"" help:"Walk a configuration at random: finds violations in spaces too large to finish, and proves nothing."`
	Graph    graphCommand    `cmd:"" help:"Write the reachable graph of a configuration."`
	Cover    coverCommand    `cmd:"" help:"Write paths that together take every transition of a configuration."`
	Export   exportCommand   `cmd:"" help:"Write counterexamples and witnesses, or the graph, in a format for other tools."`
}

// bounds are the flags that limit an exploration.
type bounds struct {
	Workers   int      `short:"w" placeholder:"N" help:"Goroutines that expand states; the results are the same for any number. Default: one a processor."`
	Depth     int      `short:"d" placeholder:"N" help:"Do not expand states on paths of this many states."`
	MaxStates uint64   `placeholder:"N" help:"Expand no further level once this many distinct states are known."`
	Memory    size     `short:"m" placeholder:"SIZE" help:"Stop when the visited set and frontier need more, as in 512MiB or 4GiB."`
	Timeout   duration `placeholder:"DURATION" help:"Stop after this time, as in 30s or 5m."`
	Exact     bool     `help:"Compare whole states instead of 64-bit fingerprints."`
	Progress  bool     `help:"Print progress to stderr, at most once a second, even when it is no terminal."`
}

// environment is what commands run with.
type environment struct {
	ctx            context.Context
	suites         []model.Suite
	stdout, stderr io.Writer
}

// sink is an output that remembers its first failure, so that a report that was
// lost is never taken for one that was read.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	var n int
	n, s.err = s.w.Write(p)
	return n, s.err
}

// exitStatus ends kong's parse, after --help for example.
type exitStatus int

func runOn(ctx context.Context, suites []model.Suite, args []string, stdout, stderr io.Writer) int {
	out := &sink{w: stdout}
	code, err := command(ctx, suites, args, out, stderr)
	if out.err != nil {
		// CHECK-16: whatever was found, nobody has read it.
		code, err = exitInconclusive, fmt.Errorf("cannot write the output: %w", out.err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "modelcheck: %v\n", err)
	}
	return code
}

func command(ctx context.Context, suites []model.Suite, args []string, stdout, stderr io.Writer) (code int, err error) {
	defer func() {
		if r := recover(); r != nil {
			status, ok := r.(exitStatus)
			if !ok {
				panic(r)
			}
			code = int(status)
		}
	}()
	var cli commandLine
	parser, err := kong.New(&cli, kong.Name("modelcheck"), kong.Writers(stdout, stderr),
		kong.Description("Explores the models of the daemon and the manager and judges their properties. Exit code: 0 holds, 1 violated, 2 usage, 3 inconclusive."),
		kong.Exit(func(c int) { panic(exitStatus(c)) }), kong.Vars{"version": "modelcheck " + version}, kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		panic("modelcheck: internal error: " + err.Error())
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return exitUsage, fmt.Errorf("%w\nrun \"modelcheck --help\" for the commands, \"modelcheck COMMAND --help\" for its flags", err)
	}
	var chosen interface {
		run(environment) (int, error)
	}
	switch parsed.Selected().Name {
	case "list":
		chosen = &cli.List
	case "check":
		chosen = &cli.Check
	case "simulate":
		chosen = &cli.Simulate
	case "graph":
		chosen = &cli.Graph
	case "cover":
		chosen = &cli.Cover
	default:
		chosen = &cli.Export
	}
	return chosen.run(environment{ctx: ctx, suites: suites, stdout: stdout, stderr: stderr})
}

// errUsage is wrapped by errors that the caller can mend on the command line.
var errUsage = errors.New("")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w%s", errUsage, fmt.Sprintf(format, args...))
}

// codeOf gives the exit code of an error of the library: a refused model or a
// panic is a violation of the checker's rules; an exploration that could not
// finish is inconclusive.
func codeOf(err error) int {
	var p *model.PanicError
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, model.ErrRefused), errors.As(err, &p):
		return exitViolated
	}
	return exitInconclusive
}
