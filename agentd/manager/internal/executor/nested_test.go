package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// envelope asks for a nested run of the demonstration executor.
func envelope(change func(*msp.NestedRequest)) *msp.NestedRequest {
	env := &msp.NestedRequest{
		Routing: mustEncode(msp.Selector{IsVersion: true, Version: "demo"}), Calldata: []byte{6},
		Stack: []calldata.Address{{1}}, Permissions: permCallOthers, StateMode: "LatestFinal",
		TopmostRunnerID: "py", RemainingRecursion: 9, RemainingDetFuel: calldata.NewU256(5), MemoryLimit: 7,
	}
	env.Message.Datetime = msp.DefaultDatetime()
	if change != nil {
		change(env)
	}
	return env
}

func mustEncode(v any) []byte {
	b, err := calldata.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// ask runs a process's nested run without the process.
func ask(t *testing.T, l *Launcher, parent *msp.RunRequest, env *msp.NestedRequest) msp.NestedReply {
	t.Helper()
	return reply(t, askRaw(t, l, parent, encode(t, env)))
}

func askRaw(t *testing.T, l *Launcher, parent *msp.RunRequest, env []byte) []byte {
	t.Helper()
	p := parentOf(t, l, parent)
	return p.runNested(t.Context(), env)
}

// parentOf is a process that was prepared and not started.
func parentOf(t *testing.T, l *Launcher, req *msp.RunRequest) *process {
	t.Helper()
	p := &process{launcher: l, id: 1, request: req, data: req.ExecutionData()}
	if err := p.build(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func reply(t *testing.T, b []byte) msp.NestedReply {
	t.Helper()
	var r msp.NestedReply
	if err := calldata.Unmarshal(b, &r); err != nil {
		t.Fatalf("reply %x: %v", b, err)
	}
	return r
}

// failure is the reason of an internal error, "" for another reply.
func failure(t *testing.T, r msp.NestedReply) string {
	t.Helper()
	if r.Result.Kind != msp.ResultInternalError || r.EffectFree {
		return ""
	}
	var text string
	if err := calldata.Unmarshal(r.Result.Data, &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNestedRunAnswersItsCaller has one executor call another over its host
// connection, as a program would.
func TestNestedRunAnswersItsCaller(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-39")
	o := run(t, newLauncher(t, nil), request("nested="+hex.EncodeToString(encode(t, envelope(nil))), "exit=0"))
	r := reply(t, unhex(t, strings.TrimSpace(o.stdout)))
	if r.Result.Kind != msp.ResultReturn || !r.EffectFree || !bytes.Equal(r.SmallHash, bytes.Repeat([]byte{2}, 32)) || len(r.Result.Data) != 0 {
		t.Errorf("%s, reply %+v", o.exit(), r)
	}
	if o.Report.Consumed != nil {
		t.Error("the result of the nested run became its caller's")
	}
}

func TestNestedRunsAreRefused(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-41")
	t.Attr("requirement", "EXECUTOR-37")
	l := newLauncher(t, nil)
	for name, tc := range map[string]struct {
		change func(*msp.NestedRequest)
		want   string
	}{
		"deploy":            {func(e *msp.NestedRequest) { e.Message.IsInit = true }, "is_init"},
		"value":             {func(e *msp.NestedRequest) { e.Message.Value = calldata.NewInt(-1) }, "value"},
		"write storage":     {func(e *msp.NestedRequest) { e.Permissions = 1 << 2 }, "permissions 0x4"},
		"send messages":     {func(e *msp.NestedRequest) { e.Permissions = 1 << 3 }, "permissions 0x8"},
		"spawn nondet":      {func(e *msp.NestedRequest) { e.Permissions = 1 << 5 }, "permissions 0x20"},
		"use balance":       {func(e *msp.NestedRequest) { e.Permissions = 1<<7 | 1 }, "permissions 0x80"},
		"routing":           {func(e *msp.NestedRequest) { e.Routing = []byte{0xff} }, "routing"},
		"no such name":      {func(e *msp.NestedRequest) { e.Routing = mustEncode(msp.Selector{IsVersion: true, Version: "../x"}) }, "version"},
		"no such executor":  {func(e *msp.NestedRequest) { e.Routing = mustEncode(msp.Selector{IsVersion: true, Version: "none"}) }, "no such file"},
		"without manifest":  {func(e *msp.NestedRequest) { e.Routing = mustEncode(msp.Selector{Major: 1}) }, "manifest"},
		"state mode":        {func(e *msp.NestedRequest) { e.StateMode = "Default" }, ""},
		"other permissions": {func(e *msp.NestedRequest) { e.Permissions = 1<<0 | 1<<1 | 1<<4 | 1<<6 }, ""},
	} {
		if got := failure(t, ask(t, l, request(), envelope(tc.change))); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := failure(t, reply(t, askRaw(t, l, request(), []byte{0xff}))); !strings.Contains(got, "envelope") {
		t.Errorf("an envelope that is none: %q", got)
	}
}

// TestNestedRunGetsItsOwnData looks at the request that an envelope becomes.
func TestNestedRunGetsItsOwnData(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-42")
	parent := request("exit=9")
	parent.HostHello = [][]byte{[]byte("hi")}
	parent.IsSync, parent.DebugMode = false, msp.DebugUnsafe
	parent.NoModules = true
	p := parentOf(t, newLauncher(t, nil), parent)
	child, err := p.nestedProcess(envelope(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer child.close()
	want := "--log-fd=3 run --sync --host unix:///h --permissions c --genvm-id=101 --debug-mode disabled --host fd://4"
	if got := strings.Join(child.command.Args[1:], " "); got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	var d msp.ExecutionData
	if err := calldata.Unmarshal(child.input, &d); err != nil {
		t.Fatal(err)
	}
	nested := encode(t, map[string]any{
		"memory_limit": calldata.NewInt(7), "permissions": calldata.NewInt(16), "remaining_det_fuel": calldata.NewInt(5),
		"stack": []any{calldata.Address{1}}, "state_mode": "LatestFinal", "topmost_runner_id": "py",
	})
	if !bytes.Equal(d.Nested, nested) || *d.RemainingRecursion != maxRecursion || string(d.HostHello[0]) != "hi" || !bytes.Equal(d.Calldata, []byte{6}) {
		t.Errorf("execution data %+v", d)
	}
}

func TestNestedRecursionIsClamped(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-38")
	p := parentOf(t, newLauncher(t, nil), request())
	asked := uint32(100)
	for want := int64(maxRecursion); want >= 0; want-- {
		child, err := p.nestedProcess(envelope(func(e *msp.NestedRequest) { e.RemainingRecursion = asked }))
		if err != nil {
			if want != 0 || !strings.Contains(err.Error(), "used up") {
				t.Fatalf("at %d: %v", want, err)
			}
			return
		}
		t.Cleanup(child.close)
		if got := int64(*child.data.RemainingRecursion); got != want {
			t.Fatalf("remaining recursion %d, want %d", got, want)
		}
		p = child
	}
	t.Error("the recursion did not end")
}

// nestedSteps makes the launcher's nested runs take these steps, which an
// envelope cannot name.
func nestedSteps(t *testing.T, l *Launcher, steps ...string) *process {
	t.Helper()
	p := parentOf(t, l, request())
	child, err := p.nestedProcess(envelope(nil))
	if err != nil {
		t.Fatal(err)
	}
	child.request.ExtraArgs = steps
	child.command.Args = append([]string{"genvm"}, child.arguments()...)
	return child
}

func TestNestedRunMustEndWellAndWithoutEffects(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-39")
	l := newLauncher(t, nil)
	result := func(change func(*msp.ReportedResult)) string {
		return "result=" + hex.EncodeToString(reported(t, 0, change))
	}
	for name, tc := range map[string]struct{ step, want string }{
		"exit code":  {"exit=3", "exited with code 3"},
		"signal":     {"signal=9", "signal"},
		"no result":  {"result=none", "no result"},
		"bad result": {"result=00", "exited with code"},
	} {
		if _, err := nestedSteps(t, l, tc.step).runToResult(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, change := range map[string]func(*msp.ReportedResult){
		"":                                func(*msp.ReportedResult) {},
		"storage changes":                 func(r *msp.ReportedResult) { r.StorageChanges = make([]msp.StorageChange, 1) },
		"emissions":                       func(r *msp.ReportedResult) { r.Emissions = []msp.Emission{{"type": mustEncode("EthSend")}} },
		"nondeterministic results":        func(r *msp.ReportedResult) { r.NondetResults = [][]byte{{1}} },
		"a nondeterministic disagreement": func(r *msp.ReportedResult) { r.NondetDisagreement = new(uint32) },
	} {
		r, err := nestedSteps(t, l, result(change)).runToResult(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := effects(r); got != want {
			t.Errorf("effects %q, want %q", got, want)
		}
	}
}

// TestNestedRunEndsWithItsCaller kills a caller while its nested run hangs.
func TestNestedRunEndsWithItsCaller(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-40")
	d, tab, l := newDriver(t), newTable(t), newLauncher(t, nil)
	nested := hangingExecutor(t, d)
	env := envelope(func(e *msp.NestedRequest) { e.Routing = mustEncode(msp.Selector{IsVersion: true, Version: nested}) })
	id := tab.start(l, request(d.step("gate", "caller"), "nested="+hex.EncodeToString(encode(t, env))))
	d.accept().tell("go on")
	child := d.accept()
	if err := tab.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	child.awaitEnd()
	if o := tab.end(id); o.exit() != "cancelled by signal" {
		t.Errorf("the caller: %s", o.exit())
	}
}

// TestNestedRunEndsWhenItsCallerHangsUp closes a caller's connection while the
// caller's run has not ended.
func TestNestedRunEndsWhenItsCallerHangsUp(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-40")
	ended := make(chan struct{})
	h := &hostOne{nested: func(ctx context.Context, _ []byte) []byte {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
			t.Error("the nested run was not told of its caller's end")
		}
		return nil
	}}
	p := serve(t, h)
	p.send(msp.HostRunNested, []byte("an envelope"))
	p.write([]byte{byte(msp.HostConsumeResult)}) // bytes that are not read yet hide no end
	p.conn.Close()
	<-ended
}

// TestNestedRunEndsWithItsRun ends a run whose end of the connection somebody
// else still holds.
func TestNestedRunEndsWithItsRun(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-40")
	d, l := newDriver(t), newLauncher(t, nil)
	nested := hangingExecutor(t, d)
	p := parentOf(t, l, request())
	fd := spawnedWithout(t, p)
	env := encode(t, envelope(func(e *msp.NestedRequest) { e.Routing = mustEncode(msp.Selector{IsVersion: true, Version: nested}) }))
	message := append(binary.LittleEndian.AppendUint32([]byte{byte(msp.HostRunNested)}, uint32(len(env))), env...)
	if _, err := unix.Write(fd, message); err != nil {
		t.Fatal(err)
	}
	child := d.accept()
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() { defer close(finished); p.finish(ctx) }()
	child.awaitEnd()
	cancel()
	<-finished
	closeFD(t, fd)
}
