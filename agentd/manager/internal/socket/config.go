package socket

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// Table is what connections ask of the run table. *runs.Table is one.
type Table interface {
	Run(ctx context.Context, s runs.Spec, sub runs.Subscriber, reply func(runs.ID)) error
	Attach(ctx context.Context, id runs.ID, sub runs.Subscriber, reply func(runs.Event)) error
	Disconnect(ctx context.Context, sub runs.Subscriber)
	Cancel(ctx context.Context, id runs.ID) error
	Ack(ctx context.Context, id runs.ID) error
	Artifact(ctx context.Context, id runs.ID, field runs.Field, offset uint64, limit uint32) (total uint64, data []byte, err error)
}

// Config wires a Server.
type Config struct {
	Log      *slog.Logger   // required
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none

	Table Table // required
	// Spec makes the table's specification of a request. Its error refuses the
	// request with the code internal and that text. Required.
	Spec func(*msp.RunRequest) (runs.Spec, error)

	// BootID names this process for as long as it lives.
	BootID uint64
	// MaxMessageBytes bounds what a client may send; default
	// msp.MaxMessageBytes.
	MaxMessageBytes int64

	hello []byte // the first message of every connection
}

// New returns a Server without connections.
func New(c Config) (*Server, error) {
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, msp.MaxMessageBytes)
	if c.MaxMessageBytes < msp.HeaderBytes {
		return nil, fmt.Errorf("cannot serve messages of at most %d bytes: a header has %d", c.MaxMessageBytes, msp.HeaderBytes)
	}
	var err error
	c.hello, err = msp.Message(msp.Header{Method: msp.MethodHello},
		msp.HelloPayload{Hello: msp.Hello{BootID: c.BootID, ProtocolMajor: msp.ProtocolMajor}})
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, leaveWait: defaultLeaveWait, conns: map[*conn]struct{}{}}
	s.serve = (*conn).judge
	s.base, s.end = context.WithCancel(context.Background())
	return s, nil
}
