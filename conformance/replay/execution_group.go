package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/model/execution"
)

// ExecGroup replays a settled configuration of the group model: one act from
// outside, and everything that follows from it.
//
// The table of actions and operations:
//
//	ExecStart       POST /v1/exec/start; an unspawned one names a program that does not exist
//	ExecKill        POST …/kill, answered now or when its escalation has ended
//	ExecAck         POST …/ack
//	ExecPoll        GET /v1/exec/{id}
//	LeaderExit      the child exits with code 0
//	LeaderIgnore    the child ignores SIGTERM
//	MemberFork      the child forks a member into its group
//	MemberEscape    the member calls setsid
//	MemberIgnore    the member ignores SIGTERM
//	MemberClose     the member closes its output pipes
//	MemberExit      the member exits
//	DeadlineExpire  the timer of that span fires; likewise GraceExpire, LingerExpire and ExecCollect
//
// What the daemon does by itself (ExecSpawn, ExecRefuse, LeaderReap, GroupTerm,
// GroupKill, GroupGone, ExecExit) is awaited from its recorder.
func ExecGroup(c execution.GroupConfig, target string, start ExecStarter) Spec[execution.GroupState] {
	return Spec[execution.GroupState]{
		Name: "execution-" + c.Name, Target: target, Model: execution.NewGroup(c),
		Start: func(ctx context.Context, _ execution.GroupState) (Driver[execution.GroupState], error) {
			s, err := newExecSystem(ctx, start, ExecOptions{Hold: holdsTerm})
			if err != nil {
				return nil, err
			}
			return &groupDriver{groupSystem{execSystem: s, config: c}}, nil
		},
		Project: func(t Transition[execution.GroupState]) Observation { return projectGroup(t.To, c.IDs) },
	}
}

// groupSystem is what both drivers of the group model share.
type groupSystem struct {
	*execSystem
	config  execution.GroupConfig
	leader  [execution.MaxIDs]*child.Process
	member  [execution.MaxIDs]*child.Process
	kills   [execution.MaxIDs]chan result
	grace   [execution.MaxIDs][3]uint64 // serial numbers of the timers of each escalation
	started int                         // children of all lives, for their names
}

type groupDriver struct{ groupSystem }

func execID(id uint8) string { return "e" + strconv.Itoa(int(id)) }

var causeWords = [...]string{"deadline", "reap", "kill"}

// Do performs one act and waits for all that follows from it.
func (d *groupDriver) Do(ctx context.Context, t Transition[execution.GroupState]) error {
	trail := d.config.Follow(t.From, t.Action)
	if len(trail) == 0 {
		return errors.New("the model has no such step")
	}
	mark := d.mark()
	if err := d.act(ctx, t, trail); err != nil {
		return err
	}
	if d.daemon.Gate != nil {
		for _, step := range trail {
			if err := d.signals(ctx, step, t.To); err != nil {
				return err
			}
		}
	}
	if _, err := d.await(ctx, mark, awaited(trail)); err != nil {
		return err
	}
	if err := d.processes(ctx, t.From, t.To); err != nil {
		return err
	}
	for _, step := range trail {
		if step.Action.ID == execution.GroupGone && execution.Cause(step.Action.Arg[1]) == execution.ByKill {
			if err := d.killed(ctx, step.Action.Arg[0], execution.GroupAnswer(step.From, step.Action)); err != nil {
				return err
			}
		}
	}
	return d.timers(ctx, t.To)
}

// timers waits until the timers are set that the model says, and no others.
func (d *groupDriver) timers(ctx context.Context, s execution.GroupState) error {
	if d.daemon.Timers == nil {
		return nil
	}
	n := execution.PendingTimers(s)
	return d.daemon.Timers.Counts(ctx, map[time.Duration]int{
		SpanDeadline: n.Deadline, SpanGrace: n.Grace, SpanLinger: n.Linger, SpanRetention: n.Retention,
	})
}

// holdsTerm parks each escalation before its first signal, so that the driver
// lets one go after another and knows whose timer is whose.
func holdsTerm(p trace.Point) bool { return p.Action == trace.GroupTerm }

// signals lets an escalation send its first signal, waits for those whom it
// ends, and finds the timer of its grace if it goes on to wait. An escalation
// that finds nobody stands at the same point.
func (d *groupDriver) signals(ctx context.Context, step execution.Taken[execution.GroupState], end execution.GroupState) error {
	id, cause := step.Action.Arg[0], step.Action.Arg[1]
	first := step.Action.ID == execution.GroupTerm ||
		step.Action.ID == execution.GroupGone && step.From.Exec[id].Stage[cause] == execution.Due
	if !first {
		return nil
	}
	parked, err := d.daemon.Gate.Await(ctx, func(p trace.Point) bool { return holdsTerm(p) && p.Exec == execID(id) })
	if err != nil {
		return fmt.Errorf("no escalation stands before its signal: %w", err)
	}
	last := d.daemon.Timers.Last()
	parked.Release()
	if err := d.processes(ctx, step.From, step.To); err != nil {
		return err
	}
	if end.Exec[id].Stage[cause] == execution.Grace {
		d.grace[id][cause], err = d.daemon.Timers.Next(ctx, SpanGrace, last)
	}
	return err
}

