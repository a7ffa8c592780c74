package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// limitPrograms are stand-ins that print what the limit programs print.
var limitPrograms = map[string]string{
	"daemon/go.mod": "module limits\n\ngo 1.26.0\n",
	"daemon/exec/main.go": `package main

import "fmt"

func main() {
	fmt.Println("os/exec Setsid, 2 os.Pipe, own readers       n=600 min=1ms p50=2s p95=3s p99=4s")
}
`,
	"daemon/pipe/main.go": `package main

import "fmt"

func main() { fmt.Println("SSE base64 events of 16384 B, server+client parse              median 1.5 MB/s") }
`,
	"daemon/upload/main.go": `package main

import "fmt"

func main() {
	fmt.Println("PUT 512MiB -> file+rename /dev/shm            median 3 MB/s (min 1 max 9)")
	fmt.Println("PUT 512MiB -> file, 1 MiB bufio /dev/shm      median 4 MB/s (min 1 max 9)")
	fmt.Println("GET 512MiB ServeFile(sendfile) /dev/shm       median 5 MB/s (min 1 max 9)")
}
`,
	"daemon/ws/main.go": `package main

import "fmt"

func main() {
	fmt.Println("coder/websocket client->server 32768 B msgs                   median 1 MB/s")
	fmt.Println("coder/websocket client->server 61440 B msgs                   median 6 MB/s")
	fmt.Println("coder/websocket + Noise ChaChaPoly 60 KiB msgs                median 7 MB/s")
}
`,
	"daemon/http/main.go": `package main

import (
	"flag"
	"net/http"
)

func main() {
	addr := flag.String("serve", "", "")
	flag.Parse()
	http.HandleFunc("GET /v1/health", func(http.ResponseWriter, *http.Request) {})
	panic(http.ListenAndServe(*addr, nil))
}
`,
}

func measured(t *testing.T, args ...string) map[string]jsonFigure {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), append([]string{"--root", "../../..", "--quick", "--json"}, args...), &stdout, &stderr); code != exitMeasured {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var all struct{ Figures []jsonFigure }
	if err := json.Unmarshal(stdout.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	figures := map[string]jsonFigure{}
	for _, f := range all.Figures {
		figures[f.Name] = f
	}
	return figures
}

// TestMeasuresTheDaemon runs the command on the real daemon with little work,
// without limit programs and beside stand-ins for them.
func TestMeasuresTheDaemon(t *testing.T) {
	figures := measured(t, "--rounds", "2", "--only", "daemon/(exec of true|health|stream|poll|1,000|resident)")
	if len(figures) != 14 {
		t.Errorf("%d figures, want 14", len(figures))
	}
	for name, f := range figures {
		if len(f.Rounds) != 2 || f.Ours <= 0 {
			t.Errorf("%s: ours %v in %d rounds", name, f.Ours, len(f.Rounds))
		}
		if beside := strings.Contains(name, "limit program"); beside != (f.Verdict == peerNotMeasured) {
			t.Errorf("%s: verdict %q without limit programs", name, f.Verdict)
		}
	}
}

// inMemory reports whether this machine has the tmpfs that speeds of files are measured on.
func inMemory(t *testing.T) bool {
	t.Helper()
	b := &bench{w: &workshop{dir: t.TempDir(), size: size{fileBytes: 1, folders: 1}}, daemon: &daemon{}}
	if err := b.setupFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.w.stops[0]()
	return b.tmpfs
}

// TestMeasuresFilesAndTunnels moves a little of everything through the real daemon and its bare peers.
func TestMeasuresFilesAndTunnels(t *testing.T) {
	figures := measured(t, "--rounds", "2", "--only", "daemon/(single file up, tmpfs|single file down, tmpfs|tar|tunnel to the guest, (plain|verified)$)")
	names := []string{plainTunnelName, verifiedTunnelName}
	if inMemory(t) {
		names = append(names, fileUpName, fileDownName, tarUpName, tarDownName)
	}
	for _, name := range names {
		f := figures[name]
		if len(f.Rounds) != 2 || f.Ours <= 0 || f.Peer <= 0 && gnuTar(t.Context()) {
			t.Errorf("%s: ours %v, peer %v in %d rounds", name, f.Ours, f.Peer, len(f.Rounds))
		}
	}
	if len(figures) != 6 {
		t.Errorf("%d figures, want 6", len(figures))
	}
}

// TestMeasuresTheManager runs the command on the real manager with little work.
func TestMeasuresTheManager(t *testing.T) {
	figures := measured(t, "--rounds", "2", "--only", "^manager/")
	if len(figures) != 10 {
		t.Errorf("%d figures, want 10", len(figures))
	}
	for name, f := range figures {
		beside := name == runName || name == runTailName || name == rateName || strings.Contains(name, "run request")
		if len(f.Rounds) != 2 || f.Ours <= 0 || beside != (f.Peer > 0) {
			t.Errorf("%s: ours %v, peer %v in %d rounds", name, f.Ours, f.Peer, len(f.Rounds))
		}
	}
}

func TestMeasuresBesideLimitPrograms(t *testing.T) {
	peers := t.TempDir()
	for name, text := range limitPrograms {
		path := filepath.Join(peers, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	figures := measured(t, "--rounds", "1", "--peers", peers, "--only", "limit program")
	if f := figures[streamLimitName]; f.Peer != 1.5 || f.Ratio != f.Ours/f.Peer {
		t.Errorf("stream: peer %v, ratio %v", f.Peer, f.Ratio)
	}
	// Two seconds for the spawn, and a round trip.
	if f := figures[trueLimitName]; f.Peer <= 2000 {
		t.Errorf("exec: peer %v ms", f.Peer)
	}
	if f := figures[healthLimit]; f.Peer <= 0 {
		t.Errorf("health: peer %v", f.Peer)
	}
	want := map[string]float64{plainLimitName: 6, verifiedLimitName: 7}
	if inMemory(t) {
		want[fileUpLimit], want[fileDownLimit] = 3, 5
	}
	for name, peer := range want {
		if f := figures[name]; f.Peer != peer || f.Ratio != f.Ours/peer {
			t.Errorf("%s: peer %v, ratio %v; want peer %v", name, f.Peer, f.Ratio, peer)
		}
	}
	if len(figures) != 7 {
		t.Errorf("%d figures, want 7", len(figures))
	}
}
