package tcp

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/agentd/tunnel"
)

// handshake takes a verified tunnel from its upgrade to the ready message. It
// returns nil when the session stands.
func (t *one) handshake(ctx context.Context) *outcome {
	// TUNNEL-9: message 1 has a deadline like the ready message's, because a
	// caller that sends nothing would hold a connection slot for ever.
	hello, o := t.first(ctx, t.HelloTimeout, trace.HelloDeadline, "no handshake message 1 arrived in time")
	if o != nil {
		return o
	}
	if !t.pass(ctx, trace.TunnelHello) {
		return gone()
	}
	session, reply, err := tunnel.Respond(*t.Keys, t.Port, hello, true)
	t.record(trace.TunnelHello, trace.Attr{Key: "accepted", Value: err == nil})
	switch {
	case errors.Is(err, tunnel.ErrHandshake):
		// AGENTD-17: made with another key, for another port or version, or no
		// handshake at all: one answer for all, so that it tells nothing.
		return refuse(api.TunnelIdentityRefused, "handshake refused")
	case err != nil:
		return refuse(api.TunnelRelayFailed, "cannot answer the handshake with this VM's identity")
	}
	if err := t.ws.Write(ctx, websocket.MessageBinary, reply); err != nil {
		return gone()
	}
	t.session = session
	// TUNNEL-10: counted from the reply, before which the caller cannot know the
	// key that the message is sealed with.
	record, o := t.first(ctx, t.ReadyTimeout, trace.ReadyDeadline, "handshake refused: no ready message in time")
	if o != nil {
		return o
	}
	if !t.pass(ctx, trace.TunnelReady) {
		return gone()
	}
	if err := session.OpenReady(record); err != nil {
		return refuse(api.TunnelIdentityRefused, "handshake refused: not the ready message")
	}
	// AGENTD-18: nothing was dialed so far, and the message goes no further.
	t.record(trace.TunnelReady)
	return nil
}

// first reads one binary message of the handshake. A message that is late, no
// binary one or too long is refused with 4403.
func (t *one) first(ctx context.Context, within time.Duration, late trace.Action, reason string) ([]byte, *outcome) {
	expired := make(chan struct{})
	timer := t.Clock.AfterFunc(within, func() {
		defer close(expired)
		if t.pass(ctx, late) {
			t.record(late)
			// Closed from here, while the read still waits: its answer is the
			// caller's close frame, or nothing.
			t.ws.Close(api.TunnelIdentityRefused, "handshake: "+reason)
		}
	})
	var buf [tunnel.MaxRecord + 1]byte
	kind, n, err := t.message(ctx, buf[:])
	if !timer.Stop() {
		<-expired
		return nil, &outcome{end: endRefused, silent: true, guest: "none"}
	}
	switch {
	case err != nil:
		return nil, gone()
	case kind != websocket.MessageBinary || n > tunnel.MaxRecord:
		return nil, refuse(api.TunnelIdentityRefused, "handshake refused: not a binary message")
	}
	return append([]byte(nil), buf[:n]...), nil
}

// message reads one message into buf. A message that fills it is too long.
func (t *one) message(ctx context.Context, buf []byte) (websocket.MessageType, int, error) {
	kind, r, err := t.ws.Reader(ctx)
	if err != nil {
		return 0, 0, err
	}
	n, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // the message is shorter than the buffer, as it should be
	}
	return kind, n, err
}
