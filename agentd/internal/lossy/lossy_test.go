package lossy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAppend checks the replacement of maximal invalid subparts on the vectors
// of the Unicode standard, section 3.9, tables 3-8 to 3-11, and on cuts at each
// place of a sequence.
func TestAppend(t *testing.T) {
	t.Attr("requirement", "OUT-3")
	const f = "\uFFFD"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"ascii", "plain", "plain"},
		{"valid", "é€😀", "é€😀"},
		{"a real replacement character", f, f},
		{"table 3-8, overlong", "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", strings.Repeat(f, 8) + "A"},
		{"table 3-9, surrogates", "\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", strings.Repeat(f, 8) + "A"},
		{"table 3-10, beyond the last", "\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", strings.Repeat(f, 5) + "A" + f + f + "B"},
		{"table 3-11, truncated", "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", strings.Repeat(f, 4) + "A"},
		{"cut after one of four", "x\xF0", "x" + f},
		{"cut after two of four", "x\xF0\x9F", "x" + f},
		{"cut after three of four", "x\xF0\x9F\x98", "x" + f},
		{"cut after two of three", "\xE2\x82", f},
		{"cut after one of two", "\xC3", f},
		{"lone continuation bytes", "\x80\x80\x80", f + f + f},
		{"cut sequence before a good one", "\xE2\x82\xE2\x82\xAC", f + "€"},
		{"every lead that is none", "\xC0\xC1\xF5\xFF", f + f + f + f},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(Append(nil, []byte(c.in))); got != c.want {
				t.Errorf("Append(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// slow is a second implementation, byte by byte from table 3-7 of the
// standard: a sequence is extended while some well-formed one begins with it.
func slow(src []byte) string {
	begins := func(p []byte) bool {
		for _, tail := range []string{"", "\x80", "\x90", "\xA0", "\x80\x80", "\x90\x80", "\xA0\x80", "\x80\x80\x80", "\x90\x80\x80", "\xA0\x80\x80"} {
			if r, size := utf8.DecodeRuneInString(string(p) + tail); size == len(p)+len(tail) && (r != utf8.RuneError || size == 3) {
				return true
			}
		}
		return false
	}
	var out strings.Builder
	for len(src) > 0 {
		n := 1
		for n < len(src) && n < 4 && begins(src[:n]) && !utf8.Valid(src[:n]) && begins(src[:n+1]) {
			n++
		}
		if utf8.Valid(src[:n]) {
			out.Write(src[:n])
		} else {
			out.WriteString("\uFFFD")
		}
		src = src[n:]
	}
	return out.String()
}

// FuzzQuote checks, for any bytes and any buffer, that the JSON string decodes
// to what Append gives, that Append agrees with the second implementation, and
// that the escaping is the one of an encoder without HTML escapes.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c\n\t\x00\x1f\x7f<>&\u2028", "\xF0\x9F\x98", "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", strings.Repeat("x\xff", 99)} {
		f.Add([]byte(s), uint8(0))
	}
	f.Fuzz(func(t *testing.T, src []byte, extra uint8) {
		text := string(Append(nil, src))
		if want := slow(src); text != want {
			t.Fatalf("Append(%q) = %q, want %q", src, text, want)
		}
		var out bytes.Buffer
		rest, err := Quote(&out, make([]byte, 0, 64+int(extra)), src)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(rest)
		var back string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != text {
			t.Fatalf("Quote(%q) = %s, decodes to %q (%v), want %q", src, out.Bytes(), back, err, text)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.Encode(text)
		// encoding/json escapes the two line separators in any case; the
		// contract does not.
		plain := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(want.String(), "\n"))
		if !strings.Contains(text, `\u202`) && out.String() != plain {
			t.Fatalf("Quote(%q) = %s, want %s", src, out.String(), plain)
		}
	})
}

// TestCopyPlain puts each byte value at each place of a window of eight, with
// room for less, for exactly all and for more.
func TestCopyPlain(t *testing.T) {
	for b := range 256 {
		for at := range 16 {
			src := bytes.Repeat([]byte{'a'}, 16)
			src[at] = byte(b)
			want := 16
			if b < 0x20 || b >= 0x80 || b == '"' || b == '\\' {
				want = at
			}
			for room := range 18 {
				dst := make([]byte, room)
				if got := copyPlain(dst, src); got != min(want, room) || !bytes.Equal(dst[:got], src[:got]) {
					t.Fatalf("copyPlain with %#x at %d into %d bytes = %d, %q; want %d", b, at, room, got, dst[:got], min(want, room))
				}
			}
		}
	}
}

// failing refuses its first write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

// TestQuoteStopsAtAnError checks that a reader that left ends the encoding.
func TestQuoteStopsAtAnError(t *testing.T) {
	if _, err := Quote(failing{}, make([]byte, 0, 64), bytes.Repeat([]byte{'x'}, 1000)); err != bytes.ErrTooLarge {
		t.Errorf("Quote into a failing writer: %v, want %v", err, bytes.ErrTooLarge)
	}
}

func BenchmarkQuote(b *testing.B) {
	for name, line := range map[string]string{
		"text": "a line of output that a command may write\n",
		"log":  "2026-01-02T03:04:05.678Z level=info msg=\"request served\" method=GET path=/v1/exec/3f2a status=200 place=Zürich\n",
	} {
		b.Run(name, func(b *testing.B) {
			src := bytes.Repeat([]byte(line), 8<<20/len(line))
			buf := make([]byte, 0, 64<<10)
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				_, _ = Quote(discard{}, buf[:0], src)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