// awaited lists what the daemon records on the way.
func awaited(trail []execution.Taken[execution.GroupState]) []wanted {
	var want []wanted
	for _, step := range trail {
		w := wanted{exec: execID(step.Action.Arg[0]), action: groupEvents[step.Action.ID]}
		switch step.Action.ID {
		case execution.GroupTerm, execution.GroupKill, execution.GroupGone, execution.GraceExpire:
			w.cause = causeWords[step.Action.Arg[1]]
		}
		if w.action != "" {
			want = append(want, w)
		}
	}
	return want
}

// groupEvents names the transitions that the daemon always records for a step.
var groupEvents = map[uint16]string{
	execution.ExecSpawn: string(trace.ExecSpawn), execution.ExecRefuse: string(trace.ExecRefuse),
	execution.LeaderReap: string(trace.LeaderReap), execution.GroupTerm: string(trace.GroupTerm),
	execution.GroupKill: string(trace.GroupKill), execution.GroupGone: string(trace.GroupGone),
	execution.ExecExit: string(trace.ExecExit), execution.DeadlineExpire: string(trace.DeadlineExpire),
	execution.GraceExpire: string(trace.GraceExpire), execution.LingerExpire: string(trace.LingerExpire),
	execution.ExecCollect: string(trace.ExecCollect),
}

// act performs the operation that the action stands for.
func (d *groupDriver) act(ctx context.Context, t Transition[execution.GroupState], trail []execution.Taken[execution.GroupState]) error {
	id := t.Action.Arg[0]
	switch t.Action.ID {
	case execution.ExecStart:
		return d.start(ctx, id, execution.Kind(t.Action.Arg[1]), trail)
	case execution.ExecKill:
		if d.expects(trail) == execution.UnknownExec {
			return d.expect(ctx, api.PathExecKill, id, execution.UnknownExec)
		}
		d.kills[id] = d.later(func(ctx context.Context) (*answer, error) { return d.post(ctx, api.PathExecKill, execID(id), "") })
		return nil
	case execution.ExecAck:
		return d.expect(ctx, api.PathExecAck, id, d.expects(trail))
	case execution.ExecPoll:
		a, err := d.get(ctx, execRoute(api.PathExec, execID(id)), nil)
		if err != nil {
			return err
		}
		return a.says(d.expects(trail).String())
	}
	if operation, ok := processOperations[t.Action.ID]; ok {
		return operation(&d.groupSystem, ctx, id)
	}
	return d.pass(ctx, t)
}

// expects is the answer to the act itself.
func (d *groupDriver) expects(trail []execution.Taken[execution.GroupState]) execution.Answer {
	return execution.GroupAnswer(trail[0].From, trail[0].Action)
}

// expect sends a request without a body and compares its answer.
func (d *groupSystem) expect(ctx context.Context, route string, id uint8, want execution.Answer) error {
	a, err := d.post(ctx, route, execID(id), "")
	if err != nil {
		return err
	}
	return a.says(want.String())
}

// start sends a start request; the answer is that of the last step that has
// one: the spawn, the refusal, or the request itself.
func (d *groupDriver) start(ctx context.Context, id uint8, kind execution.Kind, trail []execution.Taken[execution.GroupState]) error {
	want, spawns := execution.None, false
	for _, step := range trail {
		if a := execution.GroupAnswer(step.From, step.Action); a != execution.None {
			want = a
		}
		spawns = spawns || step.Action.ID == execution.ExecSpawn
	}
	a, err := d.sendStart(ctx, id, kind)
	if err != nil {
		return err
	}
	if err := a.says(want.String()); err != nil {
		return err
	}
	if spawns {
		return d.greet(ctx, id)
	}
	return nil
}

// sendStart sends a start of that kind. Each names a child of its own, so that a
// second one would not go unnoticed.
func (d *groupSystem) sendStart(ctx context.Context, id uint8, kind execution.Kind) (*answer, error) {
	body, err := d.groupBody(id, kind)
	if err != nil {
		return nil, err
	}
	return d.wire.call(ctx, d.wire.once, http.MethodPost, api.PathExecStart, d.bearer, api.MediaJSON, body)
}

