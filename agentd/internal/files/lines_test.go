package files

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// window is what CopyLines must give, said the long way.
func window(text string, w Window) string {
	lines := strings.SplitAfter(text, "\n")
	var out strings.Builder
	for i, line := range lines {
		if n := uint64(i + 1); n >= w.First && n <= w.Last {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestCopyLinesIsExact compares windows of generated texts, read in pieces of
// every size, with a plain description of them.
func TestCopyLinesIsExact(t *testing.T) {
	t.Attr("requirement", "FS-3")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"\n", "a", "bb\n", "\x00", "long line of text"}), 0, 40).Draw(t, "text"), "")
		w := Window{First: rapid.Uint64Range(1, 30).Draw(t, "first")}
		w.Last = rapid.OneOf(rapid.Uint64Range(w.First, w.First+30), rapid.Just(uint64(math.MaxUint64))).Draw(t, "last")
		buf := make([]byte, rapid.IntRange(1, 60).Draw(t, "piece"))
		var got bytes.Buffer
		if err := CopyLines(&got, strings.NewReader(text), w, buf); err != nil {
			t.Fatal(err)
		}
		if want := window(text, w); got.String() != want {
			t.Fatalf("lines %d to %d of %q: %q, want %q", w.First, w.Last, text, got.String(), want)
		}
	})
}

// TestCopyLinesStops reads no further than the window.
func TestCopyLinesStops(t *testing.T) {
	t.Attr("requirement", "FS-3")
	endless := io.MultiReader(strings.NewReader("1\n2\n3\n"), iotest.ErrReader(errors.New("read too far")))
	var got bytes.Buffer
	if err := CopyLines(&got, endless, Window{2, 3}, make([]byte, 6)); err != nil || got.String() != "2\n3\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if err := CopyLines(&got, endless, Window{2, 4}, make([]byte, 6)); err == nil {
		t.Error("a read error was swallowed")
	}
}

// TestCopyPassesErrorsOn tells a body that was cut from one that has ended.
func TestCopyPassesErrorsOn(t *testing.T) {
	t.Attr("requirement", "FS-9")
	claim := &Claim{}
	for _, want := range []error{nil, io.ErrUnexpectedEOF, errors.New("broken")} {
		var src io.Reader = strings.NewReader("0123456789")
		if want != nil {
			src = io.MultiReader(src, iotest.ErrReader(want))
		}
		var dst bytes.Buffer
		if err := Copy(&dst, src, claim, make([]byte, 4)); !errors.Is(err, want) || dst.String() != "0123456789" {
			t.Errorf("%v with %q, want %v", err, dst.String(), want)
		}
	}
	var write *WriteError
	if err := Copy(failing{}, strings.NewReader("x"), claim, make([]byte, 4)); !errors.As(err, &write) {
		t.Errorf("%v, want a write error", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no") }

// TestParseMode reads modes by hand.
func TestParseMode(t *testing.T) {
	t.Attr("requirement", "FS-7")
	for text, want := range map[string]uint32{"644": 0o644, "0644": 0o644, "0o755": 0o755, "0O7": 7, " 600\n": 0o600, "7777": 0o7777, "0": 0} {
		if got, err := ParseMode(text); err != nil || got != want {
			t.Errorf("%q: %o %v, want %o", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "0o", "8", "10000", "-1", "+1", "rwx", "0x1", "6 4", "77777777777777777777"} {
		if got, err := ParseMode(text); !errors.Is(err, ErrBadMode) {
			t.Errorf("%q is read as %o", text, got)
		}
	}
}
