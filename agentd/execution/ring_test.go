package execution

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A ring of any limit, fed any chunks, holds exactly the newest bytes, labels
// each with its stream, and gives a reader that keeps its place the same bytes
// as one that starts anew. Model: two plain slices that never forget.
func TestRingHoldsTheNewestBytes(t *testing.T) {
	t.Attr("requirement", "OUT-10")
	t.Attr("requirement", "OUT-4")
	rapid.Check(t, func(t *rapid.T) {
		r := ring{limit: rapid.IntRange(0, 70).Draw(t, "limit"), unit: rapid.IntRange(1, 20).Draw(t, "unit")}
		var all []byte
		var streams []Stream
		var hint place
		cursor := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := Stream(rapid.IntRange(0, 1).Draw(t, "stream"))
			p := rapid.SliceOfN(rapid.Byte(), 0, 90).Draw(t, "chunk")
			r.publish(s, p)
			all = append(all, p...)
			for range p {
				streams = append(streams, s)
			}
			checkRing(t, &r, all, streams)
			if rapid.Bool().Draw(t, "read") {
				cursor, hint = follow(t, &r, all, streams, cursor, hint)
			}
		}
	})
}

func checkRing(t *rapid.T, r *ring, all []byte, streams []Stream) {
	if want := uint64(len(all)); r.total != want || r.n != min(len(all), r.limit) {
		t.Fatalf("total %d, held %d; want %d, %d", r.total, r.n, want, min(len(all), r.limit))
	}
	if len(r.buf) > r.limit {
		t.Fatalf("capacity %d is above the limit %d", len(r.buf), r.limit)
	}
	for at := r.start(); at < r.total; {
		at = readOne(t, r, all, streams, at, place{})
	}
}

// readOne reads one segment and compares it with the model.
func readOne(t *rapid.T, r *ring, all []byte, streams []Stream, at uint64, hint place) uint64 {
	buf := make([]byte, r.unit)
	n, s := r.read(buf, at, r.find(at, hint))
	if n < 1 || n > r.unit || !bytes.Equal(buf[:n], all[at:at+uint64(n)]) {
		t.Fatalf("read %d bytes at %d: %q, want %q", n, at, buf[:n], all[at:min(at+uint64(r.unit), uint64(len(all)))])
	}
	for i := range n {
		if streams[at+uint64(i)] != s {
			t.Fatalf("byte %d is labelled %v", at+uint64(i), s)
		}
	}
	return at + uint64(n)
}

// follow reads a few segments as a reader does, with its hint.
func follow(t *rapid.T, r *ring, all []byte, streams []Stream, cursor uint64, hint place) (uint64, place) {
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		cursor = max(cursor, r.start())
		if cursor >= r.total {
			break
		}
		hint = r.find(cursor, hint)
		cursor = readOne(t, r, all, streams, cursor, hint)
	}
	return cursor, hint
}

// One-byte writes to both streams in turn, the worst case, cost four bytes of
// labels a byte, and the labels do not grow with the total.
func TestRingOfSingleBytesStaysSmall(t *testing.T) {
	r := ring{limit: 1 << 10, unit: DefaultReadUnit}
	for i := range 1 << 18 {
		r.publish(Stream(i%2), []byte{byte(i)})
	}
	if live := len(r.segs) - r.segHead; live != r.limit {
		t.Errorf("%d live segments, want %d", live, r.limit)
	}
	if cap(r.segs) > 8*r.limit {
		t.Errorf("room for %d segments with %d live: dead ones are not given back", cap(r.segs), r.limit)
	}
}

// The head keeps the first bytes and the tail the newest of the rest; exactly
// what fits is not truncated, one byte more is, and then the mark shows where.
func TestStoreHeadAndTail(t *testing.T) {
	t.Attr("requirement", "OUT-1")
	t.Attr("requirement", "OUT-2")
	for _, c := range []struct {
		head, tail, written int
		want                string
		truncated           bool
	}{
		{head: 4, tail: -1, written: 3, want: "abc"},
		{head: 4, tail: -1, written: 4, want: "abcd"},
		{head: 4, tail: -1, written: 5, want: "abcd|", truncated: true},
		{head: 4, tail: 3, written: 7, want: "abcdefg"},
		{head: 4, tail: 3, written: 8, want: "abcd|fgh", truncated: true},
		{head: 4, tail: 3, written: 26, want: "abcd|xyz", truncated: true},
		{head: -1, tail: 3, written: 3, want: "abc"},
		{head: -1, tail: 3, written: 26, want: "|xyz", truncated: true},
	} {
		for _, chunk := range []int{1, 2, 5, 26} {
			t.Run(fmt.Sprintf("head %d tail %d written %d by %d", c.head, c.tail, c.written, chunk), func(t *testing.T) {
				s := newStore(Capture{HeadBytes: c.head, TailBytes: c.tail}.withDefaults())
				in := []byte("abcdefghijklmnopqrstuvwxyz")[:c.written]
				for len(in) > 0 {
					k := min(chunk, len(in))
					s.publish(Stderr, in[:k])
					in = in[k:]
				}
				if got := string(s.text[Stderr].bytes([]byte("|"))); got != c.want {
					t.Errorf("text = %q, want %q", got, c.want)
				}
				if got := s.text[Stderr].truncated(); got != c.truncated {
					t.Errorf("truncated = %v, want %v", got, c.truncated)
				}
				if s.text[Stdout].truncated() || len(s.text[Stdout].bytes(nil)) != 0 {
					t.Error("the other stream is not empty")
				}
			})
		}
	}
}

// For any chunks and caps the text is the first and the newest bytes of the
// stream, computed here from the whole of it.
func TestStoreTextProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(0, 30).Draw(t, "head"), rapid.IntRange(0, 30).Draw(t, "tail")
		s := newStore(Capture{HeadBytes: orNone(head), TailBytes: orNone(tail)}.withDefaults())
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 40)).Draw(t, "chunks") {
			s.publish(Stdout, p)
			all = append(all, p...)
		}
		want := all
		if len(all) > head+tail {
			want = append(append(bytes.Clone(all[:head]), '|'), all[len(all)-tail:]...)
		}
		if got := s.text[Stdout].bytes([]byte("|")); !bytes.Equal(got, want) {
			t.Fatalf("text = %q, want %q", got, want)
		}
		if cap(s.text[Stdout].head) > max(head, 512) {
			t.Fatalf("a head of at most %d has room for %d", head, cap(s.text[Stdout].head))
		}
	})
}

func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func BenchmarkRingPublish(b *testing.B) {
	for _, size := range []int{1, 128, DefaultReadUnit} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := newStore(Capture{HeadBytes: -1}.withDefaults())
			p := []byte(strings.Repeat("x", size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				s.publish(Stdout, p)
			}
		})
	}
}

func BenchmarkRingPublishAndRead(b *testing.B) {
	s := newStore(Capture{HeadBytes: -1}.withDefaults())
	p, dst := make([]byte, DefaultReadUnit), make([]byte, DefaultReadUnit)
	var hint place
	cursor := uint64(0)
	b.SetBytes(DefaultReadUnit)
	b.ReportAllocs()
	for b.Loop() {
		s.publish(Stdout, p)
		for cursor < s.ring.total {
			hint = s.ring.find(cursor, hint)
			n, _ := s.ring.read(dst, cursor, hint)
			cursor += uint64(n)
		}
	}
}
