package identity

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"microvms/agentd/api"
)

// guest is a made-up machine under a temporary root.
type guest struct {
	Machine
	t        *testing.T
	hostname string
	mounts   []string
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	g := &guest{t: t}
	g.Machine = Machine{
		Root: t.TempDir(),
		Random: func(p []byte) error {
			for i := range p {
				p[i] = byte(0xa0 + i)
			}
			return nil
		},
		SetHostname: func(name string) error { g.hostname = name; return nil },
		BindMount: func(source, target string) error {
			g.mounts = append(g.mounts, strings.TrimPrefix(source, g.Root)+" over "+strings.TrimPrefix(target, g.Root))
			return nil
		},
	}
	return g
}

func (g *guest) write(path, content string) {
	g.t.Helper()
	path = filepath.Join(g.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) read(path string) string {
	data, err := os.ReadFile(filepath.Join(g.Root, path))
	if err != nil {
		return "absent"
	}
	return string(data)
}

// words renders steps as "name outcome error".
func words(steps []api.IdentityStep) string {
	var out []string
	for _, s := range steps {
		w := s.Name + " " + s.Outcome
		if s.Error != nil {
			w += " (" + *s.Error + ")"
		}
		out = append(out, w)
	}
	return strings.Join(out, "; ")
}

func (g *guest) want(steps string, degraded bool) {
	g.t.Helper()
	got := g.Repair()
	if words(got) != steps {
		g.t.Errorf("steps %q, want %q", words(got), steps)
	}
	if Degraded(got) != degraded {
		g.t.Errorf("degraded = %v", !degraded)
	}
}

// A whole guest is repaired: each step, its effect, its mode, in order.
func TestRepair(t *testing.T) {
	t.Attr("requirement", "IDENTITY-2")
	g := newGuest(t)
	g.write(machineID, "old\n")
	g.write(procBootID, "old\n")
	g.write(randomSeed, "seed")
	g.write(dbusMachine, "old\n")
	g.want("machine-id repaired; hostname repaired; boot-id repaired; random-seed repaired; cached-credential repaired", false)
	if got := g.read(machineID); got != "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf\n" {
		t.Errorf("machine id %q", got)
	}
	if info, err := os.Stat(filepath.Join(g.Root, machineID)); err != nil || info.Mode() != 0o444 {
		t.Errorf("machine id has mode %v, %v", info.Mode(), err)
	}
	if g.hostname != "microvm-a0a1a2a3a4a5" {
		t.Errorf("hostname %q", g.hostname)
	}
	if got := g.read(ownBootID); got != "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf\n" {
		t.Errorf("boot id %q", got)
	}
	if len(g.mounts) != 1 || g.mounts[0] != ownBootID+" over "+procBootID {
		t.Errorf("mounts %q", g.mounts)
	}
	if g.read(randomSeed) != "absent" || g.read(dbusMachine) != "absent" {
		t.Error("a shared file is left")
	}
}

// What a guest has not got is not applicable, and its machine id is made.
func TestRepairOfAnEmptyGuest(t *testing.T) {
	t.Attr("requirement", "IDENTITY-2")
	g := newGuest(t)
	g.want("machine-id repaired; hostname repaired; boot-id not_applicable; random-seed not_applicable; cached-credential not_applicable", false)
	if g.read(ownBootID) != "absent" || len(g.mounts) != 0 {
		t.Error("a boot id was made where there is none to cover")
	}
}

// Failures are told and stop nothing.
func TestRepairGoesOn(t *testing.T) {
	t.Attr("requirement", "IDENTITY-6")
	g := newGuest(t)
	g.SetHostname = func(string) error { return syscall.EPERM }
	g.BindMount = func(string, string) error { return syscall.EPERM }
	g.write(procBootID, "old\n")
	g.write(filepath.Join(machineID, "child"), "")  // a folder that cannot be unlinked
	g.write(filepath.Join(randomSeed, "child"), "") // the same
	g.write(dbusMachine, "old\n")
	g.want("machine-id failed (unlink: is a directory); hostname failed (operation not permitted); boot-id failed (operation not permitted); "+
		"random-seed failed (is a directory); cached-credential repaired", true)
}

// Without random bytes nothing gets an id, and the deletions still run.
func TestRepairWithoutEntropy(t *testing.T) {
	t.Attr("requirement", "IDENTITY-5")
	g := newGuest(t)
	g.Random = func([]byte) error { return syscall.EAGAIN }
	g.write(machineID, "old\n")
	g.write(procBootID, "old\n")
	g.write(randomSeed, "seed")
	const why = " failed (no random bytes: resource temporarily unavailable)"
	g.want("machine-id"+why+"; hostname"+why+"; boot-id"+why+"; random-seed repaired; cached-credential not_applicable", true)
	if g.read(machineID) != "old\n" || g.hostname != "" || len(g.mounts) != 0 {
		t.Errorf("an id was set without entropy: %q %q %q", g.read(machineID), g.hostname, g.mounts)
	}
}

// What stood there is unlinked, so nothing is written through a link or into a
// shared inode.
func TestRepairUnlinksFirst(t *testing.T) {
	t.Attr("requirement", "IDENTITY-7")
	g := newGuest(t)
	g.write("etc/shared", "old\n")
	if err := os.Link(filepath.Join(g.Root, "etc/shared"), filepath.Join(g.Root, machineID)); err != nil {
		t.Fatal(err)
	}
	g.write("run/target", "old\n")
	g.write(procBootID, "old\n")
	if err := os.Symlink("target", filepath.Join(g.Root, ownBootID)); err != nil {
		t.Fatal(err)
	}
	if Degraded(g.Repair()) {
		t.Error("the repair failed")
	}
	if g.read("etc/shared") != "old\n" || g.read("run/target") != "old\n" {
		t.Errorf("written through: %q, %q", g.read("etc/shared"), g.read("run/target"))
	}
}

// The kernel's random bytes give another identity each time.
func TestKernelRandom(t *testing.T) {
	ids := map[string]bool{}
	for range 3 {
		g := newGuest(t)
		g.Random = nil
		if Degraded(g.Repair()) {
			t.Fatal("the repair failed")
		}
		id := g.read(machineID)
		if !regexp.MustCompile(`^[0-9a-f]{32}\n$`).MatchString(id) || !strings.HasPrefix(id, strings.TrimPrefix(g.hostname, "microvm-")) {
			t.Errorf("machine id %q, hostname %q", id, g.hostname)
		}
		ids[id] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d ids of three repairs", len(ids))
	}
}

// An error that is about a path names none.
func TestReason(t *testing.T) {
	if got := reason(&os.PathError{Op: "open", Path: "/secret", Err: syscall.EROFS}); got != "open: read-only file system" {
		t.Errorf("reason %q", got)
	}
	if got := reason(errors.Join(&os.PathError{Op: "open", Path: "/secret", Err: syscall.EROFS}, nil)); strings.Contains(got, "/secret") {
		t.Errorf("reason %q", got)
	}
}
