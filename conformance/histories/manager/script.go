package manager

import (
	"fmt"
	"math/rand/v2"
)

// Clients is how many clients act at once in each history.
const Clients = 5

const (
	bursts  = 7 // of each client
	longest = 2 // requests of a burst: what overlaps is what the judge has to order
	// maxOpen bounds the requests with an effect that a history leaves open by itself: each doubles what the judge has to
	// try.
	maxOpen = 5
)

// neverGiven is an id that no manager gives in the time of a history.
const neverGiven = 1 << 40

// tokens are those of a history. The empty one is a token like any other.
var tokens = []string{"", "a"}

// Stop is what becomes of the manager in the midst of a history.
type Stop string

// The stops.
const (
	NoStop Stop = "none"
	Kill   Stop = "killed"    // by SIGKILL, and another is started
	Term   Stop = "shut down" // by SIGTERM
)

// plan is what the clients of one history will ask.
type plan struct {
	tcp     bool
	stop    Stop
	after   int // requests before the stop
	clients [Clients][]burst
}

// burst are requests that a client sends before it waits for their replies. The
// last of them can be cut.
type burst struct {
	requests []request
	split    int // the byte at which each message is split in two frames; 0: it is one
	at       int // percent of the last message that is sent before a CutBefore
}

// request is an operation whose names are chosen when it is sent: ids are the
// manager's.
type request struct {
	op      Operation
	pick    int  // which of the newest ids
	unknown bool // an id that was never given
	older   bool // of an attach: another boot, an older one if there was one
}

// planned plans a history. Everything but the ids comes from the seed.
func planned(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 12))
	p := plan{tcp: seed%2 == 1, stop: NoStop}
	switch seed % 5 {
	case 1:
		p.stop = Kill
	case 3:
		p.stop = Term
	}
	open, asked := 0, 0
	for c := range p.clients {
		for range bursts {
			b := burst{requests: make([]request, 1+rng.IntN(longest)), at: rng.IntN(100)}
			if rng.IntN(4) == 0 {
				b.split = 1 + rng.IntN(40)
			}
			for i := range b.requests {
				asked++
				b.requests[i] = drawn(rng)
				b.requests[i].op.Client = c
				if b.requests[i].op.Kind == Run {
					b.requests[i].op.Text = fmt.Sprintf("text%03d", asked)
				}
			}
			last := &b.requests[len(b.requests)-1].op
			if last.Cut = cut(rng); last.Cut == CutAfter || last.Cut == Dropped {
				left := 0
				for i := range b.requests { // those ahead of the last may stay without their replies
					if b.requests[i].op.Kind.Effectful() {
						left++
					}
				}
				if open+left > maxOpen {
					last.Cut = NoCut
				} else {
					open += left
				}
			}
			p.clients[c] = append(p.clients[c], b)
		}
	}
	p.after = asked/3 + rng.IntN(asked/3)
	return p
}

// drawn draws one request.
func drawn(rng *rand.Rand) request {
	r := request{pick: rng.IntN(4), unknown: rng.IntN(16) == 0}
	switch n := rng.IntN(100); {
	case n < 30:
		r.op.Kind, r.op.Bare, r.op.Token = Run, rng.IntN(5) == 0, tokens[rng.IntN(len(tokens))]
		if r.op.Bare {
			r.op.Token = ""
		}
		r.op.Program = pick(rng, Quick, Quick, Quick, Crash, Hang, Hang, Missing, Refused)
	case n < 54:
		r.op.Kind, r.older = Attach, rng.IntN(8) == 0
	case n < 68:
		r.op.Kind = Cancel
	case n < 84:
		r.op.Kind = Ack
	default:
		r.op.Kind, r.op.Field = Read, pick(rng, "stdout", "stdout", "stdout", "stderr", "genvm_log", "nothing")
		r.op.Offset, r.op.Max = uint64(rng.IntN(3)*4), pick(rng, uint32(1<<20), 3, 0)
	}
	return r
}

// cut chooses where the client breaks off, for about one burst in eight.
func cut(rng *rand.Rand) Cut {
	if rng.IntN(8) != 0 {
		return NoCut
	}
	return pick(rng, CutBefore, CutAfter, Dropped)
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
