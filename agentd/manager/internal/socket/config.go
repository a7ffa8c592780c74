package socket

import (
	"cmp"
	"context"
	"log/slog"

	"microvms/agentd/trace"
)

// Config wires a Server.
type Config struct {
	Log      *slog.Logger   // required
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none
	// BootID names this process for as long as it lives.
	BootID uint64
	// MaxMessageBytes bounds what a client may send; default
	// DefaultMaxMessageBytes.
	MaxMessageBytes int64

	hello []byte
}

// New returns a Server without connections.
func New(c Config) *Server {
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, DefaultMaxMessageBytes)
	s := &Server{config: c, conns: map[*conn]struct{}{}}
	s.base, s.end = context.WithCancel(context.Background())
	return s
}

func (c *conn) passDeliver(i item) bool { return true }
func (c *conn) recordDeliver(i item)    {}
func (c *conn) recordClose()            {}
func (c *conn) disconnect()             {}
func (c *conn) panicked(message []byte) {}
