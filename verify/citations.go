package verify

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// Citation is a line of code that says which requirement it fulfils, and why:
// a comment `// AGENTD-2: why` in a Go file that is not a test.
type Citation struct {
	ID   string
	File string // path from the repository's root, with slashes
	Line int
	Why  string
}

// Ref returns "file:line".
func (c Citation) Ref() string { return fmt.Sprintf("%s:%d", c.File, c.Line) }

// Mention is any place in a Go file that names a requirement id: a comment or
// a string. Mentions are held to the requirements, so a typo cannot hide.
type Mention struct {
	ID   string
	File string
	Line int
}

// citing matches the start of a citation: one or more ids, a colon, a reason.
var citing = regexp.MustCompile(`^//\s*((?:[A-Z][A-Z0-9]*-\d+)(?:,\s*[A-Z][A-Z0-9]*-\d+)*):\s+(\S.*)`)

// idPattern matches what looks like an id; only those of known families count, because UTF-8 and SHA-256 do too.
var idPattern = regexp.MustCompile(`\b([A-Z][A-Z0-9]*)-(\d+)\b`)

// Scan reads every Go file below root from its syntax tree and returns its
// citations and its mentions of ids of the given families.
func Scan(root string, families map[string]bool) ([]Citation, []Mention, int, error) {
	var cites []Citation
	var mentions []Mention
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files++
		c, m, err := scanFile(path, filepath.ToSlash(rel), families)
		cites, mentions = append(cites, c...), append(mentions, m...)
		return err
	})
	if err != nil {
		return nil, nil, files, fmt.Errorf("cannot scan the code for citations: %w", err)
	}
	sort.Slice(cites, func(i, j int) bool {
		a, b := cites[i], cites[j]
		if a.ID != b.ID {
			return a.ID < b.ID
		}
		if a.File != b.File {
			return a.File < b.File
		}
		return a.Line < b.Line
	})
	return cites, mentions, files, nil
}

func scanFile(path, rel string, families map[string]bool) ([]Citation, []Mention, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	var cites []Citation
	var mentions []Mention
	mention := func(text string, pos token.Pos) {
		for _, m := range idPattern.FindAllStringSubmatch(text, -1) {
			if families[m[1]] {
				mentions = append(mentions, Mention{ID: m[0], File: rel, Line: set.Position(pos).Line})
			}
		}
	}
	test := strings.HasSuffix(rel, "_test.go")
	for _, group := range file.Comments {
		for _, c := range group.List {
			mention(c.Text, c.Pos())
			if m := citing.FindStringSubmatch(c.Text); m != nil && !test {
				for _, id := range strings.Split(m[1], ",") {
					cites = append(cites, Citation{ID: strings.TrimSpace(id), File: rel, Line: set.Position(c.Pos()).Line, Why: m[2]})
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			mention(lit.Value, lit.Pos())
		}
		return true
	})
	return cites, mentions, nil
}
