package main

import (
	"bufio"
	"maps"
	"strings"
	"testing"
	"time"
)

const benchmarkOutput = `goos: linux
pkg: microvms/model
BenchmarkTwo/workers=1-2         	       1	11234567890 ns/op	        11.01 Mstates/s	        58.20 B/state	    123456 B/op	      789 allocs/op
BenchmarkTwo/workers=10-2        	       1	1 ns/op
PASS
`

func TestBenchmarkMetrics(t *testing.T) {
	got, err := benchmarkMetrics(benchmarkOutput, "BenchmarkTwo/workers=1")
	want := metrics{"ns/op": 11234567890, "Mstates/s": 11.01, "B/state": 58.2, "B/op": 123456, "allocs/op": 789}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("metrics %v, %v; want %v", got, err, want)
	}
	// One processor: go test appends nothing.
	if got, err := benchmarkMetrics("BenchmarkX 1 5 ns/op\n", "BenchmarkX"); err != nil || got["ns/op"] != 5 {
		t.Errorf("metrics %v, %v", got, err)
	}
	for _, out := range []string{"", "PASS\n", strings.ReplaceAll(benchmarkOutput, "workers=1-2", "workers=3-2"), "BenchmarkTwo/workers=1-2 1 fast ns/op\n"} {
		if got, err := benchmarkMetrics(out, "BenchmarkTwo/workers=1"); err == nil {
			t.Errorf("%q gave %v", out, got)
		}
	}
}

func TestLimitOutputs(t *testing.T) {
	const pipe = "SSE base64 events of 4096 B, server+client parse               median 311 MB/s\n" +
		"SSE base64 events of 16384 B, server+client parse              median 387 MB/s\n"
	const exec = "os/exec sh -c true                           n=600 min=1ms p50=1.4ms p95=2ms p99=3ms\n" +
		"os/exec Setsid, 2 os.Pipe, own readers       n=600 min=871µs p50=1.031ms p95=2ms p99=3ms\n"
	const bfs = "v=det n=9 w=2 gen=123558402 distinct=10340352 levels=29 wall=6.1 cpu=12 gen/s=20.26M gen/cpu-s=10.30M distinct/s=1.70M rss=560.1MiB B/state=56.8 gcs=3 psi=0.01\ndigest=00\n"
	if got, err := limitThroughput(pipe, "SSE base64 events of 16384 B"); err != nil || got != 387 {
		t.Errorf("throughput %v, %v", got, err)
	}
	if got, err := limitMedian(exec, "os/exec Setsid, 2 os.Pipe, own readers"); err != nil || got != 0.001031 {
		t.Errorf("p50 %v, %v", got, err)
	}
	if got, err := bfsbenchRate(bfs); err != nil || got != 20.26 {
		t.Errorf("gen/s %v, %v", got, err)
	}
	// What is not there is an error, never a zero.
	if got, err := limitThroughput(pipe, "SSE base64 events of 32768 B"); err == nil {
		t.Errorf("throughput %v of a line that is not there", got)
	}
	if got, err := limitMedian(pipe, "os/exec Setsid, 2 os.Pipe, own readers"); err == nil {
		t.Errorf("p50 %v of a line that is not there", got)
	}
	if got, err := bfsbenchRate("panic: invariant"); err == nil {
		t.Errorf("gen/s %v of a failed run", got)
	}
}

func TestClocks(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	busy, err := busyTime("cpu  100 10 50 9000 900 5 15 20 60 0\ncpu0 1 2 3\n")
	if want := 2 * time.Second; err != nil || busy != want {
		t.Errorf("busy %v, %v; want %v", busy, err, want)
	}
	// The name of a program may hold spaces and brackets.
	own, err := processTime("42 (a) b) c) S 1 42 42 0 -1 0 1 2 3 4 100 50 30 20 20 0 3 0 99 1 1\n")
	if want := 2 * time.Second; err != nil || own != want {
		t.Errorf("process %v, %v; want %v", own, err, want)
	}
	for _, text := range []string{"", "cpu 1 2\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a b c d e f g h i j\n"} {
		if got, err := busyTime(text); err == nil {
			t.Errorf("busyTime(%q) = %v", text, got)
		}
	}
	if got, err := processTime("42 (x) S 1 2"); err == nil {
		t.Errorf("processTime of a short line = %v", got)
	}
	for _, tc := range []struct {
		all, ours time.Duration
		want      float64
	}{{3 * time.Second, time.Second, 1}, {time.Second, time.Second, 0}, {time.Second, 1010 * time.Millisecond, 0}} {
		if got := othersShare(tc.all, tc.ours, 2*time.Second); got != tc.want {
			t.Errorf("othersShare(%v, %v) = %v, want %v", tc.all, tc.ours, got, tc.want)
		}
	}
}

func TestStatusBytes(t *testing.T) {
	const status = "Name:\tagentd\nVmHWM:\t   20480 kB\nVmRSS:\t    8192 kB\n"
	if got, err := statusBytes(status, "VmRSS"); err != nil || got != 8<<20 {
		t.Errorf("VmRSS %d, %v", got, err)
	}
	if got, err := statusBytes(status, "VmSwap"); err == nil {
		t.Errorf("VmSwap %d of a status without it", got)
	}
}

func TestMovedByTheKernel(t *testing.T) {
	for line, want := range map[string]int64{
		"[pid 17] sendfile(9, 11, NULL, 4194304) = 262144":                        262144,
		"[pid 17] <... sendfile resumed>) = 4096":                                 4096,
		"[pid 17] sendfile64(9, 11, NULL, 4194304)  = 7":                          7,
		"splice(4, NULL, 5, NULL, 65536, 0) = 100":                                100,
		"[pid 17] sendfile(9, 11, NULL, 4194304 <unfinished ...>":                 0,
		"sendfile(9, 11, NULL, 9) = -1 EAGAIN (Resource temporarily unavailable)": 0,
		"strace: Process 17 attached with 6 threads":                              0,
	} {
		if got := movedBy(line); got != want {
			t.Errorf("movedBy(%q) = %d, want %d", line, got, want)
		}
	}
	attached := make(chan struct{})
	if got := kernelMoved(bufio.NewReader(strings.NewReader("attached\nsplice(1) = 5\nsendfile(2) = 7\n+++ exited with 0 +++")), attached); got != 12 {
		t.Errorf("the kernel moved %d bytes, want 12", got)
	}
	<-attached
}

// TestSealedMessagesOpen holds the benchmark's two sides of a verified tunnel to each other and to the port.
func TestSealedMessagesOpen(t *testing.T) {
	for _, port := range []uint16{8080, 8081} {
		i, err := handshake(8080, true)
		if err != nil {
			t.Fatal(err)
		}
		r, err := handshake(port, false)
		if err != nil {
			t.Fatal(err)
		}
		hello, _, _, err := i.WriteMessage(nil, []byte{1})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := r.ReadMessage(nil, hello); (err == nil) != (port == 8080) {
			t.Errorf("a handshake for port 8080 at port %d: %v", port, err)
		}
	}
}
