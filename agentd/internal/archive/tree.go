package archive

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"microvms/agentd/internal/files"
)

// Openat2 is unix.Openat2, or what stands for it in a test.
type Openat2 func(dirfd int, path string, how *unix.OpenHow) (int, error)

// confined is how each component below the root is resolved.
const confined = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// maxHeld bounds the handles that are kept between members.
const maxHeld = 32

// folder is an opened folder below the root.
type folder struct {
	name string
	fd   int
}

// tree resolves folders below one root descriptor, one component at a time, and
// keeps the handles of the last path. It belongs to one goroutine.
//
// A name is never resolved through the tree as it is now but against a handle
// that was resolved without any link, so whatever is planted in between, the
// last component is made in a folder that was below the root (FS-17).
type tree struct {
	root    int
	openat2 Openat2
	held    []folder
	// resolve is called before a component is resolved that is not held, and
	// resolved after it.
	resolve  func() error
	resolved func(entered bool)
}

// openRoot opens the root, and makes it when it is missing. The root is the
// caller's choice and may itself be behind symbolic links, but not behind the
// magic ones of /proc, which name what the daemon has open.
func openRoot(path string, create bool, openat2 Openat2) (int, error) {
	open := func() (int, error) {
		return again(func() (int, error) {
			return openat2(unix.AT_FDCWD, path, &unix.OpenHow{
				Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
			})
		})
	}
	fd, err := open()
	if create && errors.Is(err, unix.ENOENT) {
		if err := files.MakeFolder(filepath.Clean(path)); err != nil {
			return -1, &Refusal{Kind: Broken, Reason: "cannot make the root", Err: err}
		}
		fd, err = open()
	}
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT):
		return -1, &Refusal{Kind: Absent, Reason: "no such folder"}
	case errors.Is(err, unix.ENOTDIR):
		return -1, &Refusal{Kind: BadRoot, Reason: "path is not a folder"}
	case errors.Is(err, unix.ELOOP):
		return -1, &Refusal{Kind: BadRoot, Reason: "path leads through a loop or a magic link"}
	}
	return -1, kernel("cannot open the root", err)
}

// kernel turns an error of the kernel's confinement into a refusal.
func kernel(what string, err error) *Refusal {
	switch {
	case errors.Is(err, unix.ELOOP):
		return &Refusal{Kind: Unsafe, Reason: "path would traverse a symbolic link", Err: err}
	case errors.Is(err, unix.EXDEV):
		return &Refusal{Kind: Unsafe, Reason: "path would leave the root", Err: err}
	case errors.Is(err, unix.EACCES):
		return &Refusal{Kind: Unsafe, Reason: what, Err: err}
	case errors.Is(err, unix.ENOSYS):
		// FS-18: no fallback, because every other way to resolve a name can be raced.
		return &Refusal{Kind: Broken, Reason: "this kernel has no openat2 (it needs Linux 5.6)", Err: err}
	}
	return &Refusal{Kind: Broken, Reason: what, Err: err}
}

// folder returns the handle of the folder that parts name; with create, folders
// that are missing are made. The handle is the tree's: it is good until the
// next call.
func (t *tree) folder(parts []string, create bool) (int, error) {
	keep := 0
	for keep < len(t.held) && keep < len(parts) && t.held[keep].name == parts[keep] {
		keep++
	}
	t.drop(keep)
	at := t.root
	if keep > 0 {
		at = t.held[keep-1].fd
	}
	for _, name := range parts[keep:] {
		fd, err := t.step(at, name, create)
		if err != nil {
			return -1, err
		}
		// The deepest handle takes the place of the last one held where the path
		// is too deep to keep all.
		if len(t.held) == maxHeld {
			unix.Close(t.held[maxHeld-1].fd)
			t.held[maxHeld-1] = folder{"", fd} // matches no component
		} else {
			t.held = append(t.held, folder{name, fd})
		}
		at = fd
	}
	return at, nil
}

// step resolves one component below a handle.
func (t *tree) step(at int, name string, create bool) (fd int, err error) {
	if err := t.resolve(); err != nil {
		return -1, err
	}
	defer func() { t.resolved(err == nil) }()
	for range maxRaces {
		fd, err := t.open(at, name, unix.O_PATH)
		if !create || !errors.Is(err, unix.ENOENT) {
			if err != nil {
				return -1, kernel("cannot enter folder "+quote(name), err)
			}
			return fd, nil
		}
		if err := ignoringEINTR(func() error { return unix.Mkdirat(at, name, 0o755) }); err != nil && err != unix.EEXIST {
			return -1, kernel("cannot make folder "+quote(name), err)
		}
	}
	return -1, broken("folder %s is removed by another process again and again", quote(name))
}

// maxRaces bounds how often a step is repeated that another process undid.
const maxRaces = 16

// open opens the folder of one component without following anything.
func (t *tree) open(at int, name string, flags uint64) (int, error) {
	return again(func() (int, error) {
		return t.openat2(at, name, &unix.OpenHow{Flags: flags | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: confined})
	})
}

// drop closes all but the first n handles.
func (t *tree) drop(n int) {
	for _, f := range t.held[n:] {
		unix.Close(f.fd)
	}
	t.held = t.held[:n]
}

// close closes every handle, the root's too.
func (t *tree) close() {
	t.drop(0)
	unix.Close(t.root)
}

// again repeats a call that a signal interrupted, or that openat2 gave up
// because of a rename elsewhere (EAGAIN).
func again(call func() (int, error)) (fd int, err error) {
	for range 128 {
		if fd, err = call(); err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
	return fd, err
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
