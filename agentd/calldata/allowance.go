package calldata

import "reflect"

// What decoding may take for elements, entries and pointers, in octets: PerOctet
// for each of the input, and Slack, or AnySlack for a value without a type. What
// strings and bytes hold comes on top, and is never more than the input.
const (
	PerOctet = 2
	Slack    = 1 << 20
	AnySlack = 16 << 20
)

func allowance(data []byte, slack uint64) uint64 { return PerOctet*uint64(len(data)) + slack }

// take counts n things of size octets each, ahead of the memory for them.
//
// CALLDATA-24: an element of one octet is a word or four in memory, so without
// this one message would cost many times its length.
func (r *Reader) take(at, n int, size uintptr) error {
	cost := uint64(n) * uint64(size)
	if cost > r.left {
		return r.fault(at, TooLarge, "the elements take more memory than %d octets for each of the value's", PerOctet)
	}
	r.left -= cost
	return nil
}

// entryBytes is about what an entry takes in a map that is filled in half.
func entryBytes(t reflect.Type) uintptr { return 2*(t.Key().Size()+t.Elem().Size()) + wordBytes }

const wordBytes = 8

// growth is by what a slice that is full grows: little is copied, and what is
// left over is small beside the rest.
const growth = 4

// grown is a full slice with more room, for at most n elements. Grow of the
// library would round that up.
func grown(v reflect.Value, n int) reflect.Value {
	more := reflect.MakeSlice(v.Type(), v.Len(), min(n, growth*v.Len()))
	reflect.Copy(more, v)
	return more
}
