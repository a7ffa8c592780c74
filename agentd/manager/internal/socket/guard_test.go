package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// frame is a masked frame with a zero mask, so that its payload is readable.
func frame(fin bool, opcode byte, payload string) string {
	return header(fin, opcode, uint64(len(payload))) + payload
}

// header is the header of a masked frame, with the shortest length that fits.
func header(fin bool, opcode byte, length uint64) string {
	b := []byte{opcode}
	if fin {
		b[0] |= 0x80
	}
	switch {
	case length < 126:
		b = append(b, 0x80|byte(length))
	case length < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), length)
	}
	return string(append(b, 0, 0, 0, 0))
}

// closed is a connection that notes its close.
type closed struct {
	net.Conn
	io.Reader
	closes int
}

func (c *closed) Read(p []byte) (int, error) { return c.Reader.Read(p) }
func (c *closed) Close() error               { c.closes++; return nil }

// guarded reads input through a guard until its end.
func guarded(input io.Reader, max uint64) (out string, c *closed, leaves int, err error) {
	c = &closed{Reader: strings.NewReader("")}
	g := newGuard(c, input, max, func() { leaves++ })
	b, err := io.ReadAll(g)
	if errors.Is(err, errGone) {
		err = nil
	} else if err == nil {
		err = errors.New("the end of the stream looks like the end of a message")
	}
	if errors.Is(err, errTooLong) != g.tooLong.Load() {
		err = errors.New("the error and the flag disagree")
	}
	return string(b), c, leaves, err
}

// TestGuardPassesWhatFits pushes messages up to the limit through the guard:
// not one byte may change, however the bytes are cut.
func TestGuardPassesWhatFits(t *testing.T) {
	t.Attr("requirement", "SOCKET-12")
	ten := strings.Repeat("x", 10)
	for name, input := range map[string]string{
		"at the limit":          frame(true, opBinary, ten),
		"fragments at it":       frame(false, opBinary, "1234") + frame(false, opContinuation, "") + frame(true, opContinuation, "567890"),
		"a ping in between":     frame(false, opBinary, "12345") + frame(true, 9, strings.Repeat("p", 125)) + frame(true, opContinuation, "67890"),
		"one after the other":   strings.Repeat(frame(true, opBinary, ten), 3),
		"text counts anew":      frame(true, 1, ten) + frame(true, opBinary, ten),
		"a message of nothing":  frame(true, opBinary, ""),
		"ends inside a header":  frame(true, opBinary, ten) + "\x82",
		"ends inside a payload": header(true, opBinary, 10) + "123",
		"close":                 frame(true, opBinary, ten) + frame(true, opClose, "\x03\xe8"),
	} {
		for cut, r := range map[string]io.Reader{
			"whole": strings.NewReader(input), "by the byte": iotest.OneByteReader(strings.NewReader(input)),
		} {
			out, c, leaves, err := guarded(r, 10)
			want := input
			if name == "ends inside a header" {
				want = input[:len(input)-1] // half a header is no frame, and is not handed on
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s, %s: err = %v", name, cut, err)
				}
				err = nil
			}
			if out != want || err != nil || c.closes != 0 {
				t.Errorf("%s, %s: passed %q, err %v, closes %d", name, cut, out, err, c.closes)
			}
			if leaves != strings.Count(name, "close") {
				t.Errorf("%s, %s: close frames seen: %d", name, cut, leaves)
			}
		}
	}
}

// TestGuardDrops announces more than the limit: what came before is passed, not
// one byte of the rest, and the socket is closed.
func TestGuardDrops(t *testing.T) {
	t.Attr("requirement", "SOCKET-12")
	before := frame(true, opBinary, "before")
	for name, over := range map[string]string{
		"one byte more":          header(true, opBinary, 11),
		"by text":                header(true, 1, 11),
		"a medium length":        header(true, opBinary, 40_000),
		"a long length":          header(true, opBinary, 1<<40),
		"2^63-1":                 header(true, opBinary, 1<<63-1),
		"2^64-1":                 header(true, opBinary, 1<<64-1),
		"the last fragment":      frame(false, opBinary, "1234567") + frame(false, opContinuation, "890") + header(true, opContinuation, 1),
		"an overflowing one":     frame(false, opBinary, "1234567") + header(true, opContinuation, 1<<64-1),
		"behind a ping":          frame(false, opBinary, "1234567") + frame(true, 9, "") + header(true, opContinuation, 4),
		"in a longer form":       "\x82\xff\x00\x00\x00\x00\x00\x00\x00\x0b\x00\x00\x00\x00",
		"of a first continuing":  header(true, opContinuation, 11),
		"with a payload behind":  frame(true, opBinary, strings.Repeat("x", 11)),
		"in an unknown opcode":   header(true, 3, 11),
		"without a mask":         "\x82\x0b",
		"with the reserved bits": "\xf2" + header(true, opBinary, 11)[1:],
	} {
		passes := strings.Split(over, header(true, opContinuation, 1))[0]
		out, c, _, err := guarded(strings.NewReader(before+over), 10)
		if !errors.Is(err, errTooLong) || c.closes != 1 {
			t.Errorf("%s: err = %v, closes %d", name, err, c.closes)
		}
		if !strings.HasPrefix(before+passes, out) || !strings.HasPrefix(out, before) || len(out) == len(before+over) {
			t.Errorf("%s: passed %q", name, out)
		}
	}
}

// TestGuardCounts compares the guard with a count over whole frames, for random
// sequences of frames cut at random places.
func TestGuardCounts(t *testing.T) {
	t.Attr("requirement", "SOCKET-12")
	rapid.Check(t, func(t *rapid.T) {
		const max = 200
		var input, want bytes.Buffer
		message, over := 0, false
		for range rapid.IntRange(1, 12).Draw(t, "frames") {
			opcode := rapid.SampledFrom([]byte{0, 1, 2, 8, 9, 10}).Draw(t, "opcode")
			n := rapid.IntRange(0, 150).Draw(t, "length")
			f := frame(rapid.Bool().Draw(t, "fin"), opcode, strings.Repeat("x", n))
			if opcode < opClose {
				if opcode != opContinuation {
					message = 0
				}
				message += n
			}
			over = over || message > max
			input.WriteString(f)
			if !over {
				want.WriteString(f)
			}
		}
		out, c, _, err := guarded(iotest.HalfReader(&input), max)
		if out != want.String() || errors.Is(err, errTooLong) != over || (c.closes == 1) != over {
			t.Fatalf("passed %d bytes of %d, err %v, closes %d, over %v", len(out), want.Len(), err, c.closes, over)
		}
	})
}
