package cost_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"microvms/client/cost"
)

var lines = []cost.Line{cost.LineVCPU, cost.LineMemory, cost.LineSnapshotStorage, cost.LineSnapshotRead, cost.LineSnapshotWrite}

func rate(t tb, r *cost.RateTable, l cost.Line) string {
	t.Helper()
	d, err := r.Rate(l)
	if err != nil {
		t.Fatal(err)
	}
	return d.Decimal().Text('f')
}

// TestPinnedRates pins the table of client facts, section 12.1.
func TestPinnedRates(t *testing.T) {
	r := cost.Pinned()
	if r.Region() != "us-east-1" || r.Retrieved().String() != "2026-08-07" || r.SourceURL() != "https://aws.amazon.com/lambda/pricing/" {
		t.Errorf("%s, %s, %s", r.Region(), r.Retrieved(), r.SourceURL())
	}
	for i, want := range []string{"0.0000276944", "0.0000036667", "0.0811111030", "0.00155", "0.0038"} {
		if got := rate(t, r, lines[i]); got != want {
			t.Errorf("%s: %s, want %s", lines[i], got, want)
		}
	}
	if _, err := r.Rate("x86"); !errors.Is(err, cost.ErrInvalid) {
		t.Errorf("x86: %v", err)
	}
	if cost.RetentionSeconds != 604800 || cost.SecondsPerMonth != 2628000 || cost.StaleAfterDays != 90 {
		t.Error("a constant of the price list has changed")
	}
}

// TestStaleRatesSayIt crosses the window by a day, and looks for the warning in
// every form of every report.
func TestStaleRatesSayIt(t *testing.T) {
	t.Attr("requirement", "COST-7")
	const want = "the us-east-1 rates were retrieved on 2026-08-07, 91 days ago, which is more than 90: compare them with https://aws.amazon.com/lambda/pricing/"
	for today, stale := range map[string]bool{"2026-08-06": false, "2026-08-07": false, "2026-11-05": false, "2026-11-06": true} {
		report, err := cost.Estimate(cost.Pinned(), cost.Plan{Label: "plan", Size: size(t, 512), RunningSec: 1}, day(t, today))
		if err != nil {
			t.Fatal(err)
		}
		comparison, err := cost.Compare(cost.Pinned(), size(t, 512), 60, 1, day(t, today))
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		if err := comparison.HTML(&page); err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{"report": report.Staleness(), "text": report.Text(), "json": encoded(t, report),
			"comparison": comparison.Text(), "comparison json": encoded(t, comparison), "page": page.String(),
			"dense": strings.Replace(report.Dense(), "\tstale", want, 1), "comparison dense": strings.Replace(comparison.Dense(), "\tstale", want, 1)} {
			if strings.Contains(text, want) != stale {
				t.Errorf("%s, %s: stale is %t, and the text is\n%s", today, form, stale, text)
			}
		}
	}
}

// TestCatalogGivesRates reads the rates from where they stand, and the retention
// minimum from nowhere but the constant.
func TestCatalogGivesRates(t *testing.T) {
	t.Attr("requirement", "COST-9")
	c := catalog(t, "0.01", "0.02", "0.03", "0.04", "0.05")
	slices.Reverse(c.Entries) // their order means nothing
	c.Entries = append(c.Entries, cost.CatalogEntry{Group: "AWS-Lambda-Requests", Unit: "Requests", USD: "0.0000002"})
	r, err := cost.FromCatalog(c)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0.01", "0.02", "21.90", "0.04", "0.05"} {
		if got := rate(t, r, lines[i]); got != want {
			t.Errorf("%s: %s, want %s", lines[i], got, want)
		}
	}
	if r.Region() != "test-1" || r.Retrieved() != day(t, "2026-08-01") || r.SourceURL() != "https://prices.test/" {
		t.Errorf("%s, %s, %s", r.Region(), r.Retrieved(), r.SourceURL())
	}
	pinned := rates(t, "0.0000276944", "0.0000036667", "0.0001111111", "0.00155", "0.0038")
	for _, l := range lines {
		if got, want := rate(t, pinned, l), rate(t, cost.Pinned(), l); rat(t, got).Cmp(rat(t, want)) != 0 {
			t.Errorf("%s: %s from a catalog, %s pinned", l, got, want)
		}
	}
}

const (
	armCPU, x86CPU = "AWS-Lambda-MicroVM-vCPU-Second-ARM", "AWS-Lambda-MicroVM-vCPU-Second"
	armMemory      = "AWS-Lambda-MicroVM-Memory-GB-Second-ARM"
	storageHour    = "AWS-Lambda-MicroVM-Snapshot-Storage-GB-Hour"
	readGB         = "AWS-Lambda-MicroVM-Snapshot-Read-GB"
)

