package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"microvms/agentd/api"
)

// contradictions is T10.
func contradictions() Row {
	body := strings.Repeat("x", 600)
	bad := func(name string, members ...member) trial {
		return trial{name: name, archive: archived(members...), status: 500}
	}
	raw := func(text string) member { return member{name: "p", typ: 'x', body: text} }
	f := regular("f", body)
	return Row{
		ID: "T10", Name: "PAX records that contradict the header, each other or themselves", Expect: "500 and nothing placed: the same bytes are never two archives",
		Requirements: []string{"FS-21"},
		Cases: trials(
			bad("size above the header's", extended('x', "size=600"), member{name: "f", typ: '0', size: "00000000000", body: body}),
			bad("size below the header's", extended('x', "size=0"), f),
			bad("size that hides a member", extended('x', "size=1024"), member{name: "f", typ: '0', size: "00000000000"}, regular("hidden", "")),
			bad("key twice", extended('x', "path=a", "path=b"), f),
			bad("path empty", extended('x', "path="), f),
			bad("path with NUL", extended('x', "path=a\x00b"), f),
			bad("length wrong", raw("8 path=a\n"), f),
			bad("length 0", raw("0 path=a\n"), f),
			bad("length negative", raw("-9 path=a\n"), f),
			bad("length of 10^20", raw("100000000000000000000 path=a\n"), f),
			bad("global path", extended('g', "path=a"), f),
			bad("long name against path", member{typ: 'L', body: "a\x00"}, extended('x', "path=b"), f),
			bad("two PAX headers", extended('x', "path=a"), extended('x', "path=b"), f),
			trial{name: "size that agrees", archive: archived(extended('x', "size=600"), f), status: 204, left: []string{"./f"}},
		),
	}
}

// hugeHeaders is T11.
func hugeHeaders() Row {
	claim := func(name string, typ byte, size string) trial {
		return trial{name: name, archive: member{name: "x", typ: typ, size: size}.bytes() + strings.Repeat("x", 4096), status: 500, says: "1 MiB"}
	}
	return Row{
		ID: "T11", Name: "extended headers that claim gigabytes", Expect: "500 by the claim, before anything is allocated",
		Requirements: []string{"FS-22"},
		Cases: trials(
			claim("PAX of 8 GiB", 'x', "77777777777"), claim("global PAX of 8 GiB", 'g', "77777777777"), claim("long name of 1 GiB", 'L', "10000000000"),
			claim("long link of 1 GiB", 'K', "10000000000"), claim("PAX of 2^63-1", 'x', "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"),
			trial{name: "PAX of 1 MiB", archive: archived(extended('x', "comment="+strings.Repeat("c", 1<<20-17)), regular("f", "")), status: 204, left: []string{"./f"}},
		),
	}
}

// badNumbers is T13.
func badNumbers() Row {
	size := func(name, field string) trial {
		return trial{name: name, archive: archived(member{name: "f", typ: '0', body: "hello", size: field}), status: 500}
	}
	return Row{
		ID: "T13", Name: "negative, oversized and garbled numbers; bad checksums", Expect: "500, 413 for a claim over the cap; nothing placed",
		Requirements: []string{"FS-21"},
		Cases: trials(
			size("base 256, negative", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), size("base 256, beyond 63 bits", "\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"),
			// A size that is a number is a claim, and the sum of the claims is judged before the data is missed.
			trial{name: "2^63-1", archive: archived(member{name: "f", typ: '0', body: "hello", size: "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"}), status: 413},
			size("octal garbage", "0000000000x"), size("octal with a sign", "-0000000005"), size("digits in two parts", "00005 00000"),
			trial{name: "checksum", archive: archived(member{name: "f", typ: '0', spoil: func(b []byte) { b[0] = 'g' }}), status: 500, says: "checksum"},
			trial{name: "checksum garbage", archive: archived(member{name: "f", typ: '0', spoil: func(b []byte) { copy(b[148:156], "99999999") }}), status: 500, says: "checksum"},
		),
	}
}

