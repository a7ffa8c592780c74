package cost

import "microvms/client/sizing"

// Plan is what a VM is going to do, in plain numbers. A zero means that the phase
// is not planned.
type Plan struct {
	Label string // names the report; printable, on one line
	Size  sizing.Class
	// RunningSec, SuspendedSec and BuildSec are seconds.
	RunningSec, SuspendedSec, BuildSec float64
	// ImageGB is the size of an image that is built for the VM.
	ImageGB float64
	// Cycles is how often the VM is suspended and resumed.
	Cycles int
}

// Estimate makes a report of a plan. A launch is part of it when the VM runs or an
// image is built. Bad numbers match [ErrInvalid].
func Estimate(rates *RateTable, p Plan, today Date) (*Report, error) {
	u := Usage{Label: p.Label, Size: p.Size, Cycles: p.Cycles}
	for _, part := range []struct {
		what    string
		seconds float64
		to      *Duration
	}{{"running time", p.RunningSec, &u.Running}, {"suspended time", p.SuspendedSec, &u.Suspended}, {"build time", p.BuildSec, &u.Build}} {
		d, err := planned(part.what, part.seconds)
		if err != nil {
			return nil, err
		}
		*part.to = d
	}
	size, err := GBOf(p.ImageGB)
	if err != nil {
		return nil, err
	}
	if !size.gb.IsZero() {
		u.Image = size
	}
	u.Launched = u.Running != nil || u.Image.gb != nil
	return Price(rates, u, today)
}

// planned is the duration of a plan's number, nil for zero.
//
// COST-10: projected, here and for every number of a plan, because nothing has
// been measured before it happened.
func planned(what string, seconds float64) (Duration, error) {
	d, err := decimalOf(what, seconds)
	if err != nil || d.IsZero() {
		return nil, err
	}
	return projected{d}, nil
}
