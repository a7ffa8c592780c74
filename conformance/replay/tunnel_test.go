package replay

import (
	"testing"

	"microvms/model/tunnel"
)

// TestTunnel replays every transition of the verified tunnel, the path's hostile
// ones included, with the real client and the real daemon at its ends.
func TestTunnel(t *testing.T) {
	claim(t, "AGENTD-17", "AGENTD-18", "AGENTD-19", "AGENTD-20", "AGENTD-21", "BIND-21", "BIND-23", "BIND-24",
		"TUNNEL-6", "TUNNEL-9", "TUNNEL-10")
	for _, c := range tunnel.Replays() {
		t.Run(c.Name, func(t *testing.T) { judge(t, Tunnel(c, "in-process", inProcess())) })
	}
}
