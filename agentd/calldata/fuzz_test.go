package calldata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// FuzzDecode holds the law of a canonical encoding: whatever is accepted is
// encoded to the same octets again, and every way of reading accepts the same.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(v.hex))
	}
	for _, m := range malformed {
		if len(m.hex) < 1000 {
			f.Add(unhex(m.hex))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		value, err := Decode(input)
		if valid := Valid(input); (valid == nil) != (err == nil) {
			t.Fatalf("Decode: %v, Valid: %v", err, valid)
		}
		var raw Raw
		if kept := Unmarshal(input, &raw); (kept == nil) != (err == nil) {
			t.Fatalf("Decode: %v, Raw: %v", err, kept)
		}
		if err != nil {
			return
		}
		again, err := Marshal(value)
		if err != nil || string(again) != string(input) {
			t.Fatalf("%x is encoded again as %x, %v", input, again, err)
		}
		if again, err = Marshal(raw); err != nil || string(again) != string(input) {
			t.Fatalf("%x is kept as %x, %v", input, again, err)
		}
	})
}

// FuzzTyped is FuzzDecode for a struct with a field of each shape.
func FuzzTyped(f *testing.F) {
	whole, err := Marshal(newSample())
	if err != nil {
		f.Fatal(err)
	}
	sparse, err := AppendSparse(nil, newSample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(sparse)
	f.Fuzz(func(t *testing.T, input []byte) {
		var s sample
		if err := Unmarshal(input, &s); err != nil {
			return
		}
		if err := Valid(input); err != nil {
			t.Fatalf("a struct was read from what is no value: %v", err)
		}
		full, err := Marshal(&s)
		if err != nil {
			t.Fatalf("a struct that was read cannot be written: %v", err)
		}
		brief, err := AppendSparse(nil, &s)
		if err != nil {
			t.Fatalf("a struct that was read cannot be written: %v", err)
		}
		// Between the two stands every input: fields may be left out where a default holds.
		if len(full) < len(input) || len(brief) > len(input) {
			t.Fatalf("%x is encoded again as %x or %x", input, full, brief)
		}
		if len(full) == len(input) && string(full) != string(input) {
			t.Fatalf("%x is encoded again as %x", input, full)
		}
		for _, b := range [][]byte{full, brief} {
			var again sample
			if err := Unmarshal(b, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, again, sampleOptions, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// values draws any value that Decode can give.
func values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.SliceOfN(rapid.Byte(), 0, 40).AsAny(),
		rapid.Map(bigInts(), IntOf).AsAny(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 20, 20), func(b []byte) Address { return Address(b) }).AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) })
	return rapid.OneOf(append(leaves, rapid.SliceOfN(inner, 0, 5).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 5).AsAny())...)
}

// TestRoundTrip draws values: encoding is one to one, and a cut is never a value.
func TestRoundTrip(t *testing.T) {
	t.Attr("requirement", "CALLDATA-8")
	rapid.Check(t, func(t *rapid.T) {
		want := values(4).Draw(t, "value")
		b, err := Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
		if n := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); Valid(b[:n]) == nil {
			t.Fatalf("the first %d octets of %x are a value, too", n, b)
		}
		other := values(4).Draw(t, "other")
		c, err := Marshal(other)
		if err != nil {
			t.Fatal(err)
		}
		if (string(b) == string(c)) != cmp.Equal(want, other) {
			t.Fatalf("%v and %v: equal octets %t", want, other, string(b) == string(c))
		}
	})
}

func TestFromJSON(t *testing.T) {
	t.Attr("requirement", "CALLDATA-22")
	for _, tc := range []struct {
		json string
		want any
	}{
		{`null`, nil}, {`true`, true}, {`"é"`, "é"}, {`[]`, []any{}}, {` {"b":1,"a":[2]} `, map[string]any{"a": []any{2}, "b": 1}},
		{`0`, 0}, {`-1`, -1}, {`18446744073709551615`, uint64(1<<64 - 1)}, {`-9223372036854775808`, int64(-1 << 63)},
		{`18446744073709551616`, nil}, {`-9223372036854775809`, nil}, {`1.0`, nil}, {`1e3`, nil}, {`0.5`, nil}, {`-0`, nil},
		{`{"a":1,"a":2}`, map[string]any{"a": 2}},
	} {
		got, err := FromJSON([]byte(tc.json))
		want, _ := Marshal(tc.want)
		if err != nil || string(got) != string(want) {
			t.Errorf("FromJSON(%s) = %x, %v, want %x", tc.json, got, err, want)
		}
	}
	for _, bad := range []string{"", "{", "1 2", "NaN", "[1,]"} {
		if got, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("FromJSON(%s) = %x, want an error", bad, got)
		}
	}
}
