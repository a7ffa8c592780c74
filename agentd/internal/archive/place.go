package archive

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// replace makes an entry after the one of its name is gone. The old entry is
// removed, never opened: other names of its inode keep their bytes and mode, and
// a link is not written through (FS-19). A folder in the way is an error.
func replace(at int, name string, create func() error) error {
	for range maxRaces {
		err := ignoringEINTR(create)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return kernel("cannot make it", err)
		}
		err = ignoringEINTR(func() error { return unix.Unlinkat(at, name, 0) })
		if errors.Is(err, unix.EISDIR) {
			return &Refusal{Kind: Broken, Reason: "a folder is in the way", Err: err}
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return kernel("cannot remove the old entry", err)
		}
	}
	return broken("another process makes an entry of this name again and again")
}

// placeFolder makes a folder, or takes the one that is there, and remembers its
// mode for the end.
func (e *extraction) placeFolder(at int, parts []string, m *Member) error {
	err := ignoringEINTR(func() error { return unix.Mkdirat(at, parts[len(parts)-1], 0o755) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return kernel("cannot make folder", err)
	}
	// Entered at once: members in it are likely to follow, and an entry of this
	// name that is no folder is refused here.
	if _, err := e.tree.folder(parts, false); err != nil {
		return err
	}
	e.modes = append(e.modes, deferred{offset: m.Offset, index: m.Index, depth: int32(len(parts)), mode: uint32(m.Mode) & modeMask})
	return nil
}

// placeFile makes a regular file with the member's bytes and its mode.
func (e *extraction) placeFile(at int, name string, m *Member) error {
	fd := -1
	err := replace(at, name, func() (err error) {
		fd, err = unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = e.fill(fd, m); err == nil {
		// FS-20: by handle and masked; nothing writes to this file any more.
		if err = unix.Fchmod(fd, uint32(m.Mode)&modeMask); err == nil {
			return nil
		}
		err = kernel("cannot set its mode", err)
	}
	// Half a file must not pass for a whole one. The name is removed only while
	// it is still this file's.
	var mine, now unix.Stat_t
	if unix.Fstat(fd, &mine) == nil && unix.Fstatat(at, name, &now, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		mine.Ino == now.Ino && mine.Dev == now.Dev {
		_ = unix.Unlinkat(at, name, 0) // the error that matters is the first
	}
	return err
}

// fill copies the member's bytes from the spool to fd.
func (e *extraction) fill(fd int, m *Member) error {
	for done := int64(0); done < m.Size; {
		piece, err := e.read(m.Data+done, m.Size-done)
		if err != nil {
			return err
		}
		if err := e.claim.Write(uint64(len(piece))); err != nil {
			return err
		}
		done += int64(len(piece))
		for len(piece) > 0 {
			n, err := unix.Write(fd, piece)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				return e.claim.Full() // it filled up between two looks
			}
			if err != nil {
				return kernel("cannot write it", err)
			}
			piece = piece[n:]
		}
	}
	return nil
}

// read returns up to n bytes of the spool. Small members are in the scanner's
// window already.
func (e *extraction) read(off, n int64) ([]byte, error) {
	if n <= windowBytes/2 {
		return e.scan.src.bytes(off, int(n))
	}
	buf := e.buf[:min(n, int64(len(e.buf)))]
	if got, err := e.spool.ReadAt(buf, off); got < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, broken("the spool is cut short")
		}
		return nil, &Refusal{Kind: Broken, Reason: "cannot read the spool", Err: err}
	}
	return buf, nil
}

// placeLink makes a hard link. Its source is opened without following anything
// and linked by that handle, so it is the file that was looked at.
func (e *extraction) placeLink(parts []string, m *Member) error {
	source, bad := judgeLink(nil, m.Link)
	if bad != nil {
		return bad
	}
	if len(source) == 0 {
		return &Refusal{Kind: Unsafe, Reason: "hard link to the root"}
	}
	at, err := e.tree.folder(source[:len(source)-1], false)
	if err != nil {
		return err
	}
	src, err := again(func() (int, error) {
		return e.Openat2(at, source[len(source)-1], &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: confined,
		})
	})
	if err != nil {
		return kernel("cannot open the source of the link", err)
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return kernel("cannot look at the source of the link", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		// FS-23: a second name for a symbolic link would give its target another
		// base, outside the root perhaps.
		return &Refusal{Kind: Unsafe, Reason: "hard link to what is no regular file"}
	}
	if at, err = e.tree.folder(parts[:len(parts)-1], false); err != nil {
		return err
	}
	last := parts[len(parts)-1]
	var there unix.Stat_t
	if unix.Fstatat(at, last, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && there.Ino == st.Ino && there.Dev == st.Dev {
		return nil // the same file already; to replace it could remove its last name
	}
	return replace(at, last, func() error { return linkHandle(src, at, last) })
}

// linkHandle gives the inode of a handle one more name.
func linkHandle(src, at int, name string) error {
	err := unix.Linkat(src, "", at, name, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) { // without CAP_DAC_READ_SEARCH
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", src), at, name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}
