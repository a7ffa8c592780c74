package manager

import (
	"math/rand/v2"
	"testing"

	"microvms/conformance/histories"
)

// decided judges the parts of a history with those effects in them.
func decided(t *testing.T, w *watch, effects []interval) histories.Verdict {
	t.Helper()
	for _, p := range w.parts(effects) {
		if v, _ := histories.Check(p.model, p.operations); v != histories.Linearizable {
			return v
		}
	}
	return histories.Linearizable
}

// overlapping is a small history of one run: what it was asked and told, at any
// times, with any answers.
func overlapping(rng *rand.Rand) *History {
	h := built(4, runs(0, pick(rng, Hang, Quick), 1))
	for range 2 + rng.IntN(5) {
		o := Operation{Kind: pick(rng, Ack, Ack, Cancel, Cancel, Attach, Read), Run: 1, Field: "nothing"}
		o.Conn = 1 + rng.IntN(3)
		o.Client = o.Conn
		o.Call = int64(20 + rng.IntN(60))
		o.Return = o.Call + int64(1+rng.IntN(25))
		switch {
		case o.Kind == Attach:
			o.Answer = &Answer{Code: unknownID}
			if rng.IntN(2) == 0 {
				told := pick(rng, isQueued(1), isStarted(1), isEnded(1, "cancelled"))
				o.Answer = &Answer{Snapshot: &told}
			}
		case o.Kind == Read:
			o.Answer = &Answer{Code: pick(rng, unknownID, malformed)}
		case rng.IntN(3) > 0:
			o.Answer, o.Cut = nil, Dropped
			if rng.IntN(2) == 0 {
				o.Cut, o.Return = CutAfter, -1
			}
		case o.Kind == Ack:
			o.Answer = &Answer{Code: pick(rng, "", unknownID, notFinished)}
		default:
			o.Answer = &Answer{Code: pick(rng, "", "", unknownID)}
		}
		h.Operations = append(h.Operations, o)
	}
	return h
}

// TestMergingChangesNoVerdict judges small histories with each effect by itself,
// and with effects merged.
func TestMergingChangesNoVerdict(t *testing.T) {
	t.Attr("requirement", "CONF-1")
	rng := rand.New(rand.NewPCG(1, 2))
	merged, verdicts := 0, map[histories.Verdict]int{}
	for range 20_000 {
		w := watched(overlapping(rng))
		all := w.effects()
		fewer := w.merge(all)
		if len(fewer) == len(all) {
			continue
		}
		merged++
		want, got := decided(t, w, all), decided(t, w, fewer)
		verdicts[want]++
		if got != want {
			b, err := w.h.Encode()
			t.Fatalf("with effects merged it is %s, by themselves %s (%v):\n%s", got, want, err, b)
		}
	}
	t.Logf("%d of the histories had effects to merge: %v", merged, verdicts)
	if verdicts[histories.Linearizable] < 1000 || verdicts[histories.NotLinearizable] < 1000 {
		t.Errorf("of %d histories with merged effects, too few of a kind: %v", merged, verdicts)
	}
}
