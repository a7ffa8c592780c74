package calldata

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Address is an address. It is a kind of its own: bytes of that length are no
// address, and an address is no bytes.
type Address [20]byte

// String is the address in hexadecimal after 0x.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// MarshalText is String.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads 40 hexadecimal digits, with or without 0x.
func (a *Address) UnmarshalText(text []byte) error {
	digits := strings.TrimPrefix(string(text), "0x")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(a) {
		return fmt.Errorf("cannot read an address: want 40 hexadecimal digits, with or without 0x")
	}
	copy(a[:], b)
	return nil
}

// Raw is a value that stays encoded. When decoded it is checked and copied. The
// empty Raw is null, and null is decoded as nil.
type Raw []byte

// U256 is an integer in [0, 2^256-1]. The zero value is 0.
type U256 struct {
	limbs [4]uint64 // least significant first
}

// NewU256 returns the U256 of n.
func NewU256(n uint64) U256 { return U256{[4]uint64{n}} }

// U256Of returns the U256 of n and true if it fits.
func U256Of(n Int) (U256, bool) {
	if n.Sign() < 0 {
		return U256{}, false
	}
	if !n.isWide() {
		return NewU256(n.arg), true
	}
	if n.wide.BitLen() > 256 {
		return U256{}, false
	}
	var octets [32]byte
	n.wide.FillBytes(octets[:])
	var u U256
	for i, o := range octets {
		at := 31 - i
		u.limbs[at/8] |= uint64(o) << (at % 8 * 8)
	}
	return u, true
}

// Int returns the integer.
func (u U256) Int() Int {
	if u.limbs[1]|u.limbs[2]|u.limbs[3] == 0 {
		return NewUint(u.limbs[0])
	}
	b := new(big.Int)
	for i := 3; i >= 0; i-- {
		b.Lsh(b, 64)
		b.Or(b, new(big.Int).SetUint64(u.limbs[i]))
	}
	return Int{wide: b}
}

// String is the integer in decimal.
func (u U256) String() string { return u.Int().String() }

// MarshalText is String.
func (u U256) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads a decimal integer.
func (u *U256) UnmarshalText(text []byte) error {
	b, err := parseDecimal(string(text))
	if err != nil {
		return err
	}
	got, ok := U256Of(IntOf(b))
	if !ok {
		return fmt.Errorf("cannot read an integer: want one from 0 to 2^256-1")
	}
	*u = got
	return nil
}

// MarshalJSON writes a JSON number.
func (u U256) MarshalJSON() ([]byte, error) { return u.MarshalText() }

// UnmarshalJSON reads a JSON integer or a string that holds one.
func (u *U256) UnmarshalJSON(text []byte) error { return u.UnmarshalText(unquoted(text)) }

// U256 reads an integer in [0, 2^256-1].
func (r *Reader) U256() (U256, error) {
	at := r.pos
	tag, arg, wide, err := r.want(KindInt)
	if err != nil {
		return U256{}, err
	}
	if tag == tagPositive && !wide {
		return NewU256(arg), nil
	}
	octets := r.data[at:r.pos]
	// 4 bits stand in the first octet and 7 in each other: 256 bits take 37.
	if tag == tagNegative || len(octets) > 37 {
		return U256{}, r.fault(at, OutOfRange, "want an integer from 0 to 2^256-1")
	}
	u, ok := U256Of(IntOf(new(big.Int).SetBits(words(octets))))
	if !ok {
		err = r.fault(at, OutOfRange, "want an integer from 0 to 2^256-1")
	}
	return u, err
}

// U256 writes an integer.
func (w *Writer) U256(u U256) {
	if u.limbs[1]|u.limbs[2]|u.limbs[3] == 0 {
		w.head(tagPositive, u.limbs[0])
		return
	}
	if bits.UintSize == 64 {
		var words [4]big.Word
		last := 0
		for i, l := range u.limbs {
			words[i] = big.Word(l)
			if l != 0 {
				last = i
			}
		}
		w.wide(tagPositive, words[:last+1])
		return
	}
	w.Int(u.Int())
}
