package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"microvms/agentd/api"
	"microvms/agentd/internal/hooks"
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
	kept := s.config.Boot.Observe(name, s.config.Clock.Now(), then)
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
	if name == api.HookRun {
		s.runHook(a, r, body)
		return
	}
	if name == api.HookResume && !s.config.Boot.Bootstrapped() {
		s.log.Error("resumed without a token: this looks like a cold start")
	}
	// HOOK-4: terminate too: the platform ends the VM, not the daemon.
	a.empty(http.StatusOK)
}

// runHook is the one-shot bootstrap. It takes no credential: the platform has
// none to present.
func (s *Server) runHook(a *answer, r *request, body []byte) {
	// HOOK-16: before the body is parsed, since it is meant for another parser.
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
		a.empty(http.StatusOK)
	case hooks.Replayed:
		s.log.Info("bootstrap replayed")
		a.empty(http.StatusOK)
	default:
		s.log.Warn("bootstrap with another token refused")
		a.empty(http.StatusConflict)
	}
}
