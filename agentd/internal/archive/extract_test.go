package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

// TestMembers extracts archives below an empty root and compares verdict and
// tree, and after each looks after a canary beside the root.
func TestMembers(t *testing.T) {
	for _, id := range []string{"FS-13", "FS-16", "FS-19", "FS-20", "FS-23", "FS-24"} {
		t.Attr("requirement", id)
	}
	mode := func(e entry, m int64) entry { e.mode = m; return e }
	deep := strings.Repeat("0123456789abcdef/", 300)
	for _, c := range []struct {
		name    string
		archive []byte
		want    Kind
		says    string
		tree    string
	}{
		{"plain", whole(dir("d/"), file("d/f", "x"), file("a/b/c", "y")), fine, "", "a/ a/b/ a/b/c=y(644) d/ d/f=x(644)"},
		{"dots in names", whole(file("./a", "1"), file("b//c", "2"), file("x/../y", "3"), dir("."), dir("./"), dir("z/..")), fine, "", "a=1(644) b/ b/c=2(644) y=3(644)"},
		{"rooted", whole(file("ok", ""), file("/etc/x", "")), Unsafe, `"/etc/x": rooted`, ""},
		{"rooted twice", whole(file("//x", "")), Unsafe, "rooted", ""},
		{"dots above", whole(file("../x", "")), Unsafe, `"../x": path leaves`, ""},
		{"dots above late", whole(file("a/../../x", "")), Unsafe, "path leaves", ""},
		{"dots above behind a dot", whole(file("./../x", "")), Unsafe, "path leaves", ""},
		{"dots above in PAX", whole(pax('x', "path=../x"), file("x", "")), Unsafe, `"../x"`, ""},
		{"dots above in a long name", whole(entry{typ: 'L', body: "../x\x00"}, file("x", "")), Unsafe, `"../x"`, ""},
		{"the root as a file", whole(file("a/..", "")), Unsafe, "names the root", ""},
		{"the root as a link", whole(symlink(".", "a")), Unsafe, "names the root", ""},
		{"no name", whole(file("", "")), Unsafe, "names the root", ""},
		{"component of 255 bytes", whole(pax('x', "path="+strings.Repeat("n", 255)), file("x", "1")), fine, "", strings.Repeat("n", 255) + "=1(644)"},
		{"component of 256 bytes", whole(pax('x', "path="+strings.Repeat("n", 256)), file("x", "1")), Unsafe, "255", ""},
		{"odd bytes", whole(file("-a b\n\x1b[2J\xff\\C:", "1")), fine, "", "-a b\n\x1b[2J\xff\\C:=1(644)"},

		{"character device", whole(file("ok", ""), entry{name: "n", typ: '3'}), Unsafe, `"n": device members are refused (type '3')`, ""},
		{"block device", whole(entry{name: "n", typ: '4'}), Unsafe, "type '4'", ""},
		{"fifo", whole(entry{name: "n", typ: '6'}), Unsafe, "type '6'", ""},
		{"sparse", whole(entry{name: "n", typ: 'S'}), Unsafe, "type 'S'", ""},
		{"sparse in PAX", whole(pax('x', "GNU.sparse.major=1"), file("n", "")), Unsafe, "sparse", ""},
		{"unknown type", whole(entry{name: "n", typ: 'Z', body: "z", mode: 0o600}), fine, "", "n=z(600)"},
		{"contiguous", whole(entry{name: "n", typ: '7', body: "z", mode: 0o600}), fine, "", "n=z(600)"},

		{"modes", whole(mode(dir("d"), 0o2777), mode(file("d/s", ""), 0o6777), mode(file("d/t", ""), 0o1640)), fine, "", "d/ d/s=(755) d/t=(640)"},
		{"owner and xattr", whole(pax('x', "uid=4294967295", "SCHILY.xattr.security.capability=x"), file("f", "")), fine, "", "f=(644)"},
		{"link in the tree", whole(file("a/f", "x"), symlink("a/l", "../b/./c")), fine, "", "a/ a/f=x(644) a/l->../b/./c"},
		{"link to the root", whole(symlink("a/l", "..")), fine, "", "a/ a/l->.."},
		{"absolute link", whole(symlink("d", "/etc"), file("d/x", "")), Unsafe, `"d": absolute link target`, ""},
		{"link that leaves", whole(symlink("a/l", "../../x")), Unsafe, "link target leaves", ""},
		{"link without a target", whole(symlink("l", "")), Unsafe, "without a target", ""},
		{"link target of 4095 bytes", whole(pax('x', "linkpath="+strings.Repeat("x/../", 818)+"abcde"), symlink("l", "x")), fine, "", "l->" + strings.Repeat("x/../", 818) + "abcde"},
		{"link target of 4096 bytes", whole(pax('x', "linkpath="+strings.Repeat("x/../", 819)+"a"), symlink("l", "x")), Unsafe, "4095", ""},
		{"link target of 70000 bytes", whole(pax('x', "linkpath="+strings.Repeat("x/../", 14000)), symlink("l", "x")), Unsafe, "4095", ""},
		{"hard link", whole(file("a/f", "x"), hardlink("b/h", "a/f")), fine, "", "a/ a/f=x(644) b/ b/h=x(644)"},
		{"hard link to itself", whole(file("f", "x"), hardlink("f", "./f")), fine, "", "f=x(644)"},
		{"absolute hard link", whole(hardlink("h", "/etc/passwd")), Unsafe, "absolute link target", ""},
		{"hard link that leaves", whole(hardlink("a/h", "../x")), Unsafe, "link target leaves", ""},
		{"hard link to the root", whole(hardlink("a/h", ".")), Unsafe, "hard link to the root", "a/"},
		{"hard link to nothing", whole(hardlink("h", "none")), Broken, `"h": cannot open the source`, ""},
		{"hard link to a symbolic link", whole(dir("a"), symlink("a/l", "../f"), hardlink("h", "a/l")), Unsafe, "no regular file", "a/ a/l->../f"},
		{"hard link to a folder", whole(dir("a"), hardlink("h", "a")), Unsafe, "no regular file", "a/"},
		{"hard link through a symbolic link", whole(file("a/f", ""), symlink("l", "a"), hardlink("h", "l/f")), Unsafe, "symbolic link", "a/ a/f=(644) l->a"},

		{"file through a link", whole(dir("d"), symlink("l", "d"), file("l/x", "")), Unsafe, `"l/x": path would traverse a symbolic link`, "d/ l->d"},
		{"folder through a link", whole(dir("d"), symlink("l", "d"), dir("l/x")), Unsafe, "symbolic link", "d/ l->d"},
		{"folder over a link", whole(dir("d"), symlink("l", "d"), dir("l")), Unsafe, "symbolic link", "d/ l->d"},
		{"a level shallower than it looks", whole(dir("V/a"), symlink("V/a/b", "."), symlink("V/a/b/c", "../W/escape")), Unsafe, "symbolic link", "V/ V/a/ V/a/b->."},
		{"dots behind a link", whole(symlink("V/a/..", "."), symlink("V/a/a/..", "../W/escape")), Unsafe, "symbolic link", "V->."},
		{"file over a link", whole(file("t", "target"), symlink("l", "t"), file("l", "new")), fine, "", "l=new(644) t=target(644)"},
		{"file twice", whole(file("f", "1"), file("f", "2")), fine, "", "f=2(644)"},
		{"link over a file", whole(file("f", "1"), symlink("f", "g")), fine, "", "f->g"},
		{"file over a hard link", whole(mode(file("a", "1"), 0o600), hardlink("b", "a"), file("b", "2")), fine, "", "a=1(600) b=2(644)"},
		{"folder over a file", whole(file("f", "1"), dir("f")), Broken, `"f"`, "f=1(644)"},
		{"file below a file", whole(file("f", "1"), file("f/g", "")), Broken, `"f/g"`, "f=1(644)"},
		{"file over a folder", whole(file("d/x", ""), file("d", "")), Broken, "a folder is in the way", "d/ d/x=(644)"},
		{"link over a folder, then in it", whole(dir("d"), symlink("d", "e"), file("d/x", "")), Broken, "a folder is in the way", "d/"},
		{"300 nested folders", whole(pax('x', "path="+deep+"f"), file("f", "x")), fine, "", ""},
	} {
		p := newPlace(t)
		err := p.extract(c.archive)
		if kindOf(err) != c.want || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want kind %d with %q", c.name, err, c.want, c.says)
		}
		if c.name == "300 nested folders" {
			// The path is longer than the kernel takes at once, so it is read as it was written.
			if got := packed(t, p.dir); len(got) != 302 || got[301] != deep+"f" {
				t.Errorf("%s: %d members come back", c.name, len(got))
			}
			continue
		}
		if text := strings.Join(listing(t, p.dir), " "); text != c.tree {
			t.Errorf("%s: the tree is %.300q, want %.300q", c.name, text, c.tree)
		}
	}
}

