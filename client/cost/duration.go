package cost

import (
	"fmt"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// Provenance says where a duration comes from.
type Provenance string

// The provenances. There is no third.
const (
	FromMeasurement Provenance = "measured"
	FromProjection  Provenance = "projected"
)

// Duration is a length of time with its provenance. It is made by [Measured] and
// [Projected] only; nil is the absence of a duration, not a length of zero.
//
// COST-1: a sealed interface with two constructors, because a duration without a
// label would let a plan pass for a bill. A type of another package that gets
// past the seal by embedding a Duration is refused where it is used.
//
// BIND-5: a bare number or a time.Duration is no Duration, and does not compile.
type Duration interface {
	// Provenance says whether the duration was measured or projected.
	Provenance() Provenance
	// Seconds is the exact length as decimal text.
	Seconds() string
	length() *apd.Decimal
}

type measured struct{ s *apd.Decimal }
type projected struct{ s *apd.Decimal }

func (d measured) Provenance() Provenance  { return FromMeasurement }
func (d measured) Seconds() string         { return plain(d.s) }
func (d measured) String() string          { return d.Seconds() + " s measured" }
func (d measured) length() *apd.Decimal    { return d.s }
func (d projected) Provenance() Provenance { return FromProjection }
func (d projected) Seconds() string        { return plain(d.s) }
func (d projected) String() string         { return d.Seconds() + " s projected" }
func (d projected) length() *apd.Decimal   { return d.s }

// Measured labels a length of time that a clock measured. A negative one matches
// [ErrInvalid].
func Measured(d time.Duration) (Duration, error) {
	s, err := seconds(d)
	if err != nil {
		return nil, err
	}
	return measured{s}, nil
}

// Projected labels a length of time that somebody assumes. A negative one matches
// [ErrInvalid].
func Projected(d time.Duration) (Duration, error) {
	s, err := seconds(d)
	if err != nil {
		return nil, err
	}
	return projected{s}, nil
}

// seconds is exact: whole seconds and billionths.
func seconds(d time.Duration) (*apd.Decimal, error) {
	if d < 0 {
		return nil, refuse("duration of %v is negative: it would read as a credit", d)
	}
	return apd.New(int64(d), -9), nil
}

// known refuses a Duration that this package did not make.
func known(what string, d Duration) error {
	switch d.(type) {
	case nil, measured, projected:
		return nil
	}
	return refuse("the %s duration is a %T, made neither by Measured nor by Projected", what, d)
}

// inWords shows whole seconds in the two largest units that are not zero.
func inWords(s *apd.Decimal) string {
	whole, err := places(s, 0).Int64()
	if err != nil {
		return shown(s) + " s"
	}
	units := []struct {
		name    string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}}
	for i, u := range units {
		if whole < u.seconds {
			continue
		}
		text := fmt.Sprintf("%d %s", whole/u.seconds, u.name)
		if rest := whole % u.seconds; i+1 < len(units) && rest/units[i+1].seconds > 0 {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].seconds, units[i+1].name)
		}
		return text
	}
	return shown(s) + " s"
}
