package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"microvms/agentd/api"
)

// scratch makes a folder on the daemon's machine, by commands of the daemon, and
// fills it with the lines of a script that runs inside. The returned function
// removes it.
func (p *probe) scratch(ctx context.Context, lines ...string) (dir string, remove func(), err error) {
	id := p.id()
	all := append([]string{"set -e", "d=$(mktemp -d)", "cd $d"}, lines...)
	if err := p.start(ctx, id, script(append(all, "pwd")...)); err != nil {
		return "", nil, err
	}
	end, err := p.ended(ctx, id)
	if err != nil {
		return "", nil, err
	}
	dir = strings.TrimSpace(end.Stdout)
	if end.ExitCode == nil || *end.ExitCode != 0 || !strings.HasPrefix(dir, "/") {
		return "", nil, fmt.Errorf("cannot prepare a folder: %+v", end.Outcome)
	}
	return dir, func() {
		id := p.id()
		if p.start(ctx, id, argv("/bin/rm", "-rf", dir)) == nil {
			_, _ = p.ended(ctx, id) // a folder that stays shows in nothing that is judged here
		}
	}, nil
}

// spawnFails expects a start to fail at the spawn, with a detail that holds word.
func (p *probe) spawnFails(ctx context.Context, k keys, word string) error {
	id := p.id()
	p.mine(id)
	r, err := p.call(ctx, "POST", api.PathExecStart, k.body(id))
	if err != nil {
		return err
	}
	if err := refused(api.SpawnFailed).match(r); err != nil {
		return err
	}
	if !strings.Contains(strings.ToLower(string(r.body)), word) {
		return fmt.Errorf("%v does not say %q", r, word)
	}
	return p.expect(ctx, "GET", execPath(id, ""), "", refused(api.UnknownExec))
}

// programs is E1.
func programs() Row {
	fails := func(name, word string, args ...string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error { return p.spawnFails(ctx, argv(args...), word) }}
	}
	file := func(name, line, word string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			dir, remove, err := p.scratch(ctx, line)
			if err != nil {
				return err
			}
			defer remove()
			return p.spawnFails(ctx, argv(dir+"/f"), word)
		}}
	}
	return Row{
		ID: "E1", Name: "programs that are empty, missing, a folder, not executable, no program",
		Expect:       "a typed failure that names the stage and the reason; nothing is registered",
		Requirements: []string{"EXEC-5", "EXEC-6", "EXEC-7", "EXEC-15", "EXEC-34"},
		Cases: []Case{
			{Name: "empty argv", Do: func(ctx context.Context, p *probe) error {
				return p.refusedStart(ctx, argv([]string{}...).with("command", []string{}), refused(api.MalformedRequest))
			}},
			fails("empty name", "no such file", ""),
			fails("a folder", "permission denied", "/tmp"),
			fails("a missing path", "no such file", "/no/such/program"),
			fails("a missing name", "no such file", "no-such-program"),
			fails("a missing relative path", "no such file", "./no-such-program"),
			fails("below a file", "not a directory", "/bin/true/x"),
			file("not executable", "echo '#!/bin/sh' >f", "permission denied"),
			file("missing interpreter", "echo '#!/no/such/interpreter' >f; chmod +x f", "no such file"),
			file("text without an interpreter", "echo true >f; chmod +x f", "exec format error"),
			file("empty file", "chmod +x $(: >f; echo f)", "exec format error"),
			file("a loop of links", "ln -s f f", "too many levels"),
			{Name: "a missing name in a shell is the shell's to say", Do: shellSaysMissing},
			{Name: "a failed start leaves no trace", Do: noTrace},
		},
	}
}

func shellSaysMissing(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("no-such-program")); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err == nil && (end.ExitCode == nil || *end.ExitCode != 127 || end.Stderr == "") {
		err = fmt.Errorf("ended with %+v", end.Outcome)
	}
	return err
}

// noTrace counts: the failures before must have registered nothing, and the id
// of a failed start is as good as new.
func noTrace(ctx context.Context, p *probe) error {
	before, err := p.health(ctx)
	if err != nil {
		return err
	}
	id := p.id()
	p.mine(id)
	if err := p.expect(ctx, "POST", api.PathExecStart, argv("/no/such/program").body(id), refused(api.SpawnFailed)); err != nil {
		return err
	}
	after, err := p.health(ctx)
	if err != nil {
		return err
	}
	if after.Execs != before.Execs || after.Busy {
		return fmt.Errorf("%d execs before, %d after, busy %v", before.Execs, after.Execs, after.Busy)
	}
	if err := p.start(ctx, id, argv("/bin/true")); err != nil {
		return err
	}
	_, err = p.ended(ctx, id)
	return err
}

