package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const committedDir = "../../api/schema"

// folder returns a copy of the committed folder with edits, given as file, old
// text and new text.
func folder(t *testing.T, edits ...[3]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"current.json", "released.json", "breaks.toml"} {
		text, err := os.ReadFile(filepath.Join(committedDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range edits {
			if e[0] != name {
				continue
			}
			if !bytes.Contains(text, []byte(e[1])) {
				t.Fatalf("%s does not contain %q", name, e[1])
			}
			text = bytes.Replace(text, []byte(e[1]), []byte(e[2]), 1)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// play runs the command and returns its exit status and what it wrote.
func play(args ...string) (int, string) {
	var out, errs bytes.Buffer
	status := run(args, &out, &errs)
	return status, out.String() + errs.String()
}

// TestCommittedSchemaIsCurrent runs the check on the committed folder: it is
// current, and keeps faith with the last release.
func TestCommittedSchemaIsCurrent(t *testing.T) {
	t.Attr("requirement", "SCHEMA-4")
	t.Attr("requirement", "SCHEMA-11")
	if status, out := play("-dir", committedDir, "check"); status != 0 || out != "" {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestCheckTurnsRed seeds what the check must find.
func TestCheckTurnsRed(t *testing.T) {
	t.Attr("requirement", "SCHEMA-4")
	t.Attr("requirement", "SCHEMA-10")
	gone := [3]string{"released.json", `"path": "/v1/procs"`, `"path": "/v1/gone"`}
	older := [3]string{"released.json", `"protocol_version": "2"`, `"protocol_version": "1"`}
	declared := [3]string{"breaks.toml", "[[framing]]", "[[break]]\nversion = \"2\"\nline = \"GET /v1/gone: the route disappeared\"\nreason = \"because\"\n\n[[framing]]"}
	for _, c := range []struct {
		name   string
		edits  [][3]string
		status int
		want   string
	}{
		{"clean", nil, 0, ""},
		{"stale", [][3]string{{"current.json", `"GET"`, `"PUT"`}}, 1, "current.json is stale"},
		{"one byte more", [][3]string{{"current.json", "{", "{ "}}, 1, "current.json is stale"},
		{"a break", [][3]string{gone}, 1, "break within protocol version 2: GET /v1/gone: the route disappeared"},
		{"a break in a new version", [][3]string{gone, older}, 1, "undeclared break: GET /v1/gone"},
		{"a declared break", [][3]string{gone, older, declared}, 0, ""},
		{"declared, and none", [][3]string{older, declared}, 1, "declared break that is none"},
		{"unreadable release", [][3]string{{"released.json", `"routes"`, `"root"`}}, 2, "released.json: cannot read the schema"},
		{"unreadable declarations", [][3]string{{"breaks.toml", "\nwhat ", "\nwhy "}}, 2, "unknown key"},
	} {
		status, out := play("-dir", folder(t, c.edits...), "check")
		if status != c.status || !strings.Contains(out, c.want) || (c.want == "") != (out == "") {
			t.Errorf("%s: status %d, %q; want %d, %q", c.name, status, out, c.status, c.want)
		}
	}
}

// TestRelease copies the current schema over the released one, and only when
// the check holds.
func TestRelease(t *testing.T) {
	t.Attr("requirement", "SCHEMA-4")
	older := [3]string{"released.json", `"/v1/procs"`, `"/v1/gone"`}
	dir := folder(t, older)
	if status, out := play("-dir", dir, "release"); status != 1 || !strings.Contains(out, "/v1/gone") {
		t.Errorf("over a break: status %d, %q", status, out)
	}
	dir = folder(t, [3]string{"released.json", `"summary": "`, `"summary": "once `})
	if status, out := play("-dir", dir, "release"); status != 0 {
		t.Fatalf("status %d, %q", status, out)
	}
	current, _ := os.ReadFile(filepath.Join(dir, "current.json"))
	released, _ := os.ReadFile(filepath.Join(dir, "released.json"))
	if !bytes.Equal(current, released) || len(current) == 0 {
		t.Error("the released schema is not the current one")
	}
}

// TestWrite writes into an empty folder what the committed one holds.
func TestWrite(t *testing.T) {
	t.Attr("requirement", "SCHEMA-4")
	dir := t.TempDir()
	if status, out := play("-dir", dir, "write"); status != 0 {
		t.Fatalf("status %d, %q", status, out)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "current.json"))
	want, err := os.ReadFile(filepath.Join(committedDir, "current.json"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes written, %d committed (%v)", len(got), len(want), err)
	}
}

// TestUsage checks the answers to what the command cannot do.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"paint"}, {"check", "more"}, {"-no"}, {"-dir", "no/such/folder", "check"}, {"-dir", "no/such/folder", "write"}} {
		if status, out := play(args...); status != 2 || out == "" {
			t.Errorf("%q: status %d, %q, want 2", args, status, out)
		}
	}
}

// full takes nothing, like a file system without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestLostReport: differences that nobody could read are no answer.
func TestLostReport(t *testing.T) {
	var errs bytes.Buffer
	dir := folder(t, [3]string{"current.json", `"path": "/v1/procs"`, `"path": "/v1/gone"`})
	if status := run([]string{"-dir", dir, "check"}, full{}, &errs); status != 2 || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("status %d, %s", status, errs.String())
	}
}
