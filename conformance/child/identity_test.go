package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestIdentity starts the program itself, under a shell, and in the place of a
// shell, and reads what it says of itself.
func TestIdentity(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "a-shell")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for shell, argv := range map[string][]string{
		"-":       IdentityCommand(program),
		"/bin/sh": {"/bin/sh", "-c", IdentityScript(program)},
		link:      {link, "-c", IdentityScript(program)},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"A=b=c", "GORACE=atexit_sleep_ms=0"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", argv, err)
		}
		i, err := ParseIdentity(string(out))
		if err != nil || i.Shell != shell || i.UID != os.Getuid() || i.GID != os.Getgid() || !slices.Contains(i.Env, "A=b=c") {
			t.Errorf("%q: %+v, %v, want shell %q", argv, i, err, shell)
		}
	}
	if _, err := ParseIdentity("no"); err == nil {
		t.Error("what is no identity was read")
	}
	for _, args := range [][]string{{"p"}, {"p", Marker, "other"}, {"p", "-c", "echo"}, {"p", "-c", Marker}} {
		if asked, _ := identify(args); asked {
			t.Errorf("%q asks for an identity", args)
		}
	}
}