func (d *groupSystem) groupBody(id uint8, kind execution.Kind) (string, error) {
	more := map[string]any{}
	if kind&execution.Unspawned != 0 {
		more["command"] = []string{"/nonexistent/program"}
	}
	if kind&execution.ReapGroup != 0 {
		more["reap_group_on_exit"] = true
	}
	if kind&execution.PowersOff != 0 {
		more["poweroff_on_exit"] = true
	}
	if kind&execution.Timed != 0 {
		more["timeout_sec"] = SpanDeadline.Seconds()
		if d.daemon.Real {
			more["timeout_sec"] = d.daemon.Deadline.Seconds()
		}
	}
	return d.startBody(execID(id), d.leaderName(id), more)
}

func (d *groupSystem) leaderName(id uint8) string {
	return fmt.Sprintf("%s.%d.leader", execID(id), d.started)
}

// greet waits for the child of a start that spawned.
func (d *groupSystem) greet(ctx context.Context, id uint8) (err error) {
	d.leader[id], err = d.children.Await(ctx, d.leaderName(id))
	d.started++
	return err
}

// processOperations are the acts of the processes.
var processOperations = map[uint16]func(d *groupSystem, ctx context.Context, id uint8) error{
	execution.LeaderExit: func(d *groupSystem, ctx context.Context, id uint8) error { return d.leader[id].Exit(ctx, 0) },
	execution.LeaderIgnore: func(d *groupSystem, ctx context.Context, id uint8) error {
		_, err := d.leader[id].Do(ctx, "ignore")
		return err
	},
	execution.MemberFork: (*groupSystem).fork,
	execution.MemberEscape: func(d *groupSystem, ctx context.Context, id uint8) error {
		_, err := d.member[id].Do(ctx, "escape")
		return err
	},
	execution.MemberIgnore: func(d *groupSystem, ctx context.Context, id uint8) error {
		_, err := d.member[id].Do(ctx, "ignore")
		return err
	},
	execution.MemberClose: func(d *groupSystem, ctx context.Context, id uint8) error {
		_, err := d.member[id].Do(ctx, "close")
		return err
	},
	execution.MemberExit: func(d *groupSystem, ctx context.Context, id uint8) error { return d.member[id].Exit(ctx, 0) },
}

func (d *groupSystem) fork(ctx context.Context, id uint8) error {
	name := strings.TrimSuffix(d.leader[id].Name, "leader") + "member"
	if _, err := d.leader[id].Do(ctx, "fork", name); err != nil {
		return err
	}
	var err error
	d.member[id], err = d.children.Await(ctx, name)
	return err
}

// pass lets a timer fire.
func (d *groupDriver) pass(ctx context.Context, t Transition[execution.GroupState]) error {
	switch t.Action.ID {
	case execution.DeadlineExpire:
		return d.passes(ctx, SpanDeadline)
	case execution.LingerExpire:
		return d.passes(ctx, SpanLinger)
	case execution.ExecCollect:
		return d.passes(ctx, SpanRetention)
	case execution.GraceExpire:
		if d.daemon.Timers == nil {
			return d.passes(ctx, SpanGrace)
		}
		return d.daemon.Timers.FireSerial(ctx, d.grace[t.Action.Arg[0]][t.Action.Arg[1]])
	}
	return errors.New("the table has no operation for the action")
}

// processes waits for the ends of the processes that end in the step, and
// forgets those of a record that was collected.
func (d *groupSystem) processes(ctx context.Context, before, after execution.GroupState) error {
	for id := range after.Exec {
		from, to := before.Exec[id], after.Exec[id]
		if d.leader[id] != nil && from.Leader <= execution.LeaderAlive && to.Leader > execution.LeaderAlive {
			if err := d.leader[id].AwaitEnd(ctx); err != nil {
				return err
			}
		}
		if d.member[id] != nil && to.Member == execution.Gone {
			if err := d.member[id].AwaitEnd(ctx); err != nil {
				return err
			}
		}
		if to.Phase == execution.Absent && from.Phase != execution.Absent {
			if m := d.member[id]; m != nil && m.Alive() {
				if err := m.End(ctx); err != nil { // it outlives its record, and the model
					return err
				}
			}
			d.leader[id], d.member[id] = nil, nil
		}
	}
	return nil
}

// killed compares the answer of the kill request in flight.
func (d *groupSystem) killed(ctx context.Context, id uint8, want execution.Answer) error {
	a, err := answered(ctx, d.kills[id])
	if err != nil {
		return err
	}
	d.kills[id] = nil
	body := fmt.Sprintf(`{"exec_id":%q,"killed":%v}`, execID(id), want == execution.Signalled)
	if got := strings.TrimSpace(string(a.body)); a.status != http.StatusOK || got != body {
		return fmt.Errorf("the kill was answered %d %s, the model says %s", a.status, got, body)
	}
	return nil
}
