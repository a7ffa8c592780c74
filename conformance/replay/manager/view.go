package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/conformance/replay"
	"microvms/model"
	"microvms/model/manager"
)

func field(name string, value any) model.Field {
	return model.Field{Name: name, Value: fmt.Sprint(value)}
}

// project is what must be seen after a transition.
//
//	model                        seen
//	Free                         permits.current of the status route
//	Queued, Granted              the snapshot of an attach is queued
//	Running, Stopping, Draining  it is started
//	Finished, Failed             it is finished with the cause, or failed_to_start
//	Absent, Released             the attach is answered unknown_id
//	Running                      its executor lives; in every other phase it does not
//	a connection's outbox        the messages that its client received and has not taken, in order
//
// A manager that is closing answers nothing: its clients' messages and its
// executors are what is left to see.
func project(c manager.Config, t transition) replay.Observation {
	s := t.To
	if c.Eager {
		if unread, ok := c.Unread(t.From, t.Action, t.To); ok {
			s = unread
		}
	}
	var o replay.Observation
	if s.Closing() {
		o = append(o, field("manager", "closing"))
	} else {
		o = append(o, field("manager", "serves"), field("free", s.Free))
		for i := range c.Runs {
			o = append(o, field(fmt.Sprintf("run%d", i+1), runWords(&s.Runs[i])))
		}
	}
	for i := range c.Runs {
		o = append(o, field(fmt.Sprintf("executor%d", i+1), s.Runs[i].Phase == manager.Running))
	}
	for i := range c.Conns {
		k := &s.Conns[i]
		words := "down"
		if k.Up {
			words = "up"
			for _, m := range ordered(c, k.Outbox(), manager.Item.Run) {
				words += " " + m.String()
			}
		}
		o = append(o, field(fmt.Sprintf("conn%d", i+1), words))
	}
	return o
}

// ordered leaves messages in their order, or of a settled manager sorts them by
// run: nothing says which of two runs is first when both go on by themselves.
func ordered[M any](c manager.Config, messages []M, run func(M) uint8) []M {
	out := slices.Clone(messages)
	if c.Settled {
		slices.SortStableFunc(out, func(a, b M) int { return int(run(a)) - int(run(b)) })
	}
	return out
}

func runWords(r *manager.RunState) string {
	switch r.Phase {
	case manager.Queued, manager.Granted:
		return "queued"
	case manager.Running, manager.Stopping, manager.Draining:
		return "started"
	case manager.Finished:
		return "finished " + r.Cause.String()
	case manager.Failed:
		return "failed_to_start"
	}
	return "unknown_id"
}

// Observe looks at the manager, its executors and what its clients received.
func (d *driver) Observe(ctx context.Context, t transition) (replay.Observation, error) {
	var o replay.Observation
	closing := t.To.Closing()
	if closing {
		o = append(o, field("manager", "closing"))
	} else {
		free, err := d.status.freePermits(ctx)
		if err != nil {
			return nil, err
		}
		o = append(o, field("manager", "serves"), field("free", free))
		for i := range d.config.Runs {
			words, err := d.look(ctx, uint64(i)+1)
			if err != nil {
				return nil, err
			}
			o = append(o, field(fmt.Sprintf("run%d", i+1), words))
		}
	}
	for i := range d.config.Runs {
		p := d.processes[i]
		o = append(o, field(fmt.Sprintf("executor%d", i+1), p != nil && p.Alive()))
	}
	for i := range d.config.Conns {
		words, err := d.received(ctx, i, closing)
		if err != nil {
			return nil, err
		}
		o = append(o, field(fmt.Sprintf("conn%d", i+1), words))
	}
	return o, nil
}

// look attaches the driver's own connection to a run, for its snapshot.
func (d *driver) look(ctx context.Context, id uint64) (string, error) {
	a, err := d.asker.ask(ctx, &msp.Request{Attach: &msp.Attach{BootID: d.boots[d.boot], GenvmID: id}})
	if err != nil {
		return "", err
	}
	if a.method == msp.MethodError {
		var e msp.Error
		err := calldata.Unmarshal(a.payload, &e)
		return e.Code.String(), err
	}
	var snapshot msp.AttachReply
	if err := calldata.Unmarshal(a.payload, &snapshot); err != nil {
		return "", err
	}
	words := snapshot.Snapshot.Kind()
	if f := snapshot.Snapshot.Finished; f != nil {
		words += " " + string(f.Cause)
	}
	return words, nil
}

// received is what a client has received and not taken. Behind a fence, nothing
// that the manager queued before is still under way.
func (d *driver) received(ctx context.Context, conn uint8, closing bool) (string, error) {
	c := d.clients[conn].client
	if c == nil {
		return "down", nil
	}
	if !closing {
		if err := c.fence(ctx); err != nil {
			return "", err
		}
	}
	var words strings.Builder
	words.WriteString("up")
	for _, m := range ordered(d.config, c.outbox(), func(m message) uint8 { return uint8(m.run) }) {
		words.WriteString(" " + m.words)
		if m.event && !d.tokenIs(m) {
			words.WriteString(" with another token than its request")
		}
	}
	return words.String(), nil
}

// tokenIs reports whether a message carries the token of its run.
func (d *driver) tokenIs(m message) bool {
	if m.run == 0 || m.run > manager.MaxRuns {
		return false
	}
	want := d.tokens[m.run-1]
	return m.token == nil && want == "" || m.token != nil && *m.token == want && want != ""
}

// Coarse is what a cover of a larger configuration tells states apart by: where
// the runs stand.
func Coarse(s manager.State) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, r := range s.Runs {
		h = mix(h, uint8(r.Phase))
		h = mix(h, uint8(r.Cause))
	}
	if s.Shut {
		h = mix(h, 1)
	}
	return h
}

// Fine is Coarse, and what each connection has to do with each run.
func Fine(s manager.State) uint64 {
	h := Coarse(s)
	for _, r := range s.Runs {
		h = mix(h, r.Token)
	}
	for _, k := range s.Conns {
		for _, v := range k.View {
			h = mix(h, uint8(v.Sub))
		}
		h = mix(h, k.Len)
	}
	return h
}

func mix(h uint64, b uint8) uint64 { return (h ^ uint64(b)) * 1099511628211 }
