package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/daemontest"
)

// FuzzStream feeds arbitrary bytes as an event stream. Whatever they are, the
// client neither panics nor holds too much, what it delivers tiles the offsets
// without overlap or unannounced hole, and only the exit event completes it.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{out(0, "ab") + exit(2), out(1, "x") + gap(0, 9) + out(9, "y"), out(5, "abc") + out(4, "abcdef") + exit(3),
		"event: output\ndata: {\"offset\":18446744073709551615,\"stream\":\"stderr\",\"output\":\"YQ==\"}\n\n", "event:exit\rdata:{}\r\r"} {
		f.Add([]byte(seed), uint64(0))
		f.Add([]byte(seed), uint64(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, offset uint64) {
		s, err := client.New("http://x", "t", client.WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{}, Request: r}, nil
		})}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		st := s.Stream(t.Context(), "x", client.StreamOptions{Offset: offset, NoReconnect: true})
		cursor, ended, exited := offset, false, false
		for ev, err := range st.All() {
			if ended {
				t.Fatal("something comes after the end")
			}
			switch ev := ev.(type) {
			case *client.Output:
				if ev.Offset != cursor || len(ev.Data) == 0 {
					t.Fatalf("output at %d of %d bytes, cursor %d", ev.Offset, len(ev.Data), cursor)
				}
				cursor += uint64(len(ev.Data))
			case *client.Gap:
				if ev.From != cursor || ev.To <= ev.From {
					t.Fatalf("gap [%d, %d), cursor %d", ev.From, ev.To, cursor)
				}
				cursor = ev.To
			case *client.Exit:
				ended, exited = true, true
			default:
				ended = true
				if client.KindOf(err) != client.KindProtocol {
					t.Fatalf("error %v", err)
				}
			}
		}
		if st.Cursor() != cursor || (st.Reason() == client.EndExited) != exited {
			t.Fatalf("cursor %d, delivered up to %d, reason %s", st.Cursor(), cursor, st.Reason())
		}
	})
}

// cutter forwards to a daemon and cuts each stream after some bytes.
func cutter(t *testing.T, endpoint string, after int64) (string, *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	cuts := &atomic.Int64{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Header.Get("Content-Type") == api.MediaSSE {
			r.Body = &cutBody{ReadCloser: r.Body, left: after, cuts: cuts}
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, cuts
}

// cutBody breaks off after some bytes.
type cutBody struct {
	io.ReadCloser
	left int64
	cuts *atomic.Int64
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.cuts.Add(1)
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// A stream that is cut again and again delivers every byte once and in order:
// a command counts, a proxy before the real daemon cuts each stream after 30000
// bytes, a little more than one event can have.
func TestStreamSurvivesCuts(t *testing.T) {
	t.Attr("requirement", "CLIENT-1")
	t.Attr("requirement", "CLIENT-3")
	d := daemon(t)
	endpoint, cuts := cutter(t, d.Endpoint, 30000)
	retry := client.Retry{Delays: []time.Duration{time.Millisecond}, Reconnects: 1000}
	s, err := client.New(endpoint, daemontest.Token, client.WithRetry(retry))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want strings.Builder
	for i := range 100000 {
		fmt.Fprintf(&want, "%d\n", i+1)
	}
	out, err := s.Command(t.Context(), "seq", "100000").Output()
	if err != nil || string(out) != want.String() {
		t.Errorf("%d bytes of %d, error %v", len(out), want.Len(), err)
	}
	if cuts.Load() < 5 {
		t.Errorf("only %d cuts: the test has looked at too little", cuts.Load())
	}
}

// A peer that sends garbage, closes at once or says nothing of HTTP gives a
// retryable transport error, never a panic.
func TestPeersThatSpeakNoHTTP(t *testing.T) {
	t.Attr("requirement", "CLIENT-23")
	for _, answer := range []string{"", "\x00\xff\x00", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "SSH-2.0-x\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, answer)
			conn.Close()
		}()
		s, err := client.New("http://"+l.Addr().String(), "t")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Poll(t.Context(), "x")
		var apiErr *client.APIError
		if client.WireKindOf(err) != client.WireTransport || !client.Retryable(err) || errors.As(err, &apiErr) {
			t.Errorf("%q: %v", answer, err)
		}
		s.Close()
		l.Close()
		<-done
	}
}
