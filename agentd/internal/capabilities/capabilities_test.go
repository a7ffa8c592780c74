package capabilities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	all      = 1<<41 - 1
	withheld = 1<<16 | 1<<17 | 1<<19 | 1<<21 | 1<<22 | 1<<38 | 1<<39
)

func status(inh, prm, eff, bnd, amb uint64) string {
	return fmt.Sprintf("Name:\tagentd\nCapInh:\t%016x\nCapPrm:\t%016x\nCapEff:\t%016x\nCapBnd:\t%016x\nCapAmb:\t%016x\nNoNewPrivs:\t0\n", inh, prm, eff, bnd, amb)
}

func untouched(set uint64) [2]unix.CapUserData {
	low, high := uint32(set), uint32(set>>32)
	return [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
}

// The check after the drop finds each way in which a thread can be wrong.
func TestJudge(t *testing.T) {
	t.Attr("requirement", "CAP-2")
	t.Attr("requirement", "CAP-3")
	for _, c := range []struct {
		name, status, want string
	}{
		{"right", status(0, all, all, all&^withheld, 0), ""},
		{"nothing left", status(0, all, all, 0, 0), ""},
		{"inheritable", status(1, all, all, all&^withheld, 0), "inheritable"},
		{"ambient", status(0, all, all, all&^withheld, 1), "ambient"},
		{"permitted lost", status(0, all&^(1<<21), all, all&^withheld, 0), "permitted"},
		{"effective lost", status(0, all, all&^(1<<39), all&^withheld, 0), "effective"},
		{"no sets", "Name:\tagentd\n", "no set CapInh"},
		{"no ambient set", strings.Replace(status(0, all, all, 0, 0), "CapAmb", "Cap", 1), "no set CapAmb"},
	} {
		check(t, c.name, judge(c.status, untouched(all)), c.want)
	}
	for _, d := range dropped {
		check(t, d.name, judge(status(0, all, all, all&^withheld|1<<d.bit, 0), untouched(all)), d.name)
	}
	if len(dropped) != 7 {
		t.Errorf("%d capabilities are dropped, want seven", len(dropped))
	}
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// Every thread is looked at, and a look at nothing is no check.
func TestVerifyLooksAtEachThread(t *testing.T) {
	t.Attr("requirement", "CAP-2")
	tasks := t.TempDir()
	check(t, "no thread", verify(tasks, untouched(all)), "lists no thread")
	check(t, "no folder", verify(filepath.Join(tasks, "none"), untouched(all)), "cannot check")
	thread := func(id, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(tasks, id), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tasks, id, "status"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	thread("1", status(0, all, all, all&^withheld, 0))
	check(t, "one thread", verify(tasks, untouched(all)), "")
	thread("2", status(0, all, all, all, 0))
	check(t, "a second thread that keeps them", verify(tasks, untouched(all)), "CAP_SYS_MODULE")
}

// The power-off capability is that of both sets of the caller.
func TestMayPowerOff(t *testing.T) {
	t.Attr("requirement", "POWER-1")
	data, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	held := true
	for _, name := range []string{"CapPrm:\t", "CapEff:\t"} {
		_, rest, _ := strings.Cut(string(data), name)
		var set uint64
		if _, err := fmt.Sscanf(rest, "%x", &set); err != nil {
			t.Fatal(err)
		}
		held = held && set>>unix.CAP_SYS_BOOT&1 == 1
	}
	if got := MayPowerOff(); got != held {
		t.Errorf("MayPowerOff = %v, the status file says %v", got, held)
	}
}
