package folder

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// openNonblock keeps an open from waiting for the other end of a named pipe.
const openNonblock = syscall.O_NONBLOCK

// Sum is what an archive brought.
type Sum struct {
	Files int   // regular files, placed
	Bytes int64 // their content
}

// MemberError says what is wrong with one member of an archive, or with the
// place where it was to go.
type MemberError struct {
	Name string // as the archive has it
	Err  error
}

// Error names the member.
func (e *MemberError) Error() string { return fmt.Sprintf("archive member %q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *MemberError) Unwrap() error { return e.Err }

// Reasons of a [*MemberError].
var (
	// ErrOutside is for a name that leaves the folder, or a hard link to one.
	ErrOutside = errors.New("it leads out of the folder")
	// ErrThroughLink is for a name that goes through a symbolic link.
	ErrThroughLink = errors.New("a symbolic link is on its way")
	// ErrSparse is for a file whose archive names more content than it holds.
	ErrSparse = errors.New("it is a sparse file, which can claim any size")
	// ErrInTheWay is for a folder that stands where no folder is to go, or the
	// reverse.
	ErrInTheWay = errors.New("something of another kind stands in its place")
)

// ErrTruncated is for an archive without its two blocks of zeros at the end.
var ErrTruncated = errors.New("the archive breaks off")

// Unpack extracts src below dir, and makes dir when it is missing. A file or link
// in the way of a member is replaced, a folder is filled. Modes are kept but for
// setuid, setgid and sticky; a folder that was there keeps its own. Owners and
// times are not kept.
//
// Left out, and reported through skip with a reason, are devices, named pipes
// and symbolic links that lead out of dir. A member whose name leaves dir, or goes
// through a symbolic link, is a [*MemberError], and ends the extraction: what was
// placed before it stays. A src that breaks off is [ErrTruncated] or its own error.
func Unpack(dir string, src io.Reader, out Excludes, skip func(name, why string)) (Sum, error) {
	u := &unpacking{src: &meter{src: src}, out: out, skip: skip, known: map[string]bool{}, modes: map[string]fs.FileMode{}}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Sum{}, err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		u.modes["."] = 0o755
	case !errors.Is(err, fs.ErrExist):
		return Sum{}, err
	}
	var err error
	if u.root, err = os.OpenRoot(dir); err != nil {
		return Sum{}, err
	}
	defer u.root.Close()
	u.tar = tar.NewReader(u.src)
	if err := u.all(); err != nil {
		return u.sum, err
	}
	return u.sum, u.setModes()
}

// all places every member.
func (u *unpacking) all() error {
	for {
		before := u.src.read
		h, err := u.tar.Next()
		if err == io.EOF {
			// The last member was read to its end: what was read since is less than
			// one block of padding, and the two blocks of zeros.
			if u.src.read-before < 2*512 {
				return ErrTruncated
			}
			return nil
		}
		if err != nil {
			return u.archiveError(err)
		}
		if err = u.member(h); err == nil {
			_, err = io.Copy(io.Discard, u.tar)
		}
		switch {
		case err == nil:
		case u.src.err != nil, errors.Is(err, io.ErrUnexpectedEOF):
			return u.archiveError(err)
		default:
			return &MemberError{h.Name, err}
		}
	}
}

// meter counts what is read, and keeps the error of the source: the tar reader
// may wrap or replace it.
type meter struct {
	src  io.Reader
	read int64
	err  error
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	m.read += int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// archiveError tells a source that failed from an archive that broke off, and
// both from what is no archive.
func (u *unpacking) archiveError(err error) error {
	switch {
	case u.src.err != nil:
		return u.src.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("not a tar archive: %w", err)
	}
	return err
}

// unpacking is one extraction.
type unpacking struct {
	root *os.Root
	src  *meter
	tar  *tar.Reader
	out  Excludes
	skip func(name, why string)
	sum  Sum

	known map[string]bool        // to be folders, and no links
	modes map[string]fs.FileMode // of the folders that were made

	cleared func() // of a test: called before a file is made; nil: nothing
}

func (u *unpacking) member(h *tar.Header) error {
	// Judged as it is written: "a/../../b" must not become "b".
	if path.IsAbs(h.Name) || !filepath.IsLocal(path.Clean(h.Name)) || strings.IndexByte(h.Name, 0) >= 0 {
		// CLI-35: refused and not mended, because no honest tree has such a name.
		return ErrOutside
	}
	name, mode := path.Clean(h.Name), h.FileInfo().Mode().Perm()
	isFolder := h.Typeflag == tar.TypeDir
	if name == "." && !isFolder {
		return ErrInTheWay
	}
	if name != "." && u.out.Match(name, isFolder) {
		return nil
	}
	if sparse(h) {
		return ErrSparse
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.folder(name); err != nil {
			return err
		}
		if _, made := u.modes[name]; made {
			u.modes[name] = mode
		}
		return nil
	case tar.TypeReg:
		return u.file(name, mode)
	case tar.TypeSymlink:
		if leavesFolder(name, h.Linkname) {
			// CLI-36: the next program that writes there would write outside.
			u.skip(name, fmt.Sprintf("the link leads to %q, out of the folder", h.Linkname))
			return nil
		}
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return u.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.skip(name, "it is a device or a named pipe")
		return nil
	}
	return fmt.Errorf("its kind is %q", h.Typeflag)
}

// sparse says whether a file claims content that the archive does not hold.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// folder makes a folder and those above it, none of them a link.
func (u *unpacking) folder(name string) error {
	if name == "." || u.known[name] {
		return nil
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	switch err := u.root.Mkdir(name, 0o700); {
	case err == nil:
		u.modes[name] = 0o755 // unless a member says otherwise
	case !errors.Is(err, fs.ErrExist):
		return err
	default:
		info, err := u.root.Lstat(name)
		switch {
		case err != nil:
			return err
		case info.Mode().Type() == fs.ModeSymlink:
			// CLI-35: also where it stays inside: an honest archive has no such member.
			return ErrThroughLink
		case !info.IsDir():
			return ErrInTheWay
		}
	}
	u.known[name] = true
	return nil
}

// clear makes the folders above name, and room for it.
func (u *unpacking) clear(name string) error {
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return ErrInTheWay
	}
	// Removed and not emptied: it may be a link, or have other names.
	return u.root.Remove(name)
}

func (u *unpacking) file(name string, mode fs.FileMode) error {
	if err := u.clear(name); err != nil {
		return err
	}
	if u.cleared != nil {
		u.cleared()
	}
	// New, because a file that another process put there may have other names.
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, u.tar)
	u.sum.Files++
	u.sum.Bytes += n
	if err == nil {
		err = f.Chmod(mode)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = u.root.Remove(name) // a part must not pass for the whole
	}
	return err
}

// hardLink gives a file of this folder a second name.
func (u *unpacking) hardLink(name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Clean(target)) {
		return ErrOutside
	}
	target = path.Clean(target)
	if err := u.folder(path.Dir(target)); err != nil {
		return err
	}
	info, err := u.root.Lstat(target)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrThroughLink
	}
	if target == name {
		return nil
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

// setModes gives the folders that were made their modes: last, since a mode may
// forbid to write, and what is deeper first, since it may forbid to go on.
func (u *unpacking) setModes() error {
	for _, name := range u.deepestFirst() {
		if err := u.setMode(name, u.modes[name]); err != nil {
			return &MemberError{name, err}
		}
	}
	return nil
}

func (u *unpacking) deepestFirst() []string {
	depth := func(name string) int {
		if name == "." {
			return -1
		}
		return strings.Count(name, "/")
	}
	return slices.SortedFunc(maps.Keys(u.modes), func(a, b string) int { return depth(b) - depth(a) })
}

func (u *unpacking) setMode(name string, mode fs.FileMode) error {
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(mode)
}
