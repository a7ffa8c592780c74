package verify

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
	"time"
)

// TestOptions say how RunTests runs the tests.
type TestOptions struct {
	Root       string
	Race       string // "auto" (when a C compiler is there), "on" or "off"
	FailOnSkip bool
	Packages   []string // default ./...
	Out        io.Writer
}

// largePackages hold tests that do not exist under the race detector (build constraint !race): model counts above a
// million generated states. After a run with the detector they run once more without it.
var largePackages = []string{"./model/..."}

// RunTests runs every test and ends with one summary line. It returns 0, or 1 when a test failed, none ran, or one was
// skipped while that is not allowed.
func RunTests(ctx context.Context, o TestOptions) int {
	packages := o.Packages
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	race := o.Race == "on"
	if o.Race == "auto" {
		_, err := exec.LookPath("gcc")
		if err != nil {
			_, err = exec.LookPath("cc")
		}
		race = err == nil
		if !race {
			fmt.Fprintln(o.Out, "no C compiler: running without the race detector")
		}
	}
	var sum testSum
	if race {
		env := []string{"CGO_ENABLED=1"}
		if os.Getenv("GORACE") == "" {
			// A race is reported where it is seen; the second of sleep at each exit is paid by every child that is a test binary.
			env = append(env, "GORACE=atexit_sleep_ms=0")
		}
		sum.pass(ctx, o, env, append([]string{"-race"}, packages...))
		if len(o.Packages) == 0 {
			fmt.Fprintln(o.Out, "model counts above a million states, without the race detector:")
			sum.pass(ctx, o, nil, largePackages)
		}
	} else {
		sum.pass(ctx, o, nil, packages)
	}
	for _, name := range sum.skips {
		fmt.Fprintf(o.Out, "skipped: %s\n", name)
	}
	fmt.Fprintf(o.Out, "%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	if sum.failed > 0 || sum.broken || sum.passed == 0 || (o.FailOnSkip && sum.skipped > 0) {
		return 1
	}
	return 0
}

type testSum struct {
	passed, failed, skipped int
	skips                   []string
	broken                  bool
}

func (s *testSum) pass(ctx context.Context, o TestOptions, env []string, args []string) {
	start := time.Now()
	run, err := goTest(ctx, o.Root, env, nil, append([]string{"-count=1", "-timeout=20m"}, args...)...)
	if err != nil {
		fmt.Fprintf(o.Out, "cannot run the tests: %v\n", err)
		s.broken = true
	}
	if run == nil {
		return
	}
	passed, failed, skipped := run.Totals()
	s.passed, s.failed, s.skipped = s.passed+passed, s.failed+failed, s.skipped+skipped
	for _, t := range run.Tests {
		switch t.Outcome {
		case Failed, Unfinished:
			fmt.Fprintf(o.Out, "%s", t.Output)
		case Skipped:
			s.skips = append(s.skips, fmt.Sprintf("%s:%s: %s", shortPackage(t.Package), t.Name, skipReason(t.Output)))
		}
	}
	var names []string
	for name := range run.Packages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		switch run.Packages[name] {
		case Failed:
			s.broken = true
			fmt.Fprintf(o.Out, "FAIL\t%s\n%s", name, run.Output[name])
		case Passed:
			fmt.Fprintf(o.Out, "ok  \t%s\n", name)
		}
	}
	fmt.Fprintf(o.Out, "%.0f s\n", time.Since(start).Seconds())
}

// skipReason finds the sentence that a test gave to Skip.
func skipReason(output string) string {
	for _, l := range strings.Split(output, "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			if _, reason, ok := strings.Cut(l, ".go:"); ok {
				_, reason, _ = strings.Cut(reason, ": ")
				return reason
			}
			return l
		}
	}
	return "no reason given"
}
