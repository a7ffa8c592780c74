package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sample = `
other: [ignored]
executor_versions:
  v0.1.9: {available_after: 2024-01-01T00:00:00Z}
  v0.2.0: {available_after: 2025-01-01T00:00:00Z}
  v0.2.1: {available_after: 2025-02-01T00:00:00Z, note: ignored}
  v0.2.2-rc1: {available_after: 2025-06-01T00:00:00Z}
  1.0.0: {available_after: "2030-01-01T00:00:00+01:00"}
`

func parse(t *testing.T, text string) *Manifest {
	t.Helper()
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func when(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestMajorTakesTheNewestAvailable(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-5")
	m := parse(t, sample)
	for _, tc := range []struct {
		at   string
		want string
	}{
		{"2024-06-01T00:00:00Z", "v0.1.9"},
		{"2025-01-01T00:00:00Z", "v0.2.0"}, // the very moment
		{"2025-01-31T23:59:59Z", "v0.2.0"},
		{"2025-03-01T00:00:00Z", "v0.2.1"},
		{"2026-01-01T00:00:00Z", "v0.2.2-rc1"}, // a suffix has no part in the order
	} {
		c, err := m.Major(0, when(t, tc.at))
		if err != nil || c.Name != tc.want || c.Early {
			t.Errorf("at %s: chose %q, early %v, error %v; want %q", tc.at, c.Name, c.Early, err, tc.want)
		}
	}
}

func TestMajorFallsBackToLaterVersions(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-6")
	m := parse(t, sample)
	c, err := m.Major(1, when(t, "2025-01-01T00:00:00Z"))
	if err != nil || c.Name != "1.0.0" || !c.Early {
		t.Errorf("chose %q, early %v, error %v; want 1.0.0, early", c.Name, c.Early, err)
	}
	if c, err := m.Major(0, when(t, "2020-01-01T00:00:00Z")); err != nil || c.Name != "v0.2.2-rc1" || !c.Early {
		t.Errorf("chose %q, early %v, error %v; want the newest of all, early", c.Name, c.Early, err)
	}
	if _, err := m.Major(7, when(t, "2025-01-01T00:00:00Z")); !errors.Is(err, ErrNoMatch) {
		t.Errorf("a major number that nobody has: error %v", err)
	}
}

func TestPatternIsSearchedUnanchored(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-7")
	m := parse(t, sample)
	at := when(t, "2026-01-01T00:00:00Z")
	for pattern, want := range map[string]string{
		`rc`: "v0.2.2-rc1", `^v0\.2\.[01]$`: "v0.2.1", `0\.1`: "v0.1.9", ``: "v0.2.2-rc1",
	} {
		if c, err := m.Pattern(pattern, at); err != nil || c.Name != want {
			t.Errorf("pattern %q: chose %q, error %v; want %q", pattern, c.Name, err, want)
		}
	}
	if _, err := m.Pattern("^nothing$", at); !errors.Is(err, ErrNoMatch) {
		t.Errorf("a pattern without a match: error %v", err)
	}
	if _, err := m.Pattern("(", at); err == nil || !strings.Contains(err.Error(), "version pattern") {
		t.Errorf("a pattern that is none: error %v", err)
	}
}

func TestManifestRefused(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-9")
	for name, tc := range map[string]struct{ text, want string }{
		"same number":     {"executor_versions:\n  v1.0.0: {available_after: 2024-01-01T00:00:00Z}\n  1.0.0-b: {available_after: 2024-01-01T00:00:00Z}\n", "line 3: version \"1.0.0-b\" has the same number as \"v1.0.0\""},
		"no version":      {"executor_versions:\n  latest: {available_after: 2024-01-01T00:00:00Z}\n", "line 2: version \"latest\""},
		"two numbers":     {"executor_versions:\n  v1.0: {available_after: 2024-01-01T00:00:00Z}\n", "vX.Y.Z"},
		"empty suffix":    {"executor_versions:\n  v1.0.0-: {available_after: 2024-01-01T00:00:00Z}\n", "vX.Y.Z"},
		"path suffix":     {"executor_versions:\n  v1.0.0-/../../x: {available_after: 2024-01-01T00:00:00Z}\n", "vX.Y.Z"},
		"slash in suffix": {"executor_versions:\n  v1.0.0-a/b: {available_after: 2024-01-01T00:00:00Z}\n", "vX.Y.Z"},
		"dotted suffix":   {"executor_versions:\n  v1.0.0-a..b: {available_after: 2024-01-01T00:00:00Z}\n", "vX.Y.Z"},
		"sign":            {"executor_versions:\n  v1.+0.0: {available_after: 2024-01-01T00:00:00Z}\n", "32 bits"},
		"beyond 32 bits":  {"executor_versions:\n  v4294967296.0.0: {available_after: 2024-01-01T00:00:00Z}\n", "32 bits"},
		"no time":         {"executor_versions:\n  v1.0.0: {}\n", "available_after"},
		"bad time":        {"executor_versions:\n  v1.0.0: {available_after: yesterday}\n", "RFC 3339"},
		"no map":          {"executor_versions: [v1.0.0]\n", "line 1"},
		"missing":         {"executors: {}\n", "missing"},
		"no YAML":         {"a: [", "line"},
	} {
		if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want one with %q", name, err, tc.want)
		}
	}
}

func TestReloadKeepsAGoodManifest(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-10")
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path); err == nil {
		t.Fatal("a file that is not there was opened")
	}
	write(sample)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write("executor_versions: 1\n")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file was taken, error %v", err)
	}
	if n := len(s.Current().Entries()); n != 5 {
		t.Errorf("%d versions after a failed reload, want the 5 from before", n)
	}
	write("executor_versions:\n  v3.0.0: {available_after: 2024-01-01T00:00:00Z}\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if e := s.Current().Entries(); len(e) != 1 || e[0].Version != (Version{3, 0, 0}) {
		t.Errorf("after a reload: %v", e)
	}
}

// TestChoiceHasNoAvailableSuccessor judges choices from generated manifests
// against the facts' own words: the highest that is available, from which no
// step to the next patch number leads to another available one.
func TestChoiceHasNoAvailableSuccessor(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-5")
	base := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		m := &Manifest{}
		for n := range uint32(3 * 3 * 4) {
			if rapid.Bool().Draw(t, "present") {
				m.entries = append(m.entries, Entry{
					Version:        Version{n / 12, n / 4 % 3, n % 4},
					AvailableAfter: base.AddDate(0, 0, rapid.IntRange(-2, 2).Draw(t, "days")),
				})
			}
		}
		major := rapid.Uint32Range(0, 2).Draw(t, "major")
		c, err := m.Major(major, base)
		for _, e := range m.entries {
			available := !e.AvailableAfter.After(base)
			switch {
			case e.Version.Major != major:
			case err != nil:
				t.Fatalf("nothing was chosen although %v is there", e)
			case c.Early && available:
				t.Fatalf("an early one was chosen although %v is available", e)
			case (available || c.Early) && e.Version.Compare(c.Version) > 0:
				t.Fatalf("%v was chosen and %v is higher", c, e)
			case available && e.Version == Version{c.Version.Major, c.Version.Minor, c.Version.Patch + 1}:
				t.Fatalf("%v was chosen and its next patch %v is available", c, e)
			}
		}
		if err == nil && c.Version.Major != major {
			t.Fatalf("%v has another major number", c)
		}
	})
}
