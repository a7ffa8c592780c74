package cost

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// ErrInvalid matches every refusal of this package: an argument is wrong.
var ErrInvalid = errors.New("invalid argument")

// refusal is an error that matches ErrInvalid and says only its own words.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrInvalid }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

const (
	// maxInputDigits bounds what comes in as a float, in plain notation.
	maxInputDigits = 28
	// maxMoneyDigits bounds dollars on each side of the point.
	maxMoneyDigits = 128
	// quotientDigits is the precision of decimal128.
	quotientDigits = 34
)

// exactly is the arithmetic of sums and products. Its precision is beyond what
// bounded inputs can need, and a rounded result is an error all the same.
//
// COST-6: decimal, and never inexact, because a bill is decimal and an error of
// one float grows with every line that is added.
var exactly = apd.Context{Precision: 1024, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Traps: apd.DefaultTraps | apd.Inexact,
	Rounding: apd.RoundHalfEven}

// rounding is the arithmetic of quotients.
var rounding = apd.Context{Precision: quotientDigits, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Traps: apd.DefaultTraps,
	Rounding: apd.RoundHalfEven}

func decimal(n int64) *apd.Decimal { return apd.New(n, 0) }

// must holds an operation to its bounds: its inputs were checked when they came
// in, so a failure is a defect of this package.
func must(d *apd.Decimal, _ apd.Condition, err error) *apd.Decimal {
	if err != nil {
		panic("cost: internal error: " + err.Error())
	}
	return d
}

func product(factors ...*apd.Decimal) *apd.Decimal {
	p := decimal(1)
	for _, f := range factors {
		cond, err := exactly.Mul(p, p, f)
		must(p, cond, err)
	}
	return p
}

func sum(terms ...*apd.Decimal) *apd.Decimal {
	s := decimal(0)
	for _, t := range terms {
		cond, err := exactly.Add(s, s, t)
		must(s, cond, err)
	}
	return s
}

func difference(a, b *apd.Decimal) *apd.Decimal {
	var d apd.Decimal
	cond, err := exactly.Sub(&d, a, b)
	return must(&d, cond, err)
}

// quotient is the only operation that rounds. The divisor is not zero.
func quotient(a, b *apd.Decimal) *apd.Decimal {
	var q apd.Decimal
	cond, err := rounding.Quo(&q, a, b)
	return must(&q, cond, err)
}

// plain is the number's digits without an exponent and without trailing zeros.
func plain(d *apd.Decimal) string {
	var r apd.Decimal
	r.Reduce(d)
	return r.Text('f')
}

// display is the arithmetic of what is shown; what is summed is never rounded so.
var display = apd.Context{Precision: exactly.Precision, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Traps: apd.DefaultTraps,
	Rounding: apd.RoundHalfEven}

// places rounds half to even to n places after the point.
func places(d *apd.Decimal, n int32) *apd.Decimal {
	var q apd.Decimal
	cond, err := display.Quantize(&q, d, -n)
	return must(&q, cond, err)
}

// digitsOf rounds half to even to n significant digits.
func digitsOf(d *apd.Decimal, n uint32) string {
	var r apd.Decimal
	cond, err := display.WithPrecision(n).Round(&r, d)
	return must(&r, cond, err).Text('f')
}

// shown is a number with at most six places and no trailing zeros.
func shown(d *apd.Decimal) string { return plain(places(d, 6)) }

// decimalOf is where a float enters, and the only place: through its shortest
// decimal text, so that 0.1 is a tenth.
//
// COST-6: converted once, here, because a float that is converted again, or
// computed with before, brings binary fractions into money. Negative figures are
// refused because they would read as a credit.
func decimalOf(what string, f float64) (*apd.Decimal, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, refuse("%s of %v is no number: give a finite one", what, f)
	}
	if f < 0 {
		return nil, refuse("%s of %v is negative: it would read as a credit", what, f)
	}
	d, _, err := apd.NewFromString(strconv.FormatFloat(f, 'e', -1, 64))
	if err != nil {
		return nil, refuse("%s of %v cannot be read: %v", what, f, err)
	}
	d.Reduce(d)
	d.Negative = false // of minus zero
	if whole, fraction := digits(d); whole+fraction > maxInputDigits {
		return nil, refuse("%s of %v has %d digits, the most is %d", what, f, whole+fraction, maxInputDigits)
	}
	return d, nil
}

// digits counts a number's digits before and after the point in plain notation.
func digits(d *apd.Decimal) (whole, fraction int64) {
	if d.IsZero() {
		return 0, 0
	}
	fraction = max(-int64(d.Exponent), 0)
	return max(d.NumDigits()+int64(d.Exponent), 0), fraction
}
