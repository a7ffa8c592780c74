package agentd_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/agentd/api"
)

// fileURL is a file route with its query.
func fileURL(route, path string, more ...string) string {
	q := url.Values{"path": {path}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return route + "?" + q.Encode()
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestFileRead reads whole files, windows of lines, and what is no file.
func TestFileRead(t *testing.T) {
	t.Attr("requirement", "FS-1")
	t.Attr("requirement", "FS-2")
	t.Attr("requirement", "FS-3")
	t.Attr("requirement", "FS-4")
	d := booted(t, nil)
	dir := t.TempDir()
	text := "one\ntwo\n\nfour \x00\xff\nfive"
	writeFile(t, dir+"/f", text)
	writeFile(t, dir+"/empty", "")
	long := strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("y", 300<<10) + "\nz\n"
	writeFile(t, dir+"/long", long)
	if err := os.Symlink("f", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	lines := func(f, l string) string { return fileURL(api.PathFile, dir+"/f", "start_line", f, "end_line", l) }
	for _, c := range []struct {
		target string
		status int
		body   string
	}{
		{fileURL(api.PathFile, dir+"/f"), 200, text},
		{fileURL(api.PathFile, dir+"/f", "unknown", "1"), 200, text},
		{fileURL(api.PathFile, dir+"/empty"), 200, ""},
		{fileURL(api.PathFile, dir+"/link"), 200, text},
		{fileURL(api.PathFile, dir+"/long"), 200, long},
		{lines("1", "1"), 200, "one\n"},
		{lines("2", "3"), 200, "two\n\n"},
		{lines("4", "5"), 200, "four \x00\xff\nfive"},
		{lines("4", "99"), 200, "four \x00\xff\nfive"},
		{lines("6", "99"), 200, ""},
		{lines("18446744073709551615", "18446744073709551615"), 200, ""},
		{lines("1", "18446744073709551615"), 200, text},
		{fileURL(api.PathFile, dir+"/f", "start_line", "5"), 200, "five"},
		{fileURL(api.PathFile, dir+"/f", "end_line", "2"), 200, "one\ntwo\n"},
		{fileURL(api.PathFile, dir+"/long", "start_line", "2", "end_line", "2"), 200, long[1<<20+1 : len(long)-2]},
		{fileURL(api.PathFile, dir+"/long", "start_line", "3"), 200, "z\n"},
		{api.PathFile, 400, "path is missing"},
		{api.PathFile + "?path=", 400, "path is missing"},
		{api.PathFile + "?path=/a&path=/b", 400, "path is there twice\n"},
		{api.PathFile + "?path=%zz", 400, "path is no query value: a percent sign without two hexadecimal digits behind it\n"},
		{api.PathFile + "?path=/a&path=%zz", 400, "path is there twice\n"},
		{api.PathFile + "?path=/a%00b", 400, "path holds a NUL byte\n"},
		{fileURL(api.PathFile, dir), 400, "is a folder"},
		{lines("0", "5"), 400, "start_line is 0"},
		{lines("3", "2"), 400, "end_line is before"},
		{fileURL(api.PathFile, dir+"/f", "end_line", "0"), 400, "end_line is before"},
		{lines("x", "2"), 400, "decimal"},
		{lines("1", "-2"), 400, "decimal"},
		{lines("1", "1.5"), 400, "decimal"},
		{lines("", "2"), 400, "decimal"},
		{lines("1", "18446744073709551616"), 400, "decimal"},
		{fileURL(api.PathFile, "/nowhere", "start_line", "0"), 400, "start_line is 0"}, // before opening
		{fileURL(api.PathFile, dir+"/none"), 404, "none"},
		{fileURL(api.PathFile, dir+"/dangling"), 404, "dangling"},
		{fileURL(api.PathFile, dir+"/f/below"), 500, "below"},
		{fileURL(api.PathFile, dir+"/"+strings.Repeat("n", 300)), 500, "name too long"},
	} {
		r := d.get(c.target)
		if r.status != c.status || (c.status == 200 && r.body != c.body) || (c.status != 200 && !strings.Contains(r.body, c.body)) {
			t.Errorf("%.120s: %.200v, want %d with %.60q", c.target, r, c.status, c.body)
		}
		if want := api.MediaText; c.status != 200 && r.header.Get("Content-Type") != want {
			t.Errorf("%.120s: content type %q, want %q", c.target, r.header.Get("Content-Type"), want)
		}
	}
	if r := d.call("HEAD", fileURL(api.PathFile, dir+"/f"), ""); r.status != 200 || r.header.Get("Content-Length") != fmt.Sprint(len(text)) {
		t.Errorf("HEAD: %v", r)
	}
	if r := d.get(fileURL(api.PathFile, "/proc/self/stat")); r.status != 200 || r.body == "" {
		t.Errorf("a file without a size: %v", r)
	}
}

// TestFileWrite writes new and old files and looks at bytes, modes and parents.
func TestFileWrite(t *testing.T) {
	t.Attr("requirement", "FS-5")
	t.Attr("requirement", "FS-6")
	t.Attr("requirement", "FS-7")
	d := booted(t, nil)
	dir := t.TempDir()
	put := func(path, body string, more ...string) reply {
		return d.with("PUT", fileURL(api.PathFile, path, more...), body, http.Header{"Authorization": {"Bearer " + token}})
	}
	for _, c := range []struct {
		name, mode string
		want       fs.FileMode
	}{
		{"plain", "", 0o644}, {"a", "600", 0o600}, {"b", "0o755", 0o755}, {"c", " 0O640 ", 0o640},
		{"d", "7", 0o007}, {"e", "6711", 0o711 | fs.ModeSetuid | fs.ModeSetgid}, {"f", "0000644", 0o644},
	} {
		var more []string
		if c.mode != "" {
			more = []string{"mode", c.mode}
		}
		if r := put(dir+"/"+c.name, "body of "+c.name, more...); r.status != 204 || r.body != "" {
			t.Errorf("%s: %v", c.name, r)
		}
		if got := mustRead(t, dir+"/"+c.name); got != "body of "+c.name {
			t.Errorf("%s holds %q", c.name, got)
		}
		if got := modeOf(t, dir+"/"+c.name); got != c.want {
			t.Errorf("%s has mode %v, want %v", c.name, got, c.want)
		}
	}
	// In place: another name of the inode sees the new bytes, and the mode is set again.
	if err := os.Link(dir+"/plain", dir+"/other"); err != nil {
		t.Fatal(err)
	}
	if r := put(dir+"/plain", "x", "mode", "600"); r.status != 204 || mustRead(t, dir+"/other") != "x" || modeOf(t, dir+"/other") != 0o600 {
		t.Errorf("overwrite: %v", r)
	}
	if r := put(dir+"/plain", ""); r.status != 204 || mustRead(t, dir+"/plain") != "" || modeOf(t, dir+"/plain") != 0o644 {
		t.Errorf("overwrite with nothing: %v", r)
	}
	if r := put(dir+"/x/y/z/f", "deep"); r.status != 204 || modeOf(t, dir+"/x/y") != fs.ModeDir|0o755 {
		t.Errorf("parents: %v", r)
	}
	for _, mode := range []string{"8", "10000", "0o", "rw", "-1", "0x1ff", "", "1e3", "0b1"} {
		if r := put(dir+"/new/refused", "x", "mode", mode); r.status != 400 || !strings.Contains(r.body, "octal") {
			t.Errorf("mode %q: %v", mode, r)
		}
	}
	if _, err := os.Lstat(dir + "/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused mode left a parent behind")
	}
	if r := put(dir+"/a/below", "x"); r.status != 500 {
		t.Errorf("below a file: %v", r)
	}
	if r := put(dir, "x"); r.status != 500 {
		t.Errorf("over a folder: %v", r)
	}
	if r := d.call("PUT", api.PathFile, "x"); r.status != 400 || !strings.Contains(r.body, "path is missing") {
		t.Errorf("no path: %v", r)
	}
}

// TestFileUploadThatFails leaves nothing behind, whatever ends it.
func TestFileUploadThatFails(t *testing.T) {
	t.Attr("requirement", "FS-27")
	t.Attr("requirement", "FS-9")
	d := booted(t, func(c *agentd.Config) {
		c.Limits.MaxBodyBytes = 1 << 20
		c.Limits.BodyStallTimeout = 50 * time.Millisecond
	})
	dir := t.TempDir()
	head := func(name, rest string) string {
		return "PUT " + fileURL(api.PathFile, dir+"/"+name) + " HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer " + token + "\r\n" + rest
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
	for _, c := range []struct {
		name, rest string
		end        bool
		status     int
	}{
		{"stalled", "Content-Length: 10\r\n\r\nabc", false, 408},
		{"cut", "Content-Length: 10\r\n\r\nabc", true, 400},
		{"cut in a chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nab", true, 400},
		{"declared above the cap", "Content-Length: 1048577\r\n\r\n", false, 413},
		{"chunks above the cap", "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 16) + "1\r\nx\r\n", false, 413},
	} {
		p := d.dial()
		go func() {
			p.send(head(c.name, c.rest))
			if c.end {
				_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			}
		}()
		if r := p.read("PUT"); r.status != c.status {
			t.Errorf("%s: %v, want %d", c.name, r, c.status)
		}
		p.ended()
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%s: %v is left behind", c.name, entries)
		}
	}
	// The cap itself fits, declared or in chunks.
	for _, rest := range []string{sized(strings.Repeat("x", 1<<20)), "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 16) + "0\r\n\r\n"} {
		p := d.dial()
		go p.send(head("whole", rest))
		if r := p.read("PUT"); r.status != 204 || len(mustRead(t, dir+"/whole")) != 1<<20 {
			t.Errorf("a body of the cap: %v", r)
		}
		p.alive()
	}
}

// tarOf builds an archive of regular files, folders and links.
func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := h.Uname // the content of a regular file travels here
		h.Uname = ""
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(body))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (d *daemon) putTar(path string, body []byte) reply {
	d.t.Helper()
	return d.with("PUT", fileURL(api.PathTar, path), string(body), http.Header{"Authorization": {"Bearer " + token}})
}

// TestTarRoundTrip uploads a tree and downloads it again.
func TestTarRoundTrip(t *testing.T) {
	t.Attr("requirement", "FS-13")
	t.Attr("requirement", "FS-14")
	d := booted(t, nil)
	dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	long := strings.Repeat("long/", 60) + "name"
	up := tarOf(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700},
		tar.Header{Name: "ro/", Typeflag: tar.TypeDir, Mode: 0o555},
		tar.Header{Name: "ro/f", Mode: 0o6777, Uname: "in a folder that is read-only", Uid: 1234},
		tar.Header{Name: long, Mode: 0o644, Uname: "long"},
		tar.Header{Name: "ro/l", Typeflag: tar.TypeSymlink, Linkname: "../" + long},
		tar.Header{Name: "dangling", Typeflag: tar.TypeSymlink, Linkname: "no/where"},
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "ro/f"},
		tar.Header{Name: "a/../b", Mode: 0o600, Uname: "b"},
	)
	if r := d.putTar(dir, up); r.status != 204 || r.body != "" {
		t.Fatalf("upload: %v", r)
	}
	if modeOf(t, dir+"/ro") != fs.ModeDir|0o555 || modeOf(t, dir+"/ro/f") != 0o755 || mustRead(t, dir+"/hard") != "in a folder that is read-only" {
		t.Error("a mode or a hard link is wrong")
	}
	if got, _ := os.Readlink(dir + "/ro/l"); got != "../"+long || mustRead(t, dir+"/ro/l") != "long" || mustRead(t, dir+"/b") != "b" {
		t.Errorf("the link leads to %q", got)
	}
	r := d.get(fileURL(api.PathTar, dir))
	if r.status != 200 || r.header.Get("Content-Type") != api.MediaTar {
		t.Fatalf("download: %d %v", r.status, r.header)
	}
	var names []string
	for tr := tar.NewReader(strings.NewReader(r.body)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if names[0] != "./" || len(names) != 8+60 {
		t.Errorf("%d members, the first is %q", len(names), names[0])
	}
	second := filepath.Join(t.TempDir(), "copy")
	if r := d.putTar(second, []byte(r.body)); r.status != 204 || mustRead(t, second+"/"+long) != "long" {
		t.Errorf("upload of the download: %v", r)
	}
	for target, want := range map[string]int{
		fileURL(api.PathTar, dir+"/b"): 400, fileURL(api.PathTar, dir+"/none"): 404, api.PathTar: 400,
	} {
		if r := d.get(target); r.status != want {
			t.Errorf("%s: %v, want %d", target, r, want)
		}
	}
	for path, want := range map[string]int{"relative": 400, "": 400, dir + "/b": 400} {
		if r := d.putTar(path, up); r.status != want {
			t.Errorf("upload to %q: %v, want %d", path, r, want)
		}
	}
}
