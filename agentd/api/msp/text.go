package msp

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Duration is a span in whole milliseconds, from 0 to 2^64-1. As text it is
// decimal digits with an optional fraction and one of the units ms, s, m and h;
// what is below a millisecond is dropped (manager facts, section 2.7).
type Duration uint64

// DurationOf is d in milliseconds, rounded down; a negative d is 0.
func DurationOf(d time.Duration) Duration { return Duration(max(d, 0).Milliseconds()) }

// Std is the span as a time.Duration, at most the largest of those.
func (d Duration) Std() time.Duration {
	if uint64(d) > math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(d) * time.Millisecond
}

// String is the span in milliseconds.
func (d Duration) String() string { return fmt.Sprintf("%dms", uint64(d)) }

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDuration].
func (d *Duration) UnmarshalText(text []byte) error {
	got, err := ParseDuration(string(text))
	if err == nil {
		*d = got
	}
	return err
}

const maxFractionDigits = 38

// ParseDuration reads a span.
func ParseDuration(text string) (Duration, error) {
	bad := fmt.Errorf("cannot read a duration: want digits, an optional fraction, and ms, s, m or h, such as 1.5s")
	// CALLDATA-14: the unit is the rest after the digits, with nothing between.
	at := strings.IndexFunc(text, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	if at < 0 {
		return 0, bad
	}
	unit, ok := map[string]uint64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}[text[at:]]
	if !ok {
		return 0, bad
	}
	whole, fraction, point := strings.Cut(text[:at], ".")
	if (whole == "" && fraction == "") || (point && fraction == "") || strings.Contains(fraction, ".") || len(fraction) > maxFractionDigits {
		return 0, bad
	}
	var n uint64
	for _, c := range []byte(whole) {
		high, low := bits.Mul64(n, 10)
		sum, carry := bits.Add64(low, uint64(c-'0'), 0)
		if high|carry != 0 {
			return 0, fmt.Errorf("cannot read a duration: more than 2^64-1 ms")
		}
		n = sum
	}
	high, ms := bits.Mul64(n, unit)
	sum, carry := bits.Add64(ms, partOf(fraction, unit), 0)
	if high|carry != 0 {
		return 0, fmt.Errorf("cannot read a duration: more than 2^64-1 ms")
	}
	return Duration(sum), nil
}

// partOf is 0.fraction times unit, rounded down. From the last digit to the
// first: each step keeps the quotient, and the remainder cannot bring the
// result to the next integer, because it is below one unit of the digit.
func partOf(fraction string, unit uint64) uint64 {
	// Long multiplication of the digits by unit: the carry out of the first
	// digit is the integer part.
	var carry uint64
	for i := len(fraction) - 1; i >= 0; i-- {
		carry = (uint64(fraction[i]-'0')*unit + carry) / 10
	}
	return carry
}

// Timestamp is a moment, in UTC and without a clock reading. Timestamps compare
// with ==. As text it is RFC 3339 with as many digits of the second's fraction
// as it needs, by threes.
type Timestamp struct{ t time.Time }

// At is the Timestamp of t. Years outside 0 to 9999 have no text.
func At(t time.Time) Timestamp { return Timestamp{t.UTC().Round(0)} }

// Time is the moment in UTC.
func (t Timestamp) Time() time.Time { return t.t.UTC() }

// DefaultDatetime is the datetime of a message that names none.
func DefaultDatetime() Timestamp {
	return At(time.Date(2024, 11, 26, 6, 42, 42, 424242000, time.UTC))
}

// String is the moment as text.
func (t Timestamp) String() string {
	// CALLDATA-15: the zone is dropped, and of the fraction no more than needed is written.
	u := t.t.UTC()
	layout := "2006-01-02T15:04:05Z"
	switch n := u.Nanosecond(); {
	case n == 0:
	case n%1_000_000 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	case n%1_000 == 0:
		layout = "2006-01-02T15:04:05.000000Z"
	default:
		layout = "2006-01-02T15:04:05.000000000Z"
	}
	return u.Format(layout)
}

// MarshalText is String.
func (t Timestamp) MarshalText() ([]byte, error) {
	if y := t.t.UTC().Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("cannot write a timestamp of the year %d", y)
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads RFC 3339 with any offset.
func (t *Timestamp) UnmarshalText(text []byte) error {
	got, err := ParseTimestamp(string(text))
	if err == nil {
		*t = got
	}
	return err
}

// ParseTimestamp reads RFC 3339 with any offset.
func ParseTimestamp(text string) (Timestamp, error) {
	bad := fmt.Errorf("cannot read a timestamp: want RFC 3339, such as 2026-01-01T00:00:00Z")
	// time.Parse alone takes a comma for the point, an hour of one digit, and
	// offsets of 24 hours or 60 minutes.
	if strings.ContainsRune(text, ',') || len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' {
		return Timestamp{}, bad
	}
	if zone := text[len(text)-5:]; zone[2] == ':' && (zone[:2] > "23" || zone[3:] > "59") && strings.ContainsAny(text[19:], "+-") {
		return Timestamp{}, bad
	}
	got, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		return Timestamp{}, bad
	}
	if y := got.UTC().Year(); y < 0 || y > 9999 {
		return Timestamp{}, bad
	}
	return At(got), nil
}
