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
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// The opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
)

// final is the bit of a last fragment.
const final = 0x80

// peer is a connection spoken to octet by octet, so that it can say what no
// library would. Its reads and writes end with the case's context.
type peer struct {
	net.Conn
	br     *bufio.Reader
	id     uint64 // of the newest request
	boot   uint64
	events []*msp.Event // arrived while a reply was awaited
}

// dial connects, and sends nothing.
func (p *probe) dial(ctx context.Context) (*peer, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, p.Network, p.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if until, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(until)
	}
	return &peer{Conn: c, br: bufio.NewReader(c)}, nil
}

// key is a valid Sec-WebSocket-Key.
const key = "AAAAAAAAAAAAAAAAAAAAAA=="

// goodUpgrade is the head of an upgrade that a manager must take.
const goodUpgrade = "GET " + msp.Path + " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"

// open connects, upgrades and reads the hello.
func (p *probe) open(ctx context.Context) (*peer, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.greet(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *peer) greet() error {
	if _, err := io.WriteString(c, goodUpgrade); err != nil {
		return err
	}
	if status, _, err := c.answer(); err != nil || status != http.StatusSwitchingProtocols {
		return fmt.Errorf("a good upgrade was answered %d: %v", status, err)
	}
	h, payload, err := c.message()
	var hello msp.HelloPayload
	if err == nil {
		err = calldata.Unmarshal(payload, &hello)
	}
	if err != nil || h != (msp.Header{Method: msp.MethodHello}) || hello.Hello.ProtocolMajor != msp.ProtocolMajor {
		return fmt.Errorf("the first message is %v of request %d, no hello: %v", h.Method, h.Request, err)
	}
	c.boot = hello.Hello.BootID
	return nil
}

// answer reads the answer to an HTTP request, its body too unless it upgrades.
func (c *peer) answer() (int, string, error) {
	r, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return 0, "", fmt.Errorf("no answer: %w", err)
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusSwitchingProtocols {
		return r.StatusCode, "", nil
	}
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, strings.TrimSpace(string(body)), err
}

// head makes the header of a masked frame; the mask is zero, so that the payload
// stands as it is.
func head(first byte, length uint64) []byte {
	b := []byte{first}
	switch {
	case length < 126:
		b = append(b, 0x80|byte(length))
	case length < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), length)
	}
	return append(b, 0, 0, 0, 0)
}

// frame sends one frame whose first octet is first.
func (c *peer) frame(first byte, payload []byte) error {
	if len(payload) < 1<<16 {
		_, err := c.Write(append(head(first, uint64(len(payload))), payload...))
		return err
	}
	if _, err := c.Write(head(first, uint64(len(payload)))); err != nil {
		return err
	}
	_, err := c.Write(payload)
	return err
}

// say sends one binary message.
func (c *peer) say(message []byte) error { return c.frame(final|opBinary, message) }

