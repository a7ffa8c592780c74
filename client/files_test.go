package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"microvms/client"
)

func readAll(t *testing.T, r io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFilesThroughTheDaemon writes and reads files and archives with the real
// daemon at the other end.
func TestFilesThroughTheDaemon(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir() // removed after the daemon has ended
	s := realSession(t)
	path := dir + "/a folder/f&=%"
	if err := s.PutFile(ctx, path, strings.NewReader("one\ntwo\nthree\n"), client.PutFileOptions{Mode: 0o750 | fs.ModeSetuid}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o750|fs.ModeSetuid {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	r, err := s.GetFile(ctx, path, client.Lines{})
	if sized, ok := r.(interface{ Size() int64 }); !ok || sized.Size() != 14 {
		t.Errorf("the stream does not tell its size of 14 bytes")
	}
	if got := readAll(t, r, err); got != "one\ntwo\nthree\n" {
		t.Errorf("the file is %q", got)
	}
	for lines, want := range map[client.Lines]string{{First: 2}: "two\nthree\n", {Last: 1}: "one\n", {First: 2, Last: 2}: "two\n", {First: 9}: ""} {
		r, err := s.GetFile(ctx, path, lines)
		if got := readAll(t, r, err); got != want {
			t.Errorf("%+v: %q, want %q", lines, got, want)
		}
	}
	// A body of unknown length, and none.
	if err := s.PutFile(ctx, path, iotest.OneByteReader(strings.NewReader("streamed")), client.PutFileOptions{}); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "streamed" {
		t.Errorf("the file is %q", b)
	}
	if err := s.PutFile(ctx, dir+"/empty", strings.NewReader(""), client.PutFileOptions{}); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "x/y", Typeflag: tar.TypeReg, Mode: 0o644}), w.Close(), s.PutTar(ctx, dir+"/up", &b)); err != nil {
		t.Fatal(err)
	}
	r, err = s.GetTar(ctx, dir+"/up")
	down := readAll(t, r, err)
	if h, err := tar.NewReader(strings.NewReader(down)).Next(); err != nil || h.Name != "./" {
		t.Errorf("the download begins with %+v, %v", h, err)
	}
	if _, err := os.Stat(dir + "/up/x/y"); err != nil {
		t.Error(err)
	}
}

// TestFileErrors meets each refusal that a caller can branch on.
func TestFileErrors(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir() // removed after the daemon has ended
	s := realSession(t, "AGENTD_MAX_BODY_BYTES=1000")
	_, err := s.GetFile(ctx, dir+"/none", client.Lines{})
	if !errors.Is(err, client.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if _, err = s.GetFile(ctx, dir, client.Lines{}); client.KindOf(err) != client.KindProtocol || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
	for name, err := range map[string]error{
		"empty path":    s.PutFile(ctx, "", strings.NewReader("x"), client.PutFileOptions{}),
		"NUL":           s.PutFile(ctx, "a\x00", strings.NewReader("x"), client.PutFileOptions{}),
		"relative root": s.PutTar(ctx, "a", strings.NewReader("x")),
	} {
		if client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.GetFile(ctx, dir+"/f", client.Lines{First: 3, Last: 2}); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("lines: %v", err)
	}
	if err := s.PutFile(ctx, dir+"/big", strings.NewReader(strings.Repeat("x", 1001)), client.PutFileOptions{}); client.WireKindOf(err) != client.WireTooLarge || !strings.Contains(err.Error(), "413: ") {
		t.Errorf("too large, in the daemon's words: %v", err)
	}
	if err := s.PutTar(ctx, dir+"/t", strings.NewReader("no tar")); client.WireKindOf(err) != client.WireServerError {
		t.Errorf("no tar: %v", err)
	}
	broken := errors.New("broken source")
	if err := s.PutFile(ctx, dir+"/cut", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), client.PutFileOptions{}); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.PutFile(ended, dir+"/f", strings.NewReader("x"), client.PutFileOptions{}); !errors.Is(err, client.ErrInterrupted) {
		t.Errorf("a context that has ended: %v", err)
	}
	s.Close()
	if err := s.PutFile(ctx, dir+"/f", strings.NewReader("x"), client.PutFileOptions{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a closed session: %v", err)
	}
}

// TestDownloadThatIsCut ends with an error, never with the end of the file.
func TestDownloadThatIsCut(t *testing.T) {
	for name, answer := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			buf := make([]byte, 4096)
			c.Read(buf)
			io.WriteString(c, answer)
		}()
		s, err := client.New("http://"+l.Addr().String(), "t", client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.GetFile(t.Context(), "/f", client.Lines{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if string(b) != "abc" || !client.Retryable(err) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		r.Close()
		s.Close()
		l.Close()
		<-done
	}
}
