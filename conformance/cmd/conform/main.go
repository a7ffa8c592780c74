// Command conform judges any daemon that speaks wire version 1: it drives it
// down the models' transitions, judges concurrent histories, and plays the
// catalogue of hostile inputs. It plays that of managers against any manager. It
// holds nothing of this repository's daemon or manager.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"microvms/conformance/child"
)

// version is stamped by the linker (-X main.version=…).
var version = "0.0.0-dev"

func main() {
	child.RunIfAsked() // this program is also the child that the replays let the daemon start
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
//
// CONF-6: one for each outcome, so that a script tells no proof from a refutation.
const (
	exitHolds        = 0
	exitViolated     = 1
	exitUsage        = 2
	exitInconclusive = 3
)

const description = `Judges any daemon that speaks wire version 1.

With --daemon a fresh process is started for each path and history; the command must read AGENTD_PORT, the
limits of wire facts section 3, and log a JSON line with msg "listening" and its addr. With --endpoint only what
needs neither a fresh process nor moved time is run, unless --reset names a command that puts a fresh daemon,
without a token, in its place. What was left out is named.

With --manager a manager of the Manager Socket Protocol is judged instead: a fresh process for each row of hostile
input. The command takes the flags of agentd manager; --executor names the demonstration executor's program.

  conform --daemon ./agentd
  conform --endpoint http://127.0.0.1:9000 --agent-token TOKEN --only histories
  conform --manager ./agentd --executor ./executor

Exit codes: 0 everything holds, 1 something is violated, 2 usage, 3 inconclusive.`

type cli struct {
	Daemon     string   `help:"The daemon's command; a process of its own for each path and history." placeholder:"BINARY"`
	Endpoint   string   `help:"A running daemon on this machine, http://HOST:PORT." placeholder:"URL"`
	Manager    string   `help:"A manager's command; a process of its own for each row." placeholder:"BINARY"`
	Executor   string   `help:"With --manager: the program of the demonstration executor, conformance/cmd/executor." placeholder:"BINARY"`
	AgentToken string   `help:"The token installed there (else $MICROVM_AGENT_TOKEN)." env:"MICROVM_AGENT_TOKEN" placeholder:"TOKEN"`
	Reset      string   `help:"With --endpoint: a shell command after which a fresh daemon listens there." placeholder:"CMD"`
	Only       []string `help:"Run only these parts: replay, histories, hostile." placeholder:"PART,…"`
	Rows       []string `help:"Of hostile input, only these rows: H1, W5, …" placeholder:"ROW,…"`
	Histories  int      `help:"Concurrent histories to judge, of each kind." default:"200"`
	Seed       uint64   `help:"Seed of the first history." default:"1"`
	Failures   string   `help:"Where failing histories are saved." default:"conform-failures" placeholder:"DIR"`
	JSON       bool     `name:"json" help:"Print one JSON object a line instead of text."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// validate refuses what cannot be run, before anything is started.
func (c *cli) validate() error {
	switch {
	case c.Manager != "" && (c.Daemon != "" || c.Endpoint != ""):
		return errors.New("--manager goes with neither --daemon nor --endpoint")
	case (c.Manager == "") != (c.Executor == ""):
		return errors.New("--manager and --executor go together")
	case c.Manager == "" && (c.Daemon == "") == (c.Endpoint == ""):
		return errors.New("give either --daemon or --endpoint")
	case c.Reset != "" && c.Endpoint == "":
		return errors.New("--reset goes with --endpoint")
	case c.Endpoint != "" && !strings.HasPrefix(c.Endpoint, "http://"):
		return fmt.Errorf("--endpoint %q is not of the form http://HOST:PORT", c.Endpoint)
	case c.Endpoint != "" && c.AgentToken == "" && c.Reset == "":
		return errors.New("--endpoint needs --agent-token, or --reset for a fresh daemon")
	case c.Histories < 1:
		return errors.New("--histories must be at least 1")
	}
	for _, p := range c.Only {
		if !slices.Contains(partNames, p) {
			return fmt.Errorf("--only %q: the parts are %s", p, strings.Join(partNames, ", "))
		}
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("conform"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Vars{"version": "conform " + version}, kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintf(stderr, "conform: internal error: %v\n", err)
		return exitViolated
	}
	_, err = parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err == nil {
		err = c.validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "conform: %v\ntry conform --help\n", err)
		return exitUsage
	}
	if err := c.preflight(ctx); err != nil {
		fmt.Fprintf(stderr, "conform: %v\n", err)
		return exitUsage
	}
	report := &report{out: stdout, json: c.JSON}
	for _, part := range c.parts() {
		if len(c.Only) > 0 && !slices.Contains(c.Only, part.name) {
			continue
		}
		if ctx.Err() != nil {
			report.add(entry{Part: part.name, Verdict: inconclusive, Text: "interrupted"})
			continue
		}
		part.run(ctx, report)
	}
	if ctx.Err() != nil {
		report.add(entry{Part: "run", Name: "the whole", Verdict: inconclusive, Text: "interrupted: what came after was not looked at"})
	}
	code := report.end()
	if report.err != nil {
		// CONF-6: whatever was found, nobody has read it.
		fmt.Fprintf(stderr, "conform: cannot write the report: %v\n", report.err)
		return exitInconclusive
	}
	return code
}
