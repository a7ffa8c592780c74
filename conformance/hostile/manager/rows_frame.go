package manager

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"microvms/agentd/api/msp"
)

// The close codes of RFC 6455, section 7.4.1, that a violation may get.
const (
	protocolViolation = closedWith(1002)
	badPayload        = closedWith(1007)
)

func frameRows() []Row {
	violation := func(frames ...[]byte) func(context.Context, *probe) error {
		return with(func(c *peer) error {
			if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
				return err
			}
			return c.ended(protocolViolation, badPayload)
		})
	}
	masked := func(first byte, payload string) []byte { return append(head(first, uint64(len(payload))), payload...) }
	closing := func(code uint16, reason string) []byte {
		return masked(final|opClose, string(binary.BigEndian.AppendUint16(nil, code))+reason)
	}
	cases := []Case{
		{"not masked", violation([]byte{final | opBinary, 1, 0})},
		{"not masked in the middle of a message", violation(masked(opBinary, "x"), []byte{final | opContinuation, 1, 0})},
		{"reserved bit 1", violation(masked(final|0x40|opBinary, "x"))},
		{"reserved bit 2", violation(masked(final|0x20|opBinary, "x"))},
		{"reserved bit 3", violation(masked(final|0x10|opBinary, "x"))},
		{"reserved bit on a ping", violation(masked(final|0x40|opPing, "x"))},
		{"a reserved opcode", violation(masked(final|0x3, "x"))},
		{"a reserved control opcode", violation(masked(final|0xb, "x"))},
		{"a ping of 126 bytes", violation(masked(final|opPing, strings.Repeat("x", 126)))},
		{"a ping in fragments", violation(masked(opPing, "x"), masked(final|opContinuation, "y"))},
		{"a continuation of nothing", violation(masked(final|opContinuation, "x"))},
		{"a message inside a message", violation(masked(opBinary, "x"), masked(final|opBinary, "y"))},
		{"a length with the top bit", violation(append([]byte{final | opBinary, 0xff}, bytes.Repeat([]byte{0xff}, 12)...))},
		{"close code 999", violation(closing(999, ""))},
		{"close code 1005", violation(closing(1005, ""))},
		{"close code 1006", violation(closing(1006, ""))},
		{"close code 5000", violation(closing(5000, ""))},
		{"a close of one byte", violation(masked(final|opClose, "x"))},
		{"a close with a reason of 124 bytes", violation(closing(1000, strings.Repeat("x", 124)))},
		{"a good close", with(func(c *peer) error {
			if _, err := c.Write(closing(1000, "done")); err != nil {
				return err
			}
			return c.ended(1000)
		})},
		{"frames after a close", with(func(c *peer) error {
			r := msp.Request{Run: run("hang")}
			b, err := r.Message(1)
			if err != nil {
				return err
			}
			if _, err := c.Write(append(closing(1000, ""), masked(final|opBinary, string(b))...)); err != nil {
				return err
			}
			return c.ended(1000)
		})},
		{"a length in a longer form", with(longForm)},
		{"a message of 10,000 fragments", with(tiny)},
		{"a ping between fragments", with(interleaved)},
		{"a run request whose end does not come", halfRun},
	}
	return []Row{{
		ID: "M3", Name: "frames that are none, and messages in unusual frames",
		Expect:       "close code 1002, or the end without a close frame; what is allowed is served",
		Requirements: []string{"SOCKET-20", "SOCKET-27", "SOCKET-28", "SOCKET-31"},
		Cases:        cases,
	}}
}

// longForm gives a short length in eight octets, which may be taken or refused.
func longForm(c *peer) error {
	b := raw(msp.MethodAck, 5, octets("06"))
	long := append([]byte{final | opBinary, 0xff}, binary.BigEndian.AppendUint64(nil, uint64(len(b)))...)
	if _, err := c.Write(append(append(long, 0, 0, 0, 0), b...)); err != nil {
		return err
	}
	if c.fails(5, msp.CodeMalformedFrame) == nil {
		return c.serves()
	}
	return nil // it has ended, which the row's good run shows
}

func tiny(c *peer) error {
	b := raw(msp.MethodAck, 5, bytes.Repeat([]byte{0x0d}, 10_000))
	var all []byte
	for i, octet := range b {
		first := byte(opContinuation)
		switch i {
		case 0:
			first = opBinary
		case len(b) - 1:
			first |= final
		}
		all = append(append(all, head(first, 1)...), octet)
	}
	if _, err := c.Write(all); err != nil {
		return err
	}
	if err := c.fails(5, msp.CodeMalformedFrame); err != nil {
		return err
	}
	return c.serves()
}

func interleaved(c *peer) error {
	b := raw(msp.MethodAck, 5, octets("06"))
	if err := c.frame(opBinary, b[:4]); err != nil {
		return err
	}
	if err := c.frame(final|opPing, []byte("are you there")); err != nil {
		return err
	}
	first, payload, err := c.next()
	if err != nil || first != final|opPong || string(payload) != "are you there" {
		return fmt.Errorf("the ping was answered %#x with %.40q: %v", first, payload, err)
	}
	if err := c.frame(final|opContinuation, b[4:]); err != nil {
		return err
	}
	if err := c.fails(5, msp.CodeMalformedFrame); err != nil {
		return err
	}
	return c.serves()
}

// halfRun cuts the connection in the middle of a run request: at each place, and
// none may start.
func halfRun(ctx context.Context, p *probe) error {
	r := msp.Request{Run: run("hang")}
	b, err := r.Message(1)
	if err != nil {
		return err
	}
	for _, cut := range []int{0, 1, msp.HeaderBytes, len(b) / 2, len(b) - 1} {
		for _, whole := range []bool{false, true} { // in a fragment that is not the last, or in a frame that is cut
			if err := p.cutRun(ctx, b, cut, whole); err != nil {
				return err
			}
		}
	}
	// The last fragment is empty: with it the request would have been whole.
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	if err := c.frame(opBinary, b); err != nil {
		return err
	}
	c.Close()
	s, err := p.status(ctx)
	if err == nil && len(s.Executions) != 0 {
		err = fmt.Errorf("%d runs were started by halves of requests", len(s.Executions))
	}
	return err
}

func (p *probe) cutRun(ctx context.Context, message []byte, cut int, whole bool) error {
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if !whole {
		return c.frame(opBinary, message[:cut])
	}
	_, err = c.Write(append(head(final|opBinary, uint64(len(message))), message[:cut]...))
	return err
}
