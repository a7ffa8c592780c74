package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"microvms/client"
	"microvms/client/microvmtest"
)

// viewed makes a folder of every kind of entry with what write and link do, and
// returns the names that a view must find.
func viewed(t *testing.T, dir string, write func(name, text string, mode fs.FileMode) error, link func(target, name string) error) []string {
	t.Helper()
	if err := errors.Join(
		write(dir+"/a.txt", "one\ntwo\n", 0o640), write(dir+"/sub/b c&=%", "b", 0o755), write(dir+"/sub/deep/empty", "", 0o600),
		link("sub/deep/empty", dir+"/to-file"), link("../a.txt", dir+"/sub/up"), link("sub", dir+"/to-folder"),
		link(dir+"/sub", dir+"/absolute"), link("to-file", dir+"/twice"),
		link("nowhere", dir+"/../broken/dangling"), link("loop", dir+"/../broken/loop"), // not for TestFS, which opens every entry
	); err != nil {
		t.Fatal(err)
	}
	return []string{"a.txt", "sub", "sub/b c&=%", "sub/deep", "sub/deep/empty"}
}

// views runs f with a view of a folder of the real daemon and of the fake.
func views(t *testing.T, f func(t *testing.T, view, broken *client.FS, names []string)) {
	t.Run("daemon", func(t *testing.T) {
		base := t.TempDir()
		dir := base + "/d"
		if err := os.Mkdir(base+"/broken", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		names := viewed(t, dir, func(name, text string, mode fs.FileMode) error {
			return errors.Join(os.MkdirAll(path.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode))
		}, os.Symlink)
		s := realSession(t)
		view, err := s.FS(t.Context(), dir+"/")
		if err != nil {
			t.Fatal(err)
		}
		broken, err := s.FS(t.Context(), base+"/broken")
		if err != nil {
			t.Fatal(err)
		}
		f(t, view, broken, names)
	})
	t.Run("fake", func(t *testing.T) {
		srv := microvmtest.New()
		names := viewed(t, "/base/d", func(name, text string, mode fs.FileMode) error { return srv.WriteFile(name, []byte(text), mode) }, srv.Symlink)
		s := srv.Session(t)
		view, err := s.FS(t.Context(), "/base/d")
		if err != nil {
			t.Fatal(err)
		}
		broken, err := s.FS(t.Context(), "/base/broken")
		if err != nil {
			t.Fatal(err)
		}
		f(t, view, broken, names)
	})
}

// The view is a file system in all that testing/fstest asks of one.
func TestViewIsFileSystem(t *testing.T) {
	t.Attr("requirement", "CLIENT-31")
	views(t, func(t *testing.T, view, _ *client.FS, names []string) {
		if err := fstest.TestFS(view, names...); err != nil {
			t.Error(err)
		}
		sub, err := fs.Sub(view, "sub")
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(sub, "deep/empty"); err != nil {
			t.Error(err)
		}
	})
}

// What a view says of each entry is what it is: content, kind, mode, size, target.
func TestViewDescribes(t *testing.T) {
	t.Attr("requirement", "CLIENT-31")
	views(t, func(t *testing.T, view, broken *client.FS, _ []string) {
		for name, want := range map[string]string{
			".": "drwx", "a.txt": "-rw-r----- 8", "sub": "drwxr-xr-x", "sub/b c&=%": "-rwxr-xr-x 1", "to-file": "-rw------- 0", "sub/up": "-rw-r----- 8",
			"to-folder": "drwxr-xr-x", "to-folder/up": "-rw-r----- 8", "absolute": "drwxr-xr-x", "absolute/deep": "drwxr-xr-x", "twice": "-rw------- 0",
		} {
			info, err := fs.Stat(view, name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got := info.Mode().String()
			if !info.IsDir() {
				got += fmt.Sprint(" ", info.Size())
			}
			if !strings.HasPrefix(got, want) || info.Name() != path.Base(name) || info.ModTime().IsZero() {
				t.Errorf("%s is %s %q, want %s", name, got, info.Name(), want)
			}
		}
		if data, err := fs.ReadFile(view, "to-folder/up"); string(data) != "one\ntwo\n" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
		if target, err := fs.ReadLink(view, "sub/up"); target != "../a.txt" || err != nil {
			t.Errorf("%q, %v", target, err)
		}
		if info, err := fs.Lstat(broken, "dangling"); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%v, %v", info, err)
		}
		if info, err := fs.Lstat(view, "."); err != nil || !info.IsDir() {
			t.Errorf("%v, %v", info, err)
		}
		list, err := view.ReadDir(".")
		if err != nil || len(list) != 6 || list[1].Name() != "absolute" || list[1].Type() != fs.ModeSymlink {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// A failure is an *fs.PathError that says which: absent, of another kind, or a
// name that no file system has.
func TestViewErrors(t *testing.T) {
	t.Attr("requirement", "CLIENT-31")
	views(t, func(t *testing.T, view, broken *client.FS, _ []string) {
		for _, op := range []struct {
			name string
			f    func(name string) error
		}{
			{"open", func(name string) error { _, err := view.Open(name); return err }},
			{"stat", func(name string) error { _, err := view.Stat(name); return err }},
			{"lstat", func(name string) error { _, err := view.Lstat(name); return err }},
			{"read", func(name string) error { _, err := view.ReadFile(name); return err }},
			{"readdir", func(name string) error { _, err := view.ReadDir(name); return err }},
			{"readlink", func(name string) error { _, err := view.ReadLink(name); return err }},
		} {
			for _, name := range []string{"none", "none/x", "sub/none"} {
				err := op.f(name)
				var pathErr *fs.PathError
				if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pathErr) || pathErr.Path != name || pathErr.Op != op.name {
					t.Errorf("%s %s: %v", op.name, name, err)
				}
			}
			for _, name := range []string{"", "/a.txt", "../x", "sub/../a.txt", "sub/", "a\x00"} {
				if err := op.f(name); !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s %q: %v", op.name, name, err)
				}
			}
		}
		for name, err := range map[string]error{
			"a folder that is read":       func() error { _, err := view.ReadFile("sub"); return err }(),
			"a file that is listed":       func() error { _, err := view.ReadDir("a.txt"); return err }(),
			"a name below a file":         func() error { _, err := view.Stat("a.txt/x"); return err }(),
			"a loop":                      func() error { _, err := broken.Stat("loop"); return err }(),
			"a file that is no link":      func() error { _, err := view.ReadLink("a.txt"); return err }(),
			"a folder's bytes":            func() error { f, _ := view.Open("sub"); _, err := f.Read(nil); return err }(),
			"the target of what is not":   func() error { _, err := broken.Stat("dangling"); return err }(),
			"the bytes of what is not":    func() error { _, err := broken.ReadFile("dangling"); return err }(),
			"a link that is listed there": func() error { _, err := view.ReadDir("to-file"); return err }(),
		} {
			var pathErr *fs.PathError
			if !errors.As(err, &pathErr) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := view.ReadFile("none"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("the client's own word is lost: %v", err)
		}
	})
	if _, err := microvmtest.New().Session(t).FS(t.Context(), "relative"); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("a relative folder: %v", err)
	}
}

// A view ends with its context, and with its session.
func TestViewEnds(t *testing.T) {
	t.Attr("requirement", "CLIENT-31")
	srv := microvmtest.New()
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.WriteString(w, "the beginning")
		<-r.Context().Done()
	}
	s := srv.Session(t)
	ctx, cancel := context.WithCancel(t.Context())
	view, err := s.FS(ctx, "/d")
	if err != nil {
		t.Fatal(err)
	}
	f, err := view.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if _, err := io.ReadAll(f); !errors.Is(err, client.ErrInterrupted) {
		t.Errorf("an open file: %v", err)
	}
	if _, err := view.Stat("f"); !errors.Is(err, client.ErrInterrupted) {
		t.Errorf("stat: %v", err)
	}
}

// What a hostile VM puts into an archive makes no entry that is none: names with
// slashes or dots, a folder that is a file, or an archive that breaks off.
func TestViewOfHostileArchives(t *testing.T) {
	t.Attr("requirement", "CLIENT-31")
	root := tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	whole := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		archive []byte
		want    []string // listed; nil: an error
		noStat  bool
	}{
		"names":       {whole(root, file("../up"), file("/rooted"), file("deep/er"), file(".."), file("./ok"), file("ok"), file("x/../also")), []string{"also", "ok"}, false},
		"no folder":   {whole(file("."), file("f")), []string{"f"}, true},
		"empty":       {whole(), []string{}, true},
		"no archive":  {[]byte(strings.Repeat("no", 512)), nil, true},
		"cut":         {whole(root, file("f"))[:700], nil, false},
		"cut at once": {whole(root)[:100], nil, true},
	} {
		srv := microvmtest.New()
		srv.Intercept = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.Write(c.archive) }
		view, err := srv.Session(t).FS(t.Context(), "/d")
		if err != nil {
			t.Fatal(err)
		}
		list, err := view.ReadDir(".")
		got := []string{}
		for _, e := range list {
			got = append(got, e.Name())
		}
		if (err != nil) != (c.want == nil) || (err == nil && !slices.Equal(got, c.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := view.Stat("."); (err != nil) != c.noStat {
			t.Errorf("%s: stat %v", name, err)
		}
	}
}
