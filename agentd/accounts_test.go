package agentd_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"microvms/agentd"
	"microvms/agentd/api"
)

// The guest's files as these tests write them.
const (
	passwdRows = "root:x:0:0::/root:/bin/sh\nalice:x:5001:6001::/home/alice:/bin/sh\nbob:x:5002:6002::/home/bob:/bin/sh\n5009:x:5010:6010::/home/digits:/bin/sh\n"
	groupRows  = "staff:x:7001:\n7009:x:7010:\n"
)

// guest gives a daemon user and group files of its own.
func guest(t *testing.T, c *agentd.Config) {
	t.Helper()
	dir := t.TempDir()
	c.PasswdPath, c.GroupPath, c.ImageUserPath = dir+"/passwd", dir+"/group", dir+"/image-user"
	writeFile(t, c.PasswdPath, passwdRows)
	writeFile(t, c.GroupPath, groupRows)
}

// record seals an image user for the daemon.
func record(t *testing.T, c *agentd.Config, text string) {
	t.Helper()
	writeFile(t, c.ImageUserPath, text)
	if err := os.Chmod(c.ImageUserPath, 0o444); err != nil {
		t.Fatal(err)
	}
	c.PreserveImageUser = true
}

// showIDs prints the real uid, the real gid and the supplementary groups.
const showIDs = `while read -r key a rest; do case $key in Uid:|Gid:|Groups:) printf '%s ' "${a:-none}";; esac; done < /proc/self/status; echo "$HOME,$USER,$LOGNAME"`

// TestUsersAndGroups starts commands as every kind of user and group and reads
// what they really ran as. Only root can.
func TestUsersAndGroups(t *testing.T) {
	for _, id := range []string{"AGENTD-7", "AGENTD-9", "AGENTD-16", "ACCOUNT-1", "ACCOUNT-3", "ACCOUNT-5", "ACCOUNT-6", "EXEC-17"} {
		t.Attr("requirement", id)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run a child as another user")
	}
	name := func(s string) func(*testing.T, *agentd.Config) {
		return func(_ *testing.T, c *agentd.Config) { c.DefaultUser = &s }
	}
	sealed := func(text string) func(*testing.T, *agentd.Config) {
		return func(t *testing.T, c *agentd.Config) { record(t, c, text) }
	}
	both := func(t *testing.T, c *agentd.Config) { name("alice")(t, c); record(t, c, "5030:6030\n") }
	me := os.Getgid()
	for i, c := range []struct {
		image       func(*testing.T, *agentd.Config)
		user, group any
		want        string
	}{
		{nil, nil, nil, fmt.Sprintf("0 %d ? ,,", me)},
		{nil, "alice", nil, "5001 6001 none /home/alice,alice,alice"},
		{nil, "alice", "staff", "5001 7001 none /home/alice,alice,alice"},
		{nil, "alice", 0, "5001 0 none /home/alice,alice,alice"},
		{nil, "5009", "7009", "5010 7010 none /home/digits,5009,5009"},
		{nil, "5002", nil, fmt.Sprintf("5002 %d none /home/bob,bob,bob", me)},
		{nil, 5002, nil, fmt.Sprintf("5002 %d none /home/bob,bob,bob", me)},
		{nil, "0005003", "7003", "5003 7003 none ,,"},
		{nil, 5009, 7009, "5009 7009 none ,,"},
		{nil, nil, "staff", "0 7001 none ,,"},
		{name("alice"), nil, nil, "5001 6001 none /home/alice,alice,alice"},
		{name("alice"), nil, "staff", "5001 7001 none /home/alice,alice,alice"},
		{name("5002"), nil, nil, "5002 6002 none /home/bob,bob,bob"},
		{name("5009"), nil, nil, "5010 6010 none /home/digits,5009,5009"},
		{name("alice"), 0, nil, fmt.Sprintf("0 %d none /root,root,root", me)},
		{name("nobody"), "bob", nil, "5002 6002 none /home/bob,bob,bob"},
		{sealed("5030:6030\n"), nil, nil, "5030 6030 none ,,"},
		{sealed("5002:6030"), nil, nil, "5002 6030 none /home/bob,bob,bob"},
		{sealed("5030:6030"), nil, 7001, "5030 7001 none ,,"},
		{sealed("5030:6030"), "alice", nil, "5001 6001 none /home/alice,alice,alice"},
		{sealed("broken"), "alice", nil, "5001 6001 none /home/alice,alice,alice"},
		{both, nil, nil, "5001 6001 none /home/alice,alice,alice"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			d := booted(t, func(config *agentd.Config) {
				guest(t, config)
				if c.image != nil {
					c.image(t, config)
				}
			})
			more := map[string]any{"shell": true}
			if c.user != nil {
				more["user"] = c.user
			}
			if c.group != nil {
				more["group"] = c.group
			}
			d.startExec("e", more, showIDs)
			got := strings.TrimSuffix(d.outcome("e").Stdout, "\n")
			if strings.Contains(c.want, "?") { // the daemon's own groups, whatever they are
				words := strings.SplitN(got, " ", 4)
				got = strings.Join([]string{words[0], words[1], "?", words[len(words)-1]}, " ")
			}
			if got != c.want {
				t.Errorf("user %v, group %v: ran as %q, want %q", c.user, c.group, got, c.want)
			}
		})
	}
}

