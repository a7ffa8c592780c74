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

// FuzzUnpack extracts any bytes beside a folder that must stay as it is, into one
// that holds a link to it. Whatever happens, no link that leads out is made, no
// special bit is set, and no device or pipe is there.
func FuzzUnpack(f *testing.F) {
	dir := tar.Header{Typeflag: tar.TypeDir, Name: "d/"}
	for _, headers := range [][]tar.Header{
		{file("a"), dir, link("d/l", "../a"), hard("h", "a")}, {file("../x")}, {file("/x")}, {file("a/../../x")}, {link("l", "../outside"), file("l/x")},
		{link("l", "out"), file("l/secret")}, {hard("h", "out/secret"), file("h")}, {link("d", "."), link("d/e", ".."), file("d/e/x")}, {file("out/secret")},
		{file("out")}, {dir, link("d", "../outside"), file("d/x")}, {{Typeflag: tar.TypeFifo, Name: "p"}}, {{Typeflag: tar.TypeReg, Name: "su", Mode: 0o7777}},
	} {
		f.Add(archive(f, headers...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		dst, outside := base+"/dst", base+"/outside"
		for _, dir := range []string{dst, outside} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(outside+"/secret", []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../outside", dst+"/out"); err != nil {
			t.Fatal(err)
		}
		before := tree(t, outside)
		_, _ = Unpack(dst, bytes.NewReader(data), Excludes{}, func(string, string) {})
		if after := tree(t, outside); !slices.Equal(before, after) {
			t.Errorf("outside is %q", after)
		}
		if names, err := os.ReadDir(base); err != nil || len(names) != 2 {
			t.Errorf("beside the folder: %v, %v", names, err)
		}
		_ = filepath.WalkDir(dst, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // a folder that the archive closed
			}
			rel, _ := filepath.Rel(dst, name)
			info, err := d.Info()
			if err != nil {
				t.Error(err)
				return nil
			}
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
				t.Errorf("%s is %v", rel, info.Mode())
			}
			if target, err := os.Readlink(name); err == nil && rel != "out" && leavesFolder(rel, target) {
				t.Errorf("%s leads to %q", rel, target)
			}
			return nil
		})
	})
}
