package agentd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"microvms/agentd"
)

// machine is a made-up machine for identity repair, with what was done to it.
type machine struct {
	agentd.IdentityMachine
	hostnames []string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	g := &machine{}
	g.Root = t.TempDir()
	g.SetHostname = func(name string) error { g.hostnames = append(g.hostnames, name); return syscall.EPERM }
	g.BindMount = func(string, string) error { return syscall.EPERM }
	return g
}

// TestIdentityRepairAtBootstrap checks when the repair runs (at the winning run
// hook, before its handler, once), and what health says before and after. A
// failed step refuses nothing.
func TestIdentityRepairAtBootstrap(t *testing.T) {
	for _, id := range []string{"IDENTITY-1", "IDENTITY-4", "IDENTITY-6"} {
		t.Attr("requirement", id)
	}
	g := newMachine(t)
	img := newImage(t)
	img.handler("run", `cat `+filepath.Join(g.Root, "etc/machine-id")+` > $T/seen`)
	d := start(t, func(c *agentd.Config) { img.use(c); c.RepairIdentity, c.Identity = true, g.IdentityMachine })
	for _, hook := range []string{"ready", "validate", "resume"} {
		d.post(hookAt+hook, "")
	}
	d.post(hookAt+"run", "malformed")
	if h := d.health(); h.IdentityRepaired || h.IdentityDegraded || len(h.IdentitySteps) != 0 || len(g.hostnames) != 0 {
		t.Errorf("before bootstrap: %+v, hostnames %q", h, g.hostnames)
	}
	d.bootstrap(nil) // fails the test unless it is answered 200
	h := d.health()
	const want = `[{"name":"machine-id","outcome":"repaired"},{"name":"hostname","outcome":"failed","error":"operation not permitted"},` +
		`{"name":"boot-id","outcome":"not_applicable"},{"name":"random-seed","outcome":"not_applicable"},{"name":"cached-credential","outcome":"not_applicable"}]`
	if got := jsonOf(h.IdentitySteps); got != want || !h.IdentityRepaired || !h.IdentityDegraded {
		t.Errorf("steps %s, repaired %v, degraded %v", got, h.IdentityRepaired, h.IdentityDegraded)
	}
	id, err := os.ReadFile(filepath.Join(g.Root, "etc/machine-id"))
	if err != nil || img.read("seen") != string(id) {
		t.Errorf("the run handler saw %q, the machine id is %q (%v)", img.read("seen"), id, err)
	}
	if len(g.hostnames) != 1 || !strings.HasPrefix(string(id), strings.TrimPrefix(g.hostnames[0], "microvm-")) {
		t.Errorf("hostnames %q beside the machine id %q", g.hostnames, id)
	}
	d.bootstrap(nil)
	d.post(hookAt+"run", envelope(map[string]string{"agent_token": "other"}))
	if again, _ := os.ReadFile(filepath.Join(g.Root, "etc/machine-id")); string(again) != string(id) || len(g.hostnames) != 1 {
		t.Errorf("a replay or a conflict repaired again: %q, hostnames %q", again, g.hostnames)
	}
}

// TestIdentityRepairSwitchedOff checks that nothing is touched and health keeps
// saying so.
func TestIdentityRepairSwitchedOff(t *testing.T) {
	t.Attr("requirement", "IDENTITY-3")
	g := newMachine(t)
	d := booted(t, func(c *agentd.Config) { c.Identity = g.IdentityMachine })
	if h := d.health(); h.IdentityRepaired || h.IdentityDegraded || len(h.IdentitySteps) != 0 {
		t.Errorf("health %+v", h)
	}
	entries, err := os.ReadDir(g.Root)
	if err != nil || len(entries) != 0 || len(g.hostnames) != 0 {
		t.Errorf("the machine was touched: %v, hostnames %q (%v)", entries, g.hostnames, err)
	}
}
