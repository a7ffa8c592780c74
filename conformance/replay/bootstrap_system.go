package replay

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"microvms/agentd/api"
	"microvms/model"
	"microvms/model/bootstrap"
)

// bootstrapSystem is a daemon as the drivers of the bootstrap model see it.
type bootstrapSystem struct {
	daemon *Daemon
	wire   *wire
	execs  int // exec ids of the model
	filler int // entries that fill the hook log up to the model's cap
	probes int // execs started to look at the environment
	turn   int // goes through the bodies and bearers that stand for one symbol
}

// newBootstrapSystem starts a daemon and fills its hook log, so that it keeps as
// many more entries as the model's does.
func newBootstrapSystem(ctx context.Context, start Starter, o Options, c bootstrap.Config) (*bootstrapSystem, error) {
	d, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	b := &bootstrapSystem{daemon: d, wire: newWire(d.URL), execs: c.Execs, filler: d.LogSize - c.LogCap}
	for range b.filler {
		if _, err := b.hook(ctx, bootstrap.Ready, ""); err != nil {
			_ = b.close()
			return nil, fmt.Errorf("cannot fill the hook log: %w", err)
		}
	}
	return b, nil
}

func (b *bootstrapSystem) close() error {
	if b.daemon.Gate != nil {
		b.daemon.Gate.Open()
	}
	b.wire.close()
	return b.daemon.Stop()
}

// hook calls a hook and returns how it was answered.
func (b *bootstrapSystem) hook(ctx context.Context, h bootstrap.Hook, body string) (*answer, error) {
	a, err := b.wire.call(ctx, b.wire.once, http.MethodPost, api.HookPrefix+"/"+h.String(), "", api.MediaJSON, body)
	if err != nil {
		return nil, err
	}
	// HOOK-3, AGENTD-3: these answers say all that they say by their status.
	if (a.status == http.StatusOK || a.status == http.StatusConflict) && len(a.body) != 0 {
		return nil, fmt.Errorf("hook %s answered %d with a body of %d bytes", h, a.status, len(a.body))
	}
	return a, nil
}

// control sends a control request of the model.
func (b *bootstrapSystem) control(ctx context.Context, op bootstrap.Op, exec uint8, authorization string) (*answer, error) {
	if op == bootstrap.Start {
		return b.wire.call(ctx, b.wire.once, http.MethodPost, api.PathExecStart, authorization, api.MediaJSON, startBody(execName(exec)))
	}
	return b.wire.call(ctx, b.wire.once, http.MethodGet, execPath(execName(exec)), authorization, "", "")
}

func execPath(exec string) string { return strings.Replace(api.PathExec, "{id}", exec, 1) }

// next returns one of the alternatives that stand for one symbol, each in turn.
func (b *bootstrapSystem) next(of []string) string {
	b.turn++
	return of[b.turn%len(of)]
}

// observe reads back everything of a bootstrap state that shows: health, how
// each token is answered, and what each exec's child saw. With probe it starts a
// further exec to see the installed environment.
func (b *bootstrapSystem) observe(ctx context.Context, installed bootstrap.Token, probe bool) (Observation, error) {
	h, err := b.wire.health(ctx)
	if err != nil {
		return nil, err
	}
	o := Observation{
		{Name: "bootstrapped", Value: strconv.FormatBool(h.Bootstrapped)},
		{Name: "log", Value: b.logWord(h)},
		{Name: "dropped", Value: strconv.FormatUint(h.HooksDropped, 10)},
		{Name: "registered", Value: strconv.Itoa(int(h.Execs) - b.probes)},
	}
	for _, t := range []bootstrap.Token{bootstrap.Harness, bootstrap.Attacker} {
		status, err := b.wire.status(ctx, api.PathProcs, "Bearer "+tokenBytes(t))
		if err != nil {
			return nil, err
		}
		o = append(o, model.Field{Name: "bearer " + t.String(), Value: strconv.Itoa(status)})
	}
	authorization := "Bearer " + tokenBytes(installed)
	for exec := range b.execs {
		word, err := b.saw(ctx, execName(uint8(exec)), authorization, installed != bootstrap.NoToken)
		if err != nil {
			return nil, err
		}
		o = append(o, model.Field{Name: "child " + strconv.Itoa(exec), Value: word})
	}
	env := unprobed
	if probe && installed != bootstrap.NoToken {
		if env, err = b.probe(ctx, authorization); err != nil {
			return nil, err
		}
	}
	return append(o, model.Field{Name: "environment", Value: env}), nil
}

// unprobed stands for an environment that nobody looked at.
const unprobed = "unprobed"

// saw returns what the exec's child saw. Before bootstrap nothing can be asked.
func (b *bootstrapSystem) saw(ctx context.Context, exec, authorization string, open bool) (string, error) {
	if !open {
		return "unregistered", nil
	}
	out, known, err := b.wire.output(ctx, exec, authorization)
	if err != nil || !known {
		return "unregistered", err
	}
	return sawWord(out), nil
}

// probe starts an exec of its own and returns the environment that its child
// had.
func (b *bootstrapSystem) probe(ctx context.Context, authorization string) (string, error) {
	b.probes++
	name := "probe-" + strconv.Itoa(b.probes)
	a, err := b.wire.call(ctx, b.wire.once, http.MethodPost, api.PathExecStart, authorization, api.MediaJSON, startBody(name))
	if err != nil {
		return "", err
	}
	if a.status != http.StatusOK {
		return "", fmt.Errorf("a start to look at the environment was answered %d", a.status)
	}
	return b.saw(ctx, name, authorization, true)
}

// logWord renders the hook log without the entries that filled it.
func (b *bootstrapSystem) logWord(h *api.Health) string {
	words := make([]string, 0, len(h.Hooks))
	for i, e := range h.Hooks {
		if i < b.filler && e.Hook == api.HookReady {
			continue
		}
		words = append(words, e.Hook)
	}
	return strings.Join(words, " ")
}

// projectBootstrap is what must be observed of a state.
func projectBootstrap(s bootstrap.State, execs int, probe bool) Observation {
	var log []string
	for _, h := range s.Entries() {
		log = append(log, h.String())
	}
	o := Observation{
		{Name: "bootstrapped", Value: strconv.FormatBool(s.Token != bootstrap.NoToken)},
		{Name: "log", Value: strings.Join(log, " ")},
		{Name: "dropped", Value: strconv.Itoa(int(s.Dropped))},
		{Name: "registered", Value: strconv.Itoa(s.Registered())},
	}
	for _, t := range []bootstrap.Token{bootstrap.Harness, bootstrap.Attacker} {
		status := bootstrap.Unauthorized
		switch s.Token {
		case bootstrap.NoToken:
			status = bootstrap.Unavailable
		case t:
			status = bootstrap.Served
		}
		o = append(o, model.Field{Name: "bearer " + t.String(), Value: strconv.Itoa(status.Status())})
	}
	for exec := range execs {
		word := "unregistered"
		if env, registered := s.Saw(exec); registered {
			word = env.String()
			if s.SawToken(exec) {
				word += " and the token"
			}
		}
		o = append(o, model.Field{Name: "child " + strconv.Itoa(exec), Value: word})
	}
	env := unprobed
	if probe && s.Token != bootstrap.NoToken {
		env = s.Env.String()
	}
	return append(o, model.Field{Name: "environment", Value: env})
}
