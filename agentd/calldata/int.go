package calldata

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// Int is an integer of any size. It is a value: copy it freely. The zero value
// is 0. Integers in [-2^64, 2^64-1] need no memory of their own.
type Int struct {
	// arg is the value n ≥ 0, or -1-n when wide is belowZero, as on the wire. It is
	// 0 when wide is another integer, which holds only what arg cannot.
	//
	// CALLDATA-24: two words, because a list of small integers is many times its
	// octets already.
	arg  uint64
	wide *big.Int
}

// belowZero is the mark of a negative Int whose value stands in arg. It is never
// read as an integer.
var belowZero = new(big.Int)

// small is the Int of an argument on the wire.
func small(arg uint64, neg bool) Int {
	if neg {
		return Int{arg, belowZero}
	}
	return Int{arg: arg}
}

func (n Int) isWide() bool { return n.wide != nil && n.wide != belowZero }

// NewInt returns the Int of n.
func NewInt(n int64) Int {
	if n < 0 {
		return small(uint64(^n), true)
	}
	return Int{arg: uint64(n)}
}

// NewUint returns the Int of n.
func NewUint(n uint64) Int { return Int{arg: n} }

// IntOf returns the Int of n, which is copied. Nil is 0.
func IntOf(n *big.Int) Int {
	if n == nil {
		return Int{}
	}
	if n.IsUint64() {
		return Int{arg: n.Uint64()}
	}
	if n.Sign() < 0 {
		if m := new(big.Int).Not(n); m.IsUint64() {
			return small(m.Uint64(), true)
		}
	}
	return Int{wide: new(big.Int).Set(n)}
}

// Big returns the integer as a new big.Int.
func (n Int) Big() *big.Int {
	if n.isWide() {
		return new(big.Int).Set(n.wide)
	}
	b := new(big.Int).SetUint64(n.arg)
	if n.wide == belowZero {
		b.Not(b)
	}
	return b
}

// Uint64 returns the integer and true if it fits.
func (n Int) Uint64() (uint64, bool) {
	if n.wide != nil {
		return 0, false
	}
	return n.arg, true
}

// Int64 returns the integer and true if it fits.
func (n Int) Int64() (int64, bool) {
	if n.isWide() || n.arg > math.MaxInt64 {
		return 0, false
	}
	if n.wide == belowZero {
		return ^int64(n.arg), true
	}
	return int64(n.arg), true
}

// Sign is -1, 0 or 1.
func (n Int) Sign() int {
	switch {
	case n.isWide():
		return n.wide.Sign()
	case n.wide == belowZero:
		return -1
	case n.arg == 0:
		return 0
	}
	return 1
}

// Equal reports whether both are the same integer.
func (n Int) Equal(m Int) bool {
	if !n.isWide() || !m.isWide() {
		return n == m
	}
	return n.wide.Cmp(m.wide) == 0
}

// String is the integer in decimal.
func (n Int) String() string { return n.Big().String() }

// MarshalText is String.
func (n Int) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// maxTextDigits bounds what UnmarshalText reads: reading decimal digits takes
// more than linear time.
const maxTextDigits = 10_000

// UnmarshalText reads a decimal integer of at most 10,000 digits.
func (n *Int) UnmarshalText(text []byte) error {
	b, err := parseDecimal(string(text))
	if err != nil {
		return err
	}
	*n = IntOf(b)
	return nil
}

// MarshalJSON writes a JSON number.
func (n Int) MarshalJSON() ([]byte, error) { return n.MarshalText() }

// UnmarshalJSON reads a JSON integer or a string that holds one.
func (n *Int) UnmarshalJSON(text []byte) error { return n.UnmarshalText(unquoted(text)) }

// unquoted strips the quotes of a JSON string; digits need no more.
func unquoted(text []byte) []byte {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

func parseDecimal(text string) (*big.Int, error) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > maxTextDigits || strings.Trim(digits, "0123456789") != "" {
		return nil, fmt.Errorf("cannot read an integer: want at most %d decimal digits", maxTextDigits)
	}
	b, _ := new(big.Int).SetString(text, 10) // digits only: cannot fail
	return b, nil
}

