package agentd_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
)

// power records power-offs in place of the machine's.
type power struct {
	lost  atomic.Bool // the capability is gone
	ripe  atomic.Bool // the test let the last member go
	off   chan string // at each power-off: ripe, and what the poll of exec "x" said
	fails error
}

func newPower() *power { return &power{off: make(chan string, 10)} }

// use is an edit of the Config that brings the recorder. d is the daemon that
// is asked for the exec while the machine goes down.
func (p *power) use(d **daemon) func(*agentd.Config) {
	return func(c *agentd.Config) {
		c.MayPowerOff = func() bool { return !p.lost.Load() }
		c.PowerOff = func() error {
			p.off <- fmt.Sprint(p.ripe.Load(), " ", (*d).get("/v1/exec/x").body)
			return p.fails
		}
	}
}

const powersOff = `{"exec_id":"x","command":["%s"],"shell":true,"poweroff_on_exit":true}`

func startPowerOff(d *daemon, script string) reply {
	d.t.Helper()
	return d.post(api.PathExecStart, strings.Replace(powersOff, "%s", script, 1))
}

// TestPowerOffOnExit checks that the machine goes down once, after the result
// was stored and the last member of the group ended, with and without a retry,
// and that what left the group is not waited for.
func TestPowerOffOnExit(t *testing.T) {
	for _, id := range []string{"EXEC-37", "POWER-2", "POWER-6"} {
		t.Attr("requirement", id)
	}
	var d *daemon
	p := newPower()
	img := newImage(t)
	img.fifo("go")
	img.fifo("up")
	d = booted(t, func(c *agentd.Config) { p.use(&d)(c); c.Limits.OutputLinger = -1 })
	// The first child stays in the group; the second leaves it and is not waited for.
	script := `T=` + img.tree + `; (echo up > $T/up; read x < $T/go) & setsid sleep 1000 > /dev/null 2>&1 & echo $! > $T/left; exit 3`
	for range 2 { // the second is a retry
		if r := startPowerOff(d, script); r.status != 200 {
			t.Fatal(r)
		}
	}
	img.read("up")
	if o := d.outcome("x"); *o.Outcome.ExitCode != 3 {
		t.Errorf("outcome %s", jsonOf(o))
	}
	p.ripe.Store(true)
	writeFile(t, img.tree+"/go", "go\n") // opening the pipe for writing waits for its reader
	if at := <-p.off; !strings.HasPrefix(at, "true ") || !strings.Contains(at, `"phase":"exited","exit_code":3`) {
		t.Errorf("at the power-off: the last member was let go, and the exec was: %s", at)
	}
	if err := d.Shutdown(t.Context()); err != nil { // ends every watch
		t.Error(err)
	}
	if n := len(p.off); n != 0 {
		t.Errorf("%d further power-offs", n)
	}
	killMark(t, img, "left")
}

// TestPowerOffUnavailable checks the refusal before the spawn, and the header,
// while the capability is absent and while there is nothing to call.
func TestPowerOffUnavailable(t *testing.T) {
	for _, id := range []string{"EXEC-11", "HEALTH-9", "POWER-1"} {
		t.Attr("requirement", id)
	}
	var d *daemon
	p := newPower()
	d = booted(t, p.use(&d))
	header := func(want string) {
		t.Helper()
		if got := strings.Join(d.get(api.PathHealth).header[http1(api.HeaderPowerOffExit)], ","); got != want {
			t.Errorf("header %q, want %q", got, want)
		}
	}
	header("1")
	p.lost.Store(true)
	header("")
	if r := startPowerOff(d, "exit 0"); r.code() != api.PowerOffUnavailable || r.status != 400 {
		t.Errorf("without the capability: %v", r)
	}
	if r := d.get("/v1/exec/x"); r.code() != api.UnknownExec {
		t.Errorf("after the refusal: %v", r)
	}
	nothing := booted(t, func(c *agentd.Config) { c.MayPowerOff = func() bool { return true } })
	if r := startPowerOff(nothing, "exit 0"); r.code() != api.PowerOffUnavailable {
		t.Errorf("without a call: %v", r)
	}
}

// TestPowerOffCalledOff checks that the daemon serves on when the capability
// went meanwhile, and when the call fails.
func TestPowerOffCalledOff(t *testing.T) {
	t.Attr("requirement", "POWER-5")
	var d *daemon
	p := newPower()
	p.fails = errors.New("planted")
	img := newImage(t)
	img.fifo("go")
	d = booted(t, p.use(&d))
	if r := startPowerOff(d, "read x < "+img.tree+"/go"); r.status != 200 {
		t.Fatal(r)
	}
	p.lost.Store(true)
	writeFile(t, img.tree+"/go", "go\n")
	d.awaitLog("no longer holds CAP_SYS_BOOT")
	if len(p.off) != 0 {
		t.Error("powered off without the capability")
	}
	p.lost.Store(false)
	if r := d.post(api.PathExecStart, `{"exec_id":"y","command":["true"],"poweroff_on_exit":true}`); r.status != 200 {
		t.Fatal(r)
	}
	<-p.off
	d.awaitLog("power-off failed")
	if r := d.get(api.PathProcs); r.status != 200 {
		t.Errorf("after a failed power-off: %v", r)
	}
}

// http1 is a header's name as net/http keeps it.
func http1(name string) string { return http.CanonicalHeaderKey(name) }

// killMark ends the process whose pid a script wrote.
func killMark(t *testing.T, img *image, mark string) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(img.read(mark), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left the group does not live: %v", err)
	}
}

// awaitLog waits until the log holds the words.
func (d *daemon) awaitLog(words string) {
	d.t.Helper()
	for deadline := time.Now().Add(failsafe); !strings.Contains(d.log.String(), words); runtime.Gosched() {
		if time.Now().After(deadline) {
			d.t.Fatalf("the log never says %q", words)
		}
	}
}
