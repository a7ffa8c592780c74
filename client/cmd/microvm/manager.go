package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"microvms/client"
	"microvms/client/manager"
)

// managerCommand is `microvm manager`.
type managerCommand struct {
	Run      managerRunCommand      `cmd:"" help:"Start a run, follow it to its end, print its output and release it."`
	Attach   managerAttachCommand   `cmd:"" help:"Follow a run that somebody started."`
	Cancel   managerCancelCommand   `cmd:"" help:"End a run."`
	Ack      managerAckCommand      `cmd:"" help:"Release an ended run; the manager then forgets it."`
	Artifact managerArtifactCommand `cmd:"" help:"Print the output or the log of a finished run."`
	Status   managerStatusCommand   `cmd:"" help:"Show permits, modules and runs."`
}

// managerAddress is the group of flags that name a manager.
type managerAddress struct {
	Socket string `placeholder:"PATH" help:"The manager's unix socket (else $$MICROVM_MANAGER, or http://127.0.0.1:3999)."`
	URL    string `name:"url" placeholder:"URL" help:"The manager's address as in $$MICROVM_MANAGER: http(s)://HOST:PORT, HOST:PORT, unix:PATH, or a path: one with a slash, ending in .sock, or of a socket that exists."`
}

// defaultManager is where a manager listens that was told nothing.
const defaultManager = "http://127.0.0.1:3999"

// address is the manager's, from the flags or the environment.
func (m managerAddress) address(a *app) (string, error) {
	switch env := a.env("MICROVM_MANAGER"); {
	case m.Socket != "" && m.URL != "":
		return "", usage("--socket and --url exclude each other: a manager has one address")
	case m.Socket != "":
		return "unix:" + m.Socket, nil
	case m.URL != "":
		return m.URL, nil
	case env != "":
		return env, nil
	}
	return defaultManager, nil
}

// session calls f with a session and a context that the first interrupt ends.
func (m managerAddress) session(ctx context.Context, a *app, f func(context.Context, *manager.Session) (*result, error)) (*result, error) {
	address, err := m.address(a)
	if err != nil {
		return nil, err
	}
	s, err := manager.NewSession(address, manager.WithReconnecting(func(cause error) {
		// MCLIENT-41: the tries may take a minute, and silence looks like a run at work.
		fmt.Fprintf(a.stderr, "warning: %s; trying to reach the manager again\n", a.clean(cause.Error()))
	}))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ctx, stop := a.untilInterrupt(ctx)
	defer stop()
	a.writeUntil(ctx)
	res, err := f(ctx, s)
	if err != nil {
		return nil, m.advise(err)
	}
	return res, nil
}

// advise says what to do next where the row of the exit table cannot.
func (m managerAddress) advise(err error) error {
	var ce *commandError
	if !errors.As(err, &ce) {
		ce = &commandError{err: err}
	}
	// The hints of the exit table speak of a daemon in a VM.
	ce.own = ce.own || client.KindOf(err) != client.KindInvalidArg
	switch {
	case errors.Is(err, manager.ErrRestarted):
		ce.suggestions = append(ce.suggestions, "start it again with microvm manager run: its token is unknown to the new boot, so it runs anew")
	case errors.Is(err, manager.ErrNotFinished):
		ce.suggestions = append(ce.suggestions, "follow it to its end with microvm manager attach, or end it with microvm manager cancel")
	case errors.Is(err, manager.ErrUnknownID):
		ce.suggestions = append(ce.suggestions, "it never existed, was acked, or has expired; artifacts exist only of finished runs; microvm manager status lists what is known")
	case errors.Is(err, manager.ErrMalformed):
		ce.suggestions = append(ce.suggestions, "the manager may be of another revision: compare its version with this command's")
	case client.WireKindOf(err) == client.WireTransport && m.Socket == "" && m.URL == "":
		ce.suggestions = append(ce.suggestions, "give the manager's address: --socket PATH, --url URL, or MICROVM_MANAGER, which takes a path (with a slash, ending in .sock, or of a socket that exists), unix:PATH, a URL or HOST:PORT; agentd manager starts one")
	case client.WireKindOf(err) == client.WireTransport:
		ce.suggestions = append(ce.suggestions, "see that the manager runs there; agentd manager --help says how to start one")
	}
	return ce
}

// runArgument is how a run is named: as printed, or by its number alone for the
// boot that answers now.
type runArgument struct {
	Run string `arg:"" name:"run" help:"The run: BOOT/NUMBER as printed, or NUMBER alone for the manager that answers now."`
}

// id finds the run. A bare number needs a connection to learn the boot.
func (r runArgument) id(ctx context.Context, s *manager.Session) (manager.RunID, error) {
	number, err := strconv.ParseUint(r.Run, 10, 64)
	if err != nil {
		return manager.ParseRunID(r.Run)
	}
	c, err := s.Client(ctx)
	if err != nil {
		return manager.RunID{}, err
	}
	return manager.RunID{Boot: c.BootID(), Number: number}, nil
}

// check refuses an argument that names no run, before a connection is made.
func (r runArgument) check() error {
	if _, err := strconv.ParseUint(r.Run, 10, 64); err == nil {
		return nil
	}
	if _, err := manager.ParseRunID(r.Run); err != nil {
		return usage("run %q: want BOOT/NUMBER as printed, such as 00f1e2d3c4b5a697/12, or a number", r.Run)
	}
	return nil
}

// managerCancelCommand is `microvm manager cancel`.
type managerCancelCommand struct {
	runArgument
	managerAddress
}

func (c *managerCancelCommand) run(ctx context.Context, a *app) (*result, error) {
	return c.steer(ctx, a, c.runArgument, "microvm.manager.cancel", "asked to end", (*manager.Session).Cancel)
}

// managerAckCommand is `microvm manager ack`.
type managerAckCommand struct {
	runArgument
	managerAddress
}

func (c *managerAckCommand) run(ctx context.Context, a *app) (*result, error) {
	return c.steer(ctx, a, c.runArgument, "microvm.manager.ack", "released", (*manager.Session).Ack)
}

// steer does one thing to a run.
func (m managerAddress) steer(ctx context.Context, a *app, r runArgument, kind, done string, do func(*manager.Session, context.Context, manager.RunID) error) (*result, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return m.session(ctx, a, func(ctx context.Context, s *manager.Session) (*result, error) {
		id, err := r.id(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := do(s, ctx, id); err != nil {
			return nil, &commandError{err: err, data: map[string]any{"runId": id.String()}}
		}
		return &result{kind: kind, text: fmt.Sprintf("%v: %s\n", id, done), dense: id.String(), data: struct {
			RunID string `json:"runId"`
		}{id.String()}}, nil
	})
}
