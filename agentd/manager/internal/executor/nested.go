package executor

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/execution"
)

// maxRecursion is how deep runs may be nested (manager facts, section 8).
const maxRecursion = 6

// The bits of a nested run's permissions. The letters of a run's permissions
// name those from write storage to spawn nondeterministic, in this order.
const (
	permWriteStorage = 1 << 2
	permSendMessages = 1 << 3
	permCallOthers   = 1 << 4
	permSpawnNondet  = 1 << 5
	permUseBalance   = 1 << 7
)

// forbidden are the permissions by which a nested run could have effects.
const forbidden = permWriteStorage | permSendMessages | permSpawnNondet | permUseBalance

// nestedContext is the field nested of a nested run's execution data: what its
// envelope says beside what a run has anyway.
type nestedContext struct {
	MemoryLimit      uint32             `calldata:"memory_limit"`
	Permissions      uint32             `calldata:"permissions"`
	RemainingDetFuel calldata.U256      `calldata:"remaining_det_fuel"`
	Stack            []calldata.Address `calldata:"stack"`
	StateMode        msp.StateMode      `calldata:"state_mode"`
	TopmostRunnerID  string             `calldata:"topmost_runner_id"`
}

// runNested runs the executor that an envelope asks for and returns the reply.
// A failure of any kind is a reply, too: an internal error with its reason.
func (p *process) runNested(ctx context.Context, envelope []byte) []byte {
	reply, err := p.tryNested(ctx, envelope)
	if err != nil {
		p.host.log.Warn("nested run failed", "err", err)
		reply = internalError(err)
	}
	out, err := calldata.Marshal(reply)
	if err != nil {
		out, err = calldata.Marshal(internalError(errors.New("the reply cannot be written")))
	}
	if err != nil {
		panic("executor: internal error: cannot write a fixed reply: " + err.Error())
	}
	return out
}

// internalError is the reply to a nested run that failed. It claims nothing
// about effects.
func internalError(cause error) *msp.NestedReply {
	// EXECUTOR-41: the executor goes on, and says itself what a failed call means.
	text, err := calldata.Marshal(cause.Error())
	if err != nil {
		text = nil // null: the reason is no text
	}
	return &msp.NestedReply{Result: msp.NestedResult{Kind: msp.ResultInternalError, Data: text}, SmallHash: []byte{}}
}

func (p *process) tryNested(ctx context.Context, envelope []byte) (*msp.NestedReply, error) {
	var env msp.NestedRequest
	if err := calldata.Unmarshal(envelope, &env); err != nil {
		return nil, fmt.Errorf("cannot read the envelope: %w", err)
	}
	child, err := p.nestedProcess(&env)
	if err != nil {
		return nil, err
	}
	r, err := child.runToResult(ctx)
	if err != nil {
		return nil, err
	}
	// EXECUTOR-39: what a nested run does not tell its caller's executor about cannot take effect.
	if e := effects(r); e != "" {
		return nil, fmt.Errorf("the nested run had effects: %s", e)
	}
	return &msp.NestedReply{Result: msp.NestedResult{Kind: r.Kind, Data: r.Data}, SmallHash: r.SmallHash, EffectFree: true}, nil
}

