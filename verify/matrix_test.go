package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/model"
)

// Ids that no requirement has are put together here, so that the matrix of this repository does not find them.
const (
	unknownID = "AGENTD" + "-77"
	retiredID = "AGENTD" + "-9"
)

func passing(t *testing.T, lines ...string) *TestRun {
	t.Helper()
	run, err := ParseTests(strings.NewReader(events(lines...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// sound returns links that cover their one requirement in each layer it asks for.
func sound(t *testing.T) Sources {
	return Sources{
		Needs: []Need{
			{ID: "AGENTD-2", Family: "AGENTD", Sentence: "The daemon shall …", Layers: []string{"model", "replay", "history", "test"}},
			{ID: retiredID, Family: "AGENTD", Retired: true},
		},
		Models: []ModelCase{{AsExpected: true, Report: model.Report{Model: "bootstrap", Config: "held", Properties: []model.PropertyReport{
			{Name: "installs", Kind: "step", Verdict: model.Holds, Requirements: []string{"AGENTD-2"}}}}}},
		Replays:   []Replay{{Model: "bootstrap", Config: "replay", Requirements: map[string]int64{"AGENTD-2": 7}}},
		Histories: []History{{Name: "bootstrap", Requirements: map[string]int64{"AGENTD-2": 40}}},
		Runs:      []*TestRun{passing(t, "run TestA", "attr TestA AGENTD-2", "pass TestA")},
		Citations: []Citation{{ID: "AGENTD-2", File: "agentd/x.go", Line: 3, Why: "once"}},
		Mentions:  []Mention{{ID: "AGENTD-2", File: "agentd/x.go", Line: 3}},
	}
}

// TestMatrixFindsEachHole checks that every kind of hole turns the matrix red, and that none is seen where none is.
func TestMatrixFindsEachHole(t *testing.T) {
	t.Attr("requirement", "VERIFY-1 VERIFY-2 VERIFY-3")
	for _, tc := range []struct {
		name  string
		edit  func(*Sources)
		row   model.Verdict
		words string // "" for no problem
	}{
		{"sound", func(*Sources) {}, model.Holds, ""},
		{"no model", func(s *Sources) { s.Models = nil }, model.Violated, `required layer "model" is empty`},
		{"no replay", func(s *Sources) { s.Replays[0].Requirements = nil }, model.Violated, `required layer "replay" is empty`},
		{"no transition showed it", func(s *Sources) { s.Replays[0].Requirements["AGENTD-2"] = 0 }, model.Violated, `required layer "replay" is empty`},
		{"no history", func(s *Sources) { s.Histories = nil }, model.Violated, `required layer "history" is empty`},
		{"no test", func(s *Sources) { s.Runs = nil }, model.Violated, `required layer "test" is empty`},
		{"only a deviation", func(s *Sources) { s.Models[0].Expected.Deviation = "planted" }, model.Violated, `required layer "model" is empty`},
		{"waived", func(s *Sources) {
			s.Histories, s.Needs[0].Waived = nil, map[string]string{"history": "the judge comes with the next release"}
		}, model.Holds, ""},
		{"waived without need", func(s *Sources) { s.Needs[0].Waived = map[string]string{"test": "not needed"} }, model.Holds, "remove the waiver"},
		{"unknown id in a test", func(s *Sources) {
			s.Runs = append(s.Runs, passing(t, "run TestB", "attr TestB "+unknownID, "fail TestB"))
		}, model.Holds, unknownID + ", which no requirement has"},
		{"unknown id in a property", func(s *Sources) { s.Models[0].Properties[0].Requirements = []string{"AGENTD-2", unknownID} }, model.Holds, unknownID + ", which no requirement has"},
		{"unknown id in a comment", func(s *Sources) { s.Mentions[0].ID = unknownID }, model.Holds, unknownID + ", which no requirement has"},
		{"unknown id in a replay", func(s *Sources) { s.Replays[0].Requirements[unknownID] = 1 }, model.Holds, unknownID + ", which no requirement has"},
		{"unknown id in a fault", func(s *Sources) { s.Faults = []Fault{{ID: "f", Requirement: unknownID}} }, model.Holds, unknownID + ", which no requirement has"},
		{"retired id", func(s *Sources) { s.Mentions[0].ID = retiredID }, model.Holds, retiredID + ", which is retired"},
		{"violated property", func(s *Sources) { s.Models[0].Properties[0].Verdict = model.Violated }, model.Violated, ""},
		{"vacuous property", func(s *Sources) { s.Models[0].Properties[0].Vacuous = true }, model.Violated, ""},
		{"failed replay", func(s *Sources) { s.Replays[0].Failures = []string{"x"} }, model.Violated, ""},
		{"undecided history", func(s *Sources) { s.Histories[0].Undecided = 1 }, model.Inconclusive, ""},
		{"models were not run", func(s *Sources) { s.Models, s.Left = nil, []string{"models"} }, model.Inconclusive, ""},
		{"a stage that has nothing to do with the hole was not run", func(s *Sources) { s.Models, s.Left = nil, []string{"histories"} }, model.Violated, `required layer "model" is empty`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := sound(t)
			tc.edit(&in)
			s := Stage{Name: "matrix"}
			rows := BuildMatrix(in, &s)
			if len(rows) != 1 || rows[0].Verdict != tc.row {
				t.Errorf("rows %+v, want one with verdict %q", rows, tc.row)
			}
			text := strings.Join(s.Problems, "\n")
			if (tc.words == "" && text != "") || !strings.Contains(text, tc.words) {
				t.Errorf("problems %q, want %q", text, tc.words)
			}
		})
	}
}

// TestStagesLeftOutLeaveTheMatrixUndecided: an empty layer whose stage did not run is neither a hole nor a pass.
func TestStagesLeftOutLeaveTheMatrixUndecided(t *testing.T) {
	t.Attr("requirement", "VERIFY-28")
	in := sound(t)
	in.Models, in.Left = nil, []string{"models"}
	s := Stage{Name: "matrix"}
	BuildMatrix(in, &s)
	s.judge()
	if s.Verdict != model.Inconclusive || !strings.Contains(strings.Join(s.Unsure, "\n"), "1 requirements are not decided, since these stages did not run: models") {
		t.Errorf("verdict %q, unsure %q", s.Verdict, s.Unsure)
	}
}

func TestFaultsMustApply(t *testing.T) {
	t.Attr("requirement", "VERIFY-10")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "x.go"), []byte("if once { return }\nif twice {}\nif twice {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := Fault{ID: "f", Requirement: "AGENTD-2", File: "x.go", Find: "if once", Replace: "if !once", Test: "agentd:TestA", Note: "inverted"}
	ran := func(pkg, test string) bool { return pkg == "agentd" && test == "TestA" }
	for _, tc := range []struct {
		name  string
		edit  func(*Fault)
		words string
	}{
		{"applies", func(*Fault) {}, ""},
		{"subtest", func(f *Fault) { f.Test = "agentd:TestA/x" }, ""},
		{"no anchor", func(f *Fault) { f.Find = "if never" }, "does not occur"},
		{"two anchors", func(f *Fault) { f.Find = "if twice" }, "occurs 2 times"},
		{"no change", func(f *Fault) { f.Replace = f.Find }, "changes nothing"},
		{"no file", func(f *Fault) { f.File = "y.go" }, "cannot read"},
		{"no test", func(f *Fault) { f.Test = "agentd:TestB" }, "did not run"},
		{"no note", func(f *Fault) { f.Note = "" }, "required"},
		{"odd test", func(f *Fault) { f.Test = "TestA" }, "not of the form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := good
			tc.edit(&f)
			got := checkFault(root, f, ran)
			if (tc.words == "" && got != "") || !strings.Contains(got, tc.words) {
				t.Errorf("checkFault = %q, want %q", got, tc.words)
			}
		})
	}
}

func TestScanFindsCitationsAndMentions(t *testing.T) {
	t.Attr("requirement", "VERIFY-2")
	root := t.TempDir()
	src := "package x\n\n// AGENTD-2, AGENTD-4: one lock, because both are decided on one value.\nvar a = \"see AGENTD-5 and UTF-8\"\n\n// AGENTD-6 is only mentioned.\nvar b int\n"
	for name, text := range map[string]string{"x.go": src, "x_test.go": "package x\n\n// AGENTD-3: a test cites nothing.\nvar c int\n", "testdata/y.go": "not Go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cites, mentions, files, err := Scan(root, map[string]bool{"AGENTD": true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cites {
		got = append(got, c.ID+"@"+c.Ref())
	}
	if want := "AGENTD-2@x.go:3 AGENTD-4@x.go:3"; strings.Join(got, " ") != want {
		t.Errorf("citations %q, want %q", got, want)
	}
	seen := map[string]bool{}
	for _, m := range mentions {
		seen[m.ID] = true
	}
	for _, id := range []string{"AGENTD-2", "AGENTD-3", "AGENTD-4", "AGENTD-5", "AGENTD-6"} {
		if !seen[id] {
			t.Errorf("%s is mentioned and was not found", id)
		}
	}
	if seen["UTF-8"] || files != 2 {
		t.Errorf("mentions %v in %d files; UTF-8 is no requirement and there are 2 files", seen, files)
	}
}
