package manager_test

import (
	"strings"
	"testing"

	"microvms/agentd/api/msp"
)

// TestRunEndToEnd starts a real program over the socket and follows it to its
// end: reply, started, finished, artifacts, ack.
func TestRunEndToEnd(t *testing.T) {
	t.Attr("requirement", "SOCKET-1")
	t.Attr("requirement", "SOCKET-13")
	s := start(t, nil)
	p := s.dial()
	long := strings.Repeat("0123456789abcdef", 20_000)
	id := p.run(command("echo out; echo err >&2; head -c 320000 /dev/zero | tr '\\0' x; exit 3"))
	if id != 1 {
		t.Errorf("the first run is %d", id)
	}
	if ev := p.event(); ev.Started == nil || ev.Started.GenvmID != id {
		t.Fatalf("the first event is %+v", ev)
	}
	f := p.event().Finished
	if f == nil || f.GenvmID != id || f.Cause != msp.Exited || f.ExitCode == nil || *f.ExitCode != 3 {
		t.Fatalf("the second event is %+v", f)
	}
	if f.VersionMajor != 0 || f.VersionMinor != 1 || f.Sizes.Stdout != 320004 || f.Sizes.Stderr != 4 {
		t.Errorf("version %d.%d, sizes %+v", f.VersionMajor, f.VersionMinor, f.Sizes)
	}
	if got, want := p.read(id, msp.Stdout), "out\n"+strings.Repeat("x", len(long)); got != want {
		t.Errorf("stdout has %d bytes, want %d", len(got), len(want))
	}
	if got := p.read(id, msp.Stderr); got != "err\n" {
		t.Errorf("stderr %q", got)
	}
	p.ask(&msp.Request{Ack: &msp.Target{GenvmID: id}}, &msp.Empty{})
	if code := p.refused(&msp.Request{Ack: &msp.Target{GenvmID: id}}); code != msp.CodeUnknownID {
		t.Errorf("a second ack: %v", code)
	}
}
