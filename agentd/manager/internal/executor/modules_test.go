package executor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/execution"
)

// newModules returns modules whose programs are this binary, of that kind.
func newModules(t *testing.T, kind string, change func(*ModulesConfig)) *Modules {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := ModulesConfig{
		Programs: map[string][]string{"llm": {self, "an-llm"}, "web": {self, "a-web"}},
		Environ:  append(os.Environ(), "TEST_MODULE="+kind, "GORACE=atexit_sleep_ms=0"),
		Log:      slog.New(slog.DiscardHandler), Waits: execution.NewWaits(),
	}
	if change != nil {
		change(&c)
	}
	m := NewModules(c)
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func startBoth(t *testing.T, m *Modules) {
	t.Helper()
	for _, x := range []ModuleType{LLM, Web} {
		if err := m.Start(t.Context(), x, []byte(`"conf"`)); err != nil {
			t.Fatal(err)
		}
		if got := m.State(x); got != ModuleRunning {
			t.Fatalf("module %s is %s", x, got)
		}
	}
}

// moduleRequest is a request that needs modules.
func moduleRequest(steps ...string) *msp.RunRequest {
	req := request(steps...)
	req.IsSync = false
	req.HostData = `{"node_address":"0x1","tx_id":"t1","more":[]}`
	return req
}

func TestRunUsesItsModules(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-43")
	t.Attr("requirement", "EXECUTOR-45")
	m := newModules(t, "good", nil)
	startBoth(t, m)
	l := newLauncher(t, func(c *Config) { c.Modules = m })
	o := run(t, l, moduleRequest("fds", "argv", "module=llm,hello", "module=web,there", "module=web,again", "exit=0"))
	for _, want := range []string{
		"5 socket\n6 socket\n", "--host\nfd://4\n--module-llm=fd://5\n--module-web=fd://6\n",
		"an-llm \"conf\" 1 t1 hello\n", "a-web \"conf\" 1 t1 there\n", "a-web \"conf\" 1 t1 again\n",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("output without %q: %q, %s", want, o.stdout, o.exit())
		}
	}
	want := map[string]any{
		"llm": map[string]any{"lines": calldata.NewInt(1), "seconds": nil},
		"web": map[string]any{"lines": calldata.NewInt(2), "seconds": nil},
	}
	if string(o.Report.Metrics) != string(encode(t, want)) {
		t.Errorf("metrics %x, want %x", o.Report.Metrics, encode(t, want))
	}
}

