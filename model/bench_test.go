package model

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkTwoPhaseCommit9 is the figure that the targets compare with the limit
// program (bfsbench -n 9 -v det, the same workers).
func BenchmarkTwoPhaseCommit9(b *testing.B) {
	for _, hash := range []string{"default", "custom"} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("fingerprint=%s/workers=%d", hash, workers), func(b *testing.B) {
				m := twoPhase(9)
				if hash == "custom" {
					m.Fingerprint = packedFingerprint
				}
				benchmarkCheck(b, m, Options{Workers: workers}, 10340352, 123558402)
			})
		}
	}
}

func benchmarkCheck(b *testing.B, m Model[packed], o Options, distinct, states uint64) {
	b.ReportAllocs()
	var seconds float64
	var peak uint64
	for b.Loop() {
		r, err := Check(context.Background(), m, o)
		if err != nil {
			b.Fatal(err)
		}
		if r.Distinct != distinct || r.States != states {
			b.Fatalf("distinct %d, states %d, want %d and %d", r.Distinct, r.States, distinct, states)
		}
		seconds += r.Timing.Seconds
		peak = r.Timing.PeakHeap
	}
	b.ReportMetric(float64(b.N)*float64(states)/seconds/1e6, "Mstates/s")
	b.ReportMetric(float64(peak)/float64(distinct), "B/state")
}

// BenchmarkLiveness compares a run that judges a leads-to under fairness with
// the safety run on the same graph: the target is twice the time at most.
func BenchmarkLiveness(b *testing.B) {
	for _, live := range []bool{false, true} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("live=%t/workers=%d", live, workers), func(b *testing.B) {
				m := twoPhase(8)
				if live {
					m.Fairness = []Fairness{Weak("the manager decides", tmCommit, tmAbort), Weak("managers hear", rmRcvAbortMsg, rmRcvCommitMsg)}
					m.Properties = append(m.Properties, LeadsTo("a decision is heard", func(s packed) bool { return s.d != 0 },
						func(s packed) bool { return s.a&0xaaaa == 0xaaaa && (s.a&0x5555 == 0 || s.a&0x5555 == 0x5555) }))
				}
				benchmarkCheck(b, m, Options{Workers: workers}, 1745408, 18507778)
			})
		}
	}
}

// BenchmarkSymmetry is the exact orbit count of ten managers; the target is 50 ms.
func BenchmarkSymmetry(b *testing.B) {
	m := symmetricTwoPhase(10)
	for b.Loop() {
		r, err := Check(context.Background(), m, Options{})
		if err != nil || r.Distinct != 3300 {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkTiny is the cost of a whole check of a model with a handful of states.
func BenchmarkTiny(b *testing.B) {
	m := counterModel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Check(context.Background(), m, Options{Workers: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
