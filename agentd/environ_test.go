package agentd_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"microvms/agentd"
)

// printEnv is a program that prints its environment and does not need one.
const printEnv = "/usr/bin/env"

// TestEnvironmentLayers starts printEnv under each choice of layers and checks
// that it prints exactly the layered map: nothing of the daemon's own, never
// the token.
func TestEnvironmentLayers(t *testing.T) {
	for _, id := range []string{"EXEC-12", "EXEC-13", "EXEC-14", "SECRET-2"} {
		t.Attr("requirement", id)
	}
	t.Setenv("DAEMONS_OWN", "must not reach a child")
	passwd := filepath.Join(t.TempDir(), "passwd")
	me := os.Getuid()
	writeFile(t, passwd, fmt.Sprintf("# comment\n+nis:x:%[1]d:1::/no:/no\nshort:x:%[1]d:1\nbad:x:-1:1::/no:/no\nrow:x:%[1]d:77:G,H:/home/row:/bin/sh\nlater:x:%[1]d:1::/no:/no\n", me))
	d := start(t, func(c *agentd.Config) {
		c.PasswdPath = passwd
		c.Environ = []string{"IMAGE=i", "HOME=/image", "PATH=/image/bin", "LOGNAME=image", "AGENTD_PORT=1", "AGENTD_X=y", "L=image", "R=image", "BAD=\xfe"}
	})
	d.bootstrap(map[string]string{"L": "launch", "R": "launch", "USER": "launch", "EMPTY": "", "LOGNAME": "launch"})
	image := map[string]string{"IMAGE": "i", "HOME": "/image", "PATH": "/image/bin", "LOGNAME": "image", "L": "image", "R": "image"}
	row := map[string]string{"HOME": "/home/row", "USER": "row", "LOGNAME": "row"}
	launch := map[string]string{"L": "launch", "R": "launch", "USER": "launch", "EMPTY": "", "LOGNAME": "launch"}
	request := map[string]string{"R": "request", "LOGNAME": "request", "Ü": "ü=ü"}
	for i := range 8 {
		want := map[string]string{}
		more := map[string]any{}
		if i&1 != 0 {
			more["inherit_image_env"] = true
			maps.Copy(want, image)
		}
		if i&2 != 0 {
			more["user"] = me
			maps.Copy(want, row)
		}
		maps.Copy(want, launch)
		if i&4 != 0 {
			more["env"] = request
			maps.Copy(want, request)
		}
		id := fmt.Sprint("e", i)
		d.startExec(id, more, printEnv)
		lines := strings.Split(strings.TrimSuffix(d.outcome(id).Stdout, "\n"), "\n")
		slices.Sort(lines)
		var expect []string
		for k, v := range want {
			expect = append(expect, k+"="+v)
		}
		slices.Sort(expect)
		if !slices.Equal(lines, expect) {
			t.Errorf("layers %v:\n got %q\nwant %q", more, lines, expect)
		}
	}
}

// TestEmptyEnvironmentStaysEmpty checks that a child without any layer gets no
// variable at all: an empty list must not turn into the daemon's environment.
func TestEmptyEnvironmentStaysEmpty(t *testing.T) {
	t.Attr("requirement", "EXEC-14")
	t.Setenv("DAEMONS_OWN", "must not reach a child")
	d := booted(t, func(c *agentd.Config) { c.Environ = []string{"IMAGE=i"} })
	d.startExec("e", nil, printEnv)
	if p := d.outcome("e"); p.Stdout != "" || *p.ExitCode != 0 {
		t.Errorf("environment %q, want none", p.Stdout)
	}
}

// TestPasswdIsReadPerRequest adds a row between two starts.
func TestPasswdIsReadPerRequest(t *testing.T) {
	t.Attr("requirement", "EXEC-12")
	t.Attr("requirement", "EXEC-39")
	passwd := filepath.Join(t.TempDir(), "passwd")
	d := booted(t, func(c *agentd.Config) { c.PasswdPath = passwd })
	user := map[string]any{"user": os.Getuid()}
	d.startExec("before", user, printEnv)
	if got := d.outcome("before").Stdout; got != "" {
		t.Errorf("without a row: %q", got)
	}
	writeFile(t, passwd, fmt.Sprintf("u:x:%d:0::/h:/s", os.Getuid()))
	d.startExec("after", user, printEnv)
	if got := d.outcome("after").Stdout; got != "HOME=/h\nLOGNAME=u\nUSER=u\n" {
		t.Errorf("with a row: %q", got)
	}
}

