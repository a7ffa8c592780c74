// Package sizing holds the size classes of a MicroVM and the rules for picking
// one (client facts, sections 3.1 and 5.2).
//
// A class is chosen by its baseline memory. Billing is on the baseline; the guest
// sees the peak from the start. The package does no I/O, and everything in it is
// safe for concurrent use.
package sizing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid matches every refusal of this package: the argument is wrong, and
// no call was made.
var ErrInvalid = errors.New("invalid argument")

// refusal is an error that matches ErrInvalid and says only its own words.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrInvalid }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Row is one size class as data. Memory is in MiB, processors in thousandths of
// a vCPU.
type Row struct {
	BaselineMiB, BaselineMilliVCPU int
	PeakMiB, PeakMilliVCPU         int
}

// published is the platform's present table (client facts, section 5.2). These
// twenty numbers stand here and nowhere else.
//
// TRAP-13: peaks are written out, because that they are four times the baselines
// is the table of today and no promise.
var published = []Row{
	{512, 250, 2048, 1000},
	{1024, 500, 4096, 2000},
	{2048, 1000, 8192, 4000},
	{4096, 2000, 16384, 8000},
	{8192, 4000, 32768, 16000},
}

// publishedDefaultMiB is the class of a launch that asks for none.
const publishedDefaultMiB = 2048

// Table is a set of size classes in ascending order. The zero value is empty and
// refuses every lookup.
type Table struct {
	rows     []Row
	standard int // index of the default class
}

// Published is the platform's present table. Its default class is 2048 MiB.
func Published() Table {
	t, err := NewTable(publishedDefaultMiB, published...)
	if err != nil {
		panic("sizing: internal error: " + err.Error())
	}
	return t
}

// NewTable makes a table of rows in ascending order of memory, processors not
// falling. The default class is the row with defaultMiB. A bad table matches
// [ErrInvalid].
func NewTable(defaultMiB int, rows ...Row) (Table, error) {
	t := Table{rows: slices.Clone(rows), standard: -1}
	for i, r := range rows {
		if r.BaselineMiB <= 0 || r.BaselineMilliVCPU <= 0 || r.PeakMiB < r.BaselineMiB || r.PeakMilliVCPU < r.BaselineMilliVCPU {
			return Table{}, refuse("cannot use size row %d: baselines must be above zero and peaks at least as large", i)
		}
		if i > 0 && (r.BaselineMiB <= rows[i-1].BaselineMiB || r.BaselineMilliVCPU < rows[i-1].BaselineMilliVCPU) {
			return Table{}, refuse("cannot use size row %d: rows must ascend", i)
		}
		if r.BaselineMiB == defaultMiB {
			t.standard = i
		}
	}
	if t.standard < 0 {
		return Table{}, refuse("cannot make a size table: no row has the default of %d MiB", defaultMiB)
	}
	return t, nil
}

// Class is one class of a table. It comes only from a lookup; the zero value is
// no class, see [Class.IsZero].
type Class struct{ row Row }

// IsZero reports whether c is no class at all.
func (c Class) IsZero() bool { return c.row == Row{} }

// BaselineMiB is the memory that is billed, in MiB.
func (c Class) BaselineMiB() int { return c.row.BaselineMiB }

// BaselineMilliVCPU is the processor share that is billed, in thousandths.
func (c Class) BaselineMilliVCPU() int { return c.row.BaselineMilliVCPU }

// PeakMiB is the memory that the guest sees, in MiB.
//
// TRAP-13: read from the row, never computed, because the proportion is the
// platform's to change.
func (c Class) PeakMiB() int { return c.row.PeakMiB }

// PeakMilliVCPU is the processor share that the guest may use, in thousandths.
func (c Class) PeakMilliVCPU() int { return c.row.PeakMilliVCPU }

// BaselineVCPU is the billed processor share as decimal text, for example "0.25".
func (c Class) BaselineVCPU() string { return vcpu(c.row.BaselineMilliVCPU) }

// PeakVCPU is the peak processor share as decimal text.
func (c Class) PeakVCPU() string { return vcpu(c.row.PeakMilliVCPU) }

// Describe names baseline and peak, because either alone misleads: the guest of
// a 2048 MiB class sees 8192 MiB.
func (c Class) Describe() string {
	return fmt.Sprintf("%d MiB baseline, %s vCPU (peak %d MiB, %s vCPU)", c.BaselineMiB(), c.BaselineVCPU(), c.PeakMiB(), c.PeakVCPU())
}

func vcpu(milli int) string {
	text := strconv.Itoa(milli / 1000)
	if rest := milli % 1000; rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", rest), "0")
	}
	return text
}

// Classes lists the classes of a table in ascending order; the slice is the
// caller's.
func Classes(t Table) []Class {
	classes := make([]Class, len(t.rows))
	for i, r := range t.rows {
		classes[i] = Class{r}
	}
	return classes
}

// Lookup finds the class with exactly this baseline. Another figure matches
// [ErrInvalid]; the message lists the baselines.
func Lookup(t Table, baselineMiB int) (Class, error) {
	for _, r := range t.rows {
		if r.BaselineMiB == baselineMiB {
			return Class{r}, nil
		}
	}
	// TRAP-10: refused and not rounded, because the two neighbours differ in
	// guest memory and in the billed rate, and only the caller knows which is meant.
	return Class{}, refuse("memory of %d MiB is no size class: take one of %s; a figure between two is not rounded, "+
		"because they differ in memory and in price", baselineMiB, t.baselines())
}

// Default is the class of a launch that asks for none.
func Default(t Table) (Class, error) {
	if len(t.rows) == 0 {
		return Class{}, refuse("cannot pick a size: the table is empty")
	}
	return Class{t.rows[t.standard]}, nil
}

// Request is what a caller needs at least: memory in MiB, processors in
// thousandths of a vCPU. Zero means that nothing is asked.
type Request struct{ MemoryMiB, MilliVCPU int }

// Choose picks the smallest class whose baseline covers the request, and the
// default class when nothing is asked. A request that is negative, or larger than
// every class, matches [ErrInvalid]; the message names the largest class.
func Choose(t Table, want Request) (Class, error) {
	if want.MemoryMiB < 0 || want.MilliVCPU < 0 {
		return Class{}, refuse("cannot pick a size for %d MiB and %s vCPU: neither is below zero", want.MemoryMiB, vcpu(want.MilliVCPU))
	}
	if want == (Request{}) {
		return Default(t)
	}
	for _, r := range t.rows {
		// BIND-14: both baselines must cover, because the peak is above-baseline
		// use, which is billed extra and not reserved.
		if r.BaselineMiB >= want.MemoryMiB && r.BaselineMilliVCPU >= want.MilliVCPU {
			return Class{r}, nil
		}
	}
	largest := "there is none"
	if n := len(t.rows); n > 0 {
		largest = "the largest is " + Class{t.rows[n-1]}.Describe()
	}
	return Class{}, refuse("no size class covers %d MiB and %s vCPU: %s", want.MemoryMiB, vcpu(want.MilliVCPU), largest)
}

func (t Table) baselines() string {
	all := make([]string, len(t.rows))
	for i, r := range t.rows {
		all[i] = strconv.Itoa(r.BaselineMiB)
	}
	return strings.Join(all, ", ")
}
