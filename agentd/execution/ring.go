package execution

// Stream is one of a command's two outputs.
type Stream uint8

// The two streams.
const (
	Stdout Stream = iota
	Stderr
)

// String is the wire word.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// segmentStderr marks a segment of stderr; the other bits are its length.
const segmentStderr = 1 << 31

// ring keeps the newest bytes of both streams together, in arrival order,
// under absolute offsets. It grows on demand up to limit and is guarded by its
// exec's lock.
//
// The bytes are one circular buffer; which stream they came from is a list of
// segments, four bytes each, so that even one-byte writes to both streams in
// turn cost a small multiple of the window.
type ring struct {
	limit int    // most bytes kept
	unit  int    // most bytes of one segment
	buf   []byte // circular; len(buf) is the present capacity
	head  int    // index in buf of the oldest byte
	n     int    // bytes held
	total uint64 // bytes ever published; the ring holds [total-n, total)

	segs     []uint32 // segs[segHead:] are live, oldest first
	segHead  int
	segFirst uint64 // serial number of segs[segHead]
}

// start is the offset of the oldest byte held.
func (r *ring) start() uint64 { return r.total - uint64(r.n) }

// publish appends p and drops the oldest bytes that no longer fit, splitting
// the oldest segment (wire facts, section 7.3).
func (r *ring) publish(s Stream, p []byte) {
	r.total += uint64(len(p)) // OUT-4: one offset space, in arrival order
	if len(p) >= r.limit {
		r.clear()
		p = p[len(p)-r.limit:]
	} else if over := r.n + len(p) - r.limit; over > 0 {
		r.drop(over) // OUT-10: the oldest bytes go
	}
	if len(p) == 0 {
		return
	}
	r.grow(r.n + len(p))
	at := r.head + r.n
	if at >= len(r.buf) {
		at -= len(r.buf)
	}
	k := copy(r.buf[at:], p)
	copy(r.buf, p[k:])
	r.n += len(p)
	r.label(s, len(p))
}

// label adds n bytes of s to the segments, filling the newest one first.
func (r *ring) label(s Stream, n int) {
	var mark uint32
	if s == Stderr {
		mark = segmentStderr
	}
	if last := len(r.segs) - 1; last >= r.segHead && r.segs[last]&segmentStderr == mark {
		k := min(r.unit-int(r.segs[last]&^segmentStderr), n)
		r.segs[last] += uint32(k)
		n -= k
	}
	for n > 0 {
		k := min(r.unit, n)
		r.segs = append(r.segs, mark|uint32(k))
		n -= k
	}
}

// drop forgets the oldest n bytes; n is less than r.n or equal to it.
func (r *ring) drop(n int) {
	r.n -= n
	if len(r.buf) > 0 {
		r.head = (r.head + n) % len(r.buf)
	}
	for n > 0 {
		size := int(r.segs[r.segHead] &^ segmentStderr)
		if size > n {
			r.segs[r.segHead] -= uint32(n)
			break
		}
		n -= size
		r.segHead++
		r.segFirst++
	}
	r.compact()
}

// clear forgets every byte.
func (r *ring) clear() {
	r.segFirst += uint64(len(r.segs) - r.segHead)
	r.segs, r.segHead = r.segs[:0], 0
	r.head, r.n = 0, 0
}

// compact moves the live segments to the front once half the list is dead, so
// that the list's size follows the window's.
func (r *ring) compact() {
	if r.segHead < 32 || r.segHead*2 < len(r.segs) {
		return
	}
	k := copy(r.segs, r.segs[r.segHead:])
	r.segs, r.segHead = r.segs[:k], 0
}

// grow makes room for need bytes, at least doubling, never above limit.
func (r *ring) grow(need int) {
	if need <= len(r.buf) {
		return
	}
	buf := make([]byte, min(max(need, 2*len(r.buf), 512), r.limit))
	k := copy(buf, r.buf[r.head:min(r.head+r.n, len(r.buf))])
	copy(buf[k:], r.buf[:r.n-k])
	r.buf, r.head = buf, 0
}

// place is a position among the segments: the segment that holds a cursor. A
// place is found again in constant time however much was published since.
type place struct {
	seg uint64 // serial number of the segment
	off uint64 // offset of its first byte, when it was visited
	set bool
}

// find returns the place of the segment that holds offset, starting from a
// hint. offset lies in [start, total).
func (r *ring) find(offset uint64, hint place) place {
	p := place{seg: r.segFirst, off: r.start(), set: true}
	// A hint into the oldest segment is stale when that was split since.
	if hint.set && hint.seg > r.segFirst && hint.off <= offset {
		p = hint
	}
	for {
		size := uint64(r.segs[r.segHead+int(p.seg-r.segFirst)] &^ segmentStderr)
		if offset < p.off+size {
			return p
		}
		p.off += size
		p.seg++
	}
}

// read copies the bytes from offset to the end of its segment into dst, and
// says which stream they are of. dst holds at least unit bytes.
func (r *ring) read(dst []byte, offset uint64, p place) (n int, s Stream) {
	seg := r.segs[r.segHead+int(p.seg-r.segFirst)]
	if seg&segmentStderr != 0 {
		s = Stderr
	}
	n = int(p.off + uint64(seg&^segmentStderr) - offset)
	at := r.head + int(offset-r.start())
	if at >= len(r.buf) {
		at -= len(r.buf)
	}
	k := copy(dst[:n], r.buf[at:])
	copy(dst[k:n], r.buf)
	return n, s
}
