package folder

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Listing is what a folder held when it was looked at. Close it.
type Listing struct {
	// Bytes is the content of all files together.
	Bytes int64
	// Skipped are the entries that an archive cannot carry: sockets, named pipes
	// and devices. The slice is the caller's.
	Skipped []string

	root    *os.Root
	mode    fs.FileMode
	entries []entry
}

type entry struct {
	name   string
	info   fs.FileInfo
	target string // of a symbolic link
}

// LinkError says that a symbolic link leads out of the folder that holds it.
// The daemon refuses an archive with such a link.
type LinkError struct{ Name, Target string }

// Error names the link and its target.
func (e *LinkError) Error() string {
	return fmt.Sprintf("link %q leads to %q, out of the folder", e.Name, e.Target)
}

// List looks at a folder without following the links in it, and leaves out what
// is excluded. It fails with a [*LinkError] at a link that leads out of the
// folder, so that nothing is sent of what would be refused.
func List(dir string, out Excludes) (*Listing, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l := &Listing{root: root}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		if name == "." {
			l.mode = info.Mode()
			return nil
		}
		// CLI-38: before a folder is entered, because what is in it goes with it.
		if out.Match(name, info.IsDir()) {
			if info.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return l.add(name, info)
	})
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listing) add(name string, info fs.FileInfo) error {
	e := entry{name: name, info: info}
	switch info.Mode().Type() {
	case 0:
		l.Bytes += info.Size()
	case fs.ModeDir:
	case fs.ModeSymlink:
		var err error
		if e.target, err = l.root.Readlink(name); err != nil {
			return err
		}
		if leavesFolder(name, e.target) {
			return &LinkError{name, e.target}
		}
	default:
		l.Skipped = append(l.Skipped, name)
		return nil
	}
	l.entries = append(l.entries, e)
	return nil
}

// Close releases the folder.
func (l *Listing) Close() error { return l.root.Close() }

// Pack writes the listed entries to w as a tar, below prefix when there is one;
// the folder itself is then its first member. Files are read as they are now: one
// that has shrunk, or is no file any more, is an error. Links stay links. Modes
// have the nine permission bits.
func (l *Listing) Pack(w io.Writer, prefix string) error {
	out := tar.NewWriter(w)
	if prefix != "" {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: prefix + "/", Mode: int64(l.mode.Perm())}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
	}
	for _, e := range l.entries {
		h := &tar.Header{Name: path.Join(prefix, e.name), Mode: int64(e.info.Mode().Perm()), ModTime: e.info.ModTime().Truncate(1e9)}
		var err error
		switch e.info.Mode().Type() {
		case fs.ModeDir:
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			err = out.WriteHeader(h)
		case fs.ModeSymlink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.target
			err = out.WriteHeader(h)
		default:
			err = l.packFile(out, h, e)
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}

// packFile writes one file as its handle shows it: what its name leads to may
// have been replaced since it was listed.
func (l *Listing) packFile(out *tar.Writer, h *tar.Header, e entry) error {
	f, err := l.root.OpenFile(e.name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q was replaced by something else while the folder was read", e.name)
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("%q shrank while it was read", e.name)
	}
	return err
}
