package calldata

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Writer appends values. It is for [Marshaler]; what a marshaler wrote is
// checked after it. It is not safe for concurrent use.
type Writer struct {
	buf    []byte
	depth  int
	sparse bool // leave out fields that hold their default
}

func refuse(f Fault, format string, args ...any) error {
	return &Error{Fault: f, Offset: -1, Detail: fmt.Sprintf(format, args...)}
}

// Null writes null.
func (w *Writer) Null() { w.buf = append(w.buf, atomNull<<3|tagAtom) }

// Bool writes a boolean.
func (w *Writer) Bool(v bool) {
	atom := byte(atomFalse)
	if v {
		atom = atomTrue
	}
	w.buf = append(w.buf, atom<<3|tagAtom)
}

// Address writes an address.
func (w *Writer) Address(a Address) {
	w.buf = append(w.buf, atomAddress<<3|tagAtom)
	w.buf = append(w.buf, a[:]...)
}

// checkLength refuses lengths that the encoding cannot have.
func checkLength(n int) error {
	if uint64(n) > math.MaxUint32 {
		return refuse(TooLarge, "a length must fit 32 bits")
	}
	return nil
}

// Bytes writes bytes.
func (w *Writer) Bytes(b []byte) error {
	if err := checkLength(len(b)); err != nil {
		return err
	}
	w.head(tagBytes, uint64(len(b)))
	w.buf = append(w.buf, b...)
	return nil
}

// String writes a string, which must be UTF-8.
func (w *Writer) String(s string) error {
	if err := checkLength(len(s)); err != nil {
		return err
	}
	if !utf8.ValidString(s) {
		return refuse(BadUTF8, "")
	}
	w.head(tagString, uint64(len(s)))
	w.buf = append(w.buf, s...)
	return nil
}

// Array begins an array of n values, which the caller writes next; then it
// calls [Writer.Leave].
func (w *Writer) Array(n int) error { return w.enter(tagArray, n) }

// Map begins a map of n entries. The caller writes n times a key, in ascending
// order, and a value; then it calls [Writer.Leave].
func (w *Writer) Map(n int) error { return w.enter(tagMap, n) }

func (w *Writer) enter(tag byte, n int) error {
	if w.depth == MaxDepth {
		return refuse(TooDeep, "at most %d containers nest", MaxDepth)
	}
	w.depth++
	if err := checkLength(n); err != nil {
		return err
	}
	w.head(tag, uint64(n))
	return nil
}

// Leave ends an array or a map.
func (w *Writer) Leave() { w.depth-- }

// Key writes the key of an entry, which must be UTF-8.
func (w *Writer) Key(key string) error {
	if err := checkLength(len(key)); err != nil {
		return err
	}
	if !utf8.ValidString(key) {
		return refuse(BadUTF8, "in a key")
	}
	w.number(0, uint64(len(key)), 0)
	w.buf = append(w.buf, key...)
	return nil
}

// Raw writes a value that is encoded already, after a check.
func (w *Writer) Raw(raw Raw) error {
	if len(raw) == 0 {
		w.Null()
		return nil
	}
	start := len(w.buf)
	w.buf = append(w.buf, raw...)
	return w.check(start)
}

// check refuses what stands behind start unless it is exactly one value.
func (w *Writer) check(start int) error {
	r := Reader{data: w.buf[start:], depth: w.depth}
	err := r.Skip()
	if err == nil {
		err = r.End()
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // the reader's own, which is never wrapped
		e.Offset = -1
	}
	return err
}