// TestOldTreeKeepsItsInodes extracts over files that have other names outside.
func TestOldTreeKeepsItsInodes(t *testing.T) {
	t.Attr("requirement", "FS-19")
	p := newPlace(t)
	shared := filepath.Join(p.base, "canary", "file")
	if err := os.Link(shared, p.dir+"/f"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../canary/sub/file", p.dir+"/l"); err != nil {
		t.Fatal(err)
	}
	if err := p.extract(whole(file("f", "new"), file("l", "new"))); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(listing(t, p.dir), " "); got != "f=new(644) l=new(644)" {
		t.Errorf("the tree is %s", got)
	}
}

// TestFolderModesComeLast fills folders whose modes forbid it, as a user who is
// bound by them would see it, and deepest first.
func TestFolderModesComeLast(t *testing.T) {
	t.Attr("requirement", "FS-20")
	p := newPlace(t)
	rec := &recorder{}
	ro := func(name string) entry { return entry{name: name, typ: '5', mode: 0o500} }
	err := p.extract(whole(ro("a"), ro("a/b"), ro("c"), file("a/b/f", "x"), dir("c")), func(o *Options) { o.Recorder = rec })
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{"a": 0o500, "a/b": 0o500, "c": 0o755} {
		if info, err := os.Stat(p.dir + "/" + path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
		}
	}
	if got := rec.members(trace.ArchiveMode); got != "2 1 3 5" {
		t.Errorf("modes were applied to members %s, want 2 1 3 5", got)
	}
}

