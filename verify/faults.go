package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
)

// Fault is one plausible edit that breaks a rule, and the test that must turn
// red when it is made. The registry is verify/faults/*.toml.
type Fault struct {
	ID          string `toml:"id"`
	Requirement string `toml:"requirement"`
	File        string `toml:"file"`    // path from the repository's root
	Find        string `toml:"find"`    // text that occurs exactly once in the file
	Replace     string `toml:"replace"` // what the edit puts in its place
	Test        string `toml:"test"`    // "agentd/execution:TestKillIsIdempotent"
	Note        string `toml:"note"`    // what the edit gets wrong
	registry    string
}

// LoadFaults reads the registry below root. Unknown keys are refused.
func LoadFaults(root string) ([]Fault, error) {
	paths, err := filepath.Glob(filepath.Join(root, "verify", "faults", "*.toml"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the fault registry: %w", err)
	}
	sort.Strings(paths)
	var faults []Fault
	for _, p := range paths {
		var file struct {
			Fault []Fault `toml:"fault"`
		}
		meta, err := toml.DecodeFile(p, &file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the fault registry %q: %w", filepath.Base(p), err)
		}
		if u := meta.Undecoded(); len(u) > 0 {
			return nil, fmt.Errorf("cannot read the fault registry %q: unknown key %q", filepath.Base(p), u[0].String())
		}
		for i := range file.Fault {
			file.Fault[i].registry = filepath.Base(p)
		}
		faults = append(faults, file.Fault...)
	}
	return faults, nil
}

// checkFault says what keeps a fault from being seeded, or "" when nothing does: its anchor must match exactly once,
// its edit must change something, and its test must exist among the tests that ran.
func checkFault(root string, f Fault, ran func(pkg, test string) bool) string {
	where := fmt.Sprintf("fault %q (%s)", f.ID, f.registry)
	if f.ID == "" || f.Requirement == "" || f.File == "" || f.Find == "" || f.Test == "" || f.Note == "" {
		return where + ": id, requirement, file, find, test and note are all required"
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.File)))
	if err != nil {
		return fmt.Sprintf("%s: cannot read %q: correct the file field", where, f.File)
	}
	// VERIFY-10: an edit whose place is lost or ambiguous seeds nothing, and would look like a caught fault.
	switch n := strings.Count(string(text), f.Find); {
	case n == 0:
		return fmt.Sprintf("%s: the anchor does not occur in %q: the code moved on, correct the anchor", where, f.File)
	case n > 1:
		return fmt.Sprintf("%s: the anchor occurs %d times in %q: make it longer", where, n, f.File)
	case f.Find == f.Replace:
		return where + ": the edit changes nothing"
	}
	pkg, test, ok := strings.Cut(f.Test, ":")
	if !ok || !strings.HasPrefix(test, "Test") {
		return fmt.Sprintf("%s: test %q is not of the form \"package:TestName\"", where, f.Test)
	}
	top, _, _ := strings.Cut(test, "/")
	if ran != nil && !ran(pkg, top) {
		return fmt.Sprintf("%s: test %q did not run: correct its name or package", where, f.Test)
	}
	return ""
}
