package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/client/sizing"
)

var update = flag.Bool("update", false, "write the golden files again")

// costOn runs a line on a given day, without any environment.
func costOn(t *testing.T, today, line string) (code int, stdout, stderr string) {
	t.Helper()
	now, err := time.Parse(time.DateOnly, today)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs, func(string) string { return "" })
	a.now = func() time.Time { return now }
	code = a.run(t.Context(), strings.Fields(line))
	return code, out.String(), errs.String()
}

// TestCostForms are golden: everything that the command writes, on a day on which
// the rates are current and on one on which they are stale.
func TestCostForms(t *testing.T) {
	t.Attr("requirement", "COST-7")
	for name, tc := range map[string]struct{ today, line string }{
		"cost-plan":       {"2026-08-08", "cost --running-sec 3600 --suspended-sec 86400 --build-sec 95.5 --image-gb 1.5 --cycles 2"},
		"cost-compare":    {"2026-08-08", "cost --compare --memory 512 --hold-sec 1800"},
		"cost-both-json":  {"2026-08-08", "cost --json --estimate --compare --running-sec 10 --image-gb 1 --max-cost 0.01"},
		"cost-both-dense": {"2026-08-08", "cost --dense --estimate --compare --running-sec 10 --max-cost 10"},
		"cost-stale":      {"2027-08-08", "cost --quiet --running-sec 1 --cycles 0"},
		"cost-stale-json": {"2027-08-08", "cost --json --running-sec 1 --cycles 0"},
	} {
		_, stdout, stderr := costOn(t, tc.today, tc.line)
		got := stdout + "-- stderr --\n" + stderr
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
}

// TestMemoryChoicesAreTheTable holds the choices that the parser spells out to the
// size table, and its default to the table's: a sixth class fails here.
func TestMemoryChoicesAreTheTable(t *testing.T) {
	t.Attr("requirement", "TRAP-10")
	field, ok := reflect.TypeFor[costCommand]().FieldByName("Memory")
	if !ok {
		t.Fatal("cost has no memory flag")
	}
	var want []string
	for _, c := range sizing.Classes(sizing.Published()) {
		want = append(want, strconv.Itoa(c.BaselineMiB()))
	}
	if got := strings.Split(field.Tag.Get("enum"), ","); !slices.Equal(got, want) {
		t.Errorf("--memory takes %q, the table has %q", got, want)
	}
	standard, err := sizing.Default(sizing.Published())
	if err != nil || field.Tag.Get("default") != strconv.Itoa(standard.BaselineMiB()) {
		t.Errorf("--memory defaults to %s, the table to %v, %v", field.Tag.Get("default"), standard, err)
	}
	for mib, exit := range map[string]int{"2048": 0, "2047": 2, "0": 2, "-512": 2, "16384": 2} {
		if code, _, stderr := costOn(t, "2026-08-08", "cost --memory="+mib); code != exit {
			t.Errorf("--memory=%s: exit %d, %s", mib, code, stderr)
		}
	}
}

// TestUnpricedHasNoKeyInTheEnvelope reads the envelope as a script would.
func TestUnpricedHasNoKeyInTheEnvelope(t *testing.T) {
	t.Attr("requirement", "BIND-5")
	_, stdout, _ := costOn(t, "2026-08-08", "cost --json --image-gb 1 --running-sec 1")
	var env struct {
		Data struct {
			Report struct {
				Items []struct {
					Phase    string
					Amount   map[string]any
					Duration *struct{ Provenance string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &env); err != nil {
		t.Fatal(err)
	}
	unpriced := 0
	for _, item := range env.Data.Report.Items {
		usd, priced := item.Amount["usd"]
		if item.Amount["kind"] == "unpriced" {
			if unpriced++; priced || usd != nil || item.Amount["reason"] == "" {
				t.Errorf("%s reads %v", item.Phase, item.Amount)
			}
		} else if text, ok := usd.(string); !ok || text == "" {
			t.Errorf("%s reads %v", item.Phase, item.Amount)
		}
		if item.Duration != nil && item.Duration.Provenance != "projected" {
			t.Errorf("%s has a duration that is %s", item.Phase, item.Duration.Provenance)
		}
	}
	if unpriced != 1 {
		t.Errorf("%d unpriced lines in %d", unpriced, len(env.Data.Report.Items))
	}
}
