package agentd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
)

func outcome(t *testing.T, h api.Health, entry int) api.HandlerOutcome {
	t.Helper()
	if len(h.Hooks) <= entry || h.Hooks[entry].Handler == nil {
		t.Fatalf("entry %d has no outcome: %+v", entry, h.Hooks)
	}
	return *h.Hooks[entry].Handler
}

// TestRunHandlerRunsOnce checks that the winning run hook runs its handler
// before the answer, and that replays, conflicts and malformed ones do not.
func TestRunHandlerRunsOnce(t *testing.T) {
	t.Attr("requirement", "HOOK-13")
	img := newImage(t)
	img.handler("run", `echo ran >> $T/runs`)
	d := start(t, img.use)
	d.post(hookAt+"run", "malformed")
	d.bootstrap(nil)
	if got := img.read("runs"); got != "ran\n" {
		t.Fatalf("when the hook was answered the handler had written %q", got)
	}
	d.bootstrap(nil)
	d.post(hookAt+"run", envelope(map[string]string{"agent_token": "other"}))
	if got := img.read("runs"); got != "ran\n" {
		t.Errorf("after a replay and a conflict: %q, want one run", got)
	}
	h := d.health()
	if o := outcome(t, h, 1); o.ExitCode == nil || *o.ExitCode != 0 || o.Signal != nil || o.TimedOut || o.Error != nil {
		t.Errorf("outcome %s", jsonOf(o))
	}
	for _, entry := range []int{0, 2, 3} {
		if h.Hooks[entry].Handler != nil {
			t.Errorf("entry %d has an outcome", entry)
		}
	}
}

// TestHandlerForEachHook checks which hooks have handlers, how failures are
// shown, and that none changes the answer.
func TestHandlerForEachHook(t *testing.T) {
	t.Attr("requirement", "HOOK-20")
	t.Attr("requirement", "HOOK-22")
	img := newImage(t)
	for i, hook := range []string{"suspend", "resume", "terminate", "ready", "validate"} {
		img.handler(hook, fmt.Sprintf("echo %s >> $T/order; exit %d", hook, i))
	}
	img.handler("resume", "echo resume >> $T/order; kill -9 $$")
	d := booted(t, img.use)
	for _, hook := range []string{"ready", "validate", "suspend", "resume", "terminate"} {
		if r := d.post(hookAt+hook, ""); r.status != 200 || r.body != "" {
			t.Errorf("%s: %v", hook, r)
		}
	}
	if got := img.read("order"); got != "suspend\nresume\nterminate\n" {
		t.Errorf("handlers ran in the order %q", got)
	}
	var shown struct {
		Hooks []struct {
			Hook    string
			Handler map[string]any
		}
	}
	if err := json.Unmarshal([]byte(d.get(api.PathHealth).body), &shown); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"run": "map[]", "ready": "map[]", "validate": "map[]",
		"suspend":   "map[exit_code:0 signal:<nil> timed_out:false]",
		"resume":    "map[exit_code:<nil> signal:9 timed_out:false]",
		"terminate": "map[exit_code:2 signal:<nil> timed_out:false]",
	}
	for _, entry := range shown.Hooks {
		if entry.Handler != nil {
			if _, ok := entry.Handler["duration_ms"].(float64); !ok {
				t.Errorf("%s has no duration: %v", entry.Hook, entry.Handler)
			}
			delete(entry.Handler, "duration_ms")
		}
		if got := fmt.Sprint(entry.Handler); got != want[entry.Hook] {
			t.Errorf("%s shows %s, want %s", entry.Hook, got, want[entry.Hook])
		}
	}
}

