package histories

import (
	"context"
	"runtime"
	"strings"
	"testing"
)

// TestFileHistoriesAreLinearizable races writes and reads of files and archives on paths that overlap.
func TestFileHistoriesAreLinearizable(t *testing.T) {
	r, err := Run(context.Background(), Config{
		Scope: ByPath, Histories: count(t, 300), Seed: 1, Workers: runtime.GOMAXPROCS(0), PerDaemon: 25,
		Start: startBinary, FailDir: "../failures", Root: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Write(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 {
		t.Errorf("%d histories were not decided", r.Undecided)
	}
	if r.Operations < 40*r.Histories || r.Overlapping < 3*r.Histories || r.Open == 0 {
		t.Errorf("%d operations, %d overlapping, %d open: a history has at least 40, of which 3 overlap", r.Operations, r.Overlapping, r.Open)
	}
}

func put(path string, mark byte, size int) Operation {
	return Operation{Kind: Put, Root: "/r", Path: path, Files: map[string]Fill{path: {{mark, size}}}, Answer: &Answer{Status: 204}}
}

func up(status int, files map[string]Fill) Operation {
	return Operation{Kind: TarUp, Root: "/r", Files: files, Answer: &Answer{Status: status}}
}

func get(path string, content ...Stretch) Operation {
	return Operation{Kind: Get, Root: "/r", Path: path, Answer: &Answer{Status: 200, Files: map[string]Fill{path: content}}}
}

func absent(path string) Operation {
	return Operation{Kind: Get, Root: "/r", Path: path, Answer: &Answer{Status: 404}}
}

func down(files map[string]Fill) Operation {
	return Operation{Kind: TarDown, Root: "/r", Answer: &Answer{Status: 200, Files: files}}
}

// together lets all operations but the last overlap, and the last come after them.
func together(ops ...Operation) []Operation {
	for i := range ops {
		ops[i].Client, ops[i].Call, ops[i].Return = i, int64(i), 100
	}
	last := &ops[len(ops)-1]
	last.Call, last.Return = 200, 210
	return ops
}

// TestJudgeFindsPlantedFileFaults judges small histories of files whose verdict is known. The planted ones are what a
// daemon with a real mistake would show.
func TestJudgeFindsPlantedFileFaults(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	two := map[string]Fill{"a": {{1, 10}}, "b": {{2, 10}}}
	status := func(o Operation, status int) Operation {
		o.Answer = &Answer{Status: status}
		return o
	}
	cut := func(o Operation, c Cut) Operation {
		o.Answer, o.Cut = nil, c
		return o
	}
	broken := func(o Operation) Operation {
		o.Answer = &Answer{Status: 200, Broken: true}
		return o
	}
	for _, c := range []struct {
		name string
		ops  []Operation
		want Verdict
	}{
		{"a write is read", sequence(absent("a"), put("a", 1, 10), get("a", Stretch{1, 10}), absent("b")), Linearizable},
		{"a shorter write", sequence(put("a", 1, 10), put("a", 2, 3), get("a", Stretch{2, 3})), Linearizable},
		{"an archive is read", sequence(up(204, two), get("b", Stretch{2, 10}), down(two)), Linearizable},
		{"two writers leave a mixture", together(put("a", 1, 10), put("a", 2, 20), get("a", Stretch{1, 10}, Stretch{2, 10})), Linearizable},
		{"two writers leave a hole", together(put("a", 1, 10), put("a", 2, 20), get("a", Stretch{0, 5}, Stretch{2, 15})), Linearizable},
		{"a reader beside a writer sees a part", together(put("a", 1, 10), get("a", Stretch{1, 4}), get("a", Stretch{1, 10})), Linearizable},
		{"an archive fails beside another", together(up(204, two), up(500, map[string]Fill{"a": {{3, 5}}}), get("a", Stretch{1, 10})), Linearizable},
		{"an archive that is cut is not there", sequence(cut(up(0, two), CutBefore), absent("a")), Linearizable},
		{"a write that is cut may be there", sequence(cut(put("a", 1, 10), CutBefore), get("a", Stretch{1, 4})), Linearizable},

		{"a write that nothing holds", sequence(put("a", 1, 10), absent("a")), NotLinearizable},
		{"a file out of nowhere", sequence(get("a", Stretch{1, 1})), NotLinearizable},
		{"a write cut short", sequence(put("a", 1, 10), get("a", Stretch{1, 9})), NotLinearizable},
		{"an end that a shorter write left", sequence(put("a", 1, 10), put("a", 2, 3), get("a", Stretch{2, 3}, Stretch{1, 7})), NotLinearizable},
		{"an older write comes back", sequence(put("a", 1, 10), put("a", 2, 10), get("a", Stretch{1, 10})), NotLinearizable},
		{"the content of another path", sequence(up(204, two), get("a", Stretch{2, 10})), NotLinearizable},
		{"a member that is missing", sequence(up(204, two), down(map[string]Fill{"a": {{1, 10}}})), NotLinearizable},
		{"an archive that is cut and there", sequence(cut(up(0, two), CutBefore), get("a", Stretch{1, 10})), NotLinearizable},
		{"an archive that fails alone", sequence(up(500, two)), NotLinearizable},
		{"an archive that fails beside a write elsewhere", together(up(500, map[string]Fill{"a": {{1, 1}}}), put("b", 2, 1), absent("a")), NotLinearizable},
		{"a write that is refused", sequence(status(put("a", 1, 10), 507)), NotLinearizable},
		{"a read that fails", sequence(status(get("a"), 500)), NotLinearizable},
		{"a download that fails alone", sequence(put("a", 1, 10), status(down(nil), 500)), NotLinearizable},
		{"a body that ends early alone", sequence(put("a", 1, 10), broken(get("a"))), NotLinearizable},
		{"a body that ends early beside another path's writer", append(sequence(put("a", 1, 10)), beside(put("b", 3, 9), broken(get("a")))...), NotLinearizable},
		{"a body that ends early beside a writer", append(sequence(put("a", 1, 10)), beside(put("a", 3, 9), broken(get("a")))...), Linearizable},
		{"a mixture of bytes that nobody wrote", together(put("a", 1, 10), put("a", 2, 20), get("a", Stretch{3, 10})), NotLinearizable},
		{"a mixture longer than both", together(put("a", 1, 10), put("a", 2, 20), get("a", Stretch{2, 21})), NotLinearizable},
		{"a mixture that is gone", together(put("a", 1, 10), put("a", 2, 20), absent("a")), NotLinearizable},
		{"a reader beside a writer sees older bytes", append(sequence(put("a", 1, 9), put("a", 2, 9)), beside(put("a", 3, 9), get("a", Stretch{1, 9}))...), NotLinearizable},
		{"a file written in place is absent for a moment", append(sequence(put("a", 1, 9)), beside(put("a", 3, 9), absent("a"))...), NotLinearizable},
		{"a member is absent for a moment", append(sequence(put("a", 1, 9)), beside(up(204, map[string]Fill{"a": {{3, 9}}}), absent("a"))...), Linearizable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, text := Judge(planted(ByPath, c.ops))
			if got != c.want || (text == "") != (got == Linearizable) {
				t.Errorf("the judge says %q (%s), want %q", got, text, c.want)
			}
		})
	}
}

// beside lets operations overlap, after those of a sequence.
func beside(ops ...Operation) []Operation {
	for i := range ops {
		ops[i].Client, ops[i].Call, ops[i].Return = i+1, 1000+int64(i), 1100
	}
	return ops
}

// TestRootMustBeAbsolute: a folder of the test's own, never the daemon's working directory.
func TestRootMustBeAbsolute(t *testing.T) {
	if _, err := Run(context.Background(), Config{Scope: ByPath, Histories: 1, Workers: 1}); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("without a root: %v", err)
	}
}

// TestTamperedFileHistoriesAreFound records histories of a real daemon and changes one answer of each at a time: a byte
// that nobody wrote is found wherever it stands, and a file that is gone or old is found wherever no write overlaps.
func TestTamperedFileHistoriesAreFound(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	ctx, root := context.Background(), t.TempDir()
	c := Config{Scope: ByPath, Seed: 1000, Start: startBinary, Root: root}
	foreign, gone := 0, 0
	err := c.onOneDaemon(ctx, 0, 5, func(h *History) error {
		for i := range h.Operations {
			o := &h.Operations[i]
			if o.Kind != Get || !o.Known() || o.Answer.Broken || o.Answer.Status != 200 {
				continue
			}
			seen := o.Answer
			if len(seen.Files[o.Path]) > 0 {
				o.Answer = &Answer{Status: 200, Files: map[string]Fill{o.Path: {{250, 3}}}}
				if v, _ := Judge(h); v != NotLinearizable {
					t.Errorf("%s: operation %d may read a byte that nobody wrote", h.Name, i)
				}
				foreign++
			}
			o.Answer = &Answer{Status: 404}
			if v, _ := Judge(h); v == NotLinearizable {
				gone++
			}
			o.Answer = seen
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d foreign bytes found, %d absences found", foreign, gone)
	if foreign < 10 || gone < 5 {
		t.Errorf("%d foreign bytes and %d absences were found, want at least 10 and 5", foreign, gone)
	}
}
