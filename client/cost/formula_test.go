package cost_test

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"microvms/client/cost"
	"microvms/client/sizing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func encoded(t tb, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// priced is the exact price of one line of a report.
func priced(t tb, r *cost.Report, p cost.Phase, l cost.Line) string {
	t.Helper()
	for _, item := range r.Items() {
		if a, ok := item.Amount.(cost.Estimated); ok && item.Phase == p && item.Line == l {
			return exact(a.USD())
		}
	}
	t.Fatalf("no line %s of %s in\n%s", l, p, r.Text())
	return ""
}

// exact is a price without trailing zeros.
func exact(d cost.Dollars) string {
	text := d.Decimal().Text('f')
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func compare(t tb, r *cost.RateTable, c sizing.Class, hold float64, cycles int) *cost.Comparison {
	t.Helper()
	out, err := cost.Compare(r, c, hold, cycles, fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWorkedNumbers are those of client facts, section 12.3.
func TestWorkedNumbers(t *testing.T) {
	t.Attr("requirement", "COST-5")
	t.Attr("requirement", "COST-8")
	for _, tc := range []struct {
		mib                                   int
		run, month, perCycle, floor, pastWeek string
	}{
		// st is shown by what a month costs: st × 2628000.
		{512, "0.00000875695", "0.0405555515", "0.002675", "0.0093333324", "0.0000000154320972"},
		{1024, "0.0000175139", "0.081111103", "0.00535", "0.0186666648", "0.0000000308641944"},
		{2048, "0.0000350278", "0.162222206", "0.0107", "0.0373333296", "0.0000000617283889"},
		{4096, "0.0000700556", "0.324444412", "0.0214", "0.0746666592", "0.0000001234567778"},
		{8192, "0.0001401112", "0.648888824", "0.0428", "0.1493333184", "0.0000002469135556"},
	} {
		second := compare(t, cost.Pinned(), size(t, tc.mib), 1, 1)
		if got := exact(floorOf(second.Running().Total())); got != tc.run {
			t.Errorf("%d: a second running costs %s, want %s", tc.mib, got, tc.run)
		}
		if got := priced(t, second.Suspended(), cost.PhaseSuspended, cost.LineSnapshotStorage); got != tc.floor {
			t.Errorf("%d: a second suspended stores for %s, want %s", tc.mib, got, tc.floor)
		}
		if got := exact(second.PerCycle()); got != tc.perCycle {
			t.Errorf("%d: a cycle costs %s, want %s", tc.mib, got, tc.perCycle)
		}
		month := compare(t, cost.Pinned(), size(t, tc.mib), cost.SecondsPerMonth, 0)
		if got := exact(floorOf(month.Suspended().Total())); got != tc.month {
			t.Errorf("%d: a month suspended costs %s, want %s", tc.mib, got, tc.month)
		}
		// One second past the week adds one second of storage.
		past := compare(t, cost.Pinned(), size(t, tc.mib), cost.RetentionSeconds+1, 0)
		gain := new(big.Rat).Sub(ratOf(t, floorOf(past.Suspended().Total())), rat(t, tc.floor))
		if got := gain.FloatString(16); got != tc.pastWeek {
			t.Errorf("%d: a second of storage costs %s, want %s", tc.mib, got, tc.pastWeek)
		}
		if got, ok := second.BreakEven(); !ok || got != "1371.291648" {
			t.Errorf("%d: break-even at %s", tc.mib, got)
		}
	}
	hour := compare(t, cost.Pinned(), size(t, 2048), 3600, 1)
	if got := exact(floorOf(hour.Running().Total())) + " " + exact(floorOf(hour.Suspended().Total())) + " " + hour.Ratio(); got != "0.12610008 0.0480333296 2.6253" {
		t.Errorf("an hour: %s", got)
	}
	if hour.Cheaper() != cost.StateSuspended || compare(t, cost.Pinned(), size(t, 2048), 1371, 1).Cheaper() != cost.StateRunning {
		t.Error("the wrong side of the break-even is cheaper")
	}
	if got := floorOf(compare(t, cost.Pinned(), size(t, 2048), cost.SecondsPerMonth, 0).Running().Total()).String(); got != "~$92.05 (estimated)" {
		t.Errorf("a month running: %s", got)
	}
}

// TestImageDeletedAtOnceCostsAWeek is the seed's "about four cents".
func TestImageDeletedAtOnceCostsAWeek(t *testing.T) {
	t.Attr("requirement", "COST-8")
	two, err := cost.GBOf(2)
	if err != nil {
		t.Fatal(err)
	}
	for kept, want := range map[time.Duration]string{0: "0.0373333296", time.Minute: "0.0373333296", 7 * 24 * time.Hour: "0.0373333296", 14 * 24 * time.Hour: "0.0746666592"} {
		r, err := cost.Price(cost.Pinned(), cost.Usage{Size: size(t, 512), Image: two, ImageRetained: measured(t, kept), Suspended: measured(t, kept), Snapshot: two}, fresh(t))
		if err != nil {
			t.Fatal(err)
		}
		noted := 0
		for _, item := range r.Items() {
			if item.Note == "billed for the 7-day minimum" {
				noted++
			}
		}
		for _, p := range []cost.Phase{cost.PhaseImageStorage, cost.PhaseSuspended} {
			if got := priced(t, r, p, cost.LineSnapshotStorage); got != want {
				t.Errorf("%s kept for %s costs %s, want %s", p, kept, got, want)
			}
		}
		if short := kept < 7*24*time.Hour; (noted == 2) != short || (noted == 0) == short {
			t.Errorf("kept for %s: %d notes", kept, noted)
		}
	}
}

// TestComputeIsOfTheBaseline uses a class whose peak is no multiple of it.
func TestComputeIsOfTheBaseline(t *testing.T) {
	t.Attr("requirement", "COST-5")
	r, err := cost.Price(rates(t, "1", "1024", "1", "1", "1"), cost.Usage{Size: uneven(t), Running: measured(t, 10*time.Second)}, fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := priced(t, r, cost.PhaseRunning, cost.LineVCPU) + " " + priced(t, r, cost.PhaseRunning, cost.LineMemory); got != "3 10000" {
		t.Errorf("compute costs %s, want 3 10000", got)
	}
	if len(r.Items()) != 2 {
		t.Errorf("%d compute lines, want 2", len(r.Items()))
	}
}

// world is a comparison's price functions as exact fractions, written from the
// rates alone.
type world struct{ run, stored, transfers, retention *big.Rat }

func newWorld(t tb, r *cost.RateTable, c sizing.Class, cycles int) world {
	of := func(l cost.Line) *big.Rat { return rat(t, rate(t, r, l)) }
	gb, cpu := big.NewRat(int64(c.BaselineMiB()), 1024), big.NewRat(int64(c.BaselineMilliVCPU()), 1000)
	run := new(big.Rat).Add(new(big.Rat).Mul(cpu, of(cost.LineVCPU)), new(big.Rat).Mul(gb, of(cost.LineMemory)))
	stored := new(big.Rat).Mul(gb, new(big.Rat).Quo(of(cost.LineSnapshotStorage), big.NewRat(2628000, 1)))
	transfers := new(big.Rat).Mul(new(big.Rat).Mul(big.NewRat(int64(cycles), 1), gb), new(big.Rat).Add(of(cost.LineSnapshotRead), of(cost.LineSnapshotWrite)))
	return world{run, stored, transfers, big.NewRat(604800, 1)}
}

// gain is what suspending for t seconds saves; below zero it costs.
func (w world) gain(t *big.Rat) *big.Rat {
	billed := t
	if t.Cmp(w.retention) < 0 {
		billed = w.retention
	}
	spent := new(big.Rat).Add(w.transfers, new(big.Rat).Mul(billed, w.stored))
	return spent.Sub(new(big.Rat).Mul(t, w.run), spent)
}

// solve finds the first hold that saves nothing and costs nothing, by looking at
// a dense grid and halving the step that crosses. It knows no branches.
func (w world) solve() (*big.Rat, bool) {
	low := new(big.Rat)
	if w.gain(low).Sign() >= 0 {
		return low, true
	}
	step := big.NewRat(21, 20) // each grid point is 5 % further
	for high := big.NewRat(1, 1000000); high.Cmp(big.NewRat(1e15, 1)) < 0; high = short(new(big.Rat).Mul(high, step)) {
		if w.gain(high).Sign() < 0 {
			low = high
			continue
		}
		for range 60 {
			middle := new(big.Rat).Mul(new(big.Rat).Add(low, high), big.NewRat(1, 2))
			if w.gain(middle).Sign() < 0 {
				low = middle
			} else {
				high = middle
			}
		}
		return high, true
	}
	return nil, false
}

// short keeps a grid point to a few digits.
func short(r *big.Rat) *big.Rat {
	f, _ := r.Float64()
	return new(big.Rat).SetFloat64(f)
}

// TestBreakEvenAgreesWithASearch compares the formula with a dense numeric solve
// over rate tables of all proportions, and wants each of its outcomes seen.
func TestBreakEvenAgreesWithASearch(t *testing.T) {
	within, past, none := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r, c, cycles := someRates(t), someSize(t), rapid.IntRange(0, 20).Draw(t, "cycles")
		w := newWorld(t, r, c, cycles)
		want, found := w.solve()
		got, ok := compare(t, r, c, 60, cycles).BreakEven()
		if !ok {
			if none++; found {
				t.Fatalf("no break-even, and a search finds %s", want.FloatString(6))
			}
			return
		}
		at := rat(t, got)
		if at.Cmp(big.NewRat(604800, 1)) <= 0 {
			within++
		} else {
			past++
		}
		if !found {
			if at.Cmp(big.NewRat(9e14, 1)) < 0 {
				t.Fatalf("break-even at %s, and a search finds none", got)
			}
			return
		}
		// Shown to six places; the search halves 60 times.
		off := new(big.Rat).Sub(at, want)
		if off.Abs(off).Cmp(new(big.Rat).Add(big.NewRat(1, 1000000), new(big.Rat).Mul(want, big.NewRat(1, 1e12)))) > 0 {
			t.Fatalf("break-even at %s, a search finds %s", got, want.FloatString(9))
		}
	})
	if within == 0 || past == 0 || none == 0 {
		t.Errorf("%d within the week, %d past it, %d without: not each was looked at", within, past, none)
	}
}

// TestBreakEvenBranches holds one case of each outcome to its number.
func TestBreakEvenBranches(t *testing.T) {
	for name, tc := range map[string]struct {
		prices []string
		cycles int
		want   string
		ok     bool
	}{
		"within the week":    {[]string{"1", "1", "0.0036", "100", "100"}, 1, "133.736533", true},             // (200·0.5 + 604800·0.5·10^-6) / 0.75
		"past the week":      {[]string{"0.001", "0.001", "0.0036", "900", "900"}, 1, "1200800.533689", true}, // 1800·0.5 / (0.00075 − 0.5·10^-6)
		"never":              {[]string{"0.000001", "0.000001", "3.6", "1", "1"}, 1, "", false},
		"nothing but a week": {[]string{"1", "1", "3.6", "1", "1"}, 0, "403.2", true}, // 604800·0.5·10^-3 / 0.75
	} {
		c := compare(t, rates(t, tc.prices...), size(t, 512), 60, tc.cycles)
		if got, ok := c.BreakEven(); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %s, %t; want %s", name, got, ok, tc.want)
		}
	}
}
