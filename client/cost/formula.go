package cost

import (
	"github.com/cockroachdb/apd/v3"

	"microvms/client/sizing"
)

// The formulas of client facts, section 12.2. Each takes decimals that were
// checked when they came in, and divides last, if at all.

// baselineGB is a class's billed memory, or its snapshot's size, in GB of 1024 MiB.
func baselineGB(c sizing.Class) *apd.Decimal { return gbOfMiB(c.BaselineMiB()) }

// gbOfMiB is exact: a 1024th has ten decimal places.
func gbOfMiB(mib int) *apd.Decimal {
	return product(decimal(int64(mib)), apd.New(9765625, -10))
}

// vcpuSeconds and gbSeconds are what compute is billed by.
//
// COST-5: the baseline, because the peak is charged only for the above-baseline
// seconds really used, which cannot be seen from here: they are left out, not
// guessed.
func vcpuSeconds(c sizing.Class, s *apd.Decimal) *apd.Decimal {
	return product(apd.New(int64(c.BaselineMilliVCPU()), -3), s)
}

func gbSeconds(c sizing.Class, s *apd.Decimal) *apd.Decimal { return product(baselineGB(c), s) }

// runPerSecond is what a running VM costs a second.
func (r *RateTable) runPerSecond(c sizing.Class) *apd.Decimal {
	one := decimal(1)
	return sum(product(vcpuSeconds(c, one), r.rates[LineVCPU]), product(gbSeconds(c, one), r.rates[LineMemory]))
}

// billedSeconds is how long a snapshot held for some time is billed.
//
// COST-8: here, in the one place that storage lines take their time from, because
// a snapshot deleted after a minute is billed for the week.
func (r *RateTable) billedSeconds(held *apd.Decimal) (billed *apd.Decimal, floored bool) {
	if held.Cmp(r.retention) < 0 {
		return r.retention, true
	}
	return held, false
}

// storage is the price of a snapshot for some billed seconds, and the GB-months.
func (r *RateTable) storage(gb, billed *apd.Decimal) (usd, gbMonths *apd.Decimal) {
	month := decimal(SecondsPerMonth)
	return quotient(product(gb, billed, r.rates[LineSnapshotStorage]), month), quotient(product(gb, billed), month)
}

// perCycle is what one suspend and one resume cost: the snapshot is written and
// read, and no time is in it.
func (r *RateTable) perCycle(c sizing.Class) *apd.Decimal {
	return product(baselineGB(c), sum(r.rates[LineSnapshotWrite], r.rates[LineSnapshotRead]))
}

// breakEven is the hold in seconds at which suspending with so many cycles costs
// what running does, and whether there is one.
//
// Within the retention minimum storage is a constant, c = (transfers + floor × st)
// / run; past it storage grows, transfers / (run − st), and where a second of
// storage costs no less than a second of running the lines never meet. To round
// only once, all is multiplied by the seconds of a month.
func (r *RateTable) breakEven(c sizing.Class, cycles int64) (*apd.Decimal, bool) {
	month := decimal(SecondsPerMonth)
	run := product(r.runPerSecond(c), month)
	st := product(baselineGB(c), r.rates[LineSnapshotStorage])
	transfers := product(decimal(cycles), r.perCycle(c), month)

	above := sum(transfers, product(r.retention, st))
	if above.Cmp(product(r.retention, run)) <= 0 {
		return quotient(above, run), true
	}
	gain := difference(run, st)
	if gain.Sign() <= 0 {
		return nil, false
	}
	return quotient(transfers, gain), true
}
