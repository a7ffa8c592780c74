package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"microvms/agentd/api"
	"microvms/client"
)

// execCommand is `microvm exec`. One COMMAND word is a script for /bin/sh, as
// in the facts; words after "--" are an argument vector, run without a shell.
type execCommand struct {
	Command       string   `arg:"" optional:"" help:"A script for /bin/sh -c, as one word. Or give an argument vector after --."`
	Timeout       float64  `default:"300" placeholder:"SECONDS" help:"How long to wait for the end (${default}). The command itself goes on."`
	Cwd           *string  `placeholder:"DIR" help:"Working directory."`
	Env           []string `sep:"none" placeholder:"KEY=VALUE" help:"Environment entry; repeatable."`
	User          *string  `placeholder:"NAME|UID" help:"User to run as: digits are a uid, all else is a name of the VM's passwd file. Otherwise the image's default user, or root."`
	Group         *string  `placeholder:"NAME|GID" help:"Group to run as, likewise. Otherwise the group of a user by name, or the daemon's."`
	Shell         *string  `placeholder:"NAME|PATH" help:"Shell of the script, by name or absolute path. Otherwise /bin/sh."`
	ExecID        *string  `name:"exec-id" placeholder:"ID" help:"Use this id. Repeating it starts nothing and follows the first command."`
	Poll          *string  `placeholder:"ID" help:"Read an exec's record instead of starting one."`
	Detach        bool     `short:"d" help:"Print the exec id and leave."`
	Stream        bool     `help:"Print output as it comes."`
	FromOffset    *uint64  `name:"from-offset" placeholder:"N" help:"With --stream: the first byte wanted."`
	Stdin         bool     `short:"i" help:"Read this command's input whole, feed it to the remote one, and close it."`
	OpenStdin     bool     `name:"open-stdin" help:"With --detach: leave the remote input open, for microvm stdin to write to and to close."`
	PropagateExit bool     `name:"propagate-exit" help:"Exit with the remote command's own code."`
	attach
}

