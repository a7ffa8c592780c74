package folder

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// archive builds a tar of headers; a regular file's content is its name.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text = h.Name
			h.Size = int64(len(text))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}
func hard(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}

// tree lists a folder: each entry with its mode, and content or target.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch info.Mode().Type() {
		case 0:
			b, _ := os.ReadFile(name)
			text = " " + string(b)
		case fs.ModeSymlink:
			target, _ := os.Readlink(name)
			all = append(all, rel+" -> "+target)
			return nil
		}
		all = append(all, fmt.Sprintf("%s %04o%s", rel, info.Mode().Perm(), text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func noSkip(t *testing.T) func(name, why string) {
	return func(name, why string) { t.Errorf("%s was skipped: %s", name, why) }
}

// make builds a folder with a file, a script, a private folder and links.
func makeFolder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "src")
	if err := errors.Join(
		os.MkdirAll(dir+"/sub/deep", 0o755), os.Mkdir(dir+"/private", 0o700), os.Mkdir(dir+"/empty", 0o755),
		os.WriteFile(dir+"/a", []byte("A"), 0o644), os.WriteFile(dir+"/sub/run.sh", []byte("#!"), 0o644),
		os.Chmod(dir+"/sub/run.sh", 0o755), os.WriteFile(dir+"/private/é "+strings.Repeat("x", 120), nil, 0o600),
		os.Symlink("../a", dir+"/sub/up"), os.Symlink("nowhere", dir+"/dangling"), os.Symlink("sub", dir+"/folder"),
		os.WriteFile(dir+"/sub/deep/a", []byte("deep"), 0o644), os.Chmod(dir+"/sub/deep", 0o555), os.Chmod(dir, 0o750),
		os.Chmod(dir+"/sub", 0o755), os.Chmod(dir+"/empty", 0o755), // whatever the umask is
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir+"/sub/deep", 0o755) })
	return dir
}