// arguments is E2.
func arguments() Row {
	bad := func(name string, k keys) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			return p.refusedStart(ctx, k, refused(api.MalformedRequest))
		}}
	}
	env := func(name, value string) keys { return argv("/bin/true").with("env", map[string]string{name: value}) }
	big := func(name string, k func() keys, w func(context.Context, *probe, keys) error) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error { return w(ctx, p, k()) }}
	}
	tooBig := func(ctx context.Context, p *probe, k keys) error { return p.spawnFails(ctx, k, "e2big") }
	return Row{
		ID: "E2", Name: "NUL in strings, odd variables, huge argument lists",
		Expect:       "400 for what no kernel takes; E2BIG by its name with the limit",
		Requirements: []string{"EXEC-5", "EXEC-6", "EXEC-34", "EXEC-36", "XPORT-13"},
		Cases: []Case{
			bad("NUL in the program", argv("/bin/true\x00x")), bad("NUL in an argument", argv("/bin/true", "a\x00b")),
			bad("NUL in the working directory", argv("/bin/true").with("cwd", "/\x00")),
			bad("NUL in a script", script("true\x00")),
			bad("NUL in a value", env("A", "\x00")), bad("NUL in a name", env("A\x00B", "x")),
			bad("an equals sign in a name", env("A=B", "x")), bad("an empty name", env("", "x")),
			bad("a number for a value", argv("/bin/true").with("env", map[string]any{"A": 1})),
			bad("null for a value", argv("/bin/true").with("env", map[string]any{"A": nil})),
			bad("null for the environment", argv("/bin/true").with("env", nil)),
			bad("a list for the environment", argv("/bin/true").with("env", []string{"A=b"})),
			bad("null for an argument", argv("/bin/true").with("command", []any{"/bin/true", nil})),
			bad("a string for the command", argv().with("command", "/bin/true")),
			{Name: "a name twice", Do: badJSON(`"env":{"A":"1","A":"2"}`)},
			{Name: "a key twice", Do: badJSON(`"command":["/bin/false"]`)},
			{Name: "a lone surrogate", Do: badJSON(`"cwd":"\ud800"`)},
			{Name: "no UTF-8", Do: badJSON("\"cwd\":\"\xff\"")},
			big("100,000 variables", manyVariables, takenOrTooBig),
			big("an argument of 131,071 bytes", func() keys { return argv("/bin/true", strings.Repeat("a", 131071)) }, taken),
			big("an argument of 131,072 bytes", func() keys { return argv("/bin/true", strings.Repeat("a", 131072)) }, tooBig),
			big("a variable of 131,072 bytes", func() keys { return env("A", strings.Repeat("a", 131070)) }, tooBig),
			big("8 MiB of arguments", func() keys {
				return argv(append([]string{"/bin/true"}, strings.Split(strings.Repeat(strings.Repeat("a", 100000)+" ", 80), " ")...)...)
			}, tooBig),
		},
	}
}

func manyVariables() keys {
	env := make(map[string]string, 100000)
	for i := range 100000 {
		env[fmt.Sprintf("V%d", i)] = "x"
	}
	return argv("/bin/true").with("env", env)
}

func taken(ctx context.Context, p *probe, k keys) error {
	id := p.id()
	if err := p.start(ctx, id, k); err != nil {
		return err
	}
	_, err := p.ended(ctx, id)
	return err
}

// takenOrTooBig is for what the stack limit of the machine decides.
func takenOrTooBig(ctx context.Context, p *probe, k keys) error {
	fits := taken(ctx, p, k)
	if fits == nil {
		return nil
	}
	if err := p.spawnFails(ctx, k, "e2big"); err != nil {
		return errors.Join(fits, err)
	}
	return nil
}

// directories is E3.
func directories() Row {
	in := func(name, dir, word string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			return p.spawnFails(ctx, argv("/bin/true").with("cwd", dir), word)
		}}
	}
	return Row{
		ID: "E3", Name: "working directories that are missing, a file, a loop, a descriptor, deleted later",
		Expect:       "a typed failure before the spawn",
		Requirements: []string{"EXEC-5", "EXEC-6", "EXEC-34"},
		Cases: []Case{
			in("missing", "/no/such/folder", "no such file"),
			in("a file", "/bin/true", "not a directory"),
			in("a descriptor", "/proc/self/fd/0", "chdir"),
			in("a descriptor of the daemon", "/proc/self/fd/3", "chdir"),
			in("through the root of a process", "/proc/self/root/tmp", "chdir"),
			in("a path of 4,096 bytes", strings.Repeat("/a", 2048), "file name too long"),
			{Name: "a loop of links", Do: func(ctx context.Context, p *probe) error {
				dir, remove, err := p.scratch(ctx, "ln -s a b", "ln -s b a")
				if err != nil {
					return err
				}
				defer remove()
				return p.spawnFails(ctx, argv("/bin/true").with("cwd", dir+"/a"), "too many levels")
			}},
			{Name: "deleted after the start", Do: deletedDirectory},
		},
	}
}

func deletedDirectory(ctx context.Context, p *probe) error {
	dir, remove, err := p.scratch(ctx)
	if err != nil {
		return err
	}
	defer remove()
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true).with("cwd", dir)); err != nil {
		return err
	}
	remove()
	if err := p.spawnFails(ctx, argv("/bin/true").with("cwd", dir), "no such file"); err != nil {
		return err
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"data_b64":"b2s=","signal":"eof"}`, is(200)); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err == nil && end.Stdout != "ok" {
		err = fmt.Errorf("the one that runs in it ended with %+v", end.Outcome)
	}
	return err
}
