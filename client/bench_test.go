package client_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/client"
)

// instant answers as a daemon whose commands end at once.
func instant(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	code := int32(0)
	switch {
	case r.URL.Path == api.PathExecStart:
		json.NewEncoder(w).Encode(api.StartResponse{ExecID: "x", Phase: api.PhaseRunning})
	case strings.HasSuffix(r.URL.Path, "/ack"):
		json.NewEncoder(w).Encode(api.PollResponse{ExecID: "x", Phase: api.PhaseAcked, Outcome: &api.Outcome{ExitCode: &code}})
	default:
		json.NewEncoder(w).Encode(api.PollResponse{ExecID: "x", Phase: api.PhaseExited, Outcome: &api.Outcome{ExitCode: &code}})
	}
}

// BenchmarkExec compares start, wait and ack by the library with the same three
// requests by plain net/http, over loopback.
func BenchmarkExec(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(instant))
	defer server.Close()
	req := api.StartRequest{ExecID: "x", Command: []string{"true"}}
	b.Run("raw", func(b *testing.B) {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		for b.Loop() {
			body, err := json.Marshal(req)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range []struct {
				method, path string
				body         []byte
			}{{"POST", api.PathExecStart, body}, {"GET", "/v1/exec/x", nil}, {"POST", "/v1/exec/x/ack", nil}} {
				hr, err := http.NewRequest(r.method, server.URL+r.path, bytes.NewReader(r.body))
				if err != nil {
					b.Fatal(err)
				}
				hr.Header.Set("Authorization", "Bearer t")
				hr.Header.Set("Content-Type", "application/json")
				resp, err := tr.RoundTrip(hr)
				if err != nil {
					b.Fatal(err)
				}
				data, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				var out api.PollResponse
				if err == nil {
					err = json.Unmarshal(data, &out)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		s, err := client.New(server.URL, "t")
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			id, err := s.Start(b.Context(), req)
			if err == nil {
				_, err = s.WaitAndAck(b.Context(), id, 0)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStream reads a stream of 16 KiB events over loopback.
func BenchmarkStream(b *testing.B) {
	event := []byte(out(0, strings.Repeat("x", 16<<10)))
	const events = 1024
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range events {
			w.Write(event)
		}
		io.WriteString(w, exit(16<<10))
	}))
	defer server.Close()
	s, err := client.New(server.URL, "t")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.SetBytes(events * 16 << 10)
	for b.Loop() {
		if err := lastError(s.Stream(b.Context(), "x", client.StreamOptions{})); err != nil {
			b.Fatal(err)
		}
	}
}
