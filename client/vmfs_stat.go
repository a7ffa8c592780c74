package client

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

// maxLinks is how many links a name may lead through, as in Linux.
const maxLinks = 40

var (
	errNotFolder    = errors.New("it is no folder")
	errLinkLoop     = errors.New("too many symbolic links")
	errCutArchive   = errors.New("the archive of the folder breaks off")
	errNoDescribing = errors.New("the archive of the folder does not begin with the folder")
)

// members calls f with each header of a folder's archive, the folder's own first,
// until f returns false. A path that is no folder is errNotFolder.
func (s *Session) members(ctx context.Context, folder string, f func(*tar.Header) bool) error {
	body, err := s.GetTar(ctx, folder)
	if refusedAs(err, http.StatusBadRequest) {
		return errNotFolder
	}
	if err != nil {
		return err
	}
	defer body.Close()
	src := &countingReader{src: body}
	in := tar.NewReader(src)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && !f(h) {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		switch {
		case src.err != nil:
			return src.err
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errCutArchive
		case err != nil:
			return protocolError("the archive of the folder cannot be read: %v", err)
		}
	}
}

// countingReader keeps the error of its source, which a tar reader may replace.
type countingReader struct {
	src io.Reader
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// statFolder describes a folder by the beginning of its archive.
func (s *Session) statFolder(ctx context.Context, at string) (fs.FileInfo, error) {
	var first *tar.Header
	err := s.members(ctx, at, func(h *tar.Header) bool { first = h; return false })
	switch {
	case err != nil:
		return nil, err
	case first == nil || path.Clean(first.Name) != "." || first.Typeflag != tar.TypeDir:
		return nil, errNoDescribing
	}
	return first.FileInfo(), nil
}

// statPath describes what a path of the VM leads to.
func (s *Session) statPath(ctx context.Context, at string) (fs.FileInfo, error) {
	for range maxLinks {
		info, err := s.statFolder(ctx, at)
		if !errors.Is(err, errNotFolder) {
			return info, err
		}
		h, err := s.lookUpPath(ctx, at)
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeSymlink {
			return h.FileInfo(), nil
		}
		// The path is not cleaned: two dots behind a link are the VM's to resolve.
		if at = h.Linkname; !path.IsAbs(at) {
			at = holder(h.holder) + at
		}
	}
	return nil, errLinkLoop
}

// holder is a folder's path with a slash at its end.
func holder(folder string) string { return strings.TrimRight(folder, "/") + "/" }

// heldHeader is an entry and the folder that holds it.
type heldHeader struct {
	*tar.Header
	holder string
}

// lookUpPath finds an entry in the archive of the folder that holds it.
func (s *Session) lookUpPath(ctx context.Context, at string) (heldHeader, error) {
	slash := strings.LastIndexByte(at, '/')
	found := heldHeader{holder: at[:slash+1]}
	err := s.members(ctx, found.holder, func(h *tar.Header) bool {
		if entryName(h) == at[slash+1:] {
			found.Header = h
		}
		return found.Header == nil
	})
	if err == nil && found.Header == nil {
		err = fs.ErrNotExist
	}
	return found, err
}

// lookUp is lookUpPath for a name of the view.
func (f *FS) lookUp(op, name string) (*tar.Header, error) {
	at, err := f.at(op, name)
	if err != nil {
		return nil, err
	}
	if name != "." {
		h, err := f.session.lookUpPath(f.ctx, at)
		return h.Header, viewError(op, name, err)
	}
	var own *tar.Header
	err = f.session.members(f.ctx, at, func(h *tar.Header) bool { own = h; return false })
	if err == nil && own == nil {
		err = errNoDescribing
	}
	return own, viewError(op, name, err)
}

// entryName is the name of an archive's member right in the folder, and "" for
// every other one.
func entryName(h *tar.Header) string {
	name := path.Clean(h.Name)
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// listFolder lists a folder by the whole of its archive.
func (s *Session) listFolder(ctx context.Context, at string) ([]fs.DirEntry, error) {
	entries := map[string]fs.DirEntry{} // of a name that is there twice, the last counts
	err := s.members(ctx, at, func(h *tar.Header) bool {
		if name := entryName(h); name != "" {
			entries[name] = fs.FileInfoToDirEntry(named{h.FileInfo(), name})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, entries[name])
	}
	return list, nil
}
