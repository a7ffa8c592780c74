// Command bench prints the project's figures beside their peers, measured in
// turns in one run: what make bench calls.
//
// A figure is measured in rounds. In each round ours and its peer run one after
// the other, in an order that alternates, and the round notes how many cores
// other processes took meanwhile; above a fifth of a core it is noisy. The table
// shows medians of the quiet rounds. It is a report, not a gate: a missed target
// is printed and fails nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitMeasured    = 0 // every selected figure was measured, whatever the targets say
	exitNotMeasured = 1 // some figure could not be measured
	exitUsage       = 2
)

const description = `Measures the project's figures beside their peers, in turns in one run, and prints one table.

Exit codes: 0 everything was measured, 1 something could not be, 2 usage. A missed target changes none of them.`

type cli struct {
	Measure    measureCmd    `cmd:"" default:"withargs" help:"Measure and print the table (the default)."`
	PeerServer peerServerCmd `cmd:"" hidden:"" help:"Serve the bare handlers that the daemon is measured beside."`
	Produce    produceCmd    `cmd:"" hidden:"" help:"Write output as a command of the daemon."`
}

type measureCmd struct {
	Root   string `help:"The repository's root." default:"." placeholder:"DIR"`
	Peers  string `help:"Folder of the limit programs (bfsbench/, daemon/); without it their figures say 'peer not measured'." placeholder:"DIR"`
	Rounds int    `help:"Rounds for each figure." default:"5"`
	Only   string `help:"Only figures whose part/name matches." placeholder:"REGEX"`
	JSON   bool   `help:"Print JSON, with every round." name:"json"`
	Quick  bool   `help:"A small share of the work: tries the command out, measures nothing worth keeping."`
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("bench"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintf(stderr, "bench: internal error: %v\n", err)
		return exitNotMeasured
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\ntry bench --help\n", err)
		return exitUsage
	}
	switch parsed.Command() {
	case "peer-server":
		err = servePeer(ctx, stdout)
	case "produce":
		err = produce(c.Produce, stdout)
	default:
		return measure(ctx, c.Measure, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitNotMeasured
	}
	return exitMeasured
}

func measure(ctx context.Context, c measureCmd, stdout, stderr io.Writer) int {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		fmt.Fprintf(stderr, "bench: --only: %v\n", err)
		return exitUsage
	}
	if c.Rounds < 1 {
		fmt.Fprintf(stderr, "bench: --rounds %d is not positive\n", c.Rounds)
		return exitUsage
	}
	w, err := newWorkshop(c)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitNotMeasured
	}
	defer w.close()
	s := selected(experiments(w), only)
	if len(s) == 0 {
		fmt.Fprintf(stderr, "bench: no figure matches %q; without --only all are measured\n", c.Only)
		return exitUsage
	}
	results, failures := runRounds(ctx, s, c.Rounds, only, stderr)
	if c.JSON {
		err = writeJSON(stdout, c, results)
	} else {
		err = writeTable(stdout, c, results)
	}
	for _, f := range failures {
		fmt.Fprintf(stderr, "bench: %v\n", f)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitNotMeasured
	}
	if len(failures) > 0 {
		return exitNotMeasured
	}
	return exitMeasured
}