type recorder struct{ events []trace.Event }

func (r *recorder) Record(e trace.Event) { r.events = append(r.events, e) }

func (r *recorder) members(a trace.Action) string {
	var got []string
	for _, e := range r.events {
		if e.Action == a {
			got = append(got, fmt.Sprint(e.Member))
		}
	}
	return strings.Join(got, " ")
}

// TestCapsAreInclusive takes archives of exactly the caps, and one more.
func TestCapsAreInclusive(t *testing.T) {
	t.Attr("requirement", "FS-25")
	caps := func(members int, bytes int64) func(*Options) {
		return func(o *Options) { o.Limits = Limits{members, bytes} }
	}
	three := whole(pax('x', "comment=no member"), file("a", "12345"), dir("d"), file("b", "67890"))
	for _, c := range []struct {
		members int
		bytes   int64
		want    Kind
	}{{3, 10, fine}, {2, 10, TooMuch}, {3, 9, TooMuch}, {1000, 4, TooMuch}} {
		p := newPlace(t)
		if err := p.extract(three, caps(c.members, c.bytes)); kindOf(err) != c.want {
			t.Errorf("%d members and %d bytes allowed: %v, want kind %d", c.members, c.bytes, err, c.want)
		}
		if got := listing(t, p.dir); (len(got) == 0) != (c.want != fine) {
			t.Errorf("%d members and %d bytes allowed: %v was placed", c.members, c.bytes, got)
		}
	}
}

