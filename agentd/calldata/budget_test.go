package calldata

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// many is an array of n elements.
func many(n int, element string) []byte {
	var w Writer
	w.head(tagArray, uint64(n))
	return append(w.buf, strings.Repeat(element, n)...)
}

// manyEntries is a map of n entries with values of no octet.
func manyEntries(n int, value byte) []byte {
	var w Writer
	w.head(tagMap, uint64(n))
	for i := range n {
		w.buf = append(append(w.buf, 6), fmt.Sprintf("%06x", i)...)
		w.buf = append(w.buf, value)
	}
	return w.buf
}

// TestMemoryOfElements decodes values whose elements take many times their
// octets: within the allowance they pass, and beyond it they are refused before
// the memory is taken.
func TestMemoryOfElements(t *testing.T) {
	t.Attr("requirement", "CALLDATA-24")
	if size := unsafe.Sizeof(Int{}); size > 16 {
		t.Errorf("an Int has %d octets, want at most 16", size)
	}
	const large = 2 << 20
	for name, tc := range map[string]struct {
		input  []byte
		target func() any
		slack  uint64
	}{
		"integers":            {many(large, "\x01"), func() any { return new([]Int) }, Slack},
		"negative integers":   {many(large, "\x02"), func() any { return new([]Int) }, Slack},
		"bytes":               {many(large, "\x03"), func() any { return new([][]byte) }, Slack},
		"strings":             {many(large, "\x04"), func() any { return new([]string) }, Slack},
		"lists":               {many(large, "\x05"), func() any { return new([][]Int) }, Slack},
		"pointers":            {many(large, "\x01"), func() any { return new([]*[4]*U256) }, Slack},
		"entries":             {manyEntries(large/8, 4), func() any { return new(map[string]string) }, Slack},
		"any integers":        {many(large, "\x01"), func() any { return new(any) }, AnySlack},
		"any nulls":           {many(large, "\x00"), func() any { return new(any) }, AnySlack},
		"any lists":           {many(large, "\x05"), func() any { return new(any) }, AnySlack},
		"any maps":            {many(large, "\x06"), func() any { return new(any) }, AnySlack},
		"any entries":         {manyEntries(large/4, 0), func() any { return new(any) }, AnySlack},
		"integers by the way": {many(large, "\x01"), func() any { return new(sharing) }, Slack},
	} {
		var err error
		got := allocated(func() { err = Unmarshal(tc.input, tc.target()) })
		var e *Error
		if !errors.As(err, &e) || e.Fault != TooLarge {
			t.Errorf("%s: %v, want too large", name, err)
		}
		// A slice that grows copies a part of itself, and so does a map.
		if most := 2 * (allowance(tc.input, tc.slack) + uint64(len(tc.input))); got > most {
			t.Errorf("%s: %d octets of input take %d, want at most %d", name, len(tc.input), got, most)
		}
	}
	for name, tc := range map[string]struct {
		input  []byte
		target any
	}{
		"integers":     {many(Slack/16, "\x01"), new([]Int)},
		"bytes":        {many(Slack/24, "\x03"), new([][]byte)},
		"long bytes":   {many(1<<18, "\xb3\x01"+strings.Repeat("x", 22)), new([][]byte)},
		"entries":      {manyEntries(10_000, 4), new(map[string]string)},
		"any integers": {many(400_000, "\x01"), new(any)},
	} {
		if err := Unmarshal(tc.input, tc.target); err != nil {
			t.Errorf("%s within the allowance: %v", name, err)
		} else if again, err := Marshal(tc.target); err != nil || !bytes.Equal(again, tc.input) {
			t.Errorf("%s: encoded again as %d octets, %v", name, len(again), err)
		}
	}
}

// sharing reads two lists by its own code: the second one is what the first one
// left.
type sharing struct{ numbers []Int }

func (s *sharing) UnmarshalCalldata(r *Reader) error { return r.Value(&s.numbers) }

func (s sharing) MarshalCalldata(w *Writer) error { return w.Value(s.numbers) }
