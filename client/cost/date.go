package cost

import (
	"fmt"
	"time"
)

// Date is a day of the Gregorian calendar. The zero value is no day.
type Date struct{ year, month, day int }

// NewDate checks a day against the real length of its month; a day that does not
// exist, such as 2026-02-30, matches [ErrInvalid]. Years are 1 to 9999.
func NewDate(year, month, day int) (Date, error) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return Date{}, refuse("%04d-%02d-%02d is no day of the calendar", year, month, day)
	}
	return Date{year, month, day}, nil
}

// ParseDate reads "2026-08-07".
func ParseDate(text string) (Date, error) {
	var year, month, day int
	if n, err := fmt.Sscanf(text, "%04d-%02d-%02d", &year, &month, &day); err != nil || n != 3 || fmt.Sprintf("%04d-%02d-%02d", year, month, day) != text {
		return Date{}, refuse("cannot read a date from %q: write it as 2026-08-07", text)
	}
	return NewDate(year, month, day)
}

// DateOf is the day of t in UTC; a year outside 1 to 9999 is no day.
func DateOf(t time.Time) Date {
	year, month, day := t.UTC().Date()
	d, err := NewDate(year, int(month), day)
	if err != nil {
		return Date{}
	}
	return d
}

// IsZero reports whether d is no day.
func (d Date) IsZero() bool { return d == Date{} }

// String is the date as 2026-08-07.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day) }

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// epochOffset is the number of days from 0000-03-01 to 1970-01-01.
const epochOffset = 719468

// dayNumber counts days since 1970-01-01. Years begin in March here, so that the
// leap day is a year's last, in eras of 400 years, which all have 146097 days
// (client facts, section 12.2).
func (d Date) dayNumber() int {
	year, month := d.year, d.month-3
	if d.month < 3 {
		year, month = d.year-1, d.month+9
	}
	era, ofEra := year/400, year%400
	ofYear := (153*month+2)/5 + d.day - 1
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - epochOffset
}
