package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// What a text can send its reader to.
var (
	namedCommand  = regexp.MustCompile(`\bmicrovm ([a-z][a-z-]*)`)
	namedFlag     = regexp.MustCompile(`(?:^|[\s'"(])--([a-z][a-z-]+)`)
	namedDocument = regexp.MustCompile(`\b([A-Za-z]+/[A-Za-z/]+\.md)\b`)
)

// deadEnds are the commands, flags and documents in a text that do not exist.
func deadEnds(text string, commands, flags []string, exists func(document string) bool) (bad []string) {
	for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(commands, m[1]) {
			bad = append(bad, m[0])
		}
	}
	for _, m := range namedFlag.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(flags, m[1]) {
			bad = append(bad, "--"+m[1])
		}
	}
	for _, m := range namedDocument.FindAllStringSubmatch(text, -1) {
		if !exists(m[1]) {
			bad = append(bad, m[1])
		}
	}
	return bad
}

// vocabulary is every command and flag of the tree.
func vocabulary(t *testing.T) (commands, flags []string) {
	t.Helper()
	parser, err := kong.New(&root{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range parser.Model.Children {
		commands = append(commands, cmd.Name)
	}
	for _, cmd := range parser.Model.Leaves(false) {
		for _, group := range cmd.AllFlags(false) {
			for _, flag := range group {
				flags = append(flags, flag.Name)
				if flag.Tag.Negatable != "" {
					flags = append(flags, "no-"+flag.Name)
				}
			}
		}
	}
	return commands, flags
}

func inRepository(document string) bool {
	_, err := os.Stat(filepath.Join("../../..", document))
	return err == nil
}

// No text of the command, and none of the library's errors, sends its reader to
// a command, flag or document that does not exist.
func TestTextsLeadSomewhere(t *testing.T) {
	t.Attr("requirement", "CLI-33")
	commands, flags := vocabulary(t)
	seen := 0
	for _, pattern := range []string{"*.go", "../../*.go", "../../folder/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, text := range literals(t, path) {
				seen += len(namedCommand.FindAllString(text, -1)) + len(namedFlag.FindAllString(text, -1)) + len(namedDocument.FindAllString(text, -1))
				for _, bad := range deadEnds(text, commands, flags, inRepository) {
					t.Errorf("%s: %.60q names %q, which does not exist", path, text, bad)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d names were looked at", seen)
	}
}

// literals are the string literals of a file; those that + joins are one text.
func literals(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil {
				texts = append(texts, tag)
			}
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// The judge sees what is wrong.
func TestDeadEndsAreFound(t *testing.T) {
	t.Attr("requirement", "CLI-33")
	commands, flags := []string{"exec"}, []string{"json"}
	for text, want := range map[string]string{
		"try microvm exec --json":     "",
		"a microvm.exec envelope":     "",
		"microvm doctor knows":        "microvm doctor",
		"give --nope":                 "--nope",
		"see docs/NONE.md, 'x'":       "docs/NONE.md",
		"see docs/PLATFORM.md, 'x'":   "",
		"(microvm logs) and --other=": "microvm logs --other",
	} {
		if got := strings.Join(deadEnds(text, commands, flags, inRepository), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Each finding that an error names is a heading of the document that it names.
func TestFindingsAreDocumented(t *testing.T) {
	t.Attr("requirement", "CLI-33")
	text, err := os.ReadFile("../../../docs/PLATFORM.md")
	if err != nil {
		t.Fatal(err)
	}
	lines, findings := strings.Split(string(text), "\n"), 0
	for _, row := range exitTable {
		if row.Finding == "" {
			continue
		}
		findings++
		if !slices.Contains(lines, "## "+row.Finding) {
			t.Errorf("no heading %q", row.Finding)
		}
	}
	if findings < 5 {
		t.Errorf("only %d findings were looked at", findings)
	}
}
