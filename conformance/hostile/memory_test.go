package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/conformance/process"
)

// peakCeiling is the resident memory that a daemon may have at most, whatever
// the size of what is moved through it.
const peakCeiling = 48 << 20

// blank is an endless body.
type blank struct{}

func (blank) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// moveThrough uploads a file and an archive of size bytes each, downloads both
// again, and returns the daemon's peak resident memory.
func moveThrough(t testing.TB, size int64) int64 {
	t.Helper()
	ctx := context.Background()
	d, err := process.Start(ctx, binary, process.Options{Env: []string{"AGENTD_MAX_BODY_BYTES=" + fmt.Sprint(size+1<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	}()
	installAt(t, d.URL())
	dir := t.TempDir()
	at := func(route, path string) string { return d.URL() + route + "?path=" + url.QueryEscape(path) }
	do := func(method, target string, body io.Reader, length int64, want int) int64 {
		req, err := http.NewRequestWithContext(ctx, method, target, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if body != nil {
			req.ContentLength = length
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: status %d, %v", method, target, resp.StatusCode, err)
		}
		return n
	}
	do("PUT", at(api.PathFile, dir+"/tree/file"), io.LimitReader(blank{}, size), size, 204)
	if n := do("GET", at(api.PathFile, dir+"/tree/file"), nil, 0, 200); n != size {
		t.Errorf("%d bytes of the file came back", n)
	}
	if n := do("GET", at(api.PathFile, dir+"/tree/file")+"&start_line=1&end_line=2", nil, 0, 200); n != size {
		t.Errorf("%d bytes of its one line came back", n)
	}
	head := member{name: "big", typ: '0', mode: 0o644, size: "\x80" + strings.Repeat("\x00", 3) + string([]byte{byte(size >> 56), byte(size >> 48), byte(size >> 40), byte(size >> 32), byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})}.bytes()
	archive := io.MultiReader(strings.NewReader(head), io.LimitReader(blank{}, size+2*tarBlock))
	do("PUT", at(api.PathTar, dir+"/up"), archive, int64(len(head))+size+2*tarBlock, 204)
	if n := do("GET", at(api.PathTar, dir+"/up"), nil, 0, 200); n < size {
		t.Errorf("%d bytes of the archive came back", n)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return look(d.PID()).peak
}

func installAt(t testing.TB, at string) {
	t.Helper()
	body := fmt.Sprintf(`{"runHookPayload":%q}`, fmt.Sprintf(`{"agent_token":%q}`, token))
	resp, err := http.Post(at+api.HookPrefix+"/run", api.MediaJSON, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("the bootstrap answered %d", resp.StatusCode)
	}
}

// TestTransfersStayOutOfMemory moves several times the ceiling in each of four
// ways. The benchmark moves 4 GiB.
func TestTransfersStayOutOfMemory(t *testing.T) {
	t.Attr("requirement", "FS-8")
	if peak := moveThrough(t, 192<<20); peak > peakCeiling || peak <= 0 {
		t.Errorf("the peak is %d bytes, the ceiling %d", peak, peakCeiling)
	}
}

// BenchmarkTransfer4GiB reports the daemon's peak while it moves 4 GiB each way,
// as a file and as an archive, and fails above the ceiling.
func BenchmarkTransfer4GiB(b *testing.B) {
	peak := int64(0)
	for b.Loop() {
		peak = max(peak, moveThrough(b, 4<<30))
	}
	b.SetBytes(5 * 4 << 30)
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	if peak > peakCeiling {
		b.Errorf("the peak is %d bytes, the ceiling %d", peak, peakCeiling)
	}
}
