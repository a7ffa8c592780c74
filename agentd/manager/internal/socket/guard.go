package socket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// errTooLong ends a connection whose peer sent, or announced, a message over
// the limit.
var errTooLong = errors.New("message is over the limit: the connection is dropped")

// errGone is the end of the stream. SOCKET-31: never io.EOF, which the library
// takes for the end of a message when it comes between two fragments.
var errGone = errors.New("the peer closed the connection")

func gone(err error) error {
	if errors.Is(err, io.EOF) {
		return errGone
	}
	return err
}

// The opcodes of RFC 6455, section 5.2, that the guard tells apart.
const (
	opContinuation = 0x0
	opBinary       = 0x2
	opClose        = 0x8
	opPong         = 0xa
)

// maxFrameHeader is the longest header of a masked frame: two bytes, eight of
// length, four of mask (RFC 6455, section 5.2).
const maxFrameHeader = 14

// guard stands between the WebSocket library and the socket. It reads the frame
// headers as they pass, because the library answers a long message with close
// code 1009 and the protocol has no answer to one: the peer sees 1006 (manager
// facts, section 2.3). A header is judged before a byte of its payload is handed
// on, so an announced length costs nothing.
//
// Bytes are handed on in order and one frame at a time: when a frame is refused,
// everything before it has been handled.
type guard struct {
	net.Conn
	in  *bufio.Reader
	max uint64 // most payload bytes of one message

	// closing is called once, when the peer's close frame arrives and all before
	// it was handled.
	closing func()

	header  [maxFrameHeader]byte
	held    []byte // of header, not yet handed on
	payload uint64 // bytes of the current frame that are still to come
	message uint64 // payload bytes of the current message, those announced included

	tooLong atomic.Bool // the limit ended the connection
}

// newGuard guards c, whose first bytes were read into early already.
func newGuard(c net.Conn, early io.Reader, max uint64, closing func()) *guard {
	return &guard{Conn: c, in: bufio.NewReaderSize(io.MultiReader(early, c), 4<<10), max: max, closing: closing}
}

// Read hands on at most the rest of one frame header or of one frame.
func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(g.held) == 0 && g.payload == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.held) > 0 {
		n := copy(p, g.held)
		g.held = g.held[n:]
		return n, nil
	}
	if uint64(len(p)) > g.payload {
		p = p[:g.payload]
	}
	n, err := g.in.Read(p)
	g.payload -= uint64(n)
	return n, gone(err)
}

// next reads the header of the next frame and judges it.
func (g *guard) next() error {
	h := g.header[:2]
	if _, err := io.ReadFull(g.in, h); err != nil {
		return gone(err)
	}
	extra := 0
	switch h[1] & 0x7f {
	case 126:
		extra = 2
	case 127:
		extra = 8
	}
	if h[1]&0x80 != 0 {
		extra += 4
	}
	h = g.header[:2+extra]
	if _, err := io.ReadFull(g.in, h[2:]); err != nil {
		return err
	}
	length := uint64(h[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		length = binary.BigEndian.Uint64(h[2:])
	}
	if err := g.judge(h[0]&0x0f, length); err != nil {
		return err
	}
	g.held, g.payload = h, length
	return nil
}

// judge counts a data frame into its message. What is wrong with a frame
// otherwise is the library's to find: it closes with 1002, or drops.
func (g *guard) judge(opcode byte, length uint64) error {
	switch {
	case opcode == opClose:
		if g.closing != nil {
			g.closing()
			g.closing = nil
		}
		return nil
	case opcode > opClose:
		return nil // control frames come between the frames of a message and belong to none
	case opcode != opContinuation:
		g.message = 0
	}
	if length > g.max-g.message {
		// SOCKET-12: dropped before a byte of it is buffered and without a close
		// frame, because the peer that overran the limit is told by 1006 alone.
		g.tooLong.Store(true)
		g.Conn.Close()
		return errTooLong
	}
	g.message += length
	return nil
}
