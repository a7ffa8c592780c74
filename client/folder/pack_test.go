package folder

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A pattern leaves out what it names, in both directions, and with a folder all
// that is in it.
func TestExcludes(t *testing.T) {
	t.Attr("requirement", "CLI-38")
	for _, c := range []struct {
		pattern, name string
		folder, want  bool
	}{
		{"a", "a", false, true},
		{"a", "x/a", false, true},
		{"a", "x/a/b/c", false, true},
		{"a", "ab", false, false},
		{"*.o", "x/y.o", false, true},
		{"/a", "a", false, true},
		{"/a", "x/a", false, false},
		{"x/a", "x/a", false, true},
		{"x/a", "x/a/b", false, true},
		{"x/a", "y/x/a", false, false},
		{"x/*", "x/b", false, true},
		{"./x/a", "x/a", false, true},
		{"a/", "a", false, false},
		{"a/", "a", true, true},
		{"a/", "a/b", false, true},
		{"[ab]", "b", false, true},
	} {
		e, err := ParseExcludes([]string{"zzz", c.pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Match(c.name, c.folder); got != c.want {
			t.Errorf("%q matches %q (folder: %t): %t", c.pattern, c.name, c.folder, got)
		}
	}
	for _, bad := range []string{"", "/", "./", "[", "a[b", `a\`} {
		if _, err := ParseExcludes([]string{bad}); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
	dir := makeFolder(t)
	out, err := ParseExcludes([]string{"private/", "a", "dangling"})
	if err != nil {
		t.Fatal(err)
	}
	whole := t.TempDir() + "/whole"
	packed := t.TempDir() + "/packed"
	for dst, data := range map[string][]byte{whole: pack(t, dir, "", Excludes{}), packed: pack(t, dir, "", out)} {
		if _, err := Unpack(dst, bytes.NewReader(data), out, noSkip(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dst+"/sub/deep", 0o755) })
		if got := tree(t, dst)[1:]; !slices.Equal(got, []string{"empty 0755", "folder -> sub", "sub 0755", "sub/deep 0555", "sub/run.sh 0755 #!", "sub/up -> ../a"}) {
			t.Errorf("%s: %q", dst, got)
		}
	}
}

// What an archive cannot carry is left out and named; a link that leads out is
// an error before anything is packed, unless it is excluded.
func TestListLooksAtEveryEntry(t *testing.T) {
	t.Attr("requirement", "CLI-36")
	dir := t.TempDir()
	if err := errors.Join(syscall.Mkfifo(dir+"/pipe", 0o600), os.WriteFile(dir+"/f", []byte("12345"), 0o600), os.Symlink(".", dir+"/self")); err != nil {
		t.Fatal(err)
	}
	l, err := List(dir, Excludes{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Close(); l.Bytes != 5 || !slices.Equal(l.Skipped, []string{"pipe"}) {
		t.Errorf("%d bytes, skipped %q", l.Bytes, l.Skipped)
	}
	for _, target := range []string{"/etc/passwd", "..", "../x", "f/../../x"} {
		if err := os.Symlink(target, dir+"/bad"); err != nil {
			t.Fatal(err)
		}
		_, err := List(dir, Excludes{})
		var leads *LinkError
		if !errors.As(err, &leads) || leads.Name != "bad" || leads.Target != target {
			t.Errorf("%s: %v", target, err)
		}
		out, _ := ParseExcludes([]string{"bad"})
		if l, err := List(dir, out); err != nil {
			t.Errorf("%s, excluded: %v", target, err)
		} else {
			l.Close()
		}
		os.Remove(dir + "/bad")
	}
	if _, err := List(dir+"/f", Excludes{}); err == nil {
		t.Error("a file was listed")
	}
}

// What changed since the listing fails the archive, and a pipe in a file's place
// does not hold it up.
func TestPackNoticesChanges(t *testing.T) {
	t.Attr("requirement", "CLI-37")
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"gone":    {os.Remove, "no such file"},
		"a pipe":  {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "replaced"},
		"a way":   {func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) }, "escapes"},
		"a grown": {func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 9000)), 0o600) }, ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/f", []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := List(dir, Excludes{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(dir + "/f"); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		err = l.Pack(&b, "")
		if l.Close(); (c.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
