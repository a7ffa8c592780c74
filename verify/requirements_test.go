package verify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"microvms/spec"
)

func TestStaleFilesAreFound(t *testing.T) {
	t.Attr("requirement", "VERIFY-7")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "SPEC.md"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, fresh, want string }{
		{"SPEC.md", "old\n", ""},
		{"SPEC.md", "new\n", "is stale"},
		{"GONE.md", "new\n", "cannot read"},
	} {
		got := stale(root, tc.path, []byte(tc.fresh))
		if (tc.want == "" && got != "") || !strings.Contains(got, tc.want) {
			t.Errorf("stale(%q, %q) = %q, want %q", tc.path, tc.fresh, got, tc.want)
		}
	}
}

// copySpec copies the committed specification into a fresh root.
func copySpec(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "spec"), spec.Files()); err != nil {
		t.Fatal(err)
	}
	set, err := spec.Load(spec.Files())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{"SPEC.md": spec.RenderSpec(set), "spec/CODES.md": spec.RenderCodes()} {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestLintStageFindsChangedTexts edits one requirement of a copy: the stage must name it as not reviewed, and the rendering as stale.
func TestLintStageFindsChangedTexts(t *testing.T) {
	t.Attr("requirement", "VERIFY-4")
	root := copySpec(t)
	g := &gate{Options: Options{Root: root}, report: &Report{}}
	clean := Stage{Name: "lint"}
	g.lint(context.Background(), &clean)
	if len(clean.Problems) > 0 {
		t.Fatalf("the committed specification is not clean: %s", strings.Join(clean.Problems, "\n"))
	}
	path := filepath.Join(root, "spec", "requirements", "agentd.toml")
	text := string(readFile(t, path))
	edited := strings.Replace(text, "install the token and answer 200", "install the token and answer 201", 1)
	if edited == text {
		t.Fatal("the edit found no place")
	}
	if err := os.WriteFile(path, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	s := Stage{Name: "lint"}
	g.lint(context.Background(), &s)
	all := strings.Join(s.Problems, "\n")
	for _, want := range []string{"AGENTD-2", "review", "SPEC.md\" is stale"} {
		if !strings.Contains(all, want) {
			t.Errorf("problems lack %q:\n%s", want, all)
		}
	}
}

// TestNeedsFollowTheSpecification checks that the matrix asks for what the specification asks for, waivers and
// retirement included.
func TestNeedsFollowTheSpecification(t *testing.T) {
	t.Attr("requirement", "VERIFY-1")
	t.Attr("requirement", "VERIFY-3")
	fs := fstest.MapFS{
		"spec.toml":     {Data: []byte("version = \"0.1.0\"\n[[system]]\nname = \"the daemon\"\nmeaning = \"the program under test\"\n")},
		"glossary.toml": {Data: []byte("")},
		"waivers.toml":  {Data: []byte("[[waiver]]\nrequirement = \"EXEC-1\"\nlayer = \"history\"\nreason = \"the judge is not there\"\nowner = \"conformance\"\nuntil = \"0.2.0\"\n")},
		"requirements/exec.toml": {Data: []byte(`title = "x"
[[requirement]]
id = "EXEC-1"
pattern = "ubiquitous"
system = "the daemon"
response = "answer 200"
rationale = "r"
strength = "S4"
status = "approved"
source = "wire facts, section 7"
layers = ["history", "test"]
[[requirement]]
id = "EXEC-2"
pattern = "ubiquitous"
system = "the daemon"
response = "answer 201"
rationale = "r"
strength = "S4"
status = "retired"
source = "wire facts, section 7"
layers = ["test"]
`)},
	}
	set, err := spec.Load(fs)
	if err != nil {
		t.Fatal(err)
	}
	got := gatherNeeds(set)
	if len(got.needs) != 2 || !got.families["EXEC"] {
		t.Fatalf("needs %+v", got)
	}
	first, second := got.needs[0], got.needs[1]
	if strings.Join(first.Layers, " ") != "history test" || !strings.Contains(first.Waived["history"], "conformance until version 0.2.0") || first.Retired {
		t.Errorf("EXEC-1 needs %+v", first)
	}
	if !second.Retired || len(second.Layers) != 0 {
		t.Errorf("EXEC-2 needs %+v", second)
	}
}
