package microvmtest

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a file, folder or symbolic link of the fake's disk.
type node struct {
	mode     fs.FileMode
	modTime  time.Time
	data     []byte // of a file; replaced and never changed
	target   string // of a link
	children map[string]*node
}

func newFolder() *node {
	return &node{mode: fs.ModeDir | 0o755, modTime: time.Now(), children: map[string]*node{}}
}

func newFile(data []byte, mode fs.FileMode) *node {
	return &node{mode: mode, modTime: time.Now(), data: data}
}

func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// maxLinks is how many links a path may lead through, as in Linux.
const maxLinks = 40

// find resolves a path from the root, links included. Without an entry at its
// end it returns no node but the folder that would hold one; with makeFolders it
// makes that folder. Errors are those of Linux.
func (root *node) find(name string, makeFolders bool) (parent *node, last string, n *node, err error) {
	stack, parts, links := []*node{root}, strings.Split(name, "/"), 0
	n = root
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		if !n.mode.IsDir() {
			return nil, "", nil, syscall.ENOTDIR
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			n = stack[len(stack)-1]
			continue
		}
		parent, last = stack[len(stack)-1], part
		child := parent.children[part]
		switch {
		case child == nil && len(parts) == 0:
			return parent, part, nil, nil
		case child == nil && !makeFolders:
			return nil, "", nil, syscall.ENOENT
		case child == nil:
			child = newFolder()
			parent.children[part] = child
		case child.mode.Type() == fs.ModeSymlink:
			if links++; links > maxLinks {
				return nil, "", nil, syscall.ELOOP
			}
			if path.IsAbs(child.target) {
				stack = stack[:1]
			}
			parts = append(strings.Split(child.target, "/"), parts...)
			n = stack[len(stack)-1]
			continue
		}
		if n = child; n.mode.IsDir() {
			stack = append(stack, n)
		}
	}
	return parent, last, n, nil
}

// WriteFile puts a file on the server's disk, and makes the folders that are
// missing. The mode has the nine permission bits and the three special ones.
func (s *Server) WriteFile(name string, data []byte, mode fs.FileMode) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	return pathError("write", name, s.writeLocked(name, slices.Clone(data), mode))
}

func (s *Server) writeLocked(name string, data []byte, mode fs.FileMode) error {
	parent, last, n, err := s.root.find(name, true)
	switch {
	case err != nil:
		return err
	case n == nil:
		parent.children[last] = newFile(data, mode)
		return nil
	case n.mode.IsDir():
		return syscall.EISDIR
	}
	n.data, n.mode, n.modTime = data, mode, time.Now() // in place: it may have other names
	return nil
}

// ReadFile reads a file of the server's disk, through links. The slice is the
// caller's.
func (s *Server) ReadFile(name string) ([]byte, error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	_, _, n, err := s.root.find(name, false)
	switch {
	case err == nil && n == nil:
		err = syscall.ENOENT
	case err == nil && n.mode.IsDir():
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("read", name, err)
	}
	return slices.Clone(n.data), nil
}

// Symlink puts a symbolic link on the server's disk, and makes the folders that
// are missing. What has its name must not be there.
func (s *Server) Symlink(target, name string) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	parent, last, n, err := s.root.find(name, true)
	if err == nil && n != nil {
		err = syscall.EEXIST
	}
	if err == nil {
		parent.children[last] = &node{mode: fs.ModeSymlink | 0o777, modTime: time.Now(), target: target}
	}
	return pathError("symlink", name, err)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
