package manager

import (
	"context"
	"fmt"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/model/manager"
)

// run sends a run request. The deadline of each run differs, so that its timer
// can be told from the others; a repeat says something else than the first.
func (d *driver) run(ctx context.Context, t transition) error {
	conn, token, kind := t.Action.Arg[0], t.Action.Arg[1], manager.Kind(t.Action.Arg[2])
	fresh := -1
	for i := range t.To.Runs {
		if t.From.Runs[i].Phase == manager.Absent && t.To.Runs[i].Phase != manager.Absent {
			fresh = i
		}
	}
	name := d.path + "-repeat"
	span := deadline(manager.MaxRuns)
	if fresh >= 0 {
		name, span = d.names[fresh], deadline(uint8(fresh))
	}
	r := d.shop.request(name)
	if d.manager.Timers == nil && d.manager.Deadline > 0 {
		span = d.manager.Deadline
	}
	r.Deadline = duration(span)
	if kind == manager.Invalid {
		r.Selector = msp.Selector{IsVersion: true, Version: "re:^never$"}
	}
	if kind == manager.Big {
		r.IsSync, r.HostData = false, `{"node_address":"n","tx_id":"t"}`
	}
	if token != 0 {
		word := "t"
		r.Token = &word
		if fresh >= 0 {
			d.tokens[fresh] = word
		}
	}
	return d.asks(ctx, t, d.clients[conn].client, &msp.Request{Run: r})
}

// asks sends a request and compares its answer with the model's.
func (d *driver) asks(ctx context.Context, t transition, via *client, r *msp.Request) error {
	a, err := via.ask(ctx, r)
	if err != nil {
		return err
	}
	return answers(a, r.Method(), d.config.Answer(t.From, t.Action))
}

// answers compares an answer with the model's. What a run reply or a snapshot
// says is compared as a message.
func answers(a reply, method msp.Method, want manager.Answer) error {
	switch want {
	case manager.UnknownID:
		return a.says(msp.CodeUnknownID)
	case manager.BootMismatch:
		return a.says(msp.CodeBootIDMismatch)
	case manager.NotFinished:
		return a.says(msp.CodeNotFinished)
	case manager.ShuttingDown:
		return a.says(msp.CodeInternal)
	}
	if a.method != method {
		var e msp.Error
		if calldata.Unmarshal(a.payload, &e) == nil && a.method == msp.MethodError {
			return fmt.Errorf("it was answered %v, the model says %v", &e, want)
		}
		return fmt.Errorf("it was answered %v, the model says %v", a.method, want)
	}
	if want == manager.Accepted {
		return calldata.Unmarshal(a.payload, &msp.Empty{})
	}
	return nil
}

// read reads an artifact twice: a read changes nothing.
func (d *driver) read(ctx context.Context, t transition) error {
	run := t.Action.Arg[0]
	r := &msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: uint64(run) + 1, Field: msp.Stdout, MaxLen: msp.ChunkBytes}}
	want := d.config.Answer(t.From, t.Action)
	for range 2 {
		a, err := d.asker.ask(ctx, r)
		if err == nil {
			err = answers(a, msp.MethodGetArtifact, want)
		}
		if err != nil || want != manager.Data {
			return err
		}
		var page msp.ArtifactReply
		if err := calldata.Unmarshal(a.payload, &page); err != nil {
			return err
		}
		text := ""
		if t.From.Runs[run].Spawned > 0 {
			text = printed(d.names[run])
		}
		if string(page.Data) != text || page.TotalLen != uint64(len(text)) {
			return fmt.Errorf("the artifact is %q of %d bytes, its executor printed %q", page.Data, page.TotalLen, text)
		}
	}
	return nil
}
