package accounts

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"microvms/agentd/api"
)

// world is a guest as the property below draws it: few names and numbers, so
// that they collide.
type world struct {
	users  []User
	groups []Group
}

// files writes the world's rows between lines that are none.
func (w world) files(t *rapid.T, dir string) *Accounts {
	passwd, group := "# rows follow\n\nbroken:line\n", "+\n"
	for _, u := range w.users {
		passwd += u.Name + ":x:" + id(u.UID) + ":" + id(u.GID) + "::" + u.Home + ":/bin/sh\n"
	}
	for _, g := range w.groups {
		group += g.Name + ":x:" + id(g.GID) + ":\n"
	}
	a := &Accounts{PasswdPath: dir + "/passwd", GroupPath: dir + "/group"}
	for path, text := range map[string]string{a.PasswdPath: passwd, a.GroupPath: group} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func id(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// expect is the table of wire facts, section 9, once more: a row for each shape
// of user, written without a look at the code.
func (w world) expect(user, group *api.NameOrID, d Default) (uid, gid, account string, code api.Code) {
	byName := func(name string) (User, bool) {
		for _, u := range w.users {
			if u.Name == name {
				return u, true
			}
		}
		return User{}, false
	}
	byUID := func(uid string) (u User, ok bool) {
		for i := len(w.users) - 1; i >= 0; i-- {
			if id(w.users[i].UID) == uid {
				u, ok = w.users[i], true
			}
		}
		return u, ok
	}
	numeric := func(text string) {
		uid, gid = text, "daemon"
		if u, ok := byUID(text); ok {
			account = u.Name
		}
	}
	whole := func(u User) { uid, gid, account = id(u.UID), id(u.GID), u.Name }
	switch {
	case user != nil && !user.IsName:
		numeric(id(user.ID))
	case user != nil:
		if u, ok := byName(user.Name); ok {
			whole(u)
		} else if isDigits(user.Name) {
			numeric(user.Name)
		} else {
			return "", "", "", api.UnknownUser
		}
	case d.Name != nil:
		if u, ok := byName(*d.Name); ok {
			whole(u)
		} else if u, ok := byUID(*d.Name); ok && isDigits(*d.Name) {
			whole(u)
		} else {
			return "", "", "", api.UnknownUser
		}
	case d.Image != nil && d.Image.Err != nil:
		return "", "", "", api.UnknownUser
	case d.Image != nil:
		numeric(id(d.Image.UID))
		gid = id(d.Image.GID)
	default:
		uid, gid = "daemon", "daemon"
	}
	switch {
	case group == nil:
	case !group.IsName:
		gid = id(group.ID)
	default:
		found := ""
		for _, g := range w.groups {
			if g.Name == group.Name && found == "" {
				found = id(g.GID)
			}
		}
		if found == "" && isDigits(group.Name) {
			found = group.Name
		}
		if found == "" {
			return "", "", "", api.UnknownGroup
		}
		gid = found
	}
	return uid, gid, account, ""
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" && len(s) < 10 }

func show(n *uint32) string {
	if n == nil {
		return "daemon"
	}
	return id(*n)
}

// TestResolve compares, for any rows, request and default, whom a start runs as
// with the table. The names are few, digits among them, so that names and
// numbers stand in for each other.
func TestResolve(t *testing.T) {
	for _, requirement := range []string{"AGENTD-7", "AGENTD-8", "AGENTD-16", "ACCOUNT-1", "ACCOUNT-3", "ACCOUNT-4", "ACCOUNT-5", "ACCOUNT-6", "EXEC-38"} {
		t.Attr("requirement", requirement)
	}
	dir := t.TempDir()
	names := rapid.SampledFrom([]string{"a", "b", "7", "8", "9"})
	ids := rapid.Uint32Range(6, 9)
	words := rapid.OneOf(names, rapid.SampledFrom([]string{"", "c", "+7", "7 ", "4294967296", "a:b"}))
	ref := rapid.Custom(func(t *rapid.T) *api.NameOrID {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return api.ID(ids.Draw(t, "id"))
		}
		return api.Name(words.Draw(t, "name"))
	})
	rapid.Check(t, func(t *rapid.T) {
		w := world{}
		for range rapid.IntRange(0, 3).Draw(t, "users") {
			w.users = append(w.users, User{names.Draw(t, "name"), ids.Draw(t, "uid"), ids.Draw(t, "gid"), "/h"})
		}
		for range rapid.IntRange(0, 2).Draw(t, "groups") {
			w.groups = append(w.groups, Group{names.Draw(t, "name"), ids.Draw(t, "gid")})
		}
		d := Default{}
		if rapid.Bool().Draw(t, "default") {
			name := words.Draw(t, "default")
			d.Name = &name
		}
		if rapid.Bool().Draw(t, "preserve") {
			d.Image = &ImageUser{UID: ids.Draw(t, "uid"), GID: ids.Draw(t, "gid")}
			if rapid.Bool().Draw(t, "broken") {
				d.Image = &ImageUser{Err: syscall.ENOENT}
			}
		}
		user, group := ref.Draw(t, "user"), ref.Draw(t, "group")
		p, bad := w.files(t, dir).Resolve(user, group, d)
		uid, gid, account, code := w.expect(user, group, d)
		if bad != nil || code != "" {
			if bad == nil || bad.Code != code || p.UID != nil || p.GID != nil || p.Identity != nil {
				t.Fatalf("resolved %+v, %v, want %q", p, bad, code)
			}
			return
		}
		if show(p.UID) != uid || show(p.GID) != gid || p.Identity["USER"] != account || p.Identity["LOGNAME"] != account || (account == "") != (p.Identity == nil) {
			t.Fatalf("resolved %s:%s %v, want %s:%s %q", show(p.UID), show(p.GID), p.Identity, uid, gid, account)
		}
	})
}

// TestNamesBeforeNumbers checks that digits which are a row's name mean the
// row, whatever row has them for its number.
func TestNamesBeforeNumbers(t *testing.T) {
	t.Attr("requirement", "AGENTD-7")
	t.Attr("requirement", "ACCOUNT-1")
	dir := t.TempDir()
	a := &Accounts{PasswdPath: dir + "/passwd", GroupPath: dir + "/group"}
	write(t, a.PasswdPath, "by-number:x:7:1::/n:/s\n7:x:8:2::/d:/s\n")
	write(t, a.GroupPath, "by-number:x:7:\n7:x:9:\n")
	seven := "7"
	for _, c := range []struct {
		user *api.NameOrID
		d    Default
	}{{api.Name("7"), Default{}}, {nil, Default{Name: &seven}}} {
		p, bad := a.Resolve(c.user, api.Name("7"), c.d)
		if bad != nil || show(p.UID) != "8" || show(p.GID) != "9" || p.Identity["HOME"] != "/d" {
			t.Errorf("resolved %s:%s %v, %v, want the rows named 7", show(p.UID), show(p.GID), p.Identity, bad)
		}
	}
}

// TestRefusalsNameTheValue checks the detail of each refusal, and that a value
// of any length makes one of a bounded length.
func TestRefusalsNameTheValue(t *testing.T) {
	t.Attr("requirement", "AGENTD-8")
	t.Attr("requirement", "AGENTD-15")
	a := &Accounts{PasswdPath: t.TempDir(), GroupPath: t.TempDir()}
	long := strings.Repeat("é", 5000)
	for _, name := range []string{"somebody", "", "new\nline", long} {
		_, user := a.Resolve(api.Name(name), nil, Default{})
		_, group := a.Resolve(nil, api.Name(name), Default{})
		_, byDefault := a.Resolve(nil, nil, Default{Name: &name})
		for _, bad := range []*api.Error{user, group, byDefault} {
			if bad == nil || len(bad.Detail) > 1000 || strings.Contains(bad.Detail, "\n") {
				t.Fatalf("%.20q: %v", name, bad)
			}
			if want := strconv.Quote(name); name != long && !strings.Contains(bad.Detail, want) {
				t.Errorf("%s does not name %s", bad.Detail, want)
			}
		}
		if _, bad := FindShell("no-"+name, nil, nil); bad == nil || len(bad.Detail) > 1000 || (name == "somebody" && !strings.Contains(bad.Detail, `"no-somebody"`)) {
			t.Errorf("shell: %v", bad)
		}
	}
}

// TestNoID refuses the number that is no id, from wherever it comes, and says
// which field holds it.
func TestNoID(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-13")
	none := ^uint32(0)
	dir := t.TempDir()
	a := &Accounts{PasswdPath: dir + "/passwd", GroupPath: dir + "/group"}
	for path, text := range map[string]string{a.PasswdPath: "u:x:4294967295:1::/:/s\np:x:5:4294967295::/:/s\n", a.GroupPath: "g:x:4294967295:\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		user, group *api.NameOrID
		want        api.Code
	}{
		{api.ID(none), nil, api.UnknownUser},
		{api.Name("4294967295"), nil, api.UnknownUser},
		{api.Name("u"), nil, api.UnknownUser},
		{api.Name("u"), api.Name("g"), api.UnknownUser},
		{nil, api.ID(none), api.UnknownGroup},
		{nil, api.Name("4294967295"), api.UnknownGroup},
		{api.ID(5), api.Name("g"), api.UnknownGroup},
		{api.Name("p"), nil, api.UnknownGroup},
		{api.Name("p"), api.ID(1), ""},
		{api.ID(none - 1), api.ID(none - 1), ""},
	} {
		_, bad := a.Resolve(c.user, c.group, Default{})
		switch {
		case bad == nil && c.want == "":
		case bad == nil || bad.Code != c.want || !strings.Contains(bad.Detail, "4294967295 is no"):
			t.Errorf("user %v, group %v: %v, want %q", c.user, c.group, bad, c.want)
		}
	}
}

// TestImageUser checks which records hold a user.
func TestImageUser(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-3")
	t.Attr("requirement", "ACCOUNT-4")
	dir := t.TempDir()
	for i, c := range []struct {
		text string
		mode os.FileMode
		want string // of the ids; empty: refused
	}{
		{"1000:1001\n", 0o444, "1000:1001"},
		{"0:0", 0o644, "0:0"},
		{"4294967295:4294967295\n", 0o400, "4294967295:4294967295"},
		{"1000:1001\n\n", 0o444, ""},
		{"1000:1001 ", 0o444, ""},
		{"1000", 0o444, ""},
		{"1000:", 0o444, ""},
		{":1000", 0o444, ""},
		{"", 0o444, ""},
		{"01000:1001", 0o444, ""},
		{"+1000:1001", 0o444, ""},
		{"1000:1001:1002", 0o444, ""},
		{"4294967296:1", 0o444, ""},
		{"root:root", 0o444, ""},
		{"1000:1001\n" + strings.Repeat(" ", 100), 0o444, ""},
		{"1000:1001\n", 0o664, ""},
		{"1000:1001\n", 0o646, ""},
	} {
		path := dir + "/" + strconv.Itoa(i)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		u := ReadImageUser(path)
		if (u.Err == nil) != (c.want != "") || (u.Err == nil && u.String() != c.want) {
			t.Errorf("record %q of mode %o: %+v, want %q", c.text, c.mode, u, c.want)
		}
	}
	if err := os.Symlink(dir+"/0", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/fifo", 0o400); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "fifo", "missing", "."} {
		if u := ReadImageUser(dir + "/" + name); u.Err == nil {
			t.Errorf("%s: %+v, want a refusal", name, u)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir+"/0", 5001, 0); err != nil {
			t.Fatal(err)
		}
		if u := ReadImageUser(dir + "/0"); u.Err == nil {
			t.Errorf("a record of another owner: %+v, want a refusal", u)
		}
	}
}

// FuzzParseImageUser checks that what is read prints back into the record.
func FuzzParseImageUser(f *testing.F) {
	f.Add("1000:1001\n")
	f.Add("00:0")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseImageUser(text)
		if err == nil && u.String() != text && u.String()+"\n" != text {
			t.Fatalf("ParseImageUser(%q) = %+v", text, u)
		}
	})
}
