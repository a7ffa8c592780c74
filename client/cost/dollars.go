package cost

import (
	"encoding/json"

	"github.com/cockroachdb/apd/v3"
)

// Dollars are an exact, non-negative sum of US dollars. The zero value is zero
// dollars, where a sum begins.
//
// COST-2: the number is private and has one named accessor, [Dollars.Decimal],
// because a float would hide that the figure is an estimate, and rounds.
type Dollars struct{ usd *apd.Decimal }

// DollarsOf takes a decimal, which it copies. One that is negative, not finite, or
// longer than 128 digits on a side of the point matches [ErrInvalid].
func DollarsOf(usd *apd.Decimal) (Dollars, error) {
	switch {
	case usd == nil || usd.Form != apd.Finite:
		return Dollars{}, refuse("dollars of %v are no number", usd)
	case usd.Negative && !usd.IsZero():
		return Dollars{}, refuse("dollars of %v are negative: they would read as a credit", usd)
	}
	if whole, fraction := digits(usd); whole > maxMoneyDigits || fraction > maxMoneyDigits {
		return Dollars{}, refuse("dollars of %d and %d digits are too long: the most is %d on each side of the point", whole, fraction, maxMoneyDigits)
	}
	return Dollars{new(apd.Decimal).Abs(usd)}, nil
}

// ParseDollars reads decimal text such as "12.50", with [DollarsOf]'s rules.
func ParseDollars(text string) (Dollars, error) {
	d, _, err := exactly.NewFromString(text)
	if err != nil {
		return Dollars{}, refuse("cannot read dollars from %q: give a plain number such as 12.50", text)
	}
	return DollarsOf(d)
}

// money is for results, whose inputs were bounded when they came in.
func money(usd *apd.Decimal) Dollars {
	d, err := DollarsOf(usd)
	if err != nil {
		panic("cost: internal error: " + err.Error())
	}
	return d
}

// Decimal is the exact number; the copy is the caller's.
func (d Dollars) Decimal() *apd.Decimal {
	if d.usd == nil {
		return decimal(0)
	}
	return new(apd.Decimal).Set(d.usd)
}

// Add is the exact sum. Only dollars can be added: an [Amount] may be unpriced, and
// a [Total] may be a lower bound.
func (d Dollars) Add(other Dollars) Dollars { return money(sum(d.Decimal(), other.Decimal())) }

// Cmp compares: -1 when d is less than other, 0 when equal, 1 when more.
func (d Dollars) Cmp(other Dollars) int { return d.Decimal().Cmp(other.Decimal()) }

// String shows the dollars as every report does: two places from one dollar up,
// else six, half to even.
func (d Dollars) String() string {
	usd, n := d.Decimal(), int32(6)
	if usd.Cmp(decimal(1)) >= 0 {
		n = 2
	}
	return "~$" + places(usd, n).Text('f') + " (estimated)"
}

// MarshalJSON writes the exact number as a string, because a JSON number is read
// as a float.
func (d Dollars) MarshalJSON() ([]byte, error) { return json.Marshal(plain(d.Decimal())) }
