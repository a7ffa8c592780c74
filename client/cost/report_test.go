package cost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"microvms/client/cost"
	"microvms/client/sizing"
)

// wire is a report as a reader of the JSON sees it.
type wire struct {
	Label string
	Size  struct {
		BaselineMib, BaselineVcpu, PeakMib, PeakVcpu json.Number
		Describe                                     string
	}
	Rates                              struct{ Region, Retrieved, SourceURL string }
	Estimated, FullyMeasured, Complete bool
	Staleness                          *string
	Items                              []wireItem
	Total                              struct {
		Priced       string
		IsLowerBound bool
		Render       string
	}
}

type wireItem struct {
	Phase, Quantity, Unit, Note string
	Line                        *string
	Amount                      map[string]string
	Duration                    *struct {
		Seconds    json.Number
		Provenance string
	}
}

func decoded(t tb, v any) wire {
	t.Helper()
	var w wire
	if err := json.Unmarshal([]byte(encoded(t, v)), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

var columns = regexp.MustCompile(` {2,}`)

// textRows are the cells of a report's lines in its text.
func textRows(text string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "PHASE "):
			inside = true
		case strings.HasPrefix(line, "total: "):
			inside = false
		case inside:
			rows = append(rows, columns.Split(strings.TrimSuffix(line, "\n"), -1))
		}
	}
	return rows
}

// TestReportsSayOneThing draws usage and rates, and holds the text, the JSON and the
// dense line of each report against each other and against its sum.
func TestReportsSayOneThing(t *testing.T) {
	t.Attr("requirement", "COST-3")
	t.Attr("requirement", "COST-4")
	t.Attr("requirement", "BIND-5")
	rapid.Check(t, func(t *rapid.T) {
		r := someReport(t)
		w, text, rows := decoded(t, r), r.Text(), textRows(r.Text())
		if len(rows) != len(w.Items) || len(rows) != len(r.Items()) {
			t.Fatalf("%d lines of text, %d of JSON:\n%s", len(rows), len(w.Items), text)
		}
		sum, unpriced := new(big.Rat), 0
		for i, item := range w.Items {
			sameLine(t, item, rows[i])
			if usd, ok := item.Amount["usd"]; ok {
				sum.Add(sum, rat(t, usd))
			} else {
				unpriced++
			}
		}
		if sum.Cmp(rat(t, w.Total.Priced)) != 0 || w.Total.IsLowerBound != (unpriced > 0) || w.Complete == w.Total.IsLowerBound {
			t.Fatalf("the lines add to %s, the total is %+v", sum.FloatString(40), w.Total)
		}
		render := dollars(t, w.Total.Priced).String()
		if unpriced > 0 {
			render = fmt.Sprintf("at least %s, plus %d unpriced (image-build)", render, unpriced)
		}
		if w.Total.Render != render || !strings.Contains(text, "\ntotal: "+render+"\n") {
			t.Fatalf("the total is %q in JSON, want %q; text:\n%s", w.Total.Render, render, text)
		}
		dense := strings.Split(r.Dense(), "\t")
		if dense[3] != w.Total.Priced || (dense[2] == "at-least") != w.Total.IsLowerBound || (dense[4] == "-") == w.Total.IsLowerBound {
			t.Fatalf("dense line %q, total %+v", dense, w.Total)
		}
		if w.Size.Describe != r.Size().Describe() || !strings.HasPrefix(text, "usage: "+w.Size.Describe+"\n") ||
			w.Size.Describe != fmt.Sprintf("%s MiB baseline, %s vCPU (peak %s MiB, %s vCPU)", w.Size.BaselineMib, w.Size.BaselineVcpu, w.Size.PeakMib, w.Size.PeakVcpu) {
			t.Fatalf("sizes: %+v; text:\n%s", w.Size, text)
		}
		if !w.Estimated || (w.Staleness == nil) != (r.Staleness() == "") {
			t.Fatalf("%+v", w)
		}
	})
}

