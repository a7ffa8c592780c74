package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// noisyCores is what other processes may take, in cores, before a round is
// noisy (targets: "a round is void, not slow").
const noisyCores = 0.2

// figure is one line of the table.
type figure struct {
	Part string // checker, daemon, manager, verification
	Name string
	Unit string // of ours and the peer's
	// PeerName says what the peer is; empty when there is none.
	PeerName string
	// Target is what the project has set itself; the zero value is none.
	Target target
}

func (f figure) id() string { return f.Part + "/" + f.Name }

// target bounds the ratio of ours to the peer's, or ours alone.
type target struct {
	Op    string // "≤", "≥" or "=", empty for no target
	Value float64
	Alone bool // the bound is on ours, not on the ratio
}

func atMost(ratio float64) target  { return target{Op: "≤", Value: ratio} }
func atLeast(ratio float64) target { return target{Op: "≥", Value: ratio} }

// alone bounds ours itself.
func alone(op string, value float64) target { return target{Op: op, Value: value, Alone: true} }

func (t target) met(v float64) bool {
	switch t.Op {
	case "≤":
		return v <= t.Value
	case "≥":
		return v >= t.Value
	}
	return v == t.Value
}

// text prints the target as the table does: "≥ 0.75 ×" is a ratio.
func (t target) text(unit string) string {
	switch {
	case t.Op == "":
		return ""
	case t.Alone:
		return t.Op + " " + strconv.FormatFloat(t.Value, 'f', -1, 64) + " " + unit
	}
	return t.Op + " " + strconv.FormatFloat(t.Value, 'f', -1, 64) + " ×"
}

// sample is what one round found of one figure.
type sample struct {
	Ours float64 `json:"ours"`
	Peer float64 `json:"peer,omitempty"` // 0: not measured
	// Others is how many cores other processes took meanwhile; untimed where a busy machine changes nothing.
	Others float64 `json:"others_cores"`
}

// untimed is Others of sizes and counts.
const untimed = -1

func (s sample) noisy() bool { return s.Others > noisyCores }

// verdict says how a figure stands to its target.
type verdict string

const (
	met             verdict = "met"
	missed          verdict = "missed"
	noisy           verdict = "noisy"             // too few quiet rounds to say
	peerNotMeasured verdict = "peer not measured" // the target is a ratio to it
	notMeasured     verdict = "not measured"
	noTarget        verdict = "–"
)

// result is a figure with its rounds and what they come to.
type result struct {
	figure
	Samples []sample
	Why     string // why it was not measured

	Ours, Peer, Ratio float64 // medians of the quiet rounds, of all when those are too few; 0: not measured
	Others            float64 // median over all rounds; negative where nothing was timed
	Noisy             int     // noisy rounds
	Verdict           verdict
}

// judge works out medians and verdict. The ratio is that of the medians that
// stand beside it.
func (r *result) judge() {
	r.Noisy, r.Others = 0, -1
	quiet := make([]sample, 0, len(r.Samples))
	for _, s := range r.Samples {
		if s.noisy() {
			r.Noisy++
		} else {
			quiet = append(quiet, s)
		}
	}
	if len(r.Samples) == 0 {
		r.Verdict = notMeasured
		return
	}
	enough := 2*len(quiet) >= len(r.Samples)
	if !enough {
		quiet = r.Samples
	}
	r.Others = median(r.Samples, func(s sample) float64 { return s.Others })
	r.Ours = median(quiet, func(s sample) float64 { return s.Ours })
	r.Peer = median(quiet, func(s sample) float64 { return s.Peer })
	if r.Peer != 0 {
		r.Ratio = r.Ours / r.Peer
	}
	r.Verdict = r.compare(enough)
}

func (r *result) compare(enough bool) verdict {
	value := r.Ratio
	switch {
	case r.Target.Op == "":
		return noTarget
	case r.Target.Alone:
		value = r.Ours
	case r.Peer == 0:
		return peerNotMeasured
	}
	switch {
	case !enough:
		return noisy
	case r.Target.met(value):
		return met
	}
	return missed
}

// median of an even number is the mean of the two in the middle.
func median[T any](values []T, of func(T) float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := make([]float64, len(values))
	for i := range values {
		v[i] = of(values[i])
	}
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// percentile returns the smallest value that at least p of all do not exceed
// (nearest rank). It sorts values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(p*float64(len(values))))-1)]
}

// number prints a value with three significant digits, or all of its integer part.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs == 0:
		return "0"
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return fmt.Sprintf("%.3g", v)
}