// nestedProcess makes the process that an envelope asks for.
func (p *process) nestedProcess(env *msp.NestedRequest) (*process, error) {
	switch {
	case env.Message.IsInit:
		return nil, errors.New("a nested run cannot deploy: is_init is true") // EXECUTOR-37, and so each below
	case env.Message.Value.Sign() != 0:
		return nil, errors.New("a nested run cannot move value: value is not 0")
	case env.Permissions&forbidden != 0:
		return nil, fmt.Errorf("a nested run cannot have permissions %#x", env.Permissions&forbidden)
	}
	left := min(env.RemainingRecursion, maxRecursion)
	if p.data.RemainingRecursion != nil {
		if *p.data.RemainingRecursion == 0 {
			return nil, errors.New("the recursion is used up")
		}
		// EXECUTOR-38: counted here as well, because the envelope is the executor's word.
		left = min(left, *p.data.RemainingRecursion-1)
	}
	if p.depth >= maxRecursion {
		return nil, errors.New("the recursion is used up")
	}
	var s msp.Selector
	if err := calldata.Unmarshal(env.Routing, &s); err != nil {
		return nil, fmt.Errorf("cannot read the routing: %w", err)
	}
	context, err := calldata.Marshal(&nestedContext{
		MemoryLimit: env.MemoryLimit, Permissions: env.Permissions, RemainingDetFuel: env.RemainingDetFuel,
		Stack: env.Stack, StateMode: env.StateMode, TopmostRunnerID: env.TopmostRunnerID,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write the execution data: %w", err)
	}
	// EXECUTOR-42: what is the transaction's is its caller's, what costs is not asked for.
	parent := p.request
	req := msp.NewRunRequest()
	req.Selector, req.Message, req.Calldata = s, env.Message, env.Calldata
	req.IsSync, req.NoModules, req.Permissions = true, true, letters(env.Permissions)
	req.Host, req.HostHello, req.HookCalls = parent.Host, parent.HostHello, parent.HookCalls
	req.Timestamp, req.HostData, req.GasData = parent.Timestamp, parent.HostData, parent.GasData
	req.BucketTotals, req.InitialTimeUnits = parent.BucketTotals, parent.InitialTimeUnits
	data := req.ExecutionData()
	data.Nested, data.RemainingRecursion = context, &left
	child := &process{launcher: p.launcher, id: p.launcher.cfg.NextID(), request: req, data: data, depth: p.depth + 1}
	return child, child.build()
}

// letters are the permissions of a nested run in the form of its argument. Of
// those that have a letter only calls are left.
func letters(bits uint32) string {
	if bits&permCallOthers != 0 {
		return "c"
	}
	return ""
}

// runToResult runs a nested process to its end. It takes no permits: its
// caller's executor holds some, and waits.
func (p *process) runToResult(ctx context.Context) (*msp.ReportedResult, error) {
	l := p.launcher
	defer p.close()
	key := execution.Key{Namespace: "nested", ID: strconv.FormatUint(uint64(p.id), 10)}
	e, _, err := l.nested.Start(ctx, key, func(context.Context) (*execution.Command, error) { return p.command, nil })
	p.spawned(err == nil)
	if err != nil {
		return nil, fmt.Errorf("cannot start the nested run: %w", err)
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = e.WriteStdin(ctx, p.input, true) // who does not read ends by itself, or is ended
	}()
	stopped := false
	select {
	case <-e.Exited():
	case <-ctx.Done():
		// EXECUTOR-40: its caller is gone, or was ended by its deadline.
		stopped = true
		_, _ = e.Kill(l.base)
	case <-l.base.Done():
		stopped = true
	}
	lingered, cancel := context.WithCancel(l.base)
	timer := l.cfg.Clock.AfterFunc(l.cfg.Linger, cancel)
	report := p.finish(lingered)
	timer.Stop()
	cancel()
	select {
	case <-e.Done():
	case <-l.base.Done():
	}
	_, _ = e.Kill(l.base) // what is left of the group
	<-wrote
	res := e.Poll().Result
	_, _ = e.Ack()
	switch {
	case stopped || res == nil:
		return nil, errors.New("the nested run was ended with its caller")
	case res.ExitCode == nil:
		return nil, errors.New("the nested run was ended by a signal")
	case *res.ExitCode != 0:
		return nil, fmt.Errorf("the nested run exited with code %d", *res.ExitCode)
	case report.Consumed == nil:
		return nil, errors.New("the nested run reported no result")
	}
	r, _, err := judge(report.Consumed)
	if err != nil {
		return nil, fmt.Errorf("cannot take the nested run's result: %w", err)
	}
	return r, nil
}