// TestHandlerThatCannotRun checks the reasons on the entry, and that the hook
// is answered.
func TestHandlerThatCannotRun(t *testing.T) {
	t.Attr("requirement", "HOOK-20")
	img := newImage(t)
	path := func(hook string) string { return filepath.Join(img.dir, hook) }
	writeFile(t, path("suspend"), "#!/bin/sh\n") // mode 0600
	if err := os.Mkdir(path("resume"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", path("terminate")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("run"), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := booted(t, img.use)
	for i, c := range []struct{ hook, reason string }{
		{"run", "cannot start: exec format error"},
		{"suspend", "not executable"},
		{"resume", "not a regular file"},
		{"terminate", "no such file or directory"},
	} {
		if c.hook != "run" {
			if r := d.post(hookAt+c.hook, ""); r.status != 200 {
				t.Errorf("%s: %v", c.hook, r)
			}
		}
		o := outcome(t, d.health(), i)
		if o.Error == nil || *o.Error != c.reason || o.ExitCode != nil || o.Signal != nil || o.TimedOut {
			t.Errorf("%s shows %s, want the error %q", c.hook, jsonOf(o), c.reason)
		}
	}
}

// TestHandlerEnvironment checks what a handler is given: the environment in
// its order and without the token, directory, standard input, user and group.
func TestHandlerEnvironment(t *testing.T) {
	for _, id := range []string{"HOOK-17", "HOOK-18", "HOOK-23", "SECRET-2"} {
		t.Attr("requirement", id)
	}
	img := newImage(t)
	img.handler("run", `env > $T/env; pwd > $T/dir; readlink /proc/$$/fd/0 > $T/stdin; id -u > $T/uid; set -- $(cat /proc/$$/stat); echo $1 $5 > $T/group
tr '\0' '\n' < /proc/$$/environ > $T/exact`)
	nobody := "4242"
	d := start(t, func(c *agentd.Config) {
		img.use(c)
		c.DefaultUser = &nobody
		c.Environ = []string{"PATH=/usr/bin:/bin", "AGENTD_LOG=debug", "A=image", "A=twice", "B=image", "AGENTD_HOOK=image", "broken"}
	})
	d.bootstrap(map[string]string{"B": "launch", "AGENTD_HOOK": "launch", "AGENT": "x"})
	want := []string{"A=image", "AGENT=x", "AGENTD_HOOK=run", "AGENTD_LOG=debug", "B=launch", "PATH=/usr/bin:/bin"}
	got := strings.Split(strings.TrimSpace(img.read("exact")), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	if strings.Contains(img.read("env"), token) {
		t.Error("the token is in the environment")
	}
	var pid, group int
	if _, err := fmt.Sscan(img.read("group"), &pid, &group); err != nil || pid != group {
		t.Errorf("pid %d runs in group %d, want its own (%v)", pid, group, err)
	}
	for mark, want := range map[string]string{"dir": "/\n", "stdin": "/dev/null\n", "uid": fmt.Sprintln(os.Geteuid())} {
		if got := img.read(mark); got != want {
			t.Errorf("%s is %q, want %q", mark, got, want)
		}
	}
}

// TestHandlerOutput checks that output goes to the log, cut, and not to health,
// and that a handler that writes more than a pipe holds does not stand still.
func TestHandlerOutput(t *testing.T) {
	t.Attr("requirement", "HOOK-19")
	img := newImage(t)
	img.handler("suspend", `printf 'begins%099994d' 7; printf 'and%04097d' 8 >&2`)
	img.handler("resume", `printf 'whole%04091d' 9; exit 0`)
	d := booted(t, img.use)
	d.post(hookAt+"suspend", "")
	d.post(hookAt+"resume", "")
	wrote := map[string]string{}
	for line := range strings.Lines(d.log.String()) {
		var e struct {
			Msg, Hook, Stream, Text string
			Truncated               bool
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Msg == "hook handler wrote" {
			wrote[e.Hook+" "+e.Stream] = fmt.Sprintf("%.6s %d %v", e.Text, len(e.Text), e.Truncated)
		}
	}
	want := map[string]string{"suspend stdout": "begins 4096 true", "suspend stderr": "and000 4096 true", "resume stdout": "whole0 4096 false"}
	if fmt.Sprint(wrote) != fmt.Sprint(want) {
		t.Errorf("the log shows %v, want %v", wrote, want)
	}
	if body := d.get(api.PathHealth).body; strings.Contains(body, "begins") || strings.Contains(body, "whole") {
		t.Error("health shows what a handler wrote")
	}
	if o := outcome(t, d.health(), 1); o.ExitCode == nil || *o.ExitCode != 0 {
		t.Errorf("the handler did not end by itself: %s", jsonOf(o))
	}
}

// TestHandlersRunOneAtATime lets many hooks race; each handler would notice
// another beside it.
func TestHandlersRunOneAtATime(t *testing.T) {
	t.Attr("requirement", "HOOK-15")
	img := newImage(t)
	script := `mkdir $T/turn || echo overlap >> $T/log; echo begin >> $T/log; cat /etc/passwd /etc/group | sort > /dev/null; echo end >> $T/log; rmdir $T/turn`
	for _, hook := range []string{"suspend", "resume", "terminate"} {
		img.handler(hook, script)
	}
	d := booted(t, img.use)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if r := d.post(hookAt+[]string{"suspend", "resume", "terminate"}[i%3], ""); r.status != 200 {
				t.Errorf("hook %d: %v", i, r)
			}
		})
	}
	all.Wait()
	if got, want := img.read("log"), strings.Repeat("begin\nend\n", 30); got != want {
		t.Errorf("handlers overlapped: %q", got)
	}
}

// TestDroppedHooksRunNoHandler fills the hook log: what it drops is answered
// and does its work, without a handler.
func TestDroppedHooksRunNoHandler(t *testing.T) {
	t.Attr("requirement", "HOOK-14")
	img := newImage(t)
	for _, hook := range []string{"run", "suspend"} {
		img.handler(hook, `echo `+hook+` >> $T/runs`)
	}
	d := start(t, func(c *agentd.Config) { img.use(c); c.Limits.HookLogEntries = 1 })
	for range 3 {
		if r := d.post(hookAt+"suspend", ""); r.status != 200 {
			t.Error(r)
		}
	}
	d.bootstrap(nil)
	if h := d.health(); !h.Bootstrapped || h.HooksDropped != 3 || img.read("runs") != "suspend\n" {
		t.Errorf("runs %q, health %+v", img.read("runs"), h)
	}
}

// TestHandlerBudget lets the budget pass on a clock of the test's: over a
// leader that hangs, over output that outlives the leader, and over a process
// that left the group.
func TestHandlerBudget(t *testing.T) {
	t.Attr("requirement", "HOOK-16")
	const budget = 20 * time.Second
	for _, c := range []struct {
		name, script string
		exit, signal string
		survivor     bool // the process that wrote its pid lives on
	}{
		{"leader", `echo $$ > $T/up; exec sleep 1000`, "null", "9", false},
		{"leader and child", `sleep 1000 & echo $! > $T/up; wait`, "null", "9", false},
		// The child says that it is there once its parent is a zombie.
		{"output outlives the leader", `P=$$; (until grep -q '^State:.Z' /proc/$P/status; do :; done; exec sh -c 'echo $$ > '$T'/up; exec sleep 1000') & exit 3`, "3", "null", false},
		{"output held from another session", `P=$$; setsid sh -c 'until grep -q "^State:.Z" /proc/'$P'/status; do :; done; echo $$ > '$T'/up; exec sleep 1000' & exit 0`, "0", "null", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := newImage(t)
			img.fifo("up")
			img.handler("terminate", c.script)
			clock := newClock(1_700_000_000)
			d := booted(t, func(c *agentd.Config) { img.use(c); c.Clock = clock })
			answered := make(chan reply, 1)
			go func() { answered <- d.post(hookAt+"terminate", "") }()
			var pid int
			if _, err := fmt.Sscan(img.read("up"), &pid); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
			clock.awaitArmed(t, budget)
			clock.Advance(budget - time.Millisecond)
			if h := d.health(); h.Hooks[1].Handler != nil {
				t.Fatalf("before the budget has passed: %+v", h.Hooks[1].Handler)
			}
			select {
			case r := <-answered:
				t.Fatalf("answered before the budget has passed: %v", r)
			default:
			}
			clock.Advance(time.Millisecond)
			if r := <-answered; r.status != 200 {
				t.Errorf("%v", r)
			}
			want := fmt.Sprintf(`{"exit_code":%s,"signal":%s,"timed_out":true,"duration_ms":20000}`, c.exit, c.signal)
			if got := jsonOf(outcome(t, d.health(), 1)); got != want {
				t.Errorf("outcome %s, want %s", got, want)
			}
			if alive := waitGone(pid, !c.survivor); alive != c.survivor {
				t.Errorf("the process lives: %v, want %v", alive, c.survivor)
			}
		})
	}
}

