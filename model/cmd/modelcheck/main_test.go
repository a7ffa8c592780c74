package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"microvms/model"
)

// light is a traffic light that may be broken.
type light struct{ Green, Red bool }

func lightModel(broken, fair bool) model.Model[light] {
	m := model.Model[light]{
		Name: "light", Actions: []model.ActionInfo{{Name: "Go"}, {Name: "Stop"}},
		Init: func(out []light) []light { return append(out, light{Red: true}) },
		Next: func(s light, out []model.Step[light]) []model.Step[light] {
			if s.Red {
				out = append(out, model.Step[light]{Action: model.Act(0), State: light{Green: true, Red: broken}})
			}
			if s.Green {
				out = append(out, model.Step[light]{Action: model.Act(1), State: light{Red: true}})
			}
			return out
		},
		Properties: []model.Property[light]{
			model.Always("never both", func(s light) bool { return !s.Green || !s.Red }, "LIGHT-1"),
			model.Sometimes("green is seen", func(s light) bool { return s.Green }),
		},
	}
	if fair {
		m.Properties = append(m.Properties, model.LeadsTo("red leads to green", func(s light) bool { return s.Red }, func(s light) bool { return s.Green }))
		m.Fairness = []model.Fairness{model.Weak("stops", 1)}
	}
	return m
}

func lightCase(name string, broken, fair bool, x model.Expect) model.Case {
	return model.NewCase(name, func() model.Model[light] { return lightModel(broken, fair) }, x)
}

// word has a state that is refused.
type word struct{ S string }

// testSuites is the catalogue of the scripts: one suite in order, and one fault
// of a catalogue each.
func testSuites() []model.Suite {
	held := lightCase("held", false, false, model.Expect{Distinct: 2, States: 3, Depth: 2})
	broken := lightCase("broken", true, false, model.Expect{Distinct: 2, Violated: map[string]int{"never both": 1}, Deviation: "red stays on"})
	suites := map[string][]model.Suite{
		"": {
			{Name: "light", Summary: "a traffic light", Cases: []model.Case{held, broken}},
			{Name: "stuck", Summary: "a traffic light that may stay red", Cases: []model.Case{lightCase("stuck", false, true, model.Expect{Violated: map[string]int{"red leads to green": 0}})},
				NotSeeded: map[string]string{"never both": "the suite light does"}},
		},
		"unexpected": {{Name: "light", Cases: []model.Case{
			lightCase("wrong-count", false, false, model.Expect{Distinct: 3, Violated: map[string]int{}}),
			lightCase("wrong-length", true, false, model.Expect{Violated: map[string]int{"never both": 2}, Deviation: "red stays on"}),
			lightCase("one-too-few", true, false, model.Expect{Violated: map[string]int{"green is seen": 0}, Deviation: "red stays on"}),
			lightCase("no-such-property", false, false, model.Expect{Violated: map[string]int{"never blue": 1}}),
		}}},
		"unchallenged": {{Name: "light", Cases: []model.Case{held}}},
		"stale":        {{Name: "light", Cases: []model.Case{held, broken}, NotSeeded: map[string]string{"never both": "once it was needed", "gone": "so was this"}}},
		"refused": {{Name: "word", Cases: []model.Case{model.NewCase("word", func() model.Model[word] {
			return model.Model[word]{Name: "word", Init: func(out []word) []word { return out }, Next: func(_ word, out []model.Step[word]) []model.Step[word] { return out }}
		}, model.Expect{})}}},
		"panics": {{Name: "light", Cases: []model.Case{model.NewCase("panics", func() model.Model[light] {
			m := lightModel(false, false)
			m.Properties[0].State = func(s light) bool {
				if s.Green {
					panic("too bright")
				}
				return true
			}
			return m
		}, model.Expect{})}}},
		"empty": {},
	}
	return suites[os.Getenv("SUITES")]
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"modelcheck": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(runOn(ctx, testSuites(), os.Args[1:], os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs testdata/script: what a user types, and every byte that they
// see.
func TestScripts(t *testing.T) {
	t.Attr("requirement", "CHECK-16")
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits}})
}

// exits runs a command and compares its exit code: exits CODE modelcheck ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if e, ok := err.(interface{ ExitCode() int }); ok {
		got = []string{"0", "1", "2", "3", "4"}[e.ExitCode()]
	} else if err != nil {
		ts.Fatalf("cannot run %q: %v", args[1], err)
	}
	if got != args[0] {
		ts.Fatalf("%v exits with %s, want %s", args[1:], got, args[0])
	}
}

// TestOutputThatIsLost: a report that nobody can have read is no pass, whichever
// command wrote it.
func TestOutputThatIsLost(t *testing.T) {
	t.Attr("requirement", "CHECK-16")
	full := writer(func([]byte) (int, error) { return 0, syscall.ENOSPC })
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"check", "light"}, {"check", "light:held", "--json"}, {"cover", "light:held"}, {"graph", "light:held"},
		{"simulate", "light:held"}, {"export", "light:held"},
	} {
		var stderr strings.Builder
		code := runOn(t.Context(), testSuites(), args, full, &stderr)
		if code != exitInconclusive || stderr.String() != "modelcheck: cannot write the output: "+syscall.ENOSPC.Error()+"\n" {
			t.Errorf("%q on a full disk exits with %d and says %q", args, code, stderr.String())
		}
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestRunOnTheCatalogue: the command knows the models of the module.
func TestRunOnTheCatalogue(t *testing.T) {
	t.Attr("requirement", "CHECK-16")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if code := run(context.Background(), []string{"list"}, null, null); code != exitHolds {
		t.Errorf("list exits with %d", code)
	}
	if code := run(context.Background(), []string{"check", "no-such-model"}, null, null); code != exitUsage {
		t.Errorf("check of no model exits with %d", code)
	}
}
