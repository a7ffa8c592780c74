package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"microvms/client"
	"microvms/client/daemontest"
	"microvms/client/microvmtest"
)

// members gives an archive in comparable words: names, kinds, modes, sizes,
// targets and content, in their order.
func members(t *testing.T, data []byte) string {
	t.Helper()
	var b strings.Builder
	in := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := in.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		mode := h.Mode
		if h.Typeflag == tar.TypeSymlink {
			mode = 0 // nobody reads it
		}
		fmt.Fprintf(&b, "%c %s %o %q %q\n", h.Typeflag, h.Name, mode, h.Linkname, content)
	}
}

// archiveOf builds a tar of "kind name mode target content" lines.
func archiveOf(t *testing.T, lines ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, line := range lines {
		var kind, name, target, content string
		var mode int64
		if _, err := fmt.Sscanf(line, "%1s %q %o %q %q", &kind, &name, &mode, &target, &content); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		h := &tar.Header{Typeflag: kind[0], Name: name, Mode: mode, Linkname: target, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fileExchanges meet every answer of the file routes that needs no limit, in an
// order in which each kind of entry is met. {} stands for a folder of the test.
func fileExchanges(t *testing.T) []exchange {
	get := func(rest string) exchange { return exchange{"GET", "/v1/fs/file?path={}" + rest, "", ""} }
	put := func(rest, body string) exchange { return exchange{"PUT", "/v1/fs/file?path={}" + rest, body, ""} }
	down := func(rest string) exchange { return exchange{"GET", "/v1/fs/tar?path={}" + rest, "", ""} }
	up := func(rest string, lines ...string) exchange {
		return exchange{"PUT", "/v1/fs/tar?path={}" + rest, archiveOf(t, lines...), ""}
	}
	raw := func(rest, body string) exchange { return exchange{"PUT", "/v1/fs/tar?path={}" + rest, body, ""} }
	whole := archiveOf(t, `0 "f" 644 "" "cut"`)
	list := []exchange{
		{"GET", "/v1/fs/file?path={}", "", "none"}, {"PUT", "/v1/fs/tar?path={}", "x", "wrong"}, {"POST", "/v1/fs/file?path={}", "", ""},
		{"GET", "/v1/fs/file", "", ""}, {"GET", "/v1/fs/file?path=", "", ""}, {"GET", "/v1/fs/tar", "", ""}, {"PUT", "/v1/fs/file?path=%00", "x", ""},
		get("/none"), put("/a/b/f", "one\ntwo\nthree"), get("/a/b/f"), get("/a/b/f&path=/x"), get("/a/b/f&unknown=1"), get("/a/b"), get("/a/b/f/x"), get("/a/b/f/."),
		get("/a/b/f/"), get("/a/b/."), get("/none/."), get("/a/b/../b/f"),
		get("/a/b/f&start_line=2"), get("/a/b/f&end_line=1"), get("/a/b/f&start_line=2&end_line=2"), get("/a/b/f&start_line=9"), get("/a/b/f&end_line=9"),
		get("/a/b/f&start_line=0"), get("/a/b/f&start_line=3&end_line=2"), get("/a/b/f&start_line=-1"), get("/a/b/f&start_line=x"), get("/a/b/f&end_line="),
		get("/a/b/f&start_line=%2B1"), get("/none&start_line=0"), get("/a/b/f&start_line=1&start_line=1"),
		put("/a/b/f&mode=8", "x"), put("/a/b/f&mode=", "x"), put("/a/b/f&mode=10000", "x"), put("/a/b/f&mode=1&mode=1", "x"), put("/n/f&mode=-1", "x"), get("/n/f"),
		put("/a/b/f&mode=+0o4711+", "new"), put("/a/b/empty&mode=600", ""), put("/a/b", "x"), put("/a/b/f/x", "x"), put("/a/dir/", "x"), get("/a/dir"),
		down("/a"), down("/a/"), down("/a/b/f"), down("/none"), down("/a/b/f/x"), down("&path=/x"),
		up("/u", `5 "./" 700 "" ""`, `5 "d/" 7777 "" ""`, `0 "d/f" 6777 "" "1"`, `2 "l" 777 "d/f" ""`, `2 "d/up" 777 "../l" ""`, `2 "dangling" 777 "x/y" ""`, `1 "h" 644 "d/f" ""`, `0 "deep/er/f" 600 "" ""`),
		down("/u"), get("/u/l"), get("/u/d/up"), get("/u/dangling"), get("/u/h"), put("/u/l", "through"), get("/u/d/f"), get("/u/h"),
		up("/u", `0 "l" 644 "" "a file now"`, `2 "h" 777 "deep" ""`, `1 "d/g" 644 "l" ""`, `1 "l" 644 "d/g" ""`), down("/u"), get("/u/d/f"),
		up("/u", `0 "h/f" 644 "" "x"`), up("/u", `5 "h/" 755 "" ""`), up("/u", `0 "d" 644 "" "x"`), up("/u", `0 "l/f" 644 "" "x"`), up("/u", `5 "l/" 755 "" ""`), up("/u", `1 "k" 644 "h" ""`),
		up("/u", `1 "k" 644 "none" ""`), up("/u", `1 "k" 644 "d" ""`), up("/u", `1 "k" 644 "." ""`), up("/u", `1 "k" 644 "h/er" ""`), down("/u"),
		up("/l", `2 "x" 777 "x" ""`), get("/l/x"), put("/l/x", "x"), down("/l/x"), up("/l/x", `0 "f" 644 "" ""`),
		up("/u/l", `0 "f" 644 "" ""`), up("/u/h", `0 "through" 644 "" ""`), get("/u/deep/through"),
	}
	for _, bad := range []string{`0 "../f" 644 "" "x"`, `0 "a/../../f" 644 "" "x"`, `0 "/f" 644 "" "x"`, `0 "." 644 "" ""`, `2 "s" 777 "/etc" ""`, `2 "s" 777 ".." ""`, `2 "a/s" 777 "../.." ""`,
		`1 "s" 777 "/etc/passwd" ""`, `1 "s" 777 "../f" ""`, `3 "c" 644 "" ""`, `4 "b" 644 "" ""`, `6 "p" 644 "" ""`, `2 "s" 777 "a/.." ""`, `0 "x/../y" 644 "" "y"`} {
		list = append(list, up("/bad", `0 "first" 644 "" "1"`, bad), get("/bad/first"))
	}
	list = append(list, down("/bad"), raw("/cut", whole[:512]), raw("/cut", whole[:1024]), raw("/cut", whole[:1536]), raw("/cut", whole[:700]), raw("/cut", ""), raw("/cut", strings.Repeat("no", 512)),
		raw("/cut", whole), down("/cut"), exchange{"PUT", "/v1/fs/tar?path=rel", whole, ""})
	return list
}

// The fake answers the file routes as the daemon does: statuses, media types,
// content, and what then is on the disk.
func TestFakeFilesAgreeWithDaemon(t *testing.T) {
	t.Attr("requirement", "CLIENT-33")
	dir := t.TempDir()
	realDaemon := daemon(t)
	fake := microvmtest.New()
	defer fake.Close()
	server := httptest.NewServer(fake)
	defer server.Close()
	statuses := map[string]int{}
	for _, e := range fileExchanges(t) {
		e.path = strings.ReplaceAll(e.path, "{}", url.QueryEscape(dir))
		want := e.do(t, realDaemon.Endpoint, daemontest.Token)
		got := e.do(t, server.URL, microvmtest.Token)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %.80q: daemon (-), fake (+)\n%s", e.method, e.path, e.body, diff)
		}
		statuses[want[:3]]++
	}
	for _, status := range []string{"200", "204", "400", "401", "404", "405", "500"} {
		if statuses[status] == 0 {
			t.Errorf("no exchange was answered with %s: %v", status, statuses)
		}
	}
}

// The fake's own disk is what its users see: they put files there and read them.
func TestFakeDisk(t *testing.T) {
	fake := microvmtest.New()
	s := fake.Session(t)
	if err := errors.Join(fake.WriteFile("/etc/app.conf", []byte("a=1"), 0o600), fake.Symlink("app.conf", "/etc/link")); err != nil {
		t.Fatal(err)
	}
	r, err := s.GetFile(t.Context(), "/etc/link", client.Lines{})
	if got := readAll(t, r, err); got != "a=1" {
		t.Errorf("the file is %q", got)
	}
	if err := s.PutFile(t.Context(), "/etc/link", strings.NewReader("a=2"), client.PutFileOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := fake.ReadFile("/etc/app.conf"); string(b) != "a=2" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for name, err := range map[string]error{
		"a folder":   fake.WriteFile("/etc", nil, 0o644),
		"below file": fake.WriteFile("/etc/app.conf/x", nil, 0o644),
		"taken":      fake.Symlink("x", "/etc/link"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := fake.ReadFile("/none"); err == nil {
		t.Error("an absent file was read")
	}
}