// waitGone reports whether the process lives; when it should end, it gives the
// kernel the time to end it.
func waitGone(pid int, ends bool) (alive bool) {
	for range 1_000_000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		alive = err == nil && !strings.Contains(string(stat), ") Z ")
		if alive != ends {
			return alive
		}
	}
	return alive
}

// TestHandlerLeavesAService checks that what a handler leaves behind with its
// streams redirected is neither waited for nor ended.
func TestHandlerLeavesAService(t *testing.T) {
	t.Attr("requirement", "HOOK-20")
	img := newImage(t)
	img.handler("resume", `sleep 1000 > /dev/null 2>&1 & echo $! > $T/pid`)
	d := booted(t, img.use)
	d.post(hookAt+"resume", "")
	var pid int
	if _, err := fmt.Sscan(img.read("pid"), &pid); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if o := outcome(t, d.health(), 1); o.ExitCode == nil || *o.ExitCode != 0 || o.TimedOut {
		t.Errorf("outcome %s", jsonOf(o))
	}
	if !waitGone(pid, false) {
		t.Error("the service was ended")
	}
}

// TestShutdownDuringHandler checks that a handler that hangs does not hang the
// shutdown.
func TestShutdownDuringHandler(t *testing.T) {
	t.Attr("requirement", "XPORT-16")
	img := newImage(t)
	img.fifo("up")
	img.handler("suspend", `echo $$ > $T/up; exec sleep 1000`)
	d := booted(t, func(c *agentd.Config) { img.use(c); c.Limits.ShutdownGrace = time.Millisecond })
	p := d.dial()
	p.send("POST " + hookAt + "suspend HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n")
	var pid int
	if _, err := fmt.Sscan(img.read("up"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := d.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if waitGone(pid, true) {
		t.Error("the handler outlived the daemon")
		syscall.Kill(pid, syscall.SIGKILL)
	}
}
