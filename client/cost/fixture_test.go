package cost_test

import (
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"microvms/client/cost"
	"microvms/client/sizing"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s has changed (-want +got):\n%s", path, diff)
	}
}

// tb is what tests and property tests share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func day(t tb, text string) cost.Date {
	t.Helper()
	d, err := cost.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fresh is a day on which the pinned rates are not stale.
func fresh(t tb) cost.Date { return day(t, "2026-08-08") }

func size(t tb, mib int) sizing.Class {
	t.Helper()
	c, err := sizing.Lookup(sizing.Published(), mib)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// uneven is a class whose peak is not four times its baseline.
func uneven(t tb) sizing.Class {
	t.Helper()
	table, err := sizing.NewTable(1000, sizing.Row{BaselineMiB: 1000, BaselineMilliVCPU: 300, PeakMiB: 9000, PeakMilliVCPU: 7000})
	if err != nil {
		t.Fatal(err)
	}
	c, err := sizing.Lookup(table, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dollars(t tb, text string) cost.Dollars {
	t.Helper()
	d, err := cost.ParseDollars(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func measured(t tb, d time.Duration) cost.Duration {
	t.Helper()
	m, err := cost.Measured(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func projected(t tb, d time.Duration) cost.Duration {
	t.Helper()
	p, err := cost.Projected(d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rat is a decimal text as an exact fraction, for oracles that share no arithmetic
// with the package.
func rat(t tb, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return r
}

func ratOf(t tb, d cost.Dollars) *big.Rat { return rat(t, d.Decimal().Text('f')) }

// floorOf is what a total is at least.
func floorOf(total cost.Total) cost.Dollars {
	switch total := total.(type) {
	case cost.Exact:
		return total.USD()
	case cost.AtLeast:
		return total.Floor()
	}
	panic("a total of unknown kind")
}

func has(err error, words string) bool { return err != nil && strings.Contains(err.Error(), words) }

// catalog is a complete one with the given prices: vCPU-second, GB-second, GB-hour,
// GB read, GB written.
func catalog(t tb, prices ...string) cost.Catalog {
	return cost.Catalog{Region: "test-1", SourceURL: "https://prices.test/", Retrieved: day(t, "2026-08-01"), Entries: []cost.CatalogEntry{
		{"AWS-Lambda-MicroVM-vCPU-Second", "vCPU-Seconds", "0.0000326557"},
		{"AWS-Lambda-MicroVM-vCPU-Second-ARM", "vCPU-Seconds", prices[0]},
		{"AWS-Lambda-MicroVM-Memory-GB-Second", "GB-Seconds", "0.0000043235"},
		{"AWS-Lambda-MicroVM-Memory-GB-Second-ARM", "GB-Seconds", prices[1]},
		{"AWS-Lambda-MicroVM-Snapshot-Storage-GB-Hour", "GB-Hours", prices[2]},
		{"AWS-Lambda-MicroVM-Snapshot-Read-GB", "GB", prices[3]},
		{"AWS-Lambda-MicroVM-Snapshot-Write-GB", "GB", prices[4]},
	}}
}

func rates(t tb, prices ...string) *cost.RateTable {
	t.Helper()
	r, err := cost.FromCatalog(catalog(t, prices...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// price draws a price of up to ten digits and up to the given power of ten.
func price(t *rapid.T, name string, low, high int) string {
	return apd.New(rapid.Int64Range(1, 1e10).Draw(t, name), int32(rapid.IntRange(low, high).Draw(t, name+" exponent")-10)).Text('f')
}

// someRates draws a rate table whose proportions vary over many powers of ten, or
// the pinned one.
func someRates(t *rapid.T) *cost.RateTable {
	if rapid.Bool().Draw(t, "pinned") {
		return cost.Pinned()
	}
	return rates(t, price(t, "vcpu", -7, -2), price(t, "memory", -7, -2), price(t, "storage", -7, 1), price(t, "read", -5, 4), price(t, "write", -5, 4))
}

func someSize(t *rapid.T) sizing.Class {
	return rapid.SampledFrom(sizing.Classes(sizing.Published())).Draw(t, "size")
}

// someDuration draws no duration, a short or a long one, of either provenance.
func someDuration(t *rapid.T, name string) cost.Duration {
	d := time.Duration(rapid.OneOf(rapid.Int64Range(0, 1e10), rapid.Int64Range(0, 1e17)).Draw(t, name))
	switch rapid.IntRange(0, 2).Draw(t, name+" provenance") {
	case 0:
		return nil
	case 1:
		return measured(t, d)
	}
	return projected(t, d)
}

// someSizeGB draws no size or a size.
func someSizeGB(t *rapid.T, name string) cost.GB {
	if rapid.Bool().Draw(t, name+" absent") {
		return cost.GB{}
	}
	gb, err := cost.GBOf(rapid.Float64Range(0.000001, 1000).Draw(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return gb
}

// someUsage draws usage with any of its parts.
func someUsage(t *rapid.T) cost.Usage {
	return cost.Usage{Label: "usage", Size: someSize(t), Build: someDuration(t, "build"), Image: someSizeGB(t, "image"),
		ImageRetained: someDuration(t, "retained"), Launched: rapid.Bool().Draw(t, "launched"), Running: someDuration(t, "running"),
		Suspended: someDuration(t, "suspended"), Snapshot: someSizeGB(t, "snapshot"), Cycles: rapid.IntRange(0, 1000).Draw(t, "cycles")}
}

func someReport(t *rapid.T) *cost.Report {
	r, err := cost.Price(someRates(t), someUsage(t), rapid.SampledFrom([]cost.Date{fresh(t), day(t, "2027-01-01")}).Draw(t, "today"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
