package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestModeHoldsFromTheFirstByte overwrites a file that everyone may read.
func TestModeHoldsFromTheFirstByte(t *testing.T) {
	t.Attr("requirement", "FS-6")
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Create(path, 0o4700)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o700 || info.Size() != 0 {
		t.Errorf("before the first byte: %v, %d bytes", info.Mode(), info.Size())
	}
	if _, err := d.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o666), d.Finish()); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o700|fs.ModeSetuid {
		t.Errorf("after the last byte: %v", info.Mode())
	}
}

// TestDiscardRemovesItsOwnFile and nothing else that may have its name.
func TestDiscardRemovesItsOwnFile(t *testing.T) {
	t.Attr("requirement", "FS-9")
	dir := t.TempDir()
	create := func(path string) *Destination {
		d, err := Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte("partial")); err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := create(dir + "/a").Discard(); err != nil {
		t.Error(err)
	}
	// By the link's target, and emptied where another name is left.
	if err := errors.Join(os.Symlink("b", dir+"/link"), os.WriteFile(dir+"/b", nil, 0o600), os.Link(dir+"/b", dir+"/other")); err != nil {
		t.Fatal(err)
	}
	if err := create(dir + "/link").Discard(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir + "/other"); err != nil || info.Size() != 0 {
		t.Errorf("the other name: %v %v", info, err)
	}
	// Replaced by another process meanwhile.
	d := create(dir + "/c")
	if err := errors.Join(os.Remove(dir+"/c"), os.WriteFile(dir+"/c", []byte("theirs"), 0o600), d.Discard()); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(dir + "/c"); string(b) != "theirs" {
		t.Errorf("another process's file holds %q", b)
	}
	if err := create("/dev/null").Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Fatal("a device was removed")
	}
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 3 { // c, link, other
		t.Errorf("left: %v", names)
	}
}

// TestOpenNeverWaits opens FIFOs that nobody is at the other end of.
func TestOpenNeverWaits(t *testing.T) {
	t.Attr("requirement", "FS-5")
	t.Attr("requirement", "FS-1")
	path := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, 0o644); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("writing: %v", err)
	}
	src, err := Open(path)
	if err != nil || src.Size != -1 {
		t.Fatalf("reading: %v", err)
	}
	defer src.Close()
	if n, err := src.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestMakeFolder makes exact modes whatever the umask.
func TestMakeFolder(t *testing.T) {
	t.Attr("requirement", "FS-5")
	dir := t.TempDir()
	old := syscall.Umask(0o077) // no other test of this package runs beside
	err := MakeFolder(dir + "/a/b")
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/a/b"} {
		if info, err := os.Stat(dir + path); err != nil || info.Mode() != fs.ModeDir|0o755 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/f", nil, 0o600), os.Symlink("a", dir+"/l"), os.Symlink("none", dir+"/dangling"), MakeFolder(dir+"/l/c")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/f", "/f/x", "/dangling", "/dangling/x"} {
		if err := MakeFolder(dir + path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}
