package calldata

import (
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func power(exponent uint, plus int64) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), exponent)
	return n.Add(n, big.NewInt(plus))
}

func negative(n *big.Int) *big.Int { return new(big.Int).Neg(n) }

// vectors are those of manager facts, section 1.4: values as Decode gives them,
// except that integers stand as Go's own.
var vectors = []struct {
	value any
	hex   string
}{
	{nil, "00"},
	{false, "08"},
	{true, "10"},
	{0, "01"},
	{1, "09"},
	{15, "79"},
	{16, "8101"},
	{127, "f907"},
	{128, "8108"},
	{255, "f90f"},
	{int64(1) << 31, "8180808040"},
	{int64(math.MaxUint32), "f9ffffff7f"},
	{int64(1) << 53, "818080808080808001"},
	{int64(math.MaxInt64), "f9ffffffffffffffff07"},
	{uint64(math.MaxUint64), "f9ffffffffffffffff0f"},
	{power(64, 0), "81808080808080808010"},
	{power(256, -1), "f9ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"},
	{-1, "02"},
	{-2, "0a"},
	{-16, "7a"},
	{-17, "8201"},
	{-128, "fa07"},
	{int64(math.MinInt64), "faffffffffffffffff07"},
	{negative(power(64, 0)), "faffffffffffffffff0f"},
	{"", "04"},
	{"a", "0c61"},
	{"hello", "2c68656c6c6f"},
	{"é", "14c3a9"},
	{"😀", "24f09f9880"},
	{strings.Repeat("a", 15), "7c616161616161616161616161616161"},
	{strings.Repeat("a", 16), "840161616161616161616161616161616161"},
	{"2024-11-26T06:42:42.424242Z", "dc01323032342d31312d32365430363a34323a34322e3432343234325a"},
	{[]byte{}, "03"},
	{[]byte{1, 2, 3}, "1b010203"},
	{[]byte{0}, "0b00"},
	{[]byte(strings.Repeat("\xff", 16)), "8301ffffffffffffffffffffffffffffffff"},
	{Address(unhex("5b38da6a701c568545dcfcb03fcb875f56beddc4")), "185b38da6a701c568545dcfcb03fcb875f56beddc4"},
	{Address{}, "180000000000000000000000000000000000000000"},
	{[]any{}, "05"},
	{[]any{nil}, "0d00"},
	{[]any{1, 2, 3}, "1d091119"},
	{[]any{[]any{}, []any{[]any{}}}, "15050d05"},
	{[]any{true, "x", []byte{0}}, "1d100c780b00"},
	{map[string]any{}, "06"},
	{map[string]any{"": nil}, "0e0000"},
	{map[string]any{"a": 1}, "0e016109"},
	{map[string]any{"z": 1, "aa": 2}, "1602616111017a09"},
	{map[string]any{"": nil, "a": []any{1, 2, map[string]any{"b": false}}}, "16000001611d09110e016208"},
	{map[string]any{"B": 1, "a": 2}, "16014209016111"},
	{map[string]any{"é": 1, "z": 2}, "16017a1102c3a909"},
	{map[string]any{"\uffff": 1, "\U00010000": 2}, "1603efbfbf0904f090808011"},
	{map[string]any{"kind": "major", "major": 0}, "16046b696e642c6d616a6f72056d616a6f7201"},
	{map[string]any{"kind": "version", "version": "v0.2.17"}, "16046b696e643c76657273696f6e0776657273696f6e3c76302e322e3137"},
	{[]any{0, 0, 0, 0, 0, 0, 1, 1, 1}, "4d010101010101090909"},
	{[]any{0, 0, 0, 0, 0, 0, 1, 0, 1}, "4d010101010101090109"},
}

// malformed are the inputs of manager facts, section 1.5, and of the rules of
// section 1.2 that have no row there.
var malformed = []struct {
	hex   string
	fault Fault
}{
	{"", Truncated},
	{"80", Truncated},
	{"8000", NotMinimal},
	{"818000", NotMinimal},
	{"07", BadTag},
	{"0f", BadTag},
	{"8701", BadTag},
	{"20", BadTag},
	{"28", BadTag},
	{"8002", BadTag},
	{"80808080808080808080808001", BadTag},
	{"18" + strings.Repeat("00", 19), Truncated},
	{"1b0102", Truncated},
	{"2c68", Truncated},
	{"0cff", BadUTF8},
	{"14c080", BadUTF8},
	{"1ceda080", BadUTF8},
	{"24f5808080", BadUTF8},
	{"0d", Truncated},
	{"858080808001", TooLarge},
	{"838080808001", TooLarge},
	{"848080808001", TooLarge},
	{"868080808001", TooLarge},
	{"8580808080808080808080808001", TooLarge},
	{"fdffffff7f", Truncated},
	{"fbffffff7f", Truncated},
	{"fcffffff7f", Truncated},
	{"feffffff7f", Truncated},
	{"0e", Truncated},
	{"0e01", Truncated},
	{"0e0161", Truncated},
	{"16016100", Truncated},
	{"0e01ff00", BadUTF8},
	{"0e81006100", NotMinimal},
	{"0e808080801000", TooLarge},
	{"0e80808080808080808080808080100000", TooLarge},
	{"16016200016100", BadOrder},
	{"16016100016100", BadOrder},
	{"1602616100016100", BadOrder},
	{"01ff", Trailing},
	{"0000", Trailing},
	{strings.Repeat("0d", 128) + "05", TooDeep},
	{strings.Repeat("0d", 128) + "06", TooDeep},
	{strings.Repeat("0e00", 128) + "0600", TooDeep},
	{strings.Repeat("0d", 100_000), TooDeep},
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// asDecoded replaces Go's integers by those that Decode gives.
func asDecoded(v any) any {
	switch v := v.(type) {
	case int:
		return NewInt(int64(v))
	case int64:
		return NewInt(v)
	case uint64:
		return NewUint(v)
	case *big.Int:
		return IntOf(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = asDecoded(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = asDecoded(v[k])
		}
		return out
	}
	return v
}

func TestVectors(t *testing.T) {
	t.Attr("requirement", "CALLDATA-1")
	t.Attr("requirement", "CALLDATA-2")
	for _, tc := range vectors {
		got, err := Marshal(tc.value)
		if err != nil || hex.EncodeToString(got) != tc.hex {
			t.Errorf("Marshal(%v) = %x, %v, want %s", tc.value, got, err, tc.hex)
		}
		value, err := Decode(unhex(tc.hex))
		if diff := cmp.Diff(asDecoded(tc.value), value); err != nil || diff != "" {
			t.Errorf("Decode(%s): %v %s", tc.hex, err, diff)
		}
		if err := Valid(unhex(tc.hex)); err != nil {
			t.Errorf("Valid(%s): %v", tc.hex, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Attr("requirement", "CALLDATA-1")
	t.Attr("requirement", "CALLDATA-3")
	t.Attr("requirement", "CALLDATA-4")
	t.Attr("requirement", "CALLDATA-7")
	t.Attr("requirement", "CALLDATA-18")
	for _, tc := range malformed {
		input := unhex(tc.hex)
		_, decoded := Decode(input)
		var raw Raw
		for what, err := range map[string]error{"Decode": decoded, "Valid": Valid(input), "Raw": Unmarshal(input, &raw)} {
			var e *Error
			if !errors.As(err, &e) || e.Fault != tc.fault || e.Offset < 0 || e.Offset > len(input) {
				t.Errorf("%s(%.40s): %v, want %v", what, tc.hex, err, tc.fault)
			}
		}
	}
}

// TestDepth gives containers on both sides of the bound.
func TestDepth(t *testing.T) {
	t.Attr("requirement", "CALLDATA-5")
	for _, tc := range []struct {
		hex  string
		deep bool
	}{
		{strings.Repeat("0d", 127) + "05", false},
		{strings.Repeat("0d", 128) + "00", false},
		{strings.Repeat("0d", 128) + "05", true},
		{strings.Repeat("0e00", 127) + "06", false},
		{strings.Repeat("0e00", 128) + "06", true},
		// Depth is how deep, not how many.
		{"15" + strings.Repeat("0d", 126) + "05" + strings.Repeat("0d", 126) + "05", false},
	} {
		input := unhex(tc.hex)
		value, err := Decode(input)
		if (err != nil) != tc.deep || (Valid(input) != nil) != tc.deep {
			t.Errorf("Decode(%.20s… of %d octets): %v", tc.hex, len(input), err)
		}
		if tc.deep {
			continue
		}
		if again, err := Marshal(value); err != nil || hex.EncodeToString(again) != tc.hex {
			t.Errorf("encoding it again: %v", err)
		}
	}
	var deep any
	for range MaxDepth + 1 {
		deep = []any{deep}
	}
	var e *Error
	if _, err := Marshal(deep); !errors.As(err, &e) || e.Fault != TooDeep {
		t.Errorf("Marshal of %d containers: %v", MaxDepth+1, err)
	}
}
