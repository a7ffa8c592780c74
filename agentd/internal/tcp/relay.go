package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/agentd/tunnel"
)

// plainChunk is how much of the guest goes into one frame of a plain tunnel.
const plainChunk = 65536

// farewell bounds how long bytes of the guest are still read and dropped after
// the tunnel's end. A close with unread bytes would reset the connection, and the
// guest could lose bytes of the caller that it had not read yet.
const farewell = time.Second

// relaying is a tunnel with both its connections.
type relaying struct {
	*one
	guest *net.TCPConn
	over  atomic.Bool // set with the first end
	first chan ending // buffered for both directions
}

// relay moves bytes both ways until the first end, and closes both connections
// as that end asks.
func (t *one) relay(ctx context.Context, guest *net.TCPConn) *outcome {
	r := &relaying{one: t, guest: guest, first: make(chan ending, 2)}
	var wg sync.WaitGroup
	wg.Go(func() { r.ended(r.fromGuest(ctx)) })
	callerDone := make(chan struct{})
	go func() { defer close(callerDone); r.ended(r.fromCaller(ctx)) }()
	end := <-r.first // TUNNEL-5: of either direction; there is no half-close
	o := r.verdict(end)
	if o.guest == "reset" {
		r.guest.SetLinger(0)
		r.guest.Close()
	} else {
		// TUNNEL-17: the guest reads everything that was sent to it, and then an end.
		r.guest.SetLinger(-1)
		r.guest.CloseWrite()
		r.guest.SetReadDeadline(time.Now().Add(farewell))
	}
	r.guest.SetWriteDeadline(time.Unix(1, 0))
	t.tell(o) // before the close, which waits for the caller
	// The reader of frames ends with the WebSocket, the reader of the guest with
	// the guest or the farewell.
	if o.silent {
		t.ws.CloseNow()
	} else {
		t.ws.Close(o.code, o.reason)
		o.silent = true
	}
	<-callerDone
	wg.Wait()
	r.guest.Close()
	return o
}

func (r *relaying) ended(e ending) {
	r.over.Store(true)
	r.first <- e
}

// verdict says what an end means for the guest and for the caller.
func (r *relaying) verdict(e ending) *outcome {
	o := &outcome{end: e, code: api.TunnelNormal, guest: "eof"}
	switch e {
	case endGuestFailed:
		// TUNNEL-16: no end of stream, since the guest may have had more to say.
		o.code, o.reason = api.TunnelRelayFailed, "reading from the guest failed"
	case endCallerGone, endForged:
		// TUNNEL-13: a frame that does not authenticate gets no answer, and a
		// caller that left needs none.
		o.silent = true
		if r.session != nil && r.session.PeerOffersEnd() {
			// AGENTD-20: the caller promised an end of stream, so what came
			// without it is a part, and only a reset says so to the guest.
			o.guest = "reset"
		}
	}
	return o
}

// fromGuest relays the guest's bytes to the caller, and drops what comes after
// the tunnel's end.
func (r *relaying) fromGuest(ctx context.Context) ending {
	size := plainChunk
	if r.session != nil {
		size = tunnel.MaxChunk
	}
	buf, sealed := make([]byte, size), make([]byte, 0, size+tunnel.Overhead)
	for {
		n, err := r.guest.Read(buf)
		if r.over.Load() {
			if err != nil {
				return endGuestShut
			}
			continue
		}
		if n > 0 && !r.toCaller(ctx, buf[:n], sealed) {
			return endCallerGone
		}
		switch {
		case err == io.EOF:
			return r.guestEOF(ctx)
		case err != nil:
			return endGuestFailed
		}
	}
}

func (r *relaying) toCaller(ctx context.Context, data, sealed []byte) bool {
	if !r.pass(ctx, trace.TunnelSend) {
		return false
	}
	out := data
	if r.session != nil {
		var err error
		if out, err = r.session.Seal(sealed, data); err != nil {
			return false
		}
	}
	if r.ws.Write(ctx, websocket.MessageBinary, out) != nil {
		return false
	}
	r.record(trace.TunnelSend)
	return true
}

// guestEOF proves to the caller of a verified tunnel that it has all.
func (r *relaying) guestEOF(ctx context.Context) ending {
	if r.session == nil {
		return endGuestEOF
	}
	// AGENTD-19: after the guest's last byte and before the close frame, which
	// proves nothing because anyone on the path can write one.
	end, err := r.session.SealEnd(nil)
	if err != nil || r.ws.Write(ctx, websocket.MessageBinary, end) != nil {
		return endCallerGone
	}
	return endGuestEOF
}

// fromCaller relays the caller's frames to the guest.
func (r *relaying) fromCaller(ctx context.Context) ending {
	if r.session == nil {
		return r.fromPlain(ctx)
	}
	record, plain := make([]byte, tunnel.MaxRecord+1), make([]byte, 0, tunnel.MaxRecord)
	for {
		kind, n, err := r.message(ctx, record)
		if err != nil {
			return endCallerGone
		}
		if kind != websocket.MessageBinary {
			return endForged
		}
		data, end, err := r.session.Open(plain[:0], record[:n])
		switch {
		case err != nil:
			// AGENTD-21: not relayed, and nothing after it.
			return endForged
		case end:
			return endCallerEnd
		}
		if e := r.toGuest(ctx, data); e != "" {
			return e
		}
	}
}

// fromPlain relays frames of any kind and length as the bytes that they are.
func (r *relaying) fromPlain(ctx context.Context) ending {
	buf := make([]byte, plainChunk)
	for {
		_, frame, err := r.ws.Reader(ctx)
		for err == nil {
			var n int
			n, err = frame.Read(buf)
			if n > 0 {
				if e := r.toGuest(ctx, buf[:n]); e != "" {
					return e
				}
			}
		}
		if err != io.EOF {
			return endCallerGone
		}
	}
}

// toGuest writes data to the guest. It returns how the tunnel ended, empty while
// it has not.
func (r *relaying) toGuest(ctx context.Context, data []byte) ending {
	if !r.pass(ctx, trace.TunnelDeliver) {
		return endCallerGone
	}
	for len(data) > 0 {
		r.guest.SetWriteDeadline(time.Now().Add(r.StallTimeout))
		if r.over.Load() {
			return endGuestShut // the deadline of the end must not be put off
		}
		n, err := r.guest.Write(data)
		data = data[n:]
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			// TUNNEL-15: a guest that does not read makes the caller wait, as over TCP. Once
			// the caller has hung up nobody waits any more, and its close cannot be
			// read past the bytes before it.
			if r.over.Load() || r.caller.Gone() {
				return endCallerGone
			}
		case err != nil:
			return endGuestShut
		}
	}
	r.record(trace.TunnelDeliver)
	return ""
}
