package cost

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/cockroachdb/apd/v3"
)

// CatalogEntry is one product of the price list. Every line offered is kept as it
// is, x86 included.
type CatalogEntry struct {
	Group string // of the product's attributes; the usage type has a region prefix and is no key
	Unit  string // of the price dimension
	USD   string // price of one unit, decimal text
}

// Catalog is the part of a price list that one region offers.
type Catalog struct {
	Region    string
	SourceURL string
	Retrieved Date
	Entries   []CatalogEntry
}

// catalogLine says how one rate is found in a catalog.
type catalogLine struct {
	line           Line
	group, unit    string
	sibling        string // the x86 product beside it
	perMonthFactor int64  // of the unit in the table's unit
}

// catalogLines is the mapping of client facts, section 12.4.
var catalogLines = []catalogLine{
	{LineVCPU, "AWS-Lambda-MicroVM-vCPU-Second-ARM", "vCPU-Seconds", "AWS-Lambda-MicroVM-vCPU-Second", 1},
	{LineMemory, "AWS-Lambda-MicroVM-Memory-GB-Second-ARM", "GB-Seconds", "AWS-Lambda-MicroVM-Memory-GB-Second", 1},
	{LineSnapshotStorage, "AWS-Lambda-MicroVM-Snapshot-Storage-GB-Hour", "GB-Hours", "", hoursPerMonth},
	{LineSnapshotRead, "AWS-Lambda-MicroVM-Snapshot-Read-GB", "GB", "", 1},
	{LineSnapshotWrite, "AWS-Lambda-MicroVM-Snapshot-Write-GB", "GB", "", 1},
}

// FromCatalog reads a rate table from a catalog: all five rates, or none. It
// refuses, matching [ErrInvalid], an empty catalog, an ARM line that is missing
// while its x86 sibling is offered, a line that is missing altogether, a unit that
// is not the known one, and a line offered by more than one product; further a
// price that is not a number above zero, and a catalog without region, source or
// date. The retention minimum is not in a catalog: it is always
// [RetentionSeconds].
func FromCatalog(c Catalog) (*RateTable, error) {
	if err := c.labelled(); err != nil {
		return nil, err
	}
	if len(c.Entries) == 0 {
		return nil, refuse("the catalog of region %q is empty: check the region", c.Region)
	}
	table := &RateTable{c.Region, c.SourceURL, c.Retrieved, decimal(RetentionSeconds), map[Line]*apd.Decimal{}}
	for _, l := range catalogLines {
		rate, err := c.rate(l)
		if err != nil {
			return nil, fmt.Errorf("cannot take rates from the catalog of region %q: %w", c.Region, err)
		}
		table.rates[l.line] = rate
	}
	return table, nil
}

// labelled refuses a catalog that does not say what its rates are.
func (c *Catalog) labelled() error {
	unsafe := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if c.Region == "" || strings.ContainsFunc(c.Region, unsafe) {
		return refuse("the catalog's region %q is no region", c.Region)
	}
	if u, err := url.Parse(c.SourceURL); err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsFunc(c.SourceURL, unsafe) {
		return refuse("the catalog's source %q is no https address", c.SourceURL)
	}
	if c.Retrieved.IsZero() {
		return refuse("the catalog does not say when it was retrieved")
	}
	return nil
}

// find lists the entries of a group.
func (c *Catalog) find(group string) []CatalogEntry {
	var found []CatalogEntry
	for _, e := range c.Entries {
		if e.Group == group {
			found = append(found, e)
		}
	}
	return found
}

// rate reads one line's rate in the table's unit.
func (c *Catalog) rate(l catalogLine) (*apd.Decimal, error) {
	found := c.find(l.group)
	switch {
	case len(found) > 1:
		return nil, refuse("%q is offered by %d products, and nothing says which one is billed", l.group, len(found))
	case len(found) == 0 && l.sibling != "" && len(c.find(l.sibling)) > 0:
		// COST-9: the x86 rate stands right there and is not taken, because the
		// estimate would be wrong by its gap and look right.
		return nil, refuse("%q is missing; the x86 rate %q of %s is there and is not used: it is roughly 18%% higher, and no MicroVM runs on x86",
			l.group, c.find(l.sibling)[0].USD, l.sibling)
	case len(found) == 0:
		return nil, refuse("%q is missing: the catalog is not of this service, or the product was renamed", l.group)
	case found[0].Unit != l.unit:
		return nil, refuse("%q is priced per %q, known is %q: the rate was restated and needs a reader", l.group, found[0].Unit, l.unit)
	}
	usd, _, err := exactly.NewFromString(found[0].USD)
	if err != nil || usd.Form != apd.Finite || usd.Sign() <= 0 {
		return nil, refuse("%q has the price %q, which is no number above zero", l.group, found[0].USD)
	}
	if whole, fraction := digits(usd); whole+fraction > maxInputDigits {
		return nil, refuse("%q has a price of %d digits, the most is %d", l.group, whole+fraction, maxInputDigits)
	}
	return product(usd, decimal(l.perMonthFactor)), nil
}
