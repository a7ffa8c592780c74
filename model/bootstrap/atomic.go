package bootstrap

import "microvms/model"

// RequestKind says what a request asks of the daemon.
type RequestKind uint8

const (
	// HookCall is a hook request, whole: recorded, decided and answered.
	HookCall RequestKind = iota
	// HookRecord is its first half: the request enters the hook log. A concurrent observer can stand between the two
	// halves, so a judge of concurrent histories gives each its own place in the order.
	HookRecord
	// HookEffect is its second half: the decision.
	HookEffect
	// ControlCall is a control request.
	ControlCall
	// HealthCall reads GET /v1/health.
	HealthCall
)

// Request is one request in the atomic form of the model, in which it has its
// whole effect in one step. It is comparable.
type Request struct {
	Kind    RequestKind
	Hook    Hook    // of hook requests
	Payload Payload // of run hooks
	Bearer  Token   // of control requests
	Op      Op
	Exec    uint8
}

// Answer is what a request's sender learns.
type Answer struct {
	Outcome Outcome // of hook and control requests; Pending for HookRecord and HealthCall
	// Saw is what the child of the exec saw, of a start and a read that were served.
	Saw Env

	// Of HealthCall:
	Bootstrapped bool
	Execs        uint8              // registered exec ids
	Logged       uint8              // entries in the hook log
	Log          [LogSize / 2]uint8 // the entries, packed as in State
	Dropped      uint8
}

// Apply is the model's transition function in its atomic form: the state after
// the request and its answer. It is pure. The interleaved form takes the same
// decisions at HookReceive, HookDecide, ControlAuthorize and ControlServe.
func (c Config) Apply(s State, r Request) (State, Answer) {
	switch r.Kind {
	case HealthCall:
		return s, Answer{Bootstrapped: s.Token != NoToken, Execs: uint8(s.Registered()), Logged: s.Logged, Log: s.Log, Dropped: s.Dropped}
	case ControlCall:
		return c.applyControl(s, r)
	case HookRecord:
		c.record(&s, r.Hook)
		return s, Answer{}
	case HookEffect:
		return c.applyHook(s, r)
	}
	c.record(&s, r.Hook)
	return c.applyHook(s, r)
}

func (c *Config) applyHook(s State, r Request) (State, Answer) {
	if r.Hook != Run {
		return s, Answer{Outcome: c.acknowledge(&s, r.Hook)}
	}
	o := c.decide(&s, r.Payload, s.Token)
	return s, Answer{Outcome: o}
}

func (c *Config) applyControl(s State, r Request) (State, Answer) {
	if o := c.authorize(&s, r.Bearer); o != Pending {
		return s, Answer{Outcome: o}
	}
	o := c.serve(&s, r.Op, r.Exec)
	a := Answer{Outcome: o}
	if o == Served {
		a.Saw, _ = s.Saw(int(r.Exec))
	}
	return s, a
}

// The actions of the atomic form.
const (
	HookRequestAction    uint16 = iota // (hook, payload, outcome)
	ControlRequestAction               // (bearer, op, exec, outcome)
)

// NewAtomic returns the atomic form of a configuration: one request, one step.
// It is what a daemon does for requests that do not overlap.
func NewAtomic(c Config) model.Model[State] {
	c.check()
	return model.Model[State]{
		Name:   "bootstrap",
		Config: c.Name,
		Actions: []model.ActionInfo{
			HookRequestAction: {Name: "HookRequest", Params: []string{"hook", "payload", "outcome"},
				Values: map[string][]string{"hook": hookNames, "payload": payloadNames, "outcome": outcomeNames[:]}},
			ControlRequestAction: {Name: "ControlRequest", Params: []string{"bearer", "op", "exec", "outcome"},
				Values: map[string][]string{"bearer": tokenNames, "op": opNames, "outcome": outcomeNames[:]}},
		},
		Init:       func(out []State) []State { return append(out, State{}) },
		Next:       c.nextAtomic,
		Properties: c.atomicProperties(),
		Fields:     Fields,
	}
}

// RequestOf returns the request that a step of the atomic form stands for.
func RequestOf(a model.Action) Request {
	if a.ID == HookRequestAction {
		return Request{Kind: HookCall, Hook: Hook(a.Arg[0]), Payload: Payload(a.Arg[1])}
	}
	return Request{Kind: ControlCall, Bearer: Token(a.Arg[0]), Op: Op(a.Arg[1]), Exec: a.Arg[2]}
}

func (c *Config) nextAtomic(s State, out []model.Step[State]) []model.Step[State] {
	hook := func(h Hook, p Payload) {
		next, answer := c.Apply(s, Request{Kind: HookCall, Hook: h, Payload: p})
		out = append(out, model.Step[State]{Action: model.Act(HookRequestAction, uint8(h), uint8(p), uint8(answer.Outcome)), State: next})
	}
	if int(s.Logged)+int(s.Dropped) < c.MaxHooks {
		for _, p := range c.Payloads {
			if p.Token() != Attacker || c.attackerActive(&s) {
				hook(Run, p)
			}
		}
		for _, h := range c.Hooks {
			hook(h, NoPayload)
		}
	}
	for _, b := range c.Bearers {
		if b == Attacker && !c.attackerActive(&s) {
			continue
		}
		for exec := range c.Execs {
			for _, op := range [...]Op{Start, Read} {
				next, answer := c.Apply(s, Request{Kind: ControlCall, Bearer: b, Op: op, Exec: uint8(exec)})
				out = append(out, model.Step[State]{Action: model.Act(ControlRequestAction, uint8(b), uint8(op), uint8(exec), uint8(answer.Outcome)), State: next})
			}
		}
	}
	return out
}
