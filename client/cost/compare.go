package cost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"microvms/client/sizing"
)

// State is what a VM is left in for a while.
type State string

// The states that a comparison chooses from, and the outcome that neither is
// cheaper.
const (
	StateRunning   State = "running"
	StateSuspended State = "suspended"
	StateSame      State = "same"
)

// Comparison sets a running VM against a suspended one over the same time. It
// comes from [Compare] and never changes.
type Comparison struct {
	size               sizing.Class
	rates              *RateTable
	hold               *apd.Decimal
	cycles             int
	running, suspended *Report
	breakEven          *apd.Decimal // nil: there is none
}

// Compare prices a hold of so many seconds, spent running and spent suspended with
// so many suspends and resumes. Bad numbers match [ErrInvalid].
func Compare(rates *RateTable, size sizing.Class, holdSec float64, cycles int, today Date) (*Comparison, error) {
	s, err := decimalOf("hold", holdSec)
	if err != nil {
		return nil, err
	}
	hold := projected{s}
	c := &Comparison{size: size, rates: rates, hold: s, cycles: cycles}
	if c.running, err = Price(rates, Usage{Label: string(StateRunning), Size: size, Running: hold}, today); err != nil {
		return nil, err
	}
	if c.suspended, err = Price(rates, Usage{Label: string(StateSuspended), Size: size, Suspended: hold, Cycles: cycles}, today); err != nil {
		return nil, err
	}
	c.breakEven, _ = rates.breakEven(size, int64(cycles))
	return c, nil
}

// Running is the report of the VM that stays up.
func (c *Comparison) Running() *Report { return c.running }

// Suspended is the report of the VM that is suspended.
func (c *Comparison) Suspended() *Report { return c.suspended }

// BreakEven is the hold, in seconds with at most six places, at which both cost
// the same with the comparison's cycles, and whether there is one. Below it
// suspending costs more than staying up.
func (c *Comparison) BreakEven() (seconds string, ok bool) {
	if c.breakEven == nil {
		return "", false
	}
	return shown(c.breakEven), true
}

// Ratio is what running costs in terms of what suspending costs, with four places,
// or with four digits when it is so small that places would show next to nothing.
func (c *Comparison) Ratio() string {
	r := quotient(pricedOf(c.running.Total()).Decimal(), pricedOf(c.suspended.Total()).Decimal())
	if !r.IsZero() && r.Cmp(apd.New(1, -2)) < 0 {
		return digitsOf(r, 4)
	}
	return places(r, 4).Text('f')
}

// PerCycle is what one suspend with its resume costs.
func (c *Comparison) PerCycle() Dollars { return money(c.rates.perCycle(c.size)) }

// Cheaper is the state that costs less over the hold.
func (c *Comparison) Cheaper() State {
	return cheaper(pricedOf(c.running.Total()), pricedOf(c.suspended.Total()))
}

func cheaper(running, suspended Dollars) State {
	switch running.Cmp(suspended) {
	case -1:
		return StateRunning
	case 1:
		return StateSuspended
	}
	return StateSame
}

// at prices both states for another hold.
func (c *Comparison) at(hold *apd.Decimal) (running, suspended Dollars) {
	billed, _ := c.rates.billedSeconds(hold)
	stored, _ := c.rates.storage(baselineGB(c.size), billed)
	transfers := product(decimal(int64(c.cycles)), c.rates.perCycle(c.size))
	return money(product(hold, c.rates.runPerSecond(c.size))), money(sum(stored, transfers))
}

// String is the answer in three sentences, one a line: which is cheaper, what a
// cycle costs, and where the break-even lies.
func (c *Comparison) String() string {
	var b strings.Builder
	at := fmt.Sprintf("at a hold of %s s (%s) with %s", plain(c.hold), inWords(c.hold), count(c.cycles, "cycle"))
	switch state := c.Cheaper(); state {
	case StateSame:
		fmt.Fprintf(&b, "neither is cheaper %s: running costs %s times as much as suspending.\n", at, c.Ratio())
	default:
		fmt.Fprintf(&b, "%s is cheaper %s: running costs %s times as much as suspending.\n", state, at, c.Ratio())
	}
	fmt.Fprintf(&b, "one suspend with its resume costs %s.\n", c.PerCycle())
	b.WriteString(c.advice())
	return b.String()
}

