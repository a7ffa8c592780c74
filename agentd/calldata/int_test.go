package calldata

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// bigInts draws integers whose magnitudes lie about evenly over the lengths,
// with many beside powers of two.
func bigInts() *rapid.Generator[*big.Int] {
	return rapid.Custom(func(t *rapid.T) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(1), rapid.UintRange(0, 700).Draw(t, "exponent"))
		n.Add(n, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "plus")))
		if rapid.Bool().Draw(t, "any") {
			n.SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "octets"))
		}
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		return n
	})
}

// slow encodes by the definition: the number tag + 8·argument in groups of
// seven bits.
func slow(n *big.Int) []byte {
	tag, arg := int64(tagPositive), new(big.Int).Set(n)
	if n.Sign() < 0 {
		tag = tagNegative
		arg.Not(arg)
	}
	arg.Lsh(arg, 3)
	arg.Add(arg, big.NewInt(tag))
	var out []byte
	for rest := new(big.Int); ; {
		arg.QuoRem(arg, big.NewInt(128), rest)
		if arg.Sign() == 0 {
			return append(out, byte(rest.Int64()))
		}
		out = append(out, byte(rest.Int64())|0x80)
	}
}

// TestIntegers compares the packing of groups with plain arithmetic.
func TestIntegers(t *testing.T) {
	t.Attr("requirement", "CALLDATA-6")
	rapid.Check(t, func(t *rapid.T) {
		n := bigInts().Draw(t, "n")
		b, err := Marshal(n)
		if err != nil || string(b) != string(slow(n)) {
			t.Fatalf("Marshal(%v) = %x, %v, want %x", n, b, err, slow(n))
		}
		var got Int
		if err := Unmarshal(b, &got); err != nil || got.Big().Cmp(n) != 0 || !got.Equal(IntOf(n)) || got.Sign() != n.Sign() {
			t.Fatalf("Unmarshal(%x) = %v, %v, want %v", b, got, err, n)
		}
		u, fits := U256Of(got)
		if want := n.Sign() >= 0 && n.BitLen() <= 256; fits != want {
			t.Fatalf("U256Of(%v): %t, want %t", n, fits, want)
		}
		if fits {
			again, err := Marshal(u)
			if err != nil || string(again) != string(b) || !u.Int().Equal(got) {
				t.Fatalf("Marshal(%v) = %x, %v, want %x", u, again, err, b)
			}
		}
		if i, ok := got.Int64(); ok != n.IsInt64() || (ok && i != n.Int64()) {
			t.Fatalf("Int64 of %v: %d, %t", n, i, ok)
		}
		if i, ok := got.Uint64(); ok != n.IsUint64() || (ok && i != n.Uint64()) {
			t.Fatalf("Uint64 of %v: %d, %t", n, i, ok)
		}
		text, _ := json.Marshal(got)
		var read Int
		if err := json.Unmarshal(text, &read); err != nil || !read.Equal(got) || string(text) != n.String() {
			t.Fatalf("JSON %s of %v reads as %v, %v", text, n, read, err)
		}
	})
}

// TestLongIntegers codes integers of megabytes: shifting the whole number for
// each group would take hours.
func TestLongIntegers(t *testing.T) {
	t.Attr("requirement", "CALLDATA-6")
	octets := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(octets)
	octets[0] |= 1
	n := new(big.Int).SetBytes(octets)
	for _, n := range []*big.Int{n, new(big.Int).Neg(n), power(64<<20, 0), power(64<<20, -1)} {
		b, err := Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var got Int
		if err := Unmarshal(b, &got); err != nil || got.Big().Cmp(n) != 0 {
			t.Errorf("an integer of %d bits: %v", n.BitLen(), err)
		}
	}
}

func TestIntegerText(t *testing.T) {
	t.Attr("requirement", "CALLDATA-17")
	for _, tc := range []struct{ text, want string }{
		{"0", "0"}, {"-1", "-1"}, {"007", "7"}, {"18446744073709551616", "18446744073709551616"},
		{"", ""}, {"-", ""}, {"+1", ""}, {"1.0", ""}, {"1e3", ""}, {"0x10", ""}, {" 1", ""}, {"--1", ""},
	} {
		var n Int
		err := n.UnmarshalText([]byte(tc.text))
		if (err == nil) != (tc.want != "") || (err == nil && n.String() != tc.want) {
			t.Errorf("%q: %v, %v, want %q", tc.text, n, err, tc.want)
		}
	}
	var u U256
	if err := u.UnmarshalText([]byte("-1")); err == nil {
		t.Error("U256 reads -1")
	}
	if err := u.UnmarshalText([]byte(power(256, 0).String())); err == nil {
		t.Error("U256 reads 2^256")
	}
	if err := u.UnmarshalText([]byte(power(256, -1).String())); err != nil || u != most256() {
		t.Errorf("U256 reads 2^256-1 as %v, %v", u, err)
	}
	var a Address
	if err := a.UnmarshalText([]byte("0x5b38da6a701c568545dcfcb03fcb875f56beddc4")); err != nil || a.String() != "0x5b38da6a701c568545dcfcb03fcb875f56beddc4" {
		t.Errorf("an address reads as %v, %v", a, err)
	}
	if err := a.UnmarshalText([]byte("0x5b38")); err == nil {
		t.Error("an address of two octets was read")
	}
	if NewInt(math.MinInt64).String() != "-9223372036854775808" || NewUint(math.MaxUint64).String() != "18446744073709551615" {
		t.Error("the bounds of 64 bits are written otherwise")
	}
}
