package calldata

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type colour string

func (colour) Variants() []string { return []string{"red", "green"} }

type octet uint8

type temperature int

func (t temperature) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dC", int(t)), nil }

func (t *temperature) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(strings.TrimSuffix(string(text), "C"))
	*t = temperature(n)
	if canonical, _ := t.MarshalText(); err != nil || string(canonical) != string(text) {
		return errors.New("want degrees")
	}
	return nil
}

type even struct {
	N int `calldata:"n"`
}

func (e *even) CheckCalldata() error {
	if e.N%2 != 0 {
		return errors.New("odd")
	}
	return nil
}

type either struct {
	_ struct{} `calldata:",oneof"`
	A *even    `calldata:"a"`
	B *string  `calldata:"b"`
}

type pair struct {
	_      struct{} `calldata:",array"`
	Second [2]byte  `calldata:"y"`
	First  []byte   `calldata:"x"`
}

type node struct {
	Name     string `calldata:"name"`
	Children []node `calldata:"children,default"`
}

// sample has one field of each shape.
type sample struct {
	Bool     bool              `calldata:"bool"`
	I8       int8              `calldata:"i8"`
	I64      int64             `calldata:"i64"`
	U8       uint8             `calldata:"u8"`
	U32      uint32            `calldata:"u32"`
	U64      uint64            `calldata:"u64"`
	Wide     U256              `calldata:"wide"`
	Int      Int               `calldata:"int"`
	Name     string            `calldata:"name,default=anna"`
	Count    uint16            `calldata:"count,default=20"`
	Warm     temperature       `calldata:"warm,default=37C"`
	Colour   colour            `calldata:"colour"`
	Bytes    []byte            `calldata:"bytes"`
	Code     []byte            `calldata:"code,null"`
	Key      [4]byte           `calldata:"key"`
	Octets   []octet           `calldata:"octets"`
	Pages    [][]byte          `calldata:"pages,null"`
	Token    *string           `calldata:"token"`
	Late     *uint32           `calldata:"late,default"`
	Address  Address           `calldata:"address"`
	Labels   map[string]string `calldata:"labels,default"`
	Either   either            `calldata:"either"`
	Pair     pair              `calldata:"pair"`
	Tree     *node             `calldata:"tree"`
	Anything any               `calldata:"anything"`
	Raw      Raw               `calldata:"raw"`
	hidden   int               //nolint:unused // what is not exported is no member
}

func newSample() *sample {
	token := "t"
	return &sample{Bool: true, I8: -128, I64: math.MinInt64, U8: 255, U32: math.MaxUint32, U64: math.MaxUint64, Wide: most256(),
		Int: IntOf(power(300, 1)), Name: "otto", Count: 3, Warm: -4, Colour: "green", Bytes: []byte{1}, Code: []byte{}, Key: [4]byte{1, 2, 3, 4},
		Octets: []octet{1, 255}, Pages: [][]byte{{}, {7}}, Token: &token, Address: Address{1}, Labels: map[string]string{"b": "2", "a": "1"},
		Either: either{A: &even{4}}, Pair: pair{Second: [2]byte{1, 2}, First: []byte{3}}, Tree: &node{"root", []node{{"leaf", []node{}}}},
		Anything: []any{nil, true, NewInt(5), "x"}, Raw: Raw{0x0d, 0x09}}
}

func most256() U256 {
	u, ok := U256Of(IntOf(power(256, -1)))
	if !ok {
		panic("2^256-1 must fit")
	}
	return u
}

var sampleOptions = cmp.Options{cmp.AllowUnexported(sample{}, U256{}, either{}, pair{}), cmp.FilterPath(func(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && f.Name() == "_"
}, cmp.Ignore())}

