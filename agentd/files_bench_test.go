package agentd_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"microvms/agentd"
	"microvms/agentd/api"
)

// fileDaemon runs a daemon for a benchmark and returns a call of its routes.
func fileDaemon(b *testing.B) func(method, target string, body io.Reader, size int64) int64 {
	b.Helper()
	d, err := agentd.New(agentd.Config{Log: slog.New(slog.DiscardHandler), Limits: agentd.Limits{DiskReserveBytes: -1}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(b.Context(), l) }()
	b.Cleanup(func() { <-served })
	base := "http://" + l.Addr().String()
	resp, err := http.Post(base+hookAt+"run", api.MediaJSON, bytes.NewReader([]byte(envelope(map[string]any{"agent_token": token}))))
	if err != nil {
		b.Fatal(err)
	}
	resp.Body.Close()
	return func(method, target string, body io.Reader, size int64) int64 {
		return transfer(b, method, base+target, body, size)
	}
}

// transfer makes one request and returns how much came back.
func transfer(b *testing.B, method, target string, body io.Reader, size int64) int64 {
	req, err := http.NewRequest(method, target, body)
	if err != nil {
		b.Fatal(err)
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		b.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return n
}

func benchDir(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "agentd-bench-")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

const benchBytes = 128 << 20

// bareHandler is the peer: a file in and out of net/http with nothing around it.
func bareHandler(b *testing.B, path string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			http.ServeFile(w, r, path)
			return
		}
		f, err := os.Create(path)
		if err == nil {
			_, err = io.Copy(f, r.Body)
			f.Close()
		}
		if err != nil {
			w.WriteHeader(500)
		}
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// BenchmarkFile moves one file up and down, beside a bare handler.
func BenchmarkFile(b *testing.B) {
	dir, data := benchDir(b), make([]byte, benchBytes)
	call := fileDaemon(b)
	bare := bareHandler(b, dir+"/bare")
	own := fileURL(api.PathFile, dir+"/own")
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"up/agentd", func() { call("PUT", own, bytes.NewReader(data), benchBytes) }},
		{"up/bare", func() { transfer(b, "PUT", bare, bytes.NewReader(data), benchBytes) }},
		{"down/agentd", func() { call("GET", own, nil, 0) }},
		{"down/bare", func() { transfer(b, "GET", bare, nil, 0) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(benchBytes)
			for b.Loop() {
				c.do()
			}
		})
	}
}

// BenchmarkTarUp extracts 10,000 files, beside GNU tar reading the same archive.
func BenchmarkTarUp(b *testing.B) {
	dir := benchDir(b)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	body := bytes.Repeat([]byte("0123456789abcdef"), 1356) // 217 MB in all
	for i := range 10000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/s%d/x/f%d.bin", i%20, i/50, i%50), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body))}); err != nil {
			b.Fatal(err)
		}
		w.Write(body)
	}
	w.Close()
	if err := os.WriteFile(dir+"/a.tar", archive.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	size := int64(archive.Len())
	b.Run("agentd", func(b *testing.B) {
		b.Setenv("TMPDIR", dir)
		call := fileDaemon(b)
		b.SetBytes(size)
		for b.Loop() {
			call("PUT", fileURL(api.PathTar, dir+"/own"), bytes.NewReader(archive.Bytes()), size)
			b.StopTimer()
			os.RemoveAll(dir + "/own")
			b.StartTimer()
		}
	})
	b.Run("gnu-tar", func(b *testing.B) {
		if _, err := exec.LookPath("tar"); err != nil {
			b.Skip("tar is not there")
		}
		b.SetBytes(size)
		for b.Loop() {
			if err := os.Mkdir(dir+"/gnu", 0o755); err != nil {
				b.Fatal(err)
			}
			if out, err := exec.Command("tar", "xf", dir+"/a.tar", "-C", dir+"/gnu").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			b.StopTimer()
			os.RemoveAll(dir + "/gnu")
			b.StartTimer()
		}
	})
}