// sameLine holds one line's JSON against its text. Money in JSON is exact; the text
// shows the same number in the form of Dollars.String.
func sameLine(t *rapid.T, item wireItem, cells []string) {
	amount := ""
	switch item.Amount["kind"] {
	case "estimated-usd":
		amount = dollars(t, item.Amount["usd"]).String()
	case "unpriced":
		amount = "unpriced: " + item.Amount["reason"]
		// COST-3: neither a number nor a dollar sign where nothing is known.
		if len(item.Amount) != 2 || item.Amount["reason"] == "" || strings.ContainsAny(cells[4], "$0123456789") {
			t.Fatalf("an unpriced line is %v and %q", item.Amount, cells)
		}
	default:
		t.Fatalf("an amount of kind %q", item.Amount["kind"])
	}
	line, duration := "-", "-"
	if item.Line != nil {
		line = *item.Line
	}
	if item.Duration != nil {
		duration = item.Duration.Seconds.String() + " s " + item.Duration.Provenance
	}
	want := []string{item.Phase, line, item.Quantity, item.Unit, amount, duration, item.Note}
	if item.Note == "" {
		want = want[:6]
	}
	if !slices.Equal(cells, want) {
		t.Fatalf("the text has %q, the JSON %q", cells, want)
	}
}

// TestComparisonsSayOneThing does the same for comparisons.
func TestComparisonsSayOneThing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := compare(t, someRates(t), someSize(t), rapid.Float64Range(0.001, 1e9).Draw(t, "hold"), rapid.IntRange(0, 50).Draw(t, "cycles"))
		var w struct {
			HoldSeconds                json.Number
			Cycles                     int
			Running, Suspended         wire
			Ratio, PerCycleUsd, Render string
			BreakEvenSeconds           *json.Number
		}
		if err := json.Unmarshal([]byte(encoded(t, c)), &w); err != nil {
			t.Fatal(err)
		}
		text, dense := c.Text(), strings.Split(c.Dense(), "\t")
		breakEven, say := "-", "no break-even: "
		if w.BreakEvenSeconds != nil {
			breakEven = w.BreakEvenSeconds.String()
			say = "break-even at a hold of " + breakEven + " s ("
		}
		for _, part := range []string{w.Render, w.Running.Total.Render, w.Suspended.Total.Render} {
			if !strings.Contains(text, part) {
				t.Fatalf("%q is not in\n%s", part, text)
			}
		}
		for _, part := range []string{"a hold of " + w.HoldSeconds.String() + " s (", " with " + itoa(w.Cycles) + " cycle", "costs " + w.Ratio + " times",
			"costs " + dollars(t, w.PerCycleUsd).String() + ".", "\n" + say} {
			if !strings.Contains(w.Render, part) {
				t.Fatalf("%q is not in %q", part, w.Render)
			}
		}
		want := []string{w.HoldSeconds.String(), itoa(w.Cycles), w.Running.Total.Priced, w.Suspended.Total.Priced, w.Ratio, breakEven, string(c.Cheaper()), "current"}
		if !slices.Equal(dense, want) {
			t.Fatalf("dense line %q, want %q", dense, want)
		}
		rows := textRows(text)
		if len(rows) != len(w.Running.Items)+len(w.Suspended.Items) {
			t.Fatalf("%d lines in\n%s", len(rows), text)
		}
		for i, item := range append(w.Running.Items, w.Suspended.Items...) {
			sameLine(t, item, rows[i])
		}
	})
}

