package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// ErrEmpty is returned, wrapped, by [Load] for a folder without requirements: a
// specification that says nothing must not pass.
var ErrEmpty = errors.New("no requirements")

type requirementFile struct {
	Title       string             `toml:"title"`
	Requirement []requirementEntry `toml:"requirement"`
}

type requirementEntry struct {
	ID           string   `toml:"id"`
	Pattern      string   `toml:"pattern"`
	Feature      string   `toml:"feature"`
	Precondition string   `toml:"precondition"`
	Trigger      string   `toml:"trigger"`
	Unwanted     string   `toml:"unwanted"`
	System       string   `toml:"system"`
	Response     string   `toml:"response"`
	Rationale    string   `toml:"rationale"`
	Strength     string   `toml:"strength"`
	Status       string   `toml:"status"`
	Source       string   `toml:"source"`
	Layers       []string `toml:"layers"`
	Refines      []string `toml:"refines"`
	Derives      []string `toml:"derives"`
	ReplacedBy   string   `toml:"replaced_by"`
}

type projectFile struct {
	Version string `toml:"version"`
	System  []struct {
		Name    string `toml:"name"`
		Meaning string `toml:"meaning"`
	} `toml:"system"`
}

type waiverFile struct {
	Waiver []struct {
		Requirement string `toml:"requirement"`
		Layer       string `toml:"layer"`
		Code        string `toml:"code"`
		Reason      string `toml:"reason"`
		Owner       string `toml:"owner"`
		Until       string `toml:"until"`
	} `toml:"waiver"`
}

type reviewedFile struct {
	Reviewed map[string]string `toml:"reviewed"`
}

// Load reads a specification from a folder: spec.toml and glossary.toml, which
// must exist, waivers.toml and reviewed.toml, which may be absent, and
// requirements/*.toml. Reading is strict: a key that the format does not have,
// in whatever case, is refused with its file and line, and so is a value of a
// wrong type. What the values say is [Lint]'s affair. Errors: the file system's,
// TOML's, and [ErrEmpty].
func Load(fsys fs.FS) (*Set, error) {
	s := &Set{Reviewed: map[string]string{}}
	for _, load := range []func(fs.FS, *Set) error{loadProject, loadGlossary, loadWaivers, loadReviewed, loadRequirements} {
		if err := load(fsys, s); err != nil {
			return nil, fmt.Errorf("cannot load the specification: %w", err)
		}
	}
	s.index()
	return s, nil
}

// index sorts the requirements and prepares Lookup.
func (s *Set) index() {
	slices.SortStableFunc(s.Requirements, func(a, b Requirement) int { return compareIDs(a.ID, b.ID) })
	s.byID = make(map[string]int, len(s.Requirements))
	for i := len(s.Requirements) - 1; i >= 0; i-- { // the first of two wins; the linter reports the second
		s.byID[s.Requirements[i].ID] = i
	}
}

func loadProject(fsys fs.FS, s *Set) error {
	var f projectFile
	if _, err := decode(fsys, "spec.toml", &f, "version", "system", "system.name", "system.meaning"); err != nil {
		return err
	}
	s.Version = f.Version
	for _, sys := range f.System {
		s.Systems = append(s.Systems, System{Name: sys.Name, Meaning: sys.Meaning})
	}
	return nil
}

func loadWaivers(fsys fs.FS, s *Set) error {
	var f waiverFile
	lines, err := decode(fsys, "waivers.toml", &f, "waiver", "waiver.requirement", "waiver.layer", "waiver.code", "waiver.reason", "waiver.owner", "waiver.until")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, w := range f.Waiver {
		s.Waivers = append(s.Waivers, Waiver{Requirement: w.Requirement, Layer: Layer(w.Layer), Code: w.Code,
			Reason: w.Reason, Owner: w.Owner, Until: w.Until, File: "waivers.toml", Line: lines.table("waiver", i)})
	}
	return nil
}

func loadReviewed(fsys fs.FS, s *Set) error {
	var f reviewedFile
	_, err := decode(fsys, "reviewed.toml", &f, "reviewed", "reviewed.*")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for id, fingerprint := range f.Reviewed {
		s.Reviewed[id] = fingerprint
	}
	return nil
}

var requirementKeys = []string{"title", "requirement", "requirement.id", "requirement.pattern", "requirement.feature",
	"requirement.precondition", "requirement.trigger", "requirement.unwanted", "requirement.system", "requirement.response",
	"requirement.rationale", "requirement.strength", "requirement.status", "requirement.source", "requirement.layers",
	"requirement.refines", "requirement.derives", "requirement.replaced_by"}

func loadRequirements(fsys fs.FS, s *Set) error {
	names, err := fs.Glob(fsys, "requirements/*.toml")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var f requirementFile
		lines, err := decode(fsys, name, &f, requirementKeys...)
		if err != nil {
			return err
		}
		if len(f.Requirement) == 0 {
			return fmt.Errorf("%s: %w; delete the file or write one", name, ErrEmpty)
		}
		family := strings.ToUpper(strings.TrimSuffix(path.Base(name), ".toml"))
		s.Families = append(s.Families, Family{Name: family, Title: f.Title, File: name})
		for i, e := range f.Requirement {
			s.Requirements = append(s.Requirements, e.requirement(name, lines.table("requirement", i)))
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("requirements/*.toml: %w", ErrEmpty)
	}
	return nil
}

func (e requirementEntry) requirement(file string, line int) Requirement {
	r := Requirement{ID: e.ID, Pattern: Pattern(e.Pattern), Feature: e.Feature, Precondition: e.Precondition,
		Trigger: e.Trigger, Unwanted: e.Unwanted, System: e.System, Response: e.Response, Rationale: e.Rationale,
		Strength: e.Strength, Status: Status(e.Status), Source: e.Source, Refines: e.Refines, Derives: e.Derives,
		ReplacedBy: e.ReplacedBy, File: file, Line: line}
	for _, l := range e.Layers {
		r.Layers = append(r.Layers, Layer(l))
	}
	return r
}

// decode reads one TOML file into v and refuses keys outside allowed. The
// decoder would take `ID` for `id`, so names are compared here, exactly.
func decode(fsys fs.FS, name string, v any, allowed ...string) (lineIndex, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	lines := indexLines(string(data))
	meta, err := toml.Decode(string(data), v)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, fmt.Errorf("%s:%d: %s", name, parse.Position.Line, parse.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, key := range meta.Keys() {
		if !keyAllowed(key, allowed) {
			return nil, fmt.Errorf("%s:%d: unknown key %q", name, lines.key(key), key.String())
		}
	}
	return lines, nil
}

// keyAllowed matches a key path with the allowed ones; "reviewed.*" allows one
// level of free names.
func keyAllowed(key toml.Key, allowed []string) bool {
	full := strings.Join(key, ".")
	for _, a := range allowed {
		if prefix, ok := strings.CutSuffix(a, ".*"); a == full || ok && len(key) == 2 && key[0] == prefix {
			return true
		}
	}
	return false
}
