package spec

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

const requirementText = `title = "Alpha"

[[requirement]]
id           = "ALPHA-1"
pattern      = "ubiquitous"
system       = "the daemon"
response     = "answer"
rationale    = "Somebody asked."
strength     = "S1"
status       = "approved"
source       = "wire facts, section 1"
layers       = ["model", "test"]
`

// folder is a specification in memory; edits replace files, and "" removes one.
func folder(edits map[string]string) fstest.MapFS {
	files := map[string]string{
		"spec.toml":               "version = \"0.1.0\"\n[[system]]\nname = \"the daemon\"\nmeaning = \"serves\"\n",
		"glossary.toml":           "[[term]]\nname = \"token\"\ndefinition = \"a secret\"\n",
		"requirements/alpha.toml": requirementText,
	}
	for name, text := range edits {
		files[name] = text
	}
	out := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			out[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return out
}

// TestLoad reads each kind of file into its place.
func TestLoad(t *testing.T) {
	s, err := Load(folder(map[string]string{
		"waivers.toml":           "[[waiver]]\nrequirement = \"ALPHA-1\"\nlayer = \"test\"\nreason = \"not done\"\nowner = \"spec\"\nuntil = \"1.0.0\"\n",
		"reviewed.toml":          "[reviewed]\nALPHA-1 = \"00\"\n",
		"requirements/beta.toml": strings.ReplaceAll(requirementText, "ALPHA-1", "BETA-10") + "\n" + strings.ReplaceAll(requirementText[strings.Index(requirementText, "[["):], "ALPHA-1", "BETA-2"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	r, ok := s.Lookup("ALPHA-1")
	if !ok || r.Pattern != Ubiquitous || r.Line != 3 || r.File != "requirements/alpha.toml" || len(r.Layers) != 2 || !r.Requires(LayerModel) || r.Requires(LayerReplay) {
		t.Errorf("ALPHA-1 loads as %+v", r)
	}
	if len(s.Families) != 2 || s.Families[1].Name != "BETA" || len(s.Waivers) != 1 || s.Waivers[0].Line != 1 || s.Reviewed["ALPHA-1"] != "00" || s.Version != "0.1.0" {
		t.Errorf("the set loads as %+v", s)
	}
	if got := s.Requirements[1].ID + s.Requirements[2].ID; got != "BETA-2BETA-10" {
		t.Errorf("the numeric order of ids is %s", got)
	}
	if _, ok := s.Lookup("ALPHA-2"); ok {
		t.Error("an unknown id is found")
	}
}

// TestLoadRefuses: what the format does not have is refused with its place.
func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edits map[string]string
		want  string
	}{
		"unknown key":       {map[string]string{"requirements/alpha.toml": requirementText + "colour = \"red\"\n"}, `requirements/alpha.toml:13: unknown key "requirement.colour"`},
		"wrong case":        {map[string]string{"requirements/alpha.toml": strings.Replace(requirementText, "system  ", "System  ", 1)}, `requirements/alpha.toml:6: unknown key "requirement.System"`},
		"stored sentence":   {map[string]string{"requirements/alpha.toml": requirementText + "sentence = \"x\"\n"}, "unknown key"},
		"unknown table":     {map[string]string{"glossary.toml": "[[word]]\nname = \"x\"\n"}, `glossary.toml:1: unknown key "word"`},
		"unknown waiver":    {map[string]string{"waivers.toml": "[[waiver]]\nexpires = \"2027-01-01\"\n"}, `waivers.toml:2: unknown key "waiver.expires"`},
		"nested review":     {map[string]string{"reviewed.toml": "[reviewed.x]\ny = \"z\"\n"}, "reviewed.toml"},
		"wrong type":        {map[string]string{"requirements/alpha.toml": strings.Replace(requirementText, `"S1"`, "1", 1)}, "requirements/alpha.toml"},
		"not TOML":          {map[string]string{"spec.toml": "version = \n"}, "spec.toml:1"},
		"key twice":         {map[string]string{"requirements/alpha.toml": requirementText + "id = \"ALPHA-2\"\n"}, "requirements/alpha.toml:13"},
		"no requirement":    {map[string]string{"requirements/alpha.toml": "title = \"Alpha\"\n"}, "requirements/alpha.toml: no requirements"},
		"no files":          {map[string]string{"requirements/alpha.toml": ""}, "no requirements"},
		"no glossary":       {map[string]string{"glossary.toml": ""}, "glossary.toml"},
		"no project":        {map[string]string{"spec.toml": ""}, "spec.toml"},
		"unknown in system": {map[string]string{"spec.toml": "version = \"0.1.0\"\n[[system]]\nname = \"x\"\nalias = \"y\"\n"}, `spec.toml:4: unknown key "system.alias"`},
	} {
		_, err := Load(folder(c.edits))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cannot load the specification: ") {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load(folder(map[string]string{"requirements/alpha.toml": ""})); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty specification: %v, want ErrEmpty", err)
	}
	if _, err := Load(folder(map[string]string{"glossary.toml": ""})); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing glossary: %v, want ErrNotExist", err)
	}
}

// TestLinesSkipLongValues: a key inside a long string is no key of the file.
func TestLinesSkipLongValues(t *testing.T) {
	text := strings.Replace(requirementText, `"Somebody asked."`, "\"\"\"\nSomebody\nlayers = 5\nasked.\"\"\"", 1)
	text = strings.Replace(text, `["model", "test"]`, "[\n  \"model\", # a = b\n  \"test\",\n]", 1)
	_, err := Load(folder(map[string]string{"requirements/alpha.toml": text + "\n[[requirement]]\ncolour = 1\n"}))
	if err == nil || !strings.Contains(err.Error(), "alpha.toml:21: ") {
		t.Errorf("error %v, want line 21", err)
	}
}

// FuzzLoad: no file makes the reader, the linter or the renderer panic, and
// errors name the file.
func FuzzLoad(f *testing.F) {
	f.Add(requirementText, "[[term]]\nname = \"token\"\n")
	f.Add("title = 1\n", "")
	f.Add("[[requirement]]\nlayers = [\n", "[[term]]\nname = \"\"\naliases = [\"\"]\nhead = true\n")
	f.Fuzz(func(t *testing.T, requirements, glossary string) {
		if requirements == "" || glossary == "" {
			return
		}
		s, err := Load(folder(map[string]string{"requirements/alpha.toml": requirements, "glossary.toml": glossary}))
		if err != nil {
			if !strings.Contains(err.Error(), ".toml") {
				t.Errorf("error %q names no file", err)
			}
			return
		}
		Lint(s)
		RenderSpec(s)
	})
}
