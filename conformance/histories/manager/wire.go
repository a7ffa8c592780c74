package manager

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"microvms/agentd/api/msp"
)

// The opcodes of WebSocket frames (RFC 6455, section 5.2).
const (
	opContinue = 0x0
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xA
	final      = 0x80
)

// goingAway is the close code of a shutdown.
const goingAway = 1001

// wire is a WebSocket by hand, so that a connection can be cut at a chosen byte.
// One goroutine reads and one writes.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

// dial connects and upgrades.
func dial(ctx context.Context, network, address string) (*wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the manager: %w", err)
	}
	w := &wire{conn: conn, in: bufio.NewReader(conn)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := w.upgrade(); err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

func (w *wire) upgrade() error {
	_, err := io.WriteString(w.conn, "GET "+msp.Path+" HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err != nil {
		return fmt.Errorf("cannot ask for an upgrade: %w", err)
	}
	r, err := http.ReadResponse(w.in, &http.Request{Method: http.MethodGet}) //nolint:bodyclose // an upgrade has none
	if err != nil {
		return fmt.Errorf("cannot read the answer to an upgrade: %w", err)
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the upgrade was answered %d", r.StatusCode)
	}
	return nil
}

// message is one binary message in frames of the client, split at that byte of
// its payload when it is above zero.
func message(payload []byte, split int) []byte {
	if split <= 0 || split >= len(payload) {
		return frame(nil, final|opBinary, payload)
	}
	return frame(frame(nil, opBinary, payload[:split]), final|opContinue, payload[split:])
}

// frame appends one frame. Its mask is fixed: nobody stands between the two.
func frame(b []byte, head byte, payload []byte) []byte {
	const masked = 0x80
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, head)
	switch n := len(payload); {
	case n < 126:
		b = append(b, masked|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(n))
	}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// errClosed is the end of a connection by the close frame of a shutdown.
var errClosed = errors.New("the manager closed the connection")

// read returns the next message. Its errors end the connection.
func (w *wire) read() ([]byte, error) {
	var whole []byte
	for {
		head, payload, err := w.frame()
		if err != nil {
			return nil, err
		}
		switch head &^ final {
		case opPing:
			return nil, errors.New("a ping came, which no manager sends")
		case opPong:
		case opClose:
			if len(payload) >= 2 && binary.BigEndian.Uint16(payload) == goingAway {
				_, err := w.conn.Write(frame(nil, final|opClose, payload[:2]))
				return nil, errors.Join(errClosed, err)
			}
			return nil, fmt.Errorf("a close frame of %d bytes came, which is no shutdown's", len(payload))
		case opBinary, opContinue:
			whole = append(whole, payload...)
			if head&final != 0 {
				return whole, nil
			}
		default:
			return nil, fmt.Errorf("a frame of opcode %d came", head&^final)
		}
	}
}

func (w *wire) frame() (head byte, payload []byte, err error) {
	var b [10]byte
	if _, err := io.ReadFull(w.in, b[:2]); err != nil {
		return 0, nil, err
	}
	n := uint64(b[1])
	switch n {
	case 126:
		_, err = io.ReadFull(w.in, b[2:4])
		n = uint64(binary.BigEndian.Uint16(b[2:4]))
	case 127:
		_, err = io.ReadFull(w.in, b[2:10])
		n = binary.BigEndian.Uint64(b[2:10])
	}
	if err != nil {
		return 0, nil, err
	}
	if n > msp.MaxMessageBytes {
		return 0, nil, fmt.Errorf("a frame of %d bytes came", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(w.in, payload)
	return b[0], payload, err
}
