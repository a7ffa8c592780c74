package archive

import (
	"bytes"
	"io"
	"path"
	"strings"
	"testing"
)

// FuzzJudge feeds any bytes to the strict reader. What it accepts means the same
// to archive/tar, and no name or link target in it leaves the root.
func FuzzJudge(f *testing.F) {
	f.Add(whole(file("a", "x"), dir("d/"), symlink("d/l", "../a"), hardlink("h", "a")))
	f.Add(whole(pax('x', "path=p", "size=2"), file("ok", "ok")))
	f.Add(whole(entry{typ: 'L', body: "long\x00"}, entry{typ: 'K', body: "link\x00"}, symlink("s", "t")))
	f.Add(whole(pax('g', "comment=c"), file("../x", "")))
	f.Add(cut(file("f", "body"))[:700])
	f.Fuzz(func(t *testing.T, data []byte) {
		sum, err := Judge(bytes.NewReader(data), int64(len(data)), Limits{50, 1 << 16})
		if err != nil {
			return
		}
		s := NewScanner(bytes.NewReader(data), int64(len(data)))
		for n := 0; ; n++ {
			m, err := s.Next()
			if err == io.EOF {
				if n != sum.Members {
					t.Fatalf("%d members were judged and %d are there", sum.Members, n)
				}
				return
			}
			if err != nil {
				t.Fatalf("accepted, then %v", err)
			}
			// path.Clean is a second opinion on the lexical rule.
			clean := path.Clean("/target/" + m.Name)
			if strings.HasPrefix(m.Name, "/") || (clean != "/target" && !strings.HasPrefix(clean, "/target/")) {
				t.Fatalf("%q was accepted", m.Name)
			}
			if m.Type == typeSymlink && !strings.HasPrefix(path.Clean(path.Dir(clean)+"/"+m.Link)+"/", "/target/") {
				t.Fatalf("the link %q to %q was accepted", m.Name, m.Link)
			}
			if m.Data+m.Size > int64(len(data)) {
				t.Fatalf("%q ends behind the archive", m.Name)
			}
		}
	})
}

// FuzzRecords feeds any bytes to the parser of PAX records: accepted ones are
// written back to the same bytes.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(record("path=a") + record("size=5")))
	f.Add([]byte("9 path=a\n"))
	f.Add([]byte("100000000000000000000 a=b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var again strings.Builder
		bad := records(data, func(key, value string) *Refusal {
			again.WriteString(record(key + "=" + value))
			return nil
		})
		if bad == nil && again.String() != string(data) {
			t.Fatalf("%q is read as %q", data, again.String())
		}
	})
}