func pack(t testing.TB, dir, prefix string, out Excludes) []byte {
	t.Helper()
	l, err := List(dir, out)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var b bytes.Buffer
	if err := l.Pack(&b, prefix); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A folder that went through an archive is the folder that it was: content,
// modes, links, and folders that nobody may write to.
func TestRoundTrip(t *testing.T) {
	t.Attr("requirement", "CLI-34")
	dir := makeFolder(t)
	dst := filepath.Join(t.TempDir(), "new", "dst")
	sum, err := Unpack(dst, bytes.NewReader(pack(t, dir, "p", Excludes{})), Excludes{}, noSkip(t))
	if err != nil || sum != (Sum{4, 7}) {
		t.Fatalf("%+v, %v", sum, err)
	}
	t.Cleanup(func() { os.Chmod(dst+"/p/sub/deep", 0o755) })
	if want, got := tree(t, dir), tree(t, dst+"/p"); !slices.Equal(want, got) {
		t.Errorf("packed\n%q, unpacked\n%q", want, got)
	}
	// Once more over itself: what is there is replaced, folders keep their modes.
	if err := os.Chmod(dst+"/p/empty", 0o711); err != nil {
		t.Fatal(err)
	}
	inode := func() uint64 {
		info, err := os.Lstat(dst + "/p/a")
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	if err := os.Link(dst+"/p/a", dst+"/other"); err != nil {
		t.Fatal(err)
	}
	before := inode()
	os.Chmod(dst+"/p/sub/deep", 0o755)
	if _, err := Unpack(dst+"/p", bytes.NewReader(pack(t, dir, "", Excludes{})), Excludes{}, noSkip(t)); err != nil {
		t.Fatal(err)
	}
	if inode() == before {
		t.Error("a file with another name was written in place")
	}
	if info, _ := os.Stat(dst + "/p/empty"); info.Mode().Perm() != 0o711 {
		t.Errorf("a folder that was there has mode %v", info.Mode())
	}
}

// What a hostile archive names outside of the folder is refused, and nothing of
// it is there.
func TestUnpackStaysInside(t *testing.T) {
	t.Attr("requirement", "CLI-35")
	for name, c := range map[string]struct {
		headers []tar.Header
		want    error
	}{
		"up":                    {[]tar.Header{file("../evil")}, ErrOutside},
		"up behind a name":      {[]tar.Header{file("a/../../evil")}, ErrOutside},
		"rooted":                {[]tar.Header{file("/evil")}, ErrOutside},
		"folder up":             {[]tar.Header{{Typeflag: tar.TypeDir, Name: "../evil/"}}, ErrOutside},
		"link up":               {[]tar.Header{link("../evil", "x")}, ErrOutside},
		"through a link":        {[]tar.Header{link("a", "b"), {Typeflag: tar.TypeDir, Name: "b/"}, file("a/evil")}, ErrThroughLink},
		"through a local link":  {[]tar.Header{file("out/evil")}, ErrThroughLink},
		"folder over a link":    {[]tar.Header{{Typeflag: tar.TypeDir, Name: "out/"}}, ErrThroughLink},
		"hard link out":         {[]tar.Header{hard("h", "../outside/secret")}, ErrOutside},
		"rooted hard link":      {[]tar.Header{hard("h", "/etc/passwd")}, ErrOutside},
		"hard link of a link":   {[]tar.Header{link("l", "a"), hard("h", "l")}, ErrThroughLink},
		"hard link past a link": {[]tar.Header{hard("h", "out/secret")}, ErrThroughLink},
		"hard link of nothing":  {[]tar.Header{hard("h", "none")}, fs.ErrNotExist},
		"file over a folder":    {[]tar.Header{file("dir")}, ErrInTheWay},
		"file below a file":     {[]tar.Header{file("f"), file("f/g")}, ErrInTheWay},
		"the folder as a file":  {[]tar.Header{file(".")}, ErrInTheWay},
		"unknown kind":          {[]tar.Header{{Typeflag: 'Z', Name: "z"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dst := base + "/dst"
			if err := errors.Join(os.MkdirAll(dst+"/dir", 0o755), os.Mkdir(base+"/outside", 0o755),
				os.WriteFile(base+"/outside/secret", []byte("s"), 0o600), os.Symlink("../outside", dst+"/out")); err != nil {
				t.Fatal(err)
			}
			outside := tree(t, base+"/outside")
			_, err := Unpack(dst, bytes.NewReader(archive(t, c.headers...)), Excludes{}, noSkip(t))
			var member *MemberError
			if !errors.As(err, &member) || (c.want != nil && !errors.Is(err, c.want)) {
				t.Errorf("error %v, want %v about a member", err, c.want)
			}
			if got := tree(t, base+"/outside"); !slices.Equal(outside, got) {
				t.Errorf("outside there is %q", got)
			}
			if _, err := os.Lstat(base + "/evil"); err == nil {
				t.Error("evil is there")
			}
		})
	}
}

// A file takes the place of a link and is not written through it.
func TestUnpackReplacesLinks(t *testing.T) {
	t.Attr("requirement", "CLI-35")
	base := t.TempDir()
	if err := errors.Join(os.Mkdir(base+"/dst", 0o755), os.WriteFile(base+"/victim", []byte("v"), 0o644),
		os.Symlink("../victim", base+"/dst/f"), os.Symlink("../victim", base+"/dst/l")); err != nil {
		t.Fatal(err)
	}
	data := archive(t, file("f"), link("l", "f"), link("again", "f"), file("again"))
	if _, err := Unpack(base+"/dst", bytes.NewReader(data), Excludes{}, noSkip(t)); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, base+"/dst")[1:]; !slices.Equal(got, []string{"again 0644 again", "f 0644 f", "l -> f"}) {
		t.Errorf("%q", got)
	}
	if b, _ := os.ReadFile(base + "/victim"); string(b) != "v" {
		t.Errorf("the victim is %q", b)
	}
}

// Links that lead out, devices and pipes are left out and named; special bits
// are dropped.
func TestUnpackSkips(t *testing.T) {
	t.Attr("requirement", "CLI-36")
	dst := t.TempDir() + "/dst"
	var skipped []string
	su := file("su")
	su.Mode = 0o7755
	data := archive(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o751}, link("abs", "/etc/passwd"), link("up", "../x"), link("d/up", "../../x"), link("none", "x"),
		tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, su)
	_, err := Unpack(dst, bytes.NewReader(data), Excludes{}, func(name, why string) { skipped = append(skipped, name+": "+why) })
	if err != nil {
		t.Fatal(err)
	}
	if len(skipped) != 5 || !strings.Contains(skipped[0], `abs: the link leads to "/etc/passwd"`) {
		t.Errorf("%q", skipped)
	}
	info, err := os.Lstat(dst + "/su")
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if got := tree(t, dst); !slices.Equal(got, []string{". 0751", "none -> x", "su 0755 su"}) {
		t.Errorf("%q", got)
	}
}

// An archive that breaks off is never taken for a whole one, wherever it does.
func TestUnpackTruncated(t *testing.T) {
	t.Attr("requirement", "CLI-37")
	zeros := tar.Header{Typeflag: tar.TypeReg, Name: "z", Mode: 0o644, Size: 4096}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&zeros), copyZeros(w, 4096), w.Close()); err != nil {
		t.Fatal(err)
	}
	data := append(archive(t, file("a"))[:1024], b.Bytes()...)
	for n := range len(data) {
		if n%97 != 0 && n%512 > 1 {
			continue
		}
		if _, err := Unpack(t.TempDir()+"/d", bytes.NewReader(data[:n]), Excludes{}, noSkip(t)); err == nil {
			t.Errorf("%d of %d bytes pass for an archive", n, len(data))
		}
		if n%512 == 0 && n > 0 {
			if _, err := Unpack(t.TempDir()+"/d", bytes.NewReader(data[:n]), Excludes{}, noSkip(t)); !errors.Is(err, ErrTruncated) {
				t.Errorf("%d of %d bytes: %v", n, len(data), err)
			}
		}
	}
	if sum, err := Unpack(t.TempDir()+"/d", iotest.OneByteReader(bytes.NewReader(data)), Excludes{}, noSkip(t)); err != nil || sum != (Sum{2, 4097}) {
		t.Errorf("whole: %+v, %v", sum, err)
	}
	broken := errors.New("broken source")
	for n := 0; n <= len(data)-1024; n += 256 {
		src := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken))
		if _, err := Unpack(t.TempDir()+"/d", src, Excludes{}, noSkip(t)); !errors.Is(err, broken) {
			t.Errorf("broken at %d: %v", n, err)
		}
	}
	if _, err := Unpack(t.TempDir()+"/d", strings.NewReader(strings.Repeat("no tar ", 100)), Excludes{}, noSkip(t)); err == nil || !strings.Contains(err.Error(), "not a tar") {
		t.Errorf("no tar: %v", err)
	}
}