// TestDefaultUserThatDoesNotResolve checks that a start without a user is never
// run as root where the image sets one that is not there, that the refusal says
// what to mend, and that a start with a user and a known id go on.
func TestDefaultUserThatDoesNotResolve(t *testing.T) {
	for _, id := range []string{"EXEC-4", "EXEC-38", "ACCOUNT-4", "ACCOUNT-5"} {
		t.Attr("requirement", id)
	}
	name := func(s string) func(*agentd.Config) { return func(c *agentd.Config) { c.DefaultUser = &s } }
	for what, c := range map[string]struct {
		edit  func(*agentd.Config)
		words []string
	}{
		"unknown name":          {name("nobody"), []string{"AGENTD_DEFAULT_USER", "nobody"}},
		"digits without a row":  {name("5003"), []string{"AGENTD_DEFAULT_USER", "5003", "passwd row", "required in the image"}},
		"empty":                 {name(""), []string{"AGENTD_DEFAULT_USER"}},
		"no record":             {func(c *agentd.Config) { c.PreserveImageUser = true }, []string{"AGENTD_PRESERVE_IMAGE_USER", "no such file"}},
		"broken record":         {func(c *agentd.Config) { record(t, c, "root") }, []string{"AGENTD_PRESERVE_IMAGE_USER", "UID:GID"}},
		"empty beside a record": {func(c *agentd.Config) { record(t, c, "5030:6030"); name("")(c) }, []string{"AGENTD_DEFAULT_USER"}},
	} {
		t.Run(what, func(t *testing.T) {
			d := booted(t, func(config *agentd.Config) { guest(t, config); c.edit(config) })
			r := d.post(api.PathExecStart, `{"exec_id":"u","command":["true"]}`)
			if r.status != 400 || r.code() != api.UnknownUser {
				t.Errorf("without a user: %v, want unknown_user", r)
			}
			for _, word := range c.words {
				if !strings.Contains(r.body, word) {
					t.Errorf("%s does not mention %q", r.body, word)
				}
			}
			if r := d.get("/v1/exec/u"); r.code() != api.UnknownExec {
				t.Errorf("poll: %v, want unknown_exec", r)
			}
			if os.Getuid() == 0 {
				d.startExec("u", map[string]any{"user": 0}, "true")
				if r := d.post(api.PathExecStart, `{"exec_id":"u","command":["true"]}`); r.status != 200 {
					t.Errorf("a known id without a user: %v", r)
				}
			}
		})
	}
}

