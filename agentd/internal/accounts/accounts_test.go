package accounts

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"microvms/agentd/api"
)

// TestParseUser checks which lines are rows.
func TestParseUser(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-10")
	t.Attr("requirement", "EXEC-41")
	for line, want := range map[string]*User{
		"a:x:1:2:G:/home/a:/bin/sh":    {"a", 1, 2, "/home/a"},
		"a::0:0:::":                    {"a", 0, 0, ""},
		"ü:x:4294967295:1::/h:/s":      {"ü", 4294967295, 1, "/h"},
		"":                             nil,
		"# a:x:1:2:G:/h:/s":            nil,
		"#a:x:1:2:G:/h:/s":             nil,
		"+a:x:1:2:G:/h:/s":             nil,
		"-a:x:1:2:G:/h:/s":             nil,
		":x:1:2:G:/h:/s":               nil,
		"a:x:1:2:G:/h":                 nil,
		"a:x:1:2:G:/h:/s:more":         nil,
		"a:x::2:G:/h:/s":               nil,
		"a:x:-1:2:G:/h:/s":             nil,
		"a:x:1:b:G:/h:/s":              nil,
		"a:x:4294967296:2:G:/home:/sh": nil,
		"a:x:+1:2:G:/h:/s":             nil,
		"a:x:1:2:G:/h\x00:/s":          nil,
	} {
		got, ok := ParseUser(line)
		if ok != (want != nil) || (want != nil && got != *want) {
			t.Errorf("ParseUser(%q) = %+v, %v, want %+v", line, got, ok, want)
		}
	}
}

// TestParseGroup checks which lines are rows.
func TestParseGroup(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-10")
	for line, want := range map[string]*Group{
		"g:x:7:a,b":       {"g", 7},
		"g::4294967295:":  {"g", 4294967295},
		"":                nil,
		"#g:x:7:":         nil,
		"+g:x:7:":         nil,
		"-g:x:7:":         nil,
		":x:7:":           nil,
		"g:x:7":           nil,
		"g:x:7:a:b":       nil,
		"g:x:+7:":         nil,
		"g:x: 7:":         nil,
		"g:x:4294967296:": nil,
		"g\x00:x:7:":      nil,
	} {
		got, ok := ParseGroup(line)
		if ok != (want != nil) || (want != nil && got != *want) {
			t.Errorf("ParseGroup(%q) = %+v, %v, want %+v", line, got, ok, want)
		}
	}
}

