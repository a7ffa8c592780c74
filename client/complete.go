package client

import (
	"context"
	"math"

	"microvms/agentd/api"
)

// completion is what became known of an exec that was followed to its end.
type completion struct {
	outcome       *api.Outcome
	outputUnknown bool      // acked by another, so the record's output is gone
	exitSeen      bool      // the stream was complete
	gap           *GapError // the first loss on the stream
	streamErr     error     // why the stream ended early
}

// complete follows an exec to its end and acks it. With a sink it streams; the
// exit event is then followed by one ack. In every other case (no sink, a cut,
// a sink that stopped, an ack that failed) it waits and acks.
func (s *Session) complete(ctx context.Context, id string, sink func(*Output) bool) (*completion, error) {
	c := &completion{}
	exit := s.drain(ctx, id, sink, c)
	if exit != nil {
		// The record, not the end of the stream, has the result.
		if res, err := s.Ack(ctx, id); err == nil && res.HasOutcome() {
			c.outcome = res.Outcome
			return c, nil
		}
	}
	// BIND-8: a stream that ended without its exit event says nothing about the
	// command, so the record decides.
	res, err := s.WaitAndAck(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	if res.HasOutcome() {
		c.outcome = res.Outcome
		return c, nil
	}
	// Acked before: by another, or by an ack whose answer was lost. The exit
	// event still tells how the command ended; the output is gone.
	c.outputUnknown = true
	if exit == nil {
		if exit, err = s.exitEvent(ctx, id); err != nil {
			return nil, err
		}
	}
	c.outcome = &api.Outcome{ExitCode: exit.ExitCode, Signal: exit.Signal, TimedOut: exit.TimedOut,
		Truncated: exit.Truncated, WritersMayBeAlive: exit.WritersMayBeAlive}
	return c, nil
}

// drain streams into the sink and returns the exit event, nil without one.
func (s *Session) drain(ctx context.Context, id string, sink func(*Output) bool, c *completion) *Exit {
	if sink == nil {
		return nil
	}
	for ev, err := range s.Stream(ctx, id, StreamOptions{}).All() {
		switch ev := ev.(type) {
		case *Output:
			if !sink(ev) {
				return nil
			}
		case *Gap:
			if c.gap == nil {
				c.gap = &GapError{From: ev.From, To: ev.To}
			}
		case *Exit:
			c.exitSeen = true
			return ev
		default:
			c.streamErr = err
		}
	}
	return nil
}

// exitEvent reads only the exit event of an exec that has ended: no output lies
// at the last offset.
func (s *Session) exitEvent(ctx context.Context, id string) (*Exit, error) {
	for ev, err := range s.Stream(ctx, id, StreamOptions{Offset: math.MaxUint64}).All() {
		if exit, ok := ev.(*Exit); ok {
			return exit, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, protocolError("exec %q was acked, and its stream has no exit event", id)
}
