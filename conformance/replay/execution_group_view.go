package replay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"microvms/agentd/api"
	"microvms/model/execution"
)

// Observe reads the state back.
func (d *groupDriver) Observe(ctx context.Context, t Transition[execution.GroupState]) (Observation, error) {
	return d.settled(ctx, projectGroup(t.To, d.config.IDs), d.observe)
}

// Close ends everything.
func (d *groupDriver) Close() error { return d.close() }

// observe reads poll, procs, health and the processes themselves.
func (d *groupSystem) observe(ctx context.Context) (Observation, error) {
	h, err := d.wire.health(ctx)
	if err != nil {
		return nil, err
	}
	o := Observation{field("busy", h.Busy), field("execs", h.Execs), field("off", d.daemon.PoweredOff != nil && d.daemon.PoweredOff())}
	var procs api.ProcsResponse
	if _, err := d.get(ctx, api.PathProcs, &procs); err != nil {
		return nil, err
	}
	if len(procs.Procs) != int(h.Execs) {
		return nil, fmt.Errorf("procs has %d entries, health counts %d", len(procs.Procs), h.Execs)
	}
	for id := range uint8(d.config.IDs) {
		more, err := d.observeExec(ctx, id, procs.Procs)
		if err != nil {
			return nil, err
		}
		o = append(o, more...)
	}
	return o, nil
}

func (d *groupSystem) observeExec(ctx context.Context, id uint8, procs []api.ProcGroup) (Observation, error) {
	var poll api.PollResponse
	a, err := d.get(ctx, execRoute(api.PathExec, execID(id)), &poll)
	if err != nil {
		return nil, err
	}
	phase := string(poll.Phase)
	if a.status != http.StatusOK {
		if phase = a.slug(); a.status != http.StatusNotFound {
			return nil, fmt.Errorf("a poll of %s was answered %d", execID(id), a.status)
		}
	}
	name := execID(id) + " "
	o := Observation{field(name+"phase", phase), field(name+"result", resultWord(poll.Outcome))}
	i := slices.IndexFunc(procs, func(p api.ProcGroup) bool { return p.ExecID == execID(id) })
	if i < 0 {
		o = append(o, field(name+"procs", "none"))
	} else {
		p := procs[i]
		o = append(o, field(name+"procs", fmt.Sprintf("child_exited=%v reap=%v pids=%s", p.ChildExited, p.Reap, d.pidWords(id, p))))
	}
	return append(o, field(name+"alive", d.aliveWords(id))), nil
}

// resultWord renders the outcome of a poll.
func resultWord(o *api.Outcome) string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("code=%s signal=%s timed_out=%v writers=%v", nullable(o.ExitCode), nullable(o.Signal), o.TimedOut, o.WritersMayBeAlive)
}

func nullable(n *int32) string {
	if n == nil {
		return "null"
	}
	return strconv.Itoa(int(*n))
}

// pidWords names the listed processes; one that the driver does not know stays
// a number.
func (d *groupSystem) pidWords(id uint8, p api.ProcGroup) string {
	words := []string{}
	if !slices.IsSorted(p.Pids) {
		words = append(words, "unsorted") // PROC-2: ascending
	}
	if p.Pgid == nil || d.leader[id] == nil || int(*p.Pgid) != d.leader[id].PID {
		words = append(words, "foreign pgid") // EXEC-16: the group's number is the leader's
	}
	for _, pid := range p.Pids {
		switch {
		case d.leader[id] != nil && int(pid) == d.leader[id].PID:
			words = append(words, "leader")
		case d.member[id] != nil && int(pid) == d.member[id].PID:
			words = append(words, "member")
		default:
			words = append(words, strconv.Itoa(int(pid)))
		}
	}
	slices.Sort(words)
	return strings.Join(words, "+")
}

func (d *groupSystem) aliveWords(id uint8) string {
	words := []string{}
	if d.leader[id] != nil && d.leader[id].Alive() {
		words = append(words, "leader")
	}
	if d.member[id] != nil && d.member[id].Alive() {
		words = append(words, "member")
	}
	return strings.Join(words, "+")
}

// projectGroup is what must be observed of a state.
func projectGroup(s execution.GroupState, ids int) Observation {
	v := execution.View(s)
	o := Observation{field("busy", v.Busy), field("execs", v.Execs), field("off", s.Off)}
	for id := range uint8(ids) {
		x, name := v.Exec[id], execID(id)+" "
		phase, result, procs := "unknown_exec", "none", "none"
		if x.Phase != execution.Absent {
			phase = [...]string{execution.Running: "running", execution.Exited: "exited", execution.Acked: "acked"}[x.Phase]
			procs = fmt.Sprintf("child_exited=%v reap=%v pids=%s", x.ChildExited, x.Reap, words(x.Leader, x.Member))
		}
		if x.HasResult {
			code, signal := "null", "null"
			if x.Status.HasCode {
				code = strconv.Itoa(int(x.Status.Code))
			} else {
				signal = strconv.Itoa(int(x.Status.Signal))
			}
			result = fmt.Sprintf("code=%s signal=%s timed_out=%v writers=%v", code, signal, x.TimedOut, x.Writers)
		}
		o = append(o, field(name+"phase", phase), field(name+"result", result), field(name+"procs", procs),
			field(name+"alive", words(x.Leader, x.MemberAlive)))
	}
	return o
}

func words(leader, member bool) string {
	var out []string
	if leader {
		out = append(out, "leader")
	}
	if member {
		out = append(out, "member")
	}
	return strings.Join(out, "+")
}
