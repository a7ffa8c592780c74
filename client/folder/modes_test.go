package folder

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A folder's mode may forbid to enter it, so what is deeper has its mode first;
// and a file is always a new one, whoever made one of its name meanwhile.
func TestFolderModesComeDeepestFirst(t *testing.T) {
	t.Attr("requirement", "CLI-34")
	u := &unpacking{modes: map[string]fs.FileMode{".": 0, "a": 0, "a/b/c": 0, "a/b": 0, "z": 0}}
	order := u.deepestFirst()
	if slices.Index(order, "a/b/c") > slices.Index(order, "a/b") || slices.Index(order, "a/b") > slices.Index(order, "a") || order[len(order)-1] != "." || len(order) != 5 {
		t.Errorf("%q", order)
	}
}

// A file that appears in the place of a member after it was looked at is not
// written into.
func TestUnpackMakesNewFiles(t *testing.T) {
	t.Attr("requirement", "CLI-35")
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("v"), 0o600); err != nil {
		t.Fatal(err)
	}
	src := tar.NewReader(bytes.NewReader(archive(t, file("f"))))
	if _, err := src.Next(); err != nil {
		t.Fatal(err)
	}
	u := &unpacking{root: root, tar: src, known: map[string]bool{}, modes: map[string]fs.FileMode{},
		cleared: func() { // the moment between the look and the open
			if err := os.Link(victim, filepath.Join(dir, "f")); err != nil {
				t.Error(err)
			}
		}}
	if err := u.file("f", 0o644); err == nil {
		t.Error("a file that was not the member's was taken for it")
	}
	if b, _ := os.ReadFile(victim); string(b) != "v" {
		t.Errorf("the victim is %q", b)
	}
}