func TestRunWithoutModulesIsRefused(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-12")
	m := newModules(t, "good", nil)
	l := newLauncher(t, func(c *Config) { c.Modules = m })
	refused := func(why string) {
		t.Helper()
		if err := l.ModulesMissing(moduleRequest()); !errors.Is(err, ErrModulesMissing) {
			t.Errorf("%s: %v", why, err)
		}
		if o := run(t, l, moduleRequest()); !strings.Contains(o.failed, "modules are required but not running") {
			t.Errorf("%s: %s", why, o.exit())
		}
	}
	refused("none runs")
	if err := m.Start(t.Context(), LLM, nil); err != nil {
		t.Fatal(err)
	}
	refused("one runs")
	for name, change := range map[string]func(*msp.RunRequest){
		"sync": func(r *msp.RunRequest) { r.IsSync = true }, "no modules": func(r *msp.RunRequest) { r.NoModules = true },
		"no permission": func(r *msp.RunRequest) { r.Permissions = "wsc" },
	} {
		req := moduleRequest("exit=0")
		change(req)
		if err := l.ModulesMissing(req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o := run(t, l, req); o.exit() != "exited 0" {
			t.Errorf("%s: %s", name, o.exit())
		}
	}
	if err := newLauncher(t, nil).ModulesMissing(moduleRequest()); !errors.Is(err, ErrModulesMissing) {
		t.Errorf("a manager without modules: %v", err)
	}
}

// TestModulesThatVanish stops a module between a run's preparation and its
// spawn.
func TestModulesThatVanish(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-12")
	m := newModules(t, "good", nil)
	startBoth(t, m)
	l := newLauncher(t, func(c *Config) { c.Modules = m })
	p, err := l.Prepare(t.Context(), 1, moduleRequest())
	if err != nil {
		t.Fatal(err)
	}
	if ran, err := m.Stop(t.Context(), Web); !ran || err != nil {
		t.Fatalf("ran %v, error %v", ran, err)
	}
	withoutCollector(t)
	before := descriptors(t)
	reg := execution.New(execution.Config{Log: slog.New(slog.DiscardHandler)})
	_, _, err = reg.Start(t.Context(), execution.Key{ID: "x"}, func(context.Context) (*execution.Command, error) { return p.Command, nil })
	if !errors.Is(err, ErrModulesMissing) {
		t.Errorf("spawn: %v", err)
	}
	p.Spawned(false)
	p.Close()
	awaitDescriptors(t, before)
	if ran, err := m.Stop(t.Context(), LLM); !ran || err != nil {
		t.Errorf("the module that was left is held: ran %v, error %v", ran, err)
	}
}

func TestHostDataOfARunWithModules(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-13")
	m := newModules(t, "good", nil)
	startBoth(t, m)
	l := newLauncher(t, func(c *Config) { c.Modules = m })
	for text, ok := range map[string]bool{
		"": false, "[]": false, "{}": false, `{"node_address":1}`: false, `{"tx_id":1}`: false, `{"node_address":1,"tx_id":null}`: true,
	} {
		req := moduleRequest("exit=0")
		req.HostData = text
		o := run(t, l, req)
		if ok != (o.exit() == "exited 0") || !ok && !strings.Contains(o.failed, "host_data") {
			t.Errorf("host data %q: %s", text, o.exit())
		}
		req.NoModules = true
		if o := run(t, l, req); o.exit() != "exited 0" {
			t.Errorf("host data %q without modules: %s", text, o.exit())
		}
	}
}

func TestModuleThatCannotStart(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-44")
	none := newModules(t, "good", func(c *ModulesConfig) { c.Programs = nil })
	if err := none.Start(t.Context(), LLM, nil); !errors.Is(err, ErrModuleUnset) || !strings.Contains(err.Error(), "set modules") {
		t.Errorf("without a program: %v", err)
	}
	if err := none.Start(t.Context(), "gpu", nil); !errors.Is(err, ErrModuleUnknown) {
		t.Errorf("another module: %v", err)
	}
	if _, err := none.Stop(t.Context(), "gpu"); !errors.Is(err, ErrModuleUnknown) {
		t.Errorf("another module: %v", err)
	}
	missing := newModules(t, "good", func(c *ModulesConfig) { c.Programs["llm"] = []string{"/nowhere/module"} })
	for kind, m := range map[string]*Modules{"no such file": missing, "ended before": newModules(t, "ends", nil)} {
		for range 2 { // a start that failed leaves the way free for the next
			if err := m.Start(t.Context(), LLM, nil); err == nil || !strings.Contains(err.Error(), kind) || m.State(LLM) != ModuleStopped {
				t.Errorf("%s: %v, %s", kind, err, m.State(LLM))
			}
		}
	}
	silent := newModules(t, "silent", func(c *ModulesConfig) { c.ReadyWait = 20 * time.Millisecond })
	if err := silent.Start(t.Context(), LLM, nil); err == nil || !strings.Contains(err.Error(), "in time") || silent.State(LLM) != ModuleStopped {
		t.Errorf("a program that is never ready: %v, %s", err, silent.State(LLM))
	}
}

func TestModuleStopWaitsForItsRuns(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-46")
	m := newModules(t, "good", nil)
	startBoth(t, m)
	d, tab := newDriver(t), newTable(t)
	l := newLauncher(t, func(c *Config) { c.Modules = m })
	id := tab.start(l, moduleRequest(d.step("gate", "run"), "module=llm,still there", "exit=0"))
	held := d.accept()
	called, cancel := context.WithCancel(t.Context())
	cancel()
	if ran, err := m.Stop(called, LLM); !ran || !errors.Is(err, context.Canceled) {
		t.Errorf("a stop that nobody waits for: ran %v, error %v", ran, err)
	}
	if got := m.State(LLM); got != ModuleStopping {
		t.Errorf("a module that a run holds is %s", got)
	}
	if err := m.Start(t.Context(), LLM, nil); !errors.Is(err, ErrModuleBusy) {
		t.Errorf("a start while it stops: %v", err)
	}
	if o := run(t, l, moduleRequest()); !strings.Contains(o.failed, "not running") {
		t.Errorf("a run while it stops: %s", o.exit())
	}
	held.tell("go on")
	if o := tab.end(id); o.exit() != "exited 0" || !strings.Contains(o.stdout, "still there") {
		t.Errorf("the run that held it: %s, output %q", o.exit(), o.stdout)
	}
	if _, err := m.Stop(t.Context(), LLM); err != nil || m.State(LLM) != ModuleStopped {
		t.Errorf("after the run: %s, error %v", m.State(LLM), err)
	}
	if ran, err := m.Stop(t.Context(), LLM); ran || err != nil {
		t.Errorf("a stop of a stopped one: ran %v, error %v", ran, err)
	}
	if err := m.Start(t.Context(), LLM, nil); err != nil {
		t.Errorf("a start after the stop: %v", err)
	}
}

// TestModuleThatEndsByItself kills a module's program, and one that does not
// leave when it is told to.
func TestModuleThatEndsByItself(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-47")
	m := newModules(t, "good", nil)
	startBoth(t, m)
	m.mu.Lock()
	p := m.modules[LLM].program
	m.mu.Unlock()
	p.kill()
	<-p.ended
	for late := time.Now().Add(10 * time.Second); m.State(LLM) != ModuleStopped; { // entered right after the end
		if time.Now().After(late) {
			t.Fatal("a module that ended is still said to run")
		}
		runtime.Gosched()
	}
	if err := m.Start(t.Context(), LLM, nil); err != nil {
		t.Errorf("a start after the end: %v", err)
	}
	stubborn := newModules(t, "stubborn", func(c *ModulesConfig) { c.QuitWait = 20 * time.Millisecond })
	if err := stubborn.Start(t.Context(), LLM, nil); err != nil {
		t.Fatal(err)
	}
	if ran, err := stubborn.Stop(t.Context(), LLM); !ran || err != nil || stubborn.State(LLM) != ModuleStopped {
		t.Errorf("a stubborn program: ran %v, error %v, %s", ran, err, stubborn.State(LLM))
	}
}

// TestDeafModuleHoldsUpNobody fills the queue of a program that takes no runs.
func TestDeafModuleHoldsUpNobody(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-48")
	m := newModules(t, "deaf", func(c *ModulesConfig) { c.QuitWait = time.Millisecond })
	startBoth(t, m)
	about := &hostData{NodeAddress: []byte(`"` + strings.Repeat("x", 1<<16) + `"`), TxID: []byte("1")}
	for i := range 1000 {
		h, fd, err := m.connect(LLM, 1, about)
		if err != nil {
			if i == 0 {
				t.Fatalf("the first run is refused: %v", err)
			}
			return
		}
		closeFD(t, fd)
		h.release()
	}
	t.Error("a program that takes nothing took 1000 runs")
}

// TestModuleWithoutMetrics has a module that announces no report and sends none:
// the end of a run waits for it a moment, and not to the end of the linger.
func TestModuleWithoutMetrics(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-49")
	for kind, want := range map[string]string{"mute": "", "good": `{"lines":0,"seconds":1.5}`} {
		m := newModules(t, kind, nil)
		startBoth(t, m)
		h, fd, err := m.connect(LLM, 7, &hostData{})
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if got := h.program.metrics(ctx, 7); string(got) != want || ctx.Err() != nil {
			t.Errorf("%s: metrics %q, %v; want %q", kind, got, ctx.Err(), want)
		}
		cancel()
		h.release()
	}
}