// TestFilesAreReadPerRequest changes the files between starts of one daemon.
func TestFilesAreReadPerRequest(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-2")
	me := fmt.Sprint(os.Getuid())
	user := "me"
	var passwd, group string
	d := booted(t, func(c *agentd.Config) {
		guest(t, c)
		passwd, group, c.DefaultUser = c.PasswdPath, c.GroupPath, &user
	})
	try := func(id, more string, want api.Code) {
		t.Helper()
		if r := d.post(api.PathExecStart, `{"exec_id":"`+id+`","command":["/usr/bin/env"]`+more+`}`); r.code() != want {
			t.Errorf("%s: %v, want %q", id, r, want)
		}
	}
	try("a", ``, api.UnknownUser)
	try("b", `,"user":"me"`, api.UnknownUser)
	writeFile(t, passwd, "me:x:"+me+":"+fmt.Sprint(os.Getgid())+"::/home/me:/bin/sh\n")
	try("a", `,"group":"mine"`, api.UnknownGroup)
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	try("a", `,"group":"mine"`, api.UnknownGroup)
	writeFile(t, group, "mine:x:"+fmt.Sprint(os.Getgid())+":\n")
	try("a", `,"group":"mine"`, "")
	try("b", `,"user":"me"`, "")
	try("c", ``, "")
	if got := d.outcome("c").Stdout; got != "HOME=/home/me\nLOGNAME=me\nUSER=me\n" {
		t.Errorf("environment %q", got)
	}
	if err := os.Remove(passwd); err != nil {
		t.Fatal(err)
	}
	try("d", ``, api.UnknownUser)
	try("c", ``, "") // known, so no file is asked
}

// TestDiscovery checks what is published of the default user, and by whom it
// can be read.
func TestDiscovery(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-7")
	t.Attr("requirement", "ACCOUNT-8")
	name := func(s string) func(*agentd.Config) { return func(c *agentd.Config) { c.DefaultUser = &s } }
	for what, c := range map[string]struct {
		edit   func(*agentd.Config)
		want   string
		header bool
	}{
		"none":       {func(*agentd.Config) {}, `null`, false},
		"name":       {name("nobody-has-this"), `"nobody-has-this"`, true},
		"digits":     {name("0042"), `"0042"`, true},
		"empty":      {name(""), `""`, true},
		"record":     {func(c *agentd.Config) { record(t, c, "5030:6030\n") }, `"5030:6030"`, true},
		"bad record": {func(c *agentd.Config) { record(t, c, "5030") }, `""`, true},
		"no record":  {func(c *agentd.Config) { c.PreserveImageUser = true }, `""`, true},
		"both":       {func(c *agentd.Config) { record(t, c, "5030:6030"); name("alice")(c) }, `"alice"`, true},
	} {
		t.Run(what, func(t *testing.T) {
			d := start(t, func(config *agentd.Config) { guest(t, config); c.edit(config) })
			if r := d.get(api.PathDiscovery); r.status != 503 || r.body != "" {
				t.Errorf("before bootstrap: %v, want 503", r)
			}
			d.bootstrap(nil)
			if r := d.with("GET", api.PathDiscovery, "", nil); r.status != 401 {
				t.Errorf("without a bearer: %v, want 401", r)
			}
			r := d.get(api.PathDiscovery)
			if r.status != 200 || r.body != `{"default_user":`+c.want+`}` {
				t.Errorf("%v, want default_user %s", r, c.want)
			}
			header := d.get(api.PathHealth).header[http.CanonicalHeaderKey(api.HeaderDefaultUser)]
			if (len(header) == 1 && header[0] == "1") != c.header || len(header) > 1 {
				t.Errorf("health header %q, want it: %v", header, c.header)
			}
		})
	}
}

// TestRecordIsReadOnce checks that a record rewritten under a running daemon
// changes nobody's user.
func TestRecordIsReadOnce(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-3")
	var path string
	d := booted(t, func(c *agentd.Config) { guest(t, c); record(t, c, "5030:6030"); path = c.ImageUserPath })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "0:0")
	if r := d.get(api.PathDiscovery); r.body != `{"default_user":"5030:6030"}` {
		t.Errorf("%v, want the ids that were sealed", r)
	}
}

