package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

func pack(t *testing.T, dir string, o Options) (*os.File, int64, error) {
	t.Helper()
	spool, err := NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spool.Close() })
	if o.Reserve == nil {
		o.Reserve = &files.Reserve{}
	}
	if o.Limits == (Limits{}) {
		o.Limits = limits
	}
	size, err := Pack(t.Context(), dir, spool, o)
	return spool, size, err
}

// packed lists the names of a folder's download.
func packed(t *testing.T, dir string) (names []string) {
	t.Helper()
	spool, size, err := pack(t, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(io.NewSectionReader(spool, 0, size)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// TestPackStoresWhatIsThere packs each kind of entry and reads the headers back.
func TestPackStoresWhatIsThere(t *testing.T) {
	t.Attr("requirement", "FS-14")
	p := newPlace(t)
	for _, err := range []error{
		os.Chmod(p.dir, 0o750), os.Mkdir(p.dir+"/d", 0o700), os.Symlink("../../canary", p.dir+"/d/out"), unix.Mkfifo(p.dir+"/fifo", 0o600),
		os.WriteFile(p.dir+"/d/f", []byte("content"), 0o600), unix.Chmod(p.dir+"/d/f", 0o4751),
		os.WriteFile(p.dir+"/\xff\n", nil, 0o600), os.WriteFile(p.dir+"/"+strings.Repeat("n", 255), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(here, p.dir+"/socket") // the address is short, the path is not
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: rel}); err != nil {
		t.Fatal(err)
	}
	spool, size, err := pack(t, p.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for tr := tar.NewReader(io.NewSectionReader(spool, 0, size)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(tr)
		got = append(got, fmt.Sprintf("%c %.12q %o %q %q %d", h.Typeflag, h.Name, h.Mode, h.Linkname, body, len(h.Name)))
		if h.Uid != os.Getuid() || h.ModTime.IsZero() {
			t.Errorf("%q: owner %d, time %v", h.Name, h.Uid, h.ModTime)
		}
	}
	want := []string{
		`5 "./" 750 "" "" 2`, `5 "d/" 700 "" "" 2`, `0 "d/f" 4751 "" "content" 3`, `2 "d/out" 777 "../../canary" "" 5`,
		`6 "fifo" 600 "" "" 4`, `0 "nnnnnnnnnnnn" 600 "" "" 255`, `0 "\xff\n" 600 "" "" 2`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the archive holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPackCaps packs trees of exactly the caps, and one more.
func TestPackCaps(t *testing.T) {
	t.Attr("requirement", "FS-25")
	p := newPlace(t)
	if err := p.extract(whole(file("a", "12345"), dir("d"), file("d/b", "67890"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limits Limits
		want   Kind
	}{{Limits{4, 10}, fine}, {Limits{3, 10}, TooMuch}, {Limits{4, 9}, TooMuch}, {Limits{1, 10}, TooMuch}} {
		if _, size, err := pack(t, p.dir, Options{Limits: c.limits}); kindOf(err) != c.want || (err != nil && size != 0) {
			t.Errorf("%+v: %v with %d bytes, want kind %d", c.limits, err, size, c.want)
		}
	}
}

// TestPackRefuses packs what is no folder, what has no room, and what changes.
func TestPackRefuses(t *testing.T) {
	t.Attr("requirement", "FS-14")
	t.Attr("requirement", "FS-10")
	p := newPlace(t)
	if err := p.extract(whole(file("f", "12345"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Kind{p.dir + "/f": BadRoot, p.dir + "/none": Absent, p.dir + "/f/x": BadRoot} {
		if _, _, err := pack(t, path, Options{}); kindOf(err) != want {
			t.Errorf("%s: %v, want kind %d", path, err, want)
		}
	}
	tight := &files.Reserve{Bytes: 1 << 20, Probe: func(string) (files.Space, error) { return files.Space{Available: 1<<20 + 1000}, nil }}
	var full *files.FullError
	if _, _, err := pack(t, p.dir, Options{Reserve: tight}); !errors.As(err, &full) {
		t.Errorf("no room for the spool: %v", err)
	}
	planted := &act{at: trace.ArchiveWalk, member: 2, do: func() {
		if err := errors.Join(os.Remove(p.dir+"/f"), os.Symlink("../canary/file", p.dir+"/f")); err != nil {
			t.Error(err)
		}
	}}
	if _, _, err := pack(t, p.dir, Options{Gate: planted}); kindOf(err) != Unsafe || !planted.done {
		t.Errorf("a link in the place of a file: %v", err)
	}
}
