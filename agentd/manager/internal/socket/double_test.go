package socket

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/runs"
)

// tableDouble is a table that answers as the test says. A connection's requests
// come one after another, and the test looks between them.
type tableDouble struct {
	run      []runs.Event // delivered behind the reply to a run
	snapshot runs.Event   // of each attach
	page     string       // of each artifact
	err      error        // of everything but Run and Disconnect

	disconnected chan runs.Subscriber // nil: not told
	before       func(call string)    // runs at the start of each call; set before the first

	mu    sync.Mutex
	calls []string
}

func (d *tableDouble) called(format string, args ...any) {
	call := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.calls = append(d.calls, call)
	d.mu.Unlock()
	if d.before != nil {
		d.before(call)
	}
}

// take returns the calls since the last take.
func (d *tableDouble) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

func (d *tableDouble) Run(_ context.Context, _ runs.Spec, sub runs.Subscriber, reply func(runs.ID)) error {
	d.called("run")
	reply(1)
	for _, ev := range d.run {
		sub.Deliver(ev)
	}
	return nil
}

func (d *tableDouble) Attach(_ context.Context, id runs.ID, _ runs.Subscriber, reply func(runs.Event)) error {
	d.called("attach %d", id)
	if d.err == nil {
		reply(d.snapshot)
	}
	return d.err
}

func (d *tableDouble) Disconnect(_ context.Context, sub runs.Subscriber) {
	if d.disconnected != nil {
		d.disconnected <- sub
	}
}

func (d *tableDouble) Cancel(_ context.Context, id runs.ID) error {
	d.called("cancel %d", id)
	return d.err
}

func (d *tableDouble) Ack(_ context.Context, id runs.ID) error {
	d.called("ack %d", id)
	return d.err
}

func (d *tableDouble) Artifact(_ context.Context, id runs.ID, field runs.Field, offset uint64, limit uint32) (uint64, []byte, error) {
	d.called("artifact %d %s %d %d", id, field, offset, limit)
	return uint64(len(d.page)), []byte(d.page), d.err
}

// decode splits a message and decodes its payload.
func decode(t *testing.T, message []byte, v any) msp.Header {
	t.Helper()
	h, payload, err := msp.ParseHeader(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := calldata.Unmarshal(payload, v); err != nil {
		t.Fatalf("%x: %v", message, err)
	}
	return h
}
