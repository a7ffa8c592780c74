package hostile

import (
	"context"
	"encoding/base64"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
)

// Identity is what a launch gives a VM for verified tunnels, as the payload of
// the run hook carries it, and the host's half.
type Identity struct {
	Host       tunnel.Keys
	Seed       string // base64, for identity_seed
	HostPublic string // base64, for identity_host_public_key
}

// NewIdentity returns the identity that the rows of tunnels use. Its keys are
// no secret: they are for daemons under test alone.
func NewIdentity() (*Identity, error) {
	var id Identity
	var seed [tunnel.KeySize]byte
	for i := range seed {
		id.Host.Private[i], seed[i] = 9, 7
	}
	var err error
	if id.Host.Peer, err = tunnel.PublicKey(seed); err != nil {
		return nil, err
	}
	public, err := tunnel.PublicKey(id.Host.Private)
	if err != nil {
		return nil, err
	}
	id.Seed, id.HostPublic = base64.StdEncoding.EncodeToString(seed[:]), base64.StdEncoding.EncodeToString(public[:])
	return &id, nil
}

// WebSocket opcodes (RFC 6455, section 5.2), with the final bit.
const (
	wsText   = 0x81
	wsBinary = 0x82
	wsClose  = 0x88
	wsPing   = 0x89
)

// upgrade opens a tunnel on a fresh connection, without a WebSocket library:
// what goes over it afterwards is the case's own affair.
func (p *probe) upgrade(ctx context.Context, query string) (*peer, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "%s%sConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		head("GET", api.PathTunnel+"?"+query), bearer(p))
	for n := 0; ; n++ {
		line, err := c.br.ReadString('\n')
		if err != nil || (n == 0 && !strings.HasPrefix(line, "HTTP/1.1 101 ")) {
			c.Close()
			return nil, fmt.Errorf("the upgrade was answered %.60q: %w", line, err)
		}
		if line == "\r\n" {
			return c, nil
		}
	}
}

// frame is a frame of a client, masked with zeros.
func frame(head byte, payload []byte) []byte {
	b := []byte{head}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = bigendian.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = bigendian.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// cut is the code of an end without a close frame.
const cut = -1

// next reads one frame of the daemon. For a close frame, and for the end of the
// connection, ended is true.
func (c *peer) next() (payload []byte, ended bool, code int, reason string, err error) {
	var b [8]byte
	if _, err := io.ReadFull(c.br, b[:2]); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, true, cut, "", errors.New("the tunnel was not ended")
		}
		return nil, true, cut, "", nil
	}
	size, kind := uint64(b[1]), b[0]
	switch size {
	case 126:
		_, err = io.ReadFull(c.br, b[:2])
		size = uint64(bigendian.BigEndian.Uint16(b[:]))
	case 127:
		_, err = io.ReadFull(c.br, b[:8])
		size = bigendian.BigEndian.Uint64(b[:])
	}
	if err != nil || size > 1<<20 {
		return nil, true, cut, "", fmt.Errorf("a frame of %d bytes: %w", size, err)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(c.br, payload); err != nil {
		return nil, true, cut, "", nil //nolint:nilerr // cut says it
	}
	if kind == wsClose {
		if len(payload) < 2 {
			return nil, true, 1005, "", nil
		}
		_, _ = c.Write(frame(wsClose, payload[:2])) // it is gone in any case
		return nil, true, int(bigendian.BigEndian.Uint16(payload)), string(payload[2:]), nil
	}
	return payload, false, 0, "", nil
}

// rest reads the tunnel to its end.
func (c *peer) rest() (data []byte, code int, reason string, err error) {
	for {
		payload, ended, code, reason, err := c.next()
		if ended || err != nil {
			return data, code, reason, err
		}
		data = append(data, payload...)
	}
}

// ends holds the rest of a tunnel to one of the codes, with nothing before it.
func (c *peer) ends(codes ...int) error {
	data, got, reason, err := c.rest()
	if err != nil {
		return err
	}
	for _, code := range codes {
		if got == code && len(data) == 0 {
			return nil
		}
	}
	return fmt.Errorf("ended with %d %q after %d bytes, want one of %v at once", got, reason, len(data), codes)
}

// program is what listens in the guest: here, on the daemon's own machine.
type program struct {
	net.Listener
	port uint16
}

// listen starts a program of the guest.
func (p *probe) listen() (*program, error) {
	if p.PID == 0 {
		return nil, skipped("the daemon's process is not known, so it may run on another machine, where nothing can be made to listen")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &program{l, uint16(l.Addr().(*net.TCPAddr).Port)}, nil
}

// dialed waits for the daemon's connection.
func (g *program) dialed(ctx context.Context) (*net.TCPConn, error) {
	until, _ := ctx.Deadline()
	_ = g.Listener.(*net.TCPListener).SetDeadline(until)
	c, err := g.Accept()
	if err != nil {
		return nil, fmt.Errorf("the guest was not dialed: %w", err)
	}
	_ = c.SetDeadline(until)
	return c.(*net.TCPConn), nil
}

// undialed fails if the daemon has dialed. What it has done by now is there: its
// close came after it.
func (g *program) undialed() error {
	_ = g.Listener.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond))
	c, err := g.Accept()
	if err != nil {
		return nil //nolint:nilerr // nobody came
	}
	c.Close()
	return errors.New("the guest was dialed")
}

// guestSees holds what the guest reads to the end to want, and the end itself
// to a reset or a normal one.
func guestSees(c *net.TCPConn, want string, reset bool) error {
	data, err := io.ReadAll(c)
	wasReset := errors.Is(err, syscall.ECONNRESET)
	switch {
	case err != nil && !wasReset:
		return fmt.Errorf("the guest's connection: %w", err)
	case wasReset != reset:
		return fmt.Errorf("the guest saw a reset: %v, want %v", wasReset, reset)
	case string(data) != want && !(reset && strings.HasPrefix(want, string(data))):
		return fmt.Errorf("the guest got %.60q, want %.60q", data, want)
	}
	return nil
}
