package agentd_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"microvms/agentd"
)

// benchDaemon runs a daemon for a benchmark and returns its address and a
// client with one kept connection.
func benchDaemon(b *testing.B) (url string, client *http.Client) {
	b.Helper()
	d, err := agentd.New(agentd.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(context.Background(), l) }()
	transport := &http.Transport{}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		d.Shutdown(context.Background())
		<-served
	})
	url, client = "http://"+l.Addr().String(), &http.Client{Transport: transport}
	if status, _ := benchCall(b, client, "POST", url+hookAt+"run", envelope(map[string]string{"agent_token": token})); status != 200 {
		b.Fatalf("bootstrap: %d", status)
	}
	return url, client
}

// benchCall sends one request and reads the answer away.
func benchCall(b *testing.B, client *http.Client, method, url, body string) (status int, length int64) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, reader)
	if err != nil {
		b.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	length, err = io.Copy(io.Discard, resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, length
}

// BenchmarkHealth is one health request on a kept connection.
func BenchmarkHealth(b *testing.B) {
	url, client := benchDaemon(b)
	for b.Loop() {
		benchCall(b, client, "GET", url+"/v1/health", "")
	}
}

// BenchmarkExecTrue is a start of true and its stream to the exit event.
func BenchmarkExecTrue(b *testing.B) {
	url, client := benchDaemon(b)
	n := 0
	for b.Loop() {
		n++
		benchCall(b, client, "POST", url+"/v1/exec/start", fmt.Sprintf(`{"exec_id":"%d","command":["/bin/true"]}`, n))
		benchCall(b, client, "GET", fmt.Sprintf("%s/v1/exec/%d/stream", url, n), "")
	}
}

// BenchmarkPoll is a poll of 8 MiB of held output.
func BenchmarkPoll(b *testing.B) {
	url, client := benchDaemon(b)
	benchCall(b, client, "POST", url+"/v1/exec/start", `{"exec_id":"p","command":["yes a line of output that a command may write | head -c 8388608"],"shell":true}`)
	benchCall(b, client, "GET", url+"/v1/exec/p/stream", "")
	b.SetBytes(8 << 20)
	for b.Loop() {
		if _, n := benchCall(b, client, "GET", url+"/v1/exec/p", ""); n < 8<<20 {
			b.Fatalf("%d bytes", n)
		}
	}
}

// BenchmarkStream is 256 MiB of output, followed live. Bytes are those of the
// body; what a reader loses to the ring is not in it.
func BenchmarkStream(b *testing.B) {
	url, client := benchDaemon(b)
	n := 0
	var body int64
	for b.Loop() {
		n++
		benchCall(b, client, "POST", url+"/v1/exec/start", fmt.Sprintf(`{"exec_id":"%d","command":["head","-c","268435456","/dev/zero"]}`, n))
		_, length := benchCall(b, client, "GET", fmt.Sprintf("%s/v1/exec/%d/stream", url, n), "")
		body += length
		benchCall(b, client, "POST", fmt.Sprintf("%s/v1/exec/%d/ack", url, n), "")
	}
	b.ReportMetric(float64(body)*3/4/1e6/b.Elapsed().Seconds(), "MB-output/s")
	b.ReportMetric(float64(body)*3/4/float64(n)/(256<<20), "share-delivered")
}
