package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// FS is a folder of the VM as an [io/fs.FS]. It also is an fs.ReadFileFS,
// fs.StatFS, fs.ReadDirFS, fs.ReadLinkFS and fs.SubFS. It is safe for concurrent
// use, and each call asks the VM anew.
//
// The wire has a route for a file's bytes and one for a folder's archive, and
// none for attributes or lists (wire facts, section 11). So
//
//   - ReadFile, and Open and Read of a file, take one request.
//   - Stat takes the beginning of one archive for a folder. For anything else it
//     takes that of the folder which holds it, up to the entry.
//   - ReadDir reads the folder's whole archive, with all that is below it. To read
//     a tree, one [Session.GetTar] is better than fs.WalkDir.
//   - Files cannot seek or be read at an offset, and nothing can be written.
//   - Times are whole seconds. Of owners there is nothing.
//   - Sockets are in no archive, so they are neither listed nor found.
//
// As with os.DirFS, a symbolic link may lead out of the folder.
type FS struct {
	session *Session
	ctx     context.Context
	root    string // without a slash at its end; "" is the VM's root
}

// CLIENT-31: all that can be told without bytes of a file, because code finds out
// by these interfaces what a file system can do.
var (
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
	_ fs.SubFS      = (*FS)(nil)
)

// FS returns a view of a folder of the VM, which must be absolute; no request is
// made. ctx bounds every call on it, also reads of files that it opened. An open
// file holds one of the daemon's connections until it is closed.
//
// Errors of the view are *fs.PathError; what is absent matches fs.ErrNotExist.
func (s *Session) FS(ctx context.Context, folder string) (*FS, error) {
	if !strings.HasPrefix(folder, "/") {
		return nil, invalidArg("folder %q: must be absolute", folder)
	}
	return &FS{session: s, ctx: ctx, root: strings.TrimRight(folder, "/")}, nil
}

// at is a name's path in the VM.
func (f *FS) at(op, name string) (string, error) {
	if !fs.ValidPath(name) || strings.IndexByte(name, 0) >= 0 {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return f.root + "/", nil
	}
	return f.root + "/" + name, nil
}

// absent is a 404 that is fs.ErrNotExist as well.
type absent struct{ error }

func (e absent) Unwrap() error        { return e.error }
func (e absent) Is(target error) bool { return target == fs.ErrNotExist }

func viewError(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		err = absent{err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// refusedAs says whether the daemon refused with a status.
func refusedAs(err error, status int) bool {
	var apiErr *APIError
	return errors.As(err, &apiErr) && apiErr.Status == status
}

// Open opens a file for reading, or a folder for listing.
func (f *FS) Open(name string) (fs.File, error) {
	at, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	body, err := f.session.GetFile(f.ctx, at, Lines{})
	if err == nil {
		return &openFile{ReadCloser: body, view: f, name: name}, nil
	}
	if !refusedAs(err, http.StatusBadRequest) { // a folder is refused with 400
		return nil, viewError("open", name, err)
	}
	info, err := f.session.statFolder(f.ctx, at)
	if err != nil {
		return nil, viewError("open", name, err)
	}
	return &openFolder{view: f, name: name, info: named{info, path.Base(name)}}, nil
}

// ReadFile reads a whole file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	at, err := f.at("read", name)
	if err != nil {
		return nil, err
	}
	body, err := f.session.GetFile(f.ctx, at, Lines{})
	if err != nil {
		return nil, viewError("read", name, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return data, viewError("read", name, err)
}

// Stat describes what a name leads to, through links.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	at, err := f.at("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := f.session.statPath(f.ctx, at)
	if err != nil {
		return nil, viewError("stat", name, err)
	}
	return named{info, path.Base(name)}, nil
}

// Lstat describes a name itself, be it a link.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	h, err := f.lookUp("lstat", name)
	if err != nil {
		return nil, err
	}
	return named{h.FileInfo(), path.Base(name)}, nil
}

// ReadLink returns the target of a symbolic link.
func (f *FS) ReadLink(name string) (string, error) {
	h, err := f.lookUp("readlink", name)
	if err == nil && h.FileInfo().Mode().Type() != fs.ModeSymlink {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return h.Linkname, nil
}

// ReadDir lists a folder, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := f.at("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := f.session.listFolder(f.ctx, at)
	return list, viewError("readdir", name, err)
}

// Sub returns a view of a folder below this one.
func (f *FS) Sub(name string) (fs.FS, error) {
	at, err := f.at("sub", name)
	if err != nil {
		return nil, err
	}
	return &FS{session: f.session, ctx: f.ctx, root: strings.TrimRight(at, "/")}, nil
}

// named gives what an archive describes the name that was asked for.
type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

// openFile is a file that is being read.
type openFile struct {
	io.ReadCloser
	view *FS
	name string
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.view.Stat(o.name) }

func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = viewError("read", o.name, err)
	}
	return n, err
}

// openFolder is a folder that is being listed.
type openFolder struct {
	view *FS
	name string
	info fs.FileInfo
	list []fs.DirEntry
	read bool
}

func (o *openFolder) Stat() (fs.FileInfo, error) { return o.info, nil }

func (o *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.name, Err: errors.New("it is a folder")}
}

func (o *openFolder) Close() error { return nil }

// ReadDir lists as fs.ReadDirFile has it; the list is of the first call.
func (o *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !o.read {
		list, err := o.view.ReadDir(o.name)
		if err != nil {
			return nil, err
		}
		o.list, o.read = list, true
	}
	if n <= 0 {
		n = len(o.list)
	} else if len(o.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(o.list))
	part := o.list[:n:n]
	o.list = o.list[n:]
	return part, nil
}
