package cost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/types"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"

	"microvms/client/cost"
)

// exported calls f for each exported function and method of the package.
func exported(t *testing.T, f func(name string, sig *types.Signature)) {
	t.Helper()
	pkg, err := checked().Import("microvms/client/cost")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if o.Exported() {
				f(name, o.Type().(*types.Signature))
			}
		case *types.TypeName:
			set := types.NewMethodSet(types.NewPointer(o.Type()))
			if types.IsInterface(o.Type()) {
				set = types.NewMethodSet(o.Type())
			}
			for m := range set.Methods() {
				if o.Exported() && m.Obj().Exported() {
					f(name+"."+m.Obj().Name(), m.Type().(*types.Signature))
				}
			}
		}
	}
}

// makers lists the exported functions with a result of the given kind.
func makers(t *testing.T, kind func(types.Type) bool) []string {
	t.Helper()
	var found []string
	exported(t, func(name string, sig *types.Signature) {
		for v := range sig.Results().Variables() {
			if kind(v.Type()) {
				found = append(found, name)
			}
		}
	})
	slices.Sort(found)
	return slices.Compact(found)
}

func named(name string) func(types.Type) bool {
	return func(t types.Type) bool { return strings.TrimPrefix(t.String(), "*") == "microvms/client/cost."+name }
}

func isFloat(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsFloat != 0
}

// TestDurationsHaveTwoConstructors reads the package's API: whatever returns a
// Duration labels it.
func TestDurationsHaveTwoConstructors(t *testing.T) {
	t.Attr("requirement", "COST-1")
	if got := makers(t, named("Duration")); fmt.Sprint(got) != "[Measured Projected]" {
		t.Errorf("durations come from %v", got)
	}
	for d, want := range map[cost.Duration]string{measured(t, 90*time.Second): "90 s measured", projected(t, 1500*time.Millisecond): "1.5 s projected",
		measured(t, 0): "0 s measured", projected(t, math.MaxInt64): "9223372036.854775807 s projected"} {
		if fmt.Sprint(d) != want || d.Seconds()+" s "+string(d.Provenance()) != want {
			t.Errorf("%v, want %s", d, want)
		}
	}
	for _, f := range []func(time.Duration) (cost.Duration, error){cost.Measured, cost.Projected} {
		if d, err := f(-1); !errors.Is(err, cost.ErrInvalid) || d != nil {
			t.Errorf("a negative duration is %v, %v", d, err)
		}
	}
}

// TestResultsHaveOneSource reads the package's API: rates are pinned or from a
// catalog, totals are sums of lines, and reports are priced.
func TestResultsHaveOneSource(t *testing.T) {
	t.Attr("requirement", "COST-4")
	for kind, want := range map[string]string{"RateTable": "[FromCatalog Pinned Report.Rates]", "Total": "[Report.Total Sum]", "Exact": "[]", "AtLeast": "[]",
		"Report": "[Comparison.Running Comparison.Suspended Estimate Price]", "Comparison": "[Compare]", "Unpriced": "[NewUnpriced]", "Estimated": "[NewEstimated]"} {
		if got := fmt.Sprint(makers(t, named(kind))); got != want {
			t.Errorf("%s comes from %s, want %s", kind, got, want)
		}
	}
}

// disguised gets past the seal by embedding and then lies about its label.
type disguised struct{ cost.Duration }

func (disguised) Provenance() cost.Provenance { return cost.FromMeasurement }

