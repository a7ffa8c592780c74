package replay

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"microvms/model/transfer"
)

// transferUnit is the number of bytes that a unit of size in the model is.
const transferUnit = 8

// The modes that members bring. What is left of them shows whose a file is and
// whether a folder's was applied and masked.
var transferModes = [transfer.MaxMembers]int64{0o4644, 0o2660, 0o1606}

const (
	transferFolderMode = 0o2731
	transferMask       = 0o755
	canaryText         = "canary"
	canaryMode         = 0o600
)

// transferTree is a real folder with the root, as root, and the canary, as d.
type transferTree struct {
	base    string
	archive [transfer.MaxMembers]transfer.Member
}

func newTransferTree(dir string, archive [transfer.MaxMembers]transfer.Member) (*transferTree, error) {
	base, err := os.MkdirTemp(dir, "transfer-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a tree: %w", err)
	}
	t := &transferTree{base: base, archive: archive}
	err = errors.Join(os.Mkdir(t.root(), 0o755), os.Mkdir(t.canary(), 0o755), os.Chmod(t.canary(), 0o755),
		os.WriteFile(t.canary()+"/f", []byte(canaryText), canaryMode))
	if err != nil {
		return nil, errors.Join(err, t.remove())
	}
	return t, nil
}

func (t *transferTree) root() string   { return t.base + "/root" }
func (t *transferTree) canary() string { return t.base + "/d" }
func (t *transferTree) remove() error  { return os.RemoveAll(t.base) }

// text is the content of the file that a member brings.
func (t *transferTree) text(member int) string {
	return strings.Repeat(fmt.Sprint(member+1), transferUnit*int(t.archive[member].Size))
}

// pack writes the archive.
func (t *transferTree) pack() (string, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	types := map[transfer.Type]byte{
		transfer.Folder: tar.TypeDir, transfer.File: tar.TypeReg, transfer.Symlink: tar.TypeSymlink,
		transfer.HardLink: tar.TypeLink, transfer.Device: tar.TypeChar,
	}
	for i, m := range t.archive {
		if m.Type == transfer.NoMember {
			break
		}
		h := &tar.Header{Typeflag: types[m.Type], Name: m.Path(), Linkname: m.Target.String(), Mode: transferModes[i], Format: tar.FormatUSTAR}
		body := ""
		switch m.Type {
		case transfer.Folder:
			h.Mode = transferFolderMode
		case transfer.File:
			body = t.text(i)
		}
		h.Size = int64(len(body))
		if err := w.WriteHeader(h); err != nil {
			return "", fmt.Errorf("cannot pack %s: %w", m, err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			return "", fmt.Errorf("cannot pack %s: %w", m, err)
		}
	}
	err := w.Close()
	return out.String(), err
}

// guest changes the tree as the model's guest does.
func (t *transferTree) guest(tr Transition[transfer.State]) error {
	at, name := transfer.Node(tr.Action.Arg[0]), tr.Action.Arg[1]
	path, target := t.root(), t.canary()
	if at != transfer.Root {
		path, target = path+"/d", target+"/f"
	}
	path += "/" + [...]string{transfer.D: "d", transfer.F: "f"}[name]
	var err error
	if tr.Action.ID == transfer.GuestPlant && tr.To.Moved != tr.From.Moved {
		err = os.Rename(path, t.base+"/m")
	} else {
		err = os.RemoveAll(path)
	}
	if err != nil {
		return err
	}
	switch tr.Action.ID {
	case transfer.GuestPlant:
		return os.Symlink(target, path)
	case transfer.GuestLink:
		return os.Link(t.canary()+"/f", path)
	case transfer.GuestFolder:
		return os.Mkdir(path, 0o755)
	}
	return nil
}

// listing renders the tree in the words of [transfer.Listing].
func (t *transferTree) listing() (string, error) {
	var lines []string
	var walk func(dir, prefix string) error
	walk = func(dir, prefix string) error {
		entries, err := os.ReadDir(dir) // sorted
		if err != nil {
			return err
		}
		for _, e := range entries {
			if dir == t.base && (e.Name() == "root" || e.Name() == "m") {
				continue
			}
			path := prefix + e.Name()
			line, err := t.entry(path, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			lines = append(lines, line)
			if e.IsDir() {
				if err := walk(filepath.Join(dir, e.Name()), path+"/"); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := errors.Join(walk(t.base, ""), walk(t.root(), "root/"))
	if moved, statErr := t.entry("m", t.base+"/m"); statErr == nil {
		lines = append(lines, moved)
		err = errors.Join(err, walk(t.base+"/m", "m/"))
	} else if !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, statErr)
	}
	return strings.Join(lines, " "), err
}

// entry renders one entry. What the model has no word for shows as it is.
func (t *transferTree) entry(name, path string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return "", err
	}
	mode := st.Mode & 0o7777
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		switch {
		case mode == transferFolderMode&transferMask:
			return name + "/+", nil
		case mode&0o7000 != 0:
			return fmt.Sprintf("%s/ with mode %o", name, mode), nil
		}
		return name + "/", nil
	case syscall.S_IFLNK:
		target, err := os.Readlink(path)
		return name + "->" + strings.Replace(target, t.base, "BASE", 1), err
	case syscall.S_IFREG:
		data, err := os.ReadFile(path)
		return fmt.Sprintf("%s=%s*%d", name, t.whose(string(data), int64(mode)), st.Nlink), err
	}
	return fmt.Sprintf("%s of mode %o", name, st.Mode), nil
}

// whose names the maker of a file: the number of a member, or 0 for the canary.
func (t *transferTree) whose(text string, mode int64) string {
	if text == canaryText && mode == canaryMode {
		return "0"
	}
	for i := range t.archive {
		if text == t.text(i) && mode == transferModes[i]&transferMask {
			return fmt.Sprint(i + 1)
		}
	}
	return fmt.Sprintf("%q with mode %o", text, mode)
}
