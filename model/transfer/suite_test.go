package transfer

import (
	"testing"

	"microvms/model"
	"microvms/model/modeltest"
)

// TestGoldenRecord holds every configuration to its record, and the properties
// to the planted faults.
func TestGoldenRecord(t *testing.T) {
	for _, id := range []string{"FS-10", "FS-11", "FS-13", "FS-15", "FS-16", "FS-17", "FS-18", "FS-19", "FS-20", "FS-23", "FS-24", "FS-25"} {
		t.Attr("requirement", id)
	}
	modeltest.Judge(t, modeltest.Record{Suite: Suite()})
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

// TestBoundsAreChecked checks that a configuration out of bounds is refused.
func TestBoundsAreChecked(t *testing.T) {
	edited := func(edit func(*Config)) func() {
		return func() { c := HeldDisk(); edit(&c); New(c) }
	}
	modeltest.Panics(t, edited(func(c *Config) { c.Archives = nil }), edited(func(c *Config) { c.MaxMembers = MaxMembers + 1 }),
		edited(func(c *Config) { c.Acts = 5 }))
}
