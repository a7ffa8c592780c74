package bootstrap

import (
	"flag"
	"os"
	"strings"
	"testing"

	"microvms/model"
)

var update = flag.Bool("update", false, "rewrite the golden record")

const goldenFile = "testdata/configs.golden"

// checkAll runs every configuration once for all tests of the record.
func checkAll(t *testing.T) map[string]*model.Report {
	t.Helper()
	out := map[string]*model.Report{}
	for _, c := range Suite().Cases {
		r, err := c.Check(t.Context(), model.Options{Workers: 2})
		if err != nil {
			t.Fatalf("case %q: %v", c.Name(), err)
		}
		if out[c.Name()] != nil {
			t.Fatalf("two cases are named %q", c.Name())
		}
		out[c.Name()] = r
	}
	return out
}

// TestGoldenRecord checks every configuration: exact counts, the exact set of
// violated properties, shortest counterexamples. Then it judges the properties
// themselves: each one that says "always" or "leads to" is violated by a planted
// fault, each planted fault is noticed, and what passes passes without being
// vacuous or leaving an action dead.
func TestGoldenRecord(t *testing.T) {
	reports := checkAll(t)
	if *update {
		writeGolden(t, reports)
	}
	broken := map[string]bool{}
	stated := map[string]bool{}
	for _, c := range Suite().Cases {
		r, want := reports[c.Name()], c.Expect()
		t.Run(c.Name(), func(t *testing.T) {
			compare(t, r, want)
			for _, p := range r.Properties {
				switch p.Kind {
				case "sometimes", "sometimes-step":
				default:
					stated[p.Name] = true
					broken[p.Name] = broken[p.Name] || p.Verdict == model.Violated
				}
				if want.Deviation == "" && p.Vacuous {
					t.Errorf("property %q is vacuous", p.Name)
				}
			}
			if want.Deviation == "" && (r.Verdict != model.Holds || len(r.DeadActions) > 0) {
				t.Errorf("verdict %s (%s), dead actions %v", r.Verdict, r.Reason, r.DeadActions)
			}
			if want.Deviation != "" && len(want.Violated) == 0 {
				t.Errorf("nothing notices that %s", want.Deviation)
			}
		})
	}
	for _, name := range publishedOnly {
		if !stated[name] || broken[name] {
			t.Errorf("property %q is listed as violated by no deviation, but is not stated, or is violated", name)
		}
		delete(stated, name)
	}
	for name := range stated {
		if !broken[name] {
			t.Errorf("no deviation violates property %q", name)
		}
	}
}

func writeGolden(t *testing.T, reports map[string]*model.Report) {
	t.Helper()
	var parts []string
	for _, c := range Suite().Cases {
		if strings.HasPrefix(c.Name(), "m1-") {
			continue // the publication's numbers are not ours to rewrite
		}
		if strings.HasPrefix(c.Name(), Sequential().Name+"-") {
			continue // below, with those that are new
		}
		sentence := c.Expect().Deviation
		if sentence == "" {
			sentence = "the specified rule"
		}
		parts = append(parts, formatGolden(c.Name(), sentence, found(reports[c.Name()])))
	}
	for d := Specified + 1; d < deviations; d++ {
		c := d.atomic()
		r, err := model.Check(t.Context(), NewAtomic(c), model.Options{})
		if err != nil {
			t.Fatalf("atomic form of %s: %v", d.Name(), err)
		}
		if e := found(r); len(e.Violated) > 0 {
			parts = append(parts, formatGolden(c.Name, d.String(), e))
		}
	}
	if err := os.WriteFile(goldenFile, []byte(strings.Join(parts, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Fatal("golden record rewritten: read the difference, then run the test again")
}

// TestGoldenRecordIsStrict checks that the record notices one state more, one
// violated property fewer, and a line that it does not know.
func TestGoldenRecordIsStrict(t *testing.T) {
	t.Attr("requirement", "CHECK-15")
	text := "# a\ncase a\ncounts distinct=1 states=2 depth=3\nviolated 4 \"p q\"\n"
	got, err := parseGolden(text)
	if err != nil {
		t.Fatal(err)
	}
	if e := got["a"]; e.Distinct != 1 || e.States != 2 || e.Depth != 3 || e.Violated["p q"] != 4 || formatGolden("a", "a", e) != text {
		t.Errorf("parsed %+v", e)
	}
	for _, bad := range []string{"cases a\n", "case a\ncounts distinct=x\n", "case a\nviolated x \"p\"\n", "case a\nviolated 1 p\n"} {
		if _, err := parseGolden(bad); err == nil {
			t.Errorf("a bad record was read: %q", bad)
		}
	}
}
