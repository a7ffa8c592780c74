package histories

import (
	"context"
	"runtime"
	"testing"
)

// TestTunnelHistoriesAreLinearizable races tunnels with the listeners and the guests that they lead to.
func TestTunnelHistoriesAreLinearizable(t *testing.T) {
	r, err := Run(context.Background(), Config{
		Scope: ByTunnel, Histories: count(t, 300), Seed: 1, Workers: runtime.GOMAXPROCS(0), PerDaemon: 25,
		Start: startBinary, FailDir: "../failures",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Write(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 {
		t.Errorf("%d histories were not decided", r.Undecided)
	}
	if r.Operations < 40*r.Histories || r.Overlapping < 3*r.Histories {
		t.Errorf("%d operations, %d overlapping: a history has at least 40, of which 3 overlap", r.Operations, r.Overlapping)
	}
	for _, id := range []string{"TUNNEL-3", "TUNNEL-5", "TUNNEL-7", "TUNNEL-11", "TUNNEL-17", "AGENTD-19", "AGENTD-20"} {
		if r.Requirements[id] == 0 {
			t.Errorf("no operation showed %s", id)
		}
	}
}
