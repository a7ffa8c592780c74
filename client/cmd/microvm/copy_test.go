package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/microvmtest"
)

// answering answers each upload with a status and counts them.
func answering(status int, text string, uploads *int) *microvmtest.Server {
	srv := microvmtest.New()
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPut {
			next.ServeHTTP(w, r)
			return
		}
		*uploads++
		_, _ = io.Copy(io.Discard, r.Body) // a body that broke off is answered all the same
		w.WriteHeader(status)
		if text != "" {
			fmt.Fprint(w, text)
		}
	}
	return srv
}

// A failed upload of a file says that what was there may be gone, unless the
// daemon refused it before it opened the file.
func TestFailedUploadNamesTheLoss(t *testing.T) {
	t.Attr("requirement", "CLI-46")
	for status, loss := range map[int]bool{400: false, 401: false, 404: false, 503: false, 408: true, 413: true, 500: true, 507: true} {
		uploads := 0
		srv := answering(status, "", &uploads)
		var stderr bytes.Buffer
		code := fakeApp(srv, io.Discard, &stderr).run(t.Context(), []string{"cp", "--mode", "600", "-", "vm:/f"})
		if said := strings.Contains(stderr.String(), "hint: if vm:/f was there before, its old content may be gone"); said != loss || uploads != 1 || code == 0 {
			t.Errorf("%d: code %d, %d uploads, stderr %q", status, code, uploads, stderr.String())
		}
		srv.Close()
	}
	srv := microvmtest.New()
	defer srv.Close()
	var stderr bytes.Buffer
	a := fakeApp(srv, io.Discard, &stderr)
	a.stdin = iotest.ErrReader(io.ErrUnexpectedEOF)
	if code := a.run(t.Context(), []string{"cp", "-", "vm:/f"}); code != 12 || !strings.Contains(stderr.String(), "may be gone") {
		t.Errorf("an input that breaks: code %d, stderr %q", code, stderr.String())
	}
	for _, refused := range []error{usage("x"), &client.Error{Kind: client.KindInvalidArg}} {
		if got := spoilt("/f", refused); got != refused {
			t.Errorf("%v became %v", refused, got)
		}
	}
}

// What does not begin like an archive is refused before it is sent; so is what
// the daemon would refuse again not called transient.
func TestNoArchiveIsRefusedHere(t *testing.T) {
	t.Attr("requirement", "CLI-47")
	var good bytes.Buffer
	w := tar.NewWriter(&good)
	if err := w.WriteHeader(&tar.Header{Name: strings.Repeat("long/", 50), Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, input string
		status      int
		text        string
		code        int
		want        string
	}{
		{"text", strings.Repeat("root:x:0:0\n", 100), 204, "", 2, "is no tar archive: it does not begin"},
		{"short", "root:x:0:0\n", 204, "", 2, "it has only 11 bytes"},
		{"nothing", "", 204, "", 2, "it has only 0 bytes"},
		{"gzip", "\x1f\x8b" + strings.Repeat("z", 1000), 204, "", 2, "compressed with gzip"},
		{"short gzip", "\x1f\x8b\x08", 204, "", 2, "compressed with gzip"},
		{"good", good.String(), 204, "", 0, ""},
		{"no members", string(make([]byte, 1024)), 204, "", 0, ""},
		{"refused for its content", good.String(), 500, api.ArchiveRefused + "it is cut short", 5, "error ERR_PROTOCOL: PUT /v1/fs/tar -> 500"},
		{"a disk that fails", good.String(), 500, "cannot make the root", 3, "error ERR_RETRYABLE"},
	} {
		uploads := 0
		srv := answering(c.status, c.text, &uploads)
		var stderr bytes.Buffer
		a := fakeApp(srv, io.Discard, &stderr)
		a.stdin = strings.NewReader(c.input)
		code := a.run(t.Context(), []string{"cp", "--tar", "-", "vm:/d"})
		if code != c.code || !strings.Contains(stderr.String(), c.want) || (uploads == 0) != (c.code == 2) {
			t.Errorf("%s: code %d, %d uploads, stderr %q", c.name, code, uploads, stderr.String())
		}
		srv.Close()
	}
}

// A finding is cited where the error rests on it, and nowhere else.
func TestFindingsAreThoseOfTheError(t *testing.T) {
	t.Attr("requirement", "CLI-48")
	for _, c := range []struct {
		err  client.Error
		want string
	}{
		{client.Error{Kind: client.KindRetryable, Wire: client.WireAuthTokenMint}, "Endpoint authentication"},
		{client.Error{Kind: client.KindRetryable, Wire: client.WireNotBootstrapped}, "Endpoint authentication"},
		{client.Error{Kind: client.KindRetryable, Wire: client.WireServerError}, ""},
		{client.Error{Kind: client.KindRetryable}, ""},
		{client.Error{Kind: client.KindInterrupted}, ""},
		{client.Error{Kind: client.KindWindowClosed}, "`idlePolicy`"},
	} {
		srv := microvmtest.New()
		if env, _ := fakeApp(srv, io.Discard, io.Discard).failure(&c.err); env.Finding != c.want {
			t.Errorf("%+v cites %q, want %q", c.err, env.Finding, c.want)
		}
		srv.Close()
	}
}
