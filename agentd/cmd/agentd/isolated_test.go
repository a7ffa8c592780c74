package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
)

// namespaces gives a process mounts, a hostname and a process table of its own.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// isolate makes the process the first of a small machine of its own: fresh
// /etc, /run and /var/lib with the files that a shared image would bring, a
// hostname, a proc. It ends the process rather than leave anything shared.
func isolate() {
	fail := func(what string, err error) {
		fmt.Fprintf(os.Stderr, "cannot isolate: %s: %v\n", what, err)
		os.Exit(3)
	}
	if os.Getpid() != 1 {
		fail("pid namespace", errors.New("not its first process"))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fail("private mounts", err)
	}
	for _, m := range []struct{ kind, path string }{{"tmpfs", "/etc"}, {"tmpfs", "/run"}, {"tmpfs", "/var/lib"}, {"proc", "/proc"}} {
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil {
			fail("mount of "+m.path, err)
		}
	}
	if err := unix.Sethostname([]byte("image")); err != nil {
		fail("hostname", err)
	}
	for path, content := range map[string]string{
		"/etc/machine-id": "image\n", "/var/lib/systemd/random-seed": "image", "/var/lib/dbus/machine-id": "image\n",
		"/etc/agentd/hooks.d/run": "#!/bin/sh\ncat /etc/machine-id\n",
	} {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o755)
		}
		if err != nil {
			fail(path, err)
		}
	}
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may make namespaces and change capabilities")
	}
}

const isolatedToken = "isolated"

// output runs a command in the daemon's machine and returns what it wrote.
func (d *daemon) output(id string, argv ...string) string {
	d.t.Helper()
	body, err := json.Marshal(map[string]any{"exec_id": id, "command": argv, "env": map[string]string{"PATH": "/usr/bin:/bin"}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.want(200, "POST", api.PathExecStart, isolatedToken, string(body))
	d.want(200, "GET", "/v1/exec/"+id+"/stream", isolatedToken, "") // until it has exited
	var p struct{ Stdout, Stderr string }
	if err := json.Unmarshal([]byte(d.want(200, "GET", "/v1/exec/"+id, isolatedToken, "")), &p); err != nil {
		d.t.Fatal(err)
	}
	return p.Stdout + p.Stderr
}

// outside is what the machine that runs the tests looks like.
func outside(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, name)
	for _, path := range []string{"/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/proc/self/mountinfo", "/var/lib/dbus/machine-id"} {
		data, err := os.ReadFile(path)
		fmt.Fprintln(&b, path, string(data), err)
	}
	return b.String()
}

// TestIdentityRepairForReal lets the command repair the identity of a machine
// made of namespaces: every step has its real effect there, the image's run
// handler sees it, and nothing outside changes.
func TestIdentityRepairForReal(t *testing.T) {
	for _, id := range []string{"IDENTITY-1", "IDENTITY-2", "IDENTITY-4", "HOOK-13"} {
		t.Attr("requirement", id)
	}
	needsRoot(t)
	before := outside(t)
	d := startDaemon(t, "isolated", []string{"AGENTD_REPAIR_IDENTITY=true"})
	d.want(200, "POST", hooks+"ready", "", "")
	if h := d.want(200, "GET", "/v1/health", "", ""); !strings.Contains(h, `"identity_repaired":false`) {
		t.Errorf("before bootstrap: %s", h)
	}
	d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"`+isolatedToken+`"}`))
	var h api.Health
	if err := json.Unmarshal([]byte(d.want(200, "GET", "/v1/health", "", "")), &h); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range h.IdentitySteps {
		steps = append(steps, s.Name+" "+s.Outcome)
	}
	want := "machine-id repaired, hostname repaired, boot-id repaired, random-seed repaired, cached-credential repaired"
	if got := strings.Join(steps, ", "); got != want || !h.IdentityRepaired || h.IdentityDegraded {
		t.Errorf("steps %s, repaired %v, degraded %v", got, h.IdentityRepaired, h.IdentityDegraded)
	}
	id := strings.TrimSuffix(d.output("id", "cat", "/etc/machine-id"), "\n")
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Fatalf("machine id %q", id)
	}
	for _, c := range []struct{ what, got, want string }{
		{"hostname", d.output("hostname", "uname", "-n"), "microvm-" + id[:12] + "\n"},
		{"boot id", d.output("boot", "cat", "/proc/sys/kernel/random/boot_id"),
			id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:] + "\n"},
		{"what is left", d.output("left", "find", "/var/lib", "-type", "f"), ""},
		{"mode", d.output("mode", "stat", "-c", "%a", "/etc/machine-id"), "444\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if o := h.Hooks[1].Handler; o == nil || o.ExitCode == nil || *o.ExitCode != 0 {
		t.Errorf("the run handler: %+v", o)
	}
	if log := d.end(syscall.SIGTERM); !strings.Contains(log, `"text":"`+id+`\n"`) {
		t.Errorf("the run handler did not see the machine id %q: %s", id, log)
	}
	if after := outside(t); after != before {
		t.Errorf("the machine outside changed from\n%s\nto\n%s", before, after)
	}
}

// TestPowerOffForReal powers off a machine made of namespaces: there the call
// ends the first process, and with it all others, and nothing outside.
func TestPowerOffForReal(t *testing.T) {
	for _, id := range []string{"POWER-1", "POWER-2", "POWER-7", "EXEC-37"} {
		t.Attr("requirement", id)
	}
	needsRoot(t)
	d := startDaemon(t, "isolated", nil)
	d.want(200, "POST", hooks+"run", "", payload(`{"agent_token":"`+isolatedToken+`"}`))
	resp, err := http.Get(d.url + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get(api.HeaderPowerOffExit); got != "1" {
		t.Skipf("this machine's root has no CAP_SYS_BOOT (header %q)", got)
	}
	marks := t.TempDir()
	script := "echo done > " + marks + "/done; (until [ -e " + marks + "/go ]; do :; done; echo member > " + marks + "/member) > /dev/null 2>&1 & exit 0"
	body, err := json.Marshal(map[string]any{"exec_id": "last", "command": []string{script}, "shell": true, "poweroff_on_exit": true})
	if err != nil {
		t.Fatal(err)
	}
	d.want(200, "POST", api.PathExecStart, isolatedToken, string(body))
	d.want(200, "GET", "/v1/exec/last/stream", isolatedToken, "")
	if poll := d.want(200, "GET", "/v1/exec/last", isolatedToken, ""); !strings.Contains(poll, `"exit_code":0`) {
		t.Errorf("while a member lives: %s", poll)
	}
	if err := os.WriteFile(marks+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	<-d.copied
	err = d.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Fatalf("the daemon ended with %v, want the signal by which a namespace tells of a power-off: %s", err, d.log.String())
	}
	if _, err := os.Stat(marks + "/member"); err != nil {
		t.Errorf("powered off before the group had ended: %v", err)
	}
	if !strings.Contains(d.log.String(), `"msg":"powering off","exec_id":"last"`) {
		t.Errorf("the log does not tell of it: %s", d.log.String())
	}
}
