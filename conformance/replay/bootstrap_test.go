package replay

import (
	"os"
	"strconv"
	"testing"

	"microvms/model/bootstrap"
	"microvms/model/handlers"
)

// claim names the requirements that a replay shows on real sockets.
func claim(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		t.Attr("requirement", id)
	}
}

// judge runs a replay, writes its result and fails the test on anything that was
// not replayed. REPLAY_PATH=n replays the path with that number alone.
func judge[S comparable](t *testing.T, s Spec[S]) *Result {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("REPLAY_PATH")); err == nil {
		s.Only = n
	}
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	for _, f := range r.Failures {
		t.Errorf("%s\nREPLAY_PATH=<number of the path> replays it alone", f)
	}
	if err := r.Write(s.Name); err != nil {
		t.Error(err)
	}
	if err := r.Err(); err != nil && s.Only == 0 {
		t.Error(err)
	}
	return r
}

// TestBootstrapInterleaved replays every interleaving of hook and control
// requests, held at each of their transition points.
func TestBootstrapInterleaved(t *testing.T) {
	claim(t, "AGENTD-1", "AGENTD-2", "AGENTD-3", "AGENTD-4", "AGENTD-5", "AGENTD-6", "AUTHZ-2",
		"HOOK-1", "HOOK-2", "HOOK-3", "HOOK-5", "HOOK-9", "HOOK-11", "HOOK-12")
	for _, c := range bootstrap.Replays() {
		t.Run(c.Name, func(t *testing.T) { judge(t, BootstrapGated(c, inProcess())) })
	}
}

// TestBootstrapHandlers replays every interleaving of hooks whose handlers are
// real processes, each of which ends when the driver says so or hangs until the
// end of its budget.
func TestBootstrapHandlers(t *testing.T) {
	claim(t, "HOOK-13", "HOOK-14", "HOOK-15", "HOOK-16", "HOOK-20", "HOOK-22", "HOOK-23")
	judge(t, BootstrapHandlers(handlers.Replay(), inProcess()))
}

// TestBootstrapBinary replays whole requests, one at a time, on the daemon's
// binary.
func TestBootstrapBinary(t *testing.T) {
	claim(t, "AGENTD-1", "AGENTD-2", "AGENTD-3", "AGENTD-4", "AGENTD-5", "AGENTD-6",
		"AUTHZ-2", "HOOK-1", "HOOK-2", "HOOK-3", "HOOK-4", "HOOK-5", "HOOK-9", "HOOK-11", "HOOK-12")
	judge(t, BootstrapSequential(bootstrap.Sequential(), "binary", asBinary(t)))
}