// TestPlansAreProjected looks at every duration of a plan with all its parts.
func TestPlansAreProjected(t *testing.T) {
	t.Attr("requirement", "COST-10")
	r, err := cost.Estimate(cost.Pinned(), cost.Plan{Label: "plan", Size: size(t, 2048), RunningSec: 1, SuspendedSec: 2, BuildSec: 3, ImageGB: 4, Cycles: 5}, fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, item := range r.Items() {
		if item.Duration == nil {
			continue
		}
		if seen++; item.Duration.Provenance() != cost.FromProjection {
			t.Errorf("%s is %s", item.Phase, item.Duration.Provenance())
		}
	}
	if seen != 5 || r.FullyMeasured() { // build, image, two compute lines, suspended
		t.Errorf("%d durations, fully measured %t", seen, r.FullyMeasured())
	}
	c := compare(t, cost.Pinned(), size(t, 2048), 60, 1)
	if c.Running().FullyMeasured() || c.Suspended().FullyMeasured() {
		t.Error("a comparison's hold is measured")
	}
}

// TestFullyMeasured wants a duration, and all of them measured.
func TestFullyMeasured(t *testing.T) {
	t.Attr("requirement", "COST-1")
	m, p := measured(t, time.Second), projected(t, time.Second)
	gb, err := cost.GBOf(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		u    cost.Usage
		want bool
	}{
		"nothing": {cost.Usage{}, false}, "measured": {cost.Usage{Running: m, Build: m}, true}, "one projected": {cost.Usage{Running: m, Suspended: p}, false},
		"no time": {cost.Usage{Cycles: 1}, false}, "assumed retention": {cost.Usage{Running: m, Image: gb}, false},
		"measured retention": {cost.Usage{Running: m, Image: gb, ImageRetained: m}, true},
	} {
		tc.u.Size = size(t, 512)
		r, err := cost.Price(cost.Pinned(), tc.u, fresh(t))
		if err != nil || r.FullyMeasured() != tc.want || decoded(t, r).FullyMeasured != tc.want {
			t.Errorf("%s: %v, %v", name, r.FullyMeasured(), err)
		}
	}
}

// TestBadArguments are refused before anything is priced.
func TestBadArguments(t *testing.T) {
	ok := cost.Plan{Label: "plan", Size: size(t, 512)}
	for name, edit := range map[string]func(*cost.Plan){
		"running": func(p *cost.Plan) { p.RunningSec = -1 }, "suspended": func(p *cost.Plan) { p.SuspendedSec = -0.5 }, "build": func(p *cost.Plan) { p.BuildSec = math.NaN() },
		"image": func(p *cost.Plan) { p.ImageGB = math.Inf(1) }, "cycles": func(p *cost.Plan) { p.Cycles = -1 }, "size": func(p *cost.Plan) { p.Size = sizing.Class{} },
		"label": func(p *cost.Plan) { p.Label = "a\nb" }, "digits": func(p *cost.Plan) { p.RunningSec = 1e-200 },
	} {
		p := ok
		edit(&p)
		if r, err := cost.Estimate(cost.Pinned(), p, fresh(t)); !errors.Is(err, cost.ErrInvalid) || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := cost.Estimate(cost.Pinned(), ok, cost.Date{}); !errors.Is(err, cost.ErrInvalid) {
		t.Errorf("no day: %v", err)
	}
	for _, r := range []*cost.RateTable{nil, {}} {
		if _, err := cost.Estimate(r, ok, fresh(t)); !errors.Is(err, cost.ErrInvalid) {
			t.Errorf("no rates: %v", err)
		}
		if _, err := cost.Compare(r, ok.Size, 1, 1, fresh(t)); !errors.Is(err, cost.ErrInvalid) {
			t.Errorf("no rates: %v", err)
		}
	}
	if _, err := cost.Compare(cost.Pinned(), ok.Size, -1, 1, fresh(t)); !errors.Is(err, cost.ErrInvalid) {
		t.Errorf("negative hold: %v", err)
	}
	if _, err := cost.Compare(cost.Pinned(), ok.Size, 1, -1, fresh(t)); !errors.Is(err, cost.ErrInvalid) {
		t.Errorf("negative cycles: %v", err)
	}
}