// TestNamedShells runs scripts under shells found on each of the paths.
func TestNamedShells(t *testing.T) {
	for _, id := range []string{"AGENTD-14", "AGENTD-15", "ACCOUNT-9"} {
		t.Attr("requirement", id)
	}
	dir := t.TempDir()
	for sub, mode := range map[string]os.FileMode{"child": 0o755, "image": 0o755, "plain": 0o644} {
		if err := os.Mkdir(dir+"/"+sub, 0o755); err != nil {
			t.Fatal(err)
		}
		shell := "#!/bin/sh\necho \"" + sub + " $0 $1 $2 $#\"\n"
		for _, name := range []string{"testsh", sub + "sh"} {
			if err := os.WriteFile(dir+"/"+sub+"/"+name, []byte(shell), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := booted(t, func(c *agentd.Config) { c.Environ = []string{"PATH=" + dir + "/image"} })
	child := map[string]string{"PATH": "child:" + dir + "/plain:" + dir + "/child"}
	for i, c := range []struct {
		shell string
		env   map[string]string
		want  string // the shell's folder; empty: unknown_shell
	}{
		{"testsh", child, "child"},
		{"testsh", nil, "image"},
		{"imagesh", child, "image"},
		{dir + "/child/testsh", nil, "child"},
		{"plainsh", child, ""},
		{"childsh", nil, ""},
		{"childsh", map[string]string{"PATH": "child:."}, ""},
		{"child/testsh", child, ""},
		{dir + "/plain/testsh", child, ""},
		{"..", child, ""},
	} {
		id := fmt.Sprint("s", i)
		body := fmt.Sprintf(`{"exec_id":%q,"command":["a","b"],"cwd":%q,"shell":%q%s}`, id, dir, c.shell, envOf(c.env))
		r := d.post(api.PathExecStart, body)
		if c.want == "" {
			if r.code() != api.UnknownShell || !strings.Contains(r.body, c.shell) {
				t.Errorf("shell %q, environment %v: %v, want unknown_shell naming it", c.shell, c.env, r)
			}
			continue
		}
		name := c.shell[strings.LastIndex(c.shell, "/")+1:]
		want := c.want + " " + dir + "/" + c.want + "/" + name + " -c a\nb 2\n"
		if got := d.outcome(id).Stdout; r.status != 200 || got != want {
			t.Errorf("shell %q, environment %v: %q, want %q", c.shell, c.env, got, want)
		}
	}
	d.startExec("found", map[string]any{"shell": "sh"}, "echo $0") // in /bin or /usr/bin, without any PATH
	if got := d.outcome("found").Stdout; got != "/bin/sh\n" {
		t.Errorf("sh without a PATH is %q", got)
	}
}

func envOf(env map[string]string) string {
	if env == nil {
		return ""
	}
	return `,"env":` + jsonOf(env)
}

// TestShellIsNotTakenFromARelativeEntry puts a shell where a relative PATH
// entry of the child leads from the daemon's own working directory.
func TestShellIsNotTakenFromARelativeEntry(t *testing.T) {
	t.Attr("requirement", "AGENTD-14")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("relativesh", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := booted(t, nil)
	for _, path := range []string{".", "", "./", "none:."} {
		r := d.post(api.PathExecStart, `{"exec_id":"r","command":[],"shell":"relativesh"`+envOf(map[string]string{"PATH": path})+`}`)
		if r.code() != api.UnknownShell {
			t.Errorf("PATH %q: %v, want unknown_shell", path, r)
		}
	}
}

// TestShellTrueIsBinSh puts another sh in front on the child's PATH.
func TestShellTrueIsBinSh(t *testing.T) {
	t.Attr("requirement", "AGENTD-16")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/sh", []byte("#!/bin/sh\necho other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := booted(t, nil)
	d.startExec("s", map[string]any{"shell": true, "env": map[string]string{"PATH": dir}}, "echo $0")
	if got := d.outcome("s").Stdout; got != "/bin/sh\n" {
		t.Errorf("the shell true is %q", got)
	}
}