func TestTyped(t *testing.T) {
	t.Attr("requirement", "CALLDATA-8")
	want := newSample()
	b, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got, sampleOptions); diff != "" {
		t.Error(diff)
	}
	again, err := Marshal(got) // by value: nothing of it can be addressed
	if err != nil || string(again) != string(b) {
		t.Errorf("encoding it again gives %x, %v, want %x", again, err, b)
	}
	// The struct is an ordinary map.
	value, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	m := value.(map[string]any)
	for key, want := range map[string]any{"octets": []any{NewInt(1), NewInt(255)}, "key": []byte{1, 2, 3, 4}, "warm": "-4C",
		"either": map[string]any{"a": map[string]any{"n": NewInt(4)}}, "pair": []any{[]byte{1, 2}, []byte{3}}, "raw": []any{NewInt(1)}} {
		if diff := cmp.Diff(want, m[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
}

// TestDefaults leaves out every field that has a default, on the way out and on
// the way in.
func TestDefaults(t *testing.T) {
	t.Attr("requirement", "CALLDATA-10")
	t.Attr("requirement", "CALLDATA-19")
	want := newSample()
	want.Name, want.Count, want.Warm, want.Late, want.Labels = "anna", 20, 37, nil, map[string]string{}
	want.Tree.Children[0].Children = nil
	b, err := AppendSparse(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	value, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	m := value.(map[string]any)
	for _, absent := range []string{"name", "count", "warm", "late", "labels"} {
		if _, ok := m[absent]; ok {
			t.Errorf("%s holds its default and was written", absent)
		}
	}
	for _, present := range []string{"code", "pages", "token", "raw", "bool"} {
		if _, ok := m[present]; !ok {
			t.Errorf("%s has no default and was left out", present)
		}
	}
	got := sample{Name: "stale", Count: 9, Warm: 9, Labels: map[string]string{"stale": ""}}
	if err := Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want.Labels = nil
	if diff := cmp.Diff(want, &got, sampleOptions); diff != "" {
		t.Error(diff)
	}
	// A value beside the default is written.
	want.Count = 21
	b, _ = AppendSparse(nil, want)
	if err := Unmarshal(b, &got); err != nil || got.Count != 21 {
		t.Errorf("count is %d, %v, want 21", got.Count, err)
	}
}

// TestRefused changes one entry of a good value and says how it is refused.
func TestRefused(t *testing.T) {
	t.Attr("requirement", "CALLDATA-9")
	t.Attr("requirement", "CALLDATA-10")
	t.Attr("requirement", "CALLDATA-13")
	t.Attr("requirement", "CALLDATA-16")
	t.Attr("requirement", "CALLDATA-17")
	type absent struct{}
	a := map[string]any{"n": 4}
	for _, tc := range []struct {
		key   string
		value any
		want  string
	}{
		{"bool", absent{}, "bool at byte 0: missing field"},
		{"token", absent{}, "token at byte 0: missing field"},
		{"code", absent{}, "code at byte 0: missing field"},
		{"pages", absent{}, "pages at byte 0: missing field"},
		{"zebra", 1, "zebra at byte *: unknown field"},
		{"not\nplain", 1, `"not\nplain" at byte *: unknown field`},
		{strings.Repeat("y", 100), 1, `"` + strings.Repeat("y", 64) + `…" at byte *: unknown field`},
		{"bool", 1, "bool at byte *: unexpected kind: want boolean, have integer"},
		{"bool", nil, "bool at byte *: unexpected kind: want boolean, have null"},
		{"i8", 128, "i8 at byte *: out of range: want an integer of 8 bits with sign"},
		{"i8", -129, "i8 at byte *: out of range: want an integer of 8 bits with sign"},
		{"i64", uint64(1) << 63, "i64 at byte *: out of range: want an integer from -9223372036854775808 to 9223372036854775807"},
		{"i64", negative(power(63, 1)), "i64 at byte *: out of range: want an integer from -9223372036854775808 to 9223372036854775807"},
		{"u8", 256, "u8 at byte *: out of range: want an integer from 0 to 255"},
		{"u32", int64(1) << 32, "u32 at byte *: out of range: want an integer from 0 to 4294967295"},
		{"u64", power(64, 0), "u64 at byte *: out of range: want an integer from 0 to 18446744073709551615"},
		{"u64", -1, "u64 at byte *: out of range: want an integer from 0 to 18446744073709551615"},
		{"wide", power(256, 0), "wide at byte *: out of range: want an integer from 0 to 2^256-1"},
		{"wide", power(2000, 0), "wide at byte *: out of range: want an integer from 0 to 2^256-1"},
		{"wide", -1, "wide at byte *: out of range: want an integer from 0 to 2^256-1"},
		{"int", "5", "int at byte *: unexpected kind: want integer, have string"},
		{"colour", "blue", `colour at byte *: unknown variant: want one of ["red" "green"]`},
		{"colour", "Red", `colour at byte *: unknown variant: want one of ["red" "green"]`},
		{"warm", "hot", "warm at byte *: unreadable text: want degrees"},
		{"bytes", []any{1}, "bytes at byte *: unexpected kind: want bytes, have array"},
		{"bytes", "text", "bytes at byte *: unexpected kind: want bytes, have string"},
		{"bytes", Address{}, "bytes at byte *: unexpected kind: want bytes, have address"},
		{"bytes", nil, "bytes at byte *: unexpected kind: want bytes, have null"},
		{"address", make([]byte, 20), "address at byte *: unexpected kind: want address, have bytes"},
		{"key", []byte{1, 2, 3}, "key at byte *: out of range: want 4 bytes, have 3"},
		{"octets", []byte{1}, "octets at byte *: unexpected kind: want array, have bytes"},
		{"octets", []any{1, 256}, "octets[1] at byte *: out of range: want an integer from 0 to 255"},
		{"labels", map[string]any{"k": 1}, "labels.k at byte *: unexpected kind: want string, have integer"},
		{"either", map[string]any{}, "either at byte *: wrong number of elements: want 1 key, have 0"},
		{"either", map[string]any{"a": a, "b": "x"}, "either at byte *: wrong number of elements: want 1 key, have 2"},
		{"either", map[string]any{"c": 1}, "either.c at byte *: unknown variant"},
		{"either", map[string]any{"a": nil}, "either.a at byte *: unexpected kind: have null"},
		{"either", map[string]any{"a": map[string]any{"n": 3}}, "either.a at byte *: unreadable text: odd"},
		{"either", "a", "either at byte *: unexpected kind: want map, have string"},
		{"pair", []any{[]byte{1, 2}}, "pair at byte *: wrong number of elements: want 2 elements, have 1"},
		{"pair", []any{[]byte{1, 2}, "x"}, "pair[1] at byte *: unexpected kind: want bytes, have string"},
		{"tree", map[string]any{"name": "r", "children": []any{map[string]any{"name": 1}}}, "tree.children[0].name at byte *: unexpected kind: want string, have integer"},
	} {
		b, err := Marshal(newSample())
		if err != nil {
			t.Fatal(err)
		}
		good, _ := Decode(b)
		m := good.(map[string]any)
		m[tc.key] = tc.value
		if tc.value == (any)(absent{}) {
			delete(m, tc.key)
		}
		if b, err = Marshal(m); err != nil {
			t.Fatal(err)
		}
		err = Unmarshal(b, new(sample))
		if err == nil || !matches(err.Error(), "calldata: "+tc.want) {
			t.Errorf("%s: %v\nwant: calldata: %s", tc.key, err, tc.want)
		}
	}
}

// matches compares a text with a pattern in which * stands for digits.
func matches(text, pattern string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return text == pattern
	}
	rest, ok := strings.CutPrefix(text, before)
	return ok && strings.TrimLeft(rest, "0123456789") == after
}

// TestUnencodable gives values that have no encoding.
func TestUnencodable(t *testing.T) {
	t.Attr("requirement", "CALLDATA-8")
	b := "x"
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"\xff", "calldata: text is not UTF-8"},
		{map[string]any{"\xff": 1}, "calldata: text is not UTF-8: in a key"},
		{[]any{1, map[string]any{"k": "\xff"}}, "calldata: [1].k: text is not UTF-8"},
		{colour("blue"), `calldata: unknown variant: want one of ["red" "green"]`},
		{either{}, "calldata: wrong number of elements: no variant is set, want one"},
		{either{A: &even{}, B: &b}, "calldata: wrong number of elements: a and b are set, want one"},
		{[]even{{2}, {3}}, "calldata: [1]: unreadable text: odd"},
		{Raw{0x80, 0}, "calldata: number is not minimal: the last octet is zero"},
		{Raw{0, 0}, "calldata: bytes after the value: 1 octets"},
		{[]any{Raw(strings.Repeat("\x0d", 126) + "\x05")}, ""},
		{[]any{Raw(strings.Repeat("\x0d", 128) + "\x00")}, "calldata: [0]" + strings.Repeat("[0]", 127) + ": nested too deep: at most 128 containers nest"},
	} {
		_, err := Marshal(tc.value)
		if got := fmt.Sprint(err); err != nil && got != tc.want || (err == nil) != (tc.want == "") {
			t.Errorf("Marshal(%.60q): %v, want %s", fmt.Sprint(tc.value), err, tc.want)
		}
	}
}

