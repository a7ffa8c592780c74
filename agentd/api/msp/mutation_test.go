package msp

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"

	"microvms/agentd/calldata"
)

// mutatedBytes is how much changed input TestMutations decodes; a soak asks for
// more: go test ./agentd/api/msp -run Mutations -mutated-bytes 1000000000.
var mutatedBytes = flag.Int64("mutated-bytes", 2_000_000, "bytes of changed input to decode")

// mutate changes a copy of a value in one to four places: bits, octets, cuts,
// repeats and parts of another value.
func mutate(r *rand.Rand, value, other []byte) []byte {
	out := bytes.Clone(value)
	for range 1 + r.IntN(4) {
		if len(out) == 0 {
			return append(out, byte(r.Uint32()))
		}
		at := r.IntN(len(out))
		switch r.IntN(6) {
		case 0:
			out[at] ^= 1 << r.IntN(8)
		case 1:
			out[at] = byte(r.Uint32())
		case 2:
			out = append(out[:at], out[min(len(out), at+1+r.IntN(8)):]...)
		case 3:
			out = append(out[:at], append(bytes.Clone(out[at:min(len(out), at+1+r.IntN(16))]), out[at:]...)...)
		case 4:
			from := r.IntN(len(other))
			out = append(out[:at], append(bytes.Clone(other[from:min(len(other), from+1+r.IntN(32))]), out[at:]...)...)
		case 5:
			out[at] = []byte{0, 5, 6, 7, 0x0d, 0x0e, 0x18, 0x7f, 0x80, 0xff}[r.IntN(10)]
		}
	}
	return out
}

// TestMutations decodes changed messages as any value and as every type of the
// protocol: nothing panics, and what is accepted is encoded to the same octets.
func TestMutations(t *testing.T) {
	t.Attr("requirement", "CALLDATA-8")
	var seeds [][]byte
	for _, fr := range frames {
		seeds = append(seeds, unhex(fr.hex)[HeaderBytes:])
	}
	for _, re := range reported {
		seeds = append(seeds, unhex(re.hex))
	}
	for _, v := range []any{&Request{Run: ordinary()}, &Request{Run: smallest()}, smallest().ExecutionData()} {
		b, err := calldata.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	r := rand.New(rand.NewPCG(5, 7))
	var decoded int64
	accepted, refused := 0, map[calldata.Fault]int{}
	for decoded < *mutatedBytes {
		input := mutate(r, seeds[r.IntN(len(seeds))], seeds[r.IntN(len(seeds))])
		value, err := calldata.Decode(input)
		decoded += int64(len(input))
		if err != nil {
			refused[err.(*calldata.Error).Fault]++ //nolint:errorlint // documented as the dynamic type; another is a panic
			if typed(t, input) {
				t.Fatalf("%x is no value, and a type of the protocol accepts it", input)
			}
			continue
		}
		accepted++
		typed(t, input)
		if again, err := calldata.Marshal(value); err != nil || !bytes.Equal(again, input) {
			t.Fatalf("%x is encoded again as %x, %v", input, again, err)
		}
	}
	for f := calldata.Truncated; f <= calldata.Trailing; f++ {
		// Lengths beyond 32 bits and deep nesting do not come about by a few changes.
		if refused[f] == 0 && f != calldata.TooLarge && f != calldata.TooDeep {
			t.Errorf("no input was refused for: %v", f)
		}
	}
	if accepted == 0 {
		t.Error("no changed input was accepted, so nothing was compared")
	}
	t.Logf("%d bytes, %d values accepted, refused: %v", decoded, accepted, refused)
}

// typed decodes the input as every payload and reports whether one accepts it.
func typed(t *testing.T, input []byte) bool {
	accepted := false
	for _, v := range []any{new(Request), new(AttachReply), new(Event), new(ExecutionData), new(ReportedResult), new(ArtifactReply), new(Error)} {
		if calldata.Unmarshal(input, v) != nil {
			continue
		}
		accepted = true
		if _, err := calldata.Marshal(v); err != nil {
			t.Fatalf("%T was read from %x and cannot be written: %v", v, input, err)
		}
	}
	return accepted
}
