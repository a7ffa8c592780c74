package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"microvms/client"
)

// app is one invocation.
type app struct {
	stdin          io.Reader
	stdout, stderr *sink
	env            func(string) string
	interrupts     <-chan os.Signal // nil: none
	noOutput       bool             // stdout was closed when the command started
	clientOptions  []client.Option
	now            func() time.Time

	format format
	quiet  bool
	secret string   // the agent token, to be kept out of messages
	argv   []string // what stood after "--"
	direct bool     // "--" was given
	wrote  bool     // the one envelope is written
	parser *kong.Kong
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env func(string) string) *app {
	return &app{stdin: stdin, stdout: &sink{w: stdout}, stderr: &sink{w: stderr}, env: env, now: time.Now}
}

// exitRequest is how the parser's help and version flags end the run.
type exitRequest int

func (a *app) run(ctx context.Context, args []string) (code int) {
	// CLI-14: the format is taken from the raw arguments before they are parsed,
	// so that a parse error is enveloped as well.
	a.format, a.secret = rawFormat(args), a.rawSecret(args)
	defer func() {
		switch p := recover().(type) {
		case nil:
		// CLI-27: the parser has written its text, which is never enveloped.
		case exitRequest:
			code = a.finish(int(p))
		default:
			fmt.Fprintf(a.stderr, "microvm: internal error: %v\n%s", p, debug.Stack())
			code = exitOf(client.KindUnexpected)
		}
	}()
	cmd, err := a.parse(args)
	if err != nil {
		return a.fail(err)
	}
	res, err := cmd.run(ctx, a)
	ctx, stop := a.untilInterrupt(ctx)
	defer stop()
	a.writeUntil(ctx) // CLI-45: nor may the result wait for a reader longer than the user does
	if err != nil {
		return a.fail(err)
	}
	return a.succeed(res)
}

// parse turns the arguments into the command to run.
func (a *app) parse(args []string) (runner, error) {
	root := newRoot(args)
	parser, err := kong.New(root, kong.Name("microvm"), kong.Description(description),
		kong.Writers(a.stdout, a.stderr), kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.Vars{"version": versionText()}, kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ShortUsageOnError())
	if err != nil {
		return nil, fmt.Errorf("cannot build the parser: %w", err)
	}
	a.parser = parser
	if len(args) == 0 {
		args = []string{"--help"}
	}
	// "exec -- argv…" runs argv without a shell; only the words before "--" are
	// this command's own.
	if at := slices.Index(args, "--"); at >= 0 && takesWords(args[:at]) {
		a.argv, a.direct, args = args[at+1:], true, args[:at]
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, usage("%s", err.Error())
	}
	a.quiet = root.Quiet
	return parsed.Selected().Target.Addr().Interface().(runner), nil
}

// words are those of the arguments that are no flags, up to "--". They begin with
// the command, since flags before it have no value.
func words(args []string) []string {
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
}

// takesWords reports whether the command hands on the words after "--".
func takesWords(args []string) bool {
	w := words(args)
	return len(w) > 0 && w[0] == "exec" || len(w) > 1 && w[0] == "manager" && w[1] == "run"
}

// rawFormat decides the format without a parser: json wins over dense.
func rawFormat(args []string) format {
	var f format
	for _, arg := range args {
		switch arg {
		case "--":
			return f
		case "--json", "--json=true":
			f.json = true
		case "--dense", "--dense=true":
			f.dense = true
		}
	}
	return f
}

// rawSecret finds the agent token wherever it was given.
func (a *app) rawSecret(args []string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--agent-token="); ok {
			return value
		}
		if arg == "--agent-token" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return a.env("MICROVM_AGENT_TOKEN")
}

// session opens the session that the attach flags, or else the environment,
// name. needToken is false for what works without one.
func (a *app) session(at attach, needToken bool) (*client.Session, error) {
	endpoint, token := at.Endpoint, at.AgentToken
	if endpoint == "" {
		endpoint = a.env("MICROVM_ENDPOINT")
	}
	if token == "" {
		token = a.env("MICROVM_AGENT_TOKEN")
	}
	if endpoint == "" {
		return nil, usage("no endpoint: give --endpoint or set MICROVM_ENDPOINT")
	}
	if token == "" && needToken {
		return nil, usage("no agent token: set MICROVM_AGENT_TOKEN, or give --agent-token")
	}
	return client.New(endpoint, token, a.clientOptions...)
}

// call runs f with a session and a context that the first interrupt ends.
func (a *app) call(ctx context.Context, at attach, needToken bool, f func(context.Context, *client.Session) (*result, error)) (*result, error) {
	session, err := a.session(at, needToken)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	ctx, stop := a.untilInterrupt(ctx)
	defer stop()
	a.writeUntil(ctx)
	return f(ctx, session)
}

// writeUntil has the end of ctx end the writes of output that are blocked then.
func (a *app) writeUntil(ctx context.Context) {
	a.stdout.until(ctx)
	a.stderr.until(ctx)
}

// errSignal is the cause of a context that a signal ended.
var errSignal = errors.New("interrupted by a signal")

// untilInterrupt derives a context that ends at the next interrupt.
func (a *app) untilInterrupt(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if a.interrupts == nil {
		return ctx, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-a.interrupts:
			cancel(errSignal)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// secondInterrupt waits a moment for another interrupt and reports whether it
// came.
func (a *app) secondInterrupt() bool {
	timer := time.NewTimer(killWindow)
	defer timer.Stop()
	select {
	case <-a.interrupts:
		return true
	case <-timer.C:
		return false
	}
}

// killWindow is how long after the first Ctrl-C a second one kills the exec.
const killWindow = time.Second