// TestProgramLookup checks where a bare program name is looked for: on the
// child's own PATH, else on the default one, never on the daemon's.
func TestProgramLookup(t *testing.T) {
	t.Attr("requirement", "EXEC-15")
	dir := t.TempDir()
	for _, sub := range []string{"bin", "other", "bin/folder-program", "daemon"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := func(path, says string) {
		if err := os.WriteFile(filepath.Join(dir, path), []byte("#!/bin/sh\necho "+says+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("bin/prog", "bin")
	script("other/prog", "other")
	script("other/folder-program", "other")
	script("daemon/only-daemons", "daemon")
	writeFile(t, filepath.Join(dir, "bin/plain"), "not executable")
	script("other/plain", "other")
	script("here", "here")
	t.Setenv("PATH", dir+"/daemon:"+os.Getenv("PATH"))
	d := booted(t, func(c *agentd.Config) { c.Environ = []string{"PATH=" + dir + "/other"} })
	for i, c := range []struct {
		name string
		more map[string]any
		prog string
		want string // output; empty: the spawn fails
	}{
		{"first on the child's PATH", map[string]any{"env": map[string]string{"PATH": dir + "/bin:" + dir + "/other"}}, "prog", "bin"},
		{"image PATH when inherited", map[string]any{"inherit_image_env": true}, "prog", "other"},
		{"image PATH when not inherited", nil, "prog", ""},
		{"the daemon's PATH", nil, "only-daemons", ""},
		{"a folder is passed over", map[string]any{"env": map[string]string{"PATH": dir + "/bin:" + dir + "/other"}}, "folder-program", "other"},
		{"a plain file is passed over", map[string]any{"env": map[string]string{"PATH": dir + "/bin:" + dir + "/other"}}, "plain", "other"},
		{"only a plain file", map[string]any{"env": map[string]string{"PATH": dir + "/bin"}}, "plain", ""},
		{"empty PATH is the working directory", map[string]any{"cwd": dir, "env": map[string]string{"PATH": ""}}, "here", "here"},
		{"empty entry is the working directory", map[string]any{"cwd": dir, "env": map[string]string{"PATH": "/nowhere:"}}, "here", "here"},
		{"relative entry", map[string]any{"cwd": dir, "env": map[string]string{"PATH": "bin"}}, "prog", "bin"},
		{"relative path after chdir", map[string]any{"cwd": dir + "/bin"}, "./prog", "bin"},
		{"relative path with a folder", map[string]any{"cwd": dir}, "bin/prog", "bin"},
		{"a path is not looked up", map[string]any{"cwd": dir, "env": map[string]string{"PATH": dir}}, "none/prog", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprint("p", i)
			if c.want == "" {
				body := fmt.Sprintf(`{"exec_id":%q,"command":[%q]%s}`, id, c.prog, "")
				if c.more != nil {
					env := c.more["env"]
					body = fmt.Sprintf(`{"exec_id":%q,"command":[%q],"env":%s}`, id, c.prog, jsonOf(env))
				}
				if r := d.post("/v1/exec/start", body); r.status != 500 {
					t.Errorf("%v, want spawn_failed", r)
				}
				return
			}
			d.startExec(id, c.more, c.prog)
			if p := d.outcome(id); p.Stdout != c.want+"\n" {
				t.Errorf("%+v, want output %q", p.Outcome, c.want)
			}
		})
	}
	d.startExec("default", nil, "true")
	if p := d.outcome("default"); *p.ExitCode != 0 {
		t.Errorf("a bare name on the default path: %+v", p.Outcome)
	}
}

// TestCredentials runs children as other ids, which only root can.
func TestCredentials(t *testing.T) {
	t.Attr("requirement", "EXEC-17")
	if os.Getuid() != 0 {
		t.Skip("only root can run a child as another user")
	}
	d := booted(t, nil)
	show := `sed -n 's/^\(Uid\|Gid\|Groups\):[[:space:]]*//p' /proc/self/status | tr '\t\n' ' ,'`
	gid := os.Getgid()
	for i, c := range []struct {
		more map[string]any
		want string
	}{
		{map[string]any{"user": 1234}, fmt.Sprintf("1234 1234 1234 1234,%[1]d %[1]d %[1]d %[1]d,", gid)},
		{map[string]any{"user": 1234, "group": 77}, "1234 1234 1234 1234,77 77 77 77,"},
		{map[string]any{"group": 77}, "0 0 0 0,77 77 77 77,"},
		{map[string]any{"user": 0}, fmt.Sprintf("0 0 0 0,%[1]d %[1]d %[1]d %[1]d,", gid)},
	} {
		id := fmt.Sprint("c", i)
		c.more["shell"] = true
		d.startExec(id, c.more, show)
		if got := d.outcome(id).Stdout; !strings.HasPrefix(got, c.want) || strings.Trim(strings.TrimPrefix(got, c.want), " ,") != "" {
			t.Errorf("%v: %q, want %q and no supplementary group", c.more, got, c.want)
		}
	}
}
