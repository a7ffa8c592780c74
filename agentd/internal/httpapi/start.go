package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/accounts"
	"microvms/agentd/internal/strictjson"
	"microvms/agentd/trace"
)

// maxExecID bounds an execution id, in bytes. Percent-encoded to three times as
// many it fits the bound on a request target, with room for the rest of a path.
const maxExecID = 4096

// namespace is the registry namespace of wire version 1.
const namespace = "v1"

// execStart serves POST /v1/exec/start.
func (s *Server) execStart(a *answer, r *request) {
	var req api.StartRequest
	if !s.readJSON(a, r, &req) {
		return
	}
	timeout, bad := wellFormed(&req)
	if bad != nil {
		a.fail(bad.Code, bad.Detail)
		return
	}
	if req.PowerOffOnExit {
		if !s.beginTunnel() { // nobody would be left to power off
			s.failStart(a, r, execution.ErrClosed)
			return
		}
		defer s.tunnels.Done()
	}
	// A lost client must not cut a spawn in two: the context is the daemon's.
	ctx := execution.WithRequest(s.detached(), r.serial)
	// EXEC-4: prepare runs only for an id that is not known, so a retry is
	// answered before any name is resolved and before power-off is judged.
	e, created, err := s.config.Registry.Start(ctx, execution.Key{Namespace: namespace, ID: req.ExecID},
		func(ctx context.Context) (*execution.Command, error) { return s.prepare(ctx, r.serial, &req, timeout) })
	if req.PowerOffOnExit && created && err == nil { // POWER-6: a retry is no second request for it
		s.powerOffAfter(e, req.ExecID)
	}
	if err == nil && !created {
		// EXEC-7: these are faults of the body's form, not of a name in it.
		if bad := emptyProgram(&req); bad != nil {
			err = bad
		}
	}
	if err != nil {
		s.failStart(a, r, err)
		return
	}
	a.json(http.StatusOK, &api.StartResponse{ExecID: req.ExecID, Phase: api.PhaseRunning})
}

// failStart answers a start that has no command: a refusal, or a spawn that
// failed. Nothing was registered.
func (s *Server) failStart(a *answer, r *request, err error) {
	var refusal *api.Error
	var spawn *execution.SpawnError
	switch {
	case errors.As(err, &refusal):
		s.log.Warn("exec start refused", "request", r.serial, "code", string(refusal.Code))
		a.fail(refusal.Code, refusal.Detail)
	case errors.Is(err, execution.ErrInvalidCommand):
		a.fail(api.MalformedRequest, err.Error())
	case errors.As(err, &spawn):
		s.log.Warn("exec spawn failed", "request", r.serial, "err", spawn)
		a.fail(api.SpawnFailed, spawn.Error())
	case errors.Is(err, execution.ErrClosed), errors.Is(err, context.Canceled):
		a.Header().Set("Connection", "close")
		a.fail(api.SpawnFailed, "the daemon is shutting down")
	default:
		panic(err) // the core has no other errors; the catch-all answers 500
	}
}

// wellFormed judges what can be judged without looking at the guest, before
// anything is reserved or spawned. The timeout is 0 for none.
func wellFormed(req *api.StartRequest) (timeout time.Duration, bad *api.Error) {
	if req.ExecID == "" {
		return 0, malformed("exec_id is missing or empty")
	}
	if len(req.ExecID) > maxExecID {
		// EXEC-42: what starts can be polled, acked and killed: every id fits a path.
		return 0, malformed(fmt.Sprintf("exec_id has %d bytes, more than %d", len(req.ExecID), maxExecID))
	}
	if req.Command == nil {
		return 0, malformed("command is missing")
	}
	if req.TimeoutSec != nil {
		var ok bool
		// EXEC-8: judged here, before anything is reserved.
		if timeout, ok = parseTimeout(*req.TimeoutSec); !ok {
			if *req.TimeoutSec >= tooManySeconds {
				return 0, malformed("timeout_sec is too large: a count of seconds fits 64 bits; leave it out for no deadline")
			}
			return 0, malformed("timeout_sec is not a positive finite number of seconds")
		}
	}
	// EXEC-36: what execve cannot carry is refused where the key can be named.
	for i, arg := range req.Command {
		if strings.IndexByte(arg, 0) >= 0 {
			return 0, malformed(fmt.Sprintf("command[%d] holds a NUL byte", i))
		}
	}
	if req.Cwd != nil && strings.IndexByte(*req.Cwd, 0) >= 0 {
		return 0, malformed("cwd holds a NUL byte")
	}
	if name, bad := accounts.BadEntry(req.Env); bad {
		return 0, malformed(fmt.Sprintf("env: the entry %q has an empty name, an equals sign in its name or a NUL byte", name))
	}
	return timeout, nil
}

func malformed(detail string) *api.Error {
	return &api.Error{Code: api.MalformedRequest, Detail: detail}
}

// tooManySeconds is the first number of seconds that 64 bits do not hold.
const tooManySeconds = 1 << 64

// parseTimeout reads seconds. It refuses what is not positive and finite or
// does not fit an unsigned 64-bit count of seconds. Beyond the clock's range
// there is no deadline; below its resolution the deadline is one nanosecond.
func parseTimeout(sec float64) (time.Duration, bool) {
	switch {
	case !(sec > 0) || math.IsInf(sec, 1) || sec >= tooManySeconds:
		return 0, false
	case sec >= math.MaxInt64/float64(time.Second):
		return 0, true
	}
	return max(time.Duration(math.Round(sec*float64(time.Second))), 1), true
}

