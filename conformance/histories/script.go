package histories

import (
	"fmt"
	"math/rand/v2"
)

// Clients is how many clients act at once in each history.
const Clients = 8

// maxOpen bounds the effectful operations of unknown outcome in one partition: each doubles what the judge has to try.
const maxOpen = 8

// maxOpenWhole is the same for a history that is judged whole: its state is larger and everything in it is coupled.
const maxOpenWhole = 3

// Tokens of the parties. They are worth nothing outside the run.
const (
	HarnessToken  = "harness"
	AttackerToken = "attacker"
)

// plan is what the clients of one history will ask, and what it needs of the daemon.
type plan struct {
	scope   Scope
	ring    uint64
	greet   string
	clients [Clients][]Operation
	closing []Operation // what one client asks at the end; nil for the end of every exec, or a read of every file
}

// whole plans a history on a fresh daemon: hooks race with control requests, with a repetition, with another token.
// Two execs at most, or the judge would have to order all of them together.
func whole(rng *rand.Rand) plan {
	p := plan{scope: Whole}
	execs := []string{"x1", "x2"}
	child := map[string]Child{"x1": pick(rng, Quick, Echo, Sleeper), "x2": pick(rng, Quick, Echo, Broken, Nobody)}
	open := 0
	for c := range p.clients {
		for range 6 {
			var op Operation
			switch r := rng.IntN(100); {
			case r < 26:
				op = Operation{Kind: Hook, Token: pick(rng, HarnessToken, HarnessToken, AttackerToken), Env: 1 + rng.IntN(2)}
			case r < 46:
				op = Operation{Kind: Start, Exec: pick(rng, execs...)}
			case r < 60:
				op = Operation{Kind: Poll, Exec: pick(rng, execs...)}
			case r < 66:
				op = Operation{Kind: Ack, Exec: pick(rng, execs...)}
			case r < 72:
				op = Operation{Kind: Kill, Exec: pick(rng, execs...)}
			case r < 82:
				op = Operation{Kind: Procs}
			default:
				op = Operation{Kind: Health}
			}
			op.Client = c
			if op.Kind == Start {
				op.Child = child[op.Exec]
			}
			if op.Kind != Hook && op.Kind != Health {
				op.Token = pick(rng, HarnessToken, HarnessToken, HarnessToken, AttackerToken)
			}
			op.Cut = cut(rng, op.Kind, &open, maxOpenWhole)
			p.clients[c] = append(p.clients[c], op)
		}
	}
	return p
}

// byExec plans a history on a daemon that is bootstrapped: many operations on few execs. prefix keeps the ids of
// different histories on one daemon apart. A foreign daemon's users are not known here, so no start names one.
func byExec(rng *rand.Rand, prefix string, foreign bool) plan {
	p := plan{scope: ByExec}
	ids := make([]string, 2)
	child := map[string]Child{}
	open := map[string]*int{}
	units := 0
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i+1)
		child[ids[i]] = pick(rng, Echo, Echo, Echo, Echo, Quick, Sleeper, Broken, Nobody)
		open[ids[i]] = new(int)
	}
	users := []User{AnyUser, OwnUser, OwnUser, UnknownUser}
	if foreign {
		users = users[:1]
	}
	for c := range p.clients {
		for n := range 6 {
			op := Operation{Client: c, Token: HarnessToken, Exec: pick(rng, ids...), Take: Unit}
			switch r := rng.IntN(100); {
			case n == 0 && c < 3 || r < 14:
				op.Kind, op.Child = Start, child[op.Exec]
				if user := pick(rng, users...); op.Child != Broken && op.Child != Nobody {
					op.User = user
				}
			case r < 34:
				op.Kind = Poll
			case r < 48:
				op.Kind = Ack
			case r < 58:
				op.Kind = Kill
			case r < 82:
				op.Kind, op.EOF = Stdin, rng.IntN(6) == 0
				if !op.EOF {
					units++
					op.Text = fmt.Sprintf("w%03d", units)
				}
			default:
				op.Kind = Stream
				op.Offset = uint64(rng.IntN(5)) * Unit / 2
			}
			if op.Kind != Stream {
				op.Take = 0
			}
			op.Cut = cut(rng, op.Kind, open[op.Exec], maxOpen)
			p.clients[c] = append(p.clients[c], op)
		}
	}
	return p
}

// cut chooses where the client breaks off: for about one request in six, and never so often that more than most
// entries with an effect stay open. An open hook has two, even one that is not whole has one.
func cut(rng *rand.Rand, k Kind, open *int, most int) Cut {
	if rng.IntN(6) != 0 || k == Stream {
		return NoCut
	}
	c := pick(rng, CutBefore, CutAfter, DropAnswer)
	left := 0
	switch {
	case k == Hook && c == CutBefore:
		left = 1
	case k == Hook:
		left = 2
	case k.Effectful() && c != CutBefore:
		left = 1
	}
	if *open+left > most {
		return NoCut
	}
	*open += left
	return c
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
