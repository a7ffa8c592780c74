package histories

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"microvms/agentd/api"
	noise "microvms/agentd/tunnel"
	caller "microvms/client"
)

// The operations on tunnels and the ports that they lead to, of scope ByTunnel.
const (
	Listen   Kind = "listen"    // a guest's listener comes
	Unlisten Kind = "unlisten"  // and goes; its connections stay
	Open     Kind = "open"      // a tunnel to a port, up to the guest's greeting
	Send     Kind = "send"      // one unit to the guest
	Receive  Kind = "receive"   // the units that have arrived, or the end
	Hangup   Kind = "close"     // the caller's own end
	Cutoff   Kind = "cut"       // the tunnel's connection goes, and what is in flight with it
	GuestEnd Kind = "guest end" // the guest ends its side
	GuestSaw Kind = "guest saw" // what the guest got and how it ended, once it has
	Slots    Kind = "slots"     // as many tunnels at once as the daemon has slots
)

// ByTunnel: bootstrap finished before, with an identity; each port and each
// tunnel is judged by itself.
const ByTunnel Scope = "by tunnel"

// The ends of a tunnel as the caller knows them, beside those of the client.
const endLocal = "local" // the caller closed it

// maxSlots is how many connections the daemon admits (wire facts, section 1).
const maxSlots = 128

// tunnels are the callers' side of a history on tunnels.
type tunnels struct {
	addr, token string
	identity    caller.TunnelIdentity
	guests      *guests
	open        map[string]*openTunnel // filled beforehand
}

// openTunnel is a tunnel that several clients share.
type openTunnel struct {
	opened chan struct{} // closed when the open returned
	tunnel *caller.Tunnel
	conn   net.Conn // under it
	serial int      // 0: it leads nowhere
	guest  *guestConn

	mu     sync.Mutex // held by the one that receives
	unread []byte
	end    string
}

// launchKeys are the keys that daemons of this scope are launched with. They are worth nothing elsewhere.
func launchKeys() (seed, hostPublic [noise.KeySize]byte, identity caller.TunnelIdentity, err error) {
	for i := range seed {
		seed[i], identity.HostSeed[i] = 7, 9
	}
	if identity.VMPublicKey, err = noise.PublicKey(seed); err == nil {
		hostPublic, err = noise.PublicKey(identity.HostSeed)
	}
	return seed, hostPublic, identity, err
}

// identified finishes bootstrap with an identity, before any operation that is judged.
func identified(ctx context.Context, addr string) error {
	seed, hostPublic, _, err := launchKeys()
	if err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]string{
		api.PayloadToken: HarnessToken, api.PayloadIdentitySeed: base64.StdEncoding.EncodeToString(seed[:]),
		api.PayloadIdentityHostPublic: base64.StdEncoding.EncodeToString(hostPublic[:]),
	})
	if err != nil {
		return err
	}
	text := string(payload)
	body, err := json.Marshal(api.RunHookEnvelope{RunHookPayload: &text})
	if err != nil {
		return err
	}
	w := wire{addr: addr}
	defer w.close()
	r, err := w.send(ctx, http.MethodPost, api.HookPrefix+"/"+api.HookRun, "", body, NoCut)
	if err != nil {
		return fmt.Errorf("cannot launch the daemon with an identity: %w", err)
	}
	if r.status != http.StatusOK {
		return fmt.Errorf("cannot launch the daemon with an identity: status %d", r.status)
	}
	return nil
}

// newTunnels prepares what the plan's operations share.
func newTunnels(p plan, addr string) (*tunnels, error) {
	_, _, identity, err := launchKeys()
	if err != nil {
		return nil, err
	}
	g, err := newGuests()
	if err != nil {
		return nil, err
	}
	if _, _, err := g.listen(steadyPort); err != nil {
		g.close()
		return nil, err
	}
	t := &tunnels{addr: addr, token: HarnessToken, identity: identity, guests: g, open: map[string]*openTunnel{}}
	for _, ops := range p.clients {
		for _, o := range ops {
			if o.Kind == Open {
				t.open[o.Tunnel] = &openTunnel{opened: make(chan struct{})}
			}
		}
	}
	return t, nil
}

// close ends what is left of the history.
func (t *tunnels) close() {
	for _, o := range t.open {
		if o.tunnel != nil {
			_ = o.tunnel.Close()
		}
		if o.conn != nil {
			o.conn.Close()
		}
	}
	t.guests.close()
}

// ready waits until the operation's tunnel was opened. It reports false when it
// leads nowhere, so that there is nothing to do on it.
func (t *tunnels) ready(ctx context.Context, op *Operation) bool {
	if op.Tunnel == "" || op.Kind == Open {
		return true
	}
	select {
	case <-t.open[op.Tunnel].opened:
		return t.open[op.Tunnel].serial != 0
	case <-ctx.Done():
		return false
	}
}

