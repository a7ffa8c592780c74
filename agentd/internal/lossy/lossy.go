// Package lossy turns arbitrary bytes into UTF-8 with one U+FFFD for each
// maximal invalid subpart (Unicode 16, section 3.9, "U+FFFD Substitution of
// Maximal Subparts"), which is what polls carry (wire facts, section 7.2).
// The standard library offers one replacement a run or one a byte.
package lossy

import (
	"encoding/binary"
	"io"
	"math/bits"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// Append appends src to dst as valid UTF-8.
func Append(dst, src []byte) []byte {
	for len(src) > 0 {
		n, ok := next(src)
		if ok {
			dst = append(dst, src[:n]...)
		} else {
			dst = append(dst, replacement...)
		}
		src = src[n:]
	}
	return dst
}

// next measures what src, which is not empty, begins with: a run of valid
// UTF-8, or one maximal invalid subpart.
func next(src []byte) (n int, ok bool) {
	for n < len(src) {
		if src[n] < utf8.RuneSelf {
			n++
			continue
		}
		if r, size := utf8.DecodeRune(src[n:]); r != utf8.RuneError || size > 1 {
			n += size
			continue
		}
		if n == 0 {
			// OUT-3: one replacement for each maximal subpart, not one a byte or one a run.
			return subpart(src), false
		}
		break
	}
	return n, true
}

// subpart returns the length of the maximal invalid subpart that src begins
// with: the longest start of a well-formed sequence, or one byte.
func subpart(src []byte) int {
	low, high := byte(0x80), byte(0xBF)
	var length int
	switch b := src[0]; {
	case 0xC2 <= b && b <= 0xDF:
		length = 2
	case 0xE0 <= b && b <= 0xEF:
		length = 3
		switch b {
		case 0xE0:
			low = 0xA0 // below: an overlong form
		case 0xED:
			high = 0x9F // above: a surrogate
		}
	case 0xF0 <= b && b <= 0xF4:
		length = 4
		switch b {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F // above: beyond U+10FFFF
		}
	default:
		return 1
	}
	for n := 1; n < length; n++ {
		if n == len(src) || src[n] < low || src[n] > high {
			return n
		}
		low, high = 0x80, 0xBF
	}
	return length
}

// Quote writes src to w as one JSON string, lossy where it must be, in pieces
// of about cap(buf) bytes, so that large output is never held twice. It needs
// a cap(buf) of at least 64 and returns the part that is not yet written.
func Quote(w io.Writer, buf, src []byte) ([]byte, error) {
	buf = append(buf, '"')
	for len(src) > 0 {
		if cap(buf)-len(buf) < 16 {
			if _, err := w.Write(buf); err != nil {
				return buf[:0], err
			}
			buf = buf[:0]
		}
		// A plain run is copied as far as it fits. Room stays for the special character behind it, of 6 bytes at most.
		n := copyPlain(buf[len(buf):cap(buf)-8], src)
		buf, src = buf[:len(buf)+n], src[n:]
		if len(src) == 0 {
			break
		}
		if e := escapes[src[0]]; e != 0 { // nearly all that a log has: one branch for them predicts well
			buf, src = append(buf, '\\', e), src[1:]
			continue
		}
		buf, n = quoteOne(buf, src)
		src = src[n:]
	}
	return append(buf, '"'), nil
}

// copyPlain copies the leading bytes of src that stand for themselves in a JSON
// string to dst, as far as they fit, eight at a time. It may write to dst behind
// what it has copied.
func copyPlain(dst, src []byte) (n int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	end := min(len(dst), len(src))
	dst, src = dst[:end], src[:end]
	for ; n+8 <= end; n += 8 {
		x := binary.LittleEndian.Uint64(src[n:])
		binary.LittleEndian.PutUint64(dst[n:], x)
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		// A top bit is set for a byte below 0x20, equal to '"' or '\\', or
		// above 0x7f. A borrow can mark a byte too many, never one too few,
		// and only above one that is rightly marked.
		special := ((x - ones*0x20) | (quote - ones) | (slash - ones) | x) & tops
		if special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	for n < end && src[n] >= 0x20 && src[n] < utf8.RuneSelf && src[n] != '"' && src[n] != '\\' {
		dst[n] = src[n]
		n++
	}
	return n
}

// quoteOne appends the one character that src begins with, which is not in escapes.
func quoteOne(buf, src []byte) ([]byte, int) {
	const hex = "0123456789abcdef"
	switch b := src[0]; {
	case b < 0x20:
		return append(buf, '\\', 'u', '0', '0', hex[b>>4], hex[b&15]), 1
	case b < utf8.RuneSelf:
		return append(buf, b), 1
	}
	if r, size := utf8.DecodeRune(src); r != utf8.RuneError || size > 1 {
		return append(buf, src[:size]...), size
	}
	return append(buf, replacement...), subpart(src)
}

// escapes holds the characters that a backslash and one letter stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}
