package cost

import (
	"fmt"

	"github.com/cockroachdb/apd/v3"
)

// Line is one line of a bill.
type Line string

// The lines. Compute is two of them, never one blended figure, because they must
// match a bill that lists them apart.
const (
	LineVCPU            Line = "vcpu"
	LineMemory          Line = "memory"
	LineSnapshotStorage Line = "snapshot-storage"
	LineSnapshotRead    Line = "snapshot-read"
	LineSnapshotWrite   Line = "snapshot-write"
)

const (
	// RetentionSeconds is the shortest time for which a snapshot is billed: a week.
	RetentionSeconds = 604800
	// SecondsPerMonth is the month of the price list: 730 hours.
	SecondsPerMonth = 2628000
	// StaleAfterDays is the age past which a rate table is stale.
	StaleAfterDays = 90

	secondsPerDay = 86400
	hoursPerMonth = 730
)

// PricingURL is where the pinned rates were read.
const PricingURL = "https://aws.amazon.com/lambda/pricing/"

// RateTable holds the rates of one region with their source and the day they were
// read. It is made by [Pinned] and [FromCatalog] only, and never changes.
type RateTable struct {
	region, source string
	retrieved      Date
	retention      *apd.Decimal // seconds
	rates          map[Line]*apd.Decimal
}

// pinned are the rates of us-east-1 on pinnedDate (client facts, section 12.1).
//
// COST-9: compute is priced from the ARM rates and x86 rates do not occur, because
// no MicroVM runs on x86.
var pinned = map[Line]string{
	LineVCPU:            "0.0000276944",
	LineMemory:          "0.0000036667",
	LineSnapshotStorage: "0.0811111030",
	LineSnapshotRead:    "0.00155",
	LineSnapshotWrite:   "0.0038",
}

var pinnedDate = Date{2026, 8, 7}

// Pinned is the table that this package was built with.
func Pinned() *RateTable {
	rates := map[Line]*apd.Decimal{}
	for line, text := range pinned {
		d, cond, err := exactly.NewFromString(text)
		rates[line] = must(d, cond, err)
	}
	return &RateTable{"us-east-1", PricingURL, pinnedDate, decimal(RetentionSeconds), rates}
}

// Region is the region that the rates hold for.
func (r *RateTable) Region() string { return r.region }

// SourceURL is where the rates were read.
func (r *RateTable) SourceURL() string { return r.source }

// Retrieved is the day on which the rates were read.
func (r *RateTable) Retrieved() Date { return r.retrieved }

// Rate is the price of one unit of a line: a vCPU-second, GB-second, GB-month, GB
// read or GB written. An unknown line matches [ErrInvalid].
func (r *RateTable) Rate(line Line) (Dollars, error) {
	if d, ok := r.rates[line]; ok {
		return money(d), nil
	}
	return Dollars{}, refuse("no line %q in a rate table", line)
}

// usable refuses a table that no constructor made.
func (r *RateTable) usable() error {
	if r == nil || r.rates == nil {
		return refuse("no rate table: take Pinned or FromCatalog")
	}
	return nil
}

// Staleness warns, in one sentence, when the table is older than [StaleAfterDays]
// on the given day; else it is empty.
func (r *RateTable) Staleness(today Date) string {
	age := today.dayNumber() - r.retrieved.dayNumber()
	// COST-7: past the window, not at it; the text rides on every report, because a
	// log line does not reach the reader of the figure.
	if age <= StaleAfterDays {
		return ""
	}
	return fmt.Sprintf("the %s rates were retrieved on %s, %d days ago, which is more than %d: compare them with %s",
		r.region, r.retrieved, age, StaleAfterDays, r.source)
}

// retentionDays is the retention minimum in days, for notes.
func (r *RateTable) retentionDays() string {
	return plain(quotient(r.retention, decimal(secondsPerDay)))
}
