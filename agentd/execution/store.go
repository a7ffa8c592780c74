package execution

// store is everything that is kept of a command's output: the head and the
// tail of each stream for the result, and the ring of both for readers. It is
// guarded by its exec's lock.
type store struct {
	cap  Capture // with defaults applied
	ring ring
	text [2]text
}

// text is what the result keeps of one stream.
type text struct {
	head  []byte
	tail  []byte // circular once it is full
	at    int    // index of the oldest byte of a full tail
	total uint64 // bytes of this stream ever published
}

func newStore(c Capture) store {
	return store{cap: c, ring: ring{limit: c.RingBytes, unit: c.ReadUnit}}
}

// publish enters p, which the store copies.
func (s *store) publish(stream Stream, p []byte) {
	s.ring.publish(stream, p)
	t := &s.text[stream]
	t.total += uint64(len(p))
	if room := s.cap.HeadBytes - len(t.head); room > 0 { // OUT-1: the first bytes, whatever follows
		k := min(room, len(p))
		t.head = appendWithin(t.head, p[:k], s.cap.HeadBytes)
		p = p[k:]
	}
	t.keepTail(p, s.cap.TailBytes)
}

// appendWithin appends like append, but never gives the slice more capacity
// than limit, so that a head at its cap costs its cap.
func appendWithin(dst, p []byte, limit int) []byte {
	need := len(dst) + len(p)
	if need > cap(dst) {
		grown := make([]byte, len(dst), min(max(need, 2*cap(dst), 512), limit))
		copy(grown, dst)
		dst = grown
	}
	return append(dst, p...)
}

// keepTail keeps the newest limit bytes.
func (t *text) keepTail(p []byte, limit int) {
	if limit == 0 || len(p) == 0 {
		return
	}
	if len(p) >= limit {
		t.tail = append(t.tail[:0], p[len(p)-limit:]...)
		t.at = 0
		return
	}
	if room := limit - len(t.tail); room > 0 {
		k := min(room, len(p))
		t.tail = appendWithin(t.tail, p[:k], limit)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(t.tail[t.at:], p)
		p = p[k:]
		t.at = (t.at + k) % len(t.tail)
	}
}

// truncated says whether a byte of the stream is missing from the result.
// Exactly the cap is not truncated (wire facts, section 7.2).
func (t *text) truncated() bool {
	return t.total > uint64(len(t.head)+len(t.tail)) // OUT-2: exactly the cap is whole
}

// missing counts the bytes of the stream that the result does not hold.
func (t *text) missing() uint64 { return t.total - uint64(len(t.head)+len(t.tail)) }

// bytes is the result's text of the stream: the head, the mark where bytes are
// missing, the tail. Without a tail it is the head itself, not a copy.
func (t *text) bytes(mark []byte) []byte {
	if len(t.tail) == 0 && (!t.truncated() || len(mark) == 0) {
		return t.head
	}
	out := make([]byte, 0, len(t.head)+len(mark)+len(t.tail))
	out = append(out, t.head...)
	if t.truncated() {
		out = append(out, mark...)
	}
	out = append(out, t.tail[t.at:]...)
	return append(out, t.tail[:t.at]...)
}

// release lets go of what the result held; the ring stays.
func (s *store) release() {
	for i := range s.text {
		s.text[i].head, s.text[i].tail = nil, nil
	}
}
