package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A spawn that fails says at which stage and with which errno, and registers
// nothing (hostile facts, E1 to E3).
func TestSpawnErrors(t *testing.T) {
	t.Attr("requirement", "EXEC-5")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	deleted := filepath.Join(dir, "deleted")
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	long := make([]string, 100000)
	for i := range long {
		long[i] = fmt.Sprintf("VARIABLE_%06d=%s", i, strings.Repeat("v", 80))
	}
	self, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	for _, c := range []struct {
		name  string
		cmd   Command
		op    string
		errno syscall.Errno // 0: the core refused, with ErrInvalidCommand
	}{
		{"no arguments", Command{Path: "/bin/true"}, OpArgs, 0},
		{"empty program", Command{Args: []string{""}}, OpExec, syscall.ENOENT},
		{"missing program", Command{Path: dir + "/missing", Args: []string{"x"}}, OpExec, syscall.ENOENT},
		{"a folder", Command{Path: dir, Args: []string{"x"}}, OpExec, syscall.EACCES},
		{"not executable", Command{Path: write("plain", "x", 0o644), Args: []string{"x"}}, OpExec, syscall.EACCES},
		{"no interpreter", Command{Path: write("script", "#!/nonexistent\n", 0o755), Args: []string{"x"}}, OpExec, syscall.ENOENT},
		{"a text file", Command{Path: write("text", "echo hello\n", 0o755), Args: []string{"x"}}, OpExec, syscall.ENOEXEC},
		{"NUL in an argument", Command{Path: "/bin/true", Args: []string{"true", "a\x00b"}}, OpArgs, 0},
		{"NUL in the program", Command{Path: "/bin/\x00true", Args: []string{"true"}}, OpArgs, 0},
		{"NUL in the environment", Command{Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=\x00"}}, OpEnv, 0},
		{"no variable name", Command{Path: "/bin/true", Args: []string{"true"}, Env: []string{"=a"}}, OpEnv, 0},
		{"no equals sign", Command{Path: "/bin/true", Args: []string{"true"}, Env: []string{"a"}}, OpEnv, 0},
		{"NUL in the directory", Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/\x00"}, OpChdir, 0},
		{"long argument", Command{Path: "/bin/true", Args: []string{"true", strings.Repeat("a", 131072)}}, OpExec, syscall.E2BIG},
		{"large environment", Command{Path: "/bin/true", Args: []string{"true"}, Env: long}, OpExec, syscall.E2BIG},
		{"missing directory", Command{Path: "/bin/true", Args: []string{"true"}, Dir: deleted}, OpChdir, syscall.ENOENT},
		{"directory is a file", Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/bin/true"}, OpChdir, syscall.ENOTDIR},
		{"directory loop", Command{Path: "/bin/true", Args: []string{"true"}, Dir: dir + "/loop"}, OpChdir, syscall.ELOOP},
		{"a descriptor of the daemon", Command{Path: "/bin/true", Args: []string{"true"}, Dir: fmt.Sprintf("/proc/self/fd/%d", self.Fd())}, OpChdir, syscall.ELOOP},
		{"an empty descriptor", Command{Path: "/bin/true", Args: []string{"true"}, Descriptors: make([]Descriptor, 1)}, OpPipe, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t, Config{})
			_, _, err := r.Start(context.Background(), key("x"), given(&c.cmd))
			var spawnErr *SpawnError
			if !errors.As(err, &spawnErr) || spawnErr.Op != c.op || spawnErr.Errno() != c.errno {
				t.Fatalf("error = %#v, want stage %q and errno %d", err, c.op, c.errno)
			}
			if errors.Is(err, ErrInvalidCommand) != (c.errno == 0) {
				t.Errorf("ErrInvalidCommand in %v", err)
			}
			if c.errno == syscall.E2BIG && !strings.Contains(err.Error(), "131072") {
				t.Errorf("E2BIG without its limit: %v", err)
			}
			if n, _ := r.Counts(); n != 0 {
				t.Errorf("%d records", n)
			}
		})
	}
}

// As another user: the stage tells a directory that the user may not enter
// from a program that the user may not run, and a command that works has that
// user, group, and no other group.
func TestSpawnCredential(t *testing.T) {
	t.Attr("requirement", "EXEC-17")
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may change to another user")
	}
	closed := filepath.Join("/", t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cred := &syscall.Credential{Uid: 12345, Gid: 23456}
	r := newRegistry(t, Config{})
	for _, c := range []struct {
		cmd Command
		op  string
	}{
		{Command{Path: "/bin/true", Args: []string{"true"}, Dir: closed, Credential: cred}, OpChdir},
		{Command{Path: closed + "/x", Args: []string{"x"}, Dir: "/", Credential: cred}, OpExec},
		{Command{Path: "/bin/true", Args: []string{"true"}, Credential: &syscall.Credential{Uid: ^uint32(0)}}, OpCredential},
	} {
		_, _, err := r.Start(context.Background(), key("x"), given(&c.cmd))
		var spawnErr *SpawnError
		if !errors.As(err, &spawnErr) || spawnErr.Op != c.op {
			t.Errorf("error = %v, want stage %q", err, c.op)
		}
	}
	cmd := sh("id -u; id -g; id -G")
	cmd.Credential, cmd.Dir = cred, "/"
	if res := finished(t, start(t, r, "id", cmd)); string(res.Stdout) != "12345\n23456\n23456\n" {
		t.Errorf("ids = %q %q", res.Stdout, res.Stderr)
	}
}

// A child has exactly its three descriptors, also while the daemon holds ones
// that it did not mark close-on-exec, and its own group and directory.
func TestSpawnPassesNothingElse(t *testing.T) {
	t.Attr("requirement", "WAIT-4")
	t.Attr("requirement", "EXEC-16")
	leaky, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // no O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaky)
	r := newRegistry(t, Config{})
	other := start(t, r, "other", withStdin("cat"))
	cmd := helperCommand("descriptors")
	cmd.Dir = "/usr"
	e := start(t, r, "x", cmd)
	res := finished(t, e)
	want := fmt.Sprintf("fds 0 1 2\ngroup %d of %d\ndir /usr\nenv 1\n", *e.Group().Pgid, *e.Group().Pgid)
	if string(res.Stdout) != want {
		t.Errorf("the child reports %q %q, want %q", res.Stdout, res.Stderr, want)
	}
	finish(t, other)
}

// helperCommand runs this test binary as a helper child.
func helperCommand(verb string, env ...string) *Command {
	return &Command{Path: testBinary, Args: []string{"helper"}, Env: append([]string{"EXECUTION_HELPER=" + verb}, env...)}
}

var testBinary = func() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}()

// A command without variables gets none: not the daemon's, whether the list is
// empty or nil.
func TestEmptyEnvironmentIsEmpty(t *testing.T) {
	t.Attr("requirement", "EXEC-14")
	t.Setenv("EXECUTION_TEST_SECRET", "x")
	for name, env := range map[string][]string{"nil": nil, "empty": {}} {
		cmd := &Command{Path: "/usr/bin/env", Args: []string{"env"}, Env: env}
		if res := finished(t, start(t, newRegistry(t, Config{}), name, cmd)); len(res.Stdout) != 0 || status(res) != "exit 0" {
			t.Errorf("%s: the environment has %d bytes, %s", name, len(res.Stdout), status(res))
		}
	}
}

// Inherited files and drained pipes are 3, 4, … in the child; the end waits
// for the drained ones.
func TestSpawnDescriptors(t *testing.T) {
	read, write := pipe(t)
	var sink bytes.Buffer
	cmd := sh("echo to the sink >&4; echo to the file >&3")
	cmd.Descriptors = []Descriptor{{File: write}, {Sink: &sink}}
	e := start(t, newRegistry(t, Config{}), "x", cmd)
	write.Close()
	finished(t, e)
	if sink.String() != "to the sink\n" {
		t.Errorf("the sink holds %q", sink.String())
	}
	if got, err := io.ReadAll(read); err != nil || string(got) != "to the file\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// A descriptor that is opened at the spawn reaches the child, and the core
// closes its own copy: the pipe ends with the child. A failed opening is a
// failed spawn.
func TestSpawnOpensDescriptors(t *testing.T) {
	var read *os.File
	cmd := sh("echo to the pipe >&4")
	var sink bytes.Buffer
	cmd.Descriptors = []Descriptor{{Sink: &sink}, {Open: func() (int, error) {
		r, w := pipe(t)
		read = r
		fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		w.Close()
		return fd, err
	}}}
	finished(t, start(t, newRegistry(t, Config{}), "x", cmd))
	if got, err := io.ReadAll(read); err != nil || string(got) != "to the pipe\n" {
		t.Errorf("the pipe holds %q, %v", got, err)
	}
	refusal := errors.New("no descriptor")
	cmd = sh("true")
	cmd.Descriptors = []Descriptor{{Open: func() (int, error) { return -1, refusal }}}
	_, _, err := newRegistry(t, Config{}).Start(t.Context(), Key{ID: "y"}, func(context.Context) (*Command, error) { return cmd, nil })
	var failed *SpawnError
	if !errors.As(err, &failed) || failed.Op != OpPipe || !errors.Is(err, refusal) {
		t.Errorf("a descriptor that cannot be opened: %v", err)
	}
}

// Capture policies: nothing, and the newest bytes with a mark.
func TestCapturePolicies(t *testing.T) {
	for _, c := range []struct {
		name    string
		capture Capture
		want    string
		total   uint64
		trunc   bool
	}{
		{"discard", Capture{Discard: true}, "", 0, false},
		{"tail", Capture{HeadBytes: -1, TailBytes: 3, Mark: []byte("…")}, "…ef\n", 7, true},
		{"head", Capture{HeadBytes: 3}, "abc", 7, true},
		{"exactly", Capture{HeadBytes: 7}, "abcdef\n", 7, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := sh("echo abcdef")
			cmd.Capture = &c.capture
			res := finished(t, start(t, newRegistry(t, Config{}), "x", cmd))
			if string(res.Stdout) != c.want || res.Total != c.total || res.Truncated != c.trunc {
				t.Errorf("stdout %q, total %d, truncated %v", res.Stdout, res.Total, res.Truncated)
			}
		})
	}
}
