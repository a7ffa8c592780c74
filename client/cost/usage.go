package cost

import (
	"strings"
	"unicode"

	"github.com/cockroachdb/apd/v3"

	"microvms/client/sizing"
)

// GB is a size in GB of 1024 MiB. The zero value is no size, not a size of zero.
type GB struct{ gb *apd.Decimal }

// GBOf takes a size; one that is negative, not finite or of more than 28 digits
// matches [ErrInvalid].
func GBOf(size float64) (GB, error) {
	d, err := decimalOf("size in GB", size)
	return GB{d}, err
}

// Usage is what a VM did. A phase without a duration did not happen; a duration
// of zero happened and took no time.
type Usage struct {
	Label string // names the report; printable, on one line
	Size  sizing.Class
	Build Duration // of the image build
	// Image is the size of an image that was built for this VM.
	Image GB
	// ImageRetained is how long the image is kept; nil: the retention minimum.
	ImageRetained Duration
	Launched      bool
	Running       Duration
	Suspended     Duration
	Snapshot      GB // size of the snapshot; none: the class's baseline memory
	Cycles        int
}

// unpricedBuild is why no build has a price.
const unpricedBuild = "AWS does not say whether the server-side build is billed"

// Price makes a report of usage. The day decides on the staleness of the rates.
// Bad arguments match [ErrInvalid].
func Price(rates *RateTable, u Usage, today Date) (*Report, error) {
	if err := u.check(rates, today); err != nil {
		return nil, err
	}
	p := pricing{rates: rates, Report: &Report{label: u.Label, size: u.Size, rates: rates, staleness: rates.Staleness(today)}}
	snapshot := u.Snapshot.gb
	if snapshot == nil {
		snapshot = baselineGB(u.Size)
	}
	p.image(u)
	if u.Launched {
		read := snapshot
		if u.Image.gb != nil {
			read = u.Image.gb
		}
		p.transfer(PhaseLaunch, LineSnapshotRead, read, 1)
	}
	if u.Running != nil {
		p.compute(u.Running)
	}
	// A suspended VM has no compute line at all: one of zero would be a price.
	if u.Suspended != nil {
		p.stored(PhaseSuspended, snapshot, u.Suspended)
	}
	if u.Cycles > 0 {
		p.transfer(PhaseSuspend, LineSnapshotWrite, snapshot, u.Cycles)
		p.transfer(PhaseResume, LineSnapshotRead, snapshot, u.Cycles)
	}
	return p.Report, nil
}

func (u *Usage) check(rates *RateTable, today Date) error {
	if err := rates.usable(); err != nil {
		return err
	}
	switch {
	case today.IsZero():
		return refuse("no day to judge the age of the rates by")
	case u.Size.IsZero():
		return refuse("no size class: look one up in a size table")
	case u.Cycles < 0:
		return refuse("cycles of %d are negative: they would read as a credit", u.Cycles)
	case strings.ContainsFunc(u.Label, func(r rune) bool { return !unicode.IsPrint(r) }):
		return refuse("label %q is not printable on one line", u.Label)
	}
	for what, d := range map[string]Duration{"build": u.Build, "image": u.ImageRetained, "running": u.Running, "suspended": u.Suspended} {
		if err := known(what, d); err != nil {
			return err
		}
	}
	return nil
}

// pricing is a report under construction.
type pricing struct {
	*Report
	rates *RateTable
}

func (p *pricing) add(i Item) {
	if i.Duration != nil {
		// Both compute lines have one duration; a repeat changes no answer.
		p.durations = append(p.durations, i.Duration)
	}
	p.items = append(p.items, i)
}

func (p *pricing) priced(i Item, usd *apd.Decimal) {
	i.Amount = NewEstimated(money(usd))
	p.add(i)
}

// image adds the build, which never has a price, and the image's storage.
func (p *pricing) image(u Usage) {
	switch {
	case u.Build != nil:
		p.add(Item{Phase: PhaseImageBuild, Unit: "seconds", Amount: NewUnpriced(unpricedBuild), Duration: u.Build, quantity: u.Build.length()})
	case u.Image.gb != nil:
		p.add(Item{Phase: PhaseImageBuild, Unit: "seconds (untimed)", Amount: NewUnpriced(unpricedBuild)})
	}
	if u.Image.gb == nil {
		return
	}
	retained := u.ImageRetained
	if retained == nil {
		retained = projected{p.rates.retention}
	}
	p.stored(PhaseImageStorage, u.Image.gb, retained)
}

// compute adds the two lines of a running VM.
func (p *pricing) compute(d Duration) {
	s := d.length()
	for _, l := range []struct {
		line     Line
		unit     string
		quantity *apd.Decimal
	}{{LineVCPU, "vCPU-seconds", vcpuSeconds(p.size, s)}, {LineMemory, "GB-seconds", gbSeconds(p.size, s)}} {
		p.priced(Item{Phase: PhaseRunning, Line: l.line, Unit: l.unit, Duration: d, quantity: l.quantity}, product(l.quantity, p.rates.rates[l.line]))
	}
}

// stored adds the storage of a snapshot.
func (p *pricing) stored(phase Phase, gb *apd.Decimal, held Duration) {
	billed, floored := p.rates.billedSeconds(held.length())
	note := ""
	if floored {
		note = "billed for the " + p.rates.retentionDays() + "-day minimum"
	}
	usd, gbMonths := p.rates.storage(gb, billed)
	p.priced(Item{Phase: phase, Line: LineSnapshotStorage, Unit: "GB-months", Duration: held, Note: note, quantity: gbMonths}, usd)
}

// transfer adds the reading or writing of a snapshot; no time is in it.
func (p *pricing) transfer(phase Phase, line Line, gb *apd.Decimal, count int) {
	quantity := product(gb, decimal(int64(count)))
	p.priced(Item{Phase: phase, Line: line, Unit: "GB", quantity: quantity}, product(quantity, p.rates.rates[line]))
}