// cutArchives is T14.
func cutArchives() Row {
	f := regular("f", strings.Repeat("x", 3000))
	cases := trials(
		trial{name: "in the first header", archive: unended(f)[:300], status: 500},
		trial{name: "in the second header", archive: unended(regular("first", ""), f)[:700], status: 500},
		trial{name: "in the data", archive: unended(regular("first", ""), f)[:2000], status: 500, says: "cut short"},
		trial{name: "in the padding", archive: unended(f)[:512+3001], status: 500},
		trial{name: "before the end", archive: unended(f), status: 500, says: "no end"},
		trial{name: "in the end", archive: unended(f) + tarEnd[:512], status: 500},
		trial{name: "no byte at all", archive: "", status: 500},
	)
	return Row{
		ID: "T14", Name: "archives that are cut, by their bytes or by the connection", Expect: "an error; nothing of them is visible; an archive without its end is cut",
		Requirements: []string{"FS-26", "FS-15"}, Cases: append(cases,
			Case{Name: "the client sends no more", Do: silentTar(408, nil)},
			Case{Name: "the client closes its side", Do: silentTar(400, halfClose)}),
	}
}

// silentTar sends a part of an archive whose length promises more.
func silentTar(status int, end ending) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) (err error) {
		s, err := p.newSite(ctx, "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx)) }()
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		a := archived(regular("f", "x"))
		fmt.Fprintf(c, "%s%sContent-Length: %d\r\n\r\n%s", head("PUT", api.PathTar+"?path="+url.QueryEscape(s.root())), bearer(p), len(a)+1, a)
		if end != nil {
			if tcp, ok := c.Conn.(interface{ CloseWrite() error }); ok {
				_ = tcp.CloseWrite()
			}
		}
		r, err := c.answer("PUT")
		if err != nil {
			return err
		}
		left, lerr := s.names(ctx)
		if len(left) > 0 {
			lerr = errors.Join(lerr, fmt.Errorf("%q was placed", left))
		}
		return errors.Join(is(status).match(r), lerr, s.intact(ctx))
	}
}

// trailers is T15.
func trailers() Row {
	f := regular("f", "x")
	zipped := gzipped(archived(f))
	return Row{
		ID: "T15", Name: "bytes behind the end; gzip in its forms", Expect: "what follows the end is ignored; gzip is refused as not a tar",
		Requirements: []string{"FS-26"},
		Cases: trials(
			trial{name: "garbage behind the end", archive: archived(f) + strings.Repeat("garbage", 1000), status: 204, left: []string{"./f"}},
			trial{name: "a second archive behind the end", archive: archived(f) + archived(regular("../x", "")), status: 204, left: []string{"./f"}},
			trial{name: "gzip", archive: zipped, status: 500, says: "gzip"},
			trial{name: "gzip with two members", archive: zipped + zipped, status: 500, says: "gzip"},
			trial{name: "gzip with a bad sum", archive: zipped[:len(zipped)-8] + "badsum!!", status: 500, says: "gzip"},
			trial{name: "gzip that is cut", archive: zipped + strings.Repeat("\x00", 1024) + zipped[:len(zipped)/2], status: 500, says: "gzip"},
			trial{name: "plain garbage", archive: strings.Repeat("neither tar nor gzip", 100), status: 500},
		),
	}
}

// gzipped compresses and pads to what could be a header.
func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // a buffer takes all
	_ = w.Close()
	return b.String() + strings.Repeat("\x00", max(0, tarBlock-b.Len()))
}

// bombs is T16.
func bombs() Row {
	nested := strings.Repeat("\x00", 1<<10)
	for range 100 {
		nested = gzipped(nested)
	}
	return Row{
		ID: "T16", Name: "compressed bombs, a hundred thousand members and one, declared petabytes", Expect: "stopped by the member cap; gzip is no tar",
		Requirements: []string{"FS-25", "FS-26", "FS-8"},
		Cases: append(trials(
			trial{name: "gzip of zeros", archive: gzipped(strings.Repeat("\x00", 64<<20)), status: 500, says: "gzip"},
			trial{name: "100 nested gzips", archive: nested, status: 500, says: "gzip"},
			trial{name: "declared size without data", archive: archived(member{name: "f", typ: '0', size: "\x80\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00"}), status: 413},
		),
			Case{Name: "empty members above the cap", Do: tooMany(regular("f", ""))},
			Case{Name: "folders above the cap", Do: tooMany(folder("d"))},
		),
	}
}

// memberCap is max_tar_members of wire facts, section 3.
const memberCap = 100000

// tooMany uploads one member more than the cap allows.
func tooMany(m member) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) (err error) {
		s, err := p.newSite(ctx, "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx)) }()
		return trial{archive: strings.Repeat(m.bytes(), memberCap+1) + tarEnd, status: 413, says: "max_tar_members"}.play(ctx, s)
	}
}
