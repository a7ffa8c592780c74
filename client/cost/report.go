package cost

import (
	"slices"

	"github.com/cockroachdb/apd/v3"

	"microvms/client/sizing"
)

// Phase is the part of a VM's life that a line belongs to.
type Phase string

// The phases, in the order of a report.
const (
	PhaseImageBuild   Phase = "image-build"
	PhaseImageStorage Phase = "image-storage"
	PhaseLaunch       Phase = "launch"
	PhaseRunning      Phase = "running"
	PhaseSuspended    Phase = "suspended"
	PhaseSuspend      Phase = "suspend"
	PhaseResume       Phase = "resume"
)

// Item is one line of a report.
type Item struct {
	Phase    Phase
	Line     Line // empty: no line of the price list
	Unit     string
	Amount   Amount
	Duration Duration // nil: the line has no time in it
	Note     string
	quantity *apd.Decimal
}

// unknownQuantity stands where a quantity is not known; zero would be a quantity.
const unknownQuantity = "unknown"

// Quantity is how many units, with at most six places.
func (i Item) Quantity() string {
	if i.quantity == nil {
		return unknownQuantity
	}
	return shown(i.quantity)
}

// Report is priced usage. It comes from [Price] or [Estimate] and never changes.
type Report struct {
	label     string
	size      sizing.Class
	rates     *RateTable
	staleness string
	items     []Item
	durations []Duration
}

// Label is what the report is about, as its maker named it.
func (r *Report) Label() string { return r.label }

// Size is the size class.
func (r *Report) Size() sizing.Class { return r.size }

// Rates is the table that the report was made from.
func (r *Report) Rates() *RateTable { return r.rates }

// Staleness is the warning about old rates, empty when they are not old.
func (r *Report) Staleness() string { return r.staleness }

// Items are the lines, in order; the slice is the caller's.
func (r *Report) Items() []Item { return slices.Clone(r.items) }

// Total is the sum of the items.
func (r *Report) Total() Total { return Sum(r.items) }

// Complete reports whether every line is priced.
func (r *Report) Complete() bool {
	_, exact := r.Total().(Exact)
	return exact
}

// FullyMeasured reports whether there is a duration, and every one was measured.
func (r *Report) FullyMeasured() bool {
	return len(r.durations) > 0 && !slices.ContainsFunc(r.durations, func(d Duration) bool { return d.Provenance() != FromMeasurement })
}
