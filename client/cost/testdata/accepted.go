// What is refused beside this file is refused for its own reason: this compiles.
package main

import (
	"time"

	"github.com/cockroachdb/apd/v3"

	"microvms/client/cost"
	"microvms/client/sizing"
)

func main() {
	running, _ := cost.Measured(time.Minute)
	suspended, _ := cost.Projected(time.Hour)
	size, _ := sizing.Lookup(sizing.Published(), 2048)
	today, _ := cost.NewDate(2026, 8, 8)
	report, _ := cost.Price(cost.Pinned(), cost.Usage{Size: size, Running: running, Suspended: suspended}, today)
	d, _ := cost.DollarsOf(apd.New(15, -1))
	for _, item := range report.Items() {
		switch a := item.Amount.(type) {
		case cost.Estimated:
			d = d.Add(a.USD())
		case cost.Unpriced:
			println(a.Reason())
		}
	}
	switch t := cost.Sum(report.Items()).(type) {
	case cost.Exact:
		d = d.Add(t.USD())
	case cost.AtLeast:
		d = d.Add(t.Floor())
	}
	f, _ := d.Decimal().Float64()
	println(f)
}
