package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"microvms/agentd/internal/files"
)

// entry is one header with its data, as raw as a test needs it.
type entry struct {
	name, link string
	typ        byte
	body       string
	mode       int64
	edit       func(b []byte) // of the header, before its checksum
	after      func(b []byte) // of the header, behind its checksum
}

func (e entry) bytes() []byte {
	b := make([]byte, blockSize)
	copy(b[0:100], e.name)
	copy(b[100:108], fmt.Sprintf("%07o", e.mode))
	copy(b[108:116], "0000000")
	copy(b[116:124], "0000000")
	copy(b[124:136], fmt.Sprintf("%011o", len(e.body)))
	copy(b[136:148], "00000000000")
	b[156] = e.typ
	copy(b[157:257], e.link)
	copy(b[257:265], "ustar\x0000")
	if e.edit != nil {
		e.edit(b)
	}
	seal(b)
	if e.after != nil {
		e.after(b)
	}
	padded := (len(e.body) + blockSize - 1) / blockSize * blockSize
	return append(append(b, e.body...), make([]byte, padded-len(e.body))...)
}

// seal writes the checksum.
func seal(b []byte) {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// cut is an archive without its end.
func cut(entries ...entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.Write(e.bytes())
	}
	return b.Bytes()
}

// whole is an archive with its end.
func whole(entries ...entry) []byte { return append(cut(entries...), make([]byte, 2*blockSize)...) }

func file(name, body string) entry   { return entry{name: name, typ: '0', body: body, mode: 0o644} }
func dir(name string) entry          { return entry{name: name, typ: '5', mode: 0o755} }
func symlink(name, to string) entry  { return entry{name: name, typ: '2', link: to, mode: 0o777} }
func hardlink(name, to string) entry { return entry{name: name, typ: '1', link: to, mode: 0o644} }

// pax is an extended header of records, each "key=value".
func pax(typ byte, records ...string) entry {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(record(r))
	}
	return entry{name: "PaxHeaders.0/x", typ: typ, body: b.String(), mode: 0o644}
}

func record(r string) string {
	n := len(r) + 3
	for len(fmt.Sprintf("%d %s\n", n, r)) != n {
		n++
	}
	return fmt.Sprintf("%d %s\n", n, r)
}

// place is a folder for an archive with a canary beside it.
type place struct {
	t         *testing.T
	base, dir string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, base: memoryDir(t)}
	p.dir = filepath.Join(p.base, "root")
	canary := filepath.Join(p.base, "canary")
	for _, path := range []string{p.dir, filepath.Join(canary, "sub")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "sub/file"} {
		if err := os.WriteFile(filepath.Join(canary, name), []byte("alive"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// intact fails the test unless the canary is as it was and alone beside the root.
func (p *place) intact() {
	p.t.Helper()
	want := "canary/ canary/file=alive(600) canary/sub/ canary/sub/file=alive(600)"
	got := strings.Join(listing(p.t, p.base, "root"), " ")
	if got != want {
		p.t.Errorf("beside the root: %s, want %s", got, want)
	}
	if info, err := os.Stat(filepath.Join(p.base, "canary", "sub")); err != nil || info.Mode().Perm() != 0o755 {
		p.t.Errorf("the mode of a folder beside the root: %v, %v", info.Mode(), err)
	}
}

// memoryDir is a folder that ends with the test, in memory where the machine has
// such a filesystem: generated cases make tens of thousands of entries.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "archive-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// limits are wide enough for every test that is not about them.
var limits = Limits{Members: 1000, Bytes: 1 << 30}

// extract places an archive and looks after the canary.
func (p *place) extract(archive []byte, edit ...func(*Options)) error {
	p.t.Helper()
	o := Options{Reserve: &files.Reserve{}, Limits: limits}
	for _, e := range edit {
		e(&o)
	}
	err := Extract(context.Background(), bytes.NewReader(archive), int64(len(archive)), p.dir, o)
	p.intact()
	return err
}

// listing lists what is below dir, without the entries of the names in except:
// "folder/", "file=content(mode)", "link->target".
func listing(t *testing.T, dir string, except ...string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		for _, x := range except {
			if rel == x {
				return fs.SkipDir
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			rel += "/"
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			rel += "->" + to
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel += fmt.Sprintf("=%s(%o)", b, unixMode(info.Mode()))
		}
		lines = append(lines, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return lines
}

// unixMode has setuid, setgid and sticky where the kernel has them.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// kindOf returns the kind of a refusal, -1 for success and -2 for other errors.
func kindOf(err error) Kind {
	var r *Refusal
	switch {
	case err == nil:
		return -1
	case errors.As(err, &r):
		return r.Kind
	}
	return -2
}

const (
	fine  = Kind(-1)
	other = Kind(-2)
)