// TestDisguisedDurationsAreRefused covers what the compiler cannot refuse.
func TestDisguisedDurationsAreRefused(t *testing.T) {
	t.Attr("requirement", "COST-1")
	for _, d := range []cost.Duration{disguised{projected(t, time.Hour)}, disguised{}} {
		for what, u := range map[string]cost.Usage{"build": {Build: d}, "image": {ImageRetained: d}, "running": {Running: d}, "suspended": {Suspended: d}} {
			u.Size = size(t, 512)
			_, err := cost.Price(cost.Pinned(), u, fresh(t))
			if !errors.Is(err, cost.ErrInvalid) || !has(err, "the "+what+" duration is a cost_test.disguised") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestDollarsLeaveByOneAccessor reads the package's API: no float comes out of it,
// and the number of dollars only by name.
func TestDollarsLeaveByOneAccessor(t *testing.T) {
	t.Attr("requirement", "COST-2")
	if got := makers(t, isFloat); len(got) > 0 {
		t.Errorf("floats come from %v", got)
	}
	if got := makers(t, func(t types.Type) bool { return strings.Contains(t.String(), "cockroachdb/apd") }); fmt.Sprint(got) != "[Dollars.Decimal]" {
		t.Errorf("decimals come from %v", got)
	}
	var methods []string
	exported(t, func(name string, _ *types.Signature) {
		if strings.HasPrefix(name, "Dollars.") {
			methods = append(methods, name)
		}
	})
	if slices.Sort(methods); fmt.Sprint(methods) != "[Dollars.Add Dollars.Cmp Dollars.Decimal Dollars.MarshalJSON Dollars.String]" {
		t.Errorf("dollars have %v", methods)
	}
	d := dollars(t, "1.5")
	d.Decimal().SetInt64(7) // a copy
	if d.Decimal().Text('f') != "1.5" || d.Cmp(dollars(t, "1.50")) != 0 {
		t.Errorf("the accessor gave the inside away: %s", d.Decimal())
	}
}

func TestDollars(t *testing.T) {
	var zero cost.Dollars
	for text, want := range map[string]string{"0": "~$0.000000 (estimated)", "0.9999999": "~$1.000000 (estimated)", "1": "~$1.00 (estimated)",
		"92.0529384": "~$92.05 (estimated)", "1.005": "~$1.00 (estimated)", "1.015": "~$1.02 (estimated)", "0.0000005": "~$0.000000 (estimated)",
		"0.0373333296": "~$0.037333 (estimated)", "-0": "~$0.000000 (estimated)"} {
		if got := zero.Add(dollars(t, text)).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
	for _, bad := range []string{"-1", "NaN", "Infinity", "-Infinity", "", "1,5", "$1", "1e128", "1e-129"} {
		if _, err := cost.ParseDollars(bad); !errors.Is(err, cost.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := cost.DollarsOf(nil); !errors.Is(err, cost.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
	if _, err := cost.DollarsOf(apd.New(1, -128)); err != nil {
		t.Error(err)
	}
	if text, err := json.Marshal(dollars(t, "0.10")); err != nil || string(text) != `"0.1"` {
		t.Errorf("%s, %v", text, err)
	}
}

// someItem draws a line that is priced, unpriced, or without an amount.
func someItem(t *rapid.T, name string) cost.Item {
	item := cost.Item{Phase: rapid.SampledFrom([]cost.Phase{cost.PhaseImageBuild, cost.PhaseRunning, cost.PhaseSuspend}).Draw(t, name+" phase")}
	switch rapid.IntRange(0, 4).Draw(t, name+" kind") {
	case 0:
		item.Amount = cost.NewUnpriced(rapid.SampledFrom([]string{"", " ", "nobody knows"}).Draw(t, name+" reason"))
	case 1:
	default:
		item.Amount = cost.NewEstimated(dollars(t, apd.New(rapid.Int64Min(0).Draw(t, name), int32(rapid.IntRange(-40, 10).Draw(t, name+" exponent"))).Text('f')))
	}
	return item
}

// TestTotalsNeverShrink adds a line to any lines: the floor does not fall, a lower
// bound stays one, and what was left out is still named.
func TestTotalsNeverShrink(t *testing.T) {
	t.Attr("requirement", "COST-4")
	rapid.Check(t, func(t *rapid.T) {
		var items []cost.Item
		for i := range rapid.IntRange(0, 8).Draw(t, "lines") {
			items = append(items, someItem(t, fmt.Sprint("line ", i)))
		}
		added := someItem(t, "added")
		before, after := cost.Sum(items), cost.Sum(append(slices.Clone(items), added))
		if floorOf(after).Cmp(floorOf(before)) < 0 {
			t.Fatalf("%s fell to %s", before, after)
		}
		unpriced := 0
		for _, item := range append(items, added) {
			if _, ok := item.Amount.(cost.Estimated); !ok {
				unpriced++
			}
		}
		switch after := after.(type) {
		case cost.Exact:
			if unpriced > 0 {
				t.Fatalf("%d lines are unpriced, and the total is exact: %s", unpriced, after)
			}
		case cost.AtLeast:
			if unpriced != len(after.Unpriced()) || unpriced == 0 || !strings.HasPrefix(after.String(), "at least ~$") {
				t.Fatalf("%d lines are unpriced, and the total is %s", unpriced, after)
			}
			for _, o := range after.Unpriced() {
				if o.Reason == "" || !strings.Contains(after.String(), string(o.Phase)) {
					t.Fatalf("%+v is not named in %s", o, after)
				}
			}
		}
	})
}

// foreign is an amount that another package smuggles in.
type foreign struct{ cost.Estimated }

// TestLowerBoundNamesItsGaps holds the words of a lower bound: phases sorted, each
// once.
func TestLowerBoundNamesItsGaps(t *testing.T) {
	t.Attr("requirement", "COST-4")
	one := cost.Item{Phase: cost.PhaseRunning, Amount: cost.NewEstimated(dollars(t, "1.25"))}
	none := func(p cost.Phase) cost.Item { return cost.Item{Phase: p, Amount: cost.NewUnpriced("nobody knows")} }
	total := cost.Sum([]cost.Item{none(cost.PhaseSuspend), one, none(cost.PhaseImageBuild), one, none(cost.PhaseSuspend), {Phase: cost.PhaseLaunch}})
	if got, want := total.String(), "at least ~$2.50 (estimated), plus 4 unpriced (image-build, launch, suspend)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := cost.Sum([]cost.Item{one, {Phase: cost.PhaseResume, Amount: foreign{}}}).String(); got != "at least ~$1.25 (estimated), plus 1 unpriced (resume)" {
		t.Errorf("an unknown kind of amount: %s", got)
	}
	if got := cost.Sum(nil).String(); got != "~$0.000000 (estimated)" {
		t.Errorf("nothing costs %s", got)
	}
}

// TestUnpricedIsNoZero holds an unpriced amount apart from zero in each of its
// forms.
func TestUnpricedIsNoZero(t *testing.T) {
	t.Attr("requirement", "COST-3")
	t.Attr("requirement", "BIND-5")
	for _, u := range []cost.Unpriced{cost.NewUnpriced("nobody knows"), cost.NewUnpriced(""), {}} {
		text, err := json.Marshal(u)
		if err != nil || u.Reason() == "" {
			t.Fatalf("%q, %v", u.Reason(), err)
		}
		var read struct {
			USD *string `json:"usd"`
		}
		if err := json.Unmarshal(text, &read); err != nil || read.USD != nil || strings.Contains(string(text), "usd") {
			t.Errorf("%s reads as %v, %v", text, read.USD, err)
		}
		if want := "unpriced: " + u.Reason(); u.String() != want || strings.ContainsAny(u.String(), "$0") {
			t.Errorf("%s, want %s", u, want)
		}
	}
	zero, err := json.Marshal(cost.Estimated{})
	if err != nil || string(zero) != `{"kind":"estimated-usd","usd":"0"}` {
		t.Errorf("%s, %v", zero, err)
	}
}

// TestJudge has a third answer: a lower bound under the limit decides nothing.
func TestJudge(t *testing.T) {
	one := cost.Item{Amount: cost.NewEstimated(dollars(t, "1"))}
	for name, tc := range map[string]struct {
		items []cost.Item
		limit string
		want  cost.Verdict
	}{
		"within": {[]cost.Item{one}, "1", cost.Within}, "over": {[]cost.Item{one}, "0.999", cost.Over},
		"bound over": {[]cost.Item{one, {}}, "0.5", cost.Over}, "bound under": {[]cost.Item{one, {}}, "100", cost.Undetermined},
	} {
		if got := cost.Judge(cost.Sum(tc.items), dollars(t, tc.limit)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
