package archive

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SpoolFolder is where spools are: TMPDIR, or /tmp.
func SpoolFolder() string { return os.TempDir() }

// NewSpool returns an empty file in folder that no name leads to: it goes with
// its last handle, however the daemon ends. Close it.
func NewSpool(folder string) (*os.File, error) {
	fd, err := again(func() (int, error) {
		return unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	})
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("cannot make a spool in %q: %w", folder, err)
	}
	// A file system that knows no unnamed files.
	f, err := os.CreateTemp(folder, "agentd-spool-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a spool in %q: %w", folder, errors.Unwrap(err))
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot make a spool in %q: %w", folder, errors.Unwrap(err))
	}
	return f, nil
}