// TestIgnoreUnknown passes over keys that a struct does not have, and checks
// their values all the same.
func TestIgnoreUnknown(t *testing.T) {
	t.Attr("requirement", "CALLDATA-20")
	type small struct {
		N uint8 `calldata:"n"`
	}
	lenient := Options{IgnoreUnknown: true}
	for _, tc := range []struct {
		hex string
		ok  bool
	}{
		{"0e016e09", true},
		{"1e" + "01610d05" + "016e09" + "017a0e0000", true},
		{"16" + "016107" + "016e09", false},   // a reserved tag under the unknown key
		{"16" + "01610cff" + "016e09", false}, // text that is not UTF-8
		{"16" + "01618000" + "016e09", false}, // a number that is not minimal
		{"16" + "016e09" + "016100", false},   // keys in the wrong order
		{"0e016100", false},                   // n is missing
	} {
		var s small
		err := lenient.Unmarshal(unhex(tc.hex), &s)
		if (err == nil) != tc.ok || (tc.ok && s.N != 1) {
			t.Errorf("%s: %v, %+v", tc.hex, err, s)
		}
	}
	if err := Unmarshal(unhex("160161"+"00"+"016e09"), new(small)); err == nil {
		t.Error("an unknown key passed without the option")
	}
}

// TestOwnership says who owns decoded bytes.
func TestOwnership(t *testing.T) {
	t.Attr("requirement", "CALLDATA-8")
	type held struct {
		Bytes []byte `calldata:"b"`
		Raw   Raw    `calldata:"r"`
	}
	for _, alias := range []bool{false, true} {
		input := unhex("1601620b0701720c61")
		var h held
		if err := (Options{Alias: alias}).Unmarshal(input, &h); err != nil {
			t.Fatal(err)
		}
		for i := range input {
			input[i] = 0xee
		}
		if shared := h.Bytes[0] == 0xee && h.Raw[1] == 0xee; shared != alias {
			t.Errorf("alias %t: the input and the value share memory: %t", alias, shared)
		}
	}
}