// TestCatalogIsRefusedWhole walks through the refusals. None gives a table.
func TestCatalogIsRefusedWhole(t *testing.T) {
	t.Attr("requirement", "COST-9")
	drop := func(groups ...string) func(*cost.Catalog) {
		return func(c *cost.Catalog) {
			c.Entries = slices.DeleteFunc(c.Entries, func(e cost.CatalogEntry) bool { return slices.Contains(groups, e.Group) })
		}
	}
	edit := func(group string, f func(*cost.CatalogEntry)) func(*cost.Catalog) {
		return func(c *cost.Catalog) {
			f(&c.Entries[slices.IndexFunc(c.Entries, func(e cost.CatalogEntry) bool { return e.Group == group })])
		}
	}
	usd := func(text string) func(*cost.CatalogEntry) { return func(e *cost.CatalogEntry) { e.USD = text } }
	for name, tc := range map[string]struct {
		edit func(*cost.Catalog)
		want string
	}{
		"empty":           {func(c *cost.Catalog) { c.Entries = nil }, `the catalog of region "test-1" is empty: check the region`},
		"arm cpu missing": {drop(armCPU), `"` + armCPU + `" is missing; the x86 rate "0.0000326557" of ` + x86CPU + ` is there and is not used: it is roughly 18% higher`},
		"arm memory":      {drop(armMemory), `the x86 rate "0.0000043235" of AWS-Lambda-MicroVM-Memory-GB-Second is there and is not used`},
		"no sibling":      {drop(armCPU, x86CPU), `"` + armCPU + `" is missing: the catalog is not of this service`},
		"storage missing": {drop(storageHour), `"` + storageHour + `" is missing: `},
		"unit restated":   {edit(storageHour, func(e *cost.CatalogEntry) { e.Unit = "GB-Mo" }), `"` + storageHour + `" is priced per "GB-Mo", known is "GB-Hours"`},
		"two products":    {func(c *cost.Catalog) { c.Entries = append(c.Entries, c.Entries[5]) }, `"` + readGB + `" is offered by 2 products`},
		"zero price":      {edit(readGB, usd("0")), `has the price "0", which is no number above zero`},
		"negative price":  {edit(readGB, usd("-1")), `has the price "-1"`},
		"no price":        {edit(readGB, usd("")), `has the price ""`},
		"infinite price":  {edit(readGB, usd("Infinity")), `has the price "Infinity"`},
		"no number":       {edit(readGB, usd("NaN")), `has the price "NaN"`},
		"long price":      {edit(readGB, usd("0."+strings.Repeat("1", 29))), "has a price of 29 digits, the most is 28"},
		"no region":       {func(c *cost.Catalog) { c.Region = "" }, `region "" is no region`},
		"bad region":      {func(c *cost.Catalog) { c.Region = "a\nb" }, `region "a\nb" is no region`},
		"no source":       {func(c *cost.Catalog) { c.SourceURL = "" }, `source "" is no https address`},
		"bad source":      {func(c *cost.Catalog) { c.SourceURL = "javascript:x" }, `is no https address`},
		"no date":         {func(c *cost.Catalog) { c.Retrieved = cost.Date{} }, "does not say when it was retrieved"},
	} {
		c := catalog(t, "0.01", "0.02", "0.03", "0.04", "0.05")
		tc.edit(&c)
		r, err := cost.FromCatalog(c)
		if r != nil || !errors.Is(err, cost.ErrInvalid) || !has(err, tc.want) {
			t.Errorf("%s: %v, %v; want %q", name, r, err, tc.want)
		}
	}
}

// TestDatesAreReal compares with the calendar of the standard library.
func TestDatesAreReal(t *testing.T) {
	for _, bad := range []string{"2026-02-30", "2026-02-29", "2100-02-29", "2026-00-01", "2026-13-01", "2026-04-31", "2026-01-00", "0000-01-01", "2026-8-7",
		"2026-08-07 ", "26-08-07", "", "2026/08/07", "+026-08-07", "-001-01-01"} {
		if d, err := cost.ParseDate(bad); !errors.Is(err, cost.ErrInvalid) || !d.IsZero() {
			t.Errorf("%q: %v, %v", bad, d, err)
		}
	}
	for _, leap := range []string{"2024-02-29", "2000-02-29"} {
		if d := day(t, leap); d.String() != leap {
			t.Errorf("%s came back as %s", leap, d)
		}
	}
	if d := cost.DateOf(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)); !d.IsZero() {
		t.Errorf("the year 12000 is %s", d)
	}
	// The age is seen through the staleness: exactly the days past the window.
	rapid.Check(t, func(t *rapid.T) {
		read := time.Unix(rapid.Int64Range(-60000000000, 240000000000).Draw(t, "read"), 0).UTC()
		age := rapid.IntRange(0, 4000).Draw(t, "age")
		c := catalog(t, "1", "1", "1", "1", "1")
		c.Retrieved = cost.DateOf(read)
		r, err := cost.FromCatalog(c)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Staleness(cost.DateOf(read.AddDate(0, 0, age)))
		if (got != "") != (age > 90) || age > 90 && !strings.Contains(got, " "+itoa(age)+" days ago") {
			t.Fatalf("%d days after %s: %q", age, read, got)
		}
	})
}
