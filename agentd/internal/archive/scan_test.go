package archive

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

func octalField(at, n int, text string) func([]byte) {
	return func(b []byte) { copy(b[at:at+n], text+strings.Repeat("\x00", n-len(text))) }
}

// TestStrictHeaders holds each way in which a header can be torn, contradictory
// or oversized to its verdict, with nothing placed.
func TestStrictHeaders(t *testing.T) {
	t.Attr("requirement", "FS-21")
	t.Attr("requirement", "FS-22")
	t.Attr("requirement", "FS-26")
	ok := file("ok", "ok")
	size := func(text string) entry {
		return entry{name: "f", typ: '0', body: "hello", mode: 0o644, edit: octalField(124, 12, text)}
	}
	long := func(typ byte, claim string) entry {
		return entry{name: "././@LongLink", typ: typ, edit: octalField(124, 12, claim)}
	}
	for _, c := range []struct {
		name    string
		archive []byte
		want    string // part of the refusal, empty for none
	}{
		{"plain", whole(ok), ""},
		{"no members", whole(), ""},
		{"old type", whole(entry{name: "f", body: "x", mode: 0o600}), ""},
		{"base 256", whole(entry{name: "f", typ: '0', body: "hello", edit: func(b []byte) { copy(b[124:136], "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05") }}), ""},
		{"PAX that agrees", whole(pax('x', "path=p", "size=2", "mtime=1.5", "LIBARCHIVE.xattr.a="), ok), ""},
		{"global comment", whole(pax('g', "comment=abc"), ok), ""},
		{"long name", whole(entry{name: "././@LongLink", typ: 'L', body: "long\x00"}, ok), ""},
		{"long name and path that agree", whole(entry{name: "././@LongLink", typ: 'L', body: "long\x00"}, pax('x', "path=long"), ok), ""},
		{"zeros behind the end", append(whole(ok), make([]byte, 9000)...), ""},
		{"garbage behind the end", append(whole(ok), bytes.Repeat([]byte("garbage"), 999)...), ""},
		{"a second archive behind the end", append(whole(ok), whole(file("../x", ""))...), ""},

		{"nothing", nil, "cut short"},
		{"one zero block", make([]byte, 512), "cut short"},
		{"no end", cut(ok), "cut short"},
		{"half an end", append(cut(ok), make([]byte, 512)...), "cut short"},
		{"a zero block between", append(append(cut(ok), make([]byte, 512)...), whole(ok)...), "single block"},
		{"cut in a header", cut(ok)[:300], "cut short"},
		{"cut in data", cut(file("f", strings.Repeat("x", 2000)))[:1500], "cut short"},
		{"cut in the padding", cut(ok)[:600], "cut short"},
		{"garbage", bytes.Repeat([]byte("not a tar at all"), 200), "checksum"},
		{"short gzip", []byte{0x1f, 0x8b, 8, 0, 0}, "gzip"},
		{"gzip", append([]byte{0x1f, 0x8b, 8, 0}, make([]byte, 2000)...), "gzip"},
		{"checksum", whole(entry{name: "f", typ: '0', after: func(b []byte) { b[0] = 'g' }}), "checksum does not match"},
		{"checksum garbage", whole(entry{name: "f", typ: '0', after: func(b []byte) { copy(b[148:156], "zzzzzzzz") }}), "checksum is not"},
		{"negative size", whole(size("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")), "negative"},
		{"size beyond 63 bits", whole(size("\x80\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff")), "63 bits"},
		{"a size that no body has, below the cap", whole(size("00000100000")), "cut short"},
		{"octal garbage", whole(size("0000000000x")), "octal"},
		{"octal with a sign", whole(size("-0000000005")), "octal"},
		{"mode garbage", whole(entry{name: "f", typ: '0', edit: octalField(100, 8, "9")}), "octal"},
		{"NUL in the name", whole(entry{name: "a\x00b", typ: '0'}), "NUL"},
		{"NUL in the link", whole(entry{name: "a", typ: '2', link: "b\x00c"}), "NUL"},
		{"folder with data", whole(entry{name: "d", typ: '5', body: "data"}), "bytes of data"},
		{"symbolic link with data", whole(entry{name: "d", typ: '2', link: "x", body: "data"}), "bytes of data"},
		{"hard link with data", whole(ok, entry{name: "d", typ: '1', link: "ok", body: "data"}), "bytes of data"},

		{"PAX size differs", whole(pax('x', "size=600"), entry{name: "f", typ: '0', body: strings.Repeat("x", 600), edit: octalField(124, 12, "0")}), "contradicts"},
		{"PAX size smaller", whole(pax('x', "size=1"), ok), "contradicts"},
		{"PAX size signed", whole(pax('x', "size=+2"), ok), "PAX size"},
		{"PAX size negative", whole(pax('x', "size=-2"), ok), "PAX size"},
		{"PAX key twice", whole(pax('x', "path=a", "path=b"), ok), "twice"},
		{"PAX key twice, harmless", whole(pax('x', "mtime=1", "mtime=1"), ok), "twice"},
		{"PAX path empty", whole(pax('x', "path="), ok), "empty"},
		{"PAX path with NUL", whole(pax('x', "path=a\x00b"), ok), "NUL"},
		{"PAX without a key", whole(pax('x', "=b"), ok), "without a key"},
		{"PAX without an equals sign", whole(pax('x', "path"), ok), "without a key"},
		{"PAX length 0", whole(entry{name: "x", typ: 'x', body: "0 path=a\n"}, ok), "length"},
		{"PAX length negative", whole(entry{name: "x", typ: 'x', body: "-9 path=a\n"}, ok), "length"},
		{"PAX length wrong", whole(entry{name: "x", typ: 'x', body: "8 path=a\n"}, ok), "length"},
		{"PAX length of 10^20", whole(entry{name: "x", typ: 'x', body: "100000000000000000000 path=a\n"}, ok), "length"},
		{"PAX length beyond the header", whole(entry{name: "x", typ: 'x', body: "99 path=a\n"}, ok), "length"},
		{"PAX mtime that archive/tar refuses", whole(pax('x', "mtime=z"), ok), "archive/tar"},
		{"PAX header twice", whole(pax('x', "path=a"), pax('x', "mtime=1"), ok), "twice"},
		{"PAX header without a member", whole(pax('x', "path=a")), "without a member"},
		{"global path", whole(pax('g', "path=a"), ok), "global"},
		{"global size", whole(pax('g', "size=1"), ok), "global"},
		{"global header out of place", whole(pax('x', "path=a"), pax('g', "comment=x"), ok), "out of its place"},
		{"long name twice", whole(entry{typ: 'L', body: "a\x00"}, entry{typ: 'L', body: "b\x00"}, ok), "twice"},
		{"long name with more behind", whole(entry{typ: 'L', body: "a\x00b"}, ok), "NUL"},
		{"long name empty", whole(entry{typ: 'L', body: "\x00"}, ok), "empty"},
		{"long name against path", whole(entry{typ: 'L', body: "a\x00"}, pax('x', "path=b"), ok), "contradict"},
		{"PAX of 8 GiB", whole(long('x', "100000000000"), ok), "1 MiB"},
		{"long name of 1 GiB", whole(long('L', "10000000000"), ok), "1 MiB"},
		{"long link of 1 MiB and 1 byte", whole(long('K', "4000001"), ok), "1 MiB"},
		{"PAX of the greatest size", whole(entry{name: "x", typ: 'x', edit: func(b []byte) { copy(b[124:136], "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff") }}), "1 MiB"},
	} {
		p := newPlace(t)
		err := p.extract(c.archive)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && kindOf(err) != Broken {
			t.Errorf("%s: kind %d, want %d", c.name, kindOf(err), Broken)
		}
		if err != nil && len(listing(t, p.dir)) != 0 {
			t.Errorf("%s: %v was placed", c.name, listing(t, p.dir))
		}
	}
}

