package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

// packing walks one folder.
type packing struct {
	Options
	ctx  context.Context
	tree tree
	sum  Sum
}

// visit is called for each entry: its handle's folder, its components, none for
// the root itself, and what it is.
type visit func(at int, parts []string, st *unix.Stat_t) error

// Pack writes the folder at path to spool as an uncompressed tar and returns
// its size. A first walk measures: a tree above the caps or the space is refused
// before anything is written. Symbolic links are stored, not followed; what is
// no file, folder, link, device or FIFO is left out. Errors are those of Extract.
func Pack(ctx context.Context, path string, spool *os.File, o Options) (int64, error) {
	o.withDefaults()
	root, err := openRoot(path, false, o.Openat2)
	if err != nil {
		return 0, err
	}
	p := &packing{Options: o, ctx: ctx, tree: tree{root: root, openat2: o.Openat2, resolve: ctx.Err, resolved: func(bool) {}}}
	defer p.tree.close()
	// FS-14: twice, because a tree that is refused must cost no disk.
	if err := p.walk(p.measure); err != nil {
		return 0, err
	}
	need := uint64(p.sum.Bytes) + uint64(p.sum.Members+2)*2*blockSize
	claim, err := o.Reserve.Claim(SpoolFolder(), need)
	if err != nil {
		return 0, err
	}
	defer claim.Release()
	out := bufio.NewWriterSize(&claimed{w: spool, claim: claim}, 256<<10)
	w := &writer{packing: p, tar: tar.NewWriter(out), buf: make([]byte, 256<<10)}
	if err := p.walk(w.add); err != nil {
		return 0, err
	}
	if err := errors.Join(w.tar.Close(), out.Flush()); err != nil {
		return 0, spoolError(err)
	}
	return spool.Seek(0, io.SeekCurrent)
}

func spoolError(err error) error {
	var full *files.FullError
	if errors.As(err, &full) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Refusal{Kind: Broken, Reason: "cannot write the spool", Err: err}
}

// claimed asks before it writes.
type claimed struct {
	w     io.Writer
	claim *files.Claim
}

func (c *claimed) Write(p []byte) (int, error) {
	if err := c.claim.Write(uint64(len(p))); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// measure counts an entry against the caps.
func (p *packing) measure(_ int, _ []string, st *unix.Stat_t) error {
	if p.sum.Members++; p.sum.Members > p.Limits.Members {
		return &Refusal{Kind: TooMuch, Reason: "the tree holds more members than max_tar_members"}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if st.Size > p.Limits.Bytes-p.sum.Bytes {
			return &Refusal{Kind: TooMuch, Reason: "the tree holds more bytes than max_tar_bytes"}
		}
		p.sum.Bytes += st.Size
	}
	return nil
}

// walk visits the root and everything below it, each folder before what is in
// it, in the order of names.
func (p *packing) walk(v visit) error {
	var st unix.Stat_t
	if err := unix.Fstat(p.tree.root, &st); err != nil {
		return kernel("cannot look at the root", err)
	}
	if err := v(p.tree.root, nil, &st); err != nil {
		return err
	}
	return p.below(nil, v)
}

func (p *packing) below(parts []string, v visit) error {
	names, err := p.names(parts)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		entry := append(slices.Clip(parts), name)
		at, err := p.tree.folder(parts, false)
		if err != nil {
			return about(joined(entry), err)
		}
		var st unix.Stat_t
		err = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue // gone since it was listed
		}
		if err != nil {
			return about(joined(entry), kernel("cannot look at it", err))
		}
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			continue // a tar has no sockets
		}
		if err := v(at, entry, &st); err != nil {
			return about(joined(entry), err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := p.below(entry, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// names lists a folder in order. It stops above the cap on members.
func (p *packing) names(parts []string) ([]string, error) {
	at, err := p.tree.folder(parts, false)
	if err != nil {
		return nil, about(joined(parts), err)
	}
	fd, err := p.tree.open(at, ".", unix.O_RDONLY)
	if err != nil {
		return nil, about(joined(parts), kernel("cannot read the folder", err))
	}
	f := os.NewFile(uintptr(fd), "folder")
	defer f.Close()
	names, err := f.Readdirnames(p.Limits.Members + 1)
	if err != nil && err != io.EOF {
		return nil, about(joined(parts), &Refusal{Kind: Broken, Reason: "cannot read the folder", Err: errors.Unwrap(err)})
	}
	slices.Sort(names)
	return names, nil
}

func joined(parts []string) string {
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += "/"
		}
		text += part
	}
	return text
}

// writer adds what is visited to a tar.
type writer struct {
	*packing
	tar   *tar.Writer
	buf   []byte
	index uint64
}

// add writes one member: header, then data for a regular file.
func (w *writer) add(at int, parts []string, st *unix.Stat_t) error {
	w.index++
	if err := w.pass(w.ctx, trace.ArchiveWalk, w.index); err != nil {
		return err
	}
	defer w.record(trace.ArchiveWalk, w.index)
	h := &tar.Header{
		Name: joined(parts), Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Sec, 0),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		if len(parts) == 0 {
			h.Name = "./"
		}
	case unix.S_IFLNK:
		target, err := readLink(at, parts[len(parts)-1])
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case unix.S_IFREG:
		return w.addFile(at, parts, h)
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	}
	return w.header(h)
}

func (w *writer) header(h *tar.Header) error {
	if err := w.tar.WriteHeader(h); err != nil {
		return spoolError(err)
	}
	return nil
}

func readLink(at int, name string) (string, error) {
	buf := make([]byte, 4097)
	n, err := unix.Readlinkat(at, name, buf)
	if err != nil {
		return "", kernel("cannot read the link", err)
	}
	return string(buf[:n]), nil
}

// addFile writes a regular file as it is when it is opened. One that shrinks
// meanwhile fails the download: padding would be bytes that were never there.
func (w *writer) addFile(at int, parts []string, h *tar.Header) error {
	fd, err := again(func() (int, error) {
		return w.Openat2(at, parts[len(parts)-1], &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: confined,
		})
	})
	if err != nil {
		return kernel("cannot open it", err)
	}
	f := os.NewFile(uintptr(fd), "member")
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return kernel("cannot look at it", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return broken("it was replaced while the tree was packed")
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	if err := w.header(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{w.tar}, struct{ io.Reader }{io.LimitReader(f, st.Size)}, w.buf)
	if err != nil {
		return spoolError(err)
	}
	if n < st.Size {
		return broken("it shrank while the tree was packed")
	}
	return nil
}
