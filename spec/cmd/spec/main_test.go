package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/spec"
)

// tree copies the committed specification to a folder of its own and returns the
// path of its spec/.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spec")
	if err := os.CopyFS(dir, spec.Files()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func call(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(append([]string{"-dir", dir}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// replace edits one file of the tree; the old text must be there.
func replace(t *testing.T, dir, name, old, replacement string) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s does not contain %q", name, old)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(replacement), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLint: exit status 0 for the committed tree, 1 for a finding, with the place
// and code on a line, and the same as JSON.
func TestLint(t *testing.T) {
	t.Attr("requirement", "VERIFY-26")
	dir := tree(t)
	status, stdout, stderr := call(t, dir, "lint", "-strict")
	if status != 0 || !strings.Contains(stdout, "errors=0 warnings=0") {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	replace(t, dir, "requirements/agentd.toml", "install the token and answer 200", "quickly install the token and answer 200")
	status, stdout, _ = call(t, dir, "lint")
	if status != 1 || !strings.Contains(stdout, "requirements/agentd.toml:15: error SPEC-L008 AGENTD-2: ") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	status, stdout, _ = call(t, dir, "lint", "-json")
	var report spec.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != 1 || report.Errors() != 2 || report.Requirements == 0 {
		t.Errorf("status %d, error %v, %d errors (want the word and the changed text)\n%s", status, err, report.Errors(), stdout)
	}
}

// TestReviewAcceptsAChangedText: a changed text fails the lint until it is
// reviewed by name.
func TestReviewAcceptsAChangedText(t *testing.T) {
	t.Attr("requirement", "VERIFY-4")
	dir := tree(t)
	replace(t, dir, "requirements/agentd.toml", "install the token and answer 200", "answer 200 and install the token")
	if status, stdout, _ := call(t, dir, "lint"); status != 1 || !strings.Contains(stdout, "SPEC-L401 AGENTD-2") {
		t.Fatalf("status %d\n%s", status, stdout)
	}
	if status, _, stderr := call(t, dir, "review", "AGENTD-1"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if status, _, _ := call(t, dir, "lint"); status != 1 {
		t.Error("the review of another requirement accepts the text")
	}
	if status, _, stderr := call(t, dir, "review", "AGENTD-2"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if status, stdout, _ := call(t, dir, "lint"); status != 0 {
		t.Errorf("status %d after the review\n%s", status, stdout)
	}
}

// TestRender: -check tells a stale file from a current one, and a second rendering
// writes nothing.
func TestRender(t *testing.T) {
	t.Attr("requirement", "VERIFY-7")
	dir := tree(t)
	if status, stdout, _ := call(t, dir, "render", "-check"); status != 1 || !strings.Contains(stdout, "SPEC.md is stale") {
		t.Errorf("missing files: status %d, %s", status, stdout)
	}
	if status, _, stderr := call(t, dir, "render"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if status, stdout, _ := call(t, dir, "render", "-check"); status != 0 || stdout != "" {
		t.Errorf("fresh files: status %d, %s", status, stdout)
	}
	replace(t, dir, "requirements/agentd.toml", "install the token and answer 200", "answer 200 and install the token")
	if status, stdout, _ := call(t, dir, "render", "-check"); status != 1 || strings.Contains(stdout, "CODES.md") {
		t.Errorf("changed text: status %d, %s", status, stdout)
	}
}

// TestUsage: what cannot be done is status 2 with a reason on stderr.
func TestUsage(t *testing.T) {
	dir := tree(t)
	for _, args := range [][]string{{}, {"prove"}, {"lint", "-loud"}, {"lint", "x"}, {"render", "x"}, {"review"}, {"review", "-all", "AGENTD-1"}, {"review", "AGENTD" + "-99"}} {
		if status, _, stderr := call(t, dir, args...); status != 2 || stderr == "" && len(args) < 2 {
			t.Errorf("spec %v: status %d, stderr %q; want 2 and a reason", args, status, stderr)
		}
	}
	if status, _, stderr := call(t, filepath.Join(dir, "nowhere"), "lint"); status != 2 || !strings.Contains(stderr, "cannot load") {
		t.Errorf("a missing folder: status %d, %q", status, stderr)
	}
}

// full takes nothing, like a file system without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestLostReport: a report that was not written is not a pass, in either form.
func TestLostReport(t *testing.T) {
	for _, args := range [][]string{{"lint"}, {"lint", "-json"}, {"review", "-all"}} {
		var errs bytes.Buffer
		if status := run(append([]string{"-dir", tree(t)}, args...), full{}, &errs); status != 2 || !strings.Contains(errs.String(), "cannot write the report: no space left") {
			t.Errorf("%q: status %d, %s", args, status, errs.String())
		}
	}
}