// TestNoOpenat2 refuses where the kernel lacks it.
func TestNoOpenat2(t *testing.T) {
	t.Attr("requirement", "FS-18")
	p := newPlace(t)
	err := p.extract(whole(file("a/b", "x")), func(o *Options) {
		o.Openat2 = func(dirfd int, path string, how *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
	})
	if kindOf(err) != Broken || !strings.Contains(err.Error(), "openat2") || len(listing(t, p.dir)) != 0 {
		t.Errorf("%v, want a refusal that names openat2", err)
	}
	// Also where the root could still be opened.
	err = p.extract(whole(file("a/b", "x")), func(o *Options) {
		o.Openat2 = func(dirfd int, path string, how *unix.OpenHow) (int, error) {
			if dirfd == unix.AT_FDCWD {
				return unix.Openat2(dirfd, path, how)
			}
			return -1, unix.ENOSYS
		}
	})
	if kindOf(err) != Broken || !strings.Contains(err.Error(), "openat2") || len(listing(t, p.dir)) != 0 {
		t.Errorf("%v, want a refusal that names openat2", err)
	}
}

// act is a gate that does something, once, when a member reaches a transition.
type act struct {
	at     trace.Action
	member uint64
	do     func()
	done   bool
}

func (a *act) Pass(_ context.Context, p trace.Point) error {
	if p.Action == a.at && p.Member == a.member && !a.done {
		a.done = true
		a.do()
	}
	return nil
}

// TestGuestChangesTheTree changes the tree between check and use, as another
// process in the guest could.
func TestGuestChangesTheTree(t *testing.T) {
	t.Attr("requirement", "FS-17")
	t.Attr("requirement", "FS-20")
	canary := "../canary/sub"
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	two := whole(dir("d"), file("d/file", "new"))
	for _, c := range []struct {
		name    string
		archive []byte
		at      trace.Action
		member  uint64
		do      func(t *testing.T, root string)
		want    Kind
		tree    string
	}{
		{"a folder becomes a link before it is resolved", whole(file("d/file", "new")), trace.ArchiveResolve, 1, func(t *testing.T, root string) {
			must(t, os.Symlink(canary, root+"/d"))
		}, Unsafe, "d->../canary/sub"},
		{"a held folder becomes a link before the member", two, trace.ArchiveMember, 2, func(t *testing.T, root string) {
			must(t, os.Rename(root+"/d", root+"/moved"))
			must(t, os.Symlink(canary, root+"/d"))
		}, fine, "d->../canary/sub moved/ moved/file=new(644)"},
		{"a held folder becomes a link before the place", two, trace.ArchivePlace, 2, func(t *testing.T, root string) {
			must(t, os.Rename(root+"/d", root+"/moved"))
			must(t, os.Symlink(canary, root+"/d"))
		}, fine, "d->../canary/sub moved/ moved/file=new(644)"},
		{"a link is planted under the member's name", two, trace.ArchivePlace, 2, func(t *testing.T, root string) {
			must(t, os.Symlink("../"+canary+"/file", root+"/d/file"))
		}, fine, "d/ d/file=new(644)"},
		{"a folder is planted under the member's name", two, trace.ArchivePlace, 2, func(t *testing.T, root string) {
			must(t, os.Mkdir(root+"/d/file", 0o755))
		}, Broken, "d/ d/file/"},
		{"a folder gets its mode behind a link", whole(entry{name: "d", typ: '5', mode: 0o700}, file("d/file", "new")), trace.ArchiveMode, 1, func(t *testing.T, root string) {
			must(t, os.Rename(root+"/d", root+"/moved"))
			must(t, os.Symlink(canary, root+"/d"))
		}, fine, "d->../canary/sub moved/ moved/file=new(644)"},
		{"the source of a hard link becomes a link", whole(file("s", "x"), hardlink("h", "s")), trace.ArchivePlace, 2, func(t *testing.T, root string) {
			must(t, os.Remove(root+"/s"))
			must(t, os.Symlink(canary+"/file", root+"/s"))
		}, Unsafe, "s->../canary/sub/file"},
		{"the root is moved away", two, trace.ArchiveMember, 2, func(t *testing.T, root string) {
			must(t, os.Rename(root, root+"2"))
			must(t, os.Symlink("canary", root))
			must(t, os.Remove(root))
			must(t, os.Rename(root+"2", root))
		}, fine, "d/ d/file=new(644)"},
		{"the member is removed while its turn begins", two, trace.ArchiveMember, 2, func(t *testing.T, root string) {
			must(t, os.RemoveAll(root+"/d"))
		}, Broken, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			gate := &act{at: c.at, member: c.member, do: func() { c.do(t, p.dir) }}
			err := p.extract(c.archive, func(o *Options) { o.Gate = gate })
			if !gate.done {
				t.Fatal("the gate was never passed")
			}
			if kindOf(err) != c.want {
				t.Errorf("%v, want kind %d", err, c.want)
			}
			if got := strings.Join(listing(t, p.dir), " "); got != c.tree {
				t.Errorf("the tree is %s, want %s", got, c.tree)
			}
		})
	}
}

