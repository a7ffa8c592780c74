package main

import (
	"math"
	"testing"
)

func TestMedianAndPercentile(t *testing.T) {
	self := func(v float64) float64 { return v }
	for _, tc := range []struct {
		values           []float64
		median, p50, p99 float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{3, 1}, 2, 1, 3},
		{[]float64{5, 1, 9}, 5, 5, 9},
		{[]float64{4, 1, 3, 2}, 2.5, 2, 4},
	} {
		if got := median(tc.values, self); got != tc.median {
			t.Errorf("median(%v) = %v, want %v", tc.values, got, tc.median)
		}
		if got := percentile(tc.values, 0.5); got != tc.p50 {
			t.Errorf("p50(%v) = %v, want %v", tc.values, got, tc.p50)
		}
		if got := percentile(tc.values, 0.99); got != tc.p99 {
			t.Errorf("p99(%v) = %v, want %v", tc.values, got, tc.p99)
		}
	}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	if got := percentile(hundred, 0.99); got != 99 {
		t.Errorf("p99 of 1 to 100 = %v, want 99", got)
	}
	if !math.IsNaN(median(nil, self)) || !math.IsNaN(percentile(nil, 0.5)) {
		t.Error("nothing has a median")
	}
}

// TestJudge holds each verdict, and that noisy rounds stay out of medians only
// while enough quiet ones are left.
func TestJudge(t *testing.T) {
	quiet := func(ours, peer float64) sample { return sample{Ours: ours, Peer: peer, Others: 0.1} }
	loud := func(ours, peer float64) sample { return sample{Ours: ours, Peer: peer, Others: 0.3} }
	for _, tc := range []struct {
		name        string
		target      target
		samples     []sample
		verdict     verdict
		ours, ratio float64
		noisy       int
	}{
		{"a ratio that is reached", atMost(1.3), []sample{quiet(13, 10), quiet(12, 10), quiet(14, 10)}, met, 13, 1.3, 0},
		{"a ratio that is missed", atMost(1.2), []sample{quiet(13, 10), quiet(12, 10), quiet(14, 10)}, missed, 13, 1.3, 0},
		{"at least", atLeast(0.75), []sample{quiet(8, 10)}, met, 8, 0.8, 0},
		{"not even at least", atLeast(0.85), []sample{quiet(8, 10)}, missed, 8, 0.8, 0},
		{"a bound of its own", alone("≤", 15), []sample{quiet(14, 0)}, met, 14, 0, 0},
		{"a bound of its own, missed", alone("≤", 13), []sample{quiet(14, 0)}, missed, 14, 0, 0},
		{"exactly none", alone("=", 0), []sample{quiet(0, 0)}, met, 0, 0, 0},
		{"not exactly none", alone("=", 0), []sample{quiet(1, 0)}, missed, 1, 0, 0},
		{"no target", target{}, []sample{quiet(2, 1)}, noTarget, 2, 2, 0},
		{"no peer", atMost(1.3), []sample{quiet(2, 0)}, peerNotMeasured, 2, 0, 0},
		{"nothing", atMost(1.3), nil, notMeasured, 0, 0, 0},
		{"one noisy round of three is left out", atMost(1.3), []sample{quiet(12, 10), loud(99, 10), quiet(14, 10)}, met, 13, 1.3, 1},
		{"half quiet is enough", atMost(1.3), []sample{quiet(12, 10), loud(99, 10)}, met, 12, 1.2, 1},
		{"two noisy rounds of three decide nothing", atMost(1.3), []sample{quiet(12, 10), loud(13, 10), loud(14, 10)}, noisy, 13, 1.3, 2},
		{"what was not timed is not noisy", alone("≤", 15), []sample{{Ours: 14, Others: -1}}, met, 14, 0, 0},
	} {
		r := result{figure: figure{Target: tc.target}, Samples: tc.samples}
		r.judge()
		if r.Verdict != tc.verdict || r.Ours != tc.ours || math.Abs(r.Ratio-tc.ratio) > 1e-9 || r.Noisy != tc.noisy {
			t.Errorf("%s: verdict %q, ours %v, ratio %v, noisy %d; want %q, %v, %v, %d",
				tc.name, r.Verdict, r.Ours, r.Ratio, r.Noisy, tc.verdict, tc.ours, tc.ratio, tc.noisy)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1.239: "1.24", 12.34: "12.3", 387.4: "387", 123456: "123456", -2: "-2.00"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}