// next reads one frame, whole.
func (c *peer) next() (first byte, payload []byte, err error) {
	var h [2]byte
	if _, err := io.ReadFull(c.br, h[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(h[1])
	switch {
	case h[1]&0x80 != 0:
		return 0, nil, errors.New("the manager masks its frames")
	case n == 126:
		var b [2]byte
		_, err = io.ReadFull(c.br, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case n == 127:
		var b [8]byte
		_, err = io.ReadFull(c.br, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil || n > 1<<30 {
		return 0, nil, fmt.Errorf("cannot read a frame of %d bytes: %v", n, err)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.br, payload)
	return h[0], payload, err
}

// closedWith is the error of a connection that ended with a close frame.
type closedWith uint16

func (c closedWith) Error() string { return fmt.Sprintf("closed with code %d", uint16(c)) }

// message reads the next message; pongs are passed over.
func (c *peer) message() (msp.Header, []byte, error) {
	var message []byte
	for {
		first, payload, err := c.next()
		if err != nil {
			return msp.Header{}, nil, err
		}
		switch first & 0xf {
		case opPong:
			continue
		case opClose:
			code := closedWith(1005)
			if len(payload) >= 2 {
				code = closedWith(binary.BigEndian.Uint16(payload))
			}
			return msp.Header{}, nil, code
		case opBinary, opContinuation:
		default:
			return msp.Header{}, nil, fmt.Errorf("a frame with the first octet %#x", first)
		}
		if message = append(message, payload...); first&final != 0 {
			return msp.ParseHeader(message)
		}
	}
}

// reply reads up to the next message that is no event.
func (c *peer) reply() (msp.Header, []byte, error) {
	for {
		h, payload, err := c.message()
		if err != nil || h.Method != msp.MethodEvent {
			return h, payload, err
		}
		ev := new(msp.Event)
		if err := calldata.Unmarshal(payload, ev); err != nil {
			return h, payload, err
		}
		c.events = append(c.events, ev)
	}
}

// event reads the next event. Any other message is an error. The event is never
// nil.
func (c *peer) event() (*msp.Event, error) {
	if len(c.events) > 0 {
		ev := c.events[0]
		c.events = c.events[1:]
		return ev, nil
	}
	ev := new(msp.Event)
	h, payload, err := c.message()
	if err != nil {
		return ev, err
	}
	if h.Method != msp.MethodEvent || h.Request != 0 {
		return ev, fmt.Errorf("a %v of request %d came where an event was due", h.Method, h.Request)
	}
	return ev, calldata.Unmarshal(payload, ev)
}

// send sends a request and returns its id.
func (c *peer) send(r *msp.Request) (uint64, error) {
	c.id++
	b, err := r.Message(c.id)
	if err != nil {
		return 0, err
	}
	return c.id, c.say(b)
}

// ask sends a request and reads its reply into v.
func (c *peer) ask(r *msp.Request, v any) error {
	id, err := c.send(r)
	if err != nil {
		return err
	}
	h, payload, err := c.reply()
	if err != nil {
		return fmt.Errorf("no reply to %v: %w", r.Method(), err)
	}
	if h.Method == msp.MethodError && h.Request == id {
		e := new(msp.Error)
		if err := calldata.Unmarshal(payload, e); err != nil {
			return err
		}
		return e
	}
	if want := (msp.Header{Method: r.Method(), Request: id}); h != want {
		return fmt.Errorf("a %v of request %d came where the reply to %v of %d was due", h.Method, h.Request, want.Method, want.Request)
	}
	return calldata.Unmarshal(payload, v)
}

// fails reads the next reply, which must be that error of that request.
func (c *peer) fails(request uint64, code msp.ErrorCode) error {
	h, payload, err := c.reply()
	if err != nil {
		return fmt.Errorf("no error reply: %w", err)
	}
	var e msp.Error
	if h.Method != msp.MethodError {
		return fmt.Errorf("answered %v of request %d, want the error %v of request %d", h.Method, h.Request, code, request)
	}
	if err := calldata.Unmarshal(payload, &e); err != nil {
		return err
	}
	if h.Request != request || e.Code != code {
		return fmt.Errorf("answered the error %v of request %d (%.80q), want %v of %d", e.Code, h.Request, e.Message, code, request)
	}
	return nil
}

// refused sends a request whose reply must be that error.
func (c *peer) refused(r *msp.Request, code msp.ErrorCode) error {
	id, err := c.send(r)
	if err != nil {
		return err
	}
	return c.fails(id, code)
}

// dropped reads to the end of the connection, which must come without a close
// frame. A reset is an end.
func (c *peer) dropped() error {
	for {
		_, _, err := c.message()
		var code closedWith
		var timeout net.Error
		switch {
		case err == nil:
		case errors.As(err, &code):
			return fmt.Errorf("the connection was %w, and no close frame was due", code)
		case errors.As(err, &timeout) && timeout.Timeout():
			return errors.New("the connection was not dropped")
		default:
			return nil
		}
	}
}

// ended reads to the end of the connection, which must come with one of the
// close codes or without a close frame.
func (c *peer) ended(codes ...closedWith) error {
	for {
		_, _, err := c.message()
		var code closedWith
		var timeout net.Error
		switch {
		case err == nil:
			continue
		case errors.As(err, &code):
			for _, want := range codes {
				if code == want {
					return nil
				}
			}
			return fmt.Errorf("the connection was %w, want one of %v or none", code, codes)
		case errors.As(err, &timeout) && timeout.Timeout():
			return errors.New("the connection was not ended")
		}
		return nil
	}
}
