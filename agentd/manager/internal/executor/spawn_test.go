package executor

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/runs"
)

// smallestData is the execution data of the smallest request (manager facts,
// section 4.5).
const smallestData = "760d6275636b65745f746f74616c73050863616c6c646174610b0604636f646500086761735f646174610609686f73745f64617461147b7d0f686f73745f68656c6c6f5f64617461051d696e697469616c5f74696d655f756e6974735f616c6c6f636174696f6ee103156c65616465725f6e6f6e6465745f726573756c747300076d6573736167654608636861696e5f69640110636f6e74726163745f61646472657373180000000000000000000000000000000000000000086461746574696d65dc01323032342d31312d32365430363a34323a34322e3432343234325a0769735f696e6974100e6f726967696e5f616464726573731800000000000000000000000000000000000000000e73656e6465725f616464726573731800000000000000000000000000000000000000000e7369676e65725f616464726573731800000000000000000000000000000000000000000576616c756501166d6573736167655f6665655f616c6c6f636174696f6e050c6d6574686f645f686f7374734d010101010101090909066e6573746564000e7265636f72645f616374696f6e73051372656d61696e696e675f726563757273696f6e00"

// smallest is the request of that vector.
func smallest(steps ...string) *msp.RunRequest {
	r := request(steps...)
	r.Message.IsInit = true
	r.InitialTimeUnits = 60
	r.Calldata = []byte{6}
	return r
}

func TestExecutorGetsItsArgumentsInOrder(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-14")
	req := request("argv", "exit=0")
	req.Permissions = "wn"
	l := newLauncher(t, nil)
	got := strings.Split(strings.TrimSpace(run(t, l, req).stdout), "\n")
	want := []string{
		l.program("demo"), "--log-fd=3", "run", "argv", "exit=0", "--sync", "--host", "unix:///h",
		"--permissions", "wn", "--genvm-id=1", "--debug-mode", "safe", "--host", "fd://4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("argument list\n%q, want\n%q", got, want)
	}
}

func TestExecutorReadsItsExecutionData(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-15")
	o := run(t, newLauncher(t, nil), smallest("stdin=print", "exit=0"))
	if got := strings.TrimSpace(o.stdout); got != smallestData {
		t.Errorf("execution data\n%s, want\n%s", got, smallestData)
	}
}

// TestExecutorReadsLargeInputLate has an executor print more than a pipe holds
// before it reads an input that no pipe holds.
func TestExecutorReadsLargeInputLate(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-15")
	req := request("stdin=later", "stdout-bytes=300000", "stdin=read", "exit=0")
	req.Code = make([]byte, 1<<20)
	if o := run(t, newLauncher(t, nil), req); o.exit() != "exited 0" || len(o.stdout) != 300000 {
		t.Errorf("%s, %d bytes of output", o.exit(), len(o.stdout))
	}
}

// TestExecutorHoldsNoOtherDescriptor lets two runs spawn at once, each with its
// own channels, and looks at what the children hold.
func TestExecutorHoldsNoOtherDescriptor(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-16")
	l, tab := newLauncher(t, nil), newTable(t)
	var ids []runs.ID
	for range 8 {
		ids = append(ids, tab.start(l, request("fds", "exit=0")))
	}
	for _, id := range ids {
		if got, want := tab.end(id).stdout, "0 pipe\n1 pipe\n2 pipe\n3 pipe\n4 socket\n"; got != want {
			t.Errorf("descriptors of run %d:\n%swant\n%s", id, got, want)
		}
	}
	req := request("fds", "log=x", "exit=0")
	req.DebugMode = msp.DebugDisabled
	if o := run(t, l, req); o.exit() != "exited 0" || o.Sizes != [3]uint64{} {
		t.Errorf("mode disabled: %s, sizes %v", o.exit(), o.Sizes)
	}
}

func TestExecutorInheritsEnvironmentAndDirectory(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-19")
	t.Setenv("EXECUTOR_TEST", "inherited")
	dir := t.TempDir()
	t.Chdir(dir)
	o := run(t, newLauncher(t, nil), request("env=EXECUTOR_TEST", "cwd", "exit=0"))
	if want := "inherited\n" + dir + "\n"; o.stdout != want {
		t.Errorf("environment and directory %q, want %q", o.stdout, want)
	}
}