// emptyProgram refuses a start that names nothing to run.
func emptyProgram(req *api.StartRequest) *api.Error {
	switch {
	case req.Shell.IsNamed && req.Shell.Name == "":
		return malformed("shell is an empty string")
	case !req.Shell.On && !req.Shell.IsNamed && len(req.Command) == 0:
		return malformed("command is empty and no shell is asked for")
	}
	return nil
}

// prepare resolves a start request into a command: user, group, environment,
// shell, empty command, power-off, in this order; the first that fails decides
// the answer. Its errors are *api.Error, and nothing is spawned or registered
// after one.
func (s *Server) prepare(ctx context.Context, serial uint64, req *api.StartRequest, timeout time.Duration) (*execution.Command, error) {
	point := trace.Point{Action: trace.ExecResolve, Request: serial, Exec: req.ExecID}
	if s.config.Gate != nil {
		if err := s.config.Gate.Pass(ctx, point); err != nil {
			return nil, err
		}
	}
	c, bad := s.resolve(req)
	if bad != nil {
		s.record(point, trace.Attr{Key: "outcome", Value: string(bad.Code)})
		return nil, bad
	}
	s.record(point, trace.Attr{Key: "outcome", Value: "command"})
	c.Timeout = timeout
	return c, nil
}

// resolve is prepare without its transition point. It changes nothing.
func (s *Server) resolve(req *api.StartRequest) (*execution.Command, *api.Error) {
	who, bad := s.config.Accounts.Resolve(req.User, req.Group, s.config.DefaultUser)
	if bad != nil {
		return nil, bad
	}
	env := s.environment(req, who)
	shell, bad := s.shell(req, env)
	if bad == nil {
		bad = emptyProgram(req)
	}
	if bad != nil {
		return nil, bad
	}
	if bad := s.cannotPowerOff(req); bad != nil {
		return nil, bad
	}
	c := &execution.Command{
		Env: accounts.Entries(env), Credential: credential(who), Stdin: req.Stdin, ReapGroup: req.ReapGroupOnExit,
	}
	if req.Cwd != nil {
		c.Dir = *req.Cwd
	}
	if shell != "" {
		// EXEC-9: one unwrapped argument; what is wrong with a script is the
		// shell's to judge.
		c.Path, c.Args = shell, []string{shell, "-c", strings.Join(req.Command, "\n")}
		return c, nil
	}
	c.Path, c.Args = accounts.FindProgram(req.Command[0], env, c.Dir), req.Command
	return c, nil
}

// shell returns the path of the shell that runs the command as a script, empty
// for none.
func (s *Server) shell(req *api.StartRequest, env map[string]string) (string, *api.Error) {
	switch {
	case req.Shell.On:
		return "/bin/sh", nil // AGENTD-16: this one, wherever PATH leads
	case req.Shell.IsNamed && req.Shell.Name != "":
		return accounts.FindShell(req.Shell.Name, env, s.config.ImageEnv)
	}
	return "", nil
}

// environment layers a child's environment: image snapshot, account, launch,
// request, and nothing else.
func (s *Server) environment(req *api.StartRequest, who accounts.Principal) map[string]string {
	// SECRET-2: four layers, and the token is in none of them.
	// HOOK-26: each of them can be part of an environment: the launch's was
	// judged before it was installed, the request's with the form of its body.
	// AGENTD-9: the account's variables lie beneath what the caller chose.
	layers := accounts.Layers{Identity: who.Identity, Launch: s.config.Boot.Env(), Request: req.Env}
	// EXEC-13, AGENTD-10: only when asked for; AGENTD-11: and then beneath all others.
	if req.InheritImageEnv {
		layers.Image = s.config.ImageEnv
	}
	return layers.Flatten()
}

// credential returns whom the child runs as, nil for the daemon's own user. An
// id that is not given stays the daemon's; supplementary groups are never set,
// and cleared where the daemon may.
func credential(who accounts.Principal) *syscall.Credential {
	if who.UID == nil && who.GID == nil {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), NoSetGroups: os.Geteuid() != 0}
	if who.UID != nil {
		c.Uid = *who.UID
	}
	if who.GID != nil {
		c.Gid = *who.GID
	}
	return c
}

// readJSON decodes a control body. It answers and reports false when there is
// nothing to go on with.
func (s *Server) readJSON(a *answer, r *request, v any) bool {
	if !isJSON(r.Header) {
		a.fail(api.MalformedRequest, "the content type is not application/json")
		return false
	}
	body, err := r.body.read(s.limits.MaxBodyBytes, 0, s.limits.BodyStallTimeout)
	switch {
	case errors.Is(err, errBodyTooLarge):
		a.text(http.StatusRequestEntityTooLarge, s.tooLarge())
		return false
	case errors.Is(err, errBodyTimeout):
		a.text(http.StatusRequestTimeout, fmt.Sprintf("request body stalled for %v\n", s.limits.BodyStallTimeout))
		return false
	case err != nil:
		// XPORT-24: the peer left within its body; nothing but this request ends.
		a.fail(api.MalformedRequest, "the request body ended early")
		return false
	}
	// XPORT-13: what two parsers could read in two ways is refused.
	if err := strictjson.Unmarshal(body, v); err != nil {
		a.fail(api.MalformedRequest, strictjson.Describe(err))
		return false
	}
	return true
}