func copyZeros(w io.Writer, n int) error {
	_, err := w.Write(make([]byte, n))
	return err
}

// A file may not claim content that its archive does not hold: some bytes would
// fill the disk.
func TestUnpackRefusesSparse(t *testing.T) {
	t.Attr("requirement", "CLI-35")
	// As GNU tar 1.0 writes it: a map of one hole, in the data of the member.
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	data := "1\n1099511627776\n0\n"
	data += strings.Repeat("\x00", 512-len(data))
	h := tar.Header{Typeflag: tar.TypeReg, Name: "GNUSparseFile.0/s", Size: int64(len(data)), Mode: 0o644}
	if err := errors.Join(w.WriteHeader(&h), func() error { _, err := io.WriteString(w, data); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	records := ""
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=s", "GNU.sparse.realsize=1099511627776"} {
		n := len(r) + 4
		records += fmt.Sprintf("%d %s\n", n, r)
	}
	var p bytes.Buffer
	pw := tar.NewWriter(&p)
	// The writer refuses such records, so the block that holds them is a file whose kind is changed.
	if err := errors.Join(pw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "pax", Size: int64(len(records)), Mode: 0o644, Format: tar.FormatUSTAR}),
		func() error { _, err := io.WriteString(pw, records); return err }(), pw.Flush()); err != nil {
		t.Fatal(err)
	}
	block := p.Bytes()
	setKind(block, tar.TypeXHeader)
	_, err := Unpack(t.TempDir()+"/d", bytes.NewReader(append(block, b.Bytes()...)), Excludes{}, noSkip(t))
	if !errors.Is(err, ErrSparse) {
		t.Errorf("error %v", err)
	}
}

// setKind changes the kind of a ustar header, and its checksum.
func setKind(header []byte, kind byte) {
	header[156] = kind
	copy(header[148:156], "        ")
	sum := 0
	for _, c := range header[:512] {
		sum += int(c)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}
