// Package manifest holds which executors there are and from when on each may
// be used (manager facts, section 4.4): a YAML file
//
//	executor_versions:
//	  v0.2.16: {available_after: 2025-11-01T00:00:00Z}
//
// and the two ways to choose from it, by major number and by pattern. A version
// that a request names literally is not looked up here.
package manifest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Entry is one executor of the manifest.
type Entry struct {
	Name           string // the key, which is the executor's directory
	Version        Version
	AvailableAfter time.Time
}

// Manifest is a manifest that was read. It does not change.
type Manifest struct{ entries []Entry } // ascending by version

// ErrNoMatch is wrapped by Major and Pattern when no executor fits.
var ErrNoMatch = errors.New("no executor version matches")

// Read reads the manifest at path. Its errors name the file and the line.
func Read(path string) (*Manifest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w; give its path by --manifest-path", err)
	}
	m, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the manifest %q: %w", path, err)
	}
	return m, nil
}

// Parse reads a manifest's text. Keys beside executor_versions are ignored, as
// is what an entry holds beside available_after.
func Parse(text []byte) (*Manifest, error) {
	var doc struct {
		Versions yaml.Node `yaml:"executor_versions"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Versions.Kind == 0 {
		return nil, errors.New(`the key "executor_versions" is missing`)
	}
	if doc.Versions.Kind != yaml.MappingNode {
		return nil, fmt.Errorf(`line %d: "executor_versions" is not a map`, doc.Versions.Line)
	}
	m := &Manifest{}
	seen := map[Version]string{}
	for i := 0; i < len(doc.Versions.Content); i += 2 {
		key := doc.Versions.Content[i]
		e, err := entry(key.Value, doc.Versions.Content[i+1])
		if err != nil {
			return nil, fmt.Errorf("line %d: version %q: %w", key.Line, key.Value, err)
		}
		// EXECUTOR-9: two directories for one number would leave the choice to chance.
		if other, twice := seen[e.Version]; twice {
			return nil, fmt.Errorf("line %d: version %q has the same number as %q: remove one of them", key.Line, key.Value, other)
		}
		seen[e.Version] = key.Value
		m.entries = append(m.entries, e)
	}
	slices.SortFunc(m.entries, func(a, b Entry) int { return a.Version.Compare(b.Version) })
	return m, nil
}

func entry(name string, node *yaml.Node) (Entry, error) {
	v, err := ParseVersion(name)
	if err != nil {
		return Entry{}, err
	}
	var fields struct {
		AvailableAfter *string `yaml:"available_after"`
	}
	if err := node.Decode(&fields); err != nil {
		return Entry{}, err
	}
	if fields.AvailableAfter == nil {
		return Entry{}, errors.New(`"available_after" is missing`)
	}
	at, err := time.Parse(time.RFC3339, *fields.AvailableAfter)
	if err != nil {
		return Entry{}, fmt.Errorf(`"available_after" is no RFC 3339 time: %w`, err)
	}
	return Entry{Name: name, Version: v, AvailableAfter: at}, nil
}

// Choice is what was chosen, and whether only because nothing was available at
// the time that was asked for.
type Choice struct {
	Entry
	Early bool
}

// Major chooses the newest executor of a major number that is available at the
// time. Where none is, it chooses the newest of that number, marked Early.
func (m *Manifest) Major(major uint32, at time.Time) (Choice, error) {
	c, err := m.choose(at, func(e Entry) bool { return e.Version.Major == major })
	if err != nil {
		return c, fmt.Errorf("%w major %d", err, major)
	}
	return c, nil
}

// Pattern chooses as Major does among the keys that the regular expression
// finds something in.
func (m *Manifest) Pattern(pattern string, at time.Time) (Choice, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Choice{}, fmt.Errorf("cannot read the version pattern: %w", err)
	}
	// EXECUTOR-7: unanchored, as the founding document's search is.
	c, err := m.choose(at, func(e Entry) bool { return re.MatchString(e.Name) })
	if err != nil {
		return c, fmt.Errorf("%w pattern %q", err, pattern)
	}
	return c, nil
}

// choose takes the newest that fits. The facts then step to the next patch
// number while that is available, too; the newest by major, minor and patch
// number has no such successor, so there is nothing to step to.
func (m *Manifest) choose(at time.Time, fits func(Entry) bool) (Choice, error) {
	var early *Entry
	for i := len(m.entries) - 1; i >= 0; i-- {
		e := &m.entries[i]
		if !fits(*e) {
			continue
		}
		// EXECUTOR-5: available from the very moment on that the manifest names.
		if !e.AvailableAfter.After(at) {
			return Choice{Entry: *e}, nil
		}
		if early == nil {
			early = e
		}
	}
	if early == nil {
		return Choice{}, ErrNoMatch
	}
	// EXECUTOR-6: rather a run with a version from later than none.
	return Choice{Entry: *early, Early: true}, nil
}

// Entries lists the executors, oldest first. The slice is the caller's.
func (m *Manifest) Entries() []Entry { return slices.Clone(m.entries) }