// Int reads an integer of any size, in time linear in its length.
func (r *Reader) Int() (Int, error) {
	at := r.pos
	tag, arg, wide, err := r.want(KindInt)
	if err != nil {
		return Int{}, err
	}
	if !wide {
		return small(arg, tag == tagNegative), nil
	}
	b := new(big.Int).SetBits(words(r.data[at:r.pos]))
	if tag == tagNegative {
		b.Not(b)
	}
	return Int{wide: b}, nil
}

// words packs the argument of the number in octets, which has a tag of 3 bits,
// into the words of a big.Int.
//
// CALLDATA-6: each group of 7 bits goes straight to its place; to shift and add
// the whole number for each would take quadratic time.
func words(octets []byte) []big.Word {
	out := make([]big.Word, (len(octets)*7-3+bits.UintSize-1)/bits.UintSize)
	out[0] = big.Word(octets[0]&0x7f) >> 3
	at := uint(4)
	for _, o := range octets[1:] {
		group := big.Word(o & 0x7f)
		word, shift := at/bits.UintSize, at%bits.UintSize
		out[word] |= group << shift
		if shift > bits.UintSize-7 && group>>(bits.UintSize-shift) != 0 {
			out[word+1] |= group >> (bits.UintSize - shift)
		}
		at += 7
	}
	return out
}

// Uint reads an integer in [0, most].
func (r *Reader) Uint(most uint64) (uint64, error) {
	at := r.pos
	tag, arg, wide, err := r.want(KindInt)
	// CALLDATA-17: never cut to the type, since that is another number.
	if err == nil && (wide || tag == tagNegative || arg > most) {
		err = r.fault(at, OutOfRange, "want an integer from 0 to %d", most)
	}
	return arg, err
}

// Int64 reads an integer that fits 64 bits with a sign.
func (r *Reader) Int64() (int64, error) {
	at := r.pos
	tag, arg, wide, err := r.want(KindInt)
	if err == nil && (wide || arg > math.MaxInt64) {
		err = r.fault(at, OutOfRange, "want an integer from %d to %d", math.MinInt64, math.MaxInt64)
	}
	if tag == tagNegative {
		return ^int64(arg), err
	}
	return int64(arg), err
}

// number appends rest<<skip|low as a minimal ULEB128 number.
func (w *Writer) number(low byte, rest uint64, skip uint) {
	first := byte(rest<<skip)&0x7f | low
	rest >>= 7 - skip
	for rest != 0 {
		w.buf = append(w.buf, first|0x80)
		first = byte(rest & 0x7f)
		rest >>= 7
	}
	w.buf = append(w.buf, first)
}

func (w *Writer) head(tag byte, arg uint64) {
	if arg < 16 {
		w.buf = append(w.buf, byte(arg)<<3|tag)
		return
	}
	w.number(tag, arg, 3)
}

// Uint writes a non-negative integer.
func (w *Writer) Uint(n uint64) { w.head(tagPositive, n) }

// Int64 writes an integer.
func (w *Writer) Int64(n int64) { w.Int(NewInt(n)) }

// Int writes an integer of any size, in time linear in its length.
func (w *Writer) Int(n Int) {
	tag := byte(tagPositive)
	if n.wide == belowZero {
		tag = tagNegative
	}
	if !n.isWide() {
		w.head(tag, n.arg)
		return
	}
	arg := n.wide
	if arg.Sign() < 0 {
		tag, arg = tagNegative, new(big.Int).Not(arg)
	}
	w.wide(tag, arg.Bits())
}

// wide appends a number whose argument stands in words, the last of which is
// not zero.
func (w *Writer) wide(tag byte, words []big.Word) {
	total := uint(len(words)*bits.UintSize - bits.LeadingZeros(uint(words[len(words)-1])))
	octet := tag | byte(words[0]&0xf)<<3
	for at := uint(4); at < total; at += 7 {
		w.buf = append(w.buf, octet|0x80)
		word, shift := at/bits.UintSize, at%bits.UintSize
		group := words[word] >> shift
		if shift > bits.UintSize-7 && int(word)+1 < len(words) {
			group |= words[word+1] << (bits.UintSize - shift)
		}
		octet = byte(group & 0x7f)
	}
	w.buf = append(w.buf, octet)
}
