package cost

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// The chart's plot area in user units of its drawing.
const (
	plotLeft, plotRight = 84.0, 796.0
	plotTop, plotBottom = 40.0, 372.0
	chartSteps          = 160
)

// axis maps values to places on a logarithmic scale: seconds and dollars span
// many powers of ten, and the break-even is to be seen beside the month.
type axis struct{ low, high, from, to float64 }

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log(v)-math.Log(a.low))/(math.Log(a.high)-math.Log(a.low))
}

// place is a drawn number; a drawing has no use for more than tenths.
func place(v float64) string { return fmt.Sprintf("%.1f", v) }

// drawn turns an exact number into one for drawing. It is never shown as a figure
// nor computed with further.
func drawn(d *apd.Decimal) float64 {
	f, err := d.Float64()
	if err != nil {
		return math.Inf(1)
	}
	return f
}

type tick struct{ At, Label string }

// marker is a vertical line with its label, which stands on the side with room.
type marker struct{ X, TextX, Anchor, Label string }

// chart is what the template draws.
type chart struct {
	Running, Suspended      string // points of the two lines
	XTicks, YTicks          []tick
	RunningEnd, SuspendEnd  string // heights of the lines' ends
	BreakEven, Hold         *marker
	Left, Right             string // which state is cheaper on each side of the break-even
	LeftMiddle, RightMiddle string
}

// timeTicks label the axis of holds.
var timeTicks = []struct {
	seconds float64
	label   string
}{{1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {21600, "6 h"}, {86400, "1 d"}, {604800, "7 d"}, {2628000, "1 month"},
	{31536000, "1 year"}, {315360000, "10 years"}}

// chart draws both states over a range of holds that has the break-even and the
// hold asked for inside.
func (c *Comparison) chart() chart {
	x := axis{10, SecondsPerMonth, plotLeft, plotRight}
	for _, d := range []*apd.Decimal{c.hold, c.breakEven} {
		if d != nil && d.Sign() > 0 {
			x.low, x.high = min(x.low, drawn(d)/3), max(x.high, drawn(d)*3)
		}
	}
	at := func(s float64) (running, suspended float64) {
		hold, err := new(apd.Decimal).SetFloat64(s)
		if err != nil {
			return 0, 0
		}
		r, u := c.at(hold)
		return drawn(r.Decimal()), drawn(u.Decimal())
	}
	var holds, running, suspended []float64
	y := axis{math.Inf(1), 0, plotBottom, plotTop}
	for i := range chartSteps + 1 {
		s := x.low * math.Pow(x.high/x.low, float64(i)/chartSteps)
		r, u := at(s)
		holds, running, suspended = append(holds, s), append(running, r), append(suspended, u)
		y.low, y.high = min(y.low, r, u), max(y.high, r, u)
	}
	y.low, y.high = y.low/2, y.high*2
	out := chart{Running: points(x, y, holds, running), Suspended: points(x, y, holds, suspended)}
	last := len(holds) - 1
	out.RunningEnd, out.SuspendEnd = place(y.at(running[last])), place(y.at(suspended[last]))
	out.ticks(x, y)
	out.markers(c, x)
	return out
}

func points(x, y axis, holds, prices []float64) string {
	var b strings.Builder
	for i := range holds {
		fmt.Fprintf(&b, "%s,%s ", place(x.at(holds[i])), place(y.at(prices[i])))
	}
	return strings.TrimSuffix(b.String(), " ")
}

func (out *chart) ticks(x, y axis) {
	for _, t := range timeTicks {
		if t.seconds >= x.low && t.seconds <= x.high {
			out.XTicks = append(out.XTicks, tick{place(x.at(t.seconds)), t.label})
		}
	}
	first, last := int(math.Ceil(math.Log10(y.low))), int(math.Floor(math.Log10(y.high)))
	every := max((last-first)/8, 1)
	for e := first; e <= last; e += every {
		out.YTicks = append(out.YTicks, tick{place(y.at(math.Pow(10, float64(e)))), powerOfTen(e)})
	}
}

// powerOfTen labels ten to the power of e dollars.
func powerOfTen(e int) string {
	const thousands = "kMBT"
	switch {
	case e < -6 || e >= 3*len(thousands)+3:
		return fmt.Sprintf("$1e%d", e)
	case e < 4:
		return "$" + apd.New(1, int32(e)).Text('f')
	}
	return "$" + apd.New(1, int32(e%3)).Text('f') + string(thousands[e/3-1])
}

func (out *chart) markers(c *Comparison, x axis) {
	mark := func(d *apd.Decimal, label string) *marker {
		at := x.at(drawn(d))
		if at > (plotLeft+plotRight)*0.6 {
			return &marker{place(at), place(at - 6), "end", label}
		}
		return &marker{place(at), place(at + 6), "start", label}
	}
	if c.hold.Sign() > 0 {
		out.Hold = mark(c.hold, "this hold: "+inWords(c.hold))
	}
	out.Left, out.LeftMiddle = "running is cheaper", place((plotLeft+plotRight)/2)
	if c.breakEven != nil && c.breakEven.Sign() > 0 {
		out.BreakEven = mark(c.breakEven, "break-even: "+inWords(c.breakEven))
		at := x.at(drawn(c.breakEven))
		out.LeftMiddle, out.RightMiddle, out.Right = place((plotLeft+at)/2), place((at+plotRight)/2), "suspended is cheaper"
	}
}

//go:embed comparison.html.tmpl
var pageText string

var page = template.Must(template.New("comparison").Parse(pageText))

// HTML writes the comparison as one self-contained page with a chart. The error is
// the writer's.
func (c *Comparison) HTML(w io.Writer) error {
	err := page.Execute(w, struct {
		Size, Region, Retrieved, Source, Staleness string
		Verdict                                    []string
		Chart                                      chart
		Holds                                      []holdRow
		Reports                                    []*Report
	}{c.size.Describe(), c.rates.region, c.rates.retrieved.String(), c.rates.source, c.running.staleness,
		strings.Split(c.String(), "\n"), c.chart(), c.holds(), []*Report{c.running, c.suspended}})
	if err != nil {
		return fmt.Errorf("cannot write the comparison's page: %w", err)
	}
	return nil
}
