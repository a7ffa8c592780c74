package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// build builds the command as it is shipped: without cgo, where the runtime can
// reach every thread.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "agentd")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the command: %v: %s", err, out)
	}
	return program
}

// sets are the capability sets of a process or thread, from its status file.
type sets struct{ inh, prm, eff, bnd, amb uint64 }

func readSets(t *testing.T, status string) sets {
	t.Helper()
	var s sets
	fields := map[string]*uint64{"CapInh:": &s.inh, "CapPrm:": &s.prm, "CapEff:": &s.eff, "CapBnd:": &s.bnd, "CapAmb:": &s.amb}
	found := 0
	for line := range strings.Lines(status) {
		if words := strings.Fields(line); len(words) == 2 && fields[words[0]] != nil {
			if _, err := fmt.Sscanf(words[1], "%x", fields[words[0]]); err != nil {
				t.Fatal(err)
			}
			found++
		}
	}
	if found != len(fields) {
		t.Fatalf("%d of %d sets in %q", found, len(fields), status)
	}
	return s
}

func (s sets) String() string {
	return fmt.Sprintf("inh %x prm %x eff %x bnd %x amb %x", s.inh, s.prm, s.eff, s.bnd, s.amb)
}

func statusOf(t *testing.T, path string) sets {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return readSets(t, string(data))
}

// withheld is the mask of the dropped capabilities, by their numbers in
// linux/capability.h.
const withheld = 1<<16 | 1<<17 | 1<<19 | 1<<21 | 1<<22 | 1<<38 | 1<<39

// TestCapabilitiesDropped starts the shipped command with the setting on and
// off and looks at each of its threads and at a command that it runs as root.
func TestCapabilitiesDropped(t *testing.T) {
	t.Attr("requirement", "CAP-1")
	t.Attr("requirement", "CAP-3")
	needsRoot(t)
	mine := statusOf(t, "/proc/thread-self/status")
	if mine.eff&withheld == 0 || mine.eff>>unix.CAP_SETPCAP&1 == 0 {
		t.Skip("this machine's root has no capability to drop")
	}
	program := build(t)
	for value, dropped := range map[string]uint64{"": 0, "false": 0, "0": 0, "true": withheld, "1": withheld} {
		t.Run("value "+value, func(t *testing.T) {
			var environ []string
			if value != "" {
				environ = []string{"AGENTD_DROP_EXEC_CAPABILITIES=" + value}
			}
			d := startProgram(t, program, "", environ)
			d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"`+isolatedToken+`","env":{"AGENTD_DROP_EXEC_CAPABILITIES":"0"}}`))
			child := readSets(t, d.output("status", "cat", "/proc/self/status"))
			if want := (sets{bnd: mine.bnd &^ dropped, prm: mine.bnd &^ dropped, eff: mine.bnd &^ dropped}); child != want {
				t.Errorf("a command has %v, want %v", child, want)
			}
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", d.cmd.Process.Pid))
			if err != nil || len(threads) < 2 {
				t.Fatalf("threads %v, %v", threads, err)
			}
			for _, path := range threads {
				if got, want := statusOf(t, path), (sets{bnd: mine.bnd &^ dropped, prm: mine.prm, eff: mine.eff}); got != want {
					t.Errorf("a thread of the daemon has %v, want %v", got, want)
				}
			}
		})
	}
}

// TestCapabilitiesRefused starts the shipped command where the drop must fail:
// it ends without serving, and says why.
func TestCapabilitiesRefused(t *testing.T) {
	t.Attr("requirement", "CAP-2")
	t.Attr("requirement", "CAP-4")
	needsRoot(t)
	program := build(t)
	run := func(value string, before func() error) (string, error) {
		// A command that serves although it must not is ended here.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, "--listen", "127.0.0.1")
		cmd.Env = []string{"AGENTD_PORT=0", "AGENTD_REPAIR_IDENTITY=false", "AGENTD_DROP_EXEC_CAPABILITIES=" + value}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		ended := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the thread's bounding set is gone for good, so the thread ends too
			if err := before(); err != nil {
				ended <- fmt.Errorf("cannot prepare: %w", err)
				return
			}
			ended <- cmd.Run()
		}()
		err := <-ended
		return out.String(), err
	}
	noSetPCap := func() error { return unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SETPCAP, 0, 0, 0) }
	nothing := func() error { return nil }
	for _, c := range []struct {
		value  string
		before func() error
		says   string
	}{
		{"true", noSetPCap, "cannot drop CAP_SYS_MODULE from the bounding set: operation not permitted"},
		{"", nothing, "refusing to guess"},
		{"TRUE", nothing, "refusing to guess"},
		{"yes", nothing, "refusing to guess"},
		{"\xff", nothing, "refusing to guess"},
	} {
		out, err := run(c.value, c.before)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(out, c.says) || strings.Contains(out, "listening") {
			t.Errorf("%q: %v, %s; want exit %d that says %q", c.value, err, out, exitUsage, c.says)
		}
	}
}