// perform performs an operation of this scope.
func (t *tunnels) perform(ctx context.Context, op *Operation) (*Answer, error) {
	o := t.open[op.Tunnel]
	switch op.Kind {
	case Listen:
		generation, changed, err := t.guests.listen(op.Port)
		return &Answer{Generation: generation, Changed: changed}, err
	case Unlisten:
		changed, err := t.guests.unlisten(op.Port)
		return &Answer{Changed: changed}, err
	case Open:
		defer close(o.opened)
		return t.dial(ctx, o, op)
	case Send:
		return o.send(op)
	case Receive:
		return o.receive(op.Take)
	case Hangup:
		_ = o.tunnel.Close()
		return &Answer{}, nil
	case Cutoff:
		o.conn.Close()
		return &Answer{}, nil
	case GuestEnd:
		echoed, first := o.guest.end()
		return &Answer{Count: echoed, Changed: first}, nil
	case GuestSaw:
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		got, end, err := o.guest.saw(ctx)
		return &Answer{Bytes: got, End: end}, err
	}
	upgraded, err := atOnce(ctx, t.addr, t.guests.ports[steadyPort].number, t.token, maxSlots)
	return &Answer{Count: upgraded}, err
}

// dial opens a tunnel and reads what the guest greets with.
func (t *tunnels) dial(ctx context.Context, o *openTunnel, op *Operation) (*Answer, error) {
	dialer := net.Dialer{Timeout: answerLimit}
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		o.conn = c // one connection for each tunnel, made before DialTunnel returns
		return c, err
	}}
	session, err := caller.New("http://"+t.addr, t.token, caller.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return nil, err
	}
	request := caller.TunnelRequest{Port: t.guests.ports[op.Port].number}
	if op.Verified {
		request.Identity = &t.identity
	}
	if o.tunnel, err = session.DialTunnel(ctx, request); err != nil {
		return nil, fmt.Errorf("cannot open a tunnel: %w", err)
	}
	if err := o.tunnel.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, err
	}
	hello := make([]byte, Unit)
	_, err = io.ReadFull(o.tunnel, hello)
	var refused *caller.TunnelRefusedError
	switch {
	case errors.As(err, &refused):
		_ = o.tunnel.Close()
		return &Answer{Status: refused.Code}, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the guest of a tunnel does not greet within %s", answerLimit)
	case err != nil:
		_ = o.tunnel.Close()
		return &Answer{Status: api.TunnelNormal, End: o.tunnel.Outcome().End.String()}, nil //nolint:nilerr // the outcome says it
	}
	a := &Answer{Status: http.StatusSwitchingProtocols, Bytes: string(hello)}
	if _, err := fmt.Sscanf(string(hello), "g%03d", &a.Serial); err != nil {
		return a, nil //nolint:nilerr // no greeting: judged
	}
	if guest, ok := t.guests.conn(a.Serial); ok {
		o.guest, o.serial, a.Generation = guest, a.Serial, guest.generation
	}
	return a, nil
}

func (o *openTunnel) send(op *Operation) (*Answer, error) {
	if _, err := o.tunnel.Write([]byte(op.Text)); err != nil {
		return &Answer{End: "ended"}, nil //nolint:nilerr // the answer says it
	}
	return &Answer{}, nil
}

// receive takes the whole units that arrive before a moment of silence, or
// before the end; want 0 is all up to the end.
func (o *openTunnel) receive(want uint64) (*Answer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	within := silence
	if want == 0 {
		within = answerLimit
	}
	buf := make([]byte, 4096)
	for o.end == "" && (want == 0 || uint64(len(o.unread)) < want) {
		if err := o.tunnel.SetReadDeadline(time.Now().Add(within)); err != nil {
			return nil, err
		}
		n, err := o.tunnel.Read(buf)
		o.unread = append(o.unread, buf[:n]...)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && want == 0:
			return nil, fmt.Errorf("a tunnel does not end within %s", answerLimit)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o.taken(want), nil
		case err == net.ErrClosed: //nolint:errorlint // itself: a connection that was cut has an error that only wraps it
			o.end = endLocal
		case err != nil:
			o.end = o.tunnel.Outcome().End.String()
		}
	}
	return o.taken(want), nil
}

// taken hands out whole units; at the end all that is left, whole or not.
func (o *openTunnel) taken(want uint64) *Answer {
	n := len(o.unread) - len(o.unread)%Unit
	if want > 0 {
		n = min(n, int(want))
	}
	end := ""
	if o.end != "" && (n == len(o.unread) || len(o.unread) < Unit) {
		n, end = len(o.unread), o.end
	}
	a := &Answer{Bytes: string(o.unread[:n]), End: end}
	o.unread = o.unread[n:]
	return a
}

// atOnce holds n tunnels open at once and returns how many the daemon upgraded.
// A tunnel keeps its slot until it ends, and a newcomer without a slot waits, so
// one slot that did not come back keeps the last one waiting.
func atOnce(ctx context.Context, addr string, port uint16, token string, n int) (upgraded int, err error) {
	wires := make([]wire, n)
	defer func() {
		for i := range wires {
			wires[i].close()
		}
	}()
	for i := range wires {
		w := &wires[i]
		w.addr = addr
		if err := w.dial(ctx); err != nil {
			return 0, err
		}
		if _, err := fmt.Fprintf(w.conn, "GET %s?port=%d HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", api.PathTunnel, port, addr, token); err != nil {
			return 0, fmt.Errorf("cannot ask for a tunnel: %w", err)
		}
	}
	deadline := time.Now().Add(answerLimit)
	for i := range wires {
		w := &wires[i]
		if err := w.conn.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		//nolint:bodyclose // the caller closes the connection, and with it whatever body there is
		if r, err := http.ReadResponse(w.in, &http.Request{Method: http.MethodGet}); err == nil && r.StatusCode == http.StatusSwitchingProtocols {
			upgraded++
		}
	}
	return upgraded, nil
}
