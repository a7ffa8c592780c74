package sizing

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// uneven is a table whose peaks are not four times the baselines: only such a
// one can tell a lookup from a computation.
func uneven(t testing.TB) Table {
	t.Helper()
	table, err := NewTable(1000, Row{500, 250, 700, 300}, Row{1000, 250, 9000, 7125})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestPublishedTable pins the twenty numbers against literals of their own.
func TestPublishedTable(t *testing.T) {
	want := []string{
		"512 MiB baseline, 0.25 vCPU (peak 2048 MiB, 1 vCPU)",
		"1024 MiB baseline, 0.5 vCPU (peak 4096 MiB, 2 vCPU)",
		"2048 MiB baseline, 1 vCPU (peak 8192 MiB, 4 vCPU)",
		"4096 MiB baseline, 2 vCPU (peak 16384 MiB, 8 vCPU)",
		"8192 MiB baseline, 4 vCPU (peak 32768 MiB, 16 vCPU)",
	}
	classes := Classes(Published())
	if len(classes) != len(want) {
		t.Fatalf("%d classes, want %d", len(classes), len(want))
	}
	for i, c := range classes {
		if c.Describe() != want[i] {
			t.Errorf("class %d: %s, want %s", i, c.Describe(), want[i])
		}
	}
	if c, err := Default(Published()); err != nil || c.BaselineMiB() != 2048 {
		t.Errorf("default %v, %v", c, err)
	}
}

// TestMemoryIsNotRounded asks for each figure around the five baselines.
func TestMemoryIsNotRounded(t *testing.T) {
	t.Attr("requirement", "TRAP-10")
	accepted := 0
	for mib := -1; mib <= 9000; mib++ {
		c, err := Lookup(Published(), mib)
		switch mib {
		case 512, 1024, 2048, 4096, 8192:
			if accepted++; err != nil || c.BaselineMiB() != mib {
				t.Errorf("%d MiB: %v, %v", mib, c, err)
			}
		default:
			if !errors.Is(err, ErrInvalid) || !c.IsZero() {
				t.Fatalf("%d MiB: %v, %v", mib, c, err)
			}
		}
	}
	if accepted != 5 {
		t.Errorf("%d baselines looked at", accepted)
	}
	_, err := Lookup(Published(), 1500)
	if err == nil || !strings.Contains(err.Error(), "1500 MiB is no size class: take one of 512, 1024, 2048, 4096, 8192;") {
		t.Errorf("%v", err)
	}
}

// TestPeaksAreRead uses a table in which 4 × baseline is wrong everywhere.
func TestPeaksAreRead(t *testing.T) {
	t.Attr("requirement", "TRAP-13")
	for _, want := range []Row{{500, 250, 700, 300}, {1000, 250, 9000, 7125}} {
		c, err := Lookup(uneven(t), want.BaselineMiB)
		if err != nil || c.PeakMiB() != want.PeakMiB || c.PeakMilliVCPU() != want.PeakMilliVCPU || c.BaselineMilliVCPU() != want.BaselineMilliVCPU {
			t.Errorf("%+v: got %+v, %v", want, c, err)
		}
	}
	if c, _ := Lookup(uneven(t), 1000); c.Describe() != "1000 MiB baseline, 0.25 vCPU (peak 9000 MiB, 7.125 vCPU)" {
		t.Errorf("%s", c.Describe())
	}
}

// TestChooseCovers compares with the definition: no smaller class covers both.
func TestChooseCovers(t *testing.T) {
	t.Attr("requirement", "BIND-14")
	for _, table := range []Table{Published(), uneven(t)} {
		rapid.Check(t, func(t *rapid.T) {
			want := Request{rapid.IntRange(0, 9000).Draw(t, "memory"), rapid.IntRange(0, 4500).Draw(t, "vcpu")}
			got, err := Choose(table, want)
			var first Class
			for _, c := range Classes(table) {
				if first.IsZero() && c.BaselineMiB() >= want.MemoryMiB && c.BaselineMilliVCPU() >= want.MilliVCPU {
					first = c
				}
			}
			if want == (Request{}) {
				first, _ = Default(table)
			}
			if got != first || (err == nil) == first.IsZero() {
				t.Fatalf("%+v: got %+v, %v; want %+v", want, got, err, first)
			}
		})
	}
	for _, tc := range []struct {
		want Request
		mib  int
	}{{Request{}, 2048}, {Request{1, 0}, 512}, {Request{0, 251}, 1024}, {Request{512, 4000}, 8192}, {Request{2049, 1}, 4096}} {
		if c, err := Choose(Published(), tc.want); err != nil || c.BaselineMiB() != tc.mib {
			t.Errorf("%+v: %v, %v", tc.want, c, err)
		}
	}
	_, err := Choose(Published(), Request{8193, 0})
	if !errors.Is(err, ErrInvalid) || !strings.HasSuffix(err.Error(), "the largest is 8192 MiB baseline, 4 vCPU (peak 32768 MiB, 16 vCPU)") {
		t.Errorf("%v", err)
	}
	for _, bad := range []Request{{-1, 0}, {0, -1}, {0, 4001}} {
		if _, err := Choose(Published(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestBadTables(t *testing.T) {
	for name, rows := range map[string][]Row{
		"no default": {{500, 1, 500, 1}}, "zero memory": {{0, 1, 1, 1}}, "zero vcpu": {{1000, 0, 1000, 1}}, "low peak": {{1000, 2, 999, 2}},
		"low peak vcpu": {{1000, 2, 1000, 1}}, "descending": {{1000, 2, 1000, 2}, {900, 2, 900, 2}}, "falling vcpu": {{1000, 2, 1000, 2}, {2000, 1, 2000, 2}},
		"empty": {},
	} {
		if _, err := NewTable(1000, rows...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var empty Table
	if _, err := Default(empty); !errors.Is(err, ErrInvalid) {
		t.Error("an empty table has a default")
	}
	if _, err := Lookup(empty, 512); !errors.Is(err, ErrInvalid) {
		t.Error("an empty table has a class")
	}
	if _, err := Choose(empty, Request{1, 1}); !errors.Is(err, ErrInvalid) {
		t.Error("an empty table covers a request")
	}
}
