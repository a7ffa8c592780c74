package archive

import (
	"errors"
	"fmt"
	"io"
)

// windowBytes is how much of an archive is read at once: many small members
// take one system call.
const windowBytes = 64 << 10

// window reads an archive in order through a buffer. Slices that it returns
// are good until the next call. It belongs to one goroutine.
type window struct {
	r    io.ReaderAt
	size int64

	buf  []byte
	from int64 // offset of buf
}

// bytes returns n bytes at an offset, or a *Refusal where the archive ends.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off > w.size || int64(n) > w.size-off {
		return nil, broken("archive is cut short, or has no end")
	}
	if off < w.from || off+int64(n) > w.from+int64(len(w.buf)) {
		if err := w.load(off, n); err != nil {
			return nil, err
		}
	}
	at := int(off - w.from)
	return w.buf[at : at+n : at+n], nil
}

// begins says whether the archive begins with a text, however short it is.
func (w *window) begins(with string) bool {
	b, err := w.bytes(0, len(with))
	return err == nil && string(b) == with
}

func (w *window) load(off int64, n int) error {
	length := int(min(int64(max(n, windowBytes)), w.size-off))
	if cap(w.buf) < length {
		w.buf = make([]byte, length)
	}
	w.buf, w.from = w.buf[:length], off
	if _, err := w.r.ReadAt(w.buf, off); err != nil && !errors.Is(err, io.EOF) {
		w.buf = w.buf[:0]
		return &Refusal{Kind: Broken, Reason: "cannot read the spool", Err: err}
	}
	return nil
}

// reader is the window as a stream for a second reader of the same archive.
type reader struct {
	w   *window
	off int64
}

// Read reads at most to the end of the archive.
func (r *reader) Read(p []byte) (int, error) {
	n := int(min(int64(len(p)), int64(windowBytes), r.w.size-r.off))
	if n <= 0 {
		return 0, io.EOF
	}
	b, err := r.w.bytes(r.off, n)
	if err != nil {
		return 0, err
	}
	r.off += int64(n)
	return copy(p, b), nil
}

// Seek moves within the archive or behind its end.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += r.w.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("archive: cannot seek to %d", offset)
	}
	r.off = offset
	return offset, nil
}
