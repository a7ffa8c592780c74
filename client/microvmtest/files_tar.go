package microvmtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/api"
)

// modeMask is what an extracted member keeps of its mode.
const modeMask = 0o755

func (s *Server) getTar(w http.ResponseWriter, r *http.Request) {
	query, ok := known(r)
	if !ok {
		refuseFile(w, http.StatusBadRequest, "path is missing, there twice, or holds a NUL byte")
		return
	}
	s.disk.Lock()
	_, _, n, err := s.root.find(query["path"], false)
	var b bytes.Buffer
	if err == nil && n != nil && n.mode.IsDir() {
		out := tar.NewWriter(&b)
		if err = errors.Join(n.pack(out, "."), out.Close()); err == nil {
			s.disk.Unlock()
			w.Header().Set("Content-Type", api.MediaTar)
			w.Write(b.Bytes())
			return
		}
	}
	s.disk.Unlock()
	switch {
	case err == nil && n == nil, errors.Is(err, fs.ErrNotExist):
		refuseFile(w, http.StatusNotFound, "no such folder")
	case err == nil, errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		refuseFile(w, http.StatusBadRequest, "path is not a folder")
	default:
		refuseFile(w, http.StatusInternalServerError, err.Error())
	}
}

// pack writes a folder and what is below it, in the order of names.
func (n *node) pack(out *tar.Writer, name string) error {
	if err := n.packOne(out, name); err != nil {
		return err
	}
	for _, child := range n.names() {
		if err := n.children[child].pack(out, path.Join(name, child)); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) packOne(out *tar.Writer, name string) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(n.mode.Perm()), ModTime: n.modTime.Truncate(time.Second), Size: int64(len(n.data))}
	for bit, special := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n.mode&special != 0 {
			h.Mode |= bit
		}
	}
	switch n.mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.target
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err := out.Write(n.data)
	return err
}

// tarRefusal is a refusal of an archive.
type tarRefusal struct {
	status int
	text   string
}

func (e *tarRefusal) Error() string { return e.text }

func unsafeMember(name, why string) error {
	return &tarRefusal{http.StatusBadRequest, fmt.Sprintf("member %q: %s", name, why)}
}

// putTar extracts an archive. As the daemon, it judges all members first and
// does not undo what it placed before a member that cannot be.
func (s *Server) putTar(w http.ResponseWriter, r *http.Request) {
	query, ok := known(r)
	if !ok || !path.IsAbs(query["path"]) {
		refuseFile(w, http.StatusBadRequest, "path is missing, there twice, relative, or holds a NUL byte")
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		refuseFile(w, http.StatusBadRequest, "the body was cut short")
		return
	}
	members, err := readTar(data)
	if err == nil {
		s.disk.Lock()
		err = s.extractLocked(query["path"], members)
		s.disk.Unlock()
	}
	var refusal *tarRefusal
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &refusal):
		refuseFile(w, refusal.status, refusal.text)
	default:
		refuseFile(w, http.StatusInternalServerError, err.Error())
	}
}

type member struct {
	*tar.Header
	name string // clean
	data []byte
}

// readTar reads and judges all members by their headers.
func readTar(data []byte) (members []member, err error) {
	src := bytes.NewReader(data)
	in := tar.NewReader(src)
	for {
		before := src.Len()
		h, err := in.Next()
		if err == io.EOF {
			if before-src.Len() < 2*512 {
				return nil, errors.New("the archive lacks its end")
			}
			return members, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := judge(h); err != nil {
			return nil, err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		members = append(members, member{h, path.Clean(h.Name), content})
	}
}

// judge applies the rules that need no disk (wire facts, section 11.5).
func judge(h *tar.Header) error {
	name := path.Clean(h.Name)
	switch {
	case h.Typeflag == tar.TypeChar, h.Typeflag == tar.TypeBlock, h.Typeflag == tar.TypeFifo, h.Typeflag == tar.TypeGNUSparse:
		return unsafeMember(h.Name, "its kind is refused")
	case path.IsAbs(h.Name), !filepath.IsLocal(name):
		return unsafeMember(h.Name, "it leaves the root")
	case name == "." && h.Typeflag != tar.TypeDir:
		return unsafeMember(h.Name, "it names the root, and is no folder")
	}
	base := "."
	switch h.Typeflag {
	case tar.TypeSymlink:
		base = path.Dir(name)
	case tar.TypeLink:
	default:
		return nil
	}
	switch {
	case h.Linkname == "":
		return unsafeMember(h.Name, "link without a target")
	case path.IsAbs(h.Linkname):
		return unsafeMember(h.Name, "absolute link target")
	case !filepath.IsLocal(path.Join(base, h.Linkname)):
		return unsafeMember(h.Name, "link target leaves the root")
	}
	return nil
}

func (s *Server) extractLocked(dir string, members []member) error {
	_, _, root, err := s.root.find(strings.TrimRight(dir, "/")+"/", true)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return &tarRefusal{http.StatusBadRequest, "path is not a folder"}
	}
	if err != nil {
		return err
	}
	modes := map[*node]fs.FileMode{} // of folders, applied last
	for _, m := range members {
		if err := place(root, m, modes); err != nil {
			return err
		}
	}
	for n, mode := range modes {
		n.mode = fs.ModeDir | mode
	}
	return nil
}

// place makes one member in the folder that its name leads to without a link.
func place(root *node, m member, modes map[*node]fs.FileMode) error {
	if m.name == "." {
		return nil
	}
	parent, err := folderAt(root, path.Dir(m.name), m.Name, true)
	if err != nil {
		return err
	}
	last, mode := path.Base(m.name), fs.FileMode(m.Mode)&modeMask
	var made *node
	switch m.Typeflag {
	case tar.TypeDir:
		made, err := folderAt(root, m.name, m.Name, true)
		if err == nil {
			modes[made] = mode
		}
		return err
	case tar.TypeSymlink:
		made = &node{mode: fs.ModeSymlink | 0o777, modTime: time.Now(), target: m.Linkname}
	case tar.TypeLink:
		source := path.Clean(m.Linkname)
		if source == "." {
			return unsafeMember(m.Name, "hard link to the root")
		}
		from, err := folderAt(root, path.Dir(source), m.Name, false)
		if err != nil {
			return err
		}
		if made = from.children[path.Base(source)]; made == nil {
			return syscall.ENOENT
		}
		if !made.mode.IsRegular() {
			return unsafeMember(m.Name, "hard link to what is no regular file")
		}
	default:
		made = newFile(m.data, mode)
	}
	if old := parent.children[last]; old != nil && old.mode.IsDir() {
		return syscall.EISDIR
	}
	parent.children[last] = made
	return nil
}

// folderAt resolves a folder below root without a link; with create it makes
// what is missing.
func folderAt(root *node, name, member string, create bool) (*node, error) {
	n := root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		child := n.children[part]
		switch {
		case child == nil && !create:
			return nil, syscall.ENOENT
		case child == nil:
			child = newFolder()
			n.children[part] = child
		case child.mode.Type() == fs.ModeSymlink:
			return nil, unsafeMember(member, "path would traverse a symbolic link")
		case !child.mode.IsDir():
			return nil, syscall.ENOTDIR
		}
		n = child
	}
	return n, nil
}
