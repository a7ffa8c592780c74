package calldata

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how many arrays and maps may stand inside one another (manager
// facts, section 1.2).
const MaxDepth = 128

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	KindNull Kind = iota
	KindBool
	KindAddress
	KindInt
	KindBytes
	KindString
	KindArray
	KindMap
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"null", "boolean", "address", "integer", "bytes", "string", "array", "map"}[k]
}

// The tags, the low three bits of a value's first number.
const (
	tagAtom = iota
	tagPositive
	tagNegative
	tagBytes
	tagString
	tagArray
	tagMap
)

// The atoms, arguments of tagAtom.
const (
	atomNull = iota
	atomFalse
	atomTrue
	atomAddress
)

// Reader walks over one encoded value from front to back. It checks what it
// passes. It is for [Unmarshaler] and for callers that need no Go value; it is
// not safe for concurrent use.
type Reader struct {
	data  []byte
	pos   int
	depth int
	opts  Options
	left  uint64 // octets of memory that may still be taken
}

// NewReader reads the value that data holds. Data must not change meanwhile.
func NewReader(data []byte) *Reader { return &Reader{data: data, left: allowance(data, Slack)} }

func (r *Reader) fault(at int, f Fault, format string, args ...any) error {
	return &Error{Fault: f, Offset: at, Detail: fmt.Sprintf(format, args...)}
}

// number reads one ULEB128 number whose lowest skip bits stand apart: it
// returns these bits, the rest, and whether the rest is wider than 64 bits.
func (r *Reader) number(skip uint) (low byte, rest uint64, wide bool, err error) {
	start := r.pos
	end := start
	for end < len(r.data) && r.data[end] >= 0x80 {
		end++
	}
	if end == len(r.data) {
		return 0, 0, false, r.fault(end, Truncated, "number without an end")
	}
	// CALLDATA-1: of a number's encodings only the shortest is taken, because equal values must have equal bytes.
	if end > start && r.data[end] == 0 {
		return 0, 0, false, r.fault(end, NotMinimal, "the last octet is zero")
	}
	first := r.data[start] & 0x7f
	low, rest = first&(1<<skip-1), uint64(first>>skip)
	shift := 7 - skip
	for i := start + 1; i <= end; i++ {
		group := uint64(r.data[i] & 0x7f)
		if shift >= 64 || bits.Len64(group)+int(shift) > 64 {
			wide = true
			break
		}
		rest |= group << shift
		shift += 7
	}
	r.pos = end + 1
	return low, rest, wide, nil
}

// head reads the first number of a value: its tag and argument.
func (r *Reader) head() (tag byte, arg uint64, wide bool, err error) {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 {
		b := r.data[r.pos]
		r.pos++
		return b & 7, uint64(b >> 3), false, nil
	}
	if r.pos == len(r.data) {
		return 0, 0, false, r.fault(r.pos, Truncated, "no value")
	}
	return r.number(3)
}

// Peek gives the kind of the next value without passing it. A reserved tag is a
// fault.
func (r *Reader) Peek() (Kind, error) {
	at := r.pos
	tag, arg, wide, err := r.head()
	r.pos = at
	if err != nil {
		return 0, err
	}
	return r.kindOf(at, tag, arg, wide)
}

func (r *Reader) kindOf(at int, tag byte, arg uint64, wide bool) (Kind, error) {
	switch tag {
	case tagAtom:
		switch {
		// CALLDATA-18: what is reserved must not be taken for something else.
		case wide || arg > atomAddress:
			return 0, r.fault(at, BadTag, "unknown atom")
		case arg == atomNull:
			return KindNull, nil
		case arg == atomAddress:
			return KindAddress, nil
		}
		return KindBool, nil
	case tagPositive, tagNegative:
		return KindInt, nil
	case tagBytes, tagString, tagArray, tagMap:
		return KindBytes + Kind(tag-tagBytes), nil
	}
	return 0, r.fault(at, BadTag, "tag 7")
}

// want reads the head of a value that must be of kind k.
func (r *Reader) want(k Kind) (tag byte, arg uint64, wide bool, err error) {
	at := r.pos
	if tag, arg, wide, err = r.head(); err != nil {
		return 0, 0, false, err
	}
	have, err := r.kindOf(at, tag, arg, wide)
	// CALLDATA-13: no kind stands in for another, not even 20 bytes for an address.
	if err == nil && have != k {
		err = r.fault(at, Unexpected, "want %v, have %v", k, have)
	}
	return tag, arg, wide, err
}

// length checks that a length fits 32 bits and the input.
//
// CALLDATA-4: each element takes at least per octets, so a length that the
// input cannot have is refused before anything is allocated for it.
func (r *Reader) length(at int, n uint64, wide bool, per uint64) (int, error) {
	if wide || n > math.MaxUint32 {
		return 0, r.fault(at, TooLarge, "a length must fit 32 bits")
	}
	if left := uint64(len(r.data) - r.pos); n*per > left {
		return 0, r.fault(at, Truncated, "length %d, but %d octets are left", n, left)
	}
	return int(n), nil
}

// Null reports whether the next value is null, and passes it if so.
func (r *Reader) Null() bool {
	if r.pos < len(r.data) && r.data[r.pos] == atomNull<<3|tagAtom {
		r.pos++
		return true
	}
	return false
}

