package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrIsFolder is returned by Open for a folder.
var ErrIsFolder = errors.New("is a folder; read it with GET /v1/fs/tar")

// Source is a file that is being read. Close it.
type Source struct {
	*os.File
	// Size is the size of a regular file that has one; -1 where the end shows
	// only in reading, as below /proc.
	Size int64
}

// Open opens path for reading. It never waits for a writer of a FIFO.
func Open(path string) (*Source, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", path, errors.Unwrap(err))
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot look at %q: %w", path, errors.Unwrap(err))
	}
	if info.IsDir() {
		_ = f.Close()
		return nil, fmt.Errorf("%q %w", path, ErrIsFolder)
	}
	s := &Source{File: f, Size: -1}
	if info.Mode().IsRegular() && info.Size() > 0 {
		s.Size = info.Size()
	}
	return s, nil
}

// Until ends waits in reads, as of an open FIFO, once ctx has ended. Call stop
// when reading is over.
func (s *Source) Until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
}

// Window is a range of lines, 1-based and inclusive. A line owns its newline;
// the last may lack one.
type Window struct {
	First uint64 // 1 or more
	Last  uint64 // First or more; ^uint64(0): to the end
}

// Whole reports whether the window is the file, byte for byte.
func (w Window) Whole() bool { return w.First <= 1 && w.Last == ^uint64(0) }

// CopyLines writes the lines of src within w to dst and stops reading when the
// window closes. Lines are cut out of buf, so that one of any length fits.
func CopyLines(dst io.Writer, src io.Reader, w Window, buf []byte) error {
	line := uint64(1) // of the next byte
	for {
		n, rerr := src.Read(buf)
		piece := buf[:n]
		piece, line = skipLines(piece, line, w.First)
		if line >= w.First && len(piece) > 0 {
			inside, after := takeLines(piece, line, w.Last)
			if len(inside) > 0 {
				if _, err := dst.Write(inside); err != nil {
					return &WriteError{err}
				}
			}
			if line = after; line > w.Last {
				return nil
			}
		}
		if rerr == io.EOF {
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}

// skipLines drops bytes of lines before first, and returns the rest with the
// line that it begins in.
func skipLines(p []byte, line, first uint64) ([]byte, uint64) {
	if line >= first {
		return p, line
	}
	if n := uint64(bytes.Count(p, newline)); line+n < first {
		return nil, line + n
	}
	for line < first {
		p = p[bytes.IndexByte(p, '\n')+1:]
		line++
	}
	return p, line
}

// takeLines returns the bytes of lines up to last and the line that follows
// them.
func takeLines(p []byte, line, last uint64) ([]byte, uint64) {
	n := uint64(bytes.Count(p, newline))
	if last-line >= n {
		return p, line + n
	}
	end := 0
	for range last - line + 1 {
		end += bytes.IndexByte(p[end:], '\n') + 1
	}
	return p[:end], last + 1
}

var newline = []byte{'\n'}
