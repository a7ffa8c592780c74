package compat

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

const committed = "../../api/schema/"

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t testing.TB, text []byte) *Document {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func reference(t *testing.T) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(read(t, "testdata/reference.txt"))) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// difference is a group of lines with one reason.
type difference struct {
	Lines  []string `toml:"lines"`
	Reason string   `toml:"reason"`
}

func differences(t *testing.T) []difference {
	t.Helper()
	var file struct {
		Difference []difference `toml:"difference"`
	}
	meta, err := toml.DecodeFile("testdata/differences.toml", &file)
	if err != nil || len(meta.Undecoded()) > 0 {
		t.Fatalf("cannot read the differences: %v, unknown keys %v", err, meta.Undecoded())
	}
	return file.Difference
}

// disagreements returns what is wrong between a table, ours and the listed
// differences.
func disagreements(table, ours []string, listed []difference) []string {
	explained := map[string]int{}
	var wrong []string
	for _, d := range listed {
		if d.Reason == "" || len(d.Lines) == 0 {
			wrong = append(wrong, "a difference without a reason or without lines")
		}
		for _, l := range d.Lines {
			explained[l]++
		}
	}
	found := func(line string) {
		if explained[line] == 0 {
			wrong = append(wrong, "not listed: "+line)
		}
		explained[line]--
	}
	for _, l := range table {
		if !slices.Contains(ours, l) {
			found("- " + l)
		}
	}
	for _, l := range ours {
		if !slices.Contains(table, l) {
			found("+ " + l)
		}
	}
	for l, n := range explained {
		if n > 0 {
			wrong = append(wrong, "listed, but no difference: "+l)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestReferenceTable compares our schema with the reference's, line by line.
func TestReferenceTable(t *testing.T) {
	t.Attr("requirement", "SCHEMA-2")
	table, ours := reference(t), Lines(parse(t, read(t, committed+"current.json")))
	if len(table) != 223 {
		t.Errorf("the table has %d lines, want 223", len(table))
	}
	for _, w := range disagreements(table, ours, differences(t)) {
		t.Error(w)
	}
}

// TestReferenceOrder checks that the routes which the reference lists come in
// its order, whatever else ours lists between them.
func TestReferenceOrder(t *testing.T) {
	t.Attr("requirement", "SCHEMA-3")
	routes := func(lines []string) (out []string) {
		for _, l := range lines {
			if strings.HasPrefix(l, "route ") {
				out = append(out, l)
			}
		}
		return out
	}
	want := routes(reference(t))
	got := slices.DeleteFunc(routes(Lines(parse(t, read(t, committed+"current.json")))), func(l string) bool { return !slices.Contains(want, l) })
	if !slices.Equal(got, want) || len(want) != 20 {
		t.Errorf("%d routes, want them as in the table:\n got %q\nwant %q", len(want), got, want)
	}
}

// TestDisagreements checks the judge of the table: each way to disagree turns
// it red.
func TestDisagreements(t *testing.T) {
	listed := []difference{{[]string{"+ new", "- old"}, "because"}}
	for _, c := range []struct {
		name        string
		table, ours []string
		listed      []difference
		want        string
	}{
		{"equal but for the listed", []string{"a", "old"}, []string{"a", "new"}, listed, ""},
		{"ours lost a line", []string{"a", "b", "old"}, []string{"a", "new"}, listed, "not listed: - b"},
		{"ours has another line", []string{"a", "old"}, []string{"a", "b", "new"}, listed, "not listed: + b"},
		{"listed and not so", []string{"a"}, []string{"a", "new"}, listed, "listed, but no difference: - old"},
		{"twice in ours", []string{"old"}, []string{"new", "new"}, listed, "not listed: + new"},
		{"no reason", []string{"old"}, []string{"new"}, []difference{{listed[0].Lines, ""}}, "a difference without a reason or without lines"},
	} {
		if got := strings.Join(disagreements(c.table, c.ours, c.listed), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
