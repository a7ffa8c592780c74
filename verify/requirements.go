package verify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"microvms/spec"
)

// requirementSet is what the other stages need of the specification.
type requirementSet struct {
	needs    []Need
	families map[string]bool
}

func loadRequirements(root string) (*requirementSet, error) {
	set, err := spec.Load(os.DirFS(filepath.Join(root, "spec")))
	if err != nil {
		return nil, err
	}
	return gatherNeeds(set), nil
}

// gatherNeeds turns a specification into rows for the matrix. Only approved requirements ask for evidence; a retired
// id stays known, so that a link to it can be named as such.
func gatherNeeds(set *spec.Set) *requirementSet {
	out := &requirementSet{families: map[string]bool{}}
	for i := range set.Requirements {
		r := &set.Requirements[i]
		out.families[r.Family()] = true
		n := Need{ID: r.ID, Family: r.Family(), Sentence: r.Sentence(), Waived: map[string]string{}, Retired: r.Status == spec.Retired}
		for _, l := range spec.Layers() {
			if r.Requires(l) {
				n.Layers = append(n.Layers, string(l))
			}
			if w, ok := set.Waived(r.ID, l); ok {
				n.Waived[string(l)] = fmt.Sprintf("%s (owed by %s until version %s)", w.Reason, w.Owner, w.Until)
			}
		}
		out.needs = append(out.needs, n)
	}
	return out
}

// lint judges the requirements' language and holds generated files to a fresh generation.
func (g *gate) lint(_ context.Context, s *Stage) {
	set, err := spec.Load(os.DirFS(filepath.Join(g.Root, "spec")))
	if err != nil {
		s.problem("%v", err)
		return
	}
	report := spec.Lint(set)
	s.count("requirements", int64(report.Requirements))
	s.count("terms", int64(report.Terms))
	s.count("checks", int64(report.Checks))
	s.count("waived findings", int64(report.Waived()))
	// VERIFY-4, VERIFY-26: among the findings are texts that changed since they were reviewed; a warning counts as well, since
	// nobody reads a list that is never empty.
	for _, f := range report.Findings {
		if f.Waived == "" {
			s.problem("spec/%s", f)
		}
	}
	for _, generated := range []struct {
		path  string
		fresh []byte
	}{
		{"SPEC.md", spec.RenderSpec(set)},
		{"spec/CODES.md", spec.RenderCodes()},
	} {
		s.count("generated files", 1)
		if p := stale(g.Root, generated.path, generated.fresh); p != "" {
			s.problem("%s", p)
		}
	}
	s.requireLooked("requirements", "checks", "generated files")
}

// stale says what is wrong with a generated file, or "".
func stale(root, path string, fresh []byte) string {
	have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return fmt.Sprintf("cannot read the generated file %q: run make generate", path)
	}
	// VERIFY-7: a stale rendering would let a reader hold the code to a rule that is no longer there.
	if !bytes.Equal(have, fresh) {
		return fmt.Sprintf("the generated file %q is stale: run make generate and commit it", path)
	}
	return ""
}
