package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"microvms/agentd/api/msp"
	"microvms/client"
	"microvms/client/manager"
)

// managerRunCommand is `microvm manager run`. Words after "--" are extra
// arguments of the executor.
type managerRunCommand struct {
	Request     string   `short:"f" placeholder:"FILE" help:"Request in YAML or JSON, keys as on the wire; - reads this command's own input. Flags win over it."`
	Major       *uint32  `placeholder:"N" help:"Newest executor of this major version (0)."`
	Version     string   `placeholder:"NAME" help:"This executor, by its directory's name, or re:PATTERN over the manifest."`
	Token       string   `placeholder:"TOKEN" help:"Correlation token: a repeat with it joins the run while the manager knows it. Otherwise a fresh one."`
	Deadline    string   `placeholder:"DURATION" help:"The manager ends the run after this time, such as 90s or 1.5m, queue included. Otherwise 20m."`
	DebugMode   string   `name:"debug-mode" placeholder:"MODE" help:"disabled, safe, safe-unbounded, unsafe or unsafe-tracing (safe): disabled keeps no output."`
	Host        string   `placeholder:"HOST" help:"Host connection 0 of the executor: unix://PATH or HOST:PORT (unix:///dev/null, where nobody is)."`
	Calldata    string   `placeholder:"BYTES" help:"Calldata blob: 0xHEX, base64:…, text:…, or @FILE (an empty map)."`
	Code        string   `placeholder:"BYTES" help:"Contract code, likewise."`
	Permissions *string  `placeholder:"LETTERS" help:"Permissions (wscn)."`
	Sync        *bool    `negatable:"" help:"Run without modules, the default; --no-sync asks for them when the permissions hold n."`
	ExtraArg    []string `name:"extra-arg" sep:"none" placeholder:"ARG" help:"Argument of the executor; repeatable. Or give them after --."`
	Detach      bool     `short:"d" help:"Print the run's id and leave."`
	Keep        bool     `help:"Do not release the run at the end."`
	follow
	managerAddress
}

// follow is the group of flags of commands that follow a run to its end.
type follow struct {
	Log           bool    `help:"Print the executor's log, too, on stderr."`
	Timeout       float64 `placeholder:"SECONDS" help:"How long to wait for the end (no bound). The run itself goes on."`
	PropagateExit bool    `name:"propagate-exit" help:"Exit with the executor's own code (124 deadline, 127 failed to start, 137 ended by a signal)."`
}

func (f *follow) check() error {
	if f.Timeout < 0 || math.IsNaN(f.Timeout) || math.IsInf(f.Timeout, 0) {
		return usage("--timeout: %v is not a number of seconds", f.Timeout)
	}
	return nil
}

// bound derives the context that --timeout ends.
func (f *follow) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(min(f.Timeout, 1e9)*float64(time.Second)))
}

func (c *managerRunCommand) run(ctx context.Context, a *app) (*result, error) {
	request, err := c.request(ctx, a)
	if err != nil {
		return nil, err
	}
	return c.session(ctx, a, func(ctx context.Context, s *manager.Session) (*result, error) {
		bounded, cancel := c.bound(ctx)
		defer cancel()
		run, err := s.Run(bounded, request)
		if err != nil {
			// MCLIENT-36: the token is the way back to a run whose id was lost.
			return nil, &commandError{err: err, data: map[string]any{"token": *request.Token}}
		}
		if c.Detach {
			data := runData{RunID: run.ID().String(), Token: request.Token, Phase: "queued"}
			return a.started(&result{kind: "microvm.manager.run", data: data, text: data.RunID + "\n", dense: data.RunID}, &data)
		}
		res, err := c.toTheEnd(bounded, a, run, "microvm.manager.run", !c.Keep)
		if err != nil {
			return nil, c.explain(ctx, a, s, run.ID(), err)
		}
		return res, nil
	})
}

// request builds the run request: the smallest sensible one, then the file, then
// the flags.
func (c *managerRunCommand) request(ctx context.Context, a *app) (*msp.RunRequest, error) {
	if err := c.conflicts(a); err != nil {
		return nil, err
	}
	r := msp.NewRunRequest()
	r.IsSync, r.DebugMode, r.Host, r.HostData, r.InitialTimeUnits = true, msp.DebugSafe, "unix:///dev/null", "{}", 60
	r.Calldata, r.Timestamp = []byte{6}, msp.At(a.now())
	// MCLIENT-38: the file over the defaults, and the flags below over the file.
	if c.Request != "" {
		text, err := c.file(ctx, a, c.Request)
		if err != nil {
			return nil, err
		}
		if err := manager.ReadRequest(text, r); err != nil {
			return nil, err
		}
	}
	if err := c.flags(ctx, a, r); err != nil {
		return nil, err
	}
	if r.Token == nil {
		// MCLIENT-36: with a token the request may be repeated when a connection is lost.
		token := newToken()
		r.Token = &token
	}
	// MCLIENT-39: encoded once for its checks, so that a bad value is refused before a connection is made.
	if _, err := (&msp.Request{Run: r}).Message(1); err != nil {
		return nil, &client.Error{Kind: client.KindInvalidArg, Message: "the request cannot be sent", Err: err}
	}
	return r, nil
}

