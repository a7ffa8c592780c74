package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultMode is the mode of a written file when none is asked for.
const DefaultMode = 0o644

// dirMode is the mode of folders made on the way.
const dirMode = 0o755

// ErrBadMode is returned by ParseMode for what is no octal file mode.
var ErrBadMode = errors.New("mode is not an octal number of at most 07777")

// ParseMode reads an octal mode, with an optional 0o or 0O and blanks around.
func ParseMode(text string) (uint32, error) {
	text = strings.TrimSpace(text)
	if len(text) > 1 && text[0] == '0' && text[1]|0x20 == 'o' {
		text = text[2:]
	}
	if text == "" || strings.Trim(text, "01234567") != "" {
		return 0, ErrBadMode
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o7777 {
		return 0, ErrBadMode
	}
	return uint32(mode), nil
}

// Destination is a file that is being written in place. Finish or Discard it.
type Destination struct {
	file *os.File
	fd   int // of file; its Fd method would make it blocking
	path string
	mode uint32
}

// Create opens path for writing, makes missing parents with mode 0755, empties
// a file that exists and applies mode before the first byte. A FIFO without a
// reader is an error, never a wait.
func Create(path string, mode uint32) (*Destination, error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// FS-5: in place, so that other names and open handles of the file see it.
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode&0o777)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open %q for writing: %w", path, err)
	}
	d := &Destination{file: os.NewFile(uintptr(fd), path), fd: fd, path: path, mode: mode}
	// FS-6: at once, so that new content is never readable under the old mode.
	if err := d.chmod(mode &^ 0o7000); err != nil {
		_ = d.file.Close()
		return nil, err
	}
	return d, nil
}

// chmod applies a mode by handle to what is a regular file: a device's mode is
// not the caller's to set by writing into it.
func (d *Destination) chmod(mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("cannot look at %q: %w", d.path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err := unix.Fchmod(d.fd, mode); err != nil {
		return fmt.Errorf("cannot set the mode of %q: %w", d.path, err)
	}
	return nil
}

// Until ends waits in writes, as into a FIFO that nobody reads, once ctx has
// ended. Call stop when writing is over.
func (d *Destination) Until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = d.file.SetWriteDeadline(time.Unix(1, 0)) })
}

// Write appends p.
func (d *Destination) Write(p []byte) (int, error) { return d.file.Write(p) }

// Finish applies the mode again, because a write clears setuid and setgid and
// another process may have changed it, and closes the file.
func (d *Destination) Finish() error {
	err := d.chmod(d.mode)
	if closing := d.file.Close(); err == nil && closing != nil {
		err = fmt.Errorf("cannot finish %q: %w", d.path, closing)
	}
	return err
}

// Discard removes what was written: a file cut short must not pass for a whole
// one. Only a regular file goes, and only where its path still names it; one
// that is reached by another name is emptied.
func (d *Destination) Discard() error {
	defer d.file.Close()
	mine, err := d.file.Stat()
	if err != nil || !mine.Mode().IsRegular() {
		return err
	}
	// Emptied first: it may have other names, and this frees the space for sure.
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return err
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(mine, now) {
		return err
	}
	return os.Remove(path)
}

// MakeFolder makes path and its missing parents, each with mode 0755 whatever
// the umask. One that exists, also behind symbolic links, is left as it is.
func MakeFolder(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("cannot make folder %q: %w", path, unix.ENOTDIR)
		}
		return nil
	}
	if up := filepath.Dir(path); up != path {
		if err := MakeFolder(up); err != nil {
			return err
		}
	}
	switch err := unix.Mkdir(path, dirMode); {
	case errors.Is(err, unix.EEXIST): // made by another meanwhile, or in the way
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return fmt.Errorf("cannot make folder %q: %w", path, unix.EEXIST)
		}
		return nil
	case err != nil:
		return fmt.Errorf("cannot make folder %q: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // replaced by another process, so no longer ours to set
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, dirMode); err != nil {
		return fmt.Errorf("cannot set the mode of %q: %w", path, err)
	}
	return nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Copy copies src into dst, claiming what it writes. It returns the error of
// src as it is, one of the claim as *FullError, and one of dst as *WriteError.
func Copy(dst io.Writer, src io.Reader, claim *Claim, buf []byte) error {
	for {
		n, rerr := fill(src, buf)
		if n > 0 {
			if err := claim.Write(uint64(n)); err != nil {
				return err
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return &WriteError{err}
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

// fill reads until buf is full or src fails, and returns src's error as it is:
// io.ReadFull would take a body that was cut for one that has ended.
func fill(src io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = src.Read(buf[n:])
		n += more
	}
	return n, err
}

// WriteError is an error of the side that is written to.
type WriteError struct{ Err error }

// Error names the failed write.
func (e *WriteError) Error() string { return "cannot write: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }
