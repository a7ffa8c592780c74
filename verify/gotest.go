package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"time"
)

// TestOutcome is how one test of one package ended.
type TestOutcome string

const (
	Passed  TestOutcome = "pass"
	Failed  TestOutcome = "fail"
	Skipped TestOutcome = "skip"
	// Unfinished: the test started and no end was seen, because its process died or was stopped.
	Unfinished TestOutcome = "unfinished"
)

// Test is one test or subtest that ran.
type Test struct {
	Package string
	Name    string // "TestX" or "TestX/sub"
	Outcome TestOutcome
	Seconds float64
	Output  string // kept only for tests that failed or were skipped
	claims  []string
}

// TestRun is what `go test -json` reported.
type TestRun struct {
	Tests    []*Test
	Packages map[string]TestOutcome // by import path; Failed also when the package did not build
	Output   map[string]string      // output outside any test of the packages that failed
	byName   map[[2]string]*Test
}

// testEvent is one line of `go test -json` (cmd/test2json's documentation).
type testEvent struct {
	Action, Package, Test, Output, Key, Value string
	ImportPath                                string
	Elapsed                                   float64
}

// ParseTests reads the output of `go test -json`. Lines that are not events (a
// compiler's message) are kept as output of the package "". each, when not nil,
// is called for each test that ended, for progress.
func ParseTests(r io.Reader, each func(*Test)) (*TestRun, error) {
	run := &TestRun{Packages: map[string]TestOutcome{}, Output: map[string]string{}, byName: map[[2]string]*Test{}}
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			run.add(line, each)
		}
		if errors.Is(err, io.EOF) {
			return run, nil
		}
		if err != nil {
			return run, fmt.Errorf("cannot read the test events: %w", err)
		}
	}
}

func (r *TestRun) add(line []byte, each func(*Test)) {
	var e testEvent
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		r.Output[""] += string(line)
		return
	}
	if e.Test == "" {
		r.addPackage(e)
		return
	}
	t := r.byName[[2]string{e.Package, e.Test}]
	if t == nil {
		t = &Test{Package: e.Package, Name: e.Test, Outcome: Unfinished}
		r.byName[[2]string{e.Package, e.Test}] = t
		r.Tests = append(r.Tests, t)
	}
	switch e.Action {
	case "attr":
		if e.Key == "requirement" {
			t.claims = append(t.claims, strings.Fields(e.Value)...)
		}
	case "output":
		t.Output += e.Output
	case "pass", "fail", "skip":
		t.Outcome, t.Seconds = TestOutcome(e.Action), e.Elapsed
		if t.Outcome == Passed {
			t.Output = ""
		}
		if each != nil {
			each(t)
		}
	}
}

func (r *TestRun) addPackage(e testEvent) {
	switch e.Action {
	case "pass", "fail", "skip":
		r.Packages[e.Package] = TestOutcome(e.Action)
		if e.Action != "fail" {
			delete(r.Output, e.Package)
		}
	case "build-fail":
		r.Packages[e.ImportPath] = Failed
	case "build-output":
		r.Output[e.ImportPath] += e.Output
	case "output":
		r.Output[e.Package] += e.Output
	}
}

// Claims returns, for each requirement id, the tests that count as evidence for it: they ran, they passed, and
// no subtest of theirs was skipped or failed. Names are "package:Test", sorted.
func (r *TestRun) Claims() map[string][]string {
	spoiled := map[[2]string]bool{}
	for _, t := range r.Tests {
		if t.Outcome == Passed {
			continue
		}
		// VERIFY-6: a skip or failure below a test spoils the claims of every test above it, for the claim spoke of all of it.
		for name := t.Name; ; {
			spoiled[[2]string{t.Package, name}] = true
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
		}
	}
	claims := map[string][]string{}
	for _, t := range r.Tests {
		if spoiled[[2]string{t.Package, t.Name}] {
			continue
		}
		for _, id := range t.claims {
			claims[id] = append(claims[id], shortPackage(t.Package)+":"+t.Name)
		}
	}
	for _, refs := range claims {
		sort.Strings(refs)
	}
	return claims
}

// ClaimedIDs returns every id that a test named, whether or not the claim counts.
func (r *TestRun) ClaimedIDs() map[string]string {
	ids := map[string]string{}
	for _, t := range r.Tests {
		for _, id := range t.claims {
			if ids[id] == "" {
				ids[id] = shortPackage(t.Package) + ":" + t.Name
			}
		}
	}
	return ids
}

// Has reports whether a top-level test of that package (path without the module) ran.
func (r *TestRun) Has(pkg, name string) bool {
	_, ok := r.byName[[2]string{modulePath + "/" + pkg, name}]
	return ok
}

// Totals counts tests and subtests by outcome.
func (r *TestRun) Totals() (passed, failed, skipped int) {
	for _, t := range r.Tests {
		switch t.Outcome {
		case Passed:
			passed++
		case Skipped:
			skipped++
		default:
			failed++
		}
	}
	return passed, failed, skipped
}

const modulePath = "microvms"

func shortPackage(p string) string { return strings.TrimPrefix(p, modulePath+"/") }

// goTest runs `go test -json` with the given arguments in dir and parses it. The error is about running it at all;
// failing tests are in the result.
func goTest(ctx context.Context, dir string, env []string, each func(*Test), args ...string) (*TestRun, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// The whole group is ended on a bound, or test binaries would outlive the go command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot open a pipe for go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start go test: %w", err)
	}
	run, parseErr := ParseTests(out, each)
	waitErr := cmd.Wait()
	if parseErr != nil {
		return run, parseErr
	}
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		return run, fmt.Errorf("cannot run go test: %w", waitErr)
	}
	if len(run.Tests) == 0 && waitErr != nil {
		return run, fmt.Errorf("go test ran no test: %s", firstLines(stderr.String()+allOutput(run), 20))
	}
	return run, nil
}

func allOutput(r *TestRun) string {
	keys := make([]string, 0, len(r.Output))
	for k := range r.Output {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(r.Output[k])
	}
	return b.String()
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", n+1)
	if len(lines) > n {
		lines = append(lines[:n], "…")
	}
	return strings.Join(lines, "\n")
}