// execData is the data of microvm.exec; exitCode is null when unknown.
type execData struct {
	ExecID    string    `json:"execId"`
	ExitCode  *int32    `json:"exitCode"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Truncated bool      `json:"truncated"`
	Phase     api.Phase `json:"phase"`
}

func (c *execCommand) run(ctx context.Context, a *app) (*result, error) {
	req, err := c.request(a)
	if err != nil {
		return nil, err
	}
	if c.Poll != nil {
		return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
			rec, err := s.Poll(ctx, *c.Poll)
			if err != nil {
				return nil, err
			}
			return c.record(*c.Poll, rec), nil
		})
	}
	var input []byte
	// CLI-29: only when asked for: it may be the input of the script around this command.
	if c.Stdin { // before the start, so that a failing read starts nothing
		if input, err = a.readStdin(ctx); err != nil {
			return nil, err
		}
	}
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		res, err := c.execute(ctx, a, s, req, input)
		if err != nil {
			return nil, c.explain(ctx, a, s, req.ExecID, err)
		}
		return res, nil
	})
}

// request checks the flags and builds the start request.
func (c *execCommand) request(a *app) (api.StartRequest, error) {
	req := api.StartRequest{ExecID: client.NewExecID(), Stdin: c.Stdin || c.OpenStdin}
	if err := c.conflicts(a); err != nil || c.Poll != nil {
		return req, err
	}
	switch {
	case a.direct && c.Command != "":
		return req, usage("%q and the words after -- are two commands: give one", c.Command)
	case a.direct && len(a.argv) == 0:
		return req, usage("no command after --")
	case a.direct && c.Shell != nil:
		return req, usage("--shell and words after -- exclude each other: those are run without a shell")
	case a.direct:
		// CLI-30: as it was typed, without a shell.
		req.Command = a.argv
	case c.Command == "":
		return req, usage("no command: give one as a word, or after --, or an exec id with --poll")
	default:
		req.Command, req.Shell = []string{c.Command}, api.Shell{On: true}
	}
	if c.Shell != nil {
		if *c.Shell == "" {
			return req, usage("--shell: must not be empty")
		}
		req.Shell = api.Shell{Name: *c.Shell, IsNamed: true}
	}
	if c.ExecID != nil {
		req.ExecID = *c.ExecID
	}
	req.Cwd = c.Cwd
	for _, entry := range c.Env {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return req, usage("--env: an entry is not of the form KEY=VALUE")
		}
		if req.Env == nil {
			req.Env = make(map[string]string, len(c.Env))
		}
		req.Env[key] = value
	}
	var err error
	if req.User, err = nameOrID("--user", c.User); err != nil {
		return req, err
	}
	req.Group, err = nameOrID("--group", c.Group)
	return req, err
}

// conflicts refuses flags that do not go together.
func (c *execCommand) conflicts(a *app) error {
	if c.Poll != nil {
		for flag, set := range map[string]bool{"a command": c.Command != "" || a.direct, "--exec-id": c.ExecID != nil,
			"--stream": c.Stream, "--stdin": c.Stdin, "--open-stdin": c.OpenStdin, "--cwd": c.Cwd != nil, "--detach": c.Detach, "--env": len(c.Env) > 0,
			"--user": c.User != nil, "--group": c.Group != nil, "--shell": c.Shell != nil} {
			if set {
				return usage("--poll and %s exclude each other: --poll starts nothing", flag)
			}
		}
	}
	switch {
	case c.Detach && c.Stream:
		return usage("--detach and --stream exclude each other")
	case c.Detach && c.Stdin:
		return usage("--detach and --stdin exclude each other: to write later, use --detach --open-stdin and then microvm stdin ID")
	case c.OpenStdin && !c.Detach:
		// CLI-41: a command that waits here could not be written to from here.
		return usage("--open-stdin needs --detach; --stdin feeds this command's own input")
	case c.ExecID != nil && *c.ExecID == "":
		return usage("--exec-id: must not be empty; leave it out for a fresh id")
	case c.FromOffset != nil && !c.Stream:
		return usage("--from-offset needs --stream")
	case !(c.Timeout > 0) || math.IsInf(c.Timeout, 0):
		return usage("--timeout: %v is not a positive number of seconds", c.Timeout)
	}
	return nil
}

// nameOrID reads a user or group: digits are an id, all else is a name.
func nameOrID(flag string, text *string) (*api.NameOrID, error) {
	if text == nil {
		return nil, nil
	}
	if *text == "" {
		return nil, usage("%s: must not be empty", flag)
	}
	if strings.Trim(*text, "0123456789") != "" {
		return api.Name(*text), nil
	}
	id, err := strconv.ParseUint(*text, 10, 32)
	if err != nil {
		return nil, usage("%s: %s is over the largest id, 4294967295", flag, *text)
	}
	return api.ID(uint32(id)), nil
}

// timeout is --timeout as a duration.
func (c *execCommand) timeout() time.Duration {
	return time.Duration(min(c.Timeout, 1e9) * float64(time.Second))
}

// execute starts the command and follows it as the flags say.
func (c *execCommand) execute(ctx context.Context, a *app, s *client.Session, req api.StartRequest, input []byte) (*result, error) {
	id, err := s.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	// CLI-28: the id is the way back.
	if c.Detach {
		res := c.record(id, &client.Result{PollResponse: api.PollResponse{ExecID: id, Phase: api.PhaseRunning}})
		res.text, res.dense = id+"\n", id
		return res, nil
	}
	ctx, stop := c.feed(ctx, s, id, input)
	defer stop(nil)
	var res *result
	if c.Stream {
		res, err = c.stream(ctx, a, s, id)
	} else {
		var rec *client.Result
		if rec, err = s.WaitAndAck(ctx, id, c.timeout()); err == nil {
			res = c.record(id, rec)
		}
	}
	var failed *inputError
	if err != nil && errors.As(context.Cause(ctx), &failed) {
		return nil, failed.err // the wait ended because the input broke
	}
	return res, err
}

// inputError ends the wait for a command whose input could not be written: it
// would wait for the rest for ever.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }

// feed writes the input beside the wait, and closes it. The returned function
// ends it and waits for that.
func (c *execCommand) feed(ctx context.Context, s *client.Session, id string, input []byte) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	if !c.Stdin {
		return ctx, cancel
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := s.Stdin(ctx, id, bytes.NewReader(input)); err != nil && ctx.Err() == nil {
			cancel(&inputError{err})
		}
	}()
	return ctx, func(err error) { cancel(err); <-done }
}

// record turns an exec's record into a result. Success is code 0 and no
// deadline; any other end is exit 13.
func (c *execCommand) record(id string, rec *client.Result) *result {
	data := execData{ExecID: id, Phase: rec.Phase}
	res := &result{kind: "microvm.exec"}
	if o := rec.Outcome; o != nil {
		data.ExitCode, data.Stdout, data.Stderr, data.Truncated = o.ExitCode, o.Stdout, o.Stderr, o.Truncated
		res.stdout, res.stderr = o.Stdout, o.Stderr
		res.warnings = outcomeWarnings(id, o.Truncated, o.TimedOut, o.WritersMayBeAlive)
	} else {
		res.text = string(rec.Phase) + "\n"
	}
	code := "-"
	if data.ExitCode != nil {
		code = strconv.Itoa(int(*data.ExitCode))
	}
	res.data, res.dense = data, fmt.Sprintf("%s\t%s\t%s", escape(id), rec.Phase, code)
	if rec.Done() {
		res.exit = c.exitCode(rec.Succeeded(), rec.POSIXCode())
	}
	return res
}

// exitCode is this command's own code for a remote command that has ended.
func (c *execCommand) exitCode(succeeded bool, posix int) int {
	switch {
	case c.PropagateExit:
		// CLI-22: what a shell would report, for scripts that wrap a command.
		return posix & 0xff
	case succeeded:
		return 0
	}
	// CLI-10: not an error of this command, so the envelope says success and
	// only the exit code tells that the program failed.
	return exitOf(client.KindExecFailed)
}

// outcomeWarnings says what a code alone does not.
func outcomeWarnings(id string, truncated, timedOut, writers bool) (warnings []string) {
	if truncated {
		warnings = append(warnings, fmt.Sprintf("output of %s truncated: the record keeps only the first bytes of each stream; use --stream", id))
	}
	if timedOut {
		warnings = append(warnings, fmt.Sprintf("%s ran past the daemon's deadline and was ended", id))
	}
	if writers {
		warnings = append(warnings, fmt.Sprintf("a process that %s left behind still holds its output open; see microvm ps", id))
	}
	return warnings
}

// explain adds the exec's id to a failure, and on an interrupt detaches or, at
// the second one, kills.
func (c *execCommand) explain(ctx context.Context, a *app, s *client.Session, id string, err error) error {
	ce := &commandError{err: err, data: map[string]any{"execId": id}, compact: c.Stream}
	if c.PropagateExit && errors.Is(err, client.ErrSpawn) {
		ce.exit = 127
	}
	if !errors.Is(err, client.ErrInterrupted) && !errors.Is(err, client.ErrTimeout) {
		return ce
	}
	// CLI-31: this command's deadline bounds the waiting, not the work.
	ce.suggestions = []string{"read its result: microvm exec --poll " + id, "end it: microvm kill " + id}
	if !errors.Is(context.Cause(ctx), errSignal) {
		return ce
	}
	// CLI-20: to leave a command is not to end it.
	if !a.quiet {
		fmt.Fprintf(a.stderr, "detached: exec %s goes on; Ctrl-C again within %s kills it\n", escape(id), killWindow)
	}
	ce.data["killed"] = false
	// CLI-21: the second signal says that the first was meant.
	if a.secondInterrupt() {
		killCtx, stop := a.untilInterrupt(context.Background()) // a third one leaves at once
		defer stop()
		killed, killErr := s.Kill(killCtx, id)
		ce.data["killed"] = killed
		if killErr != nil {
			fmt.Fprintf(a.stderr, "warning: cannot kill %s: %s\n", escape(id), a.clean(killErr.Error()))
		}
	}
	return ce
}

// ackCommand is `microvm ack`.
type ackCommand struct {
	ExecID string `arg:"" name:"exec-id" help:"The finished exec."`
	attach
}

// ackData is execData in the order that ack's answer has.
type ackData struct {
	ExecID    string    `json:"execId"`
	Phase     api.Phase `json:"phase"`
	ExitCode  *int32    `json:"exitCode"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Truncated bool      `json:"truncated"`
}

func (c *ackCommand) run(ctx context.Context, a *app) (*result, error) {
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		rec, err := s.Ack(ctx, c.ExecID)
		if err != nil {
			return nil, err
		}
		res := (&execCommand{}).record(c.ExecID, rec)
		d := res.data.(execData)
		res.data = ackData{d.ExecID, d.Phase, d.ExitCode, d.Stdout, d.Stderr, d.Truncated}
		res.exit = 0 // CLI-11: the ack is what was asked for, whatever the command did
		return res, nil
	})
}
