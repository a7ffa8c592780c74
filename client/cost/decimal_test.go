package cost

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"
)

// TestFloatsEnterByTheirShortestText checks that a float is taken for the number
// that its writer meant, and that what is no price is refused.
func TestFloatsEnterByTheirShortestText(t *testing.T) {
	t.Attr("requirement", "COST-6")
	for f, want := range map[float64]string{0: "0", math.Copysign(0, -1): "0", 0.1: "0.1", 0.3: "0.3", 1.1: "1.1", 1e-6: "0.000001", 3600: "3600", 1e27: "1" + strings.Repeat("0", 27),
		0.0000276944: "0.0000276944", 2628000.5: "2628000.5", 1e-28: "0." + strings.Repeat("0", 27) + "1"} {
		d, err := decimalOf("x", f)
		if err != nil || plain(d) != want || d.Negative {
			t.Errorf("%v: %v, %v; want %s", f, d, err, want)
		}
	}
	for f, want := range map[float64]string{math.Inf(1): "is no number", math.Inf(-1): "is no number", -1: "is negative", -1e-300: "is negative",
		1e28: "has 29 digits, the most is 28", 1e-29: "has 29 digits", math.MaxFloat64: "has 309 digits", math.SmallestNonzeroFloat64: "has 324 digits",
		1234567890123456.5e-13: ""} {
		_, err := decimalOf("x", f)
		if want == "" {
			if err != nil {
				t.Errorf("%v: %v", f, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", f, err, want)
		}
	}
	if _, err := decimalOf("x", math.NaN()); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(1e-9, 1e12).Draw(t, "f")
		d, err := decimalOf("x", f)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := strconv.ParseFloat(plain(d), 64); err != nil || back != f {
			t.Fatalf("%v came back as %v, %v", f, back, err)
		}
	})
}

// TestArithmeticRefusesToRound shows the guard in its red state: a sum that would
// need rounding is a defect, not a result.
func TestArithmeticRefusesToRound(t *testing.T) {
	t.Attr("requirement", "COST-6")
	tenth, long := apd.New(1, -1), apd.New(1, -2000)
	ten := make([]*apd.Decimal, 10)
	for i := range ten {
		ten[i] = tenth
	}
	if s := sum(ten...); s.Cmp(decimal(1)) != 0 {
		t.Errorf("ten tenths are %s", s)
	}
	for name, f := range map[string]func(){
		"sum": func() { sum(decimal(1), long) }, "difference": func() { difference(decimal(1), long) },
		"product": func() { product(apd.New(3, 0), sum(apd.New(1, -1000), decimal(1)), sum(apd.New(1, -1000), decimal(1))) },
	} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, "cost: internal error: ") || !strings.Contains(p, "inexact") {
					t.Errorf("%s: %q", name, p)
				}
			}()
			f()
			t.Errorf("%s: rounded in silence", name)
		}()
	}
	if q := quotient(decimal(2), decimal(3)); q.Text('f') != "0."+strings.Repeat("6", quotientDigits-1)+"7" {
		t.Errorf("2/3 = %s", q)
	}
	if q := quotient(decimal(1), decimal(8)); plain(q) != "0.125" {
		t.Errorf("1/8 = %s", q)
	}
}

// floatFiles are where a float may be named, and why. Everything else computes in
// decimal.
var floatFiles = map[string]string{
	"decimal.go": "the boundary",
	"plan.go":    "plain numbers of a plan, on the way to the boundary",
	"usage.go":   "a size on the way to the boundary",
	"compare.go": "a hold on the way to the boundary",
	"chart.go":   "places in a drawing, which are no figures",
}

// TestFloatsStayAtTheBoundary reads the package's own source: one function converts
// floats to decimals, and floats are named only where they are on the way to it.
func TestFloatsStayAtTheBoundary(t *testing.T) {
	t.Attr("requirement", "COST-6")
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen, conversions := 0, []string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			switch id.Name {
			case "float64", "float32":
				if seen++; floatFiles[path] == "" {
					t.Errorf("%s names %s", path, id.Name)
				}
			case "FormatFloat", "SetFloat64", "ParseFloat", "Float64", "SetFloat":
				conversions = append(conversions, path+" "+id.Name)
			}
			return true
		})
	}
	want := "chart.go Float64, chart.go SetFloat64, decimal.go FormatFloat"
	if got := strings.Join(conversions, ", "); got != want || seen == 0 {
		t.Errorf("conversions are %s, want %s; %d floats seen", got, want, seen)
	}
}

// TestDollarAxisLabels walks over the powers of ten.
func TestDollarAxisLabels(t *testing.T) {
	var got []string
	for e := -7; e <= 15; e++ {
		got = append(got, powerOfTen(e))
	}
	want := "$1e-7 $0.000001 $0.00001 $0.0001 $0.001 $0.01 $0.1 $1 $10 $100 $1000 $10k $100k $1M $10M $100M $1B $10B $100B $1T $10T $100T $1e15"
	if strings.Join(got, " ") != want {
		t.Errorf("labels are %q", got)
	}
}

// TestPlaces holds the rounding for show to half-even.
func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{"0.0000005": "0", "0.0000015": "0.000002", "0.0000025": "0.000002", "1.25": "1.25", "1371.29164811": "1371.291648", "100": "100"} {
		d, _, err := apd.NewFromString(text)
		if err != nil || shown(d) != want {
			t.Errorf("%s is shown as %s, want %s", text, shown(d), want)
		}
	}
}
