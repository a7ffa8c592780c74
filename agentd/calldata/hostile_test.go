package calldata

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// allocated is how many bytes f takes from the heap.
func allocated(f func()) uint64 {
	f() // the plan of a type is made once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestNoMemoryForDeclaredLengths declares lengths that the input does not have,
// or whose first element is bad: what is allocated must not depend on them.
func TestNoMemoryForDeclaredLengths(t *testing.T) {
	t.Attr("requirement", "CALLDATA-4")
	t.Attr("requirement", "CALLDATA-5")
	const bound = 64 << 10
	type wide struct {
		Numbers [64]uint64 `calldata:"n"`
	}
	targets := map[string]func() any{
		"any": func() any { return new(any) }, "ints": func() any { return new([]Int) }, "pages": func() any { return new([][]byte) },
		"structs": func() any { return new([]wide) }, "map": func() any { return new(map[string]string) }, "bytes": func() any { return new([]byte) },
		"string": func() any { return new(string) }, "raw": func() any { return new(Raw) }, "int": func() any { return new(Int) },
		"array": func() any { return new([4]Int) }, "sample": func() any { return new(sample) },
	}
	inputs := map[string][]byte{}
	for _, head := range []string{"fbffffff7f", "fcffffff7f", "fdffffff7f", "feffffff7f"} {
		inputs["declared "+head] = unhex(head)
		inputs["declared in an array "+head] = append([]byte{0x0d}, unhex(head)...)
	}
	inputs["a key of 4 GiB"] = unhex("0effffffff0f")
	// One megabyte that would fit the count, and does not begin well.
	var w Writer
	w.head(tagArray, 1<<20)
	inputs["a million elements, the first bad"] = append(w.buf, strings.Repeat("\x07", 1<<20)...)
	w = Writer{}
	w.head(tagMap, 1<<19)
	inputs["half a million entries, the first bad"] = append(w.buf, strings.Repeat("\xff", 1<<20)...)
	inputs["a number without an end"] = []byte(strings.Repeat("\x81", 1<<20))
	inputs["containers without an end"] = []byte(strings.Repeat("\x0d", 1<<20))
	for what, input := range inputs {
		for name, target := range targets {
			if got := allocated(func() {
				if err := Unmarshal(input, target()); err == nil {
					t.Errorf("%s passes as %s", what, name)
				}
			}); got > bound {
				t.Errorf("%s into %s takes %d bytes, want at most %d", what, name, got, bound)
			}
		}
	}
}

// TestEveryCutIsRefused cuts good values at every octet, and changes every one.
func TestEveryCutIsRefused(t *testing.T) {
	t.Attr("requirement", "CALLDATA-7")
	t.Attr("requirement", "CALLDATA-8")
	whole, err := Marshal(newSample())
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		err := Unmarshal(whole[:n], new(sample))
		var e *Error
		if !errors.As(err, &e) || e.Fault != Truncated {
			t.Errorf("the first %d octets: %v, want an unexpected end", n, err)
		}
	}
	err = Unmarshal(append(whole, 0), new(sample))
	var e *Error
	if !errors.As(err, &e) || e.Fault != Trailing || e.Offset != len(whole) {
		t.Errorf("an octet more: %v", err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 20_000 {
		changed := append([]byte(nil), whole...)
		for range 1 + r.IntN(3) {
			changed[r.IntN(len(changed))] = byte(r.Uint32())
		}
		var s sample
		if Unmarshal(changed, &s) != nil {
			continue
		}
		accepted++
		again, err := Marshal(&s)
		if err != nil || string(again) != string(changed) {
			t.Fatalf("%s was accepted and is encoded as %x, %v", hex.EncodeToString(changed), again, err)
		}
	}
	if accepted == 0 {
		t.Error("no changed value was accepted, so nothing was compared")
	}
}

// TestErrorsHoldNoValues looks for a secret in the errors about it.
func TestErrorsHoldNoValues(t *testing.T) {
	t.Attr("requirement", "CALLDATA-16")
	const secret = "hunter2"
	for _, tc := range []struct {
		value  any
		target any
	}{
		{secret, new(uint8)}, {secret, new(colour)}, {secret, new(temperature)}, {[]byte(secret), new(string)}, {map[string]any{"a": secret}, new(either)},
		{secret + "\xff", nil},
	} {
		if tc.target == nil {
			if _, err := Marshal(tc.value); err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("Marshal: %v", err)
			}
			continue
		}
		b, err := Marshal(tc.value)
		if err != nil {
			t.Fatal(err)
		}
		if err := Unmarshal(b, tc.target); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("into %T: %v", tc.target, err)
		}
	}
}
