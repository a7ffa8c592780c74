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
