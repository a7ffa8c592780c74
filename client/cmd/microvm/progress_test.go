package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"microvms/client"
	"microvms/client/microvmtest"
)

// steps is a clock that moves at each look.
func steps(each time.Duration) func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time { now = now.Add(each); return now }
}

// copyTo runs a slow upload with stderr as it is given, and returns the code and
// what stdout got.
func copyTo(t *testing.T, stderr io.Writer, env map[string]string, args ...string) (int, string) {
	t.Helper()
	srv := microvmtest.New()
	var stdout bytes.Buffer
	a := fakeApp(srv, &stdout, stderr)
	known := a.env
	a.env = func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return known(name)
	}
	a.stdin = iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 40)))
	a.now = steps(150 * time.Millisecond)
	return a.run(t.Context(), args), stdout.String()
}

// Progress is for a person at a terminal who did not ask for quiet. It is painted
// over itself, not with every byte, and taken away.
func TestProgressIsForTerminals(t *testing.T) {
	t.Attr("requirement", "CLI-40")
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want bool
	}{
		"terminal":        {nil, []string{"cp", "-", "vm:/f"}, true},
		"json":            {nil, []string{"cp", "--json", "-", "vm:/f"}, true},
		"quiet":           {nil, []string{"cp", "-q", "-", "vm:/f"}, false},
		"a dumb terminal": {map[string]string{"TERM": "dumb"}, []string{"cp", "-", "vm:/f"}, false},
	} {
		control, tty := openTerminal(t)
		code, stdout := copyTo(t, tty, c.env, c.args...)
		// Read until a mark: a terminal has no end.
		io.WriteString(tty, "|")
		painted := readUntil(t, control, '|')
		n := strings.Count(painted, "\r\x1b[K")
		if code != 0 || !strings.Contains(stdout, "40") || (n > 0) != c.want || n > 40 {
			t.Errorf("%s: code %d, stdout %q, %d paints: %q", name, code, stdout, n, painted)
		}
		if c.want && !(strings.HasSuffix(painted, "\r\x1b[K|") && strings.Contains(painted, "40 B  ")) {
			t.Errorf("%s: painted %q", name, painted)
		}
	}
	var pipe bytes.Buffer
	if code, stdout := copyTo(t, &pipe, nil, "cp", "-", "vm:/f"); code != 0 || pipe.Len() > 0 || stdout == "" {
		t.Errorf("a pipe: code %d, stdout %q, stderr %q", code, stdout, pipe.String())
	}
}

func readUntil(t *testing.T, f *os.File, mark byte) string {
	t.Helper()
	var b strings.Builder
	one := make([]byte, 1)
	for {
		if _, err := f.Read(one); err != nil {
			t.Fatal(err)
		}
		b.WriteByte(one[0])
		if one[0] == mark {
			return b.String()
		}
	}
}

// The line says how much, how fast and how long yet; it never promises more than
// all.
func TestProgressLine(t *testing.T) {
	t.Attr("requirement", "CLI-40")
	for _, c := range []struct {
		done, total int64
		after       time.Duration
		want        string
	}{
		{512, 0, time.Second, "512 B  512 B/s"},
		{3 << 20, 12 << 20, 2 * time.Second, "3.0 MiB of 12.0 MiB  1.5 MiB/s  6s left"},
		{2048, 1024, time.Second, "1.0 KiB of 1.0 KiB  2.0 KiB/s  0s left"},
		{0, 1 << 40, time.Second, "0 B of 1.0 TiB  0 B/s"},
		{1, 1 << 50, time.Hour, "1 B of 1024.0 TiB  0 B/s  277h46m40s left"},
	} {
		p := &progress{done: c.done, total: c.total}
		if got := p.line(c.after); got != c.want {
			t.Errorf("%d of %d after %s: %q, want %q", c.done, c.total, c.after, got, c.want)
		}
	}
}

// An interrupt ends a copy, also one that waits for its own input, and leaves no
// part of a file.
func TestCopyIsInterrupted(t *testing.T) {
	t.Attr("requirement", "CLI-37")
	for _, args := range [][]string{{"cp", "-", "vm:/f"}, {"cp", "--tar", "-", "vm:/f"}, {"cp", "vm:/big", t.TempDir() + "/f"}, {"cp", "vm:/big", "-"}} {
		srv := microvmtest.New()
		started := make(chan struct{}, 8)
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Get("path") == "/big" {
				io.WriteString(w, "the beginning")
				started <- struct{}{}
				<-r.Context().Done()
				return
			}
			if r.Method == http.MethodPut {
				started <- struct{}{}
			}
			next.ServeHTTP(w, r)
		}
		var stdout, stderr bytes.Buffer
		a := fakeApp(srv, &stdout, &stderr)
		input, feed := io.Pipe()
		a.stdin = input
		if args[1] == "--tar" { // which looks at the first header
			var archive bytes.Buffer
			if err := tar.NewWriter(&archive).WriteHeader(&tar.Header{Name: "f", Size: 5}); err != nil {
				t.Fatal(err)
			}
			a.stdin = io.MultiReader(&archive, input)
		}
		interrupts := make(chan os.Signal, 1)
		a.interrupts = interrupts
		go func() {
			<-started
			interrupts <- os.Interrupt
		}()
		if code := a.run(context.Background(), args); code != 11 || !strings.Contains(stderr.String(), string(client.KindInterrupted)) {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr.String())
		}
		feed.Close()
		if dst := args[len(args)-1]; strings.HasPrefix(dst, "/") {
			if left, err := os.ReadDir(strings.TrimSuffix(dst, "/f")); err != nil || len(left) != 0 {
				t.Errorf("%q: left %v, %v", args, left, err)
			}
		}
	}
}

// Files of an upload are root's, which is said where commands run as another.
func TestUploadWarnsOfOwner(t *testing.T) {
	t.Attr("requirement", "CLI-44")
	for user, want := range map[string]string{
		"app":       "belongs to root, and commands run as \"app\": to change that, microvm exec --user 0 -- chown -R app '/it'\\''s'",
		"1000:1000": "chown -R 1000:1000 '/it'", "root": "", "0:0": "", "": "", "none": "",
	} {
		srv := microvmtest.New()
		if user != "none" {
			srv.DefaultUser = &user
		}
		var stdout, stderr bytes.Buffer
		a := fakeApp(srv, &stdout, &stderr)
		if code := a.run(t.Context(), []string{"cp", "-", "vm:/it's"}); code != 0 || (want == "") != (stderr.Len() == 0) || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: code %d, stderr %q", user, code, stderr.String())
		}
		stderr.Reset()
		if code := fakeApp(srv, &stdout, &stderr).run(t.Context(), []string{"cp", "vm:/it's", "-"}); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q, download: code %d, stderr %q", user, code, stderr.String())
		}
	}
}