// advice says where the break-even lies and what follows.
func (c *Comparison) advice() string {
	seconds, ok := c.BreakEven()
	if !ok {
		return "no break-even: storage costs no less a second than running does, so running is cheaper at every hold."
	}
	return fmt.Sprintf("break-even at a hold of %s s (%s): below it suspending costs more than staying up, so avoid churn, not residency.",
		seconds, inWords(c.breakEven))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// usualHolds are the holds, in seconds, that every table shows.
var usualHolds = []int64{60, 600, 3600, 21600, secondsPerDay, RetentionSeconds, SecondsPerMonth}

// holdRow is one hold with the price of both states.
type holdRow struct {
	Hold, Running, Suspended string
	Cheaper                  State
	Mark                     string
}

// holds are the usual holds, the one asked for, and the break-even, ascending.
func (c *Comparison) holds() []holdRow {
	all := []*apd.Decimal{c.hold}
	for _, s := range usualHolds {
		all = append(all, decimal(s))
	}
	if c.breakEven != nil {
		all = append(all, c.breakEven)
	}
	slices.SortFunc(all, (*apd.Decimal).Cmp)
	all = slices.CompactFunc(all, func(a, b *apd.Decimal) bool { return a.Cmp(b) == 0 })
	rows := make([]holdRow, 0, len(all))
	for _, hold := range all {
		running, suspended := c.at(hold)
		row := holdRow{inWords(hold), running.String(), suspended.String(), cheaper(running, suspended), ""}
		if hold.Cmp(c.hold) == 0 {
			row.Mark = "this comparison"
		}
		if c.breakEven != nil && hold.Cmp(c.breakEven) == 0 {
			// The quotient is rounded, so that the last digits differ.
			row.Cheaper, row.Mark = StateSame, strings.TrimPrefix(row.Mark+", break-even", ", ")
		}
		rows = append(rows, row)
	}
	return rows
}

// Text shows the comparison for people: the answer, the two states over a range of
// holds, and the lines of both reports.
func (c *Comparison) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "running or suspended: %s\n", c.size.Describe())
	c.running.source(&b)
	b.WriteString("\n" + c.String() + "\n\n")
	rows := [][]string{{"HOLD", "RUNNING", "SUSPENDED", "CHEAPER", ""}}
	for _, r := range c.holds() {
		if r.Mark != "" {
			r.Mark = "<- " + r.Mark
		}
		rows = append(rows, []string{r.Hold, r.Running, r.Suspended, string(r.Cheaper), r.Mark})
	}
	align(&b, rows)
	for _, r := range []*Report{c.running, c.suspended} {
		fmt.Fprintf(&b, "\n%s\n", r.label)
		r.lines(&b)
		fmt.Fprintf(&b, "total: %s\n", r.Total())
	}
	return b.String()
}

// Dense is the comparison on one line of tab-separated fields: hold in seconds,
// cycles, exact dollars running, exact dollars suspended, ratio, break-even in
// seconds or "-", the cheaper state, and "stale" or "current".
func (c *Comparison) Dense() string {
	seconds, ok := c.BreakEven()
	if !ok {
		seconds = "-"
	}
	age := "current"
	if c.running.staleness != "" {
		age = "stale"
	}
	return strings.Join([]string{plain(c.hold), fmt.Sprint(c.cycles), plain(pricedOf(c.running.Total()).Decimal()),
		plain(pricedOf(c.suspended.Total()).Decimal()), c.Ratio(), seconds, string(c.Cheaper()), age}, "\t")
}

// MarshalJSON writes the comparison in the form of client facts, section 12.5.
// breakEvenSeconds is null when there is none.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	out := struct {
		HoldSeconds      json.Number  `json:"holdSeconds"`
		Cycles           int          `json:"cycles"`
		Running          *Report      `json:"running"`
		Suspended        *Report      `json:"suspended"`
		Ratio            string       `json:"ratio"`
		PerCycleUSD      Dollars      `json:"perCycleUsd"`
		BreakEvenSeconds *json.Number `json:"breakEvenSeconds"`
		Render           string       `json:"render"`
	}{json.Number(plain(c.hold)), c.cycles, c.running, c.suspended, c.Ratio(), c.PerCycle(), nil, c.String()}
	if seconds, ok := c.BreakEven(); ok {
		n := json.Number(seconds)
		out.BreakEvenSeconds = &n
	}
	return json.Marshal(out)
}