func (c *managerRunCommand) conflicts(a *app) error {
	switch {
	case c.Major != nil && c.Version != "":
		return usage("--major and --version exclude each other: a run has one executor")
	case c.Detach && (c.Keep || c.Log || c.PropagateExit || c.Timeout != 0):
		return usage("--detach excludes --keep, --log, --timeout and --propagate-exit: nobody waits for the end")
	case a.direct && len(c.ExtraArg) > 0:
		return usage("--extra-arg and words after -- exclude each other: give the executor's arguments in one place")
	}
	return c.check()
}

// flags puts what the command line says over the request.
func (c *managerRunCommand) flags(ctx context.Context, a *app, r *msp.RunRequest) (err error) {
	switch {
	case c.Major != nil:
		r.Selector = msp.Selector{Major: *c.Major}
	case c.Version != "":
		r.Selector = msp.Selector{IsVersion: true, Version: c.Version}
	}
	if c.Token != "" {
		r.Token = &c.Token
	}
	if c.Deadline != "" {
		d, err := msp.ParseDuration(c.Deadline)
		if err != nil {
			return usage("--deadline: %v", err)
		}
		r.Deadline = &d
	}
	if c.DebugMode != "" {
		r.DebugMode = msp.DebugMode(c.DebugMode)
		if !r.DebugMode.AtLeast(msp.DebugDisabled) {
			return usage("--debug-mode %q: want one of %q", c.DebugMode, r.DebugMode.Variants())
		}
	}
	if c.Host != "" {
		r.Host = c.Host
	}
	if c.Permissions != nil {
		r.Permissions = *c.Permissions
	}
	if c.Sync != nil {
		r.IsSync = *c.Sync
	}
	if len(c.ExtraArg) > 0 || a.direct {
		r.ExtraArgs = append(append([]string{}, c.ExtraArg...), a.argv...)
	}
	if c.Calldata != "" {
		if r.Calldata, err = c.bytes(ctx, a, "--calldata", c.Calldata); err != nil {
			return err
		}
	}
	if c.Code != "" {
		r.Code, err = c.bytes(ctx, a, "--code", c.Code)
	}
	return err
}

// bytes reads the value of a flag, or the file that it names.
func (c *managerRunCommand) bytes(ctx context.Context, a *app, flag, value string) ([]byte, error) {
	if value[0] == '@' {
		return c.file(ctx, a, value[1:])
	}
	b, err := manager.ParseBytes(value)
	if err != nil {
		return nil, usage("%s: %v, or name a file by @FILE", flag, err)
	}
	return b, nil
}

// file reads a file, or with - this command's own input.
func (c *managerRunCommand) file(ctx context.Context, a *app, name string) ([]byte, error) {
	if name == "-" {
		return a.readStdin(ctx)
	}
	b, err := a.readFile(ctx, name)
	if err != nil {
		return nil, localError("cannot read the request", err)
	}
	return b, nil
}

func newToken() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return "microvm-" + hex.EncodeToString(b[:])
}

// explain adds the run's id to a failure, and on an interrupt leaves the run or,
// at the second one, ends it.
func (f *follow) explain(ctx context.Context, a *app, s *manager.Session, id manager.RunID, err error) error {
	var ce *commandError
	if !errors.As(err, &ce) {
		ce = &commandError{err: err, data: map[string]any{"runId": id.String()}}
	}
	if ce.ended || !errors.Is(err, client.ErrInterrupted) && !errors.Is(err, client.ErrTimeout) {
		return ce
	}
	ce.suggestions = []string{"follow it: microvm manager attach " + id.String(), "end it: microvm manager cancel " + id.String()}
	if !errors.Is(context.Cause(ctx), errSignal) {
		return ce
	}
	// MCLIENT-35: to leave a run is not to end it; the second signal says that the first was meant.
	if !a.quiet {
		fmt.Fprintf(a.stderr, "left: run %v goes on; Ctrl-C again within %s ends it\n", id, killWindow)
	}
	ce.data["cancelled"] = false
	if a.secondInterrupt() {
		cancelCtx, stop := a.untilInterrupt(context.Background()) // a third one leaves at once
		defer stop()
		cancelErr := s.Cancel(cancelCtx, id)
		ce.data["cancelled"] = cancelErr == nil
		if cancelErr != nil {
			fmt.Fprintf(a.stderr, "warning: cannot end run %v: %s\n", id, a.clean(cancelErr.Error()))
		}
	}
	return ce
}

// read reads an artifact whole.
func read(from io.Reader) (string, error) {
	var buf bytes.Buffer
	_, err := io.Copy(&buf, from)
	return buf.String(), err
}
