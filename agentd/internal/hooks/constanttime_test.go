package hooks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// holdsToken reports whether an expression is a token by its name, and not the
// length of one.
func holdsToken(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return false
		case *ast.Ident:
			name := strings.ToLower(n.Name)
			found = found || name == "token" || name == "presented"
		}
		return true
	})
	return found
}

// plainComparisons lists the places where a token is compared by other means
// than in constant time. The comparison with the empty string tells only that
// there is none.
func plainComparisons(t *testing.T, name string, src any) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	empty := func(e ast.Expr) bool { lit, ok := e.(*ast.BasicLit); return ok && lit.Value == `""` }
	add := func(n ast.Node) { places = append(places, set.Position(n.Pos()).String()) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && !empty(n.X) && !empty(n.Y) && (holdsToken(n.X) || holdsToken(n.Y)) {
				add(n)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && holdsToken(n.Tag) {
				add(n)
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Equal" && f.Sel.Name != "EqualFold" && f.Sel.Name != "Compare" && f.Sel.Name != "HasPrefix" {
				return true
			}
			for _, arg := range n.Args {
				if holdsToken(arg) {
					add(n)
				}
			}
		}
		return true
	})
	return places
}

// TestTokensAreComparedInConstantTime looks at how the code compares tokens,
// since a measured time tells nothing reliable: by equal alone, and equal by
// crypto/subtle.
func TestTokensAreComparedInConstantTime(t *testing.T) {
	t.Attr("requirement", "AUTHZ-1")
	for _, name := range []string{"hooks.go", "payload.go", "../httpapi/serve.go", "../httpapi/hooks.go"} {
		if places := plainComparisons(t, name, nil); len(places) > 0 {
			t.Errorf("tokens are compared at %v", places)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "hooks.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "equal" {
			continue
		}
		seen = true
		calls := map[string]int{}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				calls[s.X.(*ast.Ident).Name+"."+s.Sel.Name]++
			}
			return true
		})
		if len(fn.Body.List) != 1 || len(calls) != 1 || calls["subtle.ConstantTimeCompare"] != 1 {
			t.Errorf("equal has %d statements and calls %v, want crypto/subtle alone", len(fn.Body.List), calls)
		}
	}
	if !seen {
		t.Error("there is no function equal: the test has looked at nothing")
	}
}

// TestPlainComparisonsAreSeen plants comparisons that would tell a guess apart
// by its time.
func TestPlainComparisonsAreSeen(t *testing.T) {
	t.Attr("requirement", "AUTHZ-1")
	for body, want := range map[string]int{
		`return b.installed.Token == p.Token`:                1,
		`return presented != token`:                          1,
		`switch presented { case token: return true }`:       1,
		`return bytes.Equal([]byte(x), presented)`:           1,
		`return strings.HasPrefix(token, x)`:                 1,
		`return token == ""`:                                 0,
		`return equal(b.installed.Token, p.Token)`:           0,
		`return len(token) == len(x) && equal(token, other)`: 0,
	} {
		if got := plainComparisons(t, "x.go", "package x\nfunc f() bool { "+body+"; return false }\n"); len(got) != want {
			t.Errorf("%s: found %v, want %d", body, got, want)
		}
	}
}
