package transfer

import (
	"flag"
	"os"
	"strings"
	"testing"

	"microvms/model"
)

var update = flag.Bool("update", false, "rewrite the golden record")

const goldenFile = "testdata/configs.golden"

// TestGoldenRecord checks every configuration: exact counts, the exact set of
// violated properties, shortest counterexamples. Then it judges the properties
// themselves: each one that says "always" is violated by a planted fault, each
// planted fault is noticed, and what passes passes without being vacuous or
// leaving an action dead.
func TestGoldenRecord(t *testing.T) {
	for _, id := range []string{"FS-10", "FS-11", "FS-13", "FS-15", "FS-16", "FS-17", "FS-18", "FS-19", "FS-20", "FS-23", "FS-24", "FS-25"} {
		t.Attr("requirement", id)
	}
	reports := map[string]*model.Report{}
	var ordered []*model.Report
	suite := Suite()
	for _, c := range suite.Cases {
		r, err := c.Check(t.Context(), model.Options{Workers: 2})
		if err != nil {
			t.Fatalf("case %q: %v", c.Name(), err)
		}
		if reports[c.Name()] != nil {
			t.Fatalf("two cases are named %q", c.Name())
		}
		reports[c.Name()] = r
		ordered = append(ordered, r)
	}
	if *update {
		writeGolden(t, reports)
	}
	for _, c := range suite.Cases {
		want := c.Expect()
		t.Run(c.Name(), func(t *testing.T) {
			for _, difference := range want.Compare(reports[c.Name()]) {
				t.Error(difference)
			}
			if want.Deviation != "" && len(want.Violated) == 0 {
				t.Errorf("nothing notices that %s", want.Deviation)
			}
			if want.Distinct == 0 || want.States == 0 || want.Depth == 0 {
				t.Error("the counts are not pinned")
			}
		})
	}
	if left, stale := suite.Unchallenged(ordered), suite.StaleWaivers(ordered); len(left)+len(stale) > 0 {
		t.Errorf("no deviation violates %q; needless waivers for %q", left, stale)
	}
}

func writeGolden(t *testing.T, reports map[string]*model.Report) {
	t.Helper()
	var parts []string
	for _, c := range Configs() {
		sentence := c.Deviation.String()
		if sentence == "" {
			sentence = "the specified rule"
		}
		parts = append(parts, formatGolden(c.Name, sentence, found(reports[c.Name])))
	}
	if err := os.WriteFile(goldenFile, []byte(strings.Join(parts, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Fatal("golden record rewritten: read the difference, then run the test again")
}

// TestKnownEscape checks that the model finds, by itself, the archive that
// escapes an extractor without openat2: every name looks as if it stayed in the
// tree, and the second link lands a level shallower than it looks. It also
// checks that the specified rule refuses the same archive.
func TestKnownEscape(t *testing.T) {
	t.Attr("requirement", "FS-17")
	escape := of(linkD, linkDF, fileFF)
	if initial := initial(escape); !initial.allSafe() {
		t.Fatal("the lexical rules alone refuse the archive")
	}
	for _, d := range []Deviation{LexicalOnly, Specified} {
		c := HeldTrees()
		c.Deviation = d
		g, err := model.Explore(t.Context(), New(c), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for _, s := range g.States {
			if s.Archive != escape || s.Phase != Ended {
				continue
			}
			ends++
			escaped := s.Tree[Canary][F] != CanaryFile
			if escaped != (d == LexicalOnly) || (s.Verdict == Unsafe) != (d == Specified) {
				t.Errorf("%s: answered %s, tree %s", d.Name(), s.Verdict, Listing(s))
			}
		}
		if ends != 1 {
			t.Errorf("%s: the archive ends in %d ways", d.Name(), ends)
		}
	}
}

// TestGoldenRecordIsStrict checks that the record notices one state more, one
// violated property fewer, and a line that it does not know.
func TestGoldenRecordIsStrict(t *testing.T) {
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

// TestBoundsAreChecked checks that a configuration out of bounds is refused.
func TestBoundsAreChecked(t *testing.T) {
	for _, edit := range []func(*Config){
		func(c *Config) { c.Archives = nil }, func(c *Config) { c.MaxMembers = MaxMembers + 1 }, func(c *Config) { c.Acts = 5 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a configuration out of bounds was taken")
				}
			}()
			c := HeldDisk()
			edit(&c)
			New(c)
		}()
	}
}