// TestClaimAboveTheCapIsTooMuch judges a claim by the header, although its data
// did not come: cut short it is only below the cap.
func TestClaimAboveTheCapIsTooMuch(t *testing.T) {
	t.Attr("requirement", "FS-25")
	claim := func(n uint64) entry {
		return entry{name: "f", typ: '0', edit: func(b []byte) {
			copy(b[124:128], "\x80\x00\x00\x00")
			binary.BigEndian.PutUint64(b[128:136], n)
		}}
	}
	for _, c := range []struct {
		claims []uint64
		want   Kind
	}{
		{[]uint64{1<<33 + 1}, TooMuch}, {[]uint64{1<<63 - 1}, TooMuch}, {[]uint64{uint64(limits.Bytes) + 1}, TooMuch},
		{[]uint64{uint64(limits.Bytes)}, Broken}, {[]uint64{0, uint64(limits.Bytes) + 1}, TooMuch},
	} {
		var members []entry
		for _, n := range c.claims {
			members = append(members, claim(n))
		}
		p := newPlace(t)
		if err := p.extract(whole(members...)); kindOf(err) != c.want {
			t.Errorf("%x: %v, want kind %d", c.claims, err, c.want)
		}
	}
}

// TestClaimsAllocateNothing reads headers that claim gigabytes and counts bytes.
func TestClaimsAllocateNothing(t *testing.T) {
	t.Attr("requirement", "FS-22")
	claims := whole(entry{name: "x", typ: 'x', edit: octalField(124, 12, "77777777777")})
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := NewScanner(bytes.NewReader(claims), int64(len(claims))).Next(); err == nil {
				b.Fatal("a header of 8 GiB was read")
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n > 2*windowBytes {
		t.Errorf("%d bytes were allocated for a header of 8 GiB", n)
	}
}

// TestExtensionCap takes extended headers up to the cap.
func TestExtensionCap(t *testing.T) {
	t.Attr("requirement", "FS-22")
	comment := func(n int) entry { return pax('x', "comment="+strings.Repeat("c", n)) }
	fits := comment(maxExtension - 20)
	if n := len(fits.body); n > maxExtension || n < maxExtension-30 {
		t.Fatalf("the header has %d bytes", n)
	}
	if err := newPlace(t).extract(whole(fits, file("f", ""))); err != nil {
		t.Errorf("a header within the cap: %v", err)
	}
	if err := newPlace(t).extract(whole(comment(maxExtension), file("f", ""))); kindOf(err) != Broken {
		t.Errorf("a header above the cap: %v", err)
	}
	if err := newPlace(t).extract(whole(comment(700<<10), entry{typ: 'L', body: strings.Repeat("n", 700<<10)}, file("f", ""))); kindOf(err) != Broken {
		t.Errorf("two headers that are above the cap together: %v", err)
	}
}

// TestNumbers checks both codings at their edges against values by hand.
func TestNumbers(t *testing.T) {
	t.Attr("requirement", "FS-21")
	for text, want := range map[string]int64{
		"00000000005\x00": 5, " 17 \x00\x00\x00\x00\x00\x00\x00\x00": 15, "777777777777": 1<<36 - 1, strings.Repeat("\x00", 12): 0,
		"\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff": math.MaxInt64, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00": 256,
	} {
		if got, bad := number([]byte(text)); bad != nil || got != want {
			t.Errorf("%q: %d %v, want %d", text, got, bad, want)
		}
	}
	for _, text := range []string{"8", "1 1", "0x1", "-1", "+1", "1\x001", "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", "\xc0"} {
		if got, bad := number([]byte(text)); bad == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