// Bool reads a boolean.
func (r *Reader) Bool() (bool, error) {
	_, arg, _, err := r.want(KindBool)
	return arg == atomTrue, err
}

// Address reads an address.
func (r *Reader) Address() (a Address, err error) {
	at := r.pos
	if _, _, _, err = r.want(KindAddress); err != nil {
		return a, err
	}
	if len(r.data)-r.pos < len(a) {
		return a, r.fault(at, Truncated, "an address has 20 octets")
	}
	r.pos += copy(a[:], r.data[r.pos:])
	return a, nil
}

// Bytes reads bytes. The slice belongs to the input.
func (r *Reader) Bytes() ([]byte, error) { return r.span(KindBytes) }

// String reads a string.
func (r *Reader) String() (string, error) {
	b, err := r.text()
	return string(b), err
}

func (r *Reader) text() ([]byte, error) {
	at := r.pos
	b, err := r.span(KindString)
	if err == nil && !utf8.Valid(b) {
		// CALLDATA-3: overlong forms and surrogates are refused, because they are second encodings of a text.
		err = r.fault(at, BadUTF8, "")
	}
	return b, err
}

func (r *Reader) span(k Kind) ([]byte, error) {
	at := r.pos
	_, arg, wide, err := r.want(k)
	if err != nil {
		return nil, err
	}
	n, err := r.length(at, arg, wide, 1)
	if err != nil {
		return nil, err
	}
	r.pos += n
	return r.data[r.pos-n : r.pos : r.pos], nil
}

// enter reads the head of a container and gives the number of its elements.
// Each needs a leave.
func (r *Reader) enter(k Kind, per uint64) (int, error) {
	at := r.pos
	_, arg, wide, err := r.want(k)
	if err != nil {
		return 0, err
	}
	// CALLDATA-5: counted before the elements are looked at, because the reader recurses for each container.
	if r.depth == MaxDepth {
		return 0, r.fault(at, TooDeep, "at most %d containers nest", MaxDepth)
	}
	r.depth++
	return r.length(at, arg, wide, per)
}

func (r *Reader) leave() { r.depth-- }

// key reads a key, which must be greater than prev unless it is the first.
func (r *Reader) key(prev []byte, first bool) ([]byte, error) {
	at := r.pos
	if at == len(r.data) {
		return nil, r.fault(at, Truncated, "no key")
	}
	_, n, wide, err := r.number(0)
	if err != nil {
		return nil, err
	}
	size, err := r.length(at, n, wide, 1)
	if err != nil {
		return nil, err
	}
	key := r.data[r.pos : r.pos+size]
	r.pos += size
	if !utf8.Valid(key) {
		return nil, r.fault(at, BadUTF8, "in a key")
	}
	// CALLDATA-2: compared as bytes, which is the order of code points and not that of UTF-16.
	if !first && bytes.Compare(prev, key) >= 0 {
		return nil, r.fault(at, BadOrder, "%s after %s", quoteKey(string(key)), quoteKey(string(prev)))
	}
	return key, nil
}

// Array calls each for every element, in order, which must read exactly that
// element. It ends at the first error.
func (r *Reader) Array(each func(i int) error) error {
	n, err := r.enter(KindArray, 1)
	if err != nil {
		return err
	}
	for i := range n {
		if err := each(i); err != nil {
			return inElement(err, i)
		}
	}
	r.leave()
	return nil
}

// Map calls each for every entry, in the order of the keys, which must read
// exactly the value. It ends at the first error.
func (r *Reader) Map(each func(key string) error) error {
	n, err := r.enter(KindMap, 2)
	if err != nil {
		return err
	}
	var prev []byte
	for i := range n {
		key, err := r.key(prev, i == 0)
		if err != nil {
			return err
		}
		prev = key
		if err := each(string(key)); err != nil {
			return inKey(err, string(key))
		}
	}
	r.leave()
	return nil
}

// Skip passes the next value, whatever it is, and checks it.
func (r *Reader) Skip() error {
	k, err := r.Peek()
	if err != nil {
		return err
	}
	switch k {
	case KindAddress:
		_, err = r.Address()
	case KindBytes:
		_, err = r.Bytes()
	case KindString:
		_, err = r.text()
	case KindArray:
		err = r.Array(func(int) error { return r.Skip() })
	case KindMap:
		err = r.skipMap()
	default:
		_, _, _, err = r.head()
	}
	return err
}

// skipMap is Map without a string for each key.
func (r *Reader) skipMap() error {
	n, err := r.enter(KindMap, 2)
	if err != nil {
		return err
	}
	var prev []byte
	for i := range n {
		key, err := r.key(prev, i == 0)
		if err != nil {
			return err
		}
		prev = key
		if err := r.Skip(); err != nil {
			return inKey(err, string(key))
		}
	}
	r.leave()
	return nil
}

// End refuses input that is left.
func (r *Reader) End() error {
	// CALLDATA-7: what follows would be read by one side and passed over by the other.
	if r.pos < len(r.data) {
		return r.fault(r.pos, Trailing, "%d octets", len(r.data)-r.pos)
	}
	return nil
}

// Valid checks that data holds exactly one value in its canonical encoding.
func Valid(data []byte) error {
	r := NewReader(data)
	if err := r.Skip(); err != nil {
		return err
	}
	return r.End()
}