// TestRoots opens roots of every kind.
func TestRoots(t *testing.T) {
	t.Attr("requirement", "FS-13")
	base := t.TempDir()
	for _, err := range []error{os.Mkdir(base+"/d", 0o700), os.Symlink("d", base+"/l"), os.WriteFile(base+"/f", nil, 0o600), os.Symlink("nowhere", base+"/dangling"), os.Symlink("loop", base+"/loop")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Open(base + "/d")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for path, want := range map[string]Kind{
		base + "/d": fine, base + "/new/er": fine, base + "/l": fine, base + "/l/below": fine, base + "/f": BadRoot, base + "/f/x": BadRoot,
		base + "/dangling": Broken, base + "/loop": BadRoot, fmt.Sprintf("/proc/self/fd/%d", held.Fd()): BadRoot, "relative": BadRoot, "/proc/none/new": Broken,
	} {
		a := whole(file("x", "1"))
		err := Extract(t.Context(), bytes.NewReader(a), int64(len(a)), path, Options{Reserve: &files.Reserve{}, Limits: limits})
		if kindOf(err) != want {
			t.Errorf("%s: %v, want kind %d", path, err, want)
		}
	}
	if _, err := os.Stat(base + "/d/below/x"); err != nil {
		t.Error(err)
	}
}

// TestReserveDuringExtraction lets another process fill the disk while members
// are placed.
func TestReserveDuringExtraction(t *testing.T) {
	t.Attr("requirement", "FS-10")
	t.Attr("requirement", "FS-11")
	big := strings.Repeat("x", 20<<20)
	a := whole(file("first", "1"), file("big", big), file("last", "2"))
	p := newPlace(t)
	looks := 0
	reserve := &files.Reserve{Bytes: 10 << 20, Probe: func(string) (files.Space, error) {
		looks++
		return files.Space{Available: uint64(64/looks/looks) << 20, Device: 1}, nil
	}}
	err := p.extract(a, func(o *Options) { o.Reserve = reserve })
	var full *files.FullError
	if !errors.As(err, &full) || looks != 2 {
		t.Errorf("%v after %d looks, want a full disk at the second", err, looks)
	}
	if got := strings.Join(listing(t, p.dir), " "); got != "first=1(644)" {
		t.Errorf("the tree is %.100s, want the first member alone", got)
	}
	looks = 0
	reserve.Bytes = 50 << 20
	p = newPlace(t)
	if err := p.extract(a, func(o *Options) { o.Reserve = reserve }); !errors.As(err, &full) || len(listing(t, p.dir)) != 0 {
		t.Errorf("%v, want a full disk before anything is placed", err)
	}
}