func TestExecutorThatCannotStart(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-17")
	req := request()
	req.Selector.Version = "missing"
	if o := run(t, newLauncher(t, nil), req); !strings.Contains(o.exit(), "failed to start") || !strings.Contains(o.failed, "no such file") {
		t.Errorf("an executor that is not there: %s", o.exit())
	}
	req = request("nul\x00")
	if o := run(t, newLauncher(t, nil), req); !strings.Contains(o.exit(), "failed to start") || !strings.Contains(o.failed, "NUL") {
		t.Errorf("an argument with a NUL byte: %s", o.exit())
	}
}

func TestHostDescriptorIsRefused(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-2")
	req := request()
	req.Host = "fd://0"
	if o := run(t, newLauncher(t, nil), req); !strings.Contains(o.failed, `host "fd://0"`) || !strings.Contains(o.failed, "unix://PATH") {
		t.Errorf("a descriptor as host: %s", o.exit())
	}
}

// TestPreparedRunHoldsNothing prepares runs that never start.
func TestPreparedRunHoldsNothing(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-18")
	l := newLauncher(t, nil)
	before := descriptors(t)
	var all []*runs.Prepared
	for i := range 50 {
		p, err := l.Prepare(t.Context(), runs.ID(i), request())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors with 50 prepared runs, %d before", n, before)
	}
	for _, p := range all {
		p.Spawned(false)
		p.Close()
	}
}

// TestFailedSpawnGivesItsDescriptorsBack opens channels for a program that is
// not there.
func TestFailedSpawnGivesItsDescriptorsBack(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-18")
	withoutCollector(t)
	l, tab := newLauncher(t, nil), newTable(t)
	run := func() {
		req := request()
		req.Selector.Version = "missing"
		id := tab.start(l, req)
		tab.end(id)
		if err := tab.Ack(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	run() // what the runtime opens once
	before := descriptors(t)
	for range 20 {
		run()
	}
	awaitDescriptors(t, before)
}

func TestCalldataMethodBecomesEmpty(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-1")
	for name, tc := range map[string]struct{ in, want any }{
		"renamed":  {map[string]any{"method": "f", "args": []any{}}, map[string]any{"": "f", "args": []any{}}},
		"replaced": {map[string]any{"method": "f", "": "g"}, map[string]any{"": "f"}},
		"as it is": {map[string]any{"": "g"}, map[string]any{"": "g"}},
		"no map":   {[]any{"method"}, []any{"method"}},
	} {
		if got, want := rewriteMethod(encode(t, tc.in)), encode(t, tc.want); string(got) != string(want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	for _, data := range [][]byte{nil, {0xff}, {6, 6}} {
		if got := rewriteMethod(data); string(got) != string(data) {
			t.Errorf("what is no calldata, %x, became %x", data, got)
		}
	}
	for keep, key := range map[bool]string{false: "", true: "method"} {
		req := request()
		req.Calldata = encode(t, map[string]any{"method": "f"})
		p, err := newLauncher(t, func(c *Config) { c.KeepMethod = keep }).Prepare(t.Context(), 1, req)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		var d msp.ExecutionData
		if err := calldata.Unmarshal(p.Input, &d); err != nil {
			t.Fatal(err)
		}
		if want := encode(t, map[string]any{key: "f"}); string(d.Calldata) != string(want) {
			t.Errorf("keep %v: calldata %s, want %s", keep, hex.EncodeToString(d.Calldata), hex.EncodeToString(want))
		}
	}
}

// TestExecutorOutlivesNobody lets a run's deadline end an executor that is
// deaf, with a member of its group.
func TestExecutorOutlivesNobody(t *testing.T) {
	t.Attr("requirement", "MGR-14")
	d, l, tab := newDriver(t), newLauncher(t, nil), newTable(t)
	id := tab.start(l, request("ignore", d.step("fork", "member"), "hang"))
	member := d.accept()
	if err := tab.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if o := tab.end(id); o.exit() != "cancelled by signal" {
		t.Errorf("a cancelled run: %s", o.exit())
	}
	member.awaitEnd()
}

// TestPreparedRunLetsGoOfItsCode looks at what a run holds beside its input,
// which the table lets go of once it is written.
func TestPreparedRunLetsGoOfItsCode(t *testing.T) {
	req := request("exit=0")
	req.Code, req.Calldata = []byte("code"), []byte{6}
	p := parentOf(t, newLauncher(t, nil), req)
	p.forget()
	if p.input != nil || p.data.Code != nil || p.request.Code != nil || p.request.Calldata != nil || p.request.ExtraArgs != nil {
		t.Errorf("a prepared run holds %+v and %+v", p.request, p.data)
	}
	if req.Code == nil || req.Host != p.request.Host {
		t.Error("the caller's request was changed, or its host lost")
	}
}
