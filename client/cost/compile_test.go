package cost_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// checked shares one importer, which reads this module and its dependencies from
// source: no network, no build.
var checked = sync.OnceValue(func() types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "source", nil)
})

// compile type-checks one program and returns its errors as "line: message".
func compile(t *testing.T, name, text string) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	config := types.Config{Importer: checked(), Error: func(err error) {
		e := err.(types.Error) //nolint:errorlint // documented as the dynamic type; another is a panic
		found = append(found, fmt.Sprintf("%d: %s", set.Position(e.Pos).Line, strings.ReplaceAll(strings.ReplaceAll(e.Msg, "\n", " "), "\t", "")))
	}}
	_, _ = config.Check("main", set, []*ast.File{file}, nil)
	return found
}

// expected is the one error that a program states, as "line: message".
func expected(text string) (string, error) {
	want := ""
	for i, line := range strings.Split(text, "\n") {
		if _, message, ok := strings.Cut(line, "// refused: "); ok {
			if want != "" {
				return "", fmt.Errorf("two errors are stated")
			}
			want = fmt.Sprintf("%d: %s", i+1, message)
		}
	}
	if want == "" {
		return "", fmt.Errorf("no error is stated")
	}
	return want, nil
}

// judge says what is wrong with a program that must not compile, or "".
func judge(t *testing.T, name, text string) string {
	want, err := expected(text)
	if err != nil {
		return err.Error()
	}
	got := compile(t, name, text)
	if len(got) != 1 || got[0] != want {
		return fmt.Sprintf("got %q, want only %q", got, want)
	}
	return ""
}

// TestWrongSumsDoNotCompile checks that each program of testdata/refused has
// exactly the compile error that it states, and that the right forms have none.
func TestWrongSumsDoNotCompile(t *testing.T) {
	for _, id := range []string{"COST-1", "COST-2", "COST-3", "COST-4", "BIND-5"} {
		t.Attr("requirement", id)
	}
	text, err := os.ReadFile("testdata/accepted.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := compile(t, "accepted.go", string(text)); len(got) > 0 {
		t.Fatalf("the right forms do not compile: %q", got)
	}
	paths, err := filepath.Glob("testdata/refused/*.go")
	if err != nil || len(paths) < 28 {
		t.Fatalf("%d programs, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := judge(t, filepath.Base(path), string(text)); wrong != "" {
			t.Errorf("%s: %s", path, wrong)
		}
	}
}

// TestCompileJudgeFails shows the judge in its red states.
func TestCompileJudgeFails(t *testing.T) {
	const good = "package main\n\nvar x int = \"\" // refused: cannot use \"\" (untyped string constant) as int value in variable declaration\n"
	for name, tc := range map[string]struct{ text, want string }{
		"right":     {good, ""},
		"compiles":  {strings.Replace(good, `""`, "1", 1), `got [], want only "3: cannot use`},
		"other":     {strings.Replace(good, `int = ""`, "int = 1.5", 1), "constant"},
		"line":      {strings.Replace(good, " //", "\n//", 1), `want only "4: `},
		"more":      {good + "\nvar y int = \"\"\n", "want only"},
		"unstated":  {"package main\n", "no error is stated"},
		"ambiguous": {good + "// refused: x\n", "two errors are stated"},
	} {
		if got := judge(t, name+".go", tc.text); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
