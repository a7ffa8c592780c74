package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"microvms/agentd/api"
	"microvms/agentd/internal/hooks"
	"microvms/agentd/internal/identity"
	"microvms/agentd/trace"
)

// hook serves POST HOOKS/<name>. The request enters the hook log before
// anything of it is read or judged, so that a malformed, oversized or refused
// one still shows that it arrived.
func (s *Server) hook(a *answer, r *request, name string) {
	a.point = trace.Point{Action: trace.HookAnswer, Request: r.serial}
	p := trace.Point{Action: trace.HookReceive, Request: r.serial}
	s.pass(p)
	var then func(bool)
	if s.config.Recorder != nil {
		then = func(kept bool) {
			s.record(p, trace.Attr{Key: "hook", Value: name}, trace.Attr{Key: "kept", Value: kept})
		}
	}
	// HOOK-1: before the body is read, because a request that is refused has arrived as well.
	entry, kept := s.config.Boot.Observe(name, s.config.Clock.Now(), then)
	level := slog.LevelInfo
	if !kept {
		level = slog.LevelDebug // spam from inside the VM must not fill the log either
	}
	s.log.Log(r.Context(), level, "lifecycle hook received", "hook", name, "kept", kept)

	body, err := r.body.read(s.limits.HookBodyBytes, s.limits.HookBodyTimeout, 0)
	switch {
	case errors.Is(err, errBodyTooLarge):
		// XPORT-8: nobody who may post here was asked for a credential.
		a.text(http.StatusRequestEntityTooLarge, fmt.Sprintf("hook body exceeds %d bytes\n", s.limits.HookBodyBytes))
		return
	case errors.Is(err, errBodyTimeout):
		// XPORT-9: a sender that stalls would hold a slot without a credential.
		a.text(http.StatusRequestTimeout, fmt.Sprintf("hook body did not arrive within %v\n", s.limits.HookBodyTimeout))
		return
	case err != nil:
		a.empty(http.StatusBadRequest) // the peer left, or its chunks are broken
		return
	}
	handle := func() {
		if kept { // HOOK-14: a dropped request runs nothing, or a flood of hooks were one of processes
			s.runHandler(r, name, entry)
		}
	}
	if name == api.HookRun {
		s.runHook(a, r, body, handle)
		return
	}
	if name == api.HookResume && !s.config.Boot.Bootstrapped() {
		s.log.Error("resumed without a token: this looks like a cold start")
	}
	handle() // before the answer: after suspend's the VM freezes, after resume's traffic comes
	// HOOK-4: terminate too: the platform ends the VM, not the daemon.
	a.empty(http.StatusOK)
}

// runHook is the one-shot bootstrap. It takes no credential: the platform has
// none to present. handle runs the handler.
func (s *Server) runHook(a *answer, r *request, body []byte, handle func()) {
	// HOOK-25: before the body is parsed, since it is meant for another parser.
	if !isJSON(r.Header) {
		s.log.Warn("run hook refused", "reason", "content type is not json")
		a.empty(http.StatusBadRequest)
		return
	}
	// HOOK-5: an empty answer, because there is no payload whose key could be named.
	text, ok := hooks.ParseEnvelope(body)
	if !ok {
		s.log.Warn("run hook refused", "reason", "body is not the envelope")
		a.empty(http.StatusBadRequest)
		return
	}
	payload, err := hooks.ParsePayload(text)
	if err != nil {
		// HOOK-9: refused before Decide, so that nothing of it is in force.
		// SECRET-1: not the text: it may name a key of the launch environment.
		s.log.Warn("run hook refused", "reason", "payload is malformed")
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	}
	p := trace.Point{Action: trace.HookDecide, Request: r.serial}
	s.pass(p)
	var then func(hooks.Decision)
	if s.config.Recorder != nil {
		then = func(d hooks.Decision) { s.record(p, trace.Attr{Key: "decision", Value: d.String()}) }
	}
	switch s.config.Boot.Decide(payload, then) {
	case hooks.Installed:
		s.log.Info("bootstrapped", "env_keys", len(payload.Env), "identity", payload.Identity != nil)
		s.repairIdentity() // IDENTITY-1: here alone, never in the VM that builds the image
		handle()           // HOOK-13: a replay or a conflict comes to another case
		a.empty(http.StatusOK)
	case hooks.Replayed:
		s.log.Info("bootstrap replayed")
		a.empty(http.StatusOK)
	default:
		s.log.Warn("bootstrap with another token refused")
		a.empty(http.StatusConflict)
	}
}

// repairIdentity gives this VM an identity of its own. Failures are reported
// and refuse nothing.
func (s *Server) repairIdentity() {
	if s.config.Identity == nil {
		return
	}
	steps := s.config.Identity.Repair()
	for _, step := range steps {
		if step.Error != nil {
			s.log.Warn("identity step failed", "step", step.Name, "err", *step.Error)
		}
	}
	s.log.Info("identity repaired", "degraded", identity.Degraded(steps))
	s.repair.Store(&steps)
}

// runHandler runs the image's handler for a kept hook request, if there is one,
// and puts its outcome on the request's entry.
func (s *Server) runHandler(r *request, hook string, entry int) {
	h := s.config.Handlers.Find(hook)
	if h == nil {
		return
	}
	p := trace.Point{Action: trace.HookHandlerStart, Request: r.serial}
	s.pass(p)
	// A lost client must not cut a handler in two: the context is the daemon's.
	release, err := s.config.Handlers.Acquire(s.detached())
	if err != nil {
		panic(http.ErrAbortHandler) // the daemon ends
	}
	defer release()
	s.record(p)
	o := s.config.Handlers.Run(s.detached(), h, s.config.Boot.Env())
	p.Action = trace.HookHandlerEnd
	s.pass(p)
	s.config.Boot.Finish(entry, o, func() { s.record(p) })
}