// TestFiles checks that the first row wins, and that what is no small regular
// file is an empty one: a FIFO, which would hold its reader, included.
func TestFiles(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-10")
	dir := t.TempDir()
	a := &Accounts{PasswdPath: dir + "/passwd", GroupPath: dir + "/group"}
	empty := func(what string) {
		t.Helper()
		if users, groups := a.users(), a.groups(); len(users) != 0 || len(groups) != 0 {
			t.Errorf("%s: rows %v, %v", what, users, groups)
		}
	}
	empty("missing files")
	if err := errors.Join(syscall.Mkfifo(a.PasswdPath, 0o600), os.Mkdir(a.GroupPath, 0o700)); err != nil {
		t.Fatal(err)
	}
	empty("a FIFO and a folder")
	a.PasswdPath, a.GroupPath = dir+"/p", dir+"/g"
	write(t, a.PasswdPath, "\n#c\nfirst:x:5:1::/1:/s\nsecond:x:5:2::/2:/s\nfirst:x:7:2::/2:/s\nlast:x:6:1::/3:/s")
	write(t, a.GroupPath, "g:x:1:\ng:x:2:\n")
	for uid, want := range map[uint32]string{5: "first", 6: "last", 7: "first", 8: ""} {
		if u, ok := first(a.users(), func(u User) bool { return u.UID == uid }); u.Name != want || ok != (want != "") {
			t.Errorf("uid %d is %+v, %v, want %q", uid, u, ok, want)
		}
	}
	if p, bad := a.Resolve(api.Name("first"), api.Name("g"), Default{}); bad != nil || *p.UID != 5 || *p.GID != 1 {
		t.Errorf("two rows of a name: %+v, %v, want the first", p, bad)
	}
	if err := os.Truncate(a.PasswdPath, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if users := a.users(); len(users) != 0 {
		t.Errorf("a file beyond the bound has rows %v", users)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzParseGroup checks that no line crashes the parser and that a row prints
// back into its fields.
func FuzzParseGroup(f *testing.F) {
	f.Add("g:x:7:a,b")
	f.Add("g:x:07:")
	f.Fuzz(func(t *testing.T, line string) {
		g, ok := ParseGroup(line)
		if !ok {
			return
		}
		fields := strings.Split(line, ":")
		if len(fields) != 4 || fields[0] != g.Name || strings.TrimLeft(fields[2], "0") != strings.TrimLeft(strconv.FormatUint(uint64(g.GID), 10), "0") || g.Name == "" {
			t.Fatalf("ParseGroup(%q) = %+v", line, g)
		}
	})
}

// FuzzParseUser checks that no line crashes the parser and that a row prints
// back into its fields.
func FuzzParseUser(f *testing.F) {
	f.Add("a:x:1:2:G:/home/a:/bin/sh")
	f.Add("a:x:+1:2:G:/h:/s")
	f.Fuzz(func(t *testing.T, line string) {
		u, ok := ParseUser(line)
		if !ok {
			return
		}
		fields := strings.Split(line, ":")
		if len(fields) != 7 || fields[0] != u.Name || fields[5] != u.Home || u.Name == "" {
			t.Fatalf("ParseUser(%q) = %+v", line, u)
		}
	})
}

// TestSnapshot checks what of the startup environment is kept.
func TestSnapshot(t *testing.T) {
	t.Attr("requirement", "EXEC-14")
	got := Snapshot([]string{"A=1", "B=", "C=a=b", "AGENTD_=x", "AGENTD_TOKEN=x", "AGENTDX=y", "agentd_low=z", "BAD=\xff", "B\xffD=x", "=x", "nothing", "A=2"})
	want := map[string]string{"A": "1", "B": "", "C": "a=b", "AGENTDX": "y", "agentd_low": "z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if Snapshot(nil) == nil {
		t.Error("the snapshot of an empty environment is missing, not empty")
	}
}

// TestLayering checks, for any four layers, that each name has the value of
// the highest layer that holds it, that nothing else appears, and that the
// layers are left as they were.
func TestLayering(t *testing.T) {
	t.Attr("requirement", "EXEC-12")
	t.Attr("requirement", "EXEC-14")
	layer := rapid.MapOf(rapid.SampledFrom([]string{"A", "B", "HOME", "PATH", "USER"}), rapid.StringMatching(`[a-z]{0,2}`))
	rapid.Check(t, func(t *rapid.T) {
		l := Layers{layer.Draw(t, "image"), layer.Draw(t, "identity"), layer.Draw(t, "launch"), layer.Draw(t, "request")}
		before := maps.Clone(l.Image)
		got := l.Flatten()
		rising := []map[string]string{l.Image, l.Identity, l.Launch, l.Request}
		for _, name := range []string{"A", "B", "HOME", "PATH", "USER", "TOKEN"} {
			want, present := "", false
			for _, layer := range rising {
				if v, ok := layer[name]; ok {
					want, present = v, true
				}
			}
			if v, ok := got[name]; v != want || ok != present {
				t.Fatalf("%s = %q, %v, want %q, %v", name, v, ok, want, present)
			}
		}
		if !maps.Equal(before, l.Image) {
			t.Fatal("a layer was changed")
		}
		entries := Entries(got)
		if entries == nil || len(entries) != len(got) || !slices.IsSorted(entries) {
			t.Fatalf("entries %q of %v", entries, got)
		}
	})
}

// TestBadEntry checks what no environment can hold, and which of several is
// named.
func TestBadEntry(t *testing.T) {
	t.Attr("requirement", "EXEC-36")
	for _, c := range []struct {
		env  map[string]string
		name string
		bad  bool
	}{
		{nil, "", false},
		{map[string]string{"A": "b=c", "ü": "\n"}, "", false},
		{map[string]string{"": "x"}, "", true},
		{map[string]string{"A=": "x"}, "A=", true},
		{map[string]string{"A\x00": "x"}, "A\x00", true},
		{map[string]string{"A": "\x00"}, "A", true},
		{map[string]string{"Z": "\x00", "B=": "", "Y": ""}, "B=", true},
	} {
		if name, bad := BadEntry(c.env); name != c.name || bad != c.bad {
			t.Errorf("BadEntry(%q) = %q, %v, want %q, %v", c.env, name, bad, c.name, c.bad)
		}
	}
}
