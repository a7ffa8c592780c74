package histories

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"microvms/model/tunnel"
)

// sharedTunnels is how many tunnels of a history all clients use.
const sharedTunnels = 6

// byTunnel plans a history on a daemon that was launched with an identity: six tunnels that all clients use, others
// that only ask whether somebody listens, and a listener that comes and goes. last asks for every slot at the end.
func byTunnel(rng *rand.Rand, last bool) plan {
	p := plan{scope: ByTunnel}
	names := make([]string, sharedTunnels)
	var verified [sharedTunnels]bool
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i+1)
		verified[i] = rng.IntN(3) > 0
		port := steadyPort
		if i >= 4 {
			port = ficklePort
		}
		p.clients[i] = append(p.clients[i], Operation{Client: i, Kind: Open, Tunnel: names[i], Verified: verified[i], Port: port})
	}
	units, probes, sent := 0, 0, make([]int, sharedTunnels)
	for c := range p.clients {
		for range 7 {
			i := rng.IntN(sharedTunnels)
			op := Operation{Client: c, Tunnel: names[i], Verified: verified[i]}
			switch r := rng.IntN(100); {
			case r < 36 && sent[i] < tunnel.MaxBytes:
				units++
				sent[i]++
				op.Kind, op.Text = Send, fmt.Sprintf("w%03d", units)
			case r < 68:
				op.Kind, op.Take = Receive, Unit*uint64(1+rng.IntN(3))
			case r < 72:
				op.Kind = Hangup
			case r < 75:
				op.Kind = Cutoff
			case r < 79:
				op.Kind = GuestEnd
			case r < 85:
				op = Operation{Client: c, Kind: Listen, Port: ficklePort}
			case r < 91:
				op = Operation{Client: c, Kind: Unlisten, Port: ficklePort}
			default:
				probes++
				op = Operation{Client: c, Kind: Open, Tunnel: fmt.Sprintf("p%d", probes), Verified: rng.IntN(2) == 0, Port: ficklePort}
			}
			p.clients[c] = append(p.clients[c], op)
		}
	}
	p.closing = closingTunnels(rng, p)
	if last {
		p.closing = append(p.closing, Operation{Client: Clients, Kind: Slots})
	}
	return p
}

// closingTunnels ends every tunnel of the plan, by its caller or by its guest, and asks both sides what they have.
func closingTunnels(rng *rand.Rand, p plan) []Operation {
	var ops []Operation
	for _, o := range slices.Concat(p.clients[:]...) {
		if o.Kind != Open {
			continue
		}
		at := func(k Kind) Operation {
			return Operation{Client: Clients, Kind: k, Tunnel: o.Tunnel, Verified: o.Verified}
		}
		if rng.IntN(2) == 0 {
			ops = append(ops, at(GuestEnd))
		} else {
			ops = append(ops, at(Hangup))
		}
		ops = append(ops, at(Receive), at(GuestSaw), at(Hangup))
	}
	return ops
}
