// Package files holds what the file routes do to single files (wire facts,
// sections 11.1 to 11.3): the disk reserve, reading whole or by lines, and
// writing in place. It knows no HTTP.
package files

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// recheckBytes is how much may be written between two looks at the free space.
const recheckBytes = 8 << 20

// stepBytes is how much a write of unknown length claims ahead.
const stepBytes = 1 << 20

// Space is the free space of one filesystem.
type Space struct {
	Available uint64 // bytes for an unprivileged writer
	Device    uint64 // tells filesystems apart
}

// Reserve keeps free space for everyone else: a write that would take it below
// Bytes is refused before it starts, since a full disk reaches this daemon last.
// Space that admitted writes have yet to take counts as taken, so that two of
// them cannot both have the last of it. It is safe for concurrent use.
type Reserve struct {
	Bytes uint64                           // 0: no reserve
	Probe func(path string) (Space, error) // of an existing path; nil: statfs

	mu       sync.Mutex
	promised map[uint64]uint64 // claimed and not yet written, by device
}

// errNoBlocks is the measurement of a filesystem that stores nothing, such as
// /proc: it has no free space to be short of.
var errNoBlocks = errors.New("the filesystem has no blocks")

// FullError says that a write would take free space below the reserve.
type FullError struct {
	Available uint64 // bytes that are free and not promised to another write
	Reserve   uint64
	Wanted    uint64 // bytes that the write still needs, 0 where that is not known
}

// Error names the byte counts.
func (e *FullError) Error() string {
	if e.Wanted == 0 {
		return fmt.Sprintf("disk reserve: %d bytes are available and %d are reserved", e.Available, e.Reserve)
	}
	return fmt.Sprintf("disk reserve: %d bytes are available, %d are reserved and the write needs %d", e.Available, e.Reserve, e.Wanted)
}

// Claim is one write's hold on free space. It belongs to one goroutine.
// Release it.
type Claim struct {
	reserve *Reserve
	path    string // existing, on the filesystem that is written to
	device  uint64
	known   bool   // the free space could be measured
	left    uint64 // promised and not yet written
	since   uint64 // written since the last look
}

// Claim holds n bytes, 0 when the length is not known, on the filesystem of the
// nearest existing ancestor of path. It fails with *FullError and then holds
// nothing.
func (r *Reserve) Claim(path string, n uint64) (*Claim, error) {
	c := &Claim{reserve: r, path: nearest(path)}
	if r.Bytes == 0 {
		return c, nil
	}
	space, err := r.probe(c.path)
	if err != nil {
		return c, nil //nolint:nilerr // FS-12: unknown is not full
	}
	c.known, c.device = true, space.Device
	if err := r.promise(c, space, n); err != nil {
		return nil, err
	}
	return c, nil
}

// promise adds n bytes to what the claim holds if the space is there.
func (r *Reserve) promise(c *Claim, space Space, n uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := space.Available - min(r.promised[c.device], space.Available)
	// FS-10: what would remain is held against the reserve, not what is there now,
	// because the write itself is what fills the disk.
	if free < r.Bytes || free-r.Bytes < n {
		return &FullError{Available: free, Reserve: r.Bytes, Wanted: n}
	}
	if r.promised == nil {
		r.promised = map[uint64]uint64{}
	}
	r.promised[c.device] += n
	c.left += n
	return nil
}

// Write must be called before n more bytes are written. It fails with
// *FullError when they would take free space below the reserve, which it
// measures again at least every 8 MiB.
func (c *Claim) Write(n uint64) error {
	if !c.known {
		return nil
	}
	if c.left < n {
		if err := c.grow(n - c.left); err != nil {
			return err
		}
	} else if c.since >= recheckBytes {
		// FS-11: others write to the same disk while this body arrives.
		if err := c.grow(0); err != nil {
			return err
		}
	}
	c.since += n
	c.left -= n
	c.reserve.mu.Lock()
	defer c.reserve.mu.Unlock()
	c.reserve.promised[c.device] -= n
	return nil
}

// grow measures again and claims at least n bytes more.
func (c *Claim) grow(n uint64) error {
	space, err := c.reserve.probe(c.path)
	if err != nil {
		return c.hold(n)
	}
	c.since = 0
	if n > 0 && n < stepBytes && c.reserve.promise(c, space, stepBytes) == nil {
		return nil
	}
	return c.reserve.promise(c, space, n)
}

// hold claims n bytes without a look: the free space cannot be measured now.
func (c *Claim) hold(n uint64) error {
	c.reserve.mu.Lock()
	defer c.reserve.mu.Unlock()
	c.reserve.promised[c.device] += n
	c.left += n
	return nil
}

// Full returns the refusal of a write that met a full disk between two looks.
func (c *Claim) Full() *FullError {
	space, _ := c.reserve.probe(c.path) // zeros where it cannot be measured
	return &FullError{Available: space.Available, Reserve: c.reserve.Bytes}
}

// Release gives back what was claimed and not written.
func (c *Claim) Release() {
	if !c.known {
		return
	}
	c.reserve.mu.Lock()
	defer c.reserve.mu.Unlock()
	c.reserve.promised[c.device] -= c.left
	if c.reserve.promised[c.device] == 0 {
		delete(c.reserve.promised, c.device)
	}
	c.left, c.known = 0, false
}

func (r *Reserve) probe(path string) (Space, error) {
	if r.Probe != nil {
		return r.Probe(path)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Space{}, err
	}
	if fs.Blocks == 0 {
		return Space{}, errNoBlocks
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Space{}, err
	}
	return Space{Available: fs.Bavail * uint64(fs.Frsize), Device: st.Dev}, nil
}

// nearest returns path or its nearest ancestor that exists.
func nearest(path string) string {
	for {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			return path
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}
